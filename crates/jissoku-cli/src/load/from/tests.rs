use clap::Parser as _;

use super::*;
use crate::Arguments;

/// Command lines, each with the one that stands for it in the line below.
const SAME: &str = include_str!("equal.txt");

/// Command lines without a counterpart, and what the refusal names.
const REFUSED: [(&str, &str); 27] = [
    ("", "empty"),
    ("siege http://h/", "siege"),
    ("wrk -s x.lua http://h/", "-s"),
    ("wrk -c", "-c requires a value"),
    ("wrk -c many http://h/", "-c"),
    ("wrk -q http://h/", "-q"),
    ("wrk", "0 URLs"),
    ("wrk http://h/ http://i/", "2 URLs"),
    ("wrk 'http://h/", "quote"),
    ("ab -X proxy:1 http://h/", "-X"),
    ("ab -kA a:b http://h/", "-A"),
    ("hey -q 5 http://h/", "-q"),
    ("hey -h2 http://h/", "-h2"),
    ("hey -c50 http://h/", "-c50"),
    ("oha --http2 http://h/", "--http2"),
    ("oha --burst-delay 2s http://h/", "--burst-delay"),
    ("oha --http-version 2 http://h/", "HTTP/1.1"),
    ("oha --output-format csv http://h/", "--output-format"),
    ("oha -Z lines.txt http://h/", "-Z: write METHOD URL BODY"),
    ("oha -F a=b http://h/", "-b and -H"),
    ("bombardier --stream http://h/", "--stream"),
    ("k6 cloud x.js", "k6 run"),
    ("k6 run -c options.json x.js", "command line"),
    ("k6 run -t archive x.tar", "script"),
    ("k6 run --min-iteration-duration 1s x.js", "--think"),
    ("k6 run --stage 5s:10 x.js", "--stage"),
    ("k6 run /nowhere/at/all.js", "/nowhere/at/all.js"),
];

fn shown(line: &str) -> Result<String, String> {
    let (words, _) = translate(line)?;
    Ok(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

#[test]
fn each_command_line_has_its_equal() {
    for (line, equal) in SAME.lines().step_by(2).zip(SAME.lines().skip(1).step_by(2)) {
        assert_eq!(shown(line).as_deref(), Ok(equal.trim_start()), "{line}");
        if !line.contains("file") && !line.contains("-D") {
            let words = ["jissoku".to_owned(), "load".to_owned()].into_iter();
            let (translated, _) = translate(line).expect("it has one");
            let parsed = Arguments::try_parse_from(words.chain(translated));
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
    }
}

#[test]
fn what_has_no_counterpart_is_named() {
    for (line, named) in REFUSED {
        let refusal = shown(line).expect_err(line);
        assert!(refusal.starts_with("--from") && refusal.contains(named), "{line}: {refusal}");
    }
}

#[test]
fn an_option_has_one_meaning_for_each_tool() {
    for tool in &TOOLS {
        let names = || tool.options.iter().flat_map(|(names, _)| names.split(' '));
        for name in names() {
            let is_short = name.len() == 2 || tool.style == Style::Go;
            assert!(name.starts_with("--") != is_short, "{}: {name}", tool.names[0]);
            assert_eq!(
                names().filter(|other| *other == name).count(),
                1,
                "{}: {name}",
                tool.names[0]
            );
        }
    }
}

#[test]
fn of_a_script_the_only_request_is_read() {
    let read = |body: &str| read_script(body);
    let both = "import http from 'k6/http';\nexport default function () {\n  http.get('http://h/a');\n  sleep( 0.5 );\n}\n";
    assert_eq!(read(both), Ok(("http://h/a".to_owned(), Some("0.5".to_owned()))));
    assert_eq!(read("http.get(\"http://h/\")"), Ok(("http://h/".to_owned(), None)));
    for script in [
        "",
        "http.post('http://h/')",
        "http.get('http://h/'); http.get('http://h/')",
        "http.get(`http://${host}/`)",
        "http.get(url)",
        "http.get('http://h/', { headers: {} })",
        "http.get('http://h/'); sleep(Math.random())",
        "http.get('http://h/'); sleep(1); sleep(2)",
    ] {
        assert!(read(script).is_err(), "{script}");
    }
}

#[test]
fn other_options_are_added() {
    let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for from in [&["--from", "hey http://h/"][..], &["--from=hey http://h/"]] {
        let given = words(&[&["jissoku", "load", "--json"], from, &["--seed", "1"]].concat());
        let expected =
            "jissoku load --json -n 200 -c 50 --timeout 20s --warmup 0 http://h/ --seed 1";
        assert_eq!(expand(given).map(|all| all.join(" ")).as_deref(), Ok(expected));
    }
    let without = words(&["jissoku", "load", "http://h/"]);
    assert_eq!(expand(without.clone()), Ok(without));
}
