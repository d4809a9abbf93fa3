//! What is served: a request goes in as a head, and a [`Plan`] comes out.
//!
//! Planning is separate from answering, because the head's bytes are gone when a body or a delay is over.

mod contract;
mod echo;
mod figures;
mod files;
mod fixed;
mod forty_two;
mod path;

use std::ops::Range;
use std::sync::Arc;

use jissoku_http::response::Answer;
use jissoku_http::{Head, Method};
use jissoku_os::driver::Output;
use jissoku_os::file::File;

pub use contract::Contract;
pub use echo::Echo;
use files::{Asked, Choice, Held, Known};
pub use files::{Files, FilesError, Options, Rule};
pub use fixed::Fixed;
pub use forty_two::FortyTwo;

use crate::metrics::{Metrics, Tally};

/// What one request will be answered with, and when.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) page: Page,
    /// How long after the request's arrival.
    pub(crate) delay_ns: u64,
    /// Whether the planted slowdown is part of it.
    pub(crate) is_busy: bool,
    /// Whether only the head is wanted.
    pub(crate) is_head_only: bool,
}

impl Plan {
    pub(crate) fn new(page: Page, method: Method) -> Self {
        Self { page, delay_ns: 0, is_busy: false, is_head_only: method == Method::Head }
    }
}

/// What an answer says.
#[derive(Debug)]
pub(crate) enum Page {
    /// The one text of a fixed site, or the greeting of the contract.
    Text,
    /// The exact bytes of the nine-cores contract.
    FortyTwo,
    /// Something in a folder.
    File(Arc<Held>, Choice),
    /// The request makes no sense to this site.
    BadRequest,
    /// There is nothing of that name.
    NotFound,
    /// There is, but not for this method.
    NotAllowed,
    /// Something made for this one request.
    Made(Box<Made>),
    /// Something that will be made when the request's body has come.
    Collect(Box<echo::Collect>),
}

/// An answer made for one request.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) status: u16,
    /// Header lines, each with its CRLF, and the empty line after them.
    pub(crate) head: Vec<u8>,
    pub(crate) content: Content,
}

/// The body of an answer made for one request, in order.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) parts: Vec<Part>,
}

/// Bytes of a body, wherever they are.
#[derive(Debug)]
pub(crate) enum Part {
    Bytes(Vec<u8>),
    Shared(Arc<[u8]>, Range<usize>),
    File(Arc<File>, Range<u64>),
}

impl Made {
    /// Puts out the body.
    pub(crate) fn write_body(&self, output: &mut Output) {
        for part in &self.content.parts {
            match part {
                Part::Bytes(bytes) => output.append(bytes),
                Part::Shared(bytes, range) => output.share_part(Arc::clone(bytes), range.clone()),
                Part::File(file, range) => output.file(Arc::clone(file), range.clone()),
            }
        }
    }
}

/// The bytes of an answer, but for what changes from one to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply<'a> {
    /// A status, header lines, and a body that follows them.
    Whole(u16, &'a Answer),
    /// A status, header lines, and a body that is sent from where it is.
    Split(u16, &'a Answer, &'a Arc<[u8]>),
    /// A status, header lines, and a file that is sent from where it is.
    File(u16, &'a Answer, &'a Arc<File>),
    /// Everything, once for a connection that lives on and once for one that ends.
    Verbatim { lives: &'a Answer, ends: &'a Answer },
    /// Made for this request.
    Made(&'a Made),
}

impl Reply<'_> {
    /// What it answers with.
    pub(crate) const fn status(&self) -> u16 {
        match self {
            Self::Whole(status, _) | Self::Split(status, ..) | Self::File(status, ..) => *status,
            // The one exact answer there is.
            Self::Verbatim { .. } => 200,
            Self::Made(made) => made.status,
        }
    }

    /// Bytes of the body, were it not for HEAD.
    pub(crate) fn body_size(&self) -> u64 {
        match self {
            Self::Whole(_, answer) | Self::Verbatim { lives: answer, .. } => answer.body_size(),
            Self::Split(_, _, body) => body.len() as u64,
            Self::File(_, _, file) => file.identity().size,
            Self::Made(made) => made.content.parts.iter().map(Part::size).sum(),
        }
    }
}

impl Part {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Shared(_, range) => range.len() as u64,
            Self::File(_, range) => range.end - range.start,
        }
    }
}

