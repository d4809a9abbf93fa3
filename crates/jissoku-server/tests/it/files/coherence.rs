//! Files that change while they are served: a response is always some version of the file, and soon
//! the current one.
//!
//! With a revalidation time of zero, the next response must be the new version. With an unlimited
//! one, the first version stays. Otherwise tests wait for the change.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use jissoku_server::{Files, FilesOptions, Settings};

use super::{Dir, get, large};
use crate::client::{Answer, Target, free_port};

/// Requests until a change must be visible: far more than fit in 50 ms.
const ASKED_MAX: usize = 1_000_000;

fn revalidating(revalidate: Duration) -> FilesOptions {
    FilesOptions { revalidate, ..FilesOptions::default() }
}

/// Bytes that identify their version at every position.
fn version(number: usize, size: usize) -> Vec<u8> {
    let text = format!("{number:07} ");
    text.bytes().cycle().take(size).collect()
}

/// The number of the version, if all bytes are of one.
fn number(body: &[u8], size: usize) -> Option<usize> {
    let number = str::from_utf8(body.get(..7)?).ok()?.parse().ok()?;
    (body == version(number, size)).then_some(number)
}

fn replace(folder: &Dir, name: &str, body: &[u8]) {
    folder.write("new", body);
    fs::rename(folder.public().join("new"), folder.public().join(name)).expect("a new name");
}

/// Behind its head, in memory, and on disk.
const SIZES: [usize; 3] = [64, 20_000, 200_000];

