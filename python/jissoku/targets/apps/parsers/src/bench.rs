//! The microbenchmark: nanoseconds per head, without sockets.
//!
//! Every round measures every parser on every shape, in another order each time; what is printed of a round
//! is the mean over enough repetitions to fill half a millisecond of this thread's CPU time. `alone` is
//! the parser by itself, `noted` includes what the server has to know of a request.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

use crate::parser::{Flow, HttpParser, Httparse, Jissoku, Llhttp, Parser, Pico};

const AT_LEAST_NS: i64 = 500_000;

macro_rules! shapes {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("../shapes/", $name, ".http")))),*]
    };
}

/// Requests as different clients send them (`shapes/`).
pub const SHAPES: [(&str, &str); 8] =
    shapes!("short", "curl", "wrk", "browser", "fields", "query", "api", "proxied");

/// What is printed.
#[derive(Clone, Copy)]
pub enum Form {
    Table,
    Figures,
}

/// One thing that is measured: a parser on a shape.
struct Subject {
    parser: &'static str,
    shape: &'static str,
    /// Nanoseconds for so many repetitions, of the parser alone and with its bookkeeping.
    alone: Box<dyn FnMut(u32) -> i64>,
    noted: Box<dyn FnMut(u32) -> i64>,
    repeats: u32,
    alone_ns: Vec<f64>,
    noted_ns: Vec<f64>,
}

/// Measures so many rounds; the text is a table of medians, or a figure in each line.
pub fn bench(rounds: usize, form: Form) -> Result<String, String> {
    let mut subjects: Vec<Subject> = SHAPES.iter().flat_map(|one| subjects(*one)).collect();
    for subject in &mut subjects {
        subject.check()?;
        while (subject.noted)(subject.repeats) < AT_LEAST_NS {
            subject.repeats *= 2;
        }
    }
    let count = subjects.len();
    for round in 0..rounds {
        // Every step coprime to 40 visits all of them, each round in another order.
        let step = [1, 3, 7, 9, 11, 13, 17, 19, 21, 23, 27, 29, 31, 33, 37, 39][round % 16];
        for place in 0..count {
            subjects[(place * step + round) % count].measure();
        }
    }
    Ok(match form {
        Form::Figures => figures(&subjects),
        Form::Table => table(&subjects),
    })
}

fn subjects((shape, text): (&'static str, &'static str)) -> [Subject; 5] {
    let text = text.replace("{PATH}", "/").replace("{HOST}", "127.0.0.1:8000");
    [
        subject::<HttpParser>("http-parser", shape, &text),
        subject::<Llhttp>("llhttp", shape, &text),
        subject::<Pico>("picohttpparser", shape, &text),
        subject::<Httparse>("httparse", shape, &text),
        subject::<Jissoku>("jissoku-http", shape, &text),
    ]
}

fn subject<P: Parser + 'static>(parser: &'static str, shape: &'static str, text: &str) -> Subject {
    let (head, again) = (text.as_bytes().to_vec(), text.as_bytes().to_vec());
    let (mut alone, mut noted) = (P::new(), P::new());
    Subject {
        parser,
        shape,
        alone: Box::new(move |repeats| {
            timed(repeats, || assert!(alone.alone(black_box(&head)), "it is a whole head"))
        }),
        noted: Box::new(move |repeats| {
            timed(repeats, || {
                let mut count = 0;
                let used = noted.feed(black_box(&again), 0, |request| {
                    count += 1;
                    black_box(request);
                    Flow::On
                });
                assert!(used == Ok(again.len()) && count == 1, "it is one request");
            })
        }),
        repeats: 64,
        alone_ns: Vec::new(),
        noted_ns: Vec::new(),
    }
}

#[inline]
fn timed(repeats: u32, mut once: impl FnMut()) -> i64 {
    let start_ns = cpu_ns();
    for _ in 0..repeats {
        once();
    }
    cpu_ns() - start_ns
}

/// This thread's own time: others may have the core in between.
fn cpu_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

impl Subject {
    fn check(&mut self) -> Result<(), String> {
        let spent = (self.alone)(1) + (self.noted)(1);
        if spent > 0 { Ok(()) } else { Err(String::from("the clock stands still")) }
    }

    fn measure(&mut self) {
        let per = |ns: i64, repeats: u32| ns as f64 / f64::from(repeats);
        self.alone_ns.push(per((self.alone)(self.repeats), self.repeats));
        self.noted_ns.push(per((self.noted)(self.repeats), self.repeats));
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// A line for each median: `http_parser_alone_curl 165.2`.
fn figures(subjects: &[Subject]) -> String {
    let mut text = String::new();
    for one in subjects {
        let parser = one.parser.replace('-', "_");
        for (kind, rounds) in [("alone", &one.alone_ns), ("noted", &one.noted_ns)] {
            text += &format!("{parser}_{kind}_{} {:.2}\n", one.shape, median(rounds));
        }
    }
    text
}

fn table(subjects: &[Subject]) -> String {
    let mut text = String::from(
        "Median nanoseconds per head: the parser alone, and with its bookkeeping.\n\n",
    );
    text += &format!("{:16}", "");
    for (shape, _) in SHAPES {
        text += &format!("{shape:>14}");
    }
    for parser in ["http-parser", "llhttp", "picohttpparser", "httparse", "jissoku-http"] {
        text += &format!("\n{parser:16}");
        for one in subjects.iter().filter(|one| one.parser == parser) {
            let (alone, noted) = (median(&one.alone_ns), median(&one.noted_ns));
            text += &format!("{:>14}", format!("{alone:.0} / {noted:.0}"));
        }
    }
    text + "\n"
}
