//! What is found, what is not, and what is read.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;

/// A folder that is removed again.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("jissoku-file-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder can be made");
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.join(name), bytes).expect("a file can be written");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("it was made here");
    }
}

#[test]
fn a_file_is_found_below_its_folder_and_nowhere_else() {
    let place = Place::new();
    std::fs::create_dir(place.0.join("inner")).expect("a folder can be made");
    place.write("inner/a", b"abc");
    symlink("/etc/passwd", place.0.join("inner/out")).expect("a link can be made");
    let root = Root::open(&place.0.join("inner")).expect("the folder is there");
    let file = root.find(Path::new("a")).expect("the file is there");
    assert_eq!(file.read_whole().expect("it can be read"), Some(b"abc".to_vec()));
    assert!(file.is_unchanged());
    let error = |name: &str| root.find(Path::new(name)).expect_err("not to be had").raw_os_error();
    assert_eq!(error("../inner/a"), Some(Errno::XDEV.raw_os_error()));
    assert_eq!(error("/etc/passwd"), Some(Errno::XDEV.raw_os_error()));
    assert_eq!(error("out"), Some(Errno::XDEV.raw_os_error()));
    assert_eq!(error("."), Some(Errno::ISDIR.raw_os_error()));
    assert_eq!(error("b"), Some(Errno::NOENT.raw_os_error()));
    place.write("inner/a", b"abcd");
    assert!(!file.is_unchanged());
    assert_eq!(file.read_whole().expect("it can be read"), None);
}

