//! A scripted WebSocket server that notes the frames of its clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;

pub(crate) const PONG: u8 = 10;
pub(crate) const CLOSE: u8 = 8;

/// The reaction to one message.
pub(crate) enum Reply {
    /// Send these bytes.
    Say(Vec<u8>),
    /// Send these bytes, one at a time.
    Stammer(Vec<u8>),
    /// Send these bytes and close.
    SayAndClose(Vec<u8>),
}

/// A frame of a client.
pub(crate) struct ReceivedFrame {
    pub(crate) opcode: u8,
    pub(crate) key: [u8; 4],
    pub(crate) payload: Vec<u8>,
}

/// Makes the response to the handshake from the value of `Sec-WebSocket-Accept`.
type Greeting = Box<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// Makes the reply to the message with this number and payload.
type Script = Box<dyn Fn(u64, &[u8]) -> Reply + Send + Sync>;

struct Shared {
    greeting: Greeting,
    script: Script,
    connections: AtomicU64,
    messages: AtomicU64,
    stopping: AtomicBool,
}

/// A listening server. Dropping it stops it and waits for its connections to end.
pub(crate) struct WebSocketServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
    received: Receiver<ReceivedFrame>,
}

impl WebSocketServer {
    pub(crate) fn new(script: impl Fn(u64, &[u8]) -> Reply + Send + Sync + 'static) -> Self {
        Self::with_greeting(|accept| greeting(accept).into_bytes(), script)
    }

    pub(crate) fn with_greeting(
        greeting: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
        script: impl Fn(u64, &[u8]) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            greeting: Box::new(greeting),
            script: Box::new(script),
            connections: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        });
        let (note, received) = channel();
        let of_thread = Arc::clone(&shared);
        let accepting = spawn(move || {
            let mut talking = Vec::new();
            loop {
                let (stream, _) = listener.accept().expect("a client connects");
                if of_thread.stopping.load(Ordering::SeqCst) {
                    break;
                }
                of_thread.connections.fetch_add(1, Ordering::SeqCst);
                let (shared, note) = (Arc::clone(&of_thread), note.clone());
                talking.push(spawn(move || {
                    let _ended = talk(stream, &shared, &note);
                }));
            }
            for thread in talking {
                thread.join().expect("scripts do not panic");
            }
        });
        Self { address, shared, accepting: Some(accepting), received }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/echo", self.address)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Stops the server, and returns all frames of its clients.
    pub(crate) fn frames(mut self) -> Vec<ReceivedFrame> {
        self.stop();
        self.received.try_iter().collect()
    }

    fn stop(&mut self) {
        if let Some(thread) = self.accepting.take() {
            self.shared.stopping.store(true, Ordering::SeqCst);
            drop(TcpStream::connect(self.address));
            thread.join().expect("the server does not panic");
        }
    }
}

impl Drop for WebSocketServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The response that completes a handshake.
pub(crate) fn greeting(accept: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
}

/// An unmasked frame; `first` is its first byte.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        size @ ..=125 => frame.push(u8::try_from(size).expect("it is small")),
        size @ ..=0xffff => {
            frame.push(126);
            frame.extend(u16::try_from(size).expect("it fits").to_be_bytes());
        }
        size => {
            frame.push(127);
            frame.extend((size as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

/// Serves one connection to its end; the client may close it at any time.
fn talk(mut stream: TcpStream, shared: &Shared, note: &Sender<ReceivedFrame>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let head = read_head(&mut stream)?;
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "))?;
    let hashed = [key, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"].concat();
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, hashed.as_bytes());
    stream.write_all(&(shared.greeting)(&STANDARD.encode(hash))).ok()?;
    loop {
        let (opcode, key, payload) = read_frame(&mut stream)?;
        // The error is ignored: the test may have ended.
        let _sent = note.send(ReceivedFrame { opcode, key, payload: payload.clone() });
        if opcode == CLOSE {
            return None;
        }
        if opcode == PONG {
            continue;
        }
        let number = shared.messages.fetch_add(1, Ordering::SeqCst);
        match (shared.script)(number, &payload) {
            Reply::Say(bytes) => stream.write_all(&bytes).ok()?,
            Reply::Stammer(bytes) => {
                bytes.iter().try_for_each(|&byte| stream.write_all(&[byte])).ok()?;
            }
            Reply::SayAndClose(bytes) => return stream.write_all(&bytes).ok(),
        }
    }
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// Reads a frame, which must be masked: its opcode, key, and payload.
fn read_frame(stream: &mut TcpStream) -> Option<(u8, [u8; 4], Vec<u8>)> {
    let mut header = [0; 2];
    stream.read_exact(&mut header).ok()?;
    assert_eq!((header[0] & 0xf0, header[1] & 0x80), (0x80, 0x80), "one masked frame");
    let size = match header[1] & 0x7f {
        126 => {
            let mut size = [0; 2];
            stream.read_exact(&mut size).ok()?;
            usize::from(u16::from_be_bytes(size))
        }
        127 => {
            let mut size = [0; 8];
            stream.read_exact(&mut size).ok()?;
            usize::try_from(u64::from_be_bytes(size)).expect("it fits")
        }
        size => usize::from(size),
    };
    let (mut key, mut payload) = ([0; 4], vec![0; size]);
    stream.read_exact(&mut key).ok()?;
    stream.read_exact(&mut payload).ok()?;
    payload.iter_mut().zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
    Some((header[0] & 0x0f, key, payload))
}
