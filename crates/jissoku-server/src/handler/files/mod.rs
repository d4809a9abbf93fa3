//! A folder: what is on disk is served as it is, at most a stated time later, and most of it from memory.
//!
//! A request's path is a key of what its worker knows ([`known`]). What is not known there, or was looked at
//! too long ago, comes from the [`store`] that all workers share, and what is not there from disk ([`load`]).
//! An entry is believed for [`Options::revalidate`] after it was compared with the disk; within that time a
//! request costs no system call.

mod choose;
mod entry;
mod escape;
mod form;
mod known;
mod listing;
mod load;
mod media;
mod parts;
mod rule;
mod store;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jissoku_http::response::Answer;
use jissoku_http::{Head, Method};
use jissoku_os::file::{Links, Root};

use super::{Content, Made, Page, Part, Plan, path, plain};
pub(crate) use entry::{Choice, Held};
use entry::{Entry, What};
pub(crate) use known::Known;
use load::Loader;
pub use rule::Rule;
use store::Store;

use crate::metrics::{Cache, Figure, Tally};

/// How a folder is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// For how long what is known of a file is believed.
    pub revalidate: Duration,
    /// How many bytes may be kept in memory, all workers together.
    pub cache_size: u64,
    /// Which symbolic links are followed.
    pub links: Links,
    /// Whether names that begin with a dot are served; `.well-known` is in any case (RFC 8615).
    pub shows_dotfiles: bool,
    /// Whether a folder without an index shows what is in it.
    pub lists_folders: bool,
    /// Whether `name.br`, `name.zst` and `name.gz` stand for `name` when the client likes them better.
    pub uses_coded: bool,
    /// The file that is the body of a 404, by its name below the root.
    pub not_found: Option<String>,
    /// What is said in Cache-Control; of several rules, the first that fits.
    pub cache_control: Vec<Rule>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            revalidate: Duration::from_millis(50),
            cache_size: 256 << 20,
            links: Links::Beneath,
            shows_dotfiles: false,
            lists_folders: false,
            uses_coded: true,
            not_found: None,
            cache_control: Vec::new(),
        }
    }
}

/// Serves a folder.
#[derive(Debug)]
pub struct Files {
    loader: Loader,
    store: Store,
    revalidate_ns: u64,
    /// The path of the file that says 404.
    not_found_path: Option<Vec<u8>>,
    not_found: Answer,
    not_allowed: Answer,
}

/// One request for a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) head: &'a Head,
    /// What the head was read from.
    pub(super) bytes: &'a [u8],
    /// The path below what is served, as it came.
    pub(super) path: &'a [u8],
    /// With its question mark, or empty.
    pub(super) query: &'a [u8],
    /// On the monotonic clock.
    pub(super) now_ns: u64,
}

/// A folder that cannot be served.
#[derive(Debug)]
pub enum FilesError {
    /// It cannot be looked into.
    Unreadable(PathBuf, io::Error),
    /// The file that is to be the body of a 404 is not there.
    NoSuchPage(String),
}

impl fmt::Display for FilesError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => {
                write!(formatter, "cannot read {}: {error}", path.display())
            }
            Self::NoSuchPage(name) => {
                write!(
                    formatter,
                    "{name} is to be the answer to what is not found, and is not there"
                )
            }
        }
    }
}

impl std::error::Error for FilesError {}

/// How often a worker looks again because another one has looked meanwhile, before it relies on its own eyes.
const LOOKS_MAX: usize = 3;

const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";

impl Files {
    /// Serves what is below `root` from now on.
    ///
    /// # Errors
    /// A folder that cannot be read, or a page for 404 that is not in it.
    pub fn open(root: &Path, options: Options) -> Result<Self, FilesError> {
        let folder =
            Root::open(root).map_err(|error| FilesError::Unreadable(root.to_owned(), error))?;
        let files = Self {
            store: Store::new(options.cache_size),
            revalidate_ns: u64::try_from(options.revalidate.as_nanos()).unwrap_or(u64::MAX),
            not_found_path: options.not_found.as_deref().map(escape::path),
            not_found: plain("Not Found\n"),
            not_allowed: Answer::new(
                &format!("{ALLOW}Content-Type: text/plain\r\n"),
                b"Method Not Allowed\n",
            ),
            loader: Loader::new(folder, options),
        };
        match &files.not_found_path {
            Some(path) if files.not_found_entry(path, &Tally::default(), 0).is_none() => {
                Err(FilesError::NoSuchPage(String::from_utf8_lossy(path).into_owned()))
            }
            _ => Ok(files),
        }
    }

    #[inline]
    pub(super) fn plan(&self, known: &mut Known, asked: &Asked<'_>) -> Plan {
        let page = match asked.head.method {
            Method::Get | Method::Head => self.page(known, asked),
            Method::Options => Page::Made(Box::new(Made::bare(204, ALLOW))),
            _ => Page::NotAllowed,
        };
        Plan::new(page, asked.head.method)
    }

