use proptest::prelude::*;

use super::*;
use crate::policy::routes::PathPattern;

const MS: u64 = 1_000_000;

fn plan(ids: &[&str]) -> Plan {
    let route = PathPattern::parse("/home/{id}").unwrap();
    let part = |id: &&str| PartPlan {
        id: (*id).to_owned(),
        template: PartTemplate::parse(&format!("{id}:/{id}/{{id}}"), &route).unwrap(),
        is_required: false,
    };
    Plan::new(ids.iter().map(part).collect())
}

fn json_field() -> Vec<(&'static str, String)> {
    vec![("content-type", "application/json; charset=utf-8".to_owned())]
}

/// A whole response of a part.
fn answer(plan: &Plan, collection: &mut Collection, part: usize, body: &str, now_ns: u64) {
    assert_eq!(collection.on_head(part, 200, json_field()), Effect::Continues);
    assert_eq!(collection.on_body(plan, part, body.as_bytes(), now_ns), Effect::Continues);
    assert_eq!(collection.on_end(part, now_ns), Effect::Ended);
}

fn started(plan: &Plan) -> Collection {
    let mut collection = Collection::new(plan, 0);
    while collection.begin_next(plan).is_some() {}
    collection
}

#[test]
fn a_template_takes_the_variables_of_the_route_and_nothing_from_a_client_besides() {
    let route = PathPattern::parse("/{user}/{id}").unwrap();
    let captured = |path: &str| route.matches(path.as_bytes()).unwrap();
    let template = PartTemplate::parse("app:/u/{id}/of/{user}?full=1", &route).unwrap();
    assert_eq!(template.upstream(), "app");
    let target = template.target(b"/ann/a%20b", &captured("/ann/a%20b")).unwrap();
    assert_eq!(target, b"/u/a%20b/of/ann?full=1");
    let joined = PartTemplate::parse("app:/u/.{id}", &route).unwrap();
    assert_eq!(joined.target(b"/a/.", &captured("/a/.")), None);
    for (text, expected) in [
        ("app", "an upstream and a path"),
        (":/a", "an upstream and a path"),
        ("app:a", "an upstream and a path"),
        ("app:/{id", "an upstream and a path"),
        ("app:/{name}", "no variable {name}"),
        ("app:/a?b={id}", "not for the query"),
        ("app:/a b", "a byte or segment"),
        ("app:/../a", "a byte or segment"),
        ("app:/a}", "a byte or segment"),
    ] {
        let why = PartTemplate::parse(text, &route).unwrap_err();
        assert!(why.contains(expected), "{text}: {why}");
    }
}

#[test]
fn parts_of_one_upstream_run_no_more_at_once_than_permitted() {
    let mut plan = plan(&["a", "b"]);
    for id in ["a2", "a3"] {
        let template = plan.parts[0].template.clone();
        plan.parts.push(PartPlan { id: id.to_owned(), template, is_required: false });
    }
    plan.parallel = 2;
    let mut collection = Collection::new(&plan, 0);
    let begun: Vec<_> = std::iter::from_fn(|| collection.begin_next(&plan)).collect();
    assert_eq!(begun, [0, 1, 2]);
    collection.on_failure(0, PartError::of("connection_refused"), 0);
    assert_eq!(collection.begin_next(&plan), Some(3));
}

#[test]
fn at_the_deadline_the_answer_has_all_that_came() {
    let plan = plan(&["users", "ads"]);
    let mut collection = started(&plan);
    answer(&plan, &mut collection, 0, " {\"n\":1.50}\n", 12 * MS + 345_678);
    assert_eq!(collection.close_if_due(&plan, 999 * MS), None);
    assert_eq!(collection.next_deadline_ns(&plan), 1000 * MS);
    assert_eq!(collection.close_if_due(&plan, 1000 * MS), Some(vec![1]));
    assert_eq!(collection.close_if_due(&plan, 1001 * MS), None);
    assert_eq!(collection.on_end(1, 1001 * MS), Effect::Ignored);
    assert_eq!(collection.status(&plan), 200);
    let users = "{\"id\":\"users\",\"status\":200,\"elapsed_ms\":12.3,\"headers\":{\"content-type\":\
                 \"application/json; charset=utf-8\"},\"body\":{\"n\":1.50}}";
    let ads = "{\"id\":\"ads\",\"error\":\"http_response_timeout\",\"elapsed_ms\":1000.0}";
    assert_eq!(
        compose_json(&plan, &collection, Shape::List, 1000 * MS),
        format!("{{\"complete\":false,\"elapsed_ms\":1000.0,\"parts\":[{users},{ads}]}}\n")
    );
    assert_eq!(
        compose_json(&plan, &collection, Shape::Object, 0),
        format!(
            "{{\"complete\":false,\"elapsed_ms\":0.0,\"parts\":{{\"users\":{users},\"ads\":{ads}}}}}\n"
        )
    );
    assert_eq!(compose_json(&plan, &collection, Shape::Merge, 0), "{\"n\":1.50}\n");
}

