//! Sending a file to a peer that has gone. It concerns the whole process, so this test has one of
//! its own.

#![expect(unsafe_code, reason = "the test undoes what the standard library has done at its start")]

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;

use jissoku_os::file::File;
use jissoku_os::{signal, socket};

#[test]
fn a_peer_that_has_gone_is_an_error_and_not_the_end() {
    // SAFETY: to restore a signal's default installs no handler of ours.
    let _before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    signal::ignore_sigpipe();
    let file = File::open("/proc/self/exe".as_ref()).expect("this test is a file");
    let (near, far) = UnixStream::pair().expect("a pair can be had");
    drop(far);
    let error = socket::send_file(&near, &file, 0, 1).expect_err("the peer is closed");
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}
