//! What is served: a request goes in as a head, and a [`Plan`] comes out.
//!
//! Planning is separate from answering, because the head's bytes are gone when a body or a delay is over.

mod contract;
mod files;
mod fixed;
mod path;

use std::sync::Arc;

use jissoku_http::response::Answer;
use jissoku_http::{Head, Method};

pub use contract::Contract;
pub use files::{Files, FilesError};
pub use fixed::Fixed;

/// What one request will be answered with, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// The one text of a fixed site, or the greeting of the contract.
    Text,
    /// The exact bytes of the nine-cores contract.
    FortyTwo,
    /// A file, by its number.
    File(u32),
    /// The way to a folder's proper name, by its number.
    Moved(u32),
    /// The request makes no sense to this site.
    BadRequest,
    /// There is nothing of that name.
    NotFound,
    /// There is, but not for this method.
    NotAllowed,
}

/// The bytes of an answer, but for what changes from one to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply<'a> {
    /// A status, header lines, and a body that follows them.
    Whole(u16, &'a Answer),
    /// A status, header lines, and a body that is sent from where it is.
    Split(u16, &'a Answer, &'a Arc<[u8]>),
    /// Everything, once for a connection that lives on and once for one that ends.
    Verbatim { lives: &'a Answer, ends: &'a Answer },
}

/// What a server serves.
#[derive(Debug)]
pub enum Site {
    /// One text, whatever is asked.
    Fixed(Fixed),
    /// A folder.
    Files(Files),
    /// The common contract of every target.
    Contract(Contract),
}

impl Site {
    #[inline]
    pub(crate) fn plan(&self, head: &Head, bytes: &[u8]) -> Plan {
        match self {
            Self::Fixed(fixed) => fixed.plan(head.method),
            Self::Files(files) => files.plan(head.method, path_of(head.path_and_query(bytes))),
            Self::Contract(contract) => contract.plan(head.method, head.path_and_query(bytes)),
        }
    }

    /// The bytes for a page that [`Site::plan`] has chosen.
    #[inline]
    pub(crate) fn reply(&self, page: Page) -> Reply<'_> {
        match self {
            Self::Fixed(fixed) => fixed.reply(),
            Self::Files(files) => files.reply(page),
            Self::Contract(contract) => contract.reply(page),
        }
    }

    /// Burns the planted time.
    #[inline]
    pub(crate) fn burn(&self) {
        let spin = match self {
            Self::Fixed(fixed) => fixed.spin(),
            Self::Contract(contract) => contract.spin(),
            Self::Files(_) => None,
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
