//! Running out of descriptors. It concerns the whole process, so this test has one of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use jissoku_os::clock;
use jissoku_os::driver::{
    Arrival, Choice, Driver, Due, Handler, Listener, Next, Output, Settings, Waker,
};
use jissoku_os::socket::{self, Endpoint, Sharing};
use rustix::process::{Resource, Rlimit, setrlimit};

struct Echo;

impl Handler for Echo {
    type Connection = ();

    fn open(&mut self, _: &Arrival<'_>) {}

    fn receive(&mut self, (): &mut (), bytes: &[u8], output: &mut Output) -> Next {
        output.append(bytes);
        Next::Receive
    }

    fn end(&mut self, (): &mut (), _: &mut Output) -> Next {
        Next::Receive
    }

    fn proceed(&mut self, (): &mut (), _: usize, _: &mut Output) -> Next {
        Next::Receive
    }

    fn close(&mut self, (): ()) {}

    fn wake(&mut self, _: u64) {}

    fn deadline_ns(&self) -> Option<u64> {
        None
    }

    fn due(&mut self) -> Option<Due> {
        None
    }
}

fn echo(client: &mut TcpStream, driver: &mut Driver<Echo>) {
    client.write_all(b"x").expect("room to send");
    let mut byte = [0];
    for _ in 0..100 {
        driver.turn(&mut Echo).expect("a turn succeeds");
        if client.read(&mut byte).is_ok() {
            assert_eq!(byte, *b"x");
            return;
        }
    }
    unreachable!("an answer comes");
}

#[test]
fn without_descriptors_others_are_served_and_nobody_spins() {
    let limit = Rlimit { current: Some(64), maximum: Some(64) };
    setrlimit(Resource::Nofile, limit).expect("a limit can be lowered");
    check(Choice::Epoll);
    if jissoku_os::uring::is_available() {
        check(Choice::Uring);
    } else {
        eprintln!("skipped: this kernel lacks io_uring, or keeps it from us");
    }
}

fn check(choice: Choice) {
    let listener = socket::listen(&"127.0.0.1:0".parse().expect("an address"), Sharing::Alone);
    let listener = listener.expect("a place to listen");
    let Ok(Endpoint::Tcp(address)) = socket::local_endpoint(&listener) else {
        unreachable!("it listens on TCP")
    };
    let waker = Waker::new().expect("a waker");
    let settings = Settings { choice, ..Settings::default() };
    let driver = Driver::new(vec![Listener::Own(listener)], waker, settings);
    let mut driver = driver.expect("a driver");
    let connect = || {
        let client = TcpStream::connect(address).expect("the kernel accepts");
        client.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket has options");
        client
    };

    let mut early = connect();
    echo(&mut early, &mut driver);
    let mut late = connect();
    let mut hoard = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        hoard.push(file);
    }

    let start_ns = clock::monotonic_ns();
    for _ in 0..6 {
        driver.turn(&mut Echo).expect("a turn succeeds");
    }
    // The first turn meets the shortage; each of the others waits out a pause.
    assert!(clock::monotonic_ns() - start_ns >= 200_000_000, "it spins");
    assert_eq!(driver.connections(), 1);
    echo(&mut early, &mut driver);

    drop(hoard);
    echo(&mut late, &mut driver);
    assert_eq!(driver.connections(), 2);
}
