//! Pages for paths that name no file: of applications in the browser, clean URLs, a single file; and
//! fields by name.

use std::fs;
use std::os::unix::net::UnixListener;

use jissoku_server::{FieldRule, Files, FilesOptions, Rule};

use super::{Dir, bodiless, get, get_with};
use crate::client::{Answer, Target};

fn spa() -> FilesOptions {
    FilesOptions { is_spa: true, ..FilesOptions::default() }
}

fn clean() -> FilesOptions {
    FilesOptions { has_clean_urls: true, ..FilesOptions::default() }
}

fn field_rules(rules: &[&str]) -> Vec<FieldRule> {
    rules.iter().map(|rule| FieldRule::parse(rule).expect("a rule")).collect()
}

const HTML: &str = "Accept: application/xml, TEXT/html;q=0.9, */*;q=0.8\r\n";

#[test]
fn paths_that_name_no_file_are_of_the_application() {
    let folder = Dir::new();
    fs::create_dir(folder.public().join("bare")).expect("a folder");
    folder.write("bare/x.js", b"x");
    let target = folder.serve_as(spa());
    let page = |path: &str, lines: &str| {
        let answer = get_with(&target, path, lines);
        assert_eq!((answer.status, answer.text()), (200, "<p>home"), "{path}");
        assert_eq!(answer.field("Cache-Control"), Some("no-cache"), "{path}");
        assert_eq!(answer.field("Vary"), Some("Accept"), "{path}");
    };
    for path in ["/", "/index.html", "/user/7", "/bare", "/bare/", "/a.b/c", "/%e3%81%82?q=.js"] {
        page(path, "");
        page(path, HTML);
    }
    page("/user/a.b@example.com", HTML);
    for lines in ["", "Accept: */*\r\n", "Accept: image/png, text/htmlx\r\n"] {
        let answer = get_with(&target, "/assets/app.1.js", lines);
        assert_eq!((answer.status, answer.field("Vary")), (404, Some("Accept")), "{lines}");
    }
    assert_eq!(get(&target, "/bare/x.js").text(), "x");
    assert_eq!(get(&target, "/bare/x.js").field("Cache-Control"), None);
    assert_eq!(get(&target, "/sub%20dir").status, 301, "it has an index");
    let ask = |method: &str, lines: &str| {
        let head = format!("{method} /user/7 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
        bodiless(&target, &format!("{head}{lines}\r\n"))
    };
    let head = ask("HEAD", "");
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("7")));
    let tag = head.field("ETag").expect("a tag");
    assert_eq!(ask("GET", &format!("If-None-Match: {tag}\r\n")).status, 304);
    let part = get_with(&target, "/user/7", "Range: bytes=3-\r\n");
    assert_eq!((part.status, part.text()), (206, "home"));
    let post = target.ask("POST /user/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(post.status, 405);
}

#[test]
fn the_page_of_an_application_follows_its_file_and_its_own_rules() {
    let folder = Dir::new();
    let rules =
        field_rules(&["assets/**=Cache-Control: immutable", "*.html=Cache-Control: no-store"]);
    folder.write("lost.html", b"lost");
    let not_found = Some("lost.html".to_owned());
    let target = folder.serve_as(FilesOptions { fields: rules, not_found, ..spa() });
    let answer = get(&target, "/assets/x");
    assert_eq!((answer.status, answer.field("Cache-Control")), (200, Some("no-store")));
    let answer = get(&target, "/assets/x.js");
    assert_eq!((answer.status, answer.text()), (404, "lost"));
    assert_eq!((answer.field("Cache-Control"), answer.field("Vary")), (None, Some("Accept")));
    drop(target);
    fs::remove_file(folder.public().join("index.html")).expect("it can be removed");
    let outcome = Files::open(&folder.public(), spa());
    assert!(outcome.is_err_and(|why| why.starts_with("--spa needs ")));
}

