//! Through TLS everything is counted as without, and what TLS itself costs stands apart.

use std::sync::Arc;

use base64::Engine;
use jissoku_load::{
    Expected, Failure, Faults, Outcome, Pace, Plan, Reuse, Sessions, Tls, Trust, Verify,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;

use crate::scripted::{Act, HELLO, Server};
use crate::{lane, measure, plan, try_to_measure};

/// A certificate that has signed itself: what a server shows, and what a client believes.
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

fn secure_plan(server: &Server, requests: u64, trust: &Trust, sessions: Sessions) -> Plan {
    let mut plan = plan(&[server.url()], requests);
    let host = plan.lanes[0].address.host().to_owned();
    plan.lanes[0].tls = Some(Tls::new(&host, trust, sessions).expect("it can be set up"));
    plan
}

fn all_is_well(outcome: &Outcome, requests: u64, connections: u64) {
    let lane = &outcome.lanes[0];
    assert_eq!((lane.tally.requests, lane.tally.faults), (requests, Faults::default()));
    assert_eq!((lane.opened, lane.connect.count()), (connections, connections));
    assert_eq!(lane.handshake.count(), connections);
}

#[test]
fn requests_go_through_tls_in_both_loops() {
    let papers = papers();
    for (pipeline, pace) in [
        (1, Pace::Closed),
        (3, Pace::Closed),
        (1, Pace::Constant { rate_rps: 1_000_000 }),
        (3, Pace::Constant { rate_rps: 1_000_000 }),
    ] {
        let server = Server::secure(&papers.config, |_| Act::Say(HELLO.to_owned()));
        let mut plan = secure_plan(&server, 100, &papers.trust, Sessions::Fresh);
        (plan.pipeline, plan.pace) = (pipeline, pace);
        all_is_well(&measure(&plan), 100, 4);
        assert_eq!((server.requests(), server.connections()), (100, 4));
    }
}

#[test]
fn answers_may_come_in_any_number_of_records() {
    let papers = papers();
    let server = Server::secure(&papers.config, |_| Act::Stammer(HELLO.to_owned()));
    all_is_well(&measure(&secure_plan(&server, 12, &papers.trust, Sessions::Fresh)), 12, 4);
    let body = "0123456789abcdef".repeat(20_000);
    let large = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let server = Server::secure(&papers.config, move |_| Act::Say(large.clone()));
    let mut plan = secure_plan(&server, 12, &papers.trust, Sessions::Fresh);
    plan.lanes[0].shapes[0].expected =
        Expected::new(Verify::All, Vec::new(), Some(body.into_bytes()));
    let outcome = measure(&plan);
    all_is_well(&outcome, 12, 4);
    assert!(outcome.lanes[0].tally.bytes_received > 12 * 320_000, "records are counted");
}

#[test]
fn a_session_is_resumed_if_that_is_wanted() {
    let papers = papers();
    for (sessions, resumed) in [(Sessions::Resumed, 9), (Sessions::Fresh, 0)] {
        let server = Server::secure(&papers.config, |_| Act::Say(HELLO.to_owned()));
        let mut plan = secure_plan(&server, 10, &papers.trust, sessions);
        (plan.connections, plan.reuse) = (1, Reuse::Close);
        let outcome = measure(&plan);
        all_is_well(&outcome, 10, 10);
        assert_eq!(outcome.lanes[0].resumed, resumed, "{sessions:?}");
    }
}

#[test]
fn a_stranger_is_believed_only_if_that_is_wanted() {
    let (papers, others) = (papers(), papers());
    let server = Server::secure(&papers.config, |_| Act::Say(HELLO.to_owned()));
    let refused = try_to_measure(&secure_plan(&server, 4, &others.trust, Sessions::Fresh));
    let Err(Failure::Unreachable { error, .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("certificate"), "{error}");
    assert_eq!(server.requests(), 0);
    all_is_well(&measure(&secure_plan(&server, 4, &Trust::Anybody, Sessions::Fresh)), 4, 4);
}

#[test]
fn a_body_that_anybody_could_have_cut_is_not_whole() {
    let papers = papers();
    let cut = "HTTP/1.1 200 OK\r\n\r\nHello";
    let server = Server::secure(&papers.config, move |_| Act::SayAndClose(cut.to_owned()));
    let outcome = measure(&secure_plan(&server, 6, &papers.trust, Sessions::Fresh));
    let faults = Faults { length: 6, ..Faults::default() };
    assert_eq!((outcome.lanes[0].tally.requests, outcome.lanes[0].tally.faults), (0, faults));
}

#[test]
fn a_duet_may_be_half_in_the_clear() {
    let papers = papers();
    let secure = Server::secure(&papers.config, |_| Act::Say(HELLO.to_owned()));
    let plain = Server::new(|_| Act::Say(HELLO.to_owned()));
    let mut plan = secure_plan(&secure, 50, &papers.trust, Sessions::Resumed);
    plan.lanes.push(lane(&plain.url(), &jissoku_load::Request::default()));
    let outcome = measure(&plan);
    all_is_well(&outcome, 50, 4);
    assert_eq!((outcome.lanes[1].tally.requests, outcome.lanes[1].handshake.count()), (50, 0));
}
