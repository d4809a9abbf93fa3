//! Cache entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jissoku_http::content_coding::ContentCoding;
use jissoku_http::response::StaticResponse;
use jissoku_os::file::FileStamp;

use super::representation::Representation;
use crate::metrics::Counter;
use crate::response::Response;

/// Overhead of an entry in bytes, rounded up generously.
const OVERHEAD: u64 = 512;

/// A cache entry. Immutable except for the times of validation.
#[derive(Debug)]
pub(super) struct CacheEntry {
    pub(super) what: EntryKind,
    /// The stamps of all source files, in order.
    pub(super) sources: Vec<(Option<ContentCoding>, FileStamp)>,
    /// Whether equal stamps prove that nothing has changed.
    pub(super) is_mtime_stable: bool,
    /// Whether some of its bytes are sent from disk.
    is_on_disk: bool,
    /// When it was last compared with the disk, on the monotonic clock.
    checked_ns: AtomicU64,
    /// When precompressed variants were last searched, on the monotonic clock.
    searched_ns: AtomicU64,
    /// Referenced bit of the CLOCK algorithm.
    is_referenced: AtomicBool,
}

/// What a name refers to.
#[derive(Debug)]
pub(super) enum EntryKind {
    /// A file or a directory listing.
    Variants(Box<Variants>),
    /// A redirect to a directory with a trailing slash, or to a page without its suffix, and the
    /// other header lines of it.
    Moved { location: String, fields: String, answer: StaticResponse },
    /// A file without read permission.
    Forbidden(StaticResponse),
    /// No such file.
    Missing,
}

/// A file and its precompressed variants.
#[derive(Debug)]
pub(super) struct Variants {
    pub(super) plain: Representation,
    pub(super) coded: Vec<(ContentCoding, Representation)>,
}

impl Variants {
    pub(super) fn has(&self, coding: ContentCoding) -> bool {
        self.coded.iter().any(|(other, _)| *other == coding)
    }

    fn all(&self) -> impl Iterator<Item = &Representation> {
        std::iter::once(&self.plain)
            .chain(self.coded.iter().map(|(_, representation)| representation))
    }

    /// The variant with a coding, or the plain file.
    #[inline]
    pub(super) fn representation(&self, coding: Option<ContentCoding>) -> &Representation {
        let coded = self.coded.iter().find(|(other, _)| Some(*other) == coding);
        coded.map_or(&self.plain, |(_, representation)| representation)
    }
}

impl CacheEntry {
    pub(super) fn new(
        what: EntryKind,
        sources: Vec<(Option<ContentCoding>, FileStamp)>,
        is_mtime_stable: bool,
        now_ns: u64,
    ) -> Self {
        Self {
            is_on_disk: matches!(&what, EntryKind::Variants(variants) if variants.all().any(Representation::is_on_disk)),
            what,
            sources,
            is_mtime_stable,
            checked_ns: AtomicU64::new(now_ns),
            searched_ns: AtomicU64::new(now_ns),
            is_referenced: AtomicBool::new(false),
        }
    }

    /// Whether it is valid without a lookup. Files sent from disk are checked with `fstat(2)` every
    /// time, because their bytes have to match the head.
    #[inline]
    pub(super) fn is_fresh(&self, now_ns: u64, revalidate_ns: u64) -> bool {
        let age_ns = now_ns.saturating_sub(self.checked_ns.load(Ordering::Relaxed));
        age_ns < revalidate_ns && (!self.is_on_disk || self.is_intact())
    }

    #[cold]
    fn is_intact(&self) -> bool {
        match &self.what {
            EntryKind::Variants(variants) => variants.all().all(Representation::is_intact),
            _ => true,
        }
    }

    /// Records a successful validation that started at `now_ns` or later.
    pub(super) fn confirm(&self, now_ns: u64) {
        self.checked_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Whether variants were last searched at `ns` or before.
    pub(super) fn was_searched_before(&self, ns: u64) -> bool {
        self.searched_ns.load(Ordering::Relaxed) <= ns
    }

    /// Records a search for variants that started at `now_ns` or later and found no new ones.
    pub(super) fn confirm_search(&self, now_ns: u64) {
        self.searched_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// The counter for a lookup that returned this entry when `kept` was cached before.
    pub(super) fn lookup_counter(self: &Arc<Self>, kept: Option<&Arc<Self>>) -> Counter {
        match kept {
            Some(kept) if Arc::ptr_eq(kept, self) => Counter::CacheConfirmed,
            _ => Counter::CacheMisses,
        }
    }

    pub(super) fn has_source(&self, coding: ContentCoding) -> bool {
        self.sources.iter().any(|(other, _)| *other == Some(coding))
    }

    /// Sets the referenced bit. Written only when it changes, so that the cache line stays shared.
    #[inline]
    pub(super) fn touch(&self) {
        if !self.is_referenced.load(Ordering::Relaxed) {
            self.is_referenced.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn take_referenced(&self) -> bool {
        self.is_referenced.swap(false, Ordering::Relaxed)
    }

    /// Its size in bytes.
    pub(super) fn weight(&self) -> u64 {
        let bytes = match &self.what {
            EntryKind::Variants(variants) => variants.all().map(Representation::weight).sum(),
            EntryKind::Moved { location, fields, answer } => {
                (location.len() + fields.len() + answer.bytes().len()) as u64
            }
            EntryKind::Forbidden(answer) => answer.bytes().len() as u64,
            EntryKind::Missing => 0,
        };
        OVERHEAD + bytes
    }
}

/// A worker's reference to an entry, so that reference counting does not touch memory of other
/// workers.
#[derive(Debug)]
pub(super) struct CacheRef(Arc<CacheEntry>);

/// Which response of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// 200 in this coding.
    Whole(Option<ContentCoding>),
    /// 304 for this coding.
    NotModified(Option<ContentCoding>),
}

impl CacheRef {
    pub(super) const fn new(entry: Arc<CacheEntry>) -> Self {
        Self(entry)
    }

    #[inline]
    pub(super) const fn entry(&self) -> &Arc<CacheEntry> {
        &self.0
    }

    /// Writes a variant. The entry of a missing file has none.
    #[inline]
    pub(super) fn write(&self, variant: Variant, response: &mut Response<'_>) {
        match (&self.0.what, variant) {
            (EntryKind::Variants(variants), Variant::Whole(coding)) => {
                variants.representation(coding).write(response);
            }
            (EntryKind::Variants(variants), Variant::NotModified(coding)) => {
                response.send(304, &variants.representation(coding).not_modified);
            }
            (EntryKind::Moved { answer, .. }, _) => response.send(301, answer),
            (EntryKind::Forbidden(answer), _) => response.send(403, answer),
            (EntryKind::Missing, _) => {}
        }
    }
}
