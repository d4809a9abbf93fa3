use proptest::prelude::*;

use super::*;

fn rule(path: &str) -> Rule {
    Rule::new(PathPattern::parse(path).unwrap())
}

fn for_host(path: &str, host: &str) -> Rule {
    Rule { host: Some(HostPattern::parse(host).unwrap()), ..rule(path) }
}

fn for_methods(path: &str, methods: &[&str]) -> Rule {
    let mut rule = rule(path);
    rule.set_methods(methods.iter().map(ToString::to_string).collect()).unwrap();
    rule
}

fn get(path: &str) -> Subject<'_> {
    Subject { method: b"GET", host: Some(b"example.org"), path: path.as_bytes(), is_secure: false }
}

fn captured(pattern: &str, path: &str) -> Option<Vec<String>> {
    let captures = PathPattern::parse(pattern).unwrap().matches(path.as_bytes())?;
    let spans = (0..).map_while(|index| captures.span(index));
    Some(spans.map(|span| path[span].to_owned()).collect())
}

#[test]
fn the_first_route_that_fits_takes_the_request() {
    let routes =
        Routes::new(vec![rule("/api/v1/{id}"), rule("/api/**"), rule("/"), rule("/**")]).unwrap();
    for (path, index) in
        [("/api/v1/7", 0), ("/api/v1/7/x", 1), ("/api", 1), ("/", 2), ("/apis", 3), ("/api/v1/", 1)]
    {
        assert_eq!(routes.find(&get(path)).index(), Some(index), "{path}");
    }
}

#[test]
fn variables_are_whole_segments_that_are_not_empty() {
    assert_eq!(captured("/home/{id}", "/home/a%20b"), Some(vec!["a%20b".to_owned()]));
    assert_eq!(
        captured("/{a}/x/{b}/**", "/1/x/22/more"),
        Some(vec!["1".to_owned(), "22".to_owned()])
    );
    for path in ["/home/", "/home", "/home/a/b", "/home/a/", "/hom/a"] {
        assert_eq!(captured("/home/{id}", path), None, "{path}");
    }
}

#[test]
fn an_encoded_spelling_is_the_same_path() {
    let routes = Routes::new(vec![rule("/admin/**"), rule("/**")]).unwrap();
    for path in ["/%61dmin/x", "/%61%64min", "/admi%6E/"] {
        assert_eq!(routes.find(&get(path)).index(), Some(0), "{path}");
    }
    let accent = Routes::new(vec![rule("/caf%C3%A9")]).unwrap();
    assert_eq!(accent.find(&get("/caf%c3%a9")).index(), Some(0));
}

#[test]
fn a_path_is_refused_if_a_reading_of_it_belongs_to_another_route() {
    let routes = Routes::new(vec![rule("/admin/**"), rule("/**")]).unwrap();
    for path in [
        "/a/../admin",
        "/./admin",
        "/a/..;x=1/admin",
        "/a/..%3Bx/admin",
        "/a/%2e%2E/admin",
        "/a%2f..%2fadmin",
        "/%2fadmin",
        "/a%5C..%5cadmin",
        "/a\\..\\admin",
        "//admin/x",
        "/admin;x/y",
        "/admin%3bx",
        "/%2561dmin",
        "/a/%252e%252e/admin",
        "/admin/../x",
        "/admin/..%2fx",
    ] {
        assert_eq!(
            routes.find(&get(path)),
            Decision::Refuse(AmbiguousPath::OtherRoute),
            "{path:?}"
        );
    }
    for (path, index) in [
        ("/a//b", 1),
        ("/a.b/..c/d..", 1),
        ("/...", 1),
        ("/a;b", 1),
        ("/%C3%A9", 1),
        ("/a%252e", 1),
        ("/@scope%2fname", 1),
        ("/api/queues/%2F/q", 1),
        ("/x%2Ehtml", 1),
        ("/a%5Cadmin", 1),
        ("/a/../b", 1),
        ("/admin/x%2Fy", 0),
        ("/admin/./x;v=1", 0),
    ] {
        assert_eq!(routes.find(&get(path)).index(), Some(index), "{path}");
    }
}

