use super::*;
use crate::policy::balance::Balance;
use crate::policy::fan_out::Quorum;
use crate::policy::retry::HedgeAfter;
use crate::policy::routes::Subject;

const EXAMPLE: &str = "
workers = 2

[upstream.app]
servers = ['unix:/run/app.sock', { at = '127.0.0.1:9001', weight = 2 }]
balance = 'least'
connections-max = 64
queue = { size = 256, time = '500ms' }
health = { path = '/healthz', every = '2s' }

[upstream.ads]
servers = ['ads.example:80']
protocol = 'uwsgi'
balance = 'hash'

[[route]]
path = '/api/**'
to = 'app'
head-time = '10s'
retry = { tries = 3, on = ['connect', 'reset'] }
hedge = { after = 'p95', budget = 0.05 }
rate = { per = 'address', requests = 100, every = '1s', burst = 200 }

[[route]]
path = '/home/{id}'
gather = { users = 'app:/users/{id}', ads = 'ads:/for/{id}' }
deadline = '200ms'
quorum = '50%'
required = ['users']

[[route]]
path = '/**'
folder = 'site'
";

#[test]
fn the_example_is_read_whole() {
    let read = Configuration::parse(EXAMPLE).unwrap();
    let app = read.upstreams.iter().find(|upstream| upstream.name == "app").unwrap();
    let weights: Vec<u32> = app.servers.iter().map(|server| server.weight).collect();
    assert_eq!((weights, app.servers[0].in_flight_max), (vec![1, 2], 64));
    assert_eq!(app.policy.queue.unwrap().time_ns, 500_000_000);
    assert_eq!(app.policy.health.as_ref().unwrap().policy.rise, 2);
    let ads = read.upstreams.iter().find(|upstream| upstream.name == "ads").unwrap();
    assert_eq!((ads.policy.balance, ads.policy.protocol), (Balance::Hash, Protocol::Uwsgi));

    let api = &read.routes[0];
    assert!(
        matches!(&api.action, RouteAction::Forward(index) if read.upstreams[*index].name == "app")
    );
    assert_eq!((api.head_ns, api.retry.tries_max), (Some(10_000_000_000), 3));
    let hedge = api.hedge.unwrap();
    assert_eq!((hedge.after, hedge.budget.percent), (HedgeAfter::Percentile(95), 5));
    assert_eq!(api.rate.as_ref().unwrap().policy.burst, 200);

    let RouteAction::Gather(plan) = &read.routes[1].action else { panic!("no plan") };
    let parts: Vec<_> =
        plan.parts.iter().map(|part| (part.id.as_str(), part.is_required)).collect();
    assert_eq!(parts, [("users", true), ("ads", false)]);
    assert_eq!((plan.deadline_ns, plan.quorum), (200_000_000, Quorum::Percent(50)));

    let RouteAction::Folder(folder) = &read.routes[2].action else { panic!("files") };
    assert_eq!((folder.path.as_str(), folder.fields.len()), ("site", 0));
    let subject = Subject { method: b"GET", host: None, path: b"/home/7", is_secure: false };
    assert_eq!(read.rules.find(&subject).index(), Some(1));
}

#[test]
fn statuses_that_are_retried_are_a_list_with_ranges() {
    let read = |list: &str| {
        let keys = format!("connections-max = 64\nretry-statuses = {list}");
        let text = EXAMPLE.replacen("connections-max = 64", &keys, 1);
        let app = Configuration::parse(&text).unwrap().upstreams.pop().unwrap();
        (400..=599).filter(|status| app.policy.retry_statuses.contains(*status)).collect::<Vec<_>>()
    };
    assert_eq!(read("[503]"), [503]);
    assert_eq!(read("[500, \"502-504\", 500]"), [500, 502, 503, 504]);
    assert_eq!(read("[\"400-599\"]").len(), 200);
    let without = Configuration::parse(EXAMPLE).unwrap();
    assert!(without.upstreams.iter().all(|upstream| upstream.policy.retry_statuses.is_empty()));
    assert!(without.routes[2].retry.on_status && !without.routes[0].retry.on_status);
}

