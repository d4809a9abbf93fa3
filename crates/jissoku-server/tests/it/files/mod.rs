//! A directory over a socket. A `mod.rs`, because tests/uring includes this folder by its path.

mod coded;
mod coherence;
mod conditions;
mod hostile;
mod names;
mod pages;
mod parts;
mod policies;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use jissoku_server::{Files, FilesOptions};

use crate::client::{Answer, Target, fresh_path};

/// A directory that is removed when dropped.
struct Dir(PathBuf);

impl Dir {
    /// A directory `public` with files of every kind, beside a file that must not be served.
    fn new() -> Self {
        let folder = Self::empty();
        fs::create_dir_all(folder.public().join("sub dir")).expect("a folder");
        folder.write("../secret.txt", b"secret");
        folder.write("index.html", b"<p>home");
        folder.write("empty.css", b"");
        folder.write("medium.bin", &large()[..20_000]);
        folder.write("large.bin", &large());
        folder.write(".hidden", b"hidden");
        folder.write("sub dir/index.html", b"<p>sub");
        folder.write("sub dir/a+b.txt", "あ".as_bytes());
        folder.link("../secret.txt", "out.txt");
        folder.link("index.html", "home.html");
        folder.link(".", "round");
        folder
    }

    fn empty() -> Self {
        let path = fresh_path();
        fs::create_dir_all(path.join("public")).expect("a folder");
        Self(path)
    }

    fn public(&self) -> PathBuf {
        self.0.join("public")
    }

    fn write(&self, name: &str, body: &[u8]) {
        fs::write(self.public().join(name), body).expect("a file can be written");
    }

    fn link(&self, target: &str, name: &str) {
        symlink(target, self.public().join(name)).expect("a link can be made");
    }

    /// Sets the modification time of a file.
    fn age(&self, name: &str, modified: SystemTime) {
        let file = fs::File::options().write(true).open(self.public().join(name));
        file.and_then(|file| file.set_modified(modified)).expect("a file has a date");
    }

    fn serve(&self) -> Target {
        self.serve_as(FilesOptions::default())
    }

    fn serve_as(&self, options: FilesOptions) -> Target {
        Target::serve(self.open(options))
    }

    fn open(&self, options: FilesOptions) -> Files {
        Files::open(&self.public(), options).expect("the folder can be read")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the directory can be removed");
    }
}

/// 06 Nov 1994 08:49:37.
fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
}

fn large() -> Vec<u8> {
    (0..1_000_000_u32).map(|number| (number % 251) as u8).collect()
}

fn get(target: &Target, path: &str) -> Answer {
    get_with(target, path, "")
}

/// `lines` are header lines, each with its CRLF.
fn get_with(target: &Target, path: &str, lines: &str) -> Answer {
    target.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}

/// Only the status line and the header lines of an answer that has no body.
fn bodiless(target: &Target, request: &str) -> Answer {
    let mut client = target.connect();
    client.send(request);
    let answer = client.head();
    client.expect_end();
    answer
}
