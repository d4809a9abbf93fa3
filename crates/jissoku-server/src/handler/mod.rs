//! Request handlers: from the head of a request to a [`ResponsePlan`].
//!
//! Planning is separate from responding, because the bytes of the head are gone after a body or a
//! delay.

mod contract;
mod echo;
mod files;
mod fixed;
mod forty_two;
mod metrics_page;
mod path;

use std::ops::Range;
use std::sync::Arc;

use jissoku_http::response::StaticResponse;
use jissoku_http::{Head, Method};
use jissoku_os::driver::SendBuffer;
use jissoku_os::file::File;

pub use contract::Contract;
pub use echo::Echo;
use files::{CacheRef, FileRequest, Variant, WorkerCache};
pub use files::{Files, FilesError, Options, Rule};
pub use fixed::Fixed;
pub use forty_two::FortyTwo;

use crate::metrics::{Metrics, ShardHandle};

/// The response to one request, and when it is due.
#[derive(Debug)]
pub(crate) struct ResponsePlan {
    pub(crate) kind: ResponseKind,
    /// Delay after the arrival of the request.
    pub(crate) delay_ns: u64,
    /// Whether the injected busy loop runs before it.
    pub(crate) is_busy: bool,
    /// Whether the request is a HEAD.
    pub(crate) is_head_only: bool,
}

impl ResponsePlan {
    pub(crate) fn new(kind: ResponseKind, method: Method) -> Self {
        Self { kind, delay_ns: 0, is_busy: false, is_head_only: method == Method::Head }
    }
}

/// The kind of a response.
#[derive(Debug)]
pub(crate) enum ResponseKind {
    /// The one text of a fixed site, or the greeting of the contract.
    Text,
    /// The exact bytes of the nine-cores contract.
    FortyTwo,
    /// A cached file, listing, redirect or error of a directory.
    File(Arc<CacheRef>, Variant),
    /// 400.
    BadRequest,
    /// 404.
    NotFound,
    /// 405.
    NotAllowed,
    /// A response created for this request.
    Dynamic(Box<DynamicResponse>),
    /// A response that is created when the request body is complete.
    Collect(Box<echo::Collect>),
}

/// A response created for one request.
#[derive(Debug)]
pub(crate) struct DynamicResponse {
    pub(crate) status: u16,
    /// Header lines, each with its CRLF, and the empty line.
    pub(crate) head: Vec<u8>,
    pub(crate) body: ResponseBody,
}

/// The body of a [`DynamicResponse`], in parts.
#[derive(Debug, Default)]
pub(crate) struct ResponseBody {
    pub(crate) parts: Vec<BodyPart>,
}

/// A part of a body, in memory or in a file.
#[derive(Debug)]
pub(crate) enum BodyPart {
    Bytes(Vec<u8>),
    Shared(Arc<[u8]>, Range<usize>),
    File(Arc<File>, Range<u64>),
}

impl DynamicResponse {
    /// Appends the body to `output`.
    pub(crate) fn write_body(&self, output: &mut SendBuffer) {
        for part in &self.body.parts {
            match part {
                BodyPart::Bytes(bytes) => output.append(bytes),
                BodyPart::Shared(bytes, range) => {
                    output.share_part(Arc::clone(bytes), range.clone());
                }
                BodyPart::File(file, range) => output.file(Arc::clone(file), range.clone()),
            }
        }
    }
}

/// The bytes of a response without status line, Date and Connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResponseRef<'a> {
    /// A status, header lines, and a body that follows them.
    Whole(u16, &'a StaticResponse),
    /// A status, header lines, and a body that is shared.
    Split(u16, &'a StaticResponse, &'a Arc<[u8]>),
    /// A status, header lines, and a file that is sent with `sendfile(2)`.
    File(u16, &'a StaticResponse, &'a Arc<File>),
    /// A complete response, for a connection that is kept and for one that is closed.
    Verbatim { keep_alive: &'a StaticResponse, close: &'a StaticResponse },
    /// A response created for this request.
    Dynamic(&'a DynamicResponse),
}

impl ResponseRef<'_> {
    /// The status.
    pub(crate) const fn status(&self) -> u16 {
        match self {
            Self::Whole(status, _) | Self::Split(status, ..) | Self::File(status, ..) => *status,
            // The only verbatim response.
            Self::Verbatim { .. } => 200,
            Self::Dynamic(made) => made.status,
        }
    }

    /// Size of the body, also for HEAD.
    pub(crate) fn body_size(&self) -> u64 {
        match self {
            Self::Whole(_, answer) | Self::Verbatim { keep_alive: answer, .. } => {
                answer.body_size()
            }
            Self::Split(_, _, body) => body.len() as u64,
            Self::File(_, _, file) => file.stamp().size,
            Self::Dynamic(made) => made.body.parts.iter().map(BodyPart::size).sum(),
        }
    }
}

