//! Loads a [`CacheEntry`] from disk.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jissoku_http::content_coding::ContentCoding;
use jissoku_http::name_rule::{self, FieldRule, Fields, Rule};
use jissoku_http::response::StaticResponse;
use jissoku_os::clock;
use jissoku_os::file::{Dir, File, FileStamp, Kind, LookupResult, Root, RootPath, SymlinkPolicy};

use super::entry::{CacheEntry, EntryKind, Variants};
use super::representation::{Metadata, Representation, is_final};
use super::{escape, listing, mime, path};
use crate::limits::MEMORY_SIZE_MAX;

/// The index file of a directory.
const INDEX: &[u8] = b"index.html";

/// The suffix that clean URLs leave out.
const PAGE_SUFFIX: &[u8] = b".html";

/// How often reading a file is retried that changes meanwhile, before a 503 is sent.
const READ_TRIES: usize = 8;

/// Number of validations per search for precompressed variants.
const LOOKUPS_PER_SEARCH: u64 = 20;

/// Texts up to this size are read to find out whether they are UTF-8.
const TEXT_SIZE_MAX: u64 = 1 << 20;

/// Options for serving a directory.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct Options {
    /// How long a cached entry is valid before it is compared with the disk.
    pub revalidate: Duration,
    /// Bytes of cached files, all workers together.
    pub cache_size: u64,
    /// Which symbolic links are followed.
    pub links: SymlinkPolicy,
    /// Whether names that begin with a dot are served; `.well-known` always is (RFC 8615).
    pub shows_dotfiles: bool,
    /// Whether directories without an index are listed.
    pub lists_folders: bool,
    /// Whether `name.br`, `name.zst` and `name.gz` are served for `name` by Accept-Encoding.
    pub uses_coded: bool,
    /// The file that is sent with a 404, relative to the root.
    pub not_found: Option<String>,
    /// Whether the index of the root is served for paths that name no file.
    pub is_spa: bool,
    /// Whether `name` is served from `name.html`, and `name.html` leads to it.
    pub has_clean_urls: bool,
    /// Rules for fields of responses; for each field the first match applies.
    pub fields: Vec<FieldRule>,
    /// Rules for Content-Type; without a match it is chosen by the extension.
    pub content_type: Vec<Rule>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            revalidate: Duration::from_millis(50),
            cache_size: 256 << 20,
            links: SymlinkPolicy::Beneath,
            shows_dotfiles: false,
            lists_folders: false,
            uses_coded: true,
            not_found: None,
            is_spa: false,
            has_clean_urls: false,
            fields: Vec::new(),
            content_type: Vec::new(),
        }
    }
}

/// Loads files below a root.
#[derive(Debug)]
pub(super) struct Loader {
    root: RootPath,
    options: Options,
    /// The only file that is served, with a slash in front.
    file: Option<Vec<u8>>,
}

/// The directory during one lookup.
struct Folder<'a> {
    /// `None` while there is none.
    root: Option<Root>,
    options: &'a Options,
}

/// The result of looking up a name on disk.
enum DiskLookup {
    Files {
        name: Vec<u8>,
        plain: File,
        coded: Vec<(ContentCoding, File)>,
    },
    /// A directory whose slash is missing in the request, or a page that has a shorter path.
    Moved(String),
    Listing(Dir),
    Forbidden,
    Nothing,
}

impl Loader {
    /// Loads the files below `root`, or only `file`, which begins with a slash.
    pub(super) const fn new(root: RootPath, file: Option<Vec<u8>>, options: Options) -> Self {
        Self { root, options, file }
    }

    /// The name that is served for `name`, if one may be.
    pub(super) fn visible<'a>(&'a self, name: Cow<'a, [u8]>) -> Option<Cow<'a, [u8]>> {
        match &self.file {
            Some(file) => (*name == *b"/" || *name == **file).then_some(file.into()),
            None => Some(name).filter(|name| is_visible(&self.options, name)),
        }
    }

