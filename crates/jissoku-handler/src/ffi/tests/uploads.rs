//! Bodies by parts, and what is kept with a request.

use super::*;
use crate::exported::take_part;
use crate::{PartsHandler, Paused, Taken};

thread_local! {
    static DATA: Cell<(*mut c_void, Option<Release>)> = const { Cell::new((ptr::null_mut(), None)) };
}

pub(super) unsafe extern "C" fn set_data(
    _: *mut RawRequest,
    data: *mut c_void,
    release: Option<Release>,
) -> c_int {
    note("set data".to_owned());
    assert!(DATA.replace((data, release)).0.is_null(), "it is set once");
    DONE
}

pub(super) unsafe extern "C" fn data(_: *mut RawRequest) -> *mut c_void {
    DATA.get().0
}

pub(super) unsafe extern "C" fn pause_body(
    _: *mut RawRequest,
    ms: u32,
    function: Option<ResumeFunction>,
    argument: *mut c_void,
) -> u64 {
    note(format!("pause {ms} {}", function.is_none() && argument.is_null()));
    if ms == 0 { 0 } else { 42 }
}

pub(super) unsafe extern "C" fn resume_body(token: u64) -> c_int {
    note(format!("resume {token}"));
    DONE
}

/// What the server does when a request has ended.
fn end_request() {
    if let (data, Some(release)) = DATA.replace((ptr::null_mut(), None)) {
        // SAFETY: it is called once with its argument.
        unsafe { release(data) };
    }
}

/// Keeps the sizes of parts, and what says that it is there.
#[derive(Default)]
struct Sizes {
    sizes: Vec<usize>,
    flag: Option<Arc<()>>,
}

struct Uploads {
    flag: Arc<()>,
    paused: Vec<Paused>,
}

impl Handler for Uploads {
    fn start(_: Server) -> Result<Self, Box<dyn std::error::Error>> {
        Err("a test makes it".into())
    }

    fn handle<'r>(&mut self, request: Request<'r>) -> Response<'r> {
        assert!(request.take_upload::<String>().is_none(), "it is of another type");
        let sizes = request.take_upload::<Sizes>().map(|upload| upload.sizes);
        assert!(request.take_upload::<Sizes>().is_none(), "it is taken");
        Response::text(format!("{sizes:?}"))
    }
}

impl PartsHandler for Uploads {
    type Upload = Sizes;

    fn take_part<'r>(
        &mut self,
        request: Request<'r>,
        upload: &mut Sizes,
        part: &[u8],
    ) -> Taken<'r> {
        assert!(request.take_upload::<Sizes>().is_none(), "it is lent");
        upload.sizes.push(part.len());
        upload.flag.get_or_insert_with(|| Arc::clone(&self.flag));
        match part {
            b"panic" => panic!("as a test"),
            b"error" => return Taken::from(Err("as a test")),
            b"answer" => return Taken::Response(Response::new(413).body("too much")),
            _ => {}
        }
        let limit = if part == b"never" { Duration::ZERO } else { Duration::from_millis(5) };
        self.paused.extend(request.pause(limit));
        Taken::Next
    }
}

fn uploads() -> Uploads {
    Uploads { flag: Arc::new(()), paused: Vec::new() }
}

/// Passes parts as the server does, and returns what `jsk_body` returns for each.
fn take(handler: &mut Uploads, parts: &[&[u8]]) -> Vec<c_int> {
    let mut request = RawRequest { _private: [] };
    let take = |part: &&[u8]| {
        let part = Str::of(part);
        // SAFETY: both outlive the call.
        unsafe { handle(&API, &raw mut request, |call| take_part(handler, call, part)) }
    };
    parts.iter().map(take).collect()
}

#[test]
fn what_is_made_of_parts_is_kept_until_it_is_taken() {
    let mut handler = uploads();
    assert_eq!(take(&mut handler, &[b"a", b"bcd", b""]), [DONE; 3]);
    assert_eq!(call(&API, |request| handler.handle(request)), DONE);
    assert_eq!(call(&API, |request| handler.handle(request)), DONE);
    end_request();
    assert!(is_dropped(&handler.flag));
    let lines = called();
    let expected = ["set data", "pause 5 true", "pause 5 true", "pause 5 true"];
    assert_eq!(lines[..4], expected);
    assert_eq!((&*lines[5], &*lines[7]), ("200 Some([1, 3, 0])", "200 None"));
}

#[test]
fn what_is_kept_is_dropped_if_the_client_leaves() {
    let mut handler = uploads();
    assert_eq!(take(&mut handler, &[b"a"]), [DONE]);
    assert!(!is_dropped(&handler.flag));
    end_request();
    assert!(is_dropped(&handler.flag));
}

#[test]
fn a_body_that_is_paused_goes_on_when_that_is_dropped() {
    let mut handler = uploads();
    assert_eq!(take(&mut handler, &[b"a", b"never"]), [DONE; 2]);
    assert_eq!(handler.paused.len(), 1);
    handler.paused.pop().expect("it is there").resume();
    assert_eq!(called(), ["set data", "pause 5 true", "pause 0 true", "resume 42"]);
    end_request();
}

#[test]
fn a_part_may_be_answered_or_fail() {
    let mut handler = uploads();
    assert_eq!(take(&mut handler, &[b"answer", b"error", b"panic"]), [DONE, FAILED, PANICKED]);
    assert_eq!(called(), ["set data", "413 too much"]);
    // What a panic may have left half made is dropped.
    assert!(is_dropped(&handler.flag));
    end_request();
}

#[test]
fn an_older_server_keeps_nothing_and_does_not_pause() {
    let older = Api { size: offset_of!(Api, pause_body), ..API };
    let result = call(&older, |request| {
        assert!(request.pause(Duration::from_secs(1)).is_none());
        Response::new(200)
    });
    assert_eq!(result, DONE);
    let older = Api { size: offset_of!(Api, set_data), ..API };
    let mut request = RawRequest { _private: [] };
    let mut handler = uploads();
    // SAFETY: both outlive the call.
    let result = unsafe {
        handle(&raw const older, &raw mut request, |call| {
            take_part(&mut handler, call, Str::of(b"a"))
        })
    };
    assert_eq!(result, FAILED);
}
