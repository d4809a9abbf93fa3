//! Each kind of error has an example, and each response is counted by its status.

use jissoku_load::report::{Format, TargetReport};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan, summarise};

/// The report on a server that answers the first request rightly and the second one with `act`.
fn after_one(act: impl Fn() -> Act + Send + Sync + 'static) -> TargetReport {
    let server = Server::new(move |place| match place.overall {
        0 | 2.. => Act::Say(HELLO.to_owned()),
        1 => act(),
    });
    let mut plan = plan(&[server.url()], 4);
    (plan.connections, plan.timeout_ns) = (1, 500_000_000);
    let mut report = summarise(&plan, &measure(&plan));
    let target = report.targets.remove(0);
    assert_eq!(target.requests, 3, "{target:?}");
    let text = target.error_examples[0].address.clone();
    assert!(server.url().contains(&text), "{text}");
    target
}

/// What a server may do, and the kind and the message of the error.
type Case = (fn() -> Act, &'static str, &'static str);

const CASES: [Case; 9] = [
    (
        || {
            Act::Say(
                HELLO.replace("200 OK", "503 Busy").replace("Content", "Retry-After: 1\r\nContent"),
            )
        },
        "status",
        "HTTP/1.1 503 Busy; Retry-After: 1; Content-Length: 5",
    ),
    (
        || Act::Stammer(HELLO.replace("200 OK", "404 No")),
        "status",
        "HTTP/1.1 404 No; Content-Length: 5",
    ),
    (
        || Act::SayAndClose("HTTP/1.1 500 \u{e9}\"\r\n\r\n".to_owned()),
        "status",
        r#"HTTP/1.1 500 \xc3\xa9""#,
    ),
    (
        || Act::Say(HELLO.replace("5\r\n\r\nHello", "4\r\n\r\nHell")),
        "length",
        "status 200, a body of 4 bytes in place of 5",
    ),
    (
        || Act::SayAndClose(HELLO.replace("Hello", "Hel")),
        "length",
        "the connection ended within the body",
    ),
    (
        || Act::Say(HELLO.replace("Hello", "HellO")),
        "body",
        "status 200, a body of 5 bytes with other content",
    ),
    (|| Act::Say("Bye\r\n\r\n".to_owned()), "malformed", "Bye"),
    (
        || Act::SayAndClose(String::new()),
        "closed",
        "the server closed the connection without a response",
    ),
    (|| Act::Ignore, "timeout", "no complete response within the timeout"),
];

#[test]
fn each_error_has_an_example() {
    for (act, kind, message) in CASES {
        let target = after_one(act);
        let examples: Vec<(&str, &str)> =
            target.error_examples.iter().map(|found| (found.kind, &*found.message)).collect();
        assert_eq!(examples, [(kind, message)]);
        assert_eq!(target.error_examples[0].request.as_deref(), Some("GET"));
        assert_eq!(target.errors.of(kind), 1);
    }
}

#[test]
fn only_the_first_error_of_a_kind_is_kept() {
    let server = Server::new(|place| match place.overall {
        0 => Act::Say(HELLO.to_owned()),
        number => Act::Say(HELLO.replace("200", &(500 + number).to_string())),
    });
    let mut plan = plan(&[server.url()], 9);
    plan.connections = 1;
    let report = summarise(&plan, &measure(&plan));
    let target = &report.targets[0];
    assert!(target.error_examples[0].message.starts_with("HTTP/1.1 501 OK"), "{target:?}");
    assert_eq!(target.error_examples.len(), 1);
    let statuses: Vec<(u16, u64)> =
        [200].into_iter().chain(501..=508).map(|code| (code, 1)).collect();
    assert_eq!(target.statuses.clone().into_iter().collect::<Vec<_>>(), statuses);
    let page = report.to_string();
    assert!(page.contains("\n  Statuses: 200 1, 501 1, 502 1, 503 1, 504 1"), "{page}");
    assert!(page.contains(" s: HTTP/1.1 501 OK; Content-Length: 5\n"), "{page}");
}

#[test]
fn every_format_has_statuses_errors_and_the_first_byte() {
    let server = Server::new(|place| match place.overall {
        0..8 => Act::Say(HELLO.to_owned()),
        _ => Act::Say(HELLO.replace("200 OK", "503 `B`")),
    });
    let mut plan = plan(&[server.url()], 10);
    plan.connections = 1;
    let report = summarise(&plan, &measure(&plan));
    for (format, expected) in [
        (Format::Csv, ",status_200,8,,,,,,\n"),
        (Format::Csv, ",status_503,2,,,,,,\n"),
        (Format::Csv, ",errors_status,2,,,,,,\n"),
        (Format::Csv, ",first_byte_p99_ns,"),
        (Format::OpenMetrics, "status=\"503\"} 2\n"),
        (Format::OpenMetrics, "kind=\"status\"} 2\n"),
        (Format::OpenMetrics, "jissoku_first_byte_seconds_count{"),
        (Format::Github, "\n\n* 2 x `status after "),
        (Format::Github, "GET: HTTP/1.1 503 'B'; Content-Length: 5`\n"),
        (Format::Json, "\"statuses\":{\"200\":8,\"503\":2}"),
        (Format::Json, "\"error_examples\":[{\"kind\":\"status\",\"at_ns\":"),
        (Format::Json, "\"first_byte_ns\":{\"p50\":"),
        (Format::Human, "\n  Statuses: 200 8, 503 2\n  Errors: status 2; --expect-status"),
        (Format::Human, "\n  First byte "),
    ] {
        let page = report.write_as(format).expect("it can be written");
        assert!(page.contains(expected), "{expected:?} in {page}");
    }
}

#[test]
fn the_first_byte_comes_before_the_last_and_is_counted_once() {
    for act in [Act::Say as fn(String) -> Act, Act::Stammer] {
        let server = Server::new(move |_| act(HELLO.to_owned()));
        let outcome = measure(&plan(&[server.url()], 50));
        let counters = &outcome.targets[0].counters;
        let first = counters.first_byte();
        assert_eq!((first.count(), counters.service.count()), (50, 50));
        let is_earlier = first.sum_ns() < counters.service.sum_ns();
        let comes_in_parts = matches!(act(String::new()), Act::Stammer(_));
        assert!(is_earlier || !comes_in_parts, "{first:?}");
        assert!(first.max_ns() <= counters.service.max_ns());
    }
}