#[test]
fn without_revalidation_time_every_change_is_visible_at_once() {
    let folder = Dir::empty();
    let target = folder.serve_as(revalidating(Duration::ZERO));
    let mut client = target.connect();
    let mut ask = |name: &str| {
        client.send(&format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.answer()
    };
    for size in SIZES {
        for round in 0..10 {
            let check = |answer: Answer, number: usize, how: &str| {
                assert_eq!(answer.status, 200, "{how}, {size}");
                assert!(answer.body == version(number, size), "{how}, {size}");
            };
            folder.write("a", &version(round * 10, size));
            check(ask("a"), round * 10, "written");
            let file = fs::File::options().write(true).open(folder.public().join("a"));
            let file = file.expect("the file exists");
            file.write_all_at(&version(round * 10 + 1, size), 0).expect("it can be written");
            check(ask("a"), round * 10 + 1, "written in place, as large as before");
            replace(&folder, "a", &version(round * 10 + 2, size));
            check(ask("a"), round * 10 + 2, "replaced");
            let file = fs::File::options().write(true).open(folder.public().join("a"));
            file.and_then(|file| file.set_len(size as u64 / 2)).expect("it can be cut");
            assert!(ask("a").body == version(round * 10 + 2, size)[..size / 2], "cut, {size}");
            fs::remove_file(folder.public().join("a")).expect("it can be removed");
            assert_eq!(ask("a").status, 404);
            folder.write("b", &version(round * 10 + 3, size));
            folder.write("c", &version(round * 10 + 4, size));
            folder.link("b", "a");
            check(ask("a"), round * 10 + 3, "a link");
            folder.link("c", "new");
            fs::rename(folder.public().join("new"), folder.public().join("a")).expect("a new name");
            check(ask("a"), round * 10 + 4, "another link");
            fs::remove_file(folder.public().join("a")).expect("it can be removed");
        }
    }
}

#[test]
fn renamed_directories_are_visible_at_once() {
    let folder = Dir::empty();
    for name in ["one", "other"] {
        fs::create_dir(folder.public().join(name)).expect("a folder");
        folder.write(&format!("{name}/index.html"), name.as_bytes());
    }
    let target = folder.serve_as(revalidating(Duration::ZERO));
    let path = |name: &str| folder.public().join(name);
    for _ in 0..20 {
        folder.link("one", "way");
        assert_eq!(get(&target, "/way/").text(), "one");
        folder.link("other", "new");
        fs::rename(path("new"), path("way")).expect("a new name");
        assert_eq!(get(&target, "/way/").text(), "other");
        fs::rename(path("one"), path("aside")).expect("a new name");
        assert_eq!(get(&target, "/one/").status, 404);
        fs::rename(path("other"), path("one")).expect("a new name");
        assert_eq!(get(&target, "/one/index.html").text(), "other");
        assert_eq!(get(&target, "/way/").status, 404);
        fs::rename(path("one"), path("other")).expect("a new name");
        fs::rename(path("aside"), path("one")).expect("a new name");
        fs::remove_file(path("way")).expect("it can be removed");
    }
}

#[test]
fn a_root_that_is_replaced_is_served_at_once() {
    let folder = Dir::empty();
    let path = |name: &str| folder.0.join(name);
    let build = |name: &str, text: &str| {
        fs::create_dir(path(name)).expect("a folder");
        fs::write(path(name).join("index.html"), text).expect("a file can be written");
        fs::write(path(name).join("large"), version(text.len(), 200_000)).expect("it is written");
    };
    build("v1", "v1");
    folder.link("v1", "../current");
    let options = revalidating(Duration::ZERO);
    let files = Files::open(&path("current"), options.clone()).expect("it is there");
    let linked = Target::serve(files);
    let plain = folder.serve_as(options);
    assert_eq!(get(&linked, "/").text(), "v1");
    assert_eq!(get(&plain, "/").status, 404);
    for text in ["a", "bc", "def"] {
        build("next", text);
        folder.link("next", "../new");
        fs::rename(path("new"), path("current")).expect("a new name");
        assert_eq!(get(&linked, "/").text(), text);
        assert!(get(&linked, "/large").body == version(text.len(), 200_000));
        fs::remove_dir_all(folder.public()).expect("it can be removed");
        assert_eq!(get(&plain, "/").status, 404);
        fs::rename(path("next"), folder.public()).expect("a new name");
        assert_eq!(get(&plain, "/").text(), text);
        assert!(get(&plain, "/large").body == version(text.len(), 200_000));
        assert_eq!(get(&linked, "/").status, 404, "the link leads nowhere");
    }
}

#[test]
fn with_unlimited_revalidation_time_the_first_version_stays() {
    let folder = Dir::empty();
    folder.write("small", b"old");
    folder.write("large", &version(1, 200_000));
    let target = folder.serve_as(revalidating(Duration::MAX));
    assert_eq!(get(&target, "/small").text(), "old");
    assert_eq!(get(&target, "/none").status, 404);
    assert!(get(&target, "/large").body == version(1, 200_000));
    folder.write("small", b"new");
    folder.write("none", b"new");
    replace(&folder, "large", &version(2, 200_000));
    assert_eq!(get(&target, "/small").text(), "old");
    assert_eq!(get(&target, "/none").status, 404);
    assert!(get(&target, "/large").body == version(1, 200_000), "what it was is still there");
}

#[test]
fn a_head_matches_the_bytes_that_follow_it() {
    let folder = Dir::empty();
    folder.write("large", &version(1, 200_000));
    let target = folder.serve_as(revalidating(Duration::MAX));
    assert!(get(&target, "/large").body == version(1, 200_000));
    // The old file is truncated, so that it has to be revalidated within the revalidation time.
    folder.write("large", &version(2, 100_000));
    assert!(get(&target, "/large").body == version(2, 100_000));
    folder.write("large", b"small");
    assert_eq!(get(&target, "/large").text(), "small");
}

#[test]
fn every_change_is_visible_in_time_and_none_is_undone() {
    let folder = Dir::empty();
    folder.write("a", b"0");
    let settings = Settings { workers: 2, ..Settings::new(free_port()) };
    let files = folder.open(FilesOptions::default());
    let target = Target::start(settings, files);
    let mut clients: Vec<_> = (0..8).map(|_| target.connect()).collect();
    let mut ask_each = || -> Vec<String> {
        let asked = clients.iter_mut().map(|client| {
            client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
            client.answer().text().to_owned()
        });
        asked.collect()
    };
    for round in 1..20 {
        let (old, new) = ((round - 1).to_string(), round.to_string());
        replace(&folder, "a", new.as_bytes());
        let is_shown = (0..ASKED_MAX).any(|_| {
            let answers = ask_each();
            assert!(answers.iter().all(|text| *text == old || *text == new), "{answers:?}");
            answers.iter().all(|text| *text == new)
        });
        assert!(is_shown, "it is there by now");
    }
}

/// Changes a file as fast as possible while it is requested.
fn check_under_a_writer(size: usize, asked_count: usize, change: impl Fn(&Dir, &[u8]) + Sync) {
    let folder = Dir::empty();
    folder.write("a", &version(0, size));
    let settings = Settings { workers: 2, ..Settings::new(free_port()) };
    let files = folder.open(revalidating(Duration::from_millis(1)));
    let target = Target::start(settings, files);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut numbers = 1..9_999_999;
            while let Some(number) = numbers.next().filter(|_| !is_over.load(Ordering::Relaxed)) {
                change(&folder, &version(number, size));
            }
        });
        let asked = thread::scope(|asking| {
            let ask = || {
                let mut client = target.connect();
                let mut tags: HashMap<String, usize> = HashMap::new();
                let mut seen = 0;
                for _ in 0..asked_count {
                    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
                    let answer = client.answer();
                    assert!(answer.status == 200 || answer.status == 503, "{}", answer.status);
                    if answer.status == 503 {
                        continue;
                    }
                    let number = number(&answer.body, size).expect("a complete version");
                    assert!(number >= seen, "{number} after {seen}");
                    seen = number;
                    let tag = answer.field("ETag").expect("a tag").to_owned();
                    assert_eq!(*tags.entry(tag).or_insert(number), number, "one tag, one version");
                }
                seen
            };
            let asked: Vec<_> = (0..4).map(|_| asking.spawn(ask)).collect();
            asked.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        is_over.store(true, Ordering::Relaxed);
        for seen in asked {
            assert!(seen.expect("versions are in order") > 0, "the file has changed meanwhile");
        }
    });
}

