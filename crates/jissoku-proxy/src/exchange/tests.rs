use jissoku_http::Limits;
use jissoku_http::head::HeadReader;

use super::*;

#[test]
fn the_time_for_a_head_includes_what_came_before() {
    let head = HeadReader::default().read(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &Limits::DEFAULT);
    let head = head.expect("it is in order").expect("it is whole");
    for (try_ns, now_ns, deadline_ns) in
        [(None, 20, 110), (None, 100, 110), (Some(20), 20, 40), (Some(20), 100, 110)]
    {
        let forwarding = Forwarding { try_ns, ..Forwarding::new(0, 100) };
        let forwarded = (forwarding, Protocol::Http, 0);
        let mut exchange = Exchange::new(ConnectionId::default(), &head, forwarded, false);
        assert!(exchange.begin(10) && !exchange.begin(11), "once for all tries");
        assert_eq!(exchange.head_deadline_ns(now_ns), deadline_ns, "{try_ns:?} {now_ns}");
    }
}
