//! Directories beside another service: paths below a prefix are files, all others are the
//! service's.

use std::io;
use std::sync::Arc;

use jissoku_os::driver::NewConnection;

use crate::files::{FileResponse, Files, FilesHandler};
use crate::handler::{
    AbandonReason, BodyFlow, EventLoop, Handler, Outbound, Progress, RequestHead, Service,
    WorkerInfo,
};
use crate::log::LogRecord;
use crate::metrics::Metrics;
use crate::response::Response;

/// A directory and the prefix of its paths.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Begins with a slash and does not end with one.
    pub prefix: String,
    /// The files.
    pub files: Arc<Files>,
}

/// A service with directories, which take precedence over it.
#[derive(Debug)]
pub struct WithFiles<S> {
    service: Arc<S>,
    /// The longest prefix first.
    mounts: Vec<Mount>,
}

impl<S: Service> WithFiles<S> {
    /// Of several prefixes of a path, the longest applies.
    #[must_use]
    pub fn new(service: S, mounts: &[Mount]) -> Self {
        let mut mounts = mounts.to_vec();
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.prefix.len()));
        Self { service: Arc::new(service), mounts }
    }
}

impl<S: Service> Service for WithFiles<S> {
    type Handler = WithFilesHandler<S::Handler>;

    fn handler(self: &Arc<Self>, worker: &WorkerInfo) -> io::Result<Self::Handler> {
        let mounted = |mount: &Mount| -> io::Result<(Box<[u8]>, FilesHandler)> {
            Ok((mount.prefix.as_bytes().into(), mount.files.handler(worker)?))
        };
        Ok(WithFilesHandler {
            inner: self.service.handler(worker)?,
            mounts: self.mounts.iter().map(mounted).collect::<io::Result<_>>()?,
        })
    }

    fn run_worker(&self, worker: &mut dyn FnMut()) {
        self.service.run_worker(worker);
    }

    fn report_to(&self, metrics: &Metrics) {
        self.service.report_to(metrics);
        for mount in &self.mounts {
            Service::report_to(&*mount.files, metrics);
        }
    }
}

/// Passes requests for files to their handlers, and all others on.
#[derive(Debug)]
pub struct WithFilesHandler<H> {
    inner: H,
    mounts: Vec<(Box<[u8]>, FilesHandler)>,
}

/// A request for a file of the mount with this index, or another one.
#[derive(Debug)]
pub enum MountedRequest<R> {
    /// A file.
    File(usize, FileResponse),
    /// A request of the other service.
    Other(R),
}

impl<H: Handler> Handler for WithFilesHandler<H> {
    type Connection = H::Connection;
    type Request = MountedRequest<H::Request>;

    fn on_open(&mut self, opened: &NewConnection<'_>) -> H::Connection {
        self.inner.on_open(opened)
    }

    #[inline]
    fn on_head(
        &mut self,
        connection: &mut H::Connection,
        head: &RequestHead<'_>,
    ) -> MountedRequest<H::Request> {
        let (whole, _) = head.path_and_query();
        for (index, (prefix, handler)) in self.mounts.iter_mut().enumerate() {
            let Some(path @ [b'/', ..]) = whole.strip_prefix(&**prefix) else { continue };
            return MountedRequest::File(index, handler.request(head, path));
        }
        MountedRequest::Other(self.inner.on_head(connection, head))
    }

    fn body_size_max(&self, request: &MountedRequest<H::Request>) -> Option<u64> {
        match request {
            MountedRequest::File(..) => None,
            MountedRequest::Other(request) => self.inner.body_size_max(request),
        }
    }

    fn body_flow(&self, request: &MountedRequest<H::Request>) -> BodyFlow {
        match request {
            MountedRequest::File(..) => BodyFlow::Ignored,
            MountedRequest::Other(request) => self.inner.body_flow(request),
        }
    }

    fn on_body(&mut self, request: &mut MountedRequest<H::Request>, part: &[u8]) {
        if let MountedRequest::Other(request) = request {
            self.inner.on_body(request, part);
        }
    }

    fn on_end(&mut self, request: &mut MountedRequest<H::Request>) {
        if let MountedRequest::Other(request) = request {
            self.inner.on_end(request);
        }
    }

    fn on_hangup(
        &mut self,
        connection: &mut H::Connection,
        request: &mut MountedRequest<H::Request>,
    ) {
        if let MountedRequest::Other(request) = request {
            self.inner.on_hangup(connection, request);
        }
    }

    #[inline]
    fn respond(
        &mut self,
        connection: &mut H::Connection,
        request: &mut MountedRequest<H::Request>,
        response: &mut Response<'_>,
    ) -> Progress {
        match request {
            MountedRequest::Other(request) => self.inner.respond(connection, request, response),
            MountedRequest::File(index, file) => {
                if let Some((_, handler)) = self.mounts.get(*index) {
                    handler.write(file, response);
                }
                Progress::Complete
            }
        }
    }

    fn on_abandon(
        &mut self,
        connection: &mut H::Connection,
        request: MountedRequest<H::Request>,
        reason: AbandonReason,
        log: &mut LogRecord<'_>,
    ) {
        if let MountedRequest::Other(request) = request {
            self.inner.on_abandon(connection, request, reason, log);
        }
    }

    fn outbound(&mut self) -> Option<&mut impl Outbound> {
        self.inner.outbound()
    }

    fn event_loop(&mut self) -> Option<&mut impl EventLoop> {
        self.inner.event_loop()
    }
}
