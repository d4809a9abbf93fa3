//! Running out of descriptors. It concerns the whole process, so this test has one of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use jissoku_os::clock;
use jissoku_os::driver::{
    Action, Backend, Driver, EventHandler, Listener, NewConnection, SendBuffer, Settings, Waker,
    Wakeup,
};
use jissoku_os::socket::{self, Endpoint, Sharing};
use rustix::process::{Resource, Rlimit, setrlimit};

struct Echo;

impl EventHandler for Echo {
    type Connection = ();

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    fn on_data(&mut self, (): &mut (), bytes: &[u8], output: &mut SendBuffer) -> Action {
        output.append(bytes);
        Action::Receive
    }

    fn on_eof(&mut self, (): &mut (), _: &mut SendBuffer) -> Action {
        Action::Receive
    }

    fn resume(&mut self, (): &mut (), _: usize, _: &mut SendBuffer) -> Action {
        Action::Receive
    }

    fn on_close(&mut self, (): ()) {}

    fn on_tick(&mut self, _: u64) {}

    fn deadline_ns(&mut self) -> Option<u64> {
        None
    }

    fn next_ready(&mut self) -> Option<Wakeup> {
        None
    }
}

fn echo(client: &mut TcpStream, driver: &mut Driver<Echo>) {
    client.write_all(b"x").expect("room to send");
    let mut byte = [0];
    for _ in 0..100 {
        driver.run_once(&mut Echo).expect("a turn succeeds");
        if client.read(&mut byte).is_ok() {
            assert_eq!(byte, *b"x");
            return;
        }
    }
    unreachable!("an answer comes");
}

#[test]
fn without_descriptors_other_connections_are_served_without_spinning() {
    let limit = Rlimit { current: Some(64), maximum: Some(64) };
    setrlimit(Resource::Nofile, limit).expect("a limit can be lowered");
    check(Backend::Epoll);
    if jissoku_os::uring::is_available() {
        check(Backend::Uring);
    } else {
        eprintln!("skipped: this kernel lacks io_uring, or keeps it from us");
    }
}

fn check(backend: Backend) {
    let listener =
        socket::bind_and_listen(&"127.0.0.1:0".parse().expect("an address"), Sharing::Alone);
    let listener = listener.expect("a place to listen");
    let Ok(Endpoint::Tcp(address)) = socket::local_endpoint(&listener) else {
        unreachable!("it listens on TCP")
    };
    let waker = Waker::new().expect("a waker");
    let settings = Settings { backend, ..Settings::default() };
    let driver = Driver::new(vec![Listener::PerWorker(listener)], waker, settings);
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
        driver.run_once(&mut Echo).expect("a turn succeeds");
    }
    // The first turn meets the shortage; each of the others waits out a pause.
    assert!(clock::monotonic_ns() - start_ns >= 200_000_000, "it spins");
    assert_eq!(driver.connections(), 1);
    echo(&mut early, &mut driver);

    drop(hoard);
    echo(&mut late, &mut driver);
    assert_eq!(driver.connections(), 2);
}
