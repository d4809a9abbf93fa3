//! Agreement with `httparse`, which others wrote: where both accept a head, they read the same.
//!
//! We refuse more than it does: it leaves framing and Host to its caller, and forgives bare LF.

use jissoku_http::Limits;
use jissoku_http::head::HeadReader;
use proptest::prelude::*;

fn check(bytes: &[u8]) {
    let ours = HeadReader::default().read(bytes, &Limits::DEFAULT);
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut theirs = httparse::Request::new(&mut fields);
    let outcome = theirs.parse(bytes);
    match ours {
        // A later minor version is read as the latest we know (RFC 9110 section 2.5); httparse refuses it.
        Ok(Some(head)) if outcome == Err(httparse::Error::Version) => {
            let line = &bytes[..head.target.of(bytes).len() + head.method_name.of(bytes).len() + 9];
            assert!(line.ends_with(b" HTTP/1."), "{:?}", String::from_utf8_lossy(bytes));
        }
        Ok(Some(head)) => {
            assert_eq!(outcome, Ok(httparse::Status::Complete(head.size as usize)));
            assert_eq!(theirs.method.map(str::as_bytes), Some(head.method_name.of(bytes)));
            assert_eq!(theirs.path.map(str::as_bytes), Some(head.target.of(bytes)));
            let theirs = theirs.headers.iter().map(|field| (field.name.as_bytes(), field.value));
            assert!(theirs.eq(head.fields(bytes)), "{:?}", String::from_utf8_lossy(bytes));
        }
        // Here we want more; it must not have refused, nor be done.
        Ok(None) => assert_eq!(outcome, Ok(httparse::Status::Partial)),
        Err(_) => {}
    }
}

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
