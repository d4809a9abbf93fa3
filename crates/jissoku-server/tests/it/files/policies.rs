//! Options for serving a directory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jissoku_os::file::SymlinkPolicy;
use jissoku_server::{FieldRule, Files, FilesOptions, Rule};

use super::{Dir, bodiless, get, get_with};

#[test]
fn dotfiles_are_hidden_except_well_known() {
    let folder = Dir::new();
    for path in [".well-known", ".well-known/.deep", "sub dir/.well-known"] {
        fs::create_dir(folder.public().join(path)).expect("a folder");
        folder.write(&format!("{path}/x"), b"x");
    }
    let status = |options: FilesOptions, path: &str| get(&folder.serve_as(options), path).status;
    let shown = || FilesOptions { shows_dotfiles: true, ..FilesOptions::default() };
    let check = |path: &str, hidden: u16| {
        assert_eq!(status(FilesOptions::default(), path), hidden, "{path}");
        assert_eq!(status(shown(), path), 200, "{path}");
    };
    check("/.hidden", 404);
    check("/.well-known/x", 200);
    check("/.well-known/.deep/x", 404);
    check("/sub%20dir/.well-known/x", 404);
}

#[test]
fn links_are_followed_below_the_root_or_not_at_all() {
    let folder = Dir::new();
    let absolute = folder.public().join("index.html");
    folder.link(absolute.to_str().expect("it is text"), "absolute");
    folder.link("../public/index.html", "reentering");
    let target = folder.serve();
    assert_eq!(get(&target, "/home.html").status, 200);
    assert_eq!(get(&target, "/round/round/index.html").status, 200);
    assert_eq!(get(&target, "/out.txt").status, 404);
    assert_eq!(get(&target, "/absolute").text(), "<p>home");
    assert_eq!(get(&target, "/reentering").text(), "<p>home");
    let target =
        folder.serve_as(FilesOptions { links: SymlinkPolicy::Never, ..FilesOptions::default() });
    for path in ["/home.html", "/round/index.html", "/out.txt", "/absolute", "/reentering"] {
        assert_eq!(get(&target, path).status, 404, "{path}");
    }
    assert_eq!(get(&target, "/index.html").status, 200);
}

#[test]
fn a_listing_has_the_served_names() {
    let folder = Dir::new();
    fs::create_dir_all(folder.public().join("list/sub")).expect("a folder");
    folder.write("list/<b>&\"x\".txt", b"12345");
    folder.write("list/a b:c", b"");
    folder.write("list/.hidden", b"");
    folder.link("../index.html", "list/link");
    folder.link("../../secret.txt", "list/out");
    folder.link("sub", "list/way");
    let _socket = UnixListener::bind(folder.public().join("list/socket")).expect("a socket");
    let target = folder.serve_as(FilesOptions { lists_folders: true, ..FilesOptions::default() });
    let answer = get(&target, "/list/");
    assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"));
    let text = answer.text();
    let places: Vec<_> = [
        "<a href=\"../\">../</a>",
        "<a href=\"./sub/\">sub/</a>",
        "<a href=\"./way/\">way/</a>",
        "<a href=\"./%3Cb%3E%26%22x%22.txt\">&lt;b&gt;&amp;&quot;x&quot;.txt</a><td>5<td>",
        "<a href=\"./a%20b%3Ac\">a b:c</a>",
        "<a href=\"./link\">link</a><td>7<td>",
    ]
    .iter()
    .map(|row| text.find(row).unwrap_or_else(|| unreachable!("{row} is in {text}")))
    .collect();
    assert!(places.is_sorted(), "folders first, then by name");
    assert_eq!(text.matches("<a ").count(), places.len(), "nothing else: {text}");
    assert_eq!(get(&target, "/list/%3Cb%3E%26%22x%22.txt").text(), "12345");
    assert_eq!(get(&target, "/").text(), "<p>home", "an index comes first");
    let tag = answer.field("ETag").expect("a tag").to_owned();
    let request = format!(
        "GET /list/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIf-None-Match: {tag}\r\n\r\n"
    );
    assert_eq!(bodiless(&target, &request).status, 304);
    let target = folder.serve();
    assert_eq!(get(&target, "/list/").status, 404);
}

#[test]
fn every_listed_link_leads_to_its_file() {
    let folder = Dir::new();
    fs::create_dir_all(folder.public().join("list/index.html")).expect("a folder");
    let names: [&[u8]; 12] = [
        b"a\\b",
        b"x\\..\\y",
        b"100%",
        b"%41",
        b"why?",
        b"#1",
        b"a\nb",
        b"\xff\xfe",
        b"a:b",
        b"a&amp;b",
        b"q\"'<>",
        b"a;b=c,d+e",
    ];
    for name in names {
        let path = folder.public().join("list").join(OsStr::from_bytes(name));
        fs::write(path, name).expect("a file can be written");
    }
    let target = folder.serve_as(FilesOptions { lists_folders: true, ..FilesOptions::default() });
    let page = get(&target, "/list/");
    let links: Vec<&str> =
        page.text().split("<a href=\"./").skip(1).filter_map(|row| row.split('"').next()).collect();
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    for link in links.iter().filter(|link| !link.ends_with('/')) {
        let answer = get(&target, &format!("/list/{link}"));
        assert_eq!(answer.status, 200, "{link}");
        bodies.push(answer.body);
    }
    bodies.sort();
    let mut expected = names.map(<[u8]>::to_vec);
    expected.sort();
    assert_eq!(bodies, expected);
}