#[test]
fn the_soft_deadline_counts_from_the_first_success_and_waits_for_enough() {
    let mut plan = plan(&["a", "b", "c"]);
    plan.soft_deadline_ns = Some(50 * MS);
    plan.quorum = Quorum::Count(2);
    let mut collection = started(&plan);
    answer(&plan, &mut collection, 1, "1", 100 * MS);
    assert_eq!(collection.close_if_due(&plan, 200 * MS), None);
    assert_eq!(collection.next_deadline_ns(&plan), 1000 * MS);
    answer(&plan, &mut collection, 0, "1", 210 * MS);
    assert_eq!(collection.next_deadline_ns(&plan), 150 * MS);
    assert_eq!(collection.close_if_due(&plan, 210 * MS), Some(vec![2]));
    assert_eq!(collection.status(&plan), 200);
}

#[test]
fn a_required_part_the_quorum_and_partial_answers_decide_the_status() {
    let mut plan = plan(&["a", "b"]);
    let with = |plan: &Plan, error: PartError| {
        let mut collection = started(plan);
        answer(plan, &mut collection, 0, "1", 0);
        collection.on_failure(1, error, 0);
        collection.status(plan)
    };
    assert_eq!(with(&plan, PartError::of("connection_refused")), 200);
    plan.quorum = Quorum::Percent(95);
    assert_eq!(with(&plan, PartError::of("connection_refused")), 502);
    assert_eq!(with(&plan, PartError::CONNECTION_TIMEOUT), 504);
    assert_eq!(with(&plan, PartError::of("connection_limit_reached")), 502);
    assert_eq!(with(&plan, PartError::SHORTAGE), 503);
    plan.quorum = Quorum::Count(1);
    plan.parts[1].is_required = true;
    assert_eq!(with(&plan, PartError::of("connection_refused")), 502);
    plan.parts[1].is_required = false;
    plan.refuses_partial = true;
    assert_eq!(with(&plan, PartError::of("connection_refused")), 502);
}

#[test]
fn bodies_are_bounded_by_part_and_by_answer_and_freed_when_written() {
    let mut plan = plan(&["a", "b", "c"]);
    (plan.part_size_max, plan.answer_size_max) = (10, 15);
    let mut collection = started(&plan);
    assert_eq!(collection.on_body(&plan, 0, &[0; 11], 0), Effect::Cancel);
    answer(&plan, &mut collection, 1, "1234567890", 0);
    assert_eq!(collection.on_body(&plan, 2, &[0; 5], 0), Effect::Continues);
    collection.release_body(1);
    assert_eq!(collection.held(), 5);
    assert_eq!(collection.on_body(&plan, 2, &[0; 5], 0), Effect::Continues);
    assert_eq!(collection.on_body(&plan, 2, &[0; 1], 0), Effect::Cancel);
    assert_eq!(collection.held(), 0);
    let error = PartResult::Error(PartError::RESPONSE_BODY_SIZE);
    assert_eq!(collection.result(2), Some((&error, 0)));
}

#[test]
fn no_part_can_write_the_result_of_another() {
    let plan = plan(&["bad", "ads"]);
    for body in
        ["1},{\"id\":\"ads\",\"status\":200,\"body\":2", "{\"a\":1}{\"b\":2}", "\"\n\"", "{", ""]
    {
        let mut collection = started(&plan);
        answer(&plan, &mut collection, 0, body, 0);
        collection.on_failure(1, PartError::of("connection_refused"), 0);
        let text = compose_json(&plan, &collection, Shape::List, 0);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["parts"].as_array().unwrap().len(), 2, "{text}");
        assert_eq!(value["parts"][0]["body"], body);
        assert_eq!(value["parts"][1]["error"], "connection_refused");
    }
}

