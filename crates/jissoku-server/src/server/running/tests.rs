use std::sync::mpsc;
use std::thread;

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

/// As after a failure of the thread that watches the workers.
#[test]
fn a_server_that_is_dropped_stops_workers_on_a_thread_of_the_program() {
    let (sender, queue) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let program = thread::spawn(move || queue.into_iter().for_each(|work| work()));
    let run_there = Arc::new(move |work| sender.send(work).expect("the program runs"));
    let service = AnyService::from(Fixed::new("")).on_thread(run_there);
    let settings = Settings::new("127.0.0.1:0".parse().expect("an address"));
    let server = Server::listen(Settings { workers: 1, ..settings }).expect("a listener");
    drop(server.start(service).expect("it starts"));
    program.join().expect("its worker ends");
}
