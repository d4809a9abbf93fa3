//! A server that burns a known share of each request's CPU time in `injected_burn`.
//!
//!     server PORT BURN_PERMILLE [ORDINARY_PERMILLE FILE]
//!
//! As server.c, with a thread for each connection. Its work has no calls that are inlined, since these would have its
//! time; to be compiled with optimisation, without which the multiplication panics.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::thread;

// The compiler makes several rounds one.
const UNITS: u64 = 2_400_000;
const LOGGED: u64 = 32;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

const MONOTONIC: i32 = 1;
const THREAD_CPUTIME: i32 = 3;

fn now_ns(clock: i32) -> i64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` outlives the call, which writes one `timespec` of two words there.
    unsafe { clock_gettime(clock, &raw mut time) };
    time.seconds * 1_000_000_000 + time.nanoseconds
}

#[inline(never)]
fn injected_burn(rounds: u64) -> u64 {
    let mut x = black_box(1_u64);
    let mut round = 0;
    while round < rounds {
        x = x * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407;
        round += 1;
    }
    x
}

#[inline(never)]
fn ordinary_work(rounds: u64) -> u64 {
    let mut x = black_box(2_u64);
    let mut round = 0;
    while round < rounds {
        x = x * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407;
        round += 1;
    }
    black_box(x) ^ 1
}

/// Requests and CPU time of all calls of `injected_burn`.
struct Truth {
    file: File,
    requests: u64,
    burnt_ns: i64,
}

fn work(burn: u64, ordinary: u64, truth: Option<&Mutex<Truth>>) {
    let start_ns = truth.map(|_| now_ns(THREAD_CPUTIME));
    black_box(injected_burn(UNITS / 1000 * burn));
    let burnt_ns = start_ns.map(|start_ns| now_ns(THREAD_CPUTIME) - start_ns);
    black_box(ordinary_work(UNITS / 1000 * ordinary));
    let (Some(truth), Some(burnt_ns)) = (truth, burnt_ns) else { return };
    let mut truth = truth.lock().expect("no thread panics");
    truth.requests += 1;
    truth.burnt_ns += burnt_ns;
    if truth.requests % LOGGED == 0 {
        let line = format!("{} {} {}\n", now_ns(MONOTONIC), truth.requests, truth.burnt_ns);
        truth.file.write_all(line.as_bytes()).expect("the file can be written");
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    let burn = number(2);
    let ordinary = if words.len() > 3 { number(3) } else { 1000 - burn };
    let file = words.get(4).map(|path| OpenOptions::new().append(true).create(true).open(path));
    let truth: Option<&'static Mutex<Truth>> = file.map(|file| {
        let truth = Truth { file: file.expect("it can be opened"), requests: 0, burnt_ns: 0 };
        &*Box::leak(Box::new(Mutex::new(truth)))
    });
    let listener = TcpListener::bind(format!("127.0.0.1:{}", words[1])).expect("a free port");
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        stream.set_nodelay(true).expect("a socket of TCP");
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                work(burn, ordinary, truth);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
                if stream.write_all(answer).is_err() {
                    break;
                }
            }
        });
    }
}
