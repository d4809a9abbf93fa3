//! WebSocket messages are measured as requests are: each is sent back, verified and counted.

use std::collections::HashSet;

use jissoku_load::{
    ErrorCounts, Expected, MessageType, OpeningHandshake, Pace, Plan, RequestSpec, Reuse,
    SessionReuse, TargetPlan, Tls, Trust, Verify,
};

use crate::websocket_server::{
    CLOSE, PONG, ReceivedFrame, Reply, WebSocketServer, frame, greeting,
};
use crate::{measure, plan, try_to_measure};

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;

fn target_of(url: &str, message_type: MessageType, payload: &[u8]) -> TargetPlan {
    let address = url.parse().expect("it is a URL");
    let expected = Expected::new(Verify::All, Vec::new(), Some(payload.to_vec()));
    let spec = RequestSpec::message(message_type, payload, expected).expect("it is UTF-8");
    let handshake = OpeningHandshake::new(&address, &[]).expect("it is fine");
    TargetPlan { handshake: Some(handshake), ..TargetPlan::new(address, vec![spec]) }
}

/// A plan for `messages` texts on each of `urls`, over 4 connections.
fn plan_of(urls: &[String], messages: u64) -> Plan {
    let targets = urls.iter().map(|url| target_of(url, MessageType::Text, b"Hello"));
    Plan { targets: targets.collect(), ..plan(urls, messages) }
}

/// The messages that a server received, without control frames.
fn messages(server: WebSocketServer) -> Vec<ReceivedFrame> {
    let mut frames = server.frames();
    frames.retain(|frame| frame.opcode < CLOSE);
    frames
}

fn echo(_: u64, payload: &[u8]) -> Reply {
    Reply::Say(frame(TEXT, payload))
}

#[test]
fn each_message_is_masked_anew_and_its_echo_verified() {
    let server = WebSocketServer::new(echo);
    let target = &measure(&plan_of(&[server.url()], 100)).targets[0];
    assert_eq!((target.counters.requests, target.counters.errors), (100, ErrorCounts::default()));
    assert_eq!((target.opened, target.handshake.count(), server.connections()), (4, 4, 4));
    let frames = messages(server);
    assert_eq!(frames.len(), 100);
    assert!(frames.iter().all(|frame| frame.opcode == 1 && frame.payload == b"Hello"));
    let keys: HashSet<_> = frames.iter().map(|frame| frame.key).collect();
    assert_eq!(keys.len(), 100);
}

#[test]
fn messages_have_due_times_too() {
    let server = WebSocketServer::new(echo);
    let mut plan = plan_of(&[server.url()], 100);
    plan.pace = Pace::constant(2_000);
    let counters = &measure(&plan).targets[0].counters;
    assert_eq!((counters.requests, counters.errors), (100, ErrorCounts::default()));
    assert_eq!((counters.lag.count(), counters.latency.count()), (100, 100));
}

#[test]
fn two_servers_are_loaded_as_a_pair() {
    let servers = [WebSocketServer::new(echo), WebSocketServer::new(echo)];
    let mut plan = plan_of(&servers.each_ref().map(WebSocketServer::url), 60);
    plan.pace = Pace::constant(2_000);
    for (target, server) in measure(&plan).targets.iter().zip(servers) {
        assert_eq!((target.counters.requests, target.counters.errors.total()), (60, 0));
        assert_eq!(messages(server).len(), 60);
    }
}

/// Every fifth of 100 messages gets this reply.
fn one_in_five(reply: impl Fn() -> Reply + Send + Sync + 'static) -> (u64, ErrorCounts) {
    let server = WebSocketServer::new(move |number, payload| match number % 5 {
        4 => reply(),
        _ => echo(number, payload),
    });
    let outcome = measure(&plan_of(&[server.url()], 100));
    (outcome.targets[0].counters.requests, outcome.targets[0].counters.errors)
}

#[test]
fn errors_are_counted_by_kind() {
    let none = ErrorCounts::default();
    let close = frame(0x88, &1001_u16.to_be_bytes());
    for (wire, errors) in [
        (frame(TEXT, b"HellO"), ErrorCounts { body: 20, ..none }),
        (frame(BINARY, b"Hello"), ErrorCounts { body: 20, ..none }),
        (frame(TEXT, b"Hell"), ErrorCounts { length: 20, ..none }),
        (close.clone(), ErrorCounts { closed: 20, ..none }),
        ([frame(0x01, b"He"), close].concat(), ErrorCounts { closed: 20, ..none }),
        (frame(0xc1, b"Hello"), ErrorCounts { malformed: 20, ..none }),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), ErrorCounts { malformed: 20, ..none }),
    ] {
        let say = wire.clone();
        assert_eq!(one_in_five(move || Reply::Say(say.clone())), (80, errors), "{wire:?}");
    }
    for (wire, errors) in [
        (Vec::new(), ErrorCounts { closed: 20, ..none }),
        (b"\x81\x05Hell".to_vec(), ErrorCounts { length: 20, ..none }),
    ] {
        let say = wire.clone();
        assert_eq!(one_in_five(move || Reply::SayAndClose(say.clone())), (80, errors), "{wire:?}");
    }
}