impl BodyPart {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Shared(_, range) => range.len() as u64,
            Self::File(_, range) => range.end - range.start,
        }
    }
}

/// The content of a server: shared by its workers and immutable.
#[derive(Debug)]
pub enum Content {
    /// One text for every request.
    Fixed(Fixed),
    /// A directory.
    Files(Files),
    /// The contract of all benchmark targets.
    Contract(Contract),
    /// The contract of the comparison of nine server cores.
    FortyTwo(FortyTwo),
    /// The parsed request.
    Echo(Echo),
    /// The server's metrics, at `/metrics`.
    Metrics(Arc<Metrics>),
}

impl Content {
    /// Reports the size of its cache to `metrics` from now on. Only the first call has an effect.
    pub(crate) fn report_to(&self, metrics: &Metrics) {
        if let Some(files) = self.files() {
            files.report_to(metrics.cache());
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

/// The content as served by one worker, with its cache.
#[derive(Debug)]
pub(crate) struct WorkerSite {
    site: Arc<Content>,
    /// Cached files of the content, if it has any.
    cache: WorkerCache,
}

impl WorkerSite {
    pub(crate) fn new(site: Arc<Content>, shard_handle: ShardHandle) -> Self {
        let cache = site.files().map(|files| files.worker_cache(shard_handle)).unwrap_or_default();
        Self { site, cache }
    }

    /// Plans the response to a request whose head is at the front of `bytes`; `now_ns` is monotonic
    /// time.
    #[inline]
    pub(crate) fn plan(&mut self, head: &Head, bytes: &[u8], now_ns: u64) -> ResponsePlan {
        let request = || {
            let path_and_query = head.path_and_query(bytes);
            let (path, query) = path_and_query.split_at(path_of(path_and_query).len());
            FileRequest { head, bytes, path, query, now_ns }
        };
        match &*self.site {
            Content::Fixed(fixed) => fixed.plan(head.method),
            Content::Files(files) => files.plan(&mut self.cache, &request()),
            Content::Contract(contract) => contract.plan(&mut self.cache, &request()),
            Content::FortyTwo(_) => FortyTwo::plan(head.method, head.path_and_query(bytes)),
            Content::Echo(_) => Echo::plan(head, bytes),
            Content::Metrics(metrics) => {
                metrics_page::plan(metrics, head.method, head.path_and_query(bytes))
            }
        }
    }

    /// Processes a part of the request body. Most kinds of responses ignore it.
    pub(crate) fn take_body(&mut self, page: &mut ResponseKind, bytes: &[u8]) {
        if matches!(*self.site, Content::Echo(_)) {
            echo::take_body(page, bytes);
        }
    }

    /// The request body is complete: `page` becomes the response.
    pub(crate) fn finish_body(&mut self, page: &mut ResponseKind) {
        if matches!(*self.site, Content::Echo(_)) {
            echo::finish(page);
        }
    }

    /// The bytes of a response planned by [`WorkerSite::plan`].
    #[inline]
    pub(crate) fn reply<'a>(&'a self, page: &'a ResponseKind) -> ResponseRef<'a> {
        match (&*self.site, page) {
            (Content::Files(files), ResponseKind::File(cached, choice)) => {
                cached.reply(*choice).unwrap_or(ResponseRef::Whole(404, files.not_found()))
            }
            (_, ResponseKind::Dynamic(made)) => ResponseRef::Dynamic(made),
            (Content::Fixed(fixed), _) => fixed.reply(),
            (Content::Files(files), ResponseKind::NotAllowed) => {
                ResponseRef::Whole(405, files.not_allowed())
            }
            (Content::Files(files), _) => ResponseRef::Whole(404, files.not_found()),
            (Content::Contract(contract), page) => contract.reply(page),
            (Content::FortyTwo(forty_two), page) => forty_two.reply(page),
            (Content::Echo(echo), _) => echo.reply(),
            (Content::Metrics(_), _) => unreachable!("its pages are made"),
        }
    }

    /// Runs the injected busy loop.
    #[inline]
    pub(crate) fn busy_wait(&self) {
        let busy_loop = match &*self.site {
            Content::Fixed(fixed) => fixed.busy_loop(),
            Content::Contract(contract) => contract.busy_loop(),
            Content::Files(_) | Content::FortyTwo(_) | Content::Echo(_) | Content::Metrics(_) => {
                None
            }
        };
        if let Some(busy_loop) = busy_loop {
            busy_loop.run();
        }
    }
}

/// The path of a path and query.
fn path_of(path_and_query: &[u8]) -> &[u8] {
    let end = path_and_query.iter().position(|&byte| byte == b'?');
    &path_and_query[..end.unwrap_or(path_and_query.len())]
}

fn plain(text: &str) -> StaticResponse {
    StaticResponse::new("Content-Type: text/plain\r\n", text.as_bytes())
}