#[test]
fn requests_are_counted_by_address_route_or_field() {
    let read = |keys: &str| {
        let text = EXAMPLE.replacen("per = 'address'", keys, 1);
        let rate = Configuration::parse(&text).unwrap().routes.remove(0).rate.unwrap();
        (rate.per, rate.is_dry_run)
    };
    assert_eq!(read("per = \"address\""), (RateKey::Address, false));
    assert_eq!(read("per = \"route\", dry-run = true"), (RateKey::Route, true));
    let key = RateKey::Field("X-Api-Key".to_owned());
    assert_eq!(read("per = \"field:X-Api-Key\", dry-run = false"), (key, false));
}

#[test]
fn servers_can_get_the_time_that_is_left_in_a_field() {
    let key = "deadline-field = \"X-Deadline-Ms\"";
    let text = EXAMPLE.replacen("head-time = '10s'", key, 1);
    let text = text.replacen("quorum = '50%'", key, 1);
    let fields = Configuration::parse(&text).unwrap().routes;
    let fields: Vec<_> = fields.iter().map(|route| route.deadline_field.as_deref()).collect();
    assert_eq!(fields, [Some("X-Deadline-Ms"), Some("X-Deadline-Ms"), None]);
}

#[test]
fn a_route_says_which_path_its_server_gets() {
    let explained = |keys: &str, url: &str| {
        let text = EXAMPLE.replacen("head-time = '10s'", keys, 1);
        Configuration::parse(&text).unwrap().explain("GET", url).text
    };
    let keys = "strip-prefix = \"/api\"\nadd-prefix = \"/v2\"";
    assert_eq!(
        explained(keys, "/api/a%20b?c=/d"),
        "line 16, /api/**: to upstream app, as /v2/a%20b\n"
    );
    let keys = "strip-prefix = \"/api\"";
    assert_eq!(explained(keys, "/api"), "line 16, /api/**: to upstream app, as /\n");
}

#[test]
fn a_route_says_what_becomes_of_requests_without_a_client() {
    let read = |keys: &str| {
        let text = EXAMPLE.replacen("head-time = '10s'", keys, 1);
        Configuration::parse(&text).unwrap().routes.remove(0).on_client_end
    };
    assert_eq!(read(""), ClientEnd::Deliver);
    assert_eq!(read("on-client-end = \"finish\""), ClientEnd::Finish);
    assert_eq!(read("on-client-end = \"abort\""), ClientEnd::Abort);
}

#[test]
fn a_route_has_sizes_of_bodies() {
    let read = |keys: &str| {
        let text = EXAMPLE.replacen("head-time = '10s'", keys, 1);
        let route = Configuration::parse(&text).unwrap().routes.remove(0);
        (route.body_size_max, route.collect_size)
    };
    assert_eq!(read(""), (None, 64 * 1024));
    assert_eq!(read("body-size-max = \"2GiB\"\ncollect = \"1MiB\""), (Some(2 << 30), 1 << 20));
    assert_eq!(read("body-size-max = \"0B\"\ncollect = \"0B\""), (Some(0), 0));
}

#[test]
fn a_check_passes_with_the_statuses_of_the_file() {
    let passes = |keys: &str| {
        let text = EXAMPLE.replacen("every = '2s'", &format!("every = '2s'{keys}"), 1);
        let check =
            Configuration::parse(&text).unwrap().upstreams.pop().unwrap().policy.health.unwrap();
        (0..=999).filter(|status| check.passes(*status)).collect::<Vec<u16>>()
    };
    assert_eq!(passes(""), (200..=399).collect::<Vec<_>>());
    assert_eq!(passes(", statuses = [204, \"300-301\", 503]"), [204, 300, 301, 503]);
}