#[test]
fn what_no_path_has_is_refused_whatever_the_routes() {
    for encoded in [Encoded::Safe, Encoded::Pass, Encoded::Refuse, Encoded::Decode] {
        let routes = Routes::new(vec![Rule { encoded, ..rule("/**") }]).unwrap();
        for (path, ambiguity) in [
            ("/a#x", AmbiguousPath::InvalidByte),
            ("/a\tb", AmbiguousPath::InvalidByte),
            ("/a%00b", AmbiguousPath::EncodedControl),
            ("/a%0d%0ab", AmbiguousPath::EncodedControl),
            ("/a%zz", AmbiguousPath::InvalidEncoding),
            ("/a%2", AmbiguousPath::InvalidEncoding),
            ("*", AmbiguousPath::NotAbsolute),
            ("", AmbiguousPath::NotAbsolute),
        ] {
            assert_eq!(routes.find(&get(path)), Decision::Refuse(ambiguity), "{path:?}");
        }
    }
}

#[test]
fn a_route_passes_refuses_or_decodes_what_has_several_readings() {
    let found = |encoded: Encoded, path: &str| {
        let projects = Rule { encoded, ..rule("/projects/{id}") };
        let deep = Rule { encoded, ..rule("/deep/**") };
        Routes::new(vec![projects, deep, rule("/**")]).unwrap().find(&get(path))
    };
    let other = Decision::Refuse(AmbiguousPath::OtherRoute);
    let path = "/projects/group%2Fproject";
    assert_eq!(found(Encoded::Safe, path), other);
    assert_eq!(found(Encoded::Decode, path), other);
    assert_eq!(found(Encoded::Refuse, path), Decision::Refuse(AmbiguousPath::EncodedDelimiter));
    let Decision::Take { index: 0, captures, path: None } = found(Encoded::Pass, path) else {
        panic!("it is passed as it came");
    };
    assert_eq!(captures.span(0).map(|span| &path[span]), Some("group%2Fproject"));
    // What belongs to one route whatever its reading.
    for (path, plain, ambiguity) in [
        ("/deep/a%2Fb%20c", "/deep/a/b%20c", AmbiguousPath::EncodedDelimiter),
        ("/deep/a%5Cb", "/deep/a/b", AmbiguousPath::EncodedDelimiter),
        ("/deep/a/./b", "/deep/a/b", AmbiguousPath::DotSegment),
        ("/deep/a\\b", "/deep/a/b", AmbiguousPath::Backslash),
    ] {
        for encoded in [Encoded::Safe, Encoded::Pass] {
            assert!(
                matches!(found(encoded, path), Decision::Take { index: 1, path: None, .. }),
                "{path}"
            );
        }
        assert_eq!(found(Encoded::Refuse, path), Decision::Refuse(ambiguity));
        let Decision::Take { index: 1, path: Some(decoded), .. } = found(Encoded::Decode, path)
        else {
            panic!("{path} is decoded");
        };
        assert_eq!(String::from_utf8_lossy(&decoded), plain);
    }
    // The result of decoding may have several readings, too.
    assert_eq!(found(Encoded::Decode, "/deep/%252e%252e/x%2Fy"), other);
    assert_eq!(found(Encoded::Decode, "/deep%2f..%2fx"), other);
}

