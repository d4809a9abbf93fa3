//! Static files, cached in memory and revalidated against the disk after a bounded time.
//!
//! A request path is looked up in the [`worker_cache`], then in the [`shared_cache`] of all
//! workers, then on disk ([`load`]). An entry is valid for [`Options::revalidate`] after it was
//! compared with the disk; within that time a request for a cached file needs no system call.

mod entry;
mod escape;
mod listing;
mod load;
mod mime;
mod negotiate;
mod path;
mod representation;
mod shared_cache;
mod worker_cache;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use jissoku_http::Method;
use jissoku_http::response::StaticResponse;
use jissoku_os::driver::NewConnection;
use jissoku_os::file::{LookupResult, RootPath, SymlinkPolicy};

use crate::handler::{BodyFlow, Handler, Progress, RequestHead, Service, WorkerInfo};
use crate::metrics::{Counter, Metrics, ShardHandle};
use crate::response::{DynamicResponse, Response};
use entry::{CacheEntry, CacheRef, EntryKind};
pub use jissoku_http::name_rule::{FieldRule, Rule};
use load::Loader;
pub use load::Options;
use negotiate::{FileRequest, ResponseKind};
use shared_cache::SharedCache;
use worker_cache::WorkerCache;

/// Serves a directory.
#[derive(Debug)]
pub struct Files {
    loader: Loader,
    store: SharedCache,
    revalidate_ns: u64,
    not_found_path: Option<Vec<u8>>,
    /// Whether responses other than of files have fields by name.
    has_fields: bool,
    not_found: StaticResponse,
    not_allowed: StaticResponse,
}

/// Serves a directory in one worker.
#[derive(Debug)]
pub struct FilesHandler {
    files: Arc<Files>,
    cache: WorkerCache,
}

/// The response to one request for a file.
#[derive(Debug)]
pub struct FileResponse(ResponseKind);

/// How often a lookup is repeated because another worker updated the entry, before the own result
/// is used.
const LOOKUPS_MAX: usize = 3;

/// The path of the page that is served for paths that name no file.
const SPA_PATH: &[u8] = b"/";

const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";

impl Files {
    /// Opens `root` for serving: a directory, or a file, which is served at `/` and by its name.
    ///
    /// # Errors
    /// It cannot be read, or the 404 page or that of an application does not exist: one sentence.
    pub fn open(root: &Path, options: Options) -> Result<Self, String> {
        let (folder, file) = open_root(root, options.links)
            .map_err(|error| format!("cannot read {}: {error}", root.display()))?;
        let is_spa = options.is_spa;
        let files = Self {
            store: SharedCache::new(options.cache_size),
            revalidate_ns: u64::try_from(options.revalidate.as_nanos()).unwrap_or(u64::MAX),
            not_found_path: options.not_found.as_deref().map(escape::path),
            has_fields: !options.fields.is_empty(),
            not_found: StaticResponse::new(
                &format!("{}Content-Type: text/plain\r\n", vary(is_spa)),
                b"Not Found\n",
            ),
            not_allowed: StaticResponse::new(
                &format!("{ALLOW}Content-Type: text/plain\r\n"),
                b"Method Not Allowed\n",
            ),
            loader: Loader::new(folder, file, options),
        };
        let has_page = |path| files.page_entry(path, &ShardHandle::default(), 0).is_some();
        if is_spa && !has_page(SPA_PATH) {
            return Err(format!("--spa needs {}", root.join("index.html").display()));
        }
        match &files.not_found_path {
            Some(path) if !has_page(path) => {
                let page = String::from_utf8_lossy(path);
                Err(format!("the page for --not-found does not exist: {page}"))
            }
            _ => Ok(files),
        }
    }

    #[inline]
    fn respond_to(&self, cache: &mut WorkerCache, request: &FileRequest<'_>) -> ResponseKind {
        match request.head.method() {
            Method::Get | Method::Head => self.get(cache, request),
            Method::Options => {
                let fields = format!("{ALLOW}{}", self.fields_of_error(request.path));
                ResponseKind::Dynamic(Box::new(DynamicResponse::without_body(
                    204,
                    fields.as_bytes(),
                )))
            }
            _ if self.has_fields => {
                let fields = format!("{ALLOW}{}", self.fields_of_error(request.path));
                let body = b"Method Not Allowed\n";
                ResponseKind::Dynamic(Box::new(DynamicResponse::text(405, &fields, body)))
            }
            _ => ResponseKind::NotAllowed,
        }
    }

    /// The response to a GET or HEAD.
    #[inline]
    fn get(&self, cache: &mut WorkerCache, request: &FileRequest<'_>) -> ResponseKind {
        match cache.find(request.path, request.head.now_ns, self.revalidate_ns) {
            Some(cached) => {
                cache.shard_handle.add(Counter::CacheHits, 1);
                self.show(cached, cache, request)
            }
            None => self.find(cache, request),
        }
    }