    /// Whether `path` would be served, and is not that of the only file.
    pub(super) fn lacks(&self, path: &[u8]) -> bool {
        let name = path::resolve(path);
        self.file.is_some() && name.is_some_and(|name| is_visible(&self.options, &name))
    }

    /// Whether the index of the root is served for paths that name no file.
    pub(super) const fn is_spa(&self) -> bool {
        self.options.is_spa
    }

    /// The header lines of an error for `name`.
    pub(super) fn fields_of_error(&self, name: &[u8]) -> String {
        name_rule::fields(&self.options.fields, &[name]).of_errors
    }

    /// The directory, looked up again: it may have been replaced, as a whole or by another link.
    fn folder(&self) -> io::Result<Folder<'_>> {
        Ok(Folder { root: self.root.root()?, options: &self.options })
    }

    /// Loads `name` by a lookup that starts at `now_ns` or later; returns `kept` if it is still
    /// valid. `None` if the file changes faster than it can be read.
    ///
    /// # Errors
    /// Errors of the system rather than of the name, such as `EMFILE`.
    pub(super) fn load(
        &self,
        name: &[u8],
        kept: Option<Arc<CacheEntry>>,
        now_ns: u64,
    ) -> io::Result<Option<Arc<CacheEntry>>> {
        let folder = self.folder()?;
        if let Some(kept) = kept.filter(|kept| kept.is_mtime_stable) {
            let is_search = kept.was_searched_before(now_ns.saturating_sub(self.search_ns()));
            let wants: &dyn Fn(ContentCoding) -> bool =
                if is_search { &|_| true } else { &|coding| kept.has_source(coding) };
            if folder.look_up(name, wants)?.matches(&kept, is_search) {
                kept.confirm(now_ns);
                if is_search {
                    kept.confirm_search(now_ns);
                }
                return Ok(Some(kept));
            }
        }
        for _ in 0..READ_TRIES {
            let folder = self.folder()?;
            let found = folder.look_up(name, &|_| true)?;
            if let Some(entry) = self.make(name, found, &folder, now_ns)? {
                return Ok(Some(Arc::new(entry)));
            }
        }
        Ok(None)
    }

    /// Interval between searches for precompressed variants. A new variant does not invalidate a
    /// cached response, and most files have none, so it is longer than that of validation. Listings
    /// are also generated again after it, to update sizes and dates.
    fn search_ns(&self) -> u64 {
        let revalidate_ns = u64::try_from(self.options.revalidate.as_nanos()).unwrap_or(u64::MAX);
        revalidate_ns.saturating_mul(LOOKUPS_PER_SEARCH)
    }

    /// `None` if a file changed meanwhile.
    fn make(
        &self,
        name: &[u8],
        found: DiskLookup,
        folder: &Folder<'_>,
        now_ns: u64,
    ) -> io::Result<Option<CacheEntry>> {
        let sources = found.sources();
        let wall_ns = clock::wall_ns();
        let is_mtime_stable = sources.iter().all(|(_, stamp)| is_final(stamp, wall_ns));
        let what = match found {
            DiskLookup::Files { name: file_name, plain, coded } => {
                match self.variants(&[&file_name, name], plain, coded, wall_ns)? {
                    Some(variants) => EntryKind::Variants(Box::new(variants)),
                    None => return Ok(None),
                }
            }
            DiskLookup::Moved(location) => {
                let fields = self.fields_of_error(name);
                let answer = StaticResponse::new(
                    &format!("Location: {location}\r\n{fields}Content-Type: text/plain\r\n"),
                    b"Moved Permanently\n",
                );
                EntryKind::Moved { location, fields, answer }
            }
            DiskLookup::Listing(listed) => {
                let page = listing::page(name, &listed, |entry| folder.follow(name, entry))?;
                let plain = Representation::in_memory(
                    page,
                    None,
                    &Metadata {
                        content_type: listing::TYPE,
                        coding: None,
                        varies: false,
                        fields: &name_rule::fields(&self.options.fields, &[name]),
                        now_ns: wall_ns,
                    },
                );
                EntryKind::Variants(Box::new(Variants { plain, coded: Vec::new() }))
            }
            DiskLookup::Forbidden => EntryKind::Forbidden(StaticResponse::new(
                &format!("{}Content-Type: text/plain\r\n", self.fields_of_error(name)),
                b"Forbidden\n",
            )),
            DiskLookup::Nothing => EntryKind::Missing,
        };
        Ok(Some(CacheEntry::new(what, sources, is_mtime_stable, now_ns)))
    }

    /// `names` are that of the file, and that of the request.
    fn variants(
        &self,
        names: &[&[u8]; 2],
        plain: File,
        coded: Vec<(ContentCoding, File)>,
        wall_ns: u64,
    ) -> io::Result<Option<Variants>> {
        let file_name = names[0];
        let Some(bytes) = Bytes::read(&plain)? else { return Ok(None) };
        let content_type = self.content_type(file_name, &bytes, &plain)?;
        let is_svgz = mime::is_compressed_svg(file_name, bytes.beginning());
        let metadata = Metadata {
            content_type: &content_type,
            coding: is_svgz.then_some(ContentCoding::Gzip),
            varies: !coded.is_empty(),
            fields: &self.fields(names),
            now_ns: wall_ns,
        };
        let mut variants =
            Variants { plain: bytes.representation(plain, &metadata), coded: Vec::new() };
        for (coding, file) in coded {
            let metadata = Metadata { coding: Some(coding), ..metadata };
            let Some(bytes) = Bytes::read(&file)? else { return Ok(None) };
            variants.coded.push((coding, bytes.representation(file, &metadata)));
        }
        Ok(Some(variants))
    }

    /// The Content-Type of a file; with a charset only if the whole text is known to be UTF-8.
    fn content_type(&self, name: &[u8], bytes: &Bytes, file: &File) -> io::Result<String> {
        if let Some(content_type) = name_rule::first(&self.options.content_type, &[name]) {
            return Ok(content_type.to_owned());
        }
        let media_type = mime::media_type(name);
        let is_utf8 = mime::is_text(&media_type)
            && match bytes {
                Bytes::All(bytes) => mime::is_utf8(bytes),
                // A text that is being written, such as a log, has no known charset.
                Bytes::Beginning(_) if file.stamp().size <= TEXT_SIZE_MAX => {
                    file.read_whole()?.is_some_and(|text| mime::is_utf8(&text))
                }
                Bytes::Beginning(_) => false,
            };
        Ok(format!("{media_type}{}", if is_utf8 { "; charset=utf-8" } else { "" }))
    }

    /// The header lines for a file. The page of an application names files of its build, so caches
    /// ask for it each time; and whether it is sent may depend on Accept.
    fn fields(&self, names: &[&[u8]; 2]) -> Fields {
        let mut fields = name_rule::fields(&self.options.fields, names);
        let page = self.file.as_deref().unwrap_or(b"/index.html");
        if self.options.is_spa && names[0] == page {
            fields.all.push_str("Vary: Accept\r\n");
            if !fields.has_cache_control {
                fields.all.push_str("Cache-Control: no-cache\r\n");
            }
        }
        fields
    }
}

