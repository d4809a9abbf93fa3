//! Workers that come and go.

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