#[test]
fn a_404_page_is_sent_for_missing_files() {
    let folder = Dir::new();
    folder.write("sub dir/lost.html", b"<p>lost");
    let options =
        |name: &str| FilesOptions { not_found: Some(name.to_owned()), ..FilesOptions::default() };
    let target = folder.serve_as(options("sub dir/lost.html"));
    for path in ["/nothing", "/.hidden", "/%zz", "/../x"] {
        let answer = get_with(&target, path, "If-None-Match: *\r\nRange: bytes=0-0\r\n");
        assert_eq!((answer.status, answer.text()), (404, "<p>lost"), "{path}");
        assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!(answer.field("ETag"), None);
    }
    assert_eq!(get(&target, "/sub%20dir/lost.html").status, 200);
    drop(target);
    for name in ["nothing.html", "sub dir", "../secret.txt"] {
        let outcome = Files::open(&folder.public(), options(name));
        assert!(outcome.is_err_and(|why| why.contains("--not-found")), "{name:?}");
    }
}

fn cached(rule: &str) -> FieldRule {
    FieldRule::cache_control(Rule::parse(rule).expect("a rule"))
}

#[test]
fn cache_control_is_that_of_the_first_matching_rule() {
    let folder = Dir::new();
    let rules = ["*.css=max-age=60", "sub dir/**=no-store", "/*=no-cache"].map(cached);
    let target = folder.serve_as(FilesOptions { fields: rules.into(), ..FilesOptions::default() });
    let value = |path: &str, lines: &str| {
        let mut client = target.connect();
        client.send(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        client.head().field("Cache-Control").map(str::to_owned)
    };
    assert_eq!(value("/empty.css", "").as_deref(), Some("max-age=60"));
    assert_eq!(value("/empty.css", "If-None-Match: *\r\n").as_deref(), Some("max-age=60"));
    assert_eq!(value("/medium.bin", "Range: bytes=0-0\r\n").as_deref(), Some("no-cache"));
    assert_eq!(value("/sub%20dir/a+b.txt", "").as_deref(), Some("no-store"));
    assert_eq!(value("/", "").as_deref(), Some("no-cache"));
    assert_eq!(value("/nothing", ""), None);
    drop(target);
    let rules = ["*.html=no-cache", "*=max-age=60"].map(cached);
    let target = folder.serve_as(FilesOptions { fields: rules.into(), ..FilesOptions::default() });
    for path in ["/", "/index.html", "/sub%20dir/", "/sub%20dir/index.html"] {
        let answer = get(&target, path);
        assert_eq!(answer.field("Cache-Control"), Some("no-cache"), "{path}");
    }
    assert_eq!(get(&target, "/medium.bin").field("Cache-Control"), Some("max-age=60"));
}

#[test]
fn a_content_type_is_that_of_the_first_matching_rule() {
    let folder = Dir::new();
    let rules = ["*.css=text/plain; charset=koi8-r", "index.html=application/xhtml+xml"];
    let rules = rules.map(Rule::parse).into_iter().collect::<Result<_, _>>().expect("rules");
    let target = folder.serve_as(FilesOptions { content_type: rules, ..FilesOptions::default() });
    let check = |path: &str, expected| {
        assert_eq!(get(&target, path).field("Content-Type"), Some(expected), "{path}");
    };
    check("/empty.css", "text/plain; charset=koi8-r");
    check("/", "application/xhtml+xml");
    check("/home.html", "text/html; charset=utf-8");
}

#[test]
fn a_listing_follows_changes() {
    let folder = Dir::new();
    fs::create_dir(folder.public().join("list")).expect("a folder");
    let options = FilesOptions {
        lists_folders: true,
        revalidate: Duration::from_millis(1),
        ..FilesOptions::default()
    };
    let target = folder.serve_as(options);
    let mut client = target.connect();
    let mut comes = |text: &str| {
        let mut ask = || {
            client.send("GET /list/ HTTP/1.1\r\nHost: a\r\n\r\n");
            client.answer().text().contains(text)
        };
        assert!((0..1_000_000).any(|_| ask()), "{text} is to be seen by now");
    };
    folder.write("list/a", b"12345");
    comes("<a href=\"./a\">a</a><td>5<td>");
    folder.write("list/a", b"1234567");
    comes("<a href=\"./a\">a</a><td>7<td>");
    fs::remove_file(folder.public().join("list/a")).expect("it can be removed");
    comes("<tr><td><a href=\"../\">../</a><td><td>\n</table>");
    folder.write("list/index.html", b"index");
    comes("index");
}

#[test]
fn special_files_are_not_served() {
    let folder = Dir::new();
    // There is no writer: waiting for one would block forever.
    let made = Command::new("mkfifo").arg(folder.public().join("queue")).status();
    assert!(made.expect("mkfifo runs").success());
    let _socket = UnixListener::bind(folder.public().join("socket")).expect("a socket");
    folder.link("/dev/null", "device");
    let target = folder.serve();
    for path in ["/socket", "/queue", "/device", "/index.html/", "/index.html/x"] {
        assert_eq!(get(&target, path).status, 404, "{path}");
    }
}

#[test]
fn a_root_that_is_no_directory_or_file_is_refused() {
    let folder = Dir::new();
    let _socket = UnixListener::bind(folder.public().join("socket")).expect("a socket");
    for path in [folder.public().join("socket"), Path::new("/nowhere").to_owned()] {
        let outcome = Files::open(&path, FilesOptions::default());
        assert!(outcome.is_err_and(|why| why.starts_with("cannot read ")), "{}", path.display());
    }
}