#[test]
fn nothing_is_torn_while_a_file_is_replaced() {
    for size in [64, 20_000] {
        check_under_a_writer(size, 500, |folder, body| replace(folder, "a", body));
    }
}

#[test]
fn nothing_is_torn_while_a_large_file_is_replaced() {
    check_under_a_writer(100_000, 100, |folder, body| replace(folder, "a", body));
}

#[test]
fn nothing_is_torn_while_a_file_is_written_in_place() {
    check_under_a_writer(64, 500, |folder, body| {
        let file = fs::File::options().write(true).open(folder.public().join("a"));
        file.and_then(|file| file.write_all_at(body, 0)).expect("it can be written");
    });
}

#[test]
fn a_download_continues_when_its_file_is_replaced() {
    let folder = Dir::empty();
    // More than the socket buffers hold, so that the rest is read from disk afterwards.
    let body: Vec<u8> = large().repeat(32);
    folder.write("a", &body);
    let target = folder.serve();
    let mut client = target.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    replace(&folder, "a", b"new");
    let size = head.field("Content-Length").expect("a size").parse().expect("a number");
    assert!(client.read(size) == body, "the bytes differ");
}

#[test]
fn a_small_cache_suffices() {
    let folder = Dir::empty();
    for number in 0..200 {
        folder.write(&format!("f{number}"), &version(number, 20_000));
    }
    for cache_size in [0, 1, 30_000, 100_000] {
        let options = FilesOptions { cache_size, ..FilesOptions::default() };
        let settings = Settings { workers: 2, ..Settings::new(free_port()) };
        let target = Target::start(settings, folder.open(options));
        let mut clients = [target.connect(), target.connect()];
        for at in 0..400 {
            let wanted = if at % 3 == 0 { 7 } else { at % 200 };
            let client = &mut clients[at % 2];
            client.send(&format!("GET /f{wanted} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(
                number(&client.answer().body, 20_000),
                Some(wanted),
                "of {cache_size} bytes"
            );
        }
    }
}
