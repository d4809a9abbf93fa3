//! With TLS the counts are the same as without, and handshakes are measured separately.

use std::sync::Arc;

use base64::Engine;
use jissoku_load::{
    ErrorCounts, Expected, Outcome, Pace, Plan, Reuse, RunError, SessionReuse, Tls, Trust, Verify,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan, target, try_to_measure};

/// A self-signed certificate, for the server and as the client's authority.
struct Papers {
    config: Arc<ServerConfig>,
    trust: Trust,
}

fn papers() -> Papers {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a key can be made");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("it is a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the versions are known")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("they belong together");
    let text = base64::engine::general_purpose::STANDARD.encode(made.cert.der());
    let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    Papers { config: Arc::new(config), trust: Trust::Authorities(pem.into_bytes()) }
}

fn secure_plan(server: &Server, requests: u64, trust: &Trust, sessions: SessionReuse) -> Plan {
    let mut plan = plan(&[server.url()], requests);
    let host = plan.targets[0].address.host().to_owned();
    plan.targets[0].tls = Some(Tls::new(&host, trust, sessions).expect("it can be set up"));
    plan
}

fn all_is_well(outcome: &Outcome, requests: u64, connections: u64) {
    let target = &outcome.targets[0];
    assert_eq!(
        (target.counters.requests, target.counters.errors),
        (requests, ErrorCounts::default())
    );
    assert_eq!((target.opened, target.connect.count()), (connections, connections));
    assert_eq!(target.handshake.count(), connections);
}

#[test]
fn requests_go_through_tls_in_both_loops() {
    let papers = papers();
    for (pipeline, pace) in [
        (1, Pace::Closed),
        (3, Pace::Closed),
        (1, Pace::constant(1_000_000)),
        (3, Pace::constant(1_000_000)),
    ] {
        let server = Server::secure(&papers.config, |_| Act::Say(HELLO.to_owned()));
        let mut plan = secure_plan(&server, 100, &papers.trust, SessionReuse::Full);
        (plan.pipeline, plan.pace) = (pipeline, pace);
        all_is_well(&measure(&plan), 100, 4);
        assert_eq!((server.requests(), server.connections()), (100, 4));
    }
}

#[test]
fn responses_may_span_tls_records() {
    let papers = papers();
    let server = Server::secure(&papers.config, |_| Act::Stammer(HELLO.to_owned()));
    all_is_well(&measure(&secure_plan(&server, 12, &papers.trust, SessionReuse::Full)), 12, 4);
    let body = "0123456789abcdef".repeat(20_000);
    let large = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let server = Server::secure(&papers.config, move |_| Act::Say(large.clone()));
    let mut plan = secure_plan(&server, 12, &papers.trust, SessionReuse::Full);
    plan.targets[0].specs[0].expected =
        Expected::new(Verify::All, Vec::new(), Some(body.into_bytes()));
    let outcome = measure(&plan);
    all_is_well(&outcome, 12, 4);
    assert!(outcome.targets[0].counters.bytes_received > 12 * 320_000, "records are counted");
}

#[test]
fn sessions_are_resumed_if_configured() {
    let papers = papers();
    for (sessions, resumed) in [(SessionReuse::Resume, 9), (SessionReuse::Full, 0)] {
        let server = Server::secure(&papers.config, |_| Act::Say(HELLO.to_owned()));
        let mut plan = secure_plan(&server, 10, &papers.trust, sessions);
        (plan.connections, plan.reuse) = (1, Reuse::Close);
        let outcome = measure(&plan);
        all_is_well(&outcome, 10, 10);
        assert_eq!(outcome.targets[0].resumed, resumed, "{sessions:?}");
    }
}

#[test]
fn an_unknown_certificate_is_accepted_only_if_configured() {
    let (papers, others) = (papers(), papers());
    let server = Server::secure(&papers.config, |_| Act::Say(HELLO.to_owned()));
    let refused = try_to_measure(&secure_plan(&server, 4, &others.trust, SessionReuse::Full));
    let Err(RunError::Unreachable { error, .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("certificate"), "{error}");
    assert_eq!(server.requests(), 0);
    all_is_well(
        &measure(&secure_plan(&server, 4, &Trust::AnyCertificate, SessionReuse::Full)),
        4,
        4,
    );
}

#[test]
fn a_body_truncated_before_close_notify_is_an_error() {
    let papers = papers();
    let cut = "HTTP/1.1 200 OK\r\n\r\nHello";
    let server = Server::secure(&papers.config, move |_| Act::SayAndClose(cut.to_owned()));
    let outcome = measure(&secure_plan(&server, 6, &papers.trust, SessionReuse::Full));
    let errors = ErrorCounts { length: 6, ..ErrorCounts::default() };
    assert_eq!(
        (outcome.targets[0].counters.requests, outcome.targets[0].counters.errors),
        (0, errors)
    );
}

#[test]
fn targets_may_differ_in_tls() {
    let papers = papers();
    let secure = Server::secure(&papers.config, |_| Act::Say(HELLO.to_owned()));
    let plain = Server::new(|_| Act::Say(HELLO.to_owned()));
    let mut plan = secure_plan(&secure, 50, &papers.trust, SessionReuse::Resume);
    plan.targets.push(target(&plain.url(), &jissoku_load::Request::default()));
    let outcome = measure(&plan);
    all_is_well(&outcome, 50, 4);
    assert_eq!(
        (outcome.targets[1].counters.requests, outcome.targets[1].handshake.count()),
        (50, 0)
    );
}