impl Folder<'_> {
    /// Looks up `name` and its variants in the codings that `wants` selects.
    fn look_up(
        &self,
        name: &[u8],
        wants: &dyn Fn(ContentCoding) -> bool,
    ) -> io::Result<DiskLookup> {
        let is_folder = name.ends_with(b"/");
        let file_name = file_name(name);
        let found = self.found(&file_name)?;
        let is_dir = matches!(found, LookupResult::Dir(_));
        match found {
            LookupResult::File(plain) => {
                return Ok(match self.shorter(name)? {
                    Some(location) => DiskLookup::Moved(location),
                    None => self.files(file_name.into_owned(), plain, wants)?,
                });
            }
            LookupResult::Forbidden => return Ok(DiskLookup::Forbidden),
            LookupResult::Dir(_) | LookupResult::Nothing => {}
        }
        // An index.html that is a directory is no index.
        if is_folder && self.options.lists_folders {
            match self.found(name)? {
                LookupResult::Dir(folder) => return Ok(DiskLookup::Listing(folder)),
                LookupResult::Forbidden => return Ok(DiskLookup::Forbidden),
                LookupResult::File(_) | LookupResult::Nothing => {}
            }
        }
        if let Some(page) = self.page(name)? {
            return Ok(match page.1 {
                LookupResult::File(_) if is_folder => {
                    let stem = name.strip_suffix(b"/").unwrap_or(name);
                    DiskLookup::Moved(format!(".{}", escape::segment(last_segment(stem))))
                }
                LookupResult::File(plain) => self.files(page.0, plain, wants)?,
                _ => DiskLookup::Forbidden,
            });
        }
        let is_moved = !is_folder && is_dir && (!self.options.is_spa || self.has_index(name)?);
        Ok(if is_moved { DiskLookup::Moved(escape::folder(name)) } else { DiskLookup::Nothing })
    }

    fn files(
        &self,
        name: Vec<u8>,
        plain: File,
        wants: &dyn Fn(ContentCoding) -> bool,
    ) -> io::Result<DiskLookup> {
        let coded = self.coded(&name, &plain, wants)?;
        Ok(DiskLookup::Files { name, plain, coded })
    }

    /// With clean URLs, the page `name.html`, and its name; `None` if there is none.
    fn page(&self, name: &[u8]) -> io::Result<Option<(Vec<u8>, LookupResult)>> {
        let stem = name.strip_suffix(b"/").unwrap_or(name);
        if !self.options.has_clean_urls || stem.is_empty() {
            return Ok(None);
        }
        let page = [stem, PAGE_SUFFIX].concat();
        Ok(match self.found(&page)? {
            LookupResult::Dir(_) | LookupResult::Nothing => None,
            found => Some((page, found)),
        })
    }

    /// With clean URLs, the reference from the page `name`, a file, to its path without the suffix:
    /// unless a file has that, or it is no path of its own, such as `/..html`.
    fn shorter(&self, name: &[u8]) -> io::Result<Option<String>> {
        if !self.options.has_clean_urls {
            return Ok(None);
        }
        let Some(stem) = name.strip_suffix(PAGE_SUFFIX) else { return Ok(None) };
        Ok(match last_segment(stem) {
            b"index" => Some("./".to_owned()),
            b"" | [b'.', ..] => None,
            last => match self.found(stem)? {
                LookupResult::File(_) => None,
                _ => Some(escape::segment(last)),
            },
        })
    }

    fn has_index(&self, folder: &[u8]) -> io::Result<bool> {
        Ok(matches!(self.found(&[folder, b"/", INDEX].concat())?, LookupResult::File(_)))
    }

    fn found(&self, name: &[u8]) -> io::Result<LookupResult> {
        let name = name.strip_prefix(b"/").unwrap_or(name);
        let name = if name.is_empty() { b"." } else { name };
        match &self.root {
            Some(root) => root.lookup(Path::new(OsStr::from_bytes(name)), self.options.links),
            None => Ok(LookupResult::Nothing),
        }
    }

    /// The precompressed variants of `plain` that are not older than it.
    fn coded(
        &self,
        name: &[u8],
        plain: &File,
        wants: &dyn Fn(ContentCoding) -> bool,
    ) -> io::Result<Vec<(ContentCoding, File)>> {
        let mut coded = Vec::new();
        if !self.options.uses_coded || mime::has_svgz_name(name) {
            return Ok(coded);
        }
        for coding in ContentCoding::ALL.into_iter().filter(|&coding| wants(coding)) {
            let suffix: &[u8] = match coding {
                ContentCoding::Brotli => b".br",
                ContentCoding::Zstd => b".zst",
                ContentCoding::Gzip => b".gz",
            };
            if let LookupResult::File(file) = self.found(&[name, suffix].concat())?
                && file.stamp().mtime_ns >= plain.stamp().mtime_ns
            {
                coded.push((coding, file));
            }
        }
        Ok(coded)
    }

    /// A listed entry of the directory `name`; `None` if it would not be served.
    fn follow(&self, name: &[u8], entry: listing::DirEntry) -> Option<listing::DirEntry> {
        let full_name = [name, entry.name.as_bytes()].concat();
        if !is_visible(self.options, &full_name) {
            return None;
        }
        match entry.kind {
            Kind::File | Kind::Dir => Some(entry),
            Kind::Link => listing::at_the_end_of(entry, self.found(&full_name).ok()?),
            Kind::Other => None,
        }
    }
}

