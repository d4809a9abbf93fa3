//! Recorded arrivals: the send time of each request, from a file.
//!
//! One time per line, in seconds since the start: a decimal number without a sign, with at most
//! nine digits after the point. Lines that are blank or begin with # are comments. Times must not
//! decrease.

use std::sync::Arc;

use crate::plan::invalid::Invalid;

/// Digits after the point; times are in nanoseconds.
const DIGITS_MAX: usize = 9;

/// Bytes of an invalid line shown in the message.
const SHOWN_MAX: usize = 40;

/// The send time of each request, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    name: String,
    due_ns: Arc<[u64]>,
}

impl Trace {
    /// Parses a trace; `name` identifies it in messages and reports.
    ///
    /// # Errors
    /// The first invalid line, and the expected format.
    pub fn read(name: &str, text: &[u8]) -> Result<Self, Invalid> {
        let mut due_ns: Vec<u64> = Vec::new();
        for (number, line) in (1_u64..).zip(text.split(|&byte| byte == b'\n')) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let shown = String::from_utf8_lossy(&line[..line.len().min(SHOWN_MAX)]);
            let Some(time_ns) = time_ns(line) else {
                return Err(Invalid(format!(
                    "{name}, line {number}: invalid time {shown:?}: write seconds since the start, such as \
                     0.25, with at most {DIGITS_MAX} digits after the point"
                )));
            };
            if due_ns.last().is_some_and(|&last_ns| time_ns < last_ns) {
                return Err(Invalid(format!(
                    "{name}, line {number}: {shown} is less than the time before it: times must not decrease"
                )));
            }
            due_ns.push(time_ns);
        }
        if due_ns.is_empty() {
            let why = "the trace is empty: write one time per line, in seconds since the start";
            return Err(Invalid(format!("{name}: {why}")));
        }
        Ok(Self { name: name.to_owned(), due_ns: due_ns.into() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of requests.
    pub fn requests(&self) -> u64 {
        self.due_ns.len() as u64
    }

    /// The time of the last request, in nanoseconds since the start.
    pub fn length_ns(&self) -> u64 {
        self.due_ns.last().copied().unwrap_or(0)
    }

    /// The share of one worker, with the start at `origin_ns`.
    pub(crate) fn share(&self, origin_ns: u64, thread: usize, threads: usize) -> TraceSchedule<'_> {
        TraceSchedule { origin_ns, due_ns: &self.due_ns, next: thread, threads }
    }
}

/// One worker's share of a trace: workers take times in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceSchedule<'a> {
    origin_ns: u64,
    due_ns: &'a [u64],
    next: usize,
    threads: usize,
}

impl TraceSchedule<'_> {
    /// Removes and returns the next due time; `u64::MAX` at the end of the trace.
    pub(crate) fn pop(&mut self) -> u64 {
        let Some(&after_ns) = self.due_ns.get(self.next) else { return u64::MAX };
        self.next += self.threads;
        self.origin_ns.saturating_add(after_ns)
    }
}

/// Parses decimal seconds as nanoseconds, exactly.
fn time_ns(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|&byte| byte == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b"0"[..]),
    };
    if whole.is_empty() || fraction.is_empty() || fraction.len() > DIGITS_MAX {
        return None;
    }
    let places = fraction.iter().chain(std::iter::repeat(&b'0')).take(DIGITS_MAX);
    whole.iter().chain(places).try_fold(0_u64, |sum, byte| {
        let digit = char::from(*byte).to_digit(10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<u64>, String> {
        let trace = Trace::read("arrivals", text.as_bytes()).map_err(|bad| bad.to_string())?;
        Ok(trace.due_ns.to_vec())
    }

    #[test]
    fn times_are_seconds_to_the_nanosecond() {
        let text = "# when they came\n\n0\r\n0.000000001\n  0.25 \n0.25\n18446744073.709551615";
        let wanted = vec![0, 1, 250_000_000, 250_000_000, u64::MAX];
        assert_eq!(read(text), Ok(wanted));
    }

    #[test]
    fn invalid_times_are_reported_with_their_line() {
        for line in [
            "-1",
            "+1",
            "1e3",
            ".5",
            "5.",
            "1.0000000000",
            "1,5",
            "1 2",
            "18446744073.709551616",
            "x",
        ] {
            let refusal = read(&format!("0\n# a comment\n{line}\n")).expect_err(line);
            assert!(refusal.starts_with("arrivals, line 3: "), "{refusal}");
            assert!(refusal.contains("seconds since the start"), "{refusal}");
        }
        let refusal = read("1\n0.999\n").expect_err("it decreases");
        assert!(refusal.contains("line 2") && refusal.contains("must not decrease"), "{refusal}");
        for text in ["", "\n\n# nothing\n"] {
            assert!(read(text).expect_err("it is empty").contains("is empty"));
        }
        let refusal = read(&"9".repeat(1_000)).expect_err("it is too long");
        assert!(refusal.len() < 200, "{refusal}");
        assert!(Trace::read("arrivals", b"\xff").is_err());
    }

    proptest! {
        #[test]
        fn threads_use_every_time_exactly_once(
            mut times in proptest::collection::vec(0_u64..5_000_000_000, 1..200),
            threads in 1_usize..9,
            origin_ns in 0_u64..1_000_000,
        ) {
            times.sort_unstable();
            let line = |ns: &u64| format!("{}.{:09}\n", ns / 1_000_000_000, ns % 1_000_000_000);
            let text = times.iter().map(line).collect::<Vec<_>>().concat();
            let trace = Trace::read("arrivals", text.as_bytes()).expect("it makes sense");
            prop_assert_eq!(trace.requests(), times.len() as u64);
            prop_assert_eq!(Some(&trace.length_ns()), times.last());
            let mut used = Vec::new();
            for thread in 0..threads {
                let mut share = trace.share(origin_ns, thread, threads);
                let due: Vec<u64> =
                    std::iter::repeat_with(|| share.pop()).take_while(|&due| due < u64::MAX).collect();
                prop_assert!(due.is_sorted());
                prop_assert_eq!(share.pop(), u64::MAX);
                prop_assert_eq!(due.len() as u64, crate::engine::worker_set::share(trace.requests(), thread, threads));
                used.extend(due.iter().map(|due| due - origin_ns));
            }
            used.sort_unstable();
            prop_assert_eq!(used, times);
        }
    }
}
