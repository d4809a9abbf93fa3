use clap::Parser as _;

use super::*;
use crate::Arguments;

/// Command lines, and what stands for them.
const SAME: [(&str, &str); 17] = [
    (
        "wrk -t4 -c100 -d30s http://h/",
        "-t 4 -c 100 -d 30s --timeout 2s --warmup 0 --verify none http://h/",
    ),
    (
        "/usr/bin/wrk --latency -c 1k -t2 -H 'A: b c' --timeout=5 https://h/",
        "-c 1000 -t 2 -H 'A: b c' --timeout 5 -d 10s --warmup 0 --verify none --insecure https://h/",
    ),
    (
        "wrk2 -R2k -LU http://h/",
        "-R 2k -c 10 -t 2 -d 10s --timeout 2s --warmup 0 --verify none http://h/",
    ),
    ("ab -kc 100 -n1000 http://h/", "-c 100 -n 1000 --timeout 30s --warmup 0 --http1.0 http://h/"),
    (
        "ab -t 5 -p 'a file' -T text/x -C a=1 http://h/",
        "-d 5 -m POST -b '@a file' -H 'Content-Type: text/x' -H 'Cookie: a=1' -n 50000 -c 1 --timeout 30s \
         --warmup 0 --no-keepalive --http1.0 http://h/",
    ),
    ("ab http://h/", "-n 1 -c 1 --timeout 30s --warmup 0 --no-keepalive --http1.0 http://h/"),
    ("hey http://h/", "-n 200 -c 50 --timeout 20s --warmup 0 http://h/"),
    (
        "hey -z 1m30s -n 5 -m=POST --d={} -A '*/*' -disable-keepalive -cpus 2 https://h/",
        "-d 1m30s -m POST -b '{}' -H 'Accept: */*' --no-keepalive -c 50 --timeout 20s --warmup 0 \
         --insecure https://h/",
    ),
    (
        "oha -n1k -c 5 -q 0.5 --no-tui -r 0 https://h/",
        "-n 1000 -c 5 -R 0.5 --timeout 1h --warmup 0 https://h/",
    ),
    (
        "oha -z 5s -n 9 --urls-from-file urls.txt",
        "-d 5s --order random -c 50 --timeout 1h --warmup 0 --urls urls.txt",
    ),
    (
        "oha --json -D body.json -m POST http://h/",
        "--json -b @body.json -m POST -n 200 -c 50 --timeout 1h --warmup 0 http://h/",
    ),
    (
        "bombardier -c125 -n 1M -kl http://h/",
        "-c 125 -n 1000000 --insecure --timeout 2s --warmup 0 --verify none http://h/",
    ),
    (
        "bombardier --rate 50 --body-file=x http://h/",
        "-R 50 -b @x -c 125 -d 10s --timeout 2s --warmup 0 --verify none http://h/",
    ),
    (
        r#"wrk -H "A: \"x\"" -H B:\ y http://h/"#,
        r#"-H 'A: "x"' -H 'B: y' -c 10 -t 2 -d 10s --timeout 2s --warmup 0 --verify none http://h/"#,
    ),
    (
        "hey -H 'It: isn'\\''t' http://h/",
        r"-H 'It: isn'\''t' -n 200 -c 50 --timeout 20s --warmup 0 http://h/",
    ),
    ("hey -- http://h/", "-n 200 -c 50 --timeout 20s --warmup 0 http://h/"),
    (
        "wrk -c2 -d1m http://h/a?b=c&d",
        "-c 2 -d 1m -t 2 --timeout 2s --warmup 0 --verify none 'http://h/a?b=c&d'",
    ),
];

/// Command lines without a counterpart, and what the refusal names.
const REFUSED: [(&str, &str); 20] = [
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
    ("bombardier --stream http://h/", "--stream"),
    ("k6 cloud x.js", "k6 run"),
    ("k6 run --stage 5s:10 x.js", "--stage"),
    ("k6 run /nowhere/at/all.js", "/nowhere/at/all.js"),
];

fn shown(line: &str) -> Result<String, String> {
    let (words, _) = translate(line)?;
    Ok(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

#[test]
fn each_command_line_has_its_equal() {
    for (line, equal) in SAME {
        assert_eq!(shown(line).as_deref(), Ok(equal), "{line}");
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
