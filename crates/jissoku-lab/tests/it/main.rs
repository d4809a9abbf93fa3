//! The servers of the laboratory, over real sockets.

mod faults;
mod floor;
mod forwarder;
mod oracle;
mod uwsgi_forwarder;

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use jissoku_lab::floor::{Bound, bind};
use jissoku_os::socket::Endpoint;

/// Runs `test` while `work` is done at `endpoint`.
fn with_floor(
    endpoint: &str,
    workers: usize,
    work: impl FnOnce(Bound, BorrowedFd<'_>) -> io::Result<()> + Send + 'static,
    test: impl FnOnce(&Endpoint),
) {
    let endpoint = endpoint.parse().expect("it is an endpoint");
    let bound = bind(&[endpoint], workers).expect("it can be listened on");
    let place = bound.endpoints()[0].clone();
    let (interrupt, bell) = UnixStream::pair().expect("a pair can be had");
    let serving = thread::spawn(move || work(bound, interrupt.as_fd()));
    test(&place);
    drop(bell);
    serving.join().expect("it does not panic").expect("it ends well");
}

fn connect(endpoint: &Endpoint) -> TcpStream {
    let Endpoint::Tcp(address) = endpoint else { unreachable!("the test asked for TCP") };
    TcpStream::connect(address).expect("it listens")
}
