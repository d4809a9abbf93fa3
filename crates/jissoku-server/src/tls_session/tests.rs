//! Sessions without sockets: every split of the bytes, and a slow client.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use jissoku_os::driver::{Action, ConnectionId, SendBuffer};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;
use crate::connection_limiter::Permit;
use crate::fixed::Fixed;
use crate::limits::Limits;
use crate::telemetry::Telemetry;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A certificate and its key; the files are removed when dropped.
pub(crate) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    client: Arc<ClientConfig>,
}

impl CertificateFiles {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = |kind| format!("jissoku-tls-{}-{number}.{kind}", std::process::id());
        let place = |kind| std::env::temp_dir().join(path(kind));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
        let client = Arc::new(config(made.cert.der()));
        let files = Self { certificate: place("crt"), key: place("key"), client };
        write(&files.certificate, "CERTIFICATE", made.cert.der());
        write(&files.key, "PRIVATE KEY", &made.signing_key.serialize_der());
        files
    }

    pub(crate) fn load(&self) -> Tls {
        Tls::load(&[(&self.certificate, &self.key)], &|path| fs::read(path))
            .expect("they belong together")
    }

    pub(crate) fn client(&self) -> ClientConnection {
        let name = ServerName::try_from("localhost").expect("it is a name");
        ClientConnection::new(Arc::clone(&self.client), name).expect("a client")
    }
}

fn config(der: &CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(der.clone()).expect("it is a certificate");
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("the versions are known")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

impl Drop for CertificateFiles {
    fn drop(&mut self) {
        for path in [&self.certificate, &self.key] {
            let _gone = fs::remove_file(path);
        }
    }
}

fn write(path: &Path, label: &str, der: &[u8]) {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let text = format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n");
    fs::write(path, text).expect("a file can be written");
}

fn context(text: &str) -> WorkerContext<Arc<Fixed>> {
    WorkerContext::new(Arc::new(Fixed::new(text)), Limits::DEFAULT, Telemetry::default(), 0)
}

/// Reads all output, as a socket does.
fn drain(output: &mut SendBuffer) -> Vec<u8> {
    let mut bytes = vec![0; output.size()];
    assert_eq!(output.drain_into(&mut bytes).expect("it is all in memory"), bytes.len());
    bytes
}

fn outgoing(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).expect("memory takes everything");
    }
    bytes
}

/// Passes bytes to the client, and returns the plaintext.
fn incoming(client: &mut ClientConnection, mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).expect("there is room");
        let state = client.process_new_packets().expect("the server is in order");
        let size = plain.len();
        plain.resize(size + state.plaintext_bytes_to_read(), 0);
        client.reader().read_exact(&mut plain[size..]).expect("so much is there");
    }
    plain
}

/// A complete session, whose bytes to the server are split by `cut`.
fn log_slot(
    files: &CertificateFiles,
    context: &mut WorkerContext<Arc<Fixed>>,
    cut: impl Fn(&[u8]) -> Vec<&[u8]>,
) -> (usize, Vec<u8>) {
    let mut client = files.client();
    let mut session = TlsSession::new(
        &files.load(),
        Connection::new(ConnectionId::default(), Permit::default(), (), 0),
        0,
    );
    client.writer().write_all(REQUEST).expect("it waits for the handshake");
    let (mut sent, mut plain) = (0, Vec::new());
    while client.wants_write() {
        let flight = outgoing(&mut client);
        sent += flight.len();
        let mut output = SendBuffer::default();
        for piece in cut(&flight).into_iter().filter(|piece| !piece.is_empty()) {
            assert_eq!(session.on_data(piece, context, &mut output), Action::Receive);
        }
        plain.extend(incoming(&mut client, &drain(&mut output)));
    }
    (sent, plain)
}

#[test]
fn the_response_is_independent_of_splits() {
    let files = CertificateFiles::new();
    let context = &mut context("Hello");
    let (size, whole) = log_slot(&files, context, |flight| vec![flight]);
    assert!(whole.starts_with(b"HTTP/1.1 200 OK\r\n") && whole.ends_with(b"\r\n\r\nHello"));
    let (_, bytewise) = log_slot(&files, context, |flight| flight.chunks(1).collect());
    assert_eq!(bytewise, whole);
    for at in 0..size {
        let (_, found) = log_slot(&files, context, |flight| {
            let (before, after) = flight.split_at(at.min(flight.len()));
            vec![before, after]
        });
        assert_eq!(found, whole, "cut at {at}");
    }
}

