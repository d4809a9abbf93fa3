//! A folder over the network: types, sizes, names, and nothing from outside.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jissoku_server::{Contract, Files, FilesError, Site};

use crate::client::{Answer, Target, fresh_path};

/// A folder that is removed again.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = fresh_path();
        fs::create_dir_all(path.join("public/sub dir")).expect("a folder");
        let write = |name: &str, body: &[u8]| {
            fs::write(path.join(name), body).expect("a file can be written");
        };
        write("secret.txt", b"secret");
        write("public/index.html", b"<p>home");
        write("public/empty.css", b"");
        write("public/large.bin", &large());
        write("public/.hidden", b"hidden");
        write("public/sub dir/index.html", b"<p>sub");
        write("public/sub dir/a+b.txt", "あ".as_bytes());
        symlink("../secret.txt", path.join("public/out.txt")).expect("a link");
        symlink("index.html", path.join("public/home.html")).expect("a link");
        symlink(".", path.join("public/round")).expect("a link");
        Self(path)
    }

    fn public(&self) -> PathBuf {
        self.0.join("public")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the folder is ours");
    }
}

fn large() -> Vec<u8> {
    (0..1_000_000_u32).map(|number| (number % 251) as u8).collect()
}

fn get(target: &Target, path: &str) -> Answer {
    target.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
}

fn load(path: &Path) -> Files {
    Files::load(path).expect("the folder can be read")
}

#[test]
fn files_come_with_their_types() {
    let folder = Folder::new();
    let target = Target::serve(Site::Files(load(&folder.public())));
    let check = |path: &str, content_type: &str, body: &[u8]| {
        let answer = get(&target, path);
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.field("Content-Type"), Some(content_type), "{path}");
        assert_eq!(answer.body, body, "{path}");
    };
    check("/", "text/html; charset=utf-8", b"<p>home");
    check("/?query", "text/html; charset=utf-8", b"<p>home");
    check("/index.html", "text/html; charset=utf-8", b"<p>home");
    check("/home.html", "text/html; charset=utf-8", b"<p>home");
    check("/empty.css", "text/css; charset=utf-8", b"");
    check("/large.bin", "application/octet-stream", &large());
    check("/sub%20dir/", "text/html; charset=utf-8", b"<p>sub");
    check("/sub%20dir/a+b.txt", "text/plain; charset=utf-8", "あ".as_bytes());
    check("/./x/../sub%20dir//a%2bb.txt", "text/plain; charset=utf-8", "あ".as_bytes());
    target.end();
}

#[test]
fn nothing_hidden_or_outside_is_served() {
    let folder = Folder::new();
    let target = Target::serve(Site::Files(load(&folder.public())));
    let paths = [
        "/.hidden",
        "/%2ehidden",
        "/out.txt",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/sub%20dir/../../secret.txt",
        "/round/index.html",
        "/index.html/",
        "/%00",
        "/%zz",
        "/nothing",
        "//etc/passwd",
        "/sub%20dir/..%5c..%5csecret.txt",
    ];
    for path in paths {
        assert_eq!(get(&target, path).status, 404, "{path}");
    }
    target.end();
}

#[test]
fn a_folder_has_its_slash() {
    let folder = Folder::new();
    let target = Target::serve(Site::Files(load(&folder.public())));
    let answer = get(&target, "/sub%20dir");
    assert_eq!(answer.status, 301);
    assert_eq!(answer.field("Location"), Some("./sub%20dir/"));
    target.end();
}

#[test]
fn a_file_is_read_and_nothing_else() {
    let folder = Folder::new();
    let target = Target::serve(Site::Files(load(&folder.public())));
    let answer = target.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!((answer.status, answer.field("Allow")), (405, Some("GET, HEAD")));
    let mut client = target.connect();
    client.send("HEAD /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.head().field("Content-Length"), Some("1000000"));
    client.expect_end();
    target.end();
}

#[test]
fn large_files_in_a_pipeline_come_whole() {
    let folder = Folder::new();
    let target = Target::serve(Site::Files(load(&folder.public())));
    let mut client = target.connect();
    client.send(
        &"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(8),
    );
    for _ in 0..8 {
        assert!(client.answer().body == large(), "the bytes differ");
        assert_eq!(client.answer().body, b"<p>home");
    }
    target.end();
}

#[test]
fn the_contract_serves_files_below_its_own_path() {
    let folder = Folder::new();
    let files = load(&folder.public());
    let target = Target::serve(Site::Contract(Contract::new(Some(files), Duration::ZERO, 0)));
    assert_eq!(get(&target, "/files/large.bin").body, large());
    assert_eq!(get(&target, "/files/../files/large.bin").status, 404);
    assert_eq!(get(&target, "/large.bin").status, 404);
    assert_eq!(get(&target, "/files/out.txt").status, 404);
    assert_eq!(get(&target, "/").text(), "Hello, World!");
    target.end();
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let outcome = Files::load(Path::new("/nowhere/at/all"));
    let Err(error @ FilesError::Unreadable(..)) = outcome else {
        unreachable!("there is no such folder")
    };
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}
