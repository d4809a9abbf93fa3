//! `jissoku lab network`: an emulated network between two interfaces.

use std::io::{self, BufRead as _};
use std::num::NonZeroU64;
use std::os::fd::AsFd as _;

use jissoku_lab::network::{Emulator, LinkSettings, Loss};
use jissoku_lab::oracle::Delay;
use jissoku_os::affinity;
use jissoku_os::quantity::scaled;
use jissoku_os::signal::{SIGINT, SIGTERM, Signals};

use crate::usage::{ExitError, exit_code, print_line};
use crate::{oracle, units};

/// An emulated network between two interfaces that it creates
///
/// The interfaces are tunnels without an address, and can be moved to other network namespaces.
/// Properties are written as in `delay 5ms loss 0.5% rate 100Mbit/s`: delay TIME; jitter TIME or a
/// distribution as of `jissoku oracle --delay`; loss SHARE; burst PACKETS, the mean number that are
/// lost in succession; rate BITS/s; queue BYTES, of packets that wait for the rate. They are those
/// of both directions, or of one, as in `there delay 5ms back delay 1ms`.
///
/// A line with other properties on standard input replaces them. It prints what was forwarded before
/// as one JSON object, and the same when it ends: by SIGTERM, SIGINT, or the end of standard input,
/// as when its parent has died.
#[derive(Debug, clap::Args)]
pub(crate) struct Network {
    /// Name of the interface on the near side, such as near0
    near: String,
    /// Name of the interface on the far side
    far: String,
    /// Properties of the network, as one argument; without any it has no effect
    #[arg(value_name = "PROPERTIES", default_value = "", value_parser = both_directions)]
    directions: Directions,
    /// Seed of losses and jitter
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Time before a departure in which it does not sleep; a core of its own is needed then
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration_ns)]
    spin: u64,
    /// Cores to run on, such as 0 [default: any]
    #[arg(long, value_name = "LIST", value_parser = units::cores)]
    cores: Option<CoreList>,
}

// Clap would treat a bare `Vec` as an argument that may be repeated.
type CoreList = Vec<usize>;

/// The properties from the near side to the far one, and back.
type Directions = [LinkSettings; 2];

impl Network {
    pub(crate) fn run(self) -> u8 {
        exit_code("lab network", self.emulate())
    }

    fn emulate(self) -> Result<(), ExitError> {
        let failed = |error: io::Error| (1, format!("the network has ended: {error}"));
        if let Some(cores) = &self.cores {
            let pinned = affinity::pin(cores);
            pinned.map_err(|error| (2, format!("cannot use cores {cores:?}: {error}")))?;
        }
        let signals = Signals::register(&[SIGTERM, SIGINT]).map_err(failed)?;
        let stdin = io::stdin();
        let inputs = [signals.as_fd(), stdin.as_fd()];
        let opened = Emulator::open(&self.near, &self.far, self.spin, &inputs);
        let mut emulator =
            opened.map_err(|(what, error)| (2, format!("cannot open {what}: {error}")))?;
        emulator.set(self.directions, self.seed);
        print_line(&format!("forwarding between {} and {}", self.near, self.far));
        let mut rest = Vec::new();
        let ended = loop {
            match emulator.forward() {
                // A byte of standard input.
                Ok(1) => {}
                Ok(_) => break Ok(()),
                Err(error) => break Err(failed(error)),
            }
            let mut input = stdin.lock();
            let bytes = input.fill_buf().map_err(failed)?;
            if bytes.is_empty() {
                break Ok(());
            }
            let count = bytes.len();
            rest.extend_from_slice(bytes);
            input.consume(count);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                rest.drain(..=end);
                match both_directions(&line) {
                    Ok(directions) => {
                        print_counters(&emulator).map_err(failed)?;
                        emulator.set(directions, self.seed);
                    }
                    Err(reason) => print_line(&format!("refused: {reason}")),
                }
            }
        };
        print_counters(&emulator).map_err(failed)?;
        ended
    }
}

fn print_counters(emulator: &Emulator) -> io::Result<()> {
    print_line(&serde_json::to_string(&emulator.counters())?);
    Ok(())
}

