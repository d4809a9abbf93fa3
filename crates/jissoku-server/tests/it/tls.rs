//! TLS over real sockets, with external clients.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use jissoku_os::socket::Endpoint;
use jissoku_server::{Files, FilesOptions, Fixed, Limits, Metrics, Settings, TelemetryConfig, Tls};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};

use crate::client::{Target, contract, free_port, fresh_path};

const PATIENCE: Duration = Duration::from_secs(30);
const GET: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LAST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A certificate and its key on disk; removed when dropped.
struct CertificateFiles {
    folder: PathBuf,
    der: CertificateDer<'static>,
}

impl CertificateFiles {
    fn new() -> Self {
        let folder = fresh_path();
        fs::create_dir(&folder).expect("a folder can be made");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
        let files = Self { folder, der: made.cert.der().clone() };
        files.write("crt", "CERTIFICATE", made.cert.der());
        files.write("key", "PRIVATE KEY", &made.signing_key.serialize_der());
        files
    }

    fn write(&self, name: &str, label: &str, der: &[u8]) {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        let text =
            format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"));
        fs::write(self.folder.join(name), text).expect("a file can be written");
    }

    fn settings(&self) -> Settings {
        let tls = Tls::load(&[(&self.folder.join("crt"), &self.folder.join("key"))], &|path| {
            fs::read(path)
        });
        Settings { tls: Some(tls.expect("they belong together")), ..Settings::new(free_port()) }
    }

    fn config(&self, version: &'static SupportedProtocolVersion) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).expect("it is a certificate");
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("the version is known")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

impl Drop for CertificateFiles {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

fn dial(target: &Target) -> TcpStream {
    let Endpoint::Tcp(address) = target.endpoint else { unreachable!("it was given a port") };
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket has one");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket has one");
    stream
}

fn connect(target: &Target, config: &Arc<ClientConfig>) -> Stream {
    let name = ServerName::try_from("localhost").expect("it is a name");
    let client = ClientConnection::new(Arc::clone(config), name).expect("a client");
    StreamOwned::new(client, dial(target))
}

/// All bytes up to a `close_notify`.
fn read_all(stream: &mut Stream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the end is announced");
    text
}

fn check_session(version: &'static SupportedProtocolVersion) {
    let files = CertificateFiles::new();
    let target = Target::start(files.settings(), contract());
    let mut config = files.config(version);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = Arc::new(config);
    for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut stream = connect(&target, &config);
        let post = "POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
        stream.write_all(format!("{GET}{post}{LAST}").as_bytes()).expect("it can be sent");
        let text = read_all(&mut stream);
        let statuses: Vec<_> = text.split("HTTP/1.1 ").skip(1).map(|rest| &rest[..3]).collect();
        assert_eq!(statuses, ["200", "404", "200"], "{text}");
        assert!(text.ends_with("Hello, World!"), "{text}");
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(stream.conn.handshake_kind(), Some(expected));
    }
}

#[test]
fn requests_are_answered_over_tls_13_and_the_second_handshake_is_short() {
    check_session(&TLS13);
}

#[test]
fn requests_are_answered_over_tls_12_and_the_second_handshake_is_short() {
    check_session(&TLS12);
}

#[test]
fn a_connection_persists_between_requests() {
    let files = CertificateFiles::new();
    let target = Target::start(files.settings(), contract());
    let mut stream = connect(&target, &Arc::new(files.config(&TLS13)));
    for _ in 0..20 {
        stream.write_all(GET.as_bytes()).expect("it can be sent");
        let mut seen = Vec::new();
        while !seen.ends_with(b"Hello, World!") {
            let mut bytes = [0; 512];
            let size = stream.read(&mut bytes).expect("an answer comes");
            assert_ne!(size, 0, "it lives");
            seen.extend_from_slice(&bytes[..size]);
        }
    }
}

#[test]
fn a_delayed_response_follows_the_clients_close_notify() {
    let files = CertificateFiles::new();
    let target = Target::start(files.settings(), contract());
    let mut stream = connect(&target, &Arc::new(files.config(&TLS13)));
    let request = "GET /delay?ms=20 HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it can be sent");
    stream.conn.send_close_notify();
    stream.flush().expect("it can be sent");
    assert!(read_all(&mut stream).ends_with("Hello, World!"));
}

/// Each text is a record of its own, and all records are sent at once.
fn send_records(stream: &mut Stream, texts: &[&str]) {
    stream.conn.complete_io(&mut stream.sock).expect("the handshake succeeds");
    let mut segment = Vec::new();
    for text in texts {
        stream.conn.writer().write_all(text.as_bytes()).expect("it is encrypted at once");
        stream.conn.write_tls(&mut segment).expect("memory takes everything");
    }
    stream.sock.write_all(&segment).expect("it can be sent");
}