#[test]
fn a_name_stands_for_a_file_or_a_folder_or_nothing() {
    let place = Place::new();
    place.write("file", b"abc");
    std::fs::create_dir(place.0.join("folder")).expect("a folder can be made");
    symlink("file", place.0.join("link")).expect("a link can be made");
    symlink("../..", place.0.join("out")).expect("a link can be made");
    symlink("round", place.0.join("round")).expect("a link can be made");
    let _socket = UnixListener::bind(place.0.join("socket")).expect("a socket can be made");
    // There is no writer: opening it for reading would block forever.
    fs::mknodat(CWD, place.0.join("queue"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .expect("a queue can be made");
    symlink(place.0.join("file"), place.0.join("absolute")).expect("a link can be made");
    let root = Root::open(&place.0).expect("the folder is there");
    let kind = |name: &str, links| match root.lookup(Path::new(name), links) {
        Ok(LookupResult::File(_)) => "file",
        Ok(LookupResult::Dir(_)) => "folder",
        Ok(LookupResult::Nothing) => "nothing",
        Ok(LookupResult::Forbidden) => "forbidden",
        Err(_) => "error",
    };
    assert_eq!(kind("file", SymlinkPolicy::Never), "file");
    assert_eq!(kind("link", SymlinkPolicy::Beneath), "file");
    assert_eq!(kind("link", SymlinkPolicy::Never), "nothing");
    assert_eq!(kind("absolute", SymlinkPolicy::Beneath), "file");
    assert_eq!(kind("absolute", SymlinkPolicy::Never), "nothing");
    assert_eq!(kind("folder", SymlinkPolicy::Beneath), "folder");
    assert_eq!(kind(".", SymlinkPolicy::Never), "folder");
    let long = "a".repeat(300);
    for name in ["out", "..", "/", "round", "socket", "queue", "file/", "file/a", "no", "", &long] {
        assert_eq!(kind(name, SymlinkPolicy::Beneath), "nothing", "{name:?}");
    }
}

#[test]
fn a_folder_lists_its_names() {
    let place = Place::new();
    place.write("a", b"abc");
    symlink("a", place.0.join("b")).expect("a link can be made");
    std::fs::create_dir(place.0.join("c")).expect("a folder can be made");
    let root = Root::open(&place.0).expect("the folder is there");
    let Ok(LookupResult::Dir(folder)) = root.lookup(Path::new("."), SymlinkPolicy::Beneath) else {
        unreachable!("it is a folder")
    };
    let mut entries = folder.entries(10).expect("it can be read");
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let kinds: Vec<_> = entries.iter().map(|entry| (entry.name.to_str(), entry.kind)).collect();
    let expected = [(Some("a"), Kind::File), (Some("b"), Kind::Link), (Some("c"), Kind::Dir)];
    assert_eq!(kinds, expected);
    assert_eq!(entries[0].size, 3);
    assert_eq!(folder.entries(2).expect("it can be read again").len(), 2);
}

#[test]
fn a_file_settles_when_its_times_would_show_a_change() {
    let place = Place::new();
    place.write("a", b"abc");
    let file = File::open(&place.0.join("a")).expect("the file is there");
    let changed_ns = u64::try_from(file.stamp().ctime_ns).expect("it is after 1970");
    assert!(!file.stamp().is_mtime_stable(changed_ns));
    assert!(!file.stamp().is_mtime_stable(changed_ns - 1_000_000_000), "a clock that was set back");
    assert!(!file.stamp().is_mtime_stable(changed_ns + 2_000_000_000));
    assert!(file.stamp().is_mtime_stable(changed_ns + 2_000_000_001));
}

#[test]
fn the_bytes_of_a_file_that_lost_its_name_are_what_they_were() {
    let place = Place::new();
    place.write("a", b"old");
    place.write("b", b"new");
    let file = File::open(&place.0.join("a")).expect("the file is there");
    std::fs::rename(place.0.join("b"), place.0.join("a")).expect("a file can be renamed");
    assert!(file.is_unchanged());
    let found = File::open(&place.0.join("a")).expect("the file is there");
    assert_ne!(found.stamp(), file.stamp());
    std::fs::write(place.0.join("a"), b"longer").expect("a file can be written");
    assert!(!found.is_unchanged());
}

#[test]
fn a_descriptor_is_duplicated_and_stays_open() {
    use std::os::fd::AsRawFd;

    let place = Place::new();
    place.write("a", b"content");
    let owner = std::fs::File::open(place.0.join("a")).expect("it was written");
    let file = File::duplicate(owner.as_raw_fd()).expect("it is a regular file");
    assert_ne!(file.as_fd().as_raw_fd(), owner.as_raw_fd());
    drop(owner);
    let mut bytes = [0; 7];
    assert_eq!(file.read_at(&mut bytes, 0).expect("it is open"), 7);
    assert_eq!(&bytes, b"content");
    let other = UnixListener::bind(place.0.join("b")).expect("a socket can be made");
    assert!(File::duplicate(other.as_raw_fd()).is_err(), "a socket is not a file");
    assert!(File::duplicate(-1).is_err());
}

#[test]
fn the_path_of_a_root_stands_for_the_directory_that_is_there() {
    let place = Place::new();
    let text = |root: &RootPath| match root.root().expect("the path can be looked up") {
        None => "no root".to_owned(),
        Some(root) => match root.lookup(Path::new("a"), SymlinkPolicy::Never) {
            Ok(LookupResult::File(file)) => {
                let bytes = file.read_whole().expect("it can be read").expect("it is at rest");
                String::from_utf8(bytes).expect("it is text")
            }
            found => format!("{found:?}"),
        },
    };
    let make = |name: &str, body: &str| {
        std::fs::create_dir(place.0.join(name)).expect("a folder can be made");
        place.write(&format!("{name}/a"), body.as_bytes());
    };
    make("one", "one");
    make("two", "two");
    symlink("one", place.0.join("current")).expect("a link can be made");
    let (folder, link) = (place.0.join("one"), place.0.join("current"));
    let by_folder = RootPath::open(&folder).expect("it is there");
    let by_link = RootPath::open(&link).expect("it is there");
    assert_eq!((text(&by_folder), text(&by_link)), ("one".to_owned(), "one".to_owned()));
    symlink("two", place.0.join("next")).expect("a link can be made");
    std::fs::rename(place.0.join("next"), &link).expect("it can be renamed");
    assert_eq!((text(&by_folder), text(&by_link)), ("one".to_owned(), "two".to_owned()));
    std::fs::remove_dir_all(&folder).expect("it can be removed");
    assert_eq!(text(&by_folder), "no root");
    place.write("one", b"a file");
    assert_eq!(text(&by_folder), "no root");
    std::fs::remove_file(&folder).expect("it can be removed");
    make("one", "three");
    assert_eq!((text(&by_folder), text(&by_link)), ("three".to_owned(), "two".to_owned()));
}

/// A step of a random tree: an item of a kind at a path.
type Item = (u8, u8, u8);

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Makes the directories `site`, `outer` and `sited`, and the items in them. An item is left out if
/// something stands at its path already.
fn plant(place: &Place, items: &[Item]) {
    for folder in ["site", "site/a", "outer", "outer/a", "sited"] {
        std::fs::create_dir(place.0.join(folder)).expect("a folder can be made");
    }
    let base = place.0.to_string_lossy().into_owned();
    for &(kind, at, to) in items {
        let (at, to) = (usize::from(at), usize::from(to));
        let folder = ["site", "site/a", "outer", "sited"][at % 4];
        let path = place.0.join(folder).join(NAMES[at / 4 % 3]);
        let name = NAMES[to / 12 % 3];
        let target = match to % 12 {
            0 => name.to_owned(),
            1 => format!("../{name}"),
            2 => format!("../site/{name}"),
            3 => format!("../../site/{name}"),
            4 => format!("../outer/{name}"),
            5 => format!("{base}/site/{name}"),
            6 => format!("{base}/site/a/../{name}"),
            7 => format!("{base}/outer/{name}"),
            8 => format!("{base}/sited/{name}"),
            9 => format!("a/{name}"),
            10 => "/".to_owned(),
            _ => "..".to_owned(),
        };
        // Fails where something is already, which leaves that.
        let _taken = match kind % 4 {
            0 => std::fs::create_dir(&path),
            1 => std::fs::File::create_new(&path)
                .and_then(|mut file| file.write_all(path.as_os_str().as_bytes())),
            _ => symlink(&target, &path),
        };
    }
}

/// What the standard library says that the name stands for: a regular file or a directory by its
/// path without links, if that is below the root.
fn expected(root: &Path, name: &str) -> Option<PathBuf> {
    let path = std::fs::canonicalize(root.join(name)).ok()?;
    path.starts_with(root).then_some(path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_link_is_followed_if_and_only_if_it_ends_below_the_root(
        items in prop::collection::vec(any::<Item>(), 0..24),
    ) {
        let place = Place::new();
        plant(&place, &items);
        let path = std::fs::canonicalize(place.0.join("site")).expect("it is there");
        let root = Root::open(&path).expect("it is there");
        let firsts = NAMES.iter().map(|first| (*first).to_owned());
        let seconds = NAMES.iter().flat_map(|first| NAMES.map(|name| format!("{first}/{name}")));
        let thirds = NAMES.iter().flat_map(|first| NAMES.map(|name| format!("a/{first}/{name}")));
        for name in firsts.chain(seconds).chain(thirds) {
            let found = root.lookup(Path::new(&name), SymlinkPolicy::Beneath);
            let expected = expected(&path, &name);
            match found.expect("the system has what it takes") {
                LookupResult::File(file) => {
                    let bytes = file.read_whole().expect("it can be read").expect("it is at rest");
                    let expected = expected.expect("a file below the root");
                    prop_assert_eq!(&bytes, expected.as_os_str().as_bytes(), "{}", name);
                }
                LookupResult::Dir(dir) => {
                    let expected = expected.expect("a directory below the root");
                    let found = fs::stat(&expected).expect("it is there");
                    prop_assert_eq!(*dir.stamp(), FileStamp::of(&found), "{}", name);
                }
                _ => prop_assert_eq!(expected, None, "{}", name),
            }
        }
    }
}

#[test]
#[expect(unsafe_code, reason = "the descriptors are those of this test")]
fn a_descriptor_that_is_taken_over_is_closed_with_the_file() {
    use std::os::fd::IntoRawFd;
    let place = Place::new();
    place.write("a", b"abc");
    let path = place.0.join("a");
    let adopt = |options: &mut std::fs::OpenOptions, path: &Path| {
        let number = options.open(path).expect("it can be opened").into_raw_fd();
        // SAFETY: nothing else has the number.
        (number, unsafe { File::adopt(number) })
    };
    let link = |number: i32| std::fs::read_link(format!("/proc/self/fd/{number}")).ok();
    let (number, file) = adopt(std::fs::OpenOptions::new().read(true), &path);
    let file = file.expect("it can be read");
    assert_eq!(file.read_whole().expect("it can be read"), Some(b"abc".to_vec()));
    assert_eq!(link(number).as_ref(), Some(&path));
    drop(file);
    // Another test may have opened a file of its own at the number.
    assert_ne!(link(number).as_ref(), Some(&path));
    for (options, path, why) in [
        (std::fs::OpenOptions::new().write(true), &path, Errno::BADF),
        (std::fs::OpenOptions::new().read(true), &place.0, Errno::ISDIR),
    ] {
        let (number, refused) = adopt(options, path);
        assert_eq!(refused.expect_err("it is none").raw_os_error(), Some(why.raw_os_error()));
        assert_ne!(link(number).as_ref(), Some(path));
    }
    // SAFETY: there is no such descriptor.
    assert!(unsafe { File::adopt(-1) }.is_err());
}