#[test]
fn a_file_without_these_keys_has_no_routes() {
    let read = Configuration::parse("workers = 3\n").unwrap();
    assert!(read.routes.is_empty() && read.upstreams.is_empty());
}

#[test]
fn the_route_of_a_request_is_explained() {
    let read = Configuration::parse(EXAMPLE).unwrap();
    let explained = read.explain("GET", "https://example.org/home/7?x=1");
    assert_eq!(
        explained.text,
        "line 24, /home/{id}: gathers 2 parts, id = 7\n  users: app /users/7\n  ads: ads /for/7\n  \
         not line 16, /api/**: another path\n"
    );
    assert!(explained.is_taken);
    assert!(read.explain("GET", "/api").text.starts_with("line 16, /api/**: to upstream app\n"));
    assert!(read.explain("GET", "http://a").text.starts_with("line 31, /**: files of site\n"));
    let refused = read.explain("GET", "/a/%2e%2e/api/b");
    let why = "another server may read the path as one of another route";
    assert_eq!(refused.text, format!("400: {why}; a route may have encoded = \"pass\"\n"));
    assert!(!refused.is_taken);
    let text = "[[route]]\npath='/a'\nscheme='https'\nredirect='/b{target}'\n";
    let elsewhere = Configuration::parse(text).unwrap();
    let explained = elsewhere.explain("GET", "https://h/a").text;
    assert_eq!(explained, "line 1, /a: redirects to /b{target} with 308\n");
    let explained = elsewhere.explain("GET", "http://h/a").text;
    assert!(explained.ends_with("not line 1, /a: another scheme\n"), "{explained}");
    let only = Configuration::parse("[[route]]\npath='/a'\nmethods=['PUT']\nfixed='x'\n").unwrap();
    assert!(only.explain("GET", "/a").text.starts_with("405: /a is for PUT\n"));
    assert!(only.explain("PUT", "/b").text.starts_with("404: no route takes it\n"));
}

/// The example with one line replaced, and what is said about it.
fn check(from: &str, to: &str, line: usize, why: &str) {
    assert!(EXAMPLE.contains(from), "{from}");
    let problem = Configuration::parse(&EXAMPLE.replacen(from, to, 1)).unwrap_err().remove(0);
    assert!(problem.why.contains(why), "{problem}");
    assert_eq!(problem.line, line, "{problem}");
}

#[test]
fn a_number_for_a_time_or_a_size_lacks_quotes_and_a_unit() {
    let size = "must be a size in quotes, such as \"256KiB\", not a value of type integer";
    let time = "must be a time in quotes, such as \"5s\", not a value of type integer";
    check("head-time = '10s'", "body-size-max = 1", 19, size);
    check("head-time = '10s'", "head-time = 10", 19, time);
}

#[test]
fn parts_receive_the_fields_of_a_list_if_they_can_have_them() {
    let listed = |names: &str| {
        let text = EXAMPLE.replacen("quorum = '50%'", &format!("fields = {names}"), 1);
        match Configuration::parse(&text).unwrap().routes.remove(1).action {
            RouteAction::Gather(plan) => plan.fields,
            _ => panic!("no plan"),
        }
    };
    assert_eq!(listed("[]"), Some(vec![]));
    assert_eq!(listed("[\"X-User\"]"), Some(vec!["X-User".to_owned()]));
    for name in ["Range", "If-Match", "Content-Length", "X_User"] {
        let keys = format!("fields = [\"X-User\", \"{name}\"]");
        check("quorum = '50%'", &keys, 28, &format!("can have, not {name:?}"));
    }
    check("to = 'app'", "to = 'app'\nfields = []", 19, "has no key \"fields\"");
}