#[test]
fn fragments_and_pings_make_no_difference() {
    let wire = |number: u64| {
        let ping = frame(0x89, &number.to_be_bytes());
        [frame(0x01, b"He"), ping, frame(0x8a, b""), frame(0x80, b"llo")].concat()
    };
    let server = WebSocketServer::new(move |number, _| match number % 2 {
        0 => Reply::Say(wire(number)),
        _ => Reply::Stammer(wire(number)),
    });
    let mut plan = plan_of(&[server.url()], 20);
    plan.connections = 1;
    let target = &measure(&plan).targets[0];
    assert_eq!((target.counters.requests, target.counters.errors), (20, ErrorCounts::default()));
    assert_eq!(target.opened, 1);
    let frames = server.frames();
    let pongs = frames.iter().filter(|frame| frame.opcode == PONG);
    let payloads: Vec<_> = pongs.map(|pong| pong.payload.clone()).collect();
    let expected = (0..20_u64).map(|number| number.to_be_bytes().to_vec());
    // The last ping may come after the run.
    assert!(expected.take(19).eq(payloads.into_iter().take(19)));
}

#[test]
fn an_idle_connection_answers_pings() {
    let server = WebSocketServer::with_greeting(
        |accept| [greeting(accept).as_bytes(), &frame(0x89, b"early")].concat(),
        |_, payload| Reply::Say([frame(TEXT, payload), frame(0x89, b"late")].concat()),
    );
    let mut plan = plan_of(&[server.url()], 10);
    plan.connections = 1;
    let counters = &measure(&plan).targets[0].counters;
    assert_eq!((counters.requests, counters.errors), (10, ErrorCounts::default()));
    let frames = server.frames();
    let pongs = frames.iter().filter(|frame| frame.opcode == PONG);
    let payloads: Vec<_> = pongs.map(|pong| pong.payload.clone()).collect();
    assert!(payloads.contains(&b"early".to_vec()) && payloads.contains(&b"late".to_vec()));
}

#[test]
fn an_unsolicited_message_is_an_error() {
    let server = WebSocketServer::new(|number, payload| match number {
        0 => Reply::Say(frame(TEXT, payload).repeat(2)),
        _ => echo(number, payload),
    });
    let mut plan = plan_of(&[server.url()], 10);
    plan.connections = 1;
    let counters = &measure(&plan).targets[0].counters;
    assert_eq!((counters.requests, counters.errors.malformed), (10, 1));
}

#[test]
fn a_connection_is_closed_after_its_share_of_messages() {
    let server = WebSocketServer::new(echo);
    let mut plan = plan_of(&[server.url()], 100);
    (plan.reuse, plan.connections) = (Reuse::Requests(10), 1);
    let target = &measure(&plan).targets[0];
    assert_eq!((target.counters.requests, target.counters.errors), (100, ErrorCounts::default()));
    assert_eq!((target.opened, server.connections()), (10, 10));
    let frames = server.frames();
    assert_eq!(frames.iter().filter(|frame| frame.opcode == 1).count(), 100);
    // A reset may overtake the close frame.
    assert!(frames.iter().any(|frame| frame.opcode == CLOSE));
}

#[test]
fn a_long_message_is_sent_in_pieces() {
    let payload: Vec<u8> = (0..=250_u8).cycle().take(3 << 20).collect();
    let server = WebSocketServer::new(|_, payload| Reply::Say(frame(BINARY, payload)));
    let mut plan = plan_of(&[server.url()], 12);
    plan.targets = vec![target_of(&server.url(), MessageType::Binary, &payload)];
    let counters = &measure(&plan).targets[0].counters;
    assert_eq!((counters.requests, counters.errors), (12, ErrorCounts::default()));
    let frames = messages(server);
    assert!(frames.len() == 12 && frames.iter().all(|frame| frame.payload == payload));
}

#[test]
fn a_refused_handshake_is_a_failure_to_connect() {
    type Greeting = fn(&str) -> Vec<u8>;
    let greetings: [(Greeting, &str); 4] = [
        (|_| b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec(), "with status 403"),
        (|_| greeting("wrong").into_bytes(), "Sec-WebSocket-Accept"),
        (|_| b"SSH-2.0\r\n\r\n".to_vec(), "malformed"),
        (|_| vec![b' '; 70 * 1024], "malformed"),
    ];
    for (greeting, why) in greetings {
        let server = WebSocketServer::with_greeting(greeting, echo);
        let failure = try_to_measure(&plan_of(&[server.url()], 1)).expect_err("it is refused");
        let text = failure.to_string();
        assert!(text.contains(&server.url()) && text.contains(why), "{text}");
    }
}

#[test]
fn what_excludes_a_websocket_is_refused() {
    let refusal = |change: fn(&mut Plan)| {
        let mut plan = plan_of(&["http://127.0.0.1:1/".to_owned()], 10);
        plan.check().expect("it makes sense before the change");
        change(&mut plan);
        plan.check().expect_err("it makes no sense any more").to_string()
    };
    assert!(refusal(|plan| plan.reuse = Reuse::Close).contains("--no-keepalive"));
    assert!(refusal(|plan| plan.pipeline = 2).contains("--pipeline"));
    assert!(refusal(|plan| plan.targets[0].handshake = None).contains("handshake"));
    let secure = |plan: &mut Plan| {
        let target = target_of("https://localhost/", MessageType::Text, b"");
        let tls = Tls::new("localhost", &Trust::AnyCertificate, SessionReuse::Full);
        plan.targets = vec![TargetPlan { tls: Some(tls.expect("it is fine")), ..target }];
    };
    assert!(refusal(secure).contains("not supported"));
    let expected = || Expected::new(Verify::None, Vec::new(), None);
    assert!(RequestSpec::message(MessageType::Text, b"\xff", expected()).is_err());
    assert!(RequestSpec::message(MessageType::Binary, b"\xff", expected()).is_ok());
}
