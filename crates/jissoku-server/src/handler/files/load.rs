//! From disk to an [`Entry`]: looked up, read, and looked at again.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use jissoku_http::coding::Coding;
use jissoku_http::response::Answer;
use jissoku_os::clock;
use jissoku_os::file::{File, Folder, Found, Identity, Kind, Root};

use super::entry::{Entry, Forms, What};
use super::form::{About, Form, is_final};
use super::{Options, escape, listing, media, rule};
use crate::limits::MEMORY_SIZE_MAX;

/// What answers a request for a folder.
const INDEX: &[u8] = b"index.html";

/// How often a file is read that changes while it is read, before whoever asked is told to come again.
const TRIES: usize = 8;

/// How often a file is looked at for each time that it is looked for files beside it.
const LOOKS_PER_SEARCH: u64 = 20;

/// The beginning of a large text that is looked at for its charset.
const SAMPLE_SIZE: usize = 4096;

/// Reads what is below a root.
#[derive(Debug)]
pub(super) struct Loader {
    root: Root,
    options: Options,
}

/// What a name stands for on disk just now.
enum Sight {
    Files {
        plain: File,
        coded: Vec<(Coding, File)>,
    },
    /// A folder that was asked for without its slash.
    Moved,
    /// A folder whose content is to be shown.
    Listing(Folder),
    Forbidden,
    Nothing,
}

impl Loader {
    pub(super) const fn new(root: Root, options: Options) -> Self {
        Self { root, options }
    }

    /// Whether `name` may be served if it is there: no part of it hides behind a dot.
    pub(super) fn shows(&self, name: &[u8]) -> bool {
        let mut segments = name.split(|&byte| byte == b'/').skip(1).enumerate();
        let is_hidden = |(at, segment): (usize, &[u8])| {
            segment.starts_with(b".") && (at, segment) != (0, b".well-known")
        };
        self.options.shows_dotfiles || !segments.any(is_hidden)
    }

    /// What `name` stands for, by a look that begins at `now_ns` or later; `kept` itself, if that still
    /// holds. `None` if it changes so fast that it cannot be read.
    ///
    /// # Errors
    /// What says something about us rather than about the name.
    pub(super) fn load(
        &self,
        name: &[u8],
        kept: Option<Arc<Entry>>,
        now_ns: u64,
    ) -> io::Result<Option<Arc<Entry>>> {
        if let Some(kept) = kept.filter(|kept| kept.is_settled) {
            let is_search = kept.was_searched_before(now_ns.saturating_sub(self.search_ns()));
            let looks_for: &dyn Fn(Coding) -> bool =
                if is_search { &|_| true } else { &|coding| kept.has_source(coding) };
            if self.look(name, looks_for)?.is_what_was(&kept, is_search) {
                kept.confirm(now_ns);
                if is_search {
                    kept.confirm_search(now_ns);
                }
                return Ok(Some(kept));
            }
        }
        for _ in 0..TRIES {
            let sight = self.look(name, &|_| true)?;
            if let Some(entry) = self.make(name, sight, now_ns)? {
                return Ok(Some(Arc::new(entry)));
            }
        }
        Ok(None)
    }

    /// How long after one search for files beside a file the next one is due. That there is a new one makes
    /// nothing that was said untrue, so there is time; most files have none, and would pay for three. A list
    /// shows at once what has come and gone, and what else has changed as late.
    fn search_ns(&self) -> u64 {
        let revalidate_ns = u64::try_from(self.options.revalidate.as_nanos()).unwrap_or(u64::MAX);
        revalidate_ns.saturating_mul(LOOKS_PER_SEARCH)
    }

    /// What `name` stands for just now, in itself and in the codings that `looks_for` names.
    fn look(&self, name: &[u8], looks_for: &dyn Fn(Coding) -> bool) -> io::Result<Sight> {
        let is_folder = name.ends_with(b"/");
        let file_name = if is_folder { [name, INDEX].concat() } else { name.to_vec() };
        Ok(match self.found(&file_name)? {
            Found::File(plain) => {
                let coded = self.coded(&file_name, &plain, looks_for)?;
                Sight::Files { plain, coded }
            }
            Found::Folder(_) if !is_folder => Sight::Moved,
            Found::Nothing if is_folder && self.options.lists_folders => match self.found(name)? {
                Found::Folder(folder) => Sight::Listing(folder),
                Found::Forbidden => Sight::Forbidden,
                Found::File(_) | Found::Nothing => Sight::Nothing,
            },
            Found::Folder(_) | Found::Nothing => Sight::Nothing,
            Found::Forbidden => Sight::Forbidden,
        })
    }

    fn found(&self, name: &[u8]) -> io::Result<Found> {
        let name = name.strip_prefix(b"/").unwrap_or(name);
        let name = if name.is_empty() { b"." } else { name };
        self.root.look(Path::new(OsStr::from_bytes(name)), self.options.links)
    }

    /// The files beside `plain` that hold it in a coding, unless they are older and may hold what it was.
    fn coded(
        &self,
        name: &[u8],
        plain: &File,
        looks_for: &dyn Fn(Coding) -> bool,
    ) -> io::Result<Vec<(Coding, File)>> {
        let mut coded = Vec::new();
        if !self.options.uses_coded {
            return Ok(coded);
        }
        for coding in Coding::ALL.into_iter().filter(|&coding| looks_for(coding)) {
            let suffix: &[u8] = match coding {
                Coding::Brotli => b".br",
                Coding::Zstd => b".zst",
                Coding::Gzip => b".gz",
            };
            if let Found::File(file) = self.found(&[name, suffix].concat())?
                && file.identity().mtime_ns >= plain.identity().mtime_ns
            {
                coded.push((coding, file));
            }
        }
        Ok(coded)
    }