#[test]
fn a_key_without_an_effect_is_refused() {
    let folder = "folder = 'site'";
    for key in ["head-time", "try-time"] {
        let why = format!("{key} is for routes with to or gather");
        check(folder, &format!("{folder}\n{key} = \"1s\""), 34, &why);
    }
    let keys = "folder = 'site'\nretry = { tries = 2 }";
    check(folder, keys, 34, "retry is for routes with to or gather");
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_line() {
    for (from, to, line, why) in [
        ("balance = 'least'", "balanced = 1", 6, "has no key \"balanced\""),
        ("balance = 'least'", "balance = 'fair'", 6, "\"least\" or \"two-choices\" or \"ewma\""),
        ("balance = 'least'", "balance = 'ewma'\nhash-by = 'address'", 7, "for balance"),
        ("weight = 2", "weight = 0", 5, "weight is 1 to 1000, not 0"),
        ("weight = 2", "weights = 2", 5, "a server has no key \"weights\""),
        ("127.0.0.1:9001", "127.0.0.1", 5, "HOST:PORT with a port of 1 to 65535, or unix:/PATH"),
        ("127.0.0.1:9001", "127.0.0.1:0", 5, "HOST:PORT with a port of 1 to 65535, or unix:/PATH"),
        ("127.0.0.1:9001", "unix:/run/app.sock", 5, "is there twice"),
        ("connections-max = 64", "connections-max = '64'", 7, "a whole number"),
        ("balance = 'least'", "retry-statuses = 503", 6, "retry-statuses must be"),
        ("balance = 'least'", "retry-statuses = [true]", 6, "not a value of type boolean"),
        ("balance = 'least'", "retry-statuses = []", 6, "retry-statuses is an empty list"),
        ("balance = 'least'", "retry-statuses = [399]", 6, "retry-statuses is 400 to 599, not 399"),
        ("balance = 'least'", "retry-statuses = ['502']", 6, "within 400-599, not \"502\""),
        ("balance = 'least'", "retry-statuses = ['504-502']", 6, "not \"504-502\""),
        ("balance = 'least'", "retry-statuses = ['500-600']", 6, "not \"500-600\""),
        ("time = '500ms'", "time = '500'", 8, "time is a time"),
        ("time = '500ms'", "time = '0s'", 8, "time is a time"),
        ("/healthz", "healthz", 9, "begins with a slash"),
        ("every = '2s'", "statuses = 200", 9, "statuses must be a list"),
        ("every = '2s'", "statuses = [103]", 9, "statuses is 200 to 599, not 103"),
        ("every = '2s'", "statuses = ['2xx']", 9, "within 200-599, not \"2xx\""),
        ("every = '2s'", "statuses = []", 9, "statuses is an empty list"),
        ("servers = ['ads.example:80']", "servers = []", 12, "empty list"),
        ("'uwsgi'", "'uwsgi'\nidle-time = '2s'", 14, "\"uwsgi\" are not kept"),
        ("'uwsgi'", "'uwsgi'\nmin-idle = 1", 14, "min-idle: connections of the protocol"),
        ("balance = 'least'", "min-idle = 65", 6, "min-idle is 0 to 64, not 65"),
        ("'uwsgi'", "'uwsgi'\nhost = 'a b'", 14, "\"client\", \"upstream\" or a name"),
        ("'uwsgi'", "'uwsgi'\nvia = 'off'", 14, "via must be true or false"),
        ("'hash'", "'hash'\nhash-by = 'field:'", 15, "or \"field:NAME\", not \"field:\""),
        ("'hash'", "'least'\nhash-by = 'address'", 15, "for balance = \"hash\""),
        ("'uwsgi'", "'fastcgi'", 13, "\"http\" or \"https\" or \"uwsgi\""),
        ("'uwsgi'", "'uwsgi'\ntls-name = 'a'", 14, "are for protocol = \"https\""),
        ("'uwsgi'", "'https'\ntls-name = 'a/b'", 14, "a name or an address, not \"a/b\""),
        ("'uwsgi'", "'https'\ntls-ca = 1", 14, "string"),
        ("servers = ['ads.example:80']", "", 11, "upstream \"ads\" has no servers"),
        ("to = 'app'", "to = 'apps'", 18, "no upstream \"apps\"; there are: ads, app"),
        ("to = 'app'", "to = 'app'\nfixed = 'x'", 16, "one of to, folder, fixed"),
        ("to = 'app'", "", 16, "one of to, folder, fixed, redirect, app, handler and gather"),
        (
            "deadline = '200ms'",
            "part-size-max = '1GiB'",
            27,
            "part-size-max is a size of at most 64 MiB",
        ),
        ("path = '/api/**'", "", 16, "a route has a path"),
        ("/api/**", "/api/*/x", 17, "\"/api/*/x\": `*` is for the end"),
        ("/api/**", "/**", 24, "no request reaches this route: the one on line 16"),
        ("path = '/api/**'", "path = '/a'\nhost = 'a b'", 18, "a host is a name"),
        ("path = '/api/**'", "path = '/a'\nmethods = []", 18, "methods are a list of names"),
        ("'reset']", "'timeout']", 20, "needs a try-time"),
        ("'reset']", "'status']", 20, "to retry on \"status\", \"app\" needs retry-statuses"),
        ("'reset']", "'error']", 20, "\"connect\" or \"reset\" or \"timeout\""),
        ("'reset']", "'reset'], unsafe='proven'", 20, "retry has no key \"unsafe\""),
        ("budget = 0.05", "budget = 5.0", 21, "0.01 to 1.0"),
        ("after = 'p95'", "after = 'p100'", 21, "p50 to p99, or a time, not \"p100\""),
        (
            "folder = 'site'",
            "folder = 'site'\nhedge = {}",
            34,
            "hedge is for routes with to or gather",
        ),
        ("head-time = '10s'", "body-size-max = '1025GiB'", 19, "at most 1024 GiB"),
        ("head-time = '10s'", "body-size-max = '-1B'", 19, "body-size-max is a size"),
        ("head-time = '10s'", "collect = '65MiB'", 19, "collect is a size of at most 64 MiB"),
        ("head-time = '10s'", "collect = '1 MiB'", 19, "not \"1 MiB\""),
        (
            "folder = 'site'",
            "folder = 'site'\ncollect = '1MiB'",
            34,
            "collect is for routes with to",
        ),
        (
            "head-time = '10s'",
            "on-client-end = 'ignore'",
            19,
            "on-client-end is \"finish\" or \"abort\", not \"ignore\"",
        ),
        (
            "folder = 'site'",
            "folder = 'site'\non-client-end = 'abort'",
            34,
            "on-client-end is for routes with to",
        ),
        ("head-time = '10s'", "deadline-field = ''", 19, "a field of its own"),
        ("head-time = '10s'", "deadline-field = 'X_Ms'", 19, "not \"X_Ms\""),
        ("head-time = '10s'", "deadline-field = 'HOST'", 19, "as X-Deadline-Ms, not \"HOST\""),
        (
            "folder = 'site'",
            "folder = 'site'\ndeadline-field = 'X-Deadline-Ms'",
            34,
            "deadline-field is for routes with to or gather",
        ),
        ("head-time = '10s'", "strip-prefix = '/ap'", 19, "does not begin with it"),
        ("head-time = '10s'", "strip-prefix = '/api/'", 19, "without a final slash"),
        ("head-time = '10s'", "strip-prefix = 'api'", 19, "begins with a slash"),
        ("head-time = '10s'", "add-prefix = '/a/../b'", 19, "a segment `.` or `..`"),
        ("head-time = '10s'", "add-prefix = '/a%2fb'", 19, "an encoded dot, slash"),
        ("head-time = '10s'", "add-prefix = '/{id}'", 19, "without a final slash"),
        ("head-time = '10s'", "add-prefix = '/a?b'", 19, "remove `?`"),
        (
            "folder = 'site'",
            "folder = 'site'\nadd-prefix = '/a'",
            34,
            "add-prefix is for routes with to",
        ),
        (
            "required = ['users']",
            "strip-prefix = '/home'",
            29,
            "strip-prefix is for routes with to or folder",
        ),
        ("head-time = '10s'", "request-field = 'A: b'", 19, "must be a list of strings"),
        ("head-time = '10s'", "request-field = ['A: {id}']", 19, "no variable {id}"),
        ("head-time = '10s'", "response-field = [\n'-Date']", 20, "it is always sent"),
        ("head-time = '10s'", "request-field = ['-Host']", 19, "[upstream.NAME] sets it"),
        (
            "head-time = '10s'",
            "deadline-field = 'X-Ms'\nrequest-field = ['-x-ms']",
            20,
            "deadline-field sets X-Ms",
        ),
        (
            "head-time = '10s'",
            "strip-prefix = '/api'\nrequest-field = ['X-Forwarded-Prefix: /']",
            20,
            "strip-prefix sets X-Forwarded-Prefix",
        ),
        (
            "folder = 'site'",
            "folder = 'site'\nresponse-field = ['-Server']",
            34,
            "\"-Server\": write [PATTERN=]NAME: VALUE",
        ),
        (
            "folder = 'site'",
            "folder = 'site'\nresponse-field = ['A: b', 'ETag: c']",
            34,
            "ETag cannot be set",
        ),
        ("to = 'app'", "redirect = '//h'", 18, "two slashes would begin"),
        ("to = 'app'", "redirect = 'h'", 18, "a location is https://HOST/PATH"),
        ("to = 'app'", "redirect = '/{a}'", 18, "there is no variable {a}"),
        ("to = 'app'", "redirect = '/a'\nredirect-status = 304", 19, "307 or 308, not 304"),
        (
            "to = 'app'",
            "redirect = '/a'\nresponse-field = ['-location']",
            19,
            "redirect sets Location",
        ),
        ("to = 'app'", "to = 'app'\nredirect-status = 301", 19, "for routes with redirect"),
        ("to = 'app'", "to = 'app'\nscheme = 'ftp'", 19, "\"http\" or \"https\""),
        ("requests = 100, ", "", 22, "a number of requests"),
        ("per = 'address'", "per = 'client'", 22, "\"route\" or \"field:NAME\", not \"client\""),
        ("per = 'address'", "per = 'field:'", 22, "not \"field:\""),
        ("per = 'address'", "per = 'field:X_Y'", 22, "not \"field:X_Y\""),
        ("per = 'address'", "dry-run = 1", 22, "must be true or false"),
        ("app:/users/{id}", "app:/users/{name}", 26, "no variable {name}"),
        ("ads:/for/{id}", "add:/for/{id}", 26, "no upstream \"add\""),
        ("deadline = '200ms'", "soft-deadline = '2s'", 27, "before the deadline"),
        ("quorum = '50%'", "quorum = 3", 28, "quorum is larger"),
        ("{ users = 'app:/users/{id}', ads = 'ads:/for/{id}' }", "{}", 26, "0 parts; a route"),
        ("quorum = '50%'", "quorum = 'half'", 28, "a share as \"95%\""),
        ("quorum = '50%'", "shape = 'map'", 28, "\"list\" or \"object\" or \"merge\""),
        ("quorum = '50%'", "form = 'sse'", 28, "is \"json\" or \"ndjson\", not \"sse\""),
        ("required = ['users']", "required = ['user']", 29, "no part \"user\""),
        ("folder = 'site'", "folder = 'site'\ndeadline = '1s'", 34, "has no key \"deadline\""),
        ("folder = 'site'", "folder = ", 33, "quoted"),
        ("[[route]]", "[route]", 24, "duplicate key"),
    ] {
        check(from, to, line, why);
    }
}

#[test]
fn an_unknown_key_of_any_table_is_an_error_with_the_one_that_was_meant() {
    let upstream = "[upstream.a]\nservers = ['h:1']\n";
    let route = format!("{upstream}[[route]]\npath = '/'\nto = 'a'\n");
    let gathering = format!("{upstream}[[route]]\npath = '/'\ngather = {{ a = 'a:/' }}\n");
    for (text, key, meant) in [
        (format!("{upstream}idle-tme = '1s'\n"), "idle-tme", "idle-time"),
        (format!("{upstream}health = {{ path = '/', evry = '1s' }}\n"), "evry", "every"),
        (format!("{upstream}queue = {{ sise = 1 }}\n"), "sise", "size"),
        ("[upstream.a]\nservers = [{ at = 'h:1', wieght = 2 }]\n".into(), "wieght", "weight"),
        (format!("{route}head_time = '1s'\n"), "head_time", "head-time"),
        (format!("{route}encodet = 'pass'\n"), "encodet", "encoded"),
        (format!("{route}retry = {{ trys = 2 }}\n"), "trys", "tries"),
        (format!("{route}hedge = {{ afer = 'p95' }}\n"), "afer", "after"),
        (format!("{route}rate = {{ request = 2 }}\n"), "request", "requests"),
        (format!("{route}concurrency = {{ reqests = 2 }}\n"), "reqests", "requests"),
        (format!("{gathering}dedline = '1s'\n"), "dedline", "deadline"),
    ] {
        let why = Configuration::parse(&text).unwrap_err().remove(0).why;
        let said = format!("has no key {key:?}; did you mean {meant:?}?");
        assert!(why.ends_with(&said), "{why}");
    }
}

/// The lines of all that is wrong.
fn lines(text: &str) -> Vec<usize> {
    let problems = Configuration::parse(text).unwrap_err();
    problems.iter().map(|problem| problem.line).collect()
}

#[test]
fn all_that_is_wrong_is_reported_in_the_order_of_the_file() {
    let text = "[upstream.app]\nservers = ['h:1']\nbalence = 'least'\nidle-time = 5\n\
                [upstream.other]\nprotocol = 'htps'\nservres = ['h:1']\ntls-ca = 'x'\n\
                [[route]]\npath = '/{a'\nto = 'ap'\ncolect = 1\nhead-time = 3\n\
                [[route]]\npath = '/b'\nto = 'other'\nretry = { on = ['status'] }\n";
    assert_eq!(lines(text), [3, 4, 6, 7, 10, 11, 12, 13]);
    assert_eq!(lines(&text.replace("servres", "servers")), [3, 4, 6, 10, 11, 12, 13]);
    assert_eq!(
        lines("[upstream.app]\nvia = 1\n[[route]]\npath = '/'\nto = 'app'\nx = 1\n"),
        [1, 2, 6]
    );
}

#[test]
fn mistakes_within_tables_and_lists_are_all_reported_with_their_keys() {
    let text = "[upstream.app]\nservers = [\n'h',\n{ at = 1, wieght = 2 },\n'h:1'\n]\n\
                [upstream.app.health]\npath = 'x'\nevery = 1\nrise = 0\nfal = 1\n\
                [[route]]\npath = '/a'\nto = 'app'\nrequest-field = [\n'A',\n'-Host'\n]\n\
                [route.retry]\ntries = 0\non = [\n'status',\n'tiemout'\n]\n\
                [route.rate]\nper = 'x'\n";
    let (value, unknown) = (ProblemKind::Value, ProblemKind::Unknown);
    let expected = [
        (3, value, "upstream.app.servers"),
        (4, value, "upstream.app.servers[1].at"),
        (4, unknown, "upstream.app.servers[1].wieght"),
        (8, value, "upstream.app.health.path"),
        (9, value, "upstream.app.health.every"),
        (10, value, "upstream.app.health.rise"),
        (11, unknown, "upstream.app.health.fal"),
        (16, value, "route[0].request-field"),
        (17, value, "route[0].request-field"),
        (20, value, "route[0].retry.tries"),
        (23, value, "route[0].retry.on"),
        (25, ProblemKind::Missing, "route[0].rate.requests"),
        (26, value, "route[0].rate.per"),
    ];
    let problems = Configuration::parse(text).unwrap_err();
    let found: Vec<_> = problems.iter().map(|it| (it.line, it.kind, it.key.as_str())).collect();
    assert_eq!(found, expected, "{problems:#?}");
}

#[test]
fn words_of_a_sentence_hide_no_other_mistake() {
    // The sentence about the second mistake has the word "to", and "app" in quotes.
    assert_eq!(lines("[[route]]\npath = '/a'\nto = 'ap'\nredirect-status = 310\n"), [3, 4]);
    let text = "[upstream.app]\nservers = ['h:1']\nvia = 1\n[[route]]\npath = '/a'\napp = 'app'\n";
    assert_eq!(lines(text), [3, 6]);
}

#[test]
fn what_would_be_right_without_another_mistake_is_not_reported() {
    for (keys, expected) in [
        ("path = '/{id'\nto = 'app'\nrequest-field = ['A: {id}']\n", vec![4]),
        ("path = '/{id'\ngather = { a = 'app:/{id}' }\nquorum = 1\n", vec![4]),
        ("path = '/{id'\nredirect = '/{id}'\nresponse-field = ['-Location']\n", vec![4]),
        ("path = '/a'\ngather = { a = 'ap:/' }\nrequired = ['a']\n", vec![5]),
        ("path = '/a'\nto = 'app'\ntry-time = 1\nretry = { on = ['timeout'] }\n", vec![6]),
        ("path = '/a'\nfolder = 1\nretry = { tries = 2 }\n", vec![5, 6]),
        ("path = '/a'\nfolder = 'a'\nhead-time = 3\n", vec![6]),
    ] {
        let text = format!("[upstream.app]\nservers = ['h:1']\n[[route]]\n{keys}");
        assert_eq!(lines(&text), expected, "{keys}");
    }
}

fn stores_of(text: &str) -> Result<Vec<StoreOptions>, Vec<Problem>> {
    stores(text, DeTable::parse(text).expect("it is TOML").get_ref())
}

#[test]
fn stores_have_options_with_defaults() {
    let text = "fixed = 'x'\n[store.a]\n[store.b-1]\nsize = '2MiB'\nttl = '1h'\n\
                durability = 'memory'\nwhen-full = 'drop'\n";
    let found = stores_of(text).expect("it is valid");
    let mut found = found.into_iter();
    let defaults = StoreOptions {
        name: "a".to_owned(),
        line: 2,
        size: 256 << 20,
        ttl_ms: None,
        durability: StoreDurability::Lazy,
        when_full: StoreWhenFull::Refuse,
    };
    assert_eq!(found.next(), Some(defaults));
    let given = StoreOptions {
        name: "b-1".to_owned(),
        line: 3,
        size: 2 << 20,
        ttl_ms: Some(3_600_000),
        durability: StoreDurability::Memory,
        when_full: StoreWhenFull::Drop,
    };
    assert_eq!((found.next(), found.next()), (Some(given), None));
}

#[test]
fn all_that_is_wrong_with_stores_has_its_line() {
    let text = "[store.a]\nsize = '1KiB'\nttl = '1us'\n[store.'a b']\n[store.c]\nfull = 1\n";
    let wrong = stores_of(text).expect_err("it is invalid");
    assert_eq!(wrong.iter().map(|it| it.line).collect::<Vec<_>>(), [2, 3, 4, 6], "{wrong:?}");
    assert_eq!(stores_of("store = 1").expect_err("it is no table")[0].line, 1);
}
