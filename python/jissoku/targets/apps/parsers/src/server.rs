//! The server around the parsers: one loop for each worker, and the same bookkeeping for everybody.
//!
//! Bytes are received into the worker's buffer. A connection owns bytes only while a request has begun
//! and is not complete, and while answers wait for room.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::parser::Parser;
use crate::reader::Reader;

const BUFFER_SIZE: usize = 64 * 1024;

const EVENTS: usize = 512;
const BACKLOG: i32 = 4096;

/// Where to listen.
#[derive(Clone)]
pub enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Place {
    fn listen(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match self {
            Self::Tcp(address) => {
                let family =
                    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
                sockopt::set_socket_reuseaddr(&socket, true)?;
                sockopt::set_socket_reuseport(&socket, true)?;
                // Connections inherit it.
                sockopt::set_tcp_nodelay(&socket, true)?;
                net::bind(&socket, address)?;
                net::listen(&socket, BACKLOG)?;
                Ok(socket)
            }
            Self::Unix(path) => {
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(listener.into())
            }
        }
    }

    /// Another listener at the same place; a path has one, which the workers share.
    fn again(&self, first: &OwnedFd) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(_) => self.listen(),
            Self::Unix(_) => first.try_clone(),
        }
    }
}

/// Answers until the process is ended.
pub fn serve<P: Parser>(place: &Place, workers: usize) -> io::Result<()> {
    let first = place.listen()?;
    let place = match place {
        Place::Tcp(_) => Place::Tcp(TcpListener::from(first.try_clone()?).local_addr()?),
        Place::Unix(path) => Place::Unix(path.clone()),
    };
    let others = (1..workers).map(|_| place.again(&first)).collect::<io::Result<Vec<_>>>()?;
    match &place {
        Place::Tcp(address) => println!("listening on http://{address}/"),
        Place::Unix(path) => println!("listening on unix:{}", path.display()),
    }
    thread::scope(|scope| {
        let workers: Vec<_> = [first]
            .into_iter()
            .chain(others)
            .map(|listener| scope.spawn(move || Worker::<P>::new()?.run(&listener)))
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })
}

struct Connection<P> {
    socket: OwnedFd,
    reader: Reader<P>,
    /// Answers that the kernel would not take yet.
    unsent: Vec<u8>,
}

/// What is to happen with a connection after an event.
#[derive(PartialEq, Eq)]
enum Fate {
    Stays,
    Ends,
}

struct Worker<P> {
    epoll: OwnedFd,
    connections: Vec<Option<Connection<P>>>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl<P: Parser> Worker<P> {
    fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            buffer: Vec::with_capacity(BUFFER_SIZE),
            out: Vec::with_capacity(BUFFER_SIZE),
        })
    }

    fn run(mut self, listener: &OwnedFd) -> io::Result<()> {
        let listens = epoll::EventData::new_u64(number(listener));
        epoll::add(&self.epoll, listener, listens, epoll::EventFlags::IN)?;
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let token = event.data.u64();
                if token == number(listener) {
                    self.accept(listener)?;
                } else {
                    self.heed(usize::try_from(token).unwrap_or(usize::MAX));
                }
            }
        }
    }

    fn accept(&mut self, listener: &OwnedFd) -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        while let Ok(socket) = net::accept_with(listener, flags) {
            let token = number(&socket);
            let index = usize::try_from(token).unwrap_or(usize::MAX);
            epoll::add(
                &self.epoll,
                &socket,
                epoll::EventData::new_u64(token),
                epoll::EventFlags::IN,
            )?;
            if self.connections.len() <= index {
                self.connections.resize_with(index + 1, || None);
            }
            self.connections[index] =
                Some(Connection { socket, reader: Reader::new(), unsent: Vec::new() });
        }
        Ok(())
    }

    #[inline]
    fn heed(&mut self, index: usize) {
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        let fate = if connection.unsent.is_empty() {
            self.buffer.clear();
            self.out.clear();
            connection.exchange(&mut self.buffer, &mut self.out, &self.epoll)
        } else {
            connection.finish(&self.epoll)
        };
        if fate == Fate::Ends {
            self.connections[index] = None;
        }
    }
}

impl<P: Parser> Connection<P> {
    /// One receive, one send.
    #[inline]
    fn exchange(&mut self, buffer: &mut Vec<u8>, out: &mut Vec<u8>, epoll: &OwnedFd) -> Fate {
        match net::recv(&self.socket, spare_capacity(buffer), RecvFlags::empty()) {
            Ok((0, _)) => return Fate::Ends,
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Fate::Stays,
            Err(_) => return Fate::Ends,
        }
        self.reader.feed(buffer, out);
        if out.is_empty() {
            return Fate::Stays;
        }
        match net::send(&self.socket, out, SendFlags::NOSIGNAL) {
            Ok(size) if size == out.len() => self.fate(),
            Ok(size) => self.wait(&out[size..], epoll),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => self.wait(out, epoll),
            Err(_) => Fate::Ends,
        }
    }

    fn fate(&self) -> Fate {
        if self.reader.is_last {
            // The client still reads what was sent; what it sends is not looked at.
            let _closed = net::shutdown(&self.socket, net::Shutdown::Write);
        }
        if self.reader.is_last { Fate::Ends } else { Fate::Stays }
    }

    #[cold]
    fn wait(&mut self, rest: &[u8], epoll: &OwnedFd) -> Fate {
        self.unsent.extend_from_slice(rest);
        self.watch(epoll, epoll::EventFlags::OUT)
    }

    /// Sends the rest when there is room, and goes back to receiving when all has gone.
    #[cold]
    fn finish(&mut self, epoll: &OwnedFd) -> Fate {
        match net::send(&self.socket, &self.unsent, SendFlags::NOSIGNAL) {
            Ok(size) => drop(self.unsent.drain(..size)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => return Fate::Ends,
        }
        if !self.unsent.is_empty() {
            return Fate::Stays;
        }
        match self.fate() {
            Fate::Stays => self.watch(epoll, epoll::EventFlags::IN),
            Fate::Ends => Fate::Ends,
        }
    }

    fn watch(&self, epoll: &OwnedFd, wanted: epoll::EventFlags) -> Fate {
        let data = epoll::EventData::new_u64(number(&self.socket));
        match epoll::modify(epoll, &self.socket, data, wanted) {
            Ok(()) => Fate::Stays,
            Err(_) => Fate::Ends,
        }
    }
}

fn number(descriptor: &impl AsFd) -> u64 {
    u64::try_from(descriptor.as_fd().as_raw_fd()).unwrap_or(u64::MAX)
}