#[test]
fn a_slow_client_has_little_encrypted_ahead() {
    let files = CertificateFiles::new();
    let text = "0123456789abcdef".repeat(128 * 1024);
    let context = &mut context(&text);
    let mut client = files.client();
    let mut session = TlsSession::new(
        &files.load(),
        Connection::new(ConnectionId::default(), Permit::default(), (), 0),
        0,
    );
    let mut output = SendBuffer::default();
    session.on_data(&outgoing(&mut client), context, &mut output);
    incoming(&mut client, &drain(&mut output));
    client.writer().write_all(REQUEST).expect("it is encrypted at once");
    let mut next = session.on_data(&outgoing(&mut client), context, &mut output);
    let mut plain = Vec::new();
    let mut turns = 0;
    while next == Action::Yield {
        // A tick without sent bytes adds nothing.
        let waiting = output.size();
        assert!(waiting <= 256 * 1024 + 17 * 1024, "{waiting} bytes");
        assert_eq!(session.resume(waiting, context, &mut SendBuffer::default()), Action::Yield);
        plain.extend(incoming(&mut client, &drain(&mut output)));
        next = session.resume(0, context, &mut output);
        turns += 1;
    }
    plain.extend(incoming(&mut client, &drain(&mut output)));
    assert_eq!(next, Action::Receive);
    assert_eq!(turns, text.len() / (256 * 1024));
    assert!(plain.ends_with(text.as_bytes()));
}

#[test]
fn a_close_notify_is_answered_by_one() {
    let files = CertificateFiles::new();
    let context = &mut context("Hello");
    let mut client = files.client();
    let mut session = TlsSession::new(
        &files.load(),
        Connection::new(ConnectionId::default(), Permit::default(), (), 0),
        0,
    );
    let mut output = SendBuffer::default();
    session.on_data(&outgoing(&mut client), context, &mut output);
    incoming(&mut client, &drain(&mut output));
    client.writer().write_all(REQUEST).expect("it is encrypted at once");
    client.send_close_notify();
    assert_eq!(session.on_data(&outgoing(&mut client), context, &mut output), Action::Close);
    assert!(incoming(&mut client, &drain(&mut output)).ends_with(b"Hello"));
    assert_eq!(client.reader().read(&mut [0]).expect("the end is an end"), 0);
}

#[test]
fn invalid_input_is_answered_with_an_alert_and_discarded() {
    let files = CertificateFiles::new();
    let context = &mut context("Hello");
    let mut session = TlsSession::new(
        &files.load(),
        Connection::new(ConnectionId::default(), Permit::default(), (), 0),
        0,
    );
    let mut output = SendBuffer::default();
    assert_eq!(
        session.on_data(b"\x16\x03\x01\xff\xff!", context, &mut output),
        Action::ShutdownWrite
    );
    assert_eq!(drain(&mut output)[0], 21, "an alert");
    assert_eq!(
        session.on_data(b"GET / HTTP/1.1\r\n\r\n", context, &mut output),
        Action::ShutdownWrite
    );
    assert!(output.is_empty());
}

fn refusal(certificate: &Path, key: &Path) -> String {
    Tls::load(&[(certificate, key)], &|path| fs::read(path)).expect_err("it cannot be used")
}

#[test]
fn unusable_files_are_named() {
    let (files, others) = (CertificateFiles::new(), CertificateFiles::new());
    let nowhere = Path::new("/nowhere/at/all");
    assert!(refusal(nowhere, &files.key).starts_with("cannot read /nowhere/at/all: "));
    assert!(refusal(&files.certificate, nowhere).starts_with("cannot read /nowhere/at/all: "));
    assert!(refusal(&files.key, &files.key).contains(".key holds no certificate"));
    assert!(refusal(&files.certificate, &files.certificate).contains(".crt holds no private key"));
    assert!(refusal(&files.certificate, &others.key).contains("does not belong to"));
    write(&others.key, "PRIVATE KEY", b"nonsense");
    assert!(refusal(&files.certificate, &others.key).contains(".key for TLS: "));
    write(&others.certificate, "CERTIFICATE", b"nonsense");
    assert!(refusal(&others.certificate, &files.key).contains(".crt for TLS: "));
    fs::write(&others.certificate, "-----BEGIN CERTIFICATE-----\n").expect("a file can be written");
    assert!(refusal(&others.certificate, &files.key).contains("holds no certificate"));
}