fn last_segment(name: &[u8]) -> &[u8] {
    name.rsplit(|&byte| byte == b'/').next().unwrap_or(name)
}

/// The file that is sent for `name`: the index of a directory.
fn file_name(name: &[u8]) -> Cow<'_, [u8]> {
    if name.ends_with(b"/") { [name, INDEX].concat().into() } else { name.into() }
}

/// Whether `name` may be served: it has no hidden segment.
fn is_visible(options: &Options, name: &[u8]) -> bool {
    let mut segments = name.split(|&byte| byte == b'/').skip(1).enumerate();
    let is_hidden = |(at, segment): (usize, &[u8])| {
        segment.starts_with(b".") && (at, segment) != (0, b".well-known")
    };
    options.shows_dotfiles || !segments.any(is_hidden)
}

/// The part of a file that is read.
enum Bytes {
    All(Vec<u8>),
    Beginning([u8; 2]),
}

impl Bytes {
    /// `None` if the file changed meanwhile.
    fn read(file: &File) -> io::Result<Option<Self>> {
        if file.stamp().size <= MEMORY_SIZE_MAX {
            return Ok(file.read_whole()?.map(Self::All));
        }
        let mut beginning = [0; 2];
        file.read_at(&mut beginning, 0)?;
        Ok(Some(Self::Beginning(beginning)))
    }