#[test]
fn hosts_are_compared_without_case_final_dot_and_unless_given_port() {
    for (pattern, host, fits) in [
        ("example.org", "EXAMPLE.org:8000", true),
        ("example.org", "example.org.", true),
        ("example.org", "a.example.org", false),
        ("*.example.org", "a.b.Example.org", true),
        ("*.example.org", "example.org", false),
        ("*.example.org", ".example.org", false),
        ("*.example.org", "aexample.org", false),
        ("example.org:80", "example.org:80", true),
        ("example.org:80", "example.org", false),
        ("example.org:80", "example.org:+80", false),
        ("[::1]", "[::1]:8000", true),
        ("[::1]", "[::2]", false),
    ] {
        let found = HostPattern::parse(pattern).unwrap().matches(host.as_bytes());
        assert_eq!(found, fits, "{pattern} {host}");
    }
    for bad in ["", "*", "*.", "a.*", "a:b", "a b", "a/"] {
        assert!(HostPattern::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_rule_with_a_host_is_not_for_requests_without() {
    let routes = Routes::new(vec![for_host("/**", "example.org")]).unwrap();
    let subject = Subject { host: None, ..get("/") };
    assert_eq!(routes.find(&subject), Decision::NotFound);
    assert_eq!(routes.find(&get("/")).index(), Some(0));
}

#[test]
fn a_method_that_no_route_accepts_is_not_allowed_and_the_others_are_listed() {
    let routes =
        Routes::new(vec![for_methods("/a", &["GET"]), for_methods("/a", &["PUT"])]).unwrap();
    let post = Subject { method: b"POST", ..get("/a") };
    assert_eq!(routes.find(&post), Decision::MethodNotAllowed);
    assert_eq!(routes.allow(&post), ["GET", "HEAD", "PUT"]);
    assert_eq!(routes.find(&Subject { method: b"PUT", ..post }).index(), Some(1));
    assert_eq!(routes.find(&Subject { method: b"HEAD", ..post }).index(), Some(0));
    assert_eq!(routes.find(&Subject { path: b"/b", ..post }), Decision::NotFound);
}

#[test]
fn the_reason_of_each_earlier_rule_is_given() {
    let routes = Routes::new(vec![
        for_host("/**", "other.org"),
        rule("/b"),
        for_methods("/a", &["PUT"]),
        rule("/a"),
    ])
    .unwrap();
    assert_eq!(routes.mismatches(&get("/a")), [Mismatch::Host, Mismatch::Path, Mismatch::Method]);
}

#[test]
fn patterns_without_a_meaning_are_refused() {
    for (text, expected) in [
        ("api", "begins with a slash"),
        ("/a?b", "not by query"),
        ("/a/*", "for the end of a path"),
        ("/a**", "for the end of a path"),
        ("/**/b", "for the end of a path"),
        ("/a//b", "an empty segment"),
        ("/a//**", "an empty segment"),
        ("//", "an empty segment"),
        ("/{}", "a variable's name"),
        ("/{a}/{a}", "the same name"),
        ("/x{a}", "a whole segment"),
        ("/{a}{b}", "a variable's name"),
        ("/a/../b", "a segment `.`"),
        ("/a%2Fb", "an encoded dot"),
        ("/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}", "at most 8 variables"),
    ] {
        let why = PathPattern::parse(text).unwrap_err();
        assert!(why.contains(expected), "{text}: {why}");
    }
}

#[test]
fn a_rule_behind_a_larger_one_is_unreachable() {
    let unreachable = |rules| Routes::new(rules).unwrap_err();
    assert_eq!(
        unreachable(vec![rule("/x"), rule("/a/**"), rule("/a/{b}/c")]),
        Unreachable { index: 2, by: 1 }
    );
    assert_eq!(
        unreachable(vec![
            for_methods("/{a}", &["GET"]),
            for_methods("/{b}", &["POST"]),
            for_methods("/x", &["GET", "POST"]),
        ]),
        Unreachable { index: 2, by: 0 }
    );
    assert_eq!(
        unreachable(vec![rule("/a"), rule("/a/"), rule("/a/{b}/**"), rule("/a/**")]),
        Unreachable { index: 3, by: 0 }
    );
    let of = |is_secure| Rule { is_secure: Some(is_secure), ..rule("/a/**") };
    assert_eq!(
        unreachable(vec![of(true), of(false), rule("/a/b")]),
        Unreachable { index: 2, by: 0 }
    );
    assert_eq!(unreachable(vec![of(true), of(true)]), Unreachable { index: 1, by: 0 });
    assert!(Routes::new(vec![of(true), of(false), rule("/b")]).is_ok());
    assert!(Routes::new(vec![of(true), rule("/a/b")]).is_ok());
    assert_eq!(
        unreachable(vec![for_host("/**", "*.org"), for_host("/**", "*.a.org:80")]),
        Unreachable { index: 1, by: 0 }
    );
}

// Every request of a small world; `z` is a segment, host and method that no rule names.
const SEGMENTS: [&str; 3] = ["a", "b", "z"];
const HOSTS: [&str; 6] = ["x.org", "z.x.org", "a.x.org", "b.a.x.org", "z", "x.org:80"];
const METHODS: [&str; 3] = ["GET", "HEAD", "POST"];

fn world() -> Vec<(&'static str, &'static str, String)> {
    let mut paths = vec!["/".to_owned()];
    for one in SEGMENTS {
        paths.extend([format!("/{one}"), format!("/{one}/")]);
        for two in SEGMENTS {
            paths.extend([format!("/{one}/{two}"), format!("/{one}/{two}/")]);
            paths.extend(SEGMENTS.map(|three| format!("/{one}/{two}/{three}")));
        }
    }
    let requests = |path: &String| {
        let path = path.clone();
        let pairs =
            METHODS.iter().flat_map(|method| HOSTS.iter().map(move |host| (*method, *host)));
        pairs.map(|(method, host)| (method, host, path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(requests).collect()
}

/// Path, host and methods as texts, and whether it is for one scheme.
type Parts = (String, Option<&'static str>, Vec<&'static str>, Option<bool>);

fn parts() -> impl Strategy<Value = Parts> {
    let segment = prop_oneof![Just("a"), Just("b"), Just("{}")];
    let path =
        (proptest::collection::vec(segment, 0..3), prop_oneof![Just(""), Just("**"), Just("**")])
            .prop_map(|(segments, end)| {
                let mut named = String::new();
                for (index, segment) in segments.iter().enumerate() {
                    named.push('/');
                    named.push_str(&segment.replace("{}", &format!("{{v{index}}}")));
                }
                format!("{named}/{end}")
            });
    let host = proptest::option::of(proptest::sample::select(vec![
        "x.org",
        "*.x.org",
        "a.x.org",
        "*.a.x.org",
        "x.org:80",
    ]));
    let methods = proptest::sample::subsequence(vec!["GET", "HEAD", "POST"], 0..=3);
    (path, host, methods, any::<Option<bool>>())
}

/// The same comparison with strings and splits.
fn fits(parts: &Parts, request: &(&str, &str, String), is_secure: bool) -> bool {
    let (path, host, methods, scheme) = parts;
    let (method, name, target) = request;
    let name_only = name.split(':').next().unwrap();
    let host_fits = host.is_none_or(|host| match host.strip_prefix("*.") {
        Some(parent) => name_only.ends_with(&format!(".{parent}")),
        None if host.contains(':') => host == *name,
        None => host == name_only,
    });
    let wanted: Vec<&str> = path[1..].split('/').collect();
    let found: Vec<&str> = target[1..].split('/').collect();
    let same = |wanted: &[&str], found: &[&str]| {
        wanted
            .iter()
            .zip(found)
            .all(|(w, f)| if w.starts_with('{') { !f.is_empty() } else { w == f })
    };
    let path_fits = match wanted.split_last() {
        Some((&"**", before)) => found.len() >= before.len() && same(before, &found),
        _ => wanted.len() == found.len() && same(&wanted, &found),
    };
    let implied = *method == "HEAD" && methods.contains(&"GET");
    let scheme_fits = scheme.is_none_or(|wanted| wanted == is_secure);
    scheme_fits
        && host_fits
        && path_fits
        && (methods.is_empty() || methods.contains(method) || implied)
}

fn rule_of((path, host, methods, scheme): &Parts) -> Rule {
    let rule = if methods.is_empty() { rule(path) } else { for_methods(path, methods) };
    let rule = Rule { is_secure: *scheme, ..rule };
    match host {
        Some(host) => Rule { host: Some(HostPattern::parse(host).unwrap()), ..rule },
        None => rule,
    }
}

proptest! {
    #[test]
    fn every_request_goes_where_the_plain_comparison_says(
        all in proptest::collection::vec(parts(), 1..6),
        is_secure: bool,
    ) {
        let rules: Vec<Rule> = all.iter().map(rule_of).collect();
        let routes = Routes::of(rules);
        for request in world() {
            let subject = Subject {
                method: request.0.as_bytes(),
                host: Some(request.1.as_bytes()),
                path: request.2.as_bytes(),
                is_secure,
            };
            let expected = all.iter().position(|parts| fits(parts, &request, is_secure));
            prop_assert_eq!(routes.find(&subject).index(), expected, "{:?}", request);
        }
    }

    #[test]
    fn a_rule_is_unreachable_exactly_if_no_request_reaches_it(
        all in proptest::collection::vec(parts(), 1..6),
    ) {
        // A method that no rule names stands for all others.
        let mut requests = world();
        for (_, host, path) in world() {
            requests.push(("ZZZ", host, path));
        }
        let first = |request, is_secure| all.iter().position(|it| fits(it, request, is_secure));
        let reached = |index: usize| requests.iter().any(|request| {
            [false, true].iter().any(|it| first(request, *it) == Some(index))
        });
        let expected = (0..all.len()).find(|index| !reached(*index));
        let found = Routes::new(all.iter().map(rule_of).collect()).err();
        prop_assert_eq!(found.map(|found| found.index), expected);
    }

    /// A server that applies the steps of any reader gets no path of another route.
    #[test]
    fn no_reader_gets_a_path_of_another_route(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            "/", "a", "admin", ".", "..", "%2f", "%2F", "%5c", "\\", ";x", "%3b", "%2e", "%25", "%252f",
            "%61", "//",
        ]), 0..9),
        (decodings, cuts, turns, drops) in (0..2_u8, any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let routes = Routes::new(vec![rule("/admin/**"), rule("/a/{id}"), rule("/**")]).unwrap();
        let mut path = format!("/{}", pieces.concat());
        let Decision::Take { index, .. } = routes.find(&get(&path)) else { return Ok(()) };
        // The route of what is left is found by decoding it once more.
        for _ in 0..decodings {
            let bytes = jissoku_http::percent::decoded(path.as_bytes()).collect();
            let Ok(decoded) = String::from_utf8(bytes) else { return Ok(()) };
            path = decoded;
        }
        if turns {
            path = path.replace('\\', "/");
        }
        let mut segments: Vec<&str> = path.split('/').skip(1).collect();
        if cuts {
            segments = segments.iter().map(|it| it.split(';').next().unwrap()).collect();
        }
        if drops {
            let last = segments.pop().unwrap();
            segments.retain(|it| !it.is_empty() && *it != ".");
            // RFC 3986 section 5.2.4: a dot at the end is an empty segment.
            segments.push(if last == "." { "" } else { last });
        }
        let path = format!("/{}", segments.join("/"));
        let seen = routes.first_fit(&get(&path));
        prop_assert_eq!(seen.index(), Some(index), "{}", path);
    }

    #[test]
    fn no_bytes_make_it_panic(path in proptest::collection::vec(any::<u8>(), 0..40)) {
        let routes = Routes::new(vec![rule("/a/{b}"), rule("/**")]).unwrap();
        let subject = Subject { method: b"GET", host: Some(&path), path: &path, is_secure: false };
        if let Decision::Take { index: 0, captures, .. } = routes.find(&subject) {
            prop_assert!(captures.span(0).is_some_and(|span| !path[span].contains(&b'/')));
        }
    }
}

/// Routes for `/api/**`, with this rewriting, and for all else, each with this treatment of paths.
fn rewriting(strip: Option<&str>, add: Option<&str>, encoded: Encoded) -> Routes {
    let pattern = PathPattern::parse("/api/**").unwrap();
    let mut rewrite = Rewrite::new();
    if let Some(strip) = strip {
        rewrite = rewrite.without(strip, &pattern).unwrap();
    }
    if let Some(add) = add {
        rewrite = rewrite.with_prefix(add).unwrap();
    }
    let rewriting = Rule { rewrite: Some(rewrite), ..Rule::new(pattern) };
    let rules = [rule("/api/admin/**"), rewriting, rule("/**")];
    Routes::new(rules.into_iter().map(|rule| Rule { encoded, ..rule }).collect()).unwrap()
}

/// The path that a server gets, if the rewriting route takes the request.
fn rewritten(routes: &Routes, path: &[u8]) -> Option<Vec<u8>> {
    let subject = Subject { method: b"GET", host: None, path, is_secure: false };
    let Decision::Take { index: 1, path: other, .. } = routes.find(&subject) else { return None };
    let rewrite = routes.rules()[1].rewrite.as_ref()?;
    Some(rewrite.path(other.as_deref().unwrap_or(path)))
}

#[test]
fn a_server_gets_another_path_with_its_encoding() {
    for (strip, add, path, expected) in [
        (Some("/api"), None, "/api/a%20b", Some("/a%20b")),
        (Some("/api"), None, "/%61pi/x", Some("/x")),
        (Some("/api"), None, "/api", Some("/")),
        (Some("/api"), None, "/api/", Some("/")),
        (Some("/api"), None, "/api/api/api", Some("/api/api")),
        (Some("/api"), Some("/v2/x"), "/api/a", Some("/v2/x/a")),
        (Some("/api"), Some("/v2"), "/api", Some("/v2")),
        (None, Some("/v2"), "/api", Some("/v2/api")),
        (Some("/api"), None, "/api/a;b=c", Some("/a;b=c")),
        (Some("/api"), None, "/api/a%25b", Some("/a%25b")),
        (Some("/api"), None, "/apis", None),
    ] {
        let routes = rewriting(strip, add, Encoded::Safe);
        let found = rewritten(&routes, path.as_bytes());
        let found = found.as_deref().map(String::from_utf8_lossy);
        assert_eq!(found.as_deref(), expected, "{path}");
    }
    let route = PathPattern::parse("/t/{tenant}/x/**").unwrap();
    let rewrite = Rewrite::new().without("/t/{tenant}", &route).unwrap();
    assert_eq!(rewrite.path(b"/t/one/x/y"), b"/x/y");
    assert_eq!(rewrite.cut_size(b"/t/one?x=/y/z"), 6);
    for other in ["/t/{user}", "/t/one", "/t/{tenant}/x/y", "/x"] {
        assert!(Rewrite::new().without(other, &route).unwrap_err().contains("begin with it"));
    }
}

/// Paths that some server would read as one that is not below `/v2`, or as one of another route, after
/// `/api` was replaced by `/v2`; and those that begin with an authority once `/api` was removed.
#[test]
fn no_attack_leaves_a_rewritten_route() {
    let attacks = [
        "/api/../x",
        "/api/..",
        "/api/%2e%2e/x",
        "/api/..%2fx",
        "/api/%2e%2e%2fx",
        "/api/..;/x",
        "/api/..%3b/x",
        "/api/%252e%252e/x",
        "/api/..%252fx",
        "/api/..\\x",
        "/api/..%5cx",
        "/api/a/../../x",
        "/api/a/..%2f..%2fx",
        "/api/./../x",
        "/api//../../x",
        "/api/../api/../../x",
        "/api/../api/x",
        "/api/admin%2fx",
        "/api/%61dmin%2fx",
        "/api/x/../admin",
        "/api//admin",
        "/api/%2fadmin",
    ];
    for encoded in [Encoded::Safe, Encoded::Refuse, Encoded::Decode] {
        for add in ["/v2", "/v2/api"] {
            let routes = rewriting(Some("/api"), Some(add), encoded);
            for path in attacks {
                let Some(other) = rewritten(&routes, path.as_bytes()) else { continue };
                // The segment that was left is entered again.
                let is_back = add == "/v2/api" && path == "/api/../api/x";
                let is_plain = encoded == Encoded::Decode && !other.contains(&b'.');
                assert!(is_plain || is_back, "{path}");
            }
        }
    }
    for encoded in [Encoded::Safe, Encoded::Pass, Encoded::Refuse, Encoded::Decode] {
        let routes = rewriting(Some("/api"), None, encoded);
        for path in [
            "/api//evil.example/x",
            "/api//",
            "/api/\\evil.example",
            "/api/%2f%2fevil.example",
            "/api/%5cevil.example",
            "/api/.//evil.example",
            "/api///evil.example",
        ] {
            let found = rewritten(&routes, path.as_bytes());
            let is_authority = |path: &[u8]| path.len() > 1 && matches!(path[1], b'/' | b'\\');
            assert!(!found.is_some_and(|path| is_authority(&path)), "{path}");
        }
    }
}

fn path_pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "/", "//", "/api", "/admin", "/v2", "/..", "/.", "..", "%2e", "%2F", "%5c", "\\", ";",
            "%3b", "%252e", "%25", "/%61pi", "/a", "x",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..7).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Every reading of the path that a server gets is one below the prefix, and that of a path of the
    /// same route.
    #[test]
    fn a_rewritten_path_is_one_of_its_route(
        rest in path_pieces(),
        strips in any::<bool>(),
        add in prop::option::of(prop::sample::select(vec!["/v2", "/api", "/api/admin", "/a/b"])),
        encoded in prop::sample::select(vec![Encoded::Safe, Encoded::Refuse, Encoded::Decode]),
    ) {
        let routes = rewriting(strips.then_some("/api"), add, encoded);
        let mut path = [b"/api", rest.as_slice()].concat();
        path.retain(|byte| *byte != b'?');
        let Some(other) = rewritten(&routes, &path) else { return Ok(()) };
        prop_assert!(other.starts_with(b"/") && !other.starts_with(b"//"));
        prop_assert!(other.iter().all(|byte| !matches!(byte, 0..=0x20 | 0x7f | b'#' | b'?')));
        let (cut, add) = (if strips { "/api" } else { "" }, add.unwrap_or_default());
        for reading in readings::of_path(&other).expect("they were few") {
            let below = reading.strip_prefix(add.as_bytes());
            prop_assert!(below.is_some_and(|it| it.is_empty() || it.starts_with(b"/")));
            let origin = [cut.as_bytes(), below.unwrap_or_default()].concat();
            let subject = Subject { method: b"GET", host: None, path: &origin, is_secure: false };
            prop_assert_eq!(routes.first_fit(&subject).index(), Some(1));
        }
    }
}
