//! The server under `strace(1)`, a client, and what the workers were seen to do.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longer than anything here takes; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_mins(1);

/// One finished system call of a worker.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) thread: u32,
    pub(crate) name: String,
    /// What stands between the parentheses, and the result.
    pub(crate) text: String,
    pub(crate) result: String,
}

impl Call {
    pub(crate) fn has_failed(&self) -> bool {
        self.result.starts_with('-')
    }

    /// The descriptor that the call is about.
    pub(crate) fn descriptor(&self) -> &str {
        self.text.split([',', ')']).next().unwrap_or("")
    }
}

/// Whether there is a strace; if not, says so.
pub(crate) fn is_here() -> bool {
    let is_here =
        Command::new("strace").arg("-V").output().is_ok_and(|found| found.status.success());
    if !is_here {
        // The error is ignored: stderr may be closed.
        let _written = writeln!(std::io::stderr(), "skipped: there is no strace");
    }
    is_here
}

/// Runs `jissoku lab serve` with `arguments` under strace, has `play` talk to it, and returns what its workers
/// did in answer, in order.
pub(crate) fn trace(arguments: &[&str], play: impl FnOnce(SocketAddr)) -> Vec<Call> {
    let log = Log::new();
    let strace = Command::new("strace")
        .args(["-f", "-qq", "-s", "64", "-o"])
        .arg(&log.0)
        .arg(env!("CARGO_BIN_EXE_jissoku"))
        .args(["lab", "serve", "--driver", "epoll", "--listen", "127.0.0.1:0"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn();
    let mut server = Server(strace.expect("strace starts"));
    let address = server.address();
    play(address);
    server.stop();
    calls(&log.read())
}

/// A file for what strace writes, as long as this lives.
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("jissoku-trace-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn read(&self) -> String {
        std::fs::read_to_string(&self.0).expect("strace has written")
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

struct Server(Child);

impl Server {
    /// Where it says that it listens.
    fn address(&mut self) -> SocketAddr {
        let stdout = self.0.stdout.take().expect("it was piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("it says something");
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .and_then(|rest| rest.strip_suffix('/'));
        address.expect("it says where it listens").parse().expect("an address")
    }

    /// The server is strace's only child, and strace ends with it.
    fn stop(&mut self) {
        let id = self.0.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let server = children.expect("the kernel lists children").trim().to_owned();
        assert!(server.parse::<u32>().is_ok(), "one child: {server:?}");
        let killed = Command::new("kill").args(["-TERM", &server]).status();
        assert!(killed.expect("kill runs").success());
        assert!(self.0.wait().expect("strace ends").success(), "the server ends well");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a failure only; strace takes the server along (`PTRACE_O_EXITKILL`).
        let _gone = self.0.kill();
    }
}

/// The calls of the workers: of all threads that take connections, from the first to the last one taken or
/// closed.
fn calls(text: &str) -> Vec<Call> {
    let mut calls = all_calls(text);
    let workers: Vec<u32> =
        calls.iter().filter(|call| call.name == "accept4").map(|call| call.thread).collect();
    calls.retain(|call| workers.contains(&call.thread));
    let first = calls.iter().position(|call| call.name == "accept4").unwrap_or(0);
    calls.drain(..first);
    // A worker announces its end with two bytes, and a signal that it happens to catch with one, and a
    // debug build looks at each descriptor before it closes it.
    let is_wakeup = |call: &Call| call.name == "sendto" && ["1", "2"].contains(&&*call.result);
    calls.retain(|call| call.name != "fcntl" && !is_wakeup(call));
    calls
}

/// All finished calls. One that another thread's output interrupted is put together again.
pub(crate) fn all_calls(text: &str) -> Vec<Call> {
    let mut halves: Vec<(u32, String)> = Vec::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let (Ok(thread), rest) = (thread.parse(), rest.trim_start()) else { continue };
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            halves.push((thread, begun.to_owned()));
            continue;
        }
        let whole = match rest.split_once(" resumed>").filter(|_| rest.starts_with("<... ")) {
            Some((_, end)) => {
                let half = halves.iter().position(|half| half.0 == thread);
                half.map(|half| halves.remove(half).1 + end).unwrap_or_default()
            }
            None => rest.to_owned(),
        };
        calls.extend(read(thread, &whole));
    }
    calls
}

fn read(thread: u32, line: &str) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (text, result) = rest.rsplit_once(" = ")?;
    let text = text.trim_end().to_owned();
    Some(Call { thread, name: name.to_owned(), text, result: result.to_owned() })
}

/// Sends `request`, and reads an answer with a Content-Length; `None` when the connection has ended.
pub(crate) fn ask(client: &mut TcpStream, request: &str) -> Option<String> {
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    client.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while !is_whole(&answer) {
        match client.read(&mut byte) {
            Ok(0) => return None,
            Ok(_) => answer.push(byte[0]),
            // A read with a timeout is not begun again by the kernel (`signal(7)`).
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => unreachable!("the answer comes: {error}"),
        }
    }
    Some(String::from_utf8_lossy(&answer).into_owned())
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    length.and_then(|length| length.parse().ok()) == Some(body.len())
}