#[test]
fn bodies_that_are_no_text_are_encoded() {
    let plan = plan(&["a"]);
    for (kind, body, member) in [
        ("text/plain", b"a\"\n".as_slice(), "\"body\":\"a\\\"\\n\""),
        ("text/plain", b"\xff", "\"body_base64\":\"/w==\""),
        ("application/json", b"\"\xff\"", "\"body_base64\":\"Iv8i\""),
        ("image/png", b"abc", "\"body_base64\":\"YWJj\""),
        ("application/problem+json", b"[1,\n2]", "\"body\":[1, 2]"),
    ] {
        let mut collection = started(&plan);
        collection.on_head(0, 200, vec![("content-type", kind.to_owned())]);
        collection.on_body(&plan, 0, body, 0);
        collection.on_end(0, 0);
        let line = ndjson_line(&plan, &collection, 0);
        assert!(line.contains(member), "{line}");
        assert_eq!(line.find('\n'), Some(line.len() - 1));
    }
}

#[test]
fn a_line_has_one_end() {
    let plan = plan(&["a"]);
    let mut collection = started(&plan);
    answer(&plan, &mut collection, 0, "[1,\r\n2]", 10 * MS);
    let line = ndjson_line(&plan, &collection, 0);
    assert!(line.ends_with("\"body\":[1,  2]}\n"), "{line}");
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Begin,
    Head(usize, u16),
    Body(usize, usize),
    End(usize),
    Fail(usize),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let part = 0..6_usize;
    prop_oneof![
        4 => Just(Event::Begin),
        4 => (part.clone(), prop_oneof![Just(200), Just(404), Just(500)])
            .prop_map(|(part, status)| Event::Head(part, status)),
        3 => (part.clone(), 0..8_usize).prop_map(|(part, size)| Event::Body(part, size)),
        3 => part.clone().prop_map(Event::End),
        1 => part.prop_map(Event::Fail),
        2 => (0..60_u64).prop_map(Event::Wait),
    ]
}

proptest! {
    #[test]
    fn every_part_ends_exactly_once_whatever_the_order_of_events(
        events in proptest::collection::vec(event(), 0..120),
        (soft, quorum) in (proptest::option::of(1..300_u64), 0..6_usize),
    ) {
        let ids = ["a", "b", "c", "d", "e"];
        let mut plan = plan(&ids);
        (plan.part_size_max, plan.answer_size_max) = (15, 40);
        plan.soft_deadline_ns = soft.map(|ms| ms * MS);
        plan.quorum = Quorum::Count(quorum);
        let mut collection = Collection::new(&plan, 0);
        let (mut now, mut ended, mut closed) = (0, [0; 6], 0);
        let mut results: Vec<Option<PartResult>> = vec![None; ids.len()];
        // The deadline comes at last.
        for event in events.into_iter().chain([Event::Wait(1000)]) {
            let (part, effect) = match event {
                Event::Begin => { collection.begin_next(&plan); (0, Effect::Continues) }
                Event::Head(part, status) => (part, collection.on_head(part, status, json_field())),
                Event::Body(part, size) => {
                    (part, collection.on_body(&plan, part, &b"12345678"[..size], now))
                }
                Event::End(part) => (part, collection.on_end(part, now)),
                Event::Fail(part) => (part, collection.on_failure(part, PartError::PROTOCOL_ERROR, now)),
                Event::Wait(ms) => { now += ms * MS; (0, Effect::Continues) }
            };
            ended[part] += u32::from(matches!(effect, Effect::Ended | Effect::Cancel));
            let open: Vec<usize> = (0..ids.len()).filter(|i| collection.result(*i).is_none()).collect();
            if let Some(late) = collection.close_if_due(&plan, now) {
                closed += 1;
                prop_assert!(late.iter().all(|part| open.contains(part)));
                for part in open {
                    ended[part] += 1;
                }
            }
            let mut held = 0;
            for (index, before) in results.iter_mut().enumerate() {
                let result = collection.result(index).map(|(result, _)| result.clone());
                // Once there, a result stays.
                prop_assert!(before.is_none() || *before == result);
                if let Some(PartResult::Response(response)) = &result {
                    held += response.body.len();
                }
                *before = result;
            }
            prop_assert!(held <= collection.held() && collection.held() <= 40);
        }
        prop_assert_eq!((ended, closed), ([1, 1, 1, 1, 1, 0], 1));
        let text = compose_json(&plan, &collection, Shape::List, now);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let found: Vec<&str> =
            value["parts"].as_array().unwrap().iter().map(|part| part["id"].as_str().unwrap()).collect();
        prop_assert_eq!(found, ids);
        let enough = results.iter().flatten().filter(|result| result.is_success()).count() >= quorum;
        prop_assert_eq!(collection.status(&plan) == 200, enough);
    }
}