    #[inline]
    fn show(
        &self,
        cached: Arc<CacheRef>,
        cache: &mut WorkerCache,
        request: &FileRequest<'_>,
    ) -> ResponseKind {
        match negotiate::response(cached, request) {
            Some(response) => response,
            None => self.missing(cache, request),
        }
    }

    /// The response for a path that names no file.
    #[cold]
    fn missing(&self, cache: &mut WorkerCache, request: &FileRequest<'_>) -> ResponseKind {
        if self.loader.is_spa() && negotiate::takes_page(request) {
            let page = self.cached_page(SPA_PATH, cache, request.head.now_ns);
            if let Some(response) = page.and_then(|page| negotiate::response(page, request)) {
                return response;
            }
        }
        self.not_found_kind(cache, request)
    }

    /// The header lines of an error for `path`.
    fn fields_of_error(&self, path: &[u8]) -> String {
        if !self.has_fields {
            return String::new();
        }
        self.loader.fields_of_error(&path::resolve(path).unwrap_or_else(|| path.into()))
    }

    /// The response for a path that is not in the worker cache, or no longer valid.
    #[cold]
    fn find(&self, cache: &mut WorkerCache, request: &FileRequest<'_>) -> ResponseKind {
        match self.entry(request.path, &cache.shard_handle, request.head.now_ns) {
            CacheLookup::Found(entry) => {
                let cached = cache.keep(request.path, entry, self.store.share_per_worker());
                self.show(cached, cache, request)
            }
            CacheLookup::Nothing if self.loader.lacks(request.path) => self.missing(cache, request),
            CacheLookup::Nothing => self.not_found_kind(cache, request),
            // The file changes faster than it can be read, or resources are exhausted.
            CacheLookup::Busy => ResponseKind::Dynamic(Box::new(DynamicResponse::text(
                503,
                "Retry-After: 1\r\n",
                b"Service Unavailable\n",
            ))),
        }
    }

    /// A valid entry for `path` at `now_ns`.
    fn entry(&self, path: &[u8], shard_handle: &ShardHandle, now_ns: u64) -> CacheLookup {
        let Some(name) = path::resolve(path).and_then(|name| self.loader.visible(name)) else {
            return CacheLookup::Nothing;
        };
        let is_fresh = |entry: &Arc<CacheEntry>| entry.is_fresh(now_ns, self.revalidate_ns);
        let mut looked = None;
        for _ in 0..LOOKUPS_MAX {
            let kept = self.store.find(&name);
            if let Some(entry) = kept.as_ref().filter(|entry| is_fresh(entry)) {
                shard_handle.add(Counter::CacheHits, 1);
                return CacheLookup::Found(Arc::clone(entry));
            }
            let Ok(Some(entry)) = self.loader.load(&name, kept.clone(), now_ns) else { break };
            shard_handle.add(entry.lookup_counter(kept.as_ref()), 1);
            let (current, evicted) = self.store.keep(&name, Arc::clone(&entry), kept.as_ref());
            shard_handle.add(Counter::CacheEvictions, evicted);
            if Arc::ptr_eq(&current, &entry) || is_fresh(&current) {
                return CacheLookup::Found(current);
            }
            looked = Some(entry);
        }
        looked.map_or(CacheLookup::Busy, CacheLookup::Found)
    }

    #[cold]
    fn not_found_kind(&self, cache: &mut WorkerCache, request: &FileRequest<'_>) -> ResponseKind {
        let fields =
            format!("{}{}", vary(self.loader.is_spa()), self.fields_of_error(request.path));
        let page = self.not_found_path.as_deref();
        let cached = page.and_then(|path| self.cached_page(path, cache, request.head.now_ns));
        let response = match cached.as_ref().map(|cached| &cached.entry().what) {
            Some(EntryKind::Variants(variants)) => {
                let representation = &variants.plain;
                let fields = format!("{}{fields}", representation.content_fields());
                let body = vec![representation.part(0..representation.size)];
                DynamicResponse::new(404, &fields, body)
            }
            // There is no 404 page, or it has been removed.
            _ if self.has_fields => DynamicResponse::text(404, &fields, b"Not Found\n"),
            _ => return ResponseKind::NotFound,
        };
        ResponseKind::Dynamic(Box::new(response))
    }

    /// A page that is served for other paths than its own; `None` if it has been removed.
    fn cached_page(
        &self,
        path: &[u8],
        cache: &mut WorkerCache,
        now_ns: u64,
    ) -> Option<Arc<CacheRef>> {
        cache.find(path, now_ns, self.revalidate_ns).or_else(|| {
            let entry = self.page_entry(path, &cache.shard_handle, now_ns)?;
            Some(cache.keep(path, entry, self.store.share_per_worker()))
        })
    }

