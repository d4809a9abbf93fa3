//! A server that has no descriptors left for files: what it knows it answers, the rest is for later.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longer than anything here takes; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// Descriptors that the server may have; it needs three dozen for itself.
const DESCRIPTORS: usize = 56;

/// How often it is asked until a change shows.
const ASKED_MAX: usize = 100_000;

/// A server with few descriptors, and the folder it serves. Both are gone when this is.
struct Served {
    process: Child,
    folder: PathBuf,
    address: String,
}

impl Served {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("jissoku-shortage-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("known"), b"known").expect("a file");
        fs::write(folder.join("large"), vec![b'x'; 100_000]).expect("a file");
        let serve = "serve \"$1\" --workers 1 --listen 127.0.0.1:0 --revalidate 1h";
        let line = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" {serve}");
        let mut process = Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_jissoku")])
            .arg(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut said = String::new();
        let output = process.stdout.take().expect("it says where");
        BufReader::new(output).read_line(&mut said).expect("it says where");
        let address = said.split('/').nth(2).expect("an address").to_owned();
        Self { process, folder, address }
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        BufReader::new(stream)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.process.kill().expect("it is ours");
        self.process.wait().expect("it ends");
        fs::remove_dir_all(&self.folder).expect("it was made here");
    }
}

/// Status and size of an answer.
fn ask(client: &mut BufReader<TcpStream>, path: &str) -> (u16, usize) {
    let request = format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.get_mut().write_all(request.as_bytes()).expect("room to send");
    let mut line = || {
        let mut line = String::new();
        client.read_line(&mut line).expect("a line comes");
        line
    };
    let status = line()[9..12].parse().expect("a status");
    let mut size = 0;
    loop {
        let line = line();
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", value)) => size = value.parse().expect("a size"),
            Some(_) => {}
            None => break,
        }
    }
    client.read_exact(&mut vec![0; size]).expect("the body comes");
    (status, size)
}

#[test]
fn without_descriptors_what_is_known_is_answered_and_the_rest_is_for_later() {
    let served = Served::start();
    let mut client = served.connect();
    assert_eq!(ask(&mut client, "known"), (200, 5));
    assert_eq!(ask(&mut client, "no-0").0, 404);
    let others: Vec<_> = (0..2 * DESCRIPTORS).map(|_| served.connect()).collect();
    let is_short = (1..ASKED_MAX).any(|number| ask(&mut client, &format!("no-{number}")).0 == 503);
    assert!(is_short, "the others have taken all there were");
    assert_eq!(ask(&mut client, "known"), (200, 5));
    assert_eq!(ask(&mut client, "no-0").0, 404);
    assert_eq!(ask(&mut client, "large").0, 503);
    drop(others);
    assert!((0..ASKED_MAX).any(|_| ask(&mut client, "large") == (200, 100_000)), "they have gone");
}