/// Paths that must not be taken for those of an application or a page.
const HOSTILE: [&str; 18] = [
    "/.env",
    "/.git/config",
    "/.hidden",
    "/sub%20dir/.hidden",
    "/a/.b/c",
    "/%2eenv",
    "/../secret",
    "/%2e%2e/secret",
    "/..%2fsecret",
    "/a%2f..%2f..%2fsecret",
    "/%00",
    "/index%00",
    "/%",
    "/%zz",
    "/a/%2",
    "/sub%20dir/../../secret",
    "/.%2e/secret",
    "/...",
];

#[test]
fn hostile_paths_are_no_pages() {
    let folder = Dir::new();
    fs::create_dir(folder.public().join(".git")).expect("a folder");
    folder.write(".git/config", b"hidden");
    folder.write(".env.html", b"hidden");
    folder.write("..html", b"hidden");
    folder.write("../secret.html", b"secret");
    folder.link("../secret.html", "leak.html");
    folder.link("..", "above");
    folder.link("loop.html", "loop.html");
    let _socket = UnixListener::bind(folder.public().join("socket.html")).expect("a socket");
    let both = FilesOptions { has_clean_urls: true, ..spa() };
    for options in [spa(), clean(), both] {
        let is_spa = options.is_spa;
        let target = folder.serve_as(options);
        for path in HOSTILE {
            for lines in ["", HTML] {
                assert_eq!(get_with(&target, path, lines).status, 404, "{path}");
            }
        }
        for path in ["/leak", "/leak/", "/above/secret", "/loop", "/socket", "/leak.html"] {
            let answer = get_with(&target, path, HTML);
            let expected = if is_spa { (200, "<p>home") } else { (404, "Not Found\n") };
            assert_eq!((answer.status, answer.text()), expected, "{path}");
        }
    }
    let dotfiles = FilesOptions { shows_dotfiles: true, ..clean() };
    let target = folder.serve_as(dotfiles);
    for path in ["/..html", "/.env.html"] {
        assert_eq!(get(&target, path).status, 200, "{path}: no path without a suffix");
    }
}

#[test]
fn clean_urls_leave_the_suffix_out() {
    let folder = Dir::new();
    for (name, body) in
        [("about.html", "about"), ("both.html", "page"), ("both", "file"), ("x.html.html", "twice")]
    {
        folder.write(name, body.as_bytes());
    }
    fs::create_dir_all(folder.public().join("team/deep.html")).expect("folders");
    folder.write("team.html", b"team");
    folder.write("team/a:b.html", b"member");
    let target = folder.serve_as(clean());
    let check = |path: &str, expected: &str| {
        let answer = get(&target, path);
        match expected.strip_prefix("> ") {
            Some(location) => {
                let seen = (answer.status, answer.field("Location"));
                assert_eq!(seen, (301, Some(location)), "{path}");
            }
            None => assert_eq!((answer.status, answer.text()), (200, expected), "{path}"),
        }
    };
    check("/about", "about");
    check("/about?q=1", "about");
    check("/about.html", "> ./about");
    check("/about.html?q=1", "> ./about?q=1");
    check("/about/", "> ../about");
    check("/both", "file");
    check("/both.html", "page");
    check("/team", "team");
    check("/team/", "> ../team");
    check("/team/a:b.html", "> ./a%3Ab");
    check("/team/a:b", "member");
    check("/team/deep.html", "> ./deep.html/");
    check("/x.html", "twice");
    check("/x.html.html", "> ./x.html");
    check("/index.html", "> ./");
    check("/sub%20dir/index.html", "> ./");
    check("/sub%20dir", "> ./sub%20dir/");
    check("/", "<p>home");
    assert_eq!(get(&target, "/nothing").status, 404);
    let answer = get(&target, "/about");
    assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"));
    let target = folder.serve();
    assert_eq!(get(&target, "/about").status, 404);
    assert_eq!(get(&target, "/about.html").text(), "about");
}

fn check_file(target: &Target, path: &str, name: &str) -> Answer {
    for path in ["/", path] {
        assert_eq!(get(target, path).text(), "one", "{path} of {name}");
    }
    for path in ["/index.html", "/secret.txt", "//", "/../secret.txt", "/sub%20dir/", "/x"] {
        let expected = if path == "//" { 200 } else { 404 };
        assert_eq!(get(target, path).status, expected, "{path} of {name}");
    }
    get_with(target, "/", "Range: bytes=1-1\r\n")
}

