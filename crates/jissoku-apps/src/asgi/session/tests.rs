//! A silent client is pinged, and closed if it does not answer.

use super::*;
use crate::environ::AsgiOptions;

const BEGIN_NS: u64 = 1;
const PONG: [u8; 6] = [0x8a, 0x80, 0, 0, 0, 0];
const PING: [u8; 2] = [0x89, 0];

/// Calls `test` with a session that was opened at `BEGIN_NS`.
fn with_session(test: impl FnOnce(&mut Session)) {
    Python::initialize();
    Python::attach(|python| {
        let event_loop = python.import("asyncio").and_then(|it| it.call_method0("new_event_loop"));
        let event_loop = event_loop.expect("a loop");
        let shared = Arc::new(
            Shared::new(python, &event_loop, AsgiOptions::default()).expect("the shared state"),
        );
        let handshake = Handshake { accept: String::new(), compresses: false };
        let mut session = Session::new(&shared, handshake, BEGIN_NS);
        session.state = State::Open;
        test(&mut session);
        event_loop.call_method0("close").expect("it closes");
    });
}

/// What is sent at this time.
fn sent_at(session: &mut Session, now_ns: u64) -> Vec<u8> {
    session.keep_alive(now_ns);
    let mut output = std::mem::take(&mut session.output);
    let mut bytes = vec![0; output.size()];
    let size = output.drain_into(&mut bytes).expect("there is no file");
    bytes.truncate(size);
    bytes
}

#[test]
fn a_client_that_does_not_answer_a_ping_is_closed() {
    with_session(|session| {
        assert!(sent_at(session, BEGIN_NS + PING_NS).is_empty());
        assert_eq!(sent_at(session, BEGIN_NS + PING_NS + 1), PING);
        assert!(sent_at(session, BEGIN_NS + 2 * PING_NS).is_empty());
        assert_eq!(session.state, State::Open);
        let close = sent_at(session, BEGIN_NS + 2 * PING_NS + 1);
        assert_eq!(&close[..4], [0x88, 21, 0x03, 0xf3], "{close:?}");
        assert_eq!(session.state, State::Done);
        let expected = (code::ABNORMAL, "no answer to a ping".to_owned());
        assert_eq!(session.disconnect, Some(expected));
    });
}

#[test]
fn a_client_that_answers_is_pinged_again() {
    with_session(|session| {
        let mut now_ns = BEGIN_NS;
        for _ in 0..3 {
            now_ns += PING_NS + 1;
            assert_eq!(sent_at(session, now_ns), PING);
            session.add_bytes(&PONG);
            assert!(sent_at(session, now_ns).is_empty());
            assert!(sent_at(session, now_ns + PING_NS).is_empty());
        }
        assert_eq!((session.state, &session.disconnect), (State::Open, &None));
    });
}

#[test]
fn a_client_from_which_nothing_is_received_is_not_silent() {
    with_session(|session| {
        session.queued_size = BUFFER_SIZE_MAX + 1;
        let end_ns = BEGIN_NS + 10 * PING_NS;
        assert!(sent_at(session, end_ns).is_empty());
        session.queued_size = 0;
        assert!(sent_at(session, end_ns + PING_NS).is_empty());
        assert_eq!(sent_at(session, end_ns + PING_NS + 1), PING);
        assert_eq!(session.state, State::Open);
    });
}