#[test]
fn requests_in_several_records_of_one_segment_are_answered_in_order() {
    let delayed = "GET /delay?ms=20 HTTP/1.1\r\nHost: a\r\n\r\n";
    let none = "GET /none HTTP/1.1\r\nHost: a\r\n\r\n";
    for version in [&TLS12, &TLS13] {
        let files = CertificateFiles::new();
        let target = Target::start(files.settings(), contract());
        let mut stream = connect(&target, &Arc::new(files.config(version)));
        send_records(&mut stream, &[delayed, none, delayed, none, delayed, LAST]);
        let text = read_all(&mut stream);
        let statuses: Vec<_> = text.split("HTTP/1.1 ").skip(1).map(|rest| &rest[..3]).collect();
        assert_eq!(statuses, ["200", "404", "200", "404", "200", "200"], "{text}");
    }
}

#[test]
fn a_large_file_is_complete() {
    let files = CertificateFiles::new();
    let root = files.folder.join("root");
    fs::create_dir(&root).expect("a folder can be made");
    let body: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    fs::write(root.join("a.bin"), &body).expect("a file can be written");
    let served = Files::open(&root, FilesOptions::default()).expect("the folder is there");
    let target = Target::start(files.settings(), served);
    let mut stream = connect(&target, &Arc::new(files.config(&TLS13)));
    let request = LAST.replace("GET /", "GET /a.bin");
    stream.write_all(request.as_bytes()).expect("it can be sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the end is announced");
    let head = bytes.len() - body.len();
    assert!(bytes[..head].ends_with(b"\r\n\r\n") && bytes[head..] == body);
}

#[test]
fn a_plaintext_request_gets_a_plaintext_400() {
    let files = CertificateFiles::new();
    let target = Target::start(files.settings(), contract());
    let mut client = target.connect();
    client.send(GET);
    let answer = client.answer();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("https://"), "{}", answer.text());
    client.expect_end();
}

#[test]
fn a_unix_socket_does_not_use_tls() {
    let files = CertificateFiles::new();
    let endpoints = vec![Endpoint::Unix(fresh_path())];
    let target = Target::start(Settings { endpoints, ..files.settings() }, contract());
    assert_eq!(target.ask(GET).status, 200);
}

#[test]
fn an_unknown_alpn_protocol_gets_an_alert() {
    let files = CertificateFiles::new();
    let target = Target::start(files.settings(), contract());
    let mut config = files.config(&TLS13);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut stream = connect(&target, &Arc::new(config));
    let error = stream.write_all(GET.as_bytes()).and_then(|()| stream.read(&mut [0]).map(drop));
    let text = error.expect_err("it is refused").to_string();
    assert!(text.contains("NoApplicationProtocol"), "{text}");
}

/// Checks that a slow client is closed, and counted as `kind`.
fn check_deadline(kind: &str, begin: impl FnOnce(&mut TcpStream)) {
    let files = CertificateFiles::new();
    let metrics = Metrics::new(None);
    let telemetry = TelemetryConfig { log: None, metrics: Some(Arc::clone(&metrics)) };
    let limits = Limits { head_ns_max: 1, ..Limits::DEFAULT };
    let settings = Settings { limits, telemetry, ..files.settings() };
    let target = Target::start(settings, contract());
    let mut stream = dial(&target);
    begin(&mut stream);
    // Closed, perhaps by a reset, but not by a timeout.
    if let Err(error) = stream.read_to_end(&mut Vec::new()) {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    }
    let expected = format!("jissoku_deadlines_total{{kind=\"{kind}\"}} 1\n");
    assert!(metrics.text().contains(&expected), "{}", metrics.text());
}

#[test]
fn a_client_without_a_handshake_is_closed() {
    check_deadline("handshake", |_| ());
}

#[test]
fn a_client_that_stops_in_the_handshake_is_closed() {
    check_deadline("handshake", |stream| {
        stream.write_all(&[22, 3, 1, 2, 0, 1]).expect("it can be sent");
    });
}

#[test]
fn stopping_sends_close_notify_to_idle_clients() {
    let files = CertificateFiles::new();
    let limits = Limits { stop_idle_ns: 1, ..Limits::DEFAULT };
    let mut target = Target::start(Settings { limits, ..files.settings() }, contract());
    let mut stream = connect(&target, &Arc::new(files.config(&TLS13)));
    stream.write_all(GET.as_bytes()).expect("it can be sent");
    stream.read_exact(&mut [0; 20]).expect("an answer comes");
    target.stop();
    assert!(read_all(&mut stream).ends_with("Hello, World!"));
    target.running.join();
}

#[test]
fn curl_accepts_the_server() {
    let files = CertificateFiles::new();
    let service = Fixed::new("Hello");
    let target = Target::start(files.settings(), service);
    let Endpoint::Tcp(address) = target.endpoint else { unreachable!("it was given a port") };
    let url = format!("https://localhost:{}/", address.port());
    let resolve = format!("localhost:{}:127.0.0.1", address.port());
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "30", "--resolve", &resolve, "--cacert"])
        .arg(files.folder.join("crt"))
        .args([&url, &url])
        .output();
    match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: there is no curl here");
        }
        output => {
            let output = output.expect("curl runs");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "HelloHello");
        }
    }
}
