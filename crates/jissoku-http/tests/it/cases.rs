//! The cases of `python/jissoku/conformance/cases`, each at every split of its bytes.

use std::fs;
use std::path::Path;

use toml::{Table, Value};

use crate::transcript::{Ends, Transcript, read_at_every_split};

#[test]
fn every_case_holds_at_every_split() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/jissoku/conformance/cases");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the cases are there") {
        let path = entry.expect("the cases can be listed").path();
        let text = fs::read_to_string(&path).expect("a case file can be read");
        assert!(text.starts_with("# "), "{} opens with prose", path.display());
        let file: Table = text.parse().expect("a case file is TOML");
        for case in array(&file, "case") {
            check(case, file.get("at").and_then(Value::as_str));
            count += 1;
        }
    }
    assert!(count > 100, "only {count} cases were found");
}

fn check(case: &Table, at: Option<&str>) {
    let name = text(case, "name").expect("a case has a name");
    assert!(text(case, "clause").is_some(), "{name}: a case has a clause");
    let send = text(case, "send").expect("a case sends something");
    let fill = case.get("fill").and_then(Value::as_table).map(|fill| {
        let count = fill.get("count").and_then(Value::as_integer).expect("a fill has a count");
        text(fill, "text").expect("a fill has a text").repeat(count.try_into().expect("a count"))
    });
    let mut bytes = match fill.as_deref().or(at) {
        Some(filling) => latin1(&send.replace('@', filling)),
        None => latin1(send),
    };
    bytes.extend(latin1(text(case, "then").unwrap_or_default()));
    let seen = read_at_every_split(&bytes);
    let ends = [("idle", Ends::Idle), ("head", Ends::Head), ("body", Ends::Body)];
    let wanted = text(case, "ends").unwrap_or("idle");
    let ending = ends.iter().find(|(word, _)| *word == wanted).map(|(_, ending)| *ending);
    assert!(ending.is_some(), "{name}: nothing ends in {wanted}");
    let expected = ending.filter(|_| !case.contains_key("status"));
    match (seen.ends, expected) {
        (Ends::Refused(reject), None) => {
            assert_eq!(Some(format!("{reject:?}").as_str()), text(case, "reject"), "{name}");
            let status = case.get("status").and_then(Value::as_integer);
            assert_eq!(Some(i64::from(reject.status())), status, "{name}");
            let is_in_body = seen.requests.last().is_some_and(|request| !request.is_whole);
            assert_eq!(is_in_body, wanted == "body", "{name}: where it is refused");
        }
        (ends, expected) => assert_eq!(Some(ends), expected, "{name}"),
    }
    check_requests(name, case, &seen);
}

fn check_requests(name: &str, case: &Table, seen: &Transcript) {
    let expected = array(case, "requests");
    assert_eq!(seen.requests.len(), expected.len(), "{name}: {:?}", seen.requests);
    for (request, expected) in seen.requests.iter().zip(expected) {
        let check = |key, seen: &[u8]| {
            if let Some(expected) = text(expected, key) {
                assert_eq!(seen, latin1(expected), "{name}: {key}");
            }
        };
        check("method", &request.method);
        check("target", &request.target);
        if expected.contains_key("target") {
            assert_eq!(request.body, latin1(text(expected, "body").unwrap_or("")), "{name}: body");
        }
        let claim = |key, default| expected.get(key).and_then(Value::as_bool).unwrap_or(default);
        assert_eq!(request.persists, claim("persists", true), "{name}: persists");
        assert_eq!(request.waits, claim("waits", false), "{name}: waits");
        if let Some(fields) = expected.get("fields").and_then(Value::as_array) {
            let pair = |field: &Value| {
                let part = |index: usize| latin1(field[index].as_str().expect("a field is text"));
                (part(0), part(1))
            };
            assert_eq!(request.fields, fields.iter().map(pair).collect::<Vec<_>>(), "{name}");
        }
    }
}

fn text<'a>(table: &'a Table, key: &str) -> Option<&'a str> {
    table.get(key).and_then(Value::as_str)
}

fn array<'a>(table: &'a Table, key: &str) -> Vec<&'a Table> {
    let values = table.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    values.iter().map(|value| value.as_table().expect("a table")).collect()
}

/// One byte per character.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|letter| u8::try_from(letter).expect("a case holds bytes only")).collect()
}