    /// The page for a GET or HEAD.
    #[inline]
    pub(super) fn page(&self, known: &mut Known, asked: &Asked<'_>) -> Page {
        match known.find(asked.path, asked.now_ns, self.revalidate_ns) {
            Some(held) => {
                known.tally.add(Figure::CacheHits, 1);
                self.show(held, known, asked)
            }
            None => self.find(known, asked),
        }
    }

    #[inline]
    fn show(&self, held: Arc<Held>, known: &mut Known, asked: &Asked<'_>) -> Page {
        match choose::page(held, asked) {
            Some(page) => page,
            None => self.lost(known, asked.now_ns),
        }
    }

    /// The page for a path that its worker does not know, or not any more.
    #[cold]
    fn find(&self, known: &mut Known, asked: &Asked<'_>) -> Page {
        match self.entry(asked.path, &known.tally, asked.now_ns) {
            Sought::Entry(entry) => {
                let held = known.keep(asked.path, entry, self.store.share_per_worker());
                self.show(held, known, asked)
            }
            Sought::Nothing => self.lost(known, asked.now_ns),
            // Somebody changes it faster than it can be read, or we have run out of something.
            Sought::Busy => Page::Made(Box::new(Made::text(
                503,
                "Retry-After: 1\r\n",
                b"Service Unavailable\n",
            ))),
        }
    }

    /// What `path` stands for, no older than may be believed at `now_ns`.
    fn entry(&self, path: &[u8], tally: &Tally, now_ns: u64) -> Sought {
        let Some(name) = path::resolve(path).filter(|name| self.loader.shows(name)) else {
            return Sought::Nothing;
        };
        let is_fresh = |entry: &Arc<Entry>| entry.is_fresh(now_ns, self.revalidate_ns);
        let mut looked = None;
        for _ in 0..LOOKS_MAX {
            let kept = self.store.find(&name);
            if let Some(entry) = kept.as_ref().filter(|entry| is_fresh(entry)) {
                tally.add(Figure::CacheHits, 1);
                return Sought::Entry(Arc::clone(entry));
            }
            let Ok(Some(entry)) = self.loader.load(&name, kept.clone(), now_ns) else { break };
            tally.add(entry.news(kept.as_ref()), 1);
            let (known, evicted) = self.store.keep(&name, Arc::clone(&entry), kept.as_ref());
            tally.add(Figure::CacheEvictions, evicted);
            if Arc::ptr_eq(&known, &entry) || is_fresh(&known) {
                return Sought::Entry(known);
            }
            looked = Some(entry);
        }
        looked.map_or(Sought::Busy, Sought::Entry)
    }

    /// The page for what is not there.
    #[cold]
    fn lost(&self, known: &mut Known, now_ns: u64) -> Page {
        let Some(path) = &self.not_found_path else { return Page::NotFound };
        let held = known.find(path, now_ns, self.revalidate_ns).or_else(|| {
            let entry = self.not_found_entry(path, &known.tally, now_ns)?;
            Some(known.keep(path, entry, self.store.share_per_worker()))
        });
        match held.as_ref().map(|held| &held.entry().what) {
            Some(What::Forms(forms)) => {
                let form = &forms.plain;
                Page::Made(Box::new(Made::new(404, &form.content_fields(), form.content())))
            }
            // The page for what is lost has been lost itself.
            _ => Page::NotFound,
        }
    }

    fn not_found_entry(&self, path: &[u8], tally: &Tally, now_ns: u64) -> Option<Arc<Entry>> {
        match self.entry(path, tally, now_ns) {
            Sought::Entry(entry) if matches!(entry.what, What::Forms(_)) => Some(entry),
            _ => None,
        }
    }

    pub(super) const fn not_found(&self) -> &Answer {
        &self.not_found
    }

    pub(super) const fn not_allowed(&self) -> &Answer {
        &self.not_allowed
    }

    /// What one more worker remembers, and where it counts how often that was enough.
    pub(super) fn known(&self, tally: Tally) -> Known {
        self.store.add_worker();
        Known::counted(tally)
    }

    /// Says there from now on how much is held.
    pub(super) fn tell(&self, cache: &Arc<Cache>) {
        self.store.tell(cache);
    }
}

/// What a path came to.
enum Sought {
    Entry(Arc<Entry>),
    /// A path that is none, or that is hidden.
    Nothing,
    /// It cannot be said just now.
    Busy,
}

impl Made {
    /// `fields` are header lines, each with its CRLF; Content-Length is added.
    fn new(status: u16, fields: &str, content: Content) -> Self {
        let head = format!("{fields}Content-Length: {}\r\n\r\n", content.size());
        Self { status, head: head.into_bytes(), content }
    }

    fn text(status: u16, fields: &str, body: &[u8]) -> Self {
        let content = Content { parts: vec![Part::Bytes(body.to_vec())] };
        Self::new(status, &format!("{fields}Content-Type: text/plain\r\n"), content)
    }

    /// An answer that never has a body.
    fn bare(status: u16, fields: &str) -> Self {
        Self { status, head: format!("{fields}\r\n").into_bytes(), content: Content::default() }
    }
}

impl Content {
    fn size(&self) -> u64 {
        let size = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Shared(_, range) => range.len() as u64,
            Part::File(_, range) => range.end - range.start,
        };
        self.parts.iter().map(size).sum()
    }
}
