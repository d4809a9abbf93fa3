//! Agreement with `httparse`, which others wrote: where both accept a head, they read the same.
//!
//! We refuse more than it does: it leaves framing and Host to its caller, and forgives bare LF.
//! Used by the tests here and by the fuzz targets.

use jissoku_http::Limits;
use jissoku_http::head::HeadReader;

/// Holds that our reading of `bytes` and that of httparse agree.
pub(crate) fn check(bytes: &[u8]) {
    let ours = HeadReader::default().read(bytes, &Limits::DEFAULT);
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut theirs = httparse::Request::new(&mut fields);
    let outcome = theirs.parse(bytes);
    match ours {
        // A later minor version is read as the latest we know (RFC 9110 section 2.5), and one that
        // is not whole is not judged; httparse refuses both.
        Ok(_) if outcome == Err(httparse::Error::Version) => {
            let place = bytes.windows(6).position(|part| part == b" HTTP/");
            let version = &bytes[place.expect("there is a version") + 6..];
            let is_known = version.starts_with(b"1.0") || version.starts_with(b"1.1");
            assert!(!is_known, "{:?}", String::from_utf8_lossy(bytes));
        }
        Ok(Some(head)) => {
            assert_eq!(outcome, Ok(httparse::Status::Complete(head.size as usize)));
            assert_eq!(theirs.method.map(str::as_bytes), Some(head.method_name.of(bytes)));
            assert_eq!(theirs.path.map(str::as_bytes), Some(head.target.of(bytes)));
            let theirs = theirs.headers.iter().map(|field| (field.name.as_bytes(), field.value));
            assert!(theirs.eq(head.fields(bytes)), "{:?}", String::from_utf8_lossy(bytes));
        }
        // Here we want more; it must not have refused, nor be done.
        Ok(None) => assert_eq!(outcome, Ok(httparse::Status::Partial)),
        Err(_) => {}
    }
}
