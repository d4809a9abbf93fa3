//! What is known of one name, and since when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jissoku_http::coding::Coding;
use jissoku_http::response::Answer;
use jissoku_os::file::Identity;

use super::form::Form;
use crate::handler::Reply;
use crate::metrics::Figure;

/// What an entry and its place in the store take beside what is counted, generously.
const OVERHEAD: u64 = 512;

/// What a name stands for. Never changed, but for when that was last found true.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) what: What,
    /// Of every file it was made from, in order.
    pub(super) sources: Vec<(Option<Coding>, Identity)>,
    /// Whether equal sources prove that nothing has changed.
    pub(super) is_settled: bool,
    /// Whether some of its bytes are read when they are sent, and not before.
    is_on_disk: bool,
    /// When it was last compared with the disk, on the monotonic clock.
    checked_ns: AtomicU64,
    /// When more forms of it were last looked for, on the monotonic clock.
    searched_ns: AtomicU64,
    /// Whether anybody has asked for it since the store last looked for something to forget.
    is_wanted: AtomicBool,
}

/// What a name stands for.
#[derive(Debug)]
pub(super) enum What {
    /// A file, or the list of a folder.
    Forms(Box<Forms>),
    /// A folder, whose name lacks its slash.
    Moved { location: String, answer: Answer },
    /// Something that may not be read.
    Forbidden(Answer),
    /// Nothing.
    Missing,
}

/// A file as it is, and in the codings in which it lies beside itself.
#[derive(Debug)]
pub(super) struct Forms {
    pub(super) plain: Form,
    pub(super) coded: Vec<(Coding, Form)>,
}

impl Forms {
    pub(super) fn has(&self, coding: Coding) -> bool {
        self.coded.iter().any(|(other, _)| *other == coding)
    }

    fn all(&self) -> impl Iterator<Item = &Form> {
        std::iter::once(&self.plain).chain(self.coded.iter().map(|(_, form)| form))
    }

    /// The form in a coding that is there, or the plain one.
    #[inline]
    pub(super) fn form(&self, coding: Option<Coding>) -> &Form {
        let coded = self.coded.iter().find(|(other, _)| Some(*other) == coding);
        coded.map_or(&self.plain, |(_, form)| form)
    }
}

impl Entry {
    pub(super) fn new(
        what: What,
        sources: Vec<(Option<Coding>, Identity)>,
        is_settled: bool,
        now_ns: u64,
    ) -> Self {
        Self {
            is_on_disk: matches!(&what, What::Forms(forms) if forms.all().any(Form::is_on_disk)),
            what,
            sources,
            is_settled,
            checked_ns: AtomicU64::new(now_ns),
            searched_ns: AtomicU64::new(now_ns),
            is_wanted: AtomicBool::new(false),
        }
    }

    /// Whether it may be believed without a look at its name. Bytes that will be read only now have to be
    /// those that the head speaks of, so at them there is a look every time.
    #[inline]
    pub(super) fn is_fresh(&self, now_ns: u64, revalidate_ns: u64) -> bool {
        let age_ns = now_ns.saturating_sub(self.checked_ns.load(Ordering::Relaxed));
        age_ns < revalidate_ns && (!self.is_on_disk || self.is_intact())
    }

    #[cold]
    fn is_intact(&self) -> bool {
        match &self.what {
            What::Forms(forms) => forms.all().all(Form::is_intact),
            _ => true,
        }
    }

    /// It was found to be true by a look that began at `now_ns` or later.
    pub(super) fn confirm(&self, now_ns: u64) {
        self.checked_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Whether it is longer ago than `ns` that more forms of it were looked for.
    pub(super) fn was_searched_before(&self, ns: u64) -> bool {
        self.searched_ns.load(Ordering::Relaxed) <= ns
    }

    /// More forms were looked for, from `now_ns` on or later, and there are none.
    pub(super) fn confirm_search(&self, now_ns: u64) {
        self.searched_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// What a look that came to it, when `kept` was known before, counts for.
    pub(super) fn news(self: &Arc<Self>, kept: Option<&Arc<Self>>) -> Figure {
        match kept {
            Some(kept) if Arc::ptr_eq(kept, self) => Figure::CacheConfirmed,
            _ => Figure::CacheMisses,
        }
    }

    pub(super) fn has_source(&self, coding: Coding) -> bool {
        self.sources.iter().any(|(other, _)| *other == Some(coding))
    }

    /// Takes note that somebody has asked for it. Written once only, so that the line stays shared.
    #[inline]
    pub(super) fn want(&self) {
        if !self.is_wanted.load(Ordering::Relaxed) {
            self.is_wanted.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::Relaxed)
    }

    /// What keeping it costs.
    pub(super) fn charge(&self) -> u64 {
        let bytes = match &self.what {
            What::Forms(forms) => forms.all().map(Form::charge).sum(),
            What::Moved { location, answer } => (location.len() + answer.whole().len()) as u64,
            What::Forbidden(answer) => answer.whole().len() as u64,
            What::Missing => 0,
        };
        OVERHEAD + bytes
    }
}

/// An entry as one worker holds it: counting who uses it touches no memory of another worker's.
#[derive(Debug)]
pub(crate) struct Held(Arc<Entry>);

/// Which of the answers of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The one in this coding, whole.
    Whole(Option<Coding>),
    /// That the client has the one in this coding.
    NotModified(Option<Coding>),
}

impl Held {
    pub(super) const fn new(entry: Arc<Entry>) -> Self {
        Self(entry)
    }

    #[inline]
    pub(super) const fn entry(&self) -> &Arc<Entry> {
        &self.0
    }

    /// The bytes of a choice; `None` for what is not there.
    #[inline]
    pub(crate) fn reply(&self, choice: Choice) -> Option<Reply<'_>> {
        match (&self.0.what, choice) {
            (What::Forms(forms), Choice::Whole(coding)) => Some(forms.form(coding).reply()),
            (What::Forms(forms), Choice::NotModified(coding)) => {
                Some(Reply::Whole(304, &forms.form(coding).not_modified))
            }
            (What::Moved { answer, .. }, _) => Some(Reply::Whole(301, answer)),
            (What::Forbidden(answer), _) => Some(Reply::Whole(403, answer)),
            (What::Missing, _) => None,
        }
    }
}
