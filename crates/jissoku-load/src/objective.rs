//! Objectives: what somebody expects of a server, such as `p99<5ms,errors<0.1%`, and whether it held.

use std::fmt;
use std::str::FromStr;

use crate::figures::{Figure, Support};
use crate::report::LaneReport;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// A percentile of the latency, by its name in a report.
    Percentile(&'static str),
    Mean,
    Max,
    /// The part of all requests that got no right answer.
    Errors,
    /// Right answers per second.
    Rate,
}

/// Names as people write them.
const MEASURES: [(&str, Measure); 12] = [
    ("p50", Measure::Percentile("p50")),
    ("p75", Measure::Percentile("p75")),
    ("p90", Measure::Percentile("p90")),
    ("p95", Measure::Percentile("p95")),
    ("p99", Measure::Percentile("p99")),
    ("p99.9", Measure::Percentile("p99.9")),
    ("p999", Measure::Percentile("p99.9")),
    ("p99.99", Measure::Percentile("p99.99")),
    ("mean", Measure::Mean),
    ("max", Measure::Max),
    ("errors", Measure::Errors),
    ("rate", Measure::Rate),
];

/// Units of a bound, in nanoseconds, parts of a whole, or requests per second.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("%", 0.01),
    ("k", 1e3),
    ("M", 1e6),
    ("", 1.0),
];

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    text: String,
    measure: Measure,
    wants_less: bool,
    bound: f64,
}

/// What is expected of every lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective(Vec<Term>);

/// An objective that cannot be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadObjective(String);

impl fmt::Display for BadObjective {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BadObjective {}

/// How an objective fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every part of it held.
    Met,
    /// A part of it did not, as the sentence says.
    Broken(String),
    /// There were too few samples to tell.
    Undecided(String),
}

impl FromStr for Objective {
    type Err = BadObjective;

    fn from_str(text: &str) -> Result<Self, BadObjective> {
        text.split(',').map(term).collect::<Result<_, _>>().map(Self)
    }
}

impl Objective {
    /// Holds the figures of every lane against it. What is broken counts before what is undecided.
    #[must_use]
    pub fn judge(&self, lanes: &[LaneReport]) -> Verdict {
        let verdicts = lanes.iter().flat_map(|lane| self.0.iter().map(|term| term.judge(lane)));
        let mut all = Verdict::Met;
        for verdict in verdicts {
            match verdict {
                Verdict::Broken(_) => return verdict,
                Verdict::Undecided(_) => all = verdict,
                Verdict::Met => {}
            }
        }
        all
    }
}

fn term(text: &str) -> Result<Term, BadObjective> {
    let text = text.trim();
    let bad = |why: &str| BadObjective(format!("{text:?} is no objective: {why}"));
    let place = text.find(['<', '>']).ok_or_else(|| bad("write it as p99<5ms or rate>10k"))?;
    let (name, bound) = (text[..place].trim(), text[place + 1..].trim_start_matches('=').trim());
    let known = MEASURES.iter().find(|(known, _)| *known == name);
    let (_, measure) = known.ok_or_else(|| {
        bad("it can speak of p50, p75, p90, p95, p99, p99.9, p99.99, mean, max, errors and rate")
    })?;
    let end = bound.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(bound.len());
    let (number, unit) = bound.split_at(end);
    let units: &[&str] = match measure {
        Measure::Percentile(_) | Measure::Mean | Measure::Max => &["ns", "us", "ms", "s", "m"],
        Measure::Errors => &["%", ""],
        Measure::Rate => &["", "k", "M"],
    };
    let scale = UNITS.iter().find(|(known, _)| *known == unit && units.contains(known));
    let number = number.parse::<f64>().ok().filter(|number| number.is_finite());
    let (Some((_, scale)), Some(number)) = (scale, number) else {
        return Err(bad(&format!("its bound is a number with one of the units {units:?}")));
    };
    let wants_less = text[place..].starts_with('<');
    Ok(Term { text: text.to_owned(), measure: *measure, wants_less, bound: number * scale })
}

impl Term {
    fn judge(&self, lane: &LaneReport) -> Verdict {
        let (url, text) = (&lane.url, &self.text);
        let unknown = || Verdict::Undecided(format!("{url} gave too few answers to tell {text}"));
        let value = match self.measure {
            Measure::Percentile(name) => {
                let Some(figure) = lane.figures.iter().find(|figure| figure.name == name) else {
                    return unknown();
                };
                let Figure { value_ns, is_lower_bound, support, .. } = *figure;
                // A lower bound can break an upper limit; it cannot show that one is kept.
                let fits = self.holds(float(value_ns));
                if support == Support::None || (is_lower_bound && fits == self.wants_less) {
                    return unknown();
                }
                float(value_ns)
            }
            Measure::Mean | Measure::Max => {
                let Some(latency) = lane.latency_ns else { return unknown() };
                let is_mean = self.measure == Measure::Mean;
                float(if is_mean { latency.mean } else { latency.max.max(lane.waited_ns_max) })
            }
            Measure::Errors => lane.accounting.error_fraction(),
            Measure::Rate => lane.rate_rps,
        };
        if self.holds(value) {
            return Verdict::Met;
        }
        let value = match self.measure {
            Measure::Errors => format!("{:.3} %", value * 100.0),
            Measure::Rate => format!("{value:.0} requests/s"),
            Measure::Percentile(_) | Measure::Mean | Measure::Max => {
                format!("{:.3} ms", value / 1e6)
            }
        };
        Verdict::Broken(format!("{url} broke {text}: it was {value}"))
    }

    fn holds(&self, value: f64) -> bool {
        if self.wants_less { value < self.bound } else { value > self.bound }
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds stay below 2^53 for months")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_comparisons_with_units() {
        let read: Objective = "p99<5ms, errors<0.1%,rate>10k".parse().expect("it is one");
        let bounds: Vec<f64> = read.0.iter().map(|term| term.bound).collect();
        assert_eq!(bounds, [5e6, 0.001, 10_000.0]);
        assert_eq!(
            read.0.iter().map(|term| term.wants_less).collect::<Vec<_>>(),
            [true, true, false]
        );
        for text in ["", "p99", "p98<5ms", "p99<5", "errors<5ms", "rate>1%", "p99<ms", "p99<1..2ms"]
        {
            assert!(text.parse::<Objective>().is_err(), "{text:?}");
        }
    }
}
