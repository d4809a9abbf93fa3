//! Every rule of RFC 9110 section 13 that binds a server, as a table.

use proptest::prelude::*;

use super::*;
use crate::limits::Limits;

const NOW_S: u64 = 1_795_000_000;

/// The validators say `"a"`, or `W/"a"`, and 06 Nov 1994 08:49:37.
fn evaluated(lines: &str, etag: &str) -> Precondition {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let mut reader = crate::head::HeadReader::default();
    let head = reader.read(request.as_bytes(), &Limits::DEFAULT).expect("a good head");
    let fields = head.expect("a whole head").fields(request.as_bytes());
    let validators = Validators { etag: etag.as_bytes(), modified_s: Some(784_111_777) };
    evaluate(fields, &validators, NOW_S)
}

fn check(lines: &[&str], strong: Precondition, weak: Precondition) {
    let text: String = lines.iter().flat_map(|line| [line, "\r\n"]).collect();
    assert_eq!(evaluated(&text, "\"a\""), strong, "{lines:?}, strong");
    assert_eq!(evaluated(&text, "W/\"a\""), weak, "{lines:?}, weak");
}

const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

#[test]
fn tags_are_judged_by_their_rules() {
    use Precondition::{Failed, NotModified, Pass};
    check(&[], Pass, Pass);
    check(&["If-Match: *"], Pass, Pass);
    check(&["If-Match: \"a\""], Pass, Failed);
    check(&["If-Match: \"b\", \"a\""], Pass, Failed);
    check(&["If-Match: \"b\"", "If-Match: \"a\""], Pass, Failed);
    check(&["If-Match: W/\"a\""], Failed, Failed);
    check(&["If-Match: \"b\""], Failed, Failed);
    check(&["If-Match: a"], Failed, Failed);
    check(&["If-Match:"], Failed, Failed);
    check(&["If-None-Match: *"], NotModified, NotModified);
    check(&["If-None-Match: \"a\""], NotModified, NotModified);
    check(&["If-None-Match: W/\"a\""], NotModified, NotModified);
    check(&["If-None-Match: \"b,\",W/\"c\" , ,\"a\""], NotModified, NotModified);
    check(&["If-None-Match: \"b\"", "if-none-match: \"a\""], NotModified, NotModified);
    check(&["If-None-Match: \"b\""], Pass, Pass);
    check(&["If-None-Match: \"b, \\\"a\\\"\""], Pass, Pass);
    check(&["If-None-Match: a"], Pass, Pass);
    check(&["If-None-Match: w/\"a\""], Pass, Pass);
    check(&["If-None-Match: \"b\" \"a\""], Pass, Pass);
    check(&["If-None-Match: \"a"], Pass, Pass);
}

#[test]
fn dates_are_judged_by_their_rules() {
    use Precondition::{Failed, NotModified, Pass};
    let since = |name: &str, date: &str| format!("{name}: {date}");
    let check = |name, date, expected| check(&[&since(name, date)], expected, expected);
    check("If-Modified-Since", BEFORE, Pass);
    check("If-Modified-Since", SAME, NotModified);
    check("If-Modified-Since", AFTER, NotModified);
    check("If-Modified-Since", "Sunday, 06-Nov-94 08:49:37 GMT", NotModified);
    check("If-Modified-Since", "Sun Nov  6 08:49:37 1994", NotModified);
    check("If-Modified-Since", "yesterday", Pass);
    check("If-Unmodified-Since", BEFORE, Failed);
    check("If-Unmodified-Since", SAME, Pass);
    check("If-Unmodified-Since", AFTER, Pass);
    check("If-Unmodified-Since", "yesterday", Pass);
}

#[test]
fn tags_go_before_dates_and_failure_before_knowledge() {
    use Precondition::{Failed, NotModified, Pass};
    let modified = format!("If-Modified-Since: {SAME}");
    let unmodified = format!("If-Unmodified-Since: {BEFORE}");
    check(&[&modified, "If-None-Match: \"b\""], Pass, Pass);
    check(&[&unmodified, "If-Match: *"], Pass, Pass);
    check(&["If-None-Match: *", "If-Match: \"b\""], Failed, Failed);
    check(&["If-None-Match: *", &unmodified], Failed, Failed);
    check(&["If-None-Match: *", "If-Match: *"], NotModified, NotModified);
    check(&[&modified, &modified], Pass, Pass);
}

#[test]
fn a_strong_tag_or_the_same_date_vouches_for_a_part() {
    use Precondition::{NotModified, Pass, PassIgnoringRange};
    check(&["If-Range: \"a\""], Pass, PassIgnoringRange);
    check(&["If-Range: W/\"a\""], PassIgnoringRange, PassIgnoringRange);
    check(&["If-Range: \"b\""], PassIgnoringRange, PassIgnoringRange);
    let dated = |date: &str| format!("If-Range: {date}");
    check(&[&dated(SAME)], Pass, Pass);
    check(&[&dated("Sunday, 06-Nov-94 08:49:37 GMT")], Pass, Pass);
    check(&[&dated(BEFORE)], PassIgnoringRange, PassIgnoringRange);
    check(&[&dated(AFTER)], PassIgnoringRange, PassIgnoringRange);
    check(&[&dated("yesterday")], PassIgnoringRange, PassIgnoringRange);
    check(&[&dated(SAME), &dated(SAME)], PassIgnoringRange, PassIgnoringRange);
    check(&["If-Range: \"a\"", "If-Range: \"a\""], PassIgnoringRange, PassIgnoringRange);
    check(&["If-Range: \"b\"", "If-None-Match: \"a\""], NotModified, NotModified);
}

#[test]
fn a_date_that_cannot_be_relied_on_decides_nothing() {
    for (line, expected) in [
        (format!("If-Modified-Since: {AFTER}"), Precondition::Pass),
        (format!("If-Range: {SAME}"), Precondition::PassIgnoringRange),
        ("If-Range: yesterday".to_owned(), Precondition::PassIgnoringRange),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
        let head = crate::head::HeadReader::default().read(request.as_bytes(), &Limits::DEFAULT);
        let head = head.expect("a good head").expect("a whole head");
        let validators = Validators { etag: b"\"a\"", modified_s: None };
        let outcome = evaluate(head.fields(request.as_bytes()), &validators, NOW_S);
        assert_eq!(outcome, expected, "{line}");
    }
}

proptest! {
    #[test]
    fn a_listed_tag_is_found_wherever_it_stands(
        others in prop::collection::vec("(W/)?\"[!#-~]{0,6}\"", 0..5),
        at in 0..5_usize,
    ) {
        let mut tags = others;
        tags.insert(at.min(tags.len()), "\"the-one\"".to_owned());
        let line = format!("If-None-Match: {}\r\n", tags.join(" , "));
        prop_assert_eq!(evaluated(&line, "\"the-one\""), Precondition::NotModified);
    }

    #[test]
    fn a_tag_that_is_not_listed_is_not_found(tags in prop::collection::vec("(W/)?\"[!#-~]{0,6}\"", 1..5)) {
        let line = format!("If-None-Match: {}\r\n", tags.join(","));
        prop_assert_eq!(evaluated(&line, "\"longer than any\""), Precondition::Pass);
    }
}