/// Properties of both directions, or of each after its name.
fn both_directions(text: &str) -> Result<Directions, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let place = |name| words.iter().position(|word| *word == name);
    let (there, back) = match (place("there"), place("back")) {
        (None, None) => (&words[..], &words[..]),
        (Some(0), None) => (&words[1..], &[][..]),
        (None, Some(0)) => (&[][..], &words[1..]),
        (Some(0), Some(back)) => (&words[1..back], &words[back + 1..]),
        _ => return Err("write there PROPERTIES back PROPERTIES, or one of them".to_owned()),
    };
    Ok([settings(there)?, settings(back)?])
}

/// Properties of one direction: names and values in turn.
fn settings(words: &[&str]) -> Result<LinkSettings, String> {
    let mut found = LinkSettings::default();
    let (mut share, mut burst) = (0.0, None);
    for pair in words.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("{} has no value", pair.concat()));
        };
        match *name {
            "delay" => found.delay_ns = units::duration_ns(value)?,
            "jitter" => found.jitter = jitter(value)?,
            "loss" => share = fraction(value)?,
            "burst" => burst = Some(oracle::number(value)?),
            "rate" => found.rate_bps = Some(rate(value)?),
            "queue" => found.queue_bytes = units::size(value)?,
            _ => {
                return Err(format!(
                    "{name}: the properties are delay, jitter, loss, burst, rate and queue"
                ));
            }
        }
    }
    found.loss = match burst {
        None => Loss::independent(share),
        Some(burst) => Loss::in_bursts(share, burst),
    }
    .ok_or("a burst is too short for this loss: write one packet or more")?;
    Ok(found)
}

/// A time, up to which all are as likely, or a distribution.
fn jitter(text: &str) -> Result<Delay, String> {
    match units::duration_ns(text) {
        Ok(most_ns) => Ok(Delay::Uniform(most_ns)),
        Err(_) => oracle::delay(text),
    }
}

/// `0.005` or `0.5%`.
fn fraction(text: &str) -> Result<f64, String> {
    let found = match text.strip_suffix('%') {
        Some(percent) => oracle::number(percent)? / 100.0,
        None => oracle::number(text)?,
    };
    if found <= 1.0 { Ok(found) } else { Err(format!("invalid share {text}: give 0 to 100%")) }
}

/// Bits per second, such as `100Mbit/s`.
fn rate(text: &str) -> Result<NonZeroU64, String> {
    const UNITS: [(&str, u64); 4] =
        [("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000), ("bit/s", 1)];
    let found = scaled(text, &UNITS).and_then(NonZeroU64::new);
    found.ok_or_else(|| format!("invalid rate {text}: write one such as 100Mbit/s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(text: &str) -> LinkSettings {
        let [there, back] = both_directions(text).expect("it can be read");
        assert_eq!(there, back);
        there
    }

    #[test]
    fn properties_are_read_as_they_are_written() {
        assert_eq!(both(""), LinkSettings::default());
        let found = both("delay 5ms jitter exponential:1ms loss 0.5% rate 1.5Mbit/s queue 64K");
        let expected = LinkSettings {
            delay_ns: 5_000_000,
            jitter: Delay::Exponential(1_000_000),
            loss: Loss::independent(0.005).expect("a share"),
            rate_bps: NonZeroU64::new(1_500_000),
            queue_bytes: 65_536,
        };
        assert_eq!(found, expected);
        assert_eq!(both("burst 4 loss 0.01").loss, Loss::in_bursts(0.01, 4.0).expect("possible"));
        assert_eq!(both("jitter 2ms").jitter, Delay::Uniform(2_000_000));
    }

    #[test]
    fn each_direction_can_have_its_own() {
        let [none, slow] = both_directions("back delay 5ms").expect("it can be read");
        assert_eq!((none, slow), (LinkSettings::default(), both("delay 5ms")));
        let [there, back] = both_directions("there loss 1% back delay 5ms").expect("as above");
        assert_eq!((there, back), (both("loss 1%"), both("delay 5ms")));
    }

    #[test]
    fn wrong_properties_are_refused() {
        for text in [
            "delay",
            "5ms delay",
            "loss 101%",
            "loss -1%",
            "loss 90% burst 2",
            "burst 0.5 loss 1%",
            "rate 100",
            "rate 0Mbit/s",
            "rate 100mbit/s",
            "queue -1",
            "jitter often",
            "delay 5ms loss",
            "delay 5ms there loss 1%",
            "back delay 5ms there loss 1%",
        ] {
            assert!(both_directions(text).is_err(), "{text:?}");
        }
    }
}
