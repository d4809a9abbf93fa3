//! Heads on which our reading and that of `httparse` are compared: good ones, cut ones, damaged
//! ones.

use proptest::prelude::*;

use crate::agreement::check;

#[test]
fn a_browsers_request_reads_the_same() {
    check(
        b"GET /wp-content/uploads/2010/03/hello-kitty.jpg HTTP/1.1\r\nHost: www.example.org\r\n\
          User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
          Accept: image/avif,image/webp,*/*;q=0.8\r\nAccept-Encoding: gzip, br\r\n\
          Cookie: wp_ozh_wsa_visits=2; __utma=xxxxxxxxx.1\r\nConnection: keep-alive\r\n\r\n",
    );
}

proptest! {
    #[test]
    fn heads_read_the_same(
        method in "[A-Z]{1,7}",
        target in "/[!-~]{0,30}",
        fields in prop::collection::vec(("[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}", "[\t -~]{0,40}"), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let lines: Vec<_> = fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        let fields = lines.concat();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        check(head.as_bytes());
        check(&head.as_bytes()[..cut.index(head.len())]);
    }
}

#[test]
fn damaged_heads_are_not_understood_differently() {
    let whole = *b"GET /a?b HTTP/1.1\r\nHost: a:80\r\nX-Y: z\r\nAccept:  */* \r\n\r\n";
    for place in 0..whole.len() {
        for byte in 0..=u8::MAX {
            let mut head = whole;
            head[place] = byte;
            check(&head);
        }
    }
}