    fn page_entry(
        &self,
        path: &[u8],
        shard_handle: &ShardHandle,
        now_ns: u64,
    ) -> Option<Arc<CacheEntry>> {
        match self.entry(path, shard_handle, now_ns) {
            CacheLookup::Found(entry) if matches!(entry.what, EntryKind::Variants(_)) => {
                Some(entry)
            }
            _ => None,
        }
    }
}

impl Service for Files {
    type Handler = FilesHandler;

    fn handler(self: &Arc<Self>, worker: &WorkerInfo) -> io::Result<FilesHandler> {
        self.store.add_worker();
        let cache = WorkerCache::counted(worker.counters.clone());
        Ok(FilesHandler { files: Arc::clone(self), cache })
    }

    fn report_to(&self, metrics: &Metrics) {
        self.store.report_to(metrics.cache());
    }
}

impl Drop for FilesHandler {
    fn drop(&mut self) {
        self.files.store.remove_worker();
    }
}

impl FilesHandler {
    /// The response to a GET or HEAD for `path`, which replaces that of the request.
    pub fn get(&mut self, head: &RequestHead<'_>, path: &[u8]) -> FileResponse {
        let request = FileRequest { head, path, query: head.path_and_query().1 };
        FileResponse(self.files.get(&mut self.cache, &request))
    }

    /// The response to a request whose path is replaced by `path`.
    #[inline]
    pub fn respond_to(&mut self, head: &RequestHead<'_>, path: &[u8]) -> FileResponse {
        let request = FileRequest { head, path, query: head.path_and_query().1 };
        FileResponse(self.files.respond_to(&mut self.cache, &request))
    }

    /// Writes a response.
    #[inline]
    pub fn write(&self, file: &FileResponse, response: &mut Response<'_>) {
        match &file.0 {
            ResponseKind::Cached(cached, variant) => cached.write(*variant, response),
            ResponseKind::NotFound => response.send(404, &self.files.not_found),
            ResponseKind::NotAllowed => response.send(405, &self.files.not_allowed),
            ResponseKind::Dynamic(dynamic) => response.send_dynamic(dynamic),
        }
    }
}

impl Handler for FilesHandler {
    type Connection = ();
    type Request = FileResponse;

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    #[inline]
    fn on_head(&mut self, (): &mut (), head: &RequestHead<'_>) -> FileResponse {
        self.respond_to(head, head.path_and_query().0)
    }

    fn body_flow(&self, _: &FileResponse) -> BodyFlow {
        BodyFlow::Ignored
    }

    #[inline]
    fn respond(
        &mut self,
        (): &mut (),
        request: &mut FileResponse,
        response: &mut Response<'_>,
    ) -> Progress {
        self.write(request, response);
        Progress::Complete
    }
}

/// The directory to serve, and the only file of it if `root` is a file. A link to a file elsewhere is
/// followed at the start.
fn open_root(root: &Path, links: SymlinkPolicy) -> io::Result<(RootPath, Option<Vec<u8>>)> {
    if !root.is_file() {
        return Ok((RootPath::open(root)?, None));
    }
    let parts = |path: &Path| -> io::Result<(RootPath, Vec<u8>)> {
        let path = std::path::absolute(path)?;
        let (folder, name) = (path.parent(), path.file_name());
        let folder = RootPath::open(folder.unwrap_or_else(|| Path::new("/")))?;
        Ok((folder, name.unwrap_or_default().as_bytes().to_vec()))
    };
    let (mut folder, mut name) = parts(root)?;
    let found = match folder.root()? {
        Some(above) => above.lookup(Path::new(OsStr::from_bytes(&name)), links)?,
        None => LookupResult::Nothing,
    };
    match found {
        LookupResult::File(_) => {}
        LookupResult::Forbidden => return Err(io::ErrorKind::PermissionDenied.into()),
        LookupResult::Dir(_) | LookupResult::Nothing => {
            (folder, name) = parts(&root.canonicalize()?)?;
        }
    }
    Ok((folder, Some([b"/", &*name].concat())))
}

/// Vary of a 404 of an application's directory.
const fn vary(is_spa: bool) -> &'static str {
    if is_spa { "Vary: Accept\r\n" } else { "" }
}

enum CacheLookup {
    Found(Arc<CacheEntry>),
    /// An invalid or hidden path.
    Nothing,
    /// The file cannot be read now.
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_replaces_another_gets_its_share_of_the_cache() {
        let files = Files::open(&std::env::temp_dir(), Options::default()).expect("it can be read");
        let files = Arc::new(files);
        let worker = || {
            let info = WorkerInfo { index: 0, parent: None, counters: ShardHandle::default() };
            files.handler(&info).expect("a handler")
        };
        let kept = worker();
        let share = files.store.share_per_worker();
        for _ in 0..10 {
            let replaced = worker();
            assert_eq!(files.store.share_per_worker(), share / 2);
            drop(replaced);
        }
        assert_eq!(files.store.share_per_worker(), share);
        drop(kept);
    }
}