#[test]
fn a_single_file_is_served_at_the_root_and_by_its_name() {
    let folder = Dir::new();
    folder.write("one page.txt", b"one");
    folder.write(".one", b"one");
    folder.write("../one.txt", b"one");
    folder.link("one page.txt", "link.txt");
    folder.link("../one.txt", "away.txt");
    for (name, path) in [
        ("one page.txt", "/one%20page.txt"),
        (".one", "/.one"),
        ("link.txt", "/link.txt"),
        ("away.txt", "/one.txt"),
    ] {
        let files = Files::open(&folder.public().join(name), FilesOptions::default());
        let target = Target::serve(files.expect("a file"));
        let part = check_file(&target, path, name);
        assert_eq!((part.status, part.text()), (206, "n"), "{name}");
        let head = "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let tag = bodiless(&target, head).field("ETag").expect("a tag").to_owned();
        let request = head.replace("HEAD", "GET");
        let request = request.replace("Host", &format!("If-None-Match: {tag}\r\nHost"));
        assert_eq!(bodiless(&target, &request).status, 304, "{name}");
    }
    let files = Files::open(&folder.public().join("index.html"), spa()).expect("a file");
    let target = Target::serve(files);
    assert_eq!(get(&target, "/user/7").text(), "<p>home");
    assert_eq!(get(&target, "/large.bin").status, 404);
}

#[test]
fn fields_by_name_are_in_every_response_and_those_of_caches_only_with_the_file() {
    let folder = Dir::new();
    let rules = field_rules(&[
        "*.html=X-Frame-Options: DENY",
        "X-Frame-Options: SAMEORIGIN",
        "Access-Control-Allow-Origin: *",
        "Expires: 0",
        "*.bin=Vary: Origin",
    ]);
    let target = folder.serve_as(FilesOptions { fields: rules, ..FilesOptions::default() });
    let check = |method: &str, path: &str, lines: &str, status: u16| {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let mut client = target.connect();
        client.send(&request);
        let answer = client.head();
        assert_eq!(answer.status, status, "{request}");
        assert_eq!(answer.field("Access-Control-Allow-Origin"), Some("*"), "{request}");
        let is_page = ["/", "/index.html"].contains(&path);
        let frame = if is_page { "DENY" } else { "SAMEORIGIN" };
        assert_eq!(answer.field("X-Frame-Options"), Some(frame), "{request}");
        let is_file = [200, 206, 304].contains(&status);
        assert_eq!(answer.field("Expires"), is_file.then_some("0"), "{request}");
        answer
    };
    check("GET", "/", "", 200);
    check("HEAD", "/index.html", "", 200);
    check("GET", "/index.html", "If-None-Match: *\r\n", 304);
    check("GET", "/index.html", "If-Match: \"x\"\r\n", 412);
    let answer = check("GET", "/large.bin", "Range: bytes=0-0\r\n", 206);
    assert_eq!(answer.field("Vary"), Some("Origin"));
    check("GET", "/large.bin", "Range: bytes=9999999-\r\n", 416);
    check("GET", "/sub%20dir", "", 301);
    check("GET", "/sub%20dir?a=b", "", 301);
    check("GET", "/nothing", "", 404);
    check("GET", "/..%2f", "", 404);
    check(
        "OPTIONS",
        "/large.bin",
        "Origin: http://b\r\nAccess-Control-Request-Method: GET\r\n",
        204,
    );
    check("DELETE", "/large.bin", "", 405);
}

#[test]
fn a_content_type_may_be_given_by_extension() {
    let folder = Dir::new();
    folder.write("log", b"by name");
    folder.write("a.log", b"by extension");
    let content_type = vec![Rule::parse("log=text/x-log").expect("a rule")];
    let target = folder.serve_as(FilesOptions { content_type, ..FilesOptions::default() });
    for path in ["/log", "/a.log"] {
        assert_eq!(get(&target, path).field("Content-Type"), Some("text/x-log"), "{path}");
    }
}