/// What a server serves: shared by its workers, and never changed.
#[derive(Debug)]
pub enum Site {
    /// One text, whatever is asked.
    Fixed(Fixed),
    /// A folder.
    Files(Files),
    /// The common contract of every target.
    Contract(Contract),
    /// The contract of the comparison of nine server cores.
    FortyTwo(FortyTwo),
    /// What was understood of each request.
    Echo(Echo),
    /// The server's own numbers, at `/metrics`.
    Metrics(Arc<Metrics>),
}

impl Site {
    /// Tells `metrics` from now on what it holds in memory. Only who is told first hears of it.
    pub(crate) fn tell(&self, metrics: &Metrics) {
        if let Some(files) = self.files() {
            files.tell(metrics.cache());
        }
    }

    const fn files(&self) -> Option<&Files> {
        match self {
            Self::Files(files) => Some(files),
            Self::Contract(contract) => contract.files(),
            Self::Fixed(_) | Self::FortyTwo(_) | Self::Echo(_) | Self::Metrics(_) => None,
        }
    }
}

/// A site as one worker serves it, with what that worker remembers for it.
#[derive(Debug)]
pub(crate) struct Service {
    site: Arc<Site>,
    /// What is known of the files that the site may have.
    known: Known,
}

impl Service {
    pub(crate) fn new(site: Arc<Site>, tally: Tally) -> Self {
        let known = site.files().map(|files| files.known(tally)).unwrap_or_default();
        Self { site, known }
    }

    /// What to answer to a request whose head was read from the front of `bytes`, at `now_ns` on the
    /// monotonic clock.
    #[inline]
    pub(crate) fn plan(&mut self, head: &Head, bytes: &[u8], now_ns: u64) -> Plan {
        let asked = || {
            let path_and_query = head.path_and_query(bytes);
            let (path, query) = path_and_query.split_at(path_of(path_and_query).len());
            Asked { head, bytes, path, query, now_ns }
        };
        match &*self.site {
            Site::Fixed(fixed) => fixed.plan(head.method),
            Site::Files(files) => files.plan(&mut self.known, &asked()),
            Site::Contract(contract) => contract.plan(&mut self.known, &asked()),
            Site::FortyTwo(_) => FortyTwo::plan(head.method, head.path_and_query(bytes)),
            Site::Echo(_) => Echo::plan(head, bytes),
            Site::Metrics(metrics) => {
                figures::plan(metrics, head.method, head.path_and_query(bytes))
            }
        }
    }

    /// A piece of the body of a request has come, for which `page` was planned. A page that wants none
    /// lets it go.
    pub(crate) fn take_body(&mut self, page: &mut Page, bytes: &[u8]) {
        if matches!(*self.site, Site::Echo(_)) {
            echo::take_body(page, bytes);
        }
    }

    /// The body is complete: `page` becomes what is to be answered.
    pub(crate) fn finish_body(&mut self, page: &mut Page) {
        if matches!(*self.site, Site::Echo(_)) {
            echo::finish(page);
        }
    }

    /// The bytes for a page that [`Service::plan`] has chosen.
    #[inline]
    pub(crate) fn reply<'a>(&'a self, page: &'a Page) -> Reply<'a> {
        match (&*self.site, page) {
            (Site::Files(files), Page::File(held, choice)) => {
                held.reply(*choice).unwrap_or(Reply::Whole(404, files.not_found()))
            }
            (_, Page::Made(made)) => Reply::Made(made),
            (Site::Fixed(fixed), _) => fixed.reply(),
            (Site::Files(files), Page::NotAllowed) => Reply::Whole(405, files.not_allowed()),
            (Site::Files(files), _) => Reply::Whole(404, files.not_found()),
            (Site::Contract(contract), page) => contract.reply(page),
            (Site::FortyTwo(forty_two), page) => forty_two.reply(page),
            (Site::Echo(echo), _) => echo.reply(),
            (Site::Metrics(_), _) => unreachable!("its pages are made"),
        }
    }

    /// Burns the planted time.
    #[inline]
    pub(crate) fn burn(&self) {
        let spin = match &*self.site {
            Site::Fixed(fixed) => fixed.spin(),
            Site::Contract(contract) => contract.spin(),
            Site::Files(_) | Site::FortyTwo(_) | Site::Echo(_) | Site::Metrics(_) => None,
        };
        if let Some(spin) = spin {
            spin.run();
        }
    }
}

/// The path of a path and query.
fn path_of(path_and_query: &[u8]) -> &[u8] {
    let end = path_and_query.iter().position(|&byte| byte == b'?');
    &path_and_query[..end.unwrap_or(path_and_query.len())]
}

fn plain(text: &str) -> Answer {
    Answer::new("Content-Type: text/plain\r\n", text.as_bytes())
}
