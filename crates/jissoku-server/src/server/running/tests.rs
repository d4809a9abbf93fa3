use super::*;
use crate::fixed::Fixed;
use crate::server::Server;

#[test]
fn a_worker_that_was_lost_before_a_reload_is_not_replaced_after_it() {
    let two = Settings { workers: 2, ..Settings::new("127.0.0.1:0".parse().expect("an address")) };
    let server = Server::listen(two.clone()).expect("a listener");
    let mut running = server.start(Fixed::new("")).expect("it starts");
    running.restarts.add(1, "on purpose".to_owned(), 0);
    let one = Settings { workers: 1, ..two };
    running.reload(&one, Fixed::new(""), None).expect("it reloads");
    let event = running.replace_lost(1, None).expect("nothing is to be done");
    assert!(event.is_none(), "{event:?}");
    running.stop().expect("its workers are woken");
    running.join().expect("its workers end");
}
