//! Signals that are listened to for a while. Descriptors are the process's, so this test has one of
//! its own.

use jissoku_os::signal::{SIGHUP, SIGUSR1, Signals};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc can be read").count()
}

#[test]
fn listening_leaves_no_descriptor_behind() {
    drop(Signals::register(&[SIGHUP, SIGUSR1]).expect("signals can be caught"));
    let before = descriptors();
    for _ in 0..10 {
        drop(Signals::register(&[SIGHUP, SIGUSR1]).expect("signals can be caught"));
    }
    assert_eq!(descriptors(), before);
}
