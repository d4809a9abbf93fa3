//! A folder, read into memory at the start, each file with its head prebuilt.
//!
//! A request's path is only a key of a map, so no path can leave the folder; the danger is in the reading.
//! What changes on disk afterwards is not noticed.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jissoku_http::Method;
use jissoku_http::response::Answer;

use super::{Page, Plan, Reply, path, plain};
use crate::limits::{FOLDER_SIZE_MAX, SHARED_SIZE_MIN};

/// What answers a request for a folder.
const INDEX: &str = "index.html";

/// Serves a folder.
#[derive(Debug)]
pub struct Files {
    pages: HashMap<Box<[u8]>, Place>,
    contents: Vec<File>,
    moves: Vec<Answer>,
    not_found: Answer,
    not_allowed: Answer,
}

/// What a name stands for, by its number.
#[derive(Clone, Copy, Debug)]
enum Place {
    File(u32),
    Moved(u32),
}

#[derive(Debug)]
enum File {
    Small(Answer),
    Large(Answer, Arc<[u8]>),
}

/// A folder that cannot be served.
#[derive(Debug)]
pub enum FilesError {
    /// Something in it could not be read.
    Unreadable(PathBuf, io::Error),
    /// It is more than memory should hold.
    TooLarge(PathBuf),
}

impl fmt::Display for FilesError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => {
                write!(formatter, "cannot read {}: {error}", path.display())
            }
            Self::TooLarge(path) => write!(
                formatter,
                "{} holds more than {} MiB, which is too much to keep in memory: serve a smaller folder",
                path.display(),
                FOLDER_SIZE_MAX >> 20,
            ),
        }
    }
}

impl std::error::Error for FilesError {}

impl Files {
    /// Reads all regular files below `root`. Names that begin with a dot are left out, and so are links
    /// to folders and links that lead out of `root`.
    ///
    /// # Errors
    /// A folder or file that cannot be read, or more bytes than memory should hold.
    pub fn load(root: &Path) -> Result<Self, FilesError> {
        let unreadable = |error| FilesError::Unreadable(root.to_owned(), error);
        let root = root.canonicalize().map_err(unreadable)?;
        let mut files = Self {
            pages: HashMap::new(),
            contents: Vec::new(),
            moves: Vec::new(),
            not_found: plain("Not Found\n"),
            not_allowed: Answer::new(
                "Allow: GET, HEAD\r\nContent-Type: text/plain\r\n",
                b"Method Not Allowed\n",
            ),
        };
        let mut size = 0;
        let mut folders = vec![(root.clone(), b"/".to_vec())];
        while let Some((folder, name)) = folders.pop() {
            let entries = fs::read_dir(&folder)
                .and_then(Iterator::collect::<io::Result<Vec<_>>>)
                .map_err(|error| FilesError::Unreadable(folder.clone(), error))?;
            for entry in entries {
                let path = entry.path();
                let entry_name = [&name, entry.file_name().as_bytes()].concat();
                if entry.file_name().as_bytes().starts_with(b".") {
                    continue;
                }
                match kind(&root, &path) {
                    Kind::Folder => folders.push((path, [&entry_name, &b"/"[..]].concat())),
                    Kind::File => {
                        let body = read(&path)
                            .map_err(|error| FilesError::Unreadable(path.clone(), error))?;
                        size += body.len() as u64;
                        if size > FOLDER_SIZE_MAX {
                            return Err(FilesError::TooLarge(root));
                        }
                        files.add(&entry_name, &path, body);
                    }
                    Kind::Other => {}
                }
            }
            files.add_folder(&name);
        }
        Ok(files)
    }

    fn add(&mut self, name: &[u8], path: &Path, body: Vec<u8>) {
        let fields = format!("Content-Type: {}\r\n", content_type(path, &body));
        let file = if body.len() < SHARED_SIZE_MIN {
            File::Small(Answer::new(&fields, &body))
        } else {
            File::Large(Answer::head_only(&fields, body.len() as u64), body.into())
        };
        let page = Place::File(number(self.contents.len()));
        self.contents.push(file);
        self.pages.insert(name.into(), page);
        if let Some(folder) =
            name.strip_suffix(INDEX.as_bytes()).filter(|rest| rest.ends_with(b"/"))
        {
            self.pages.insert(folder.into(), page);
        }
    }