    fn beginning(&self) -> &[u8] {
        match self {
            Self::All(bytes) => bytes,
            Self::Beginning(bytes) => bytes,
        }
    }

    fn representation(self, file: File, metadata: &Metadata<'_>) -> Representation {
        match self {
            Self::All(bytes) => {
                Representation::in_memory(bytes, Some(file.stamp().mtime_ns), metadata)
            }
            Self::Beginning(_) => Representation::on_disk(file, metadata),
        }
    }
}

impl DiskLookup {
    fn sources(&self) -> Vec<(Option<ContentCoding>, FileStamp)> {
        let (plain, coded) = match self {
            Self::Files { plain, coded, .. } => (plain, coded),
            Self::Listing(folder) => return vec![(None, *folder.stamp())],
            Self::Moved(_) | Self::Forbidden | Self::Nothing => return Vec::new(),
        };
        let coded = coded.iter().map(|(coding, file)| (Some(*coding), *file.stamp()));
        std::iter::once((None, *plain.stamp())).chain(coded).collect()
    }

    /// Whether `kept` is still valid. With `is_search`, a listing is not: changes of sizes are not
    /// visible in the stamp of a directory.
    fn matches(&self, kept: &CacheEntry, is_search: bool) -> bool {
        match (self, &kept.what) {
            (Self::Listing(_), EntryKind::Variants(_)) => {
                !is_search && self.sources() == kept.sources
            }
            (Self::Files { .. }, EntryKind::Variants(_)) => self.sources() == kept.sources,
            (Self::Moved(here), EntryKind::Moved { location, .. }) => here == location,
            (Self::Forbidden, EntryKind::Forbidden(_)) | (Self::Nothing, EntryKind::Missing) => {
                true
            }
            _ => false,
        }
    }
}
