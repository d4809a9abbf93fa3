use super::*;

fn step(exchange: &mut Exchange, bytes: &[u8]) -> Step {
    exchange.step(bytes, &Limits::DEFAULT).expect("the bytes are in order")
}

#[test]
fn a_request_with_a_body_ends_of_its_own() {
    let mut exchange = Exchange::new();
    let bytes = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhiGET";
    let head = step(&mut exchange, bytes);
    assert_eq!(head.used, bytes.len() - 5);
    assert!(matches!(head.event, Event::Head(_)));
    assert!(!exchange.is_in_head());
    assert_eq!(step(&mut exchange, b"h"), Step { used: 1, event: Event::Body(0..1) });
    assert_eq!(step(&mut exchange, b""), Step { used: 0, event: Event::Partial });
    assert_eq!(step(&mut exchange, b"iGET"), Step { used: 1, event: Event::Body(0..1) });
    assert_eq!(step(&mut exchange, b"GET"), Step { used: 0, event: Event::End });
    assert!(exchange.is_in_head());
    assert_eq!(step(&mut exchange, b"GET"), Step { used: 0, event: Event::Partial });
}

#[test]
fn lines_that_were_read_are_not_read_again() {
    let mut exchange = Exchange::new();
    let first = b"GET /first HTTP/1.1\r\nHost: a\r\n";
    assert_eq!(step(&mut exchange, first), Step { used: 0, event: Event::Partial });
    // The caller must give the same bytes again; other ones show what is not looked at.
    let second = b"XXX /first HTTP/1.1\r\nYYYY: a\r\n\r\n";
    assert!(matches!(step(&mut exchange, second).event, Event::Head(_)));
}

#[test]
fn it_is_small_enough_for_ten_thousand() {
    assert!(size_of::<Exchange>() <= 160, "{} bytes", size_of::<Exchange>());
}