    /// A folder without its slash leads to the one with it, so that relative links in its index work.
    fn add_folder(&mut self, name: &[u8]) {
        let Some(bare) = name.strip_suffix(b"/").filter(|bare| !bare.is_empty()) else { return };
        let last = bare.rsplit(|&byte| byte == b'/').next().unwrap_or(bare);
        let fields = format!("Location: {}/\r\nContent-Type: text/plain\r\n", encode(last));
        let page = Place::Moved(number(self.moves.len()));
        self.moves.push(Answer::new(&fields, b"Moved Permanently\n"));
        self.pages.insert(bare.into(), page);
    }

    pub(super) fn plan(&self, method: Method, path: &[u8]) -> Plan {
        let page = match (self.find(path), method) {
            (Page::NotFound, _) => Page::NotFound,
            (page, Method::Get | Method::Head) => page,
            _ => Page::NotAllowed,
        };
        Plan::new(page, method)
    }

    /// The page at `path`, which begins with a slash.
    pub(super) fn find(&self, path: &[u8]) -> Page {
        let found = path::resolve(path).and_then(|name| self.pages.get(&*name).copied());
        match found {
            Some(Place::File(number)) => Page::File(number),
            Some(Place::Moved(number)) => Page::Moved(number),
            None => Page::NotFound,
        }
    }

    pub(super) fn reply(&self, page: &Page) -> Reply<'_> {
        match page {
            Page::File(number) => match &self.contents[*number as usize] {
                File::Small(answer) => Reply::Whole(200, answer),
                File::Large(answer, body) => Reply::Split(200, answer, body),
            },
            Page::Moved(number) => Reply::Whole(301, &self.moves[*number as usize]),
            Page::NotAllowed => Reply::Whole(405, &self.not_allowed),
            _ => Reply::Whole(404, &self.not_found),
        }
    }
}

enum Kind {
    File,
    Folder,
    Other,
}

fn kind(root: &Path, path: &Path) -> Kind {
    let Ok(found) = fs::symlink_metadata(path) else { return Kind::Other };
    if found.is_dir() {
        return Kind::Folder;
    }
    let is_inside = || path.canonicalize().is_ok_and(|target| target.starts_with(root));
    let is_file = || fs::metadata(path).is_ok_and(|target| target.is_file());
    match found.is_symlink() {
        false if found.is_file() => Kind::File,
        true if is_inside() && is_file() => Kind::File,
        _ => Kind::Other,
    }
}

/// Reads a file whole, and no more than may be kept.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    fs::File::open(path)?.take(FOLDER_SIZE_MAX + 1).read_to_end(&mut body)?;
    Ok(body)
}

/// The media type after the file's name; text that is UTF-8 says so.
fn content_type(path: &Path, body: &[u8]) -> String {
    let guess = mime_guess::from_path(path).first_or_octet_stream();
    let is_utf8_text = guess.type_() == mime_guess::mime::TEXT && str::from_utf8(body).is_ok();
    let charset = if is_utf8_text { "; charset=utf-8" } else { "" };
    format!("{}{charset}", guess.essence_str())
}

/// Writes a segment so that it is one segment again when it is decoded (RFC 3986 section 2).
fn encode(segment: &[u8]) -> String {
    // The dot and slash in front keep a colon from looking like a scheme.
    let mut text = String::from("./");
    for &byte in segment {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value)]);
            text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    text
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a gigabyte holds fewer than 2^32 files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_its_encoding_when_it_has_one() {
        let check = |name: &str, body: &[u8], expected| {
            assert_eq!(content_type(Path::new(name), body), expected);
        };
        check("a.html", b"<p>", "text/html; charset=utf-8");
        check("a.txt", b"\xff\xfe", "text/plain");
        check("a.png", b"", "image/png");
        check("1k.bin", b"", "application/octet-stream");
        check("Makefile", b"", "application/octet-stream");
    }

    #[test]
    fn a_segment_comes_back_as_it_was() {
        assert_eq!(encode(b"a-b.c"), "./a-b.c");
        assert_eq!(encode("a b:あ%".as_bytes()), "./a%20b%3A%E3%81%82%25");
    }
}