    /// `None` if something changed meanwhile.
    fn make(&self, name: &[u8], sight: Sight, now_ns: u64) -> io::Result<Option<Entry>> {
        let sources = sight.sources();
        let wall_ns = clock::wall_ns();
        let is_settled = sources.iter().all(|(_, identity)| is_final(identity, wall_ns));
        let what = match sight {
            Sight::Files { plain, coded } => match self.forms(name, plain, coded, wall_ns)? {
                Some(forms) => What::Forms(Box::new(forms)),
                None => return Ok(None),
            },
            Sight::Moved => {
                let location = escape::folder(name);
                let fields = format!("Location: {location}\r\nContent-Type: text/plain\r\n");
                What::Moved { location, answer: Answer::new(&fields, b"Moved Permanently\n") }
            }
            Sight::Listing(folder) => {
                let page = listing::page(name, &folder, |entry| self.follow(name, entry))?;
                let plain = Form::in_memory(page, None, &self.about(name, listing::TYPE, wall_ns));
                What::Forms(Box::new(Forms { plain, coded: Vec::new() }))
            }
            Sight::Forbidden => What::Forbidden(super::plain("Forbidden\n")),
            Sight::Nothing => What::Missing,
        };
        Ok(Some(Entry::new(what, sources, is_settled, now_ns)))
    }

    fn forms(
        &self,
        name: &[u8],
        plain: File,
        coded: Vec<(Coding, File)>,
        wall_ns: u64,
    ) -> io::Result<Option<Forms>> {
        let file_name = if name.ends_with(b"/") { INDEX } else { name };
        let Some(bytes) = Bytes::read(&plain)? else { return Ok(None) };
        let content_type = bytes.content_type(file_name);
        let about = About { varies: !coded.is_empty(), ..self.about(name, &content_type, wall_ns) };
        let mut forms = Forms { plain: bytes.form(plain, &about), coded: Vec::new() };
        for (coding, file) in coded {
            let about = About { coding: Some(coding), ..about };
            let Some(bytes) = Bytes::read(&file)? else { return Ok(None) };
            forms.coded.push((coding, bytes.form(file, &about)));
        }
        Ok(Some(forms))
    }

    fn about<'a>(&'a self, name: &[u8], content_type: &'a str, now_ns: u64) -> About<'a> {
        let cache_control = rule::first(&self.options.cache_control, name);
        About { content_type, coding: None, varies: false, cache_control, now_ns }
    }

    /// An entry of the folder `name` as it is shown; `None` if it is not, because it would not be served.
    fn follow(&self, name: &[u8], entry: listing::Entry) -> Option<listing::Entry> {
        let full_name = [name, entry.name.as_bytes()].concat();
        if !self.shows(&full_name) {
            return None;
        }
        match entry.kind {
            Kind::File | Kind::Folder => Some(entry),
            Kind::Link => listing::at_the_end_of(entry, self.found(&full_name).ok()?),
            Kind::Other => None,
        }
    }
}

/// As much of a file as is read.
enum Bytes {
    All(Vec<u8>),
    Beginning(Vec<u8>),
}

impl Bytes {
    /// `None` if the file changed meanwhile.
    fn read(file: &File) -> io::Result<Option<Self>> {
        if file.identity().size <= MEMORY_SIZE_MAX {
            return Ok(file.read_whole()?.map(Self::All));
        }
        let mut sample = vec![0; SAMPLE_SIZE];
        let size = file.read_at(&mut sample, 0)?;
        sample.truncate(size);
        Ok(Some(Self::Beginning(sample)))
    }

    fn content_type(&self, name: &[u8]) -> String {
        let (Self::All(bytes) | Self::Beginning(bytes)) = self;
        media::content_type(name, bytes)
    }

    fn form(self, file: File, about: &About<'_>) -> Form {
        match self {
            Self::All(bytes) => Form::in_memory(bytes, Some(file.identity().mtime_ns), about),
            Self::Beginning(_) => Form::on_disk(file, about),
        }
    }
}

impl Sight {
    fn sources(&self) -> Vec<(Option<Coding>, Identity)> {
        let (plain, coded) = match self {
            Self::Files { plain, coded } => (plain, coded),
            Self::Listing(folder) => return vec![(None, *folder.identity())],
            Self::Moved | Self::Forbidden | Self::Nothing => return Vec::new(),
        };
        let coded = coded.iter().map(|(coding, file)| (Some(*coding), *file.identity()));
        std::iter::once((None, *plain.identity())).chain(coded).collect()
    }

    /// Whether a new entry would say what `kept` says. If this `is_search`, a list is made anew: the sizes
    /// in it change and the folder does not tell.
    fn is_what_was(&self, kept: &Entry, is_search: bool) -> bool {
        match (self, &kept.what) {
            (Self::Listing(_), What::Forms(_)) => !is_search && self.sources() == kept.sources,
            (Self::Files { .. }, What::Forms(_)) => self.sources() == kept.sources,
            (Self::Moved, What::Moved { .. })
            | (Self::Forbidden, What::Forbidden(_))
            | (Self::Nothing, What::Missing) => true,
            _ => false,
        }
    }
}
