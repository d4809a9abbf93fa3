//! Service level objectives such as `p99<5ms,errors<0.1%`, and their evaluation.

use std::str::FromStr;

use crate::plan::invalid::Invalid;
use crate::report::TargetReport;
use crate::report::percentiles::{Percentile, Support};

/// The quantity that a term limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// A latency percentile, by its name in a report.
    Percentile(&'static str),
    Mean,
    Max,
    /// The fraction of requests without a correct response.
    Errors,
    /// Correct responses per second.
    Rate,
}

/// Names on the command line.
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

/// Units of bounds, in nanoseconds, fractions, or requests per second.
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
    relation: Relation,
    bound: f64,
}

/// How a value has to compare with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    /// Reads the relation at the front of `text`; the longer spellings are tried first.
    fn read(text: &str) -> Option<(Self, &str)> {
        let spellings = [
            ("<=", Self::LessOrEqual),
            (">=", Self::GreaterOrEqual),
            ("<", Self::Less),
            (">", Self::Greater),
        ];
        spellings.iter().find_map(|(sign, relation)| Some((*relation, text.strip_prefix(sign)?)))
    }

    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::Greater => value > bound,
            Self::GreaterOrEqual => value >= bound,
        }
    }

    /// Whether smaller values hold rather than larger ones.
    fn wants_less(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual)
    }
}

/// Comparisons that every target has to satisfy.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo(Vec<Term>);

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SloResult {
    /// All terms hold.
    Met,
    /// A term does not hold; the message says which.
    Violated(String),
    /// There are too few samples for a decision.
    Undecided(String),
}

impl FromStr for Slo {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        text.split(',').map(term).collect::<Result<_, _>>().map(Self)
    }
}

impl Slo {
    /// Evaluates the reports of all targets. A violation takes precedence over an undecided term.
    pub fn evaluate(&self, targets: &[TargetReport]) -> SloResult {
        let verdicts =
            targets.iter().flat_map(|target| self.0.iter().map(|term| term.evaluate(target)));
        let mut all = SloResult::Met;
        for verdict in verdicts {
            match verdict {
                SloResult::Violated(_) => return verdict,
                SloResult::Undecided(_) => all = verdict,
                SloResult::Met => {}
            }
        }
        all
    }
}

fn term(text: &str) -> Result<Term, Invalid> {
    let text = text.trim();
    let bad = |why: &str| Invalid(format!("invalid objective {text:?}: {why}"));
    let shape = || bad("write it as p99<5ms or rate>=10k");
    let place = text.find(['<', '>']).ok_or_else(shape)?;
    let (relation, bound) = Relation::read(&text[place..]).ok_or_else(shape)?;
    let (name, bound) = (text[..place].trim(), bound.trim());
    let known = MEASURES.iter().find(|(known, _)| *known == name);
    let (_, measure) = known.ok_or_else(|| {
        bad("the metrics are p50, p75, p90, p95, p99, p99.9, p99.99, mean, max, errors and rate")
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
        return Err(bad(&format!("the bound must be a number with one of the units {units:?}")));
    };
    Ok(Term { text: text.to_owned(), measure: *measure, relation, bound: number * scale })
}

impl Term {
    fn evaluate(&self, target: &TargetReport) -> SloResult {
        let (url, text) = (&target.url, &self.text);
        let unknown = || SloResult::Undecided(format!("{url}: too few samples to evaluate {text}"));
        let value = match self.measure {
            Measure::Percentile(name) => {
                let Some(percentile) =
                    target.percentiles.iter().find(|percentile| percentile.name == name)
                else {
                    return unknown();
                };
                let Percentile { value_ns, is_lower_bound, value_ns_max, support, .. } =
                    *percentile;
                // Requests without a correct response may have taken longer: what holds for both
                // ends, or for neither, is decided.
                let least = self.holds(float(value_ns));
                let most = value_ns_max
                    .map_or(!self.relation.wants_less(), |most| self.holds(float(most)));
                if support == Support::None || (is_lower_bound && least != most) {
                    return unknown();
                }
                float(value_ns)
            }
            Measure::Mean | Measure::Max => {
                let Some(latency) = target.latency_ns else { return unknown() };
                let is_mean = self.measure == Measure::Mean;
                let value = float(if is_mean {
                    latency.mean
                } else {
                    latency.max.max(target.waited_ns_max)
                });
                // Requests without a correct response would have taken longer.
                let wants_less = self.relation.wants_less();
                if target.accounting.failed() > 0 && self.holds(value) == wants_less {
                    return unknown();
                }
                value
            }
            Measure::Errors => target.accounting.error_fraction(),
            Measure::Rate => target.rate_rps,
        };
        if self.holds(value) {
            return SloResult::Met;
        }
        let value = match self.measure {
            Measure::Errors => format!("{:.3} %", value * 100.0),
            Measure::Rate => format!("{value:.0} requests/s"),
            Measure::Percentile(_) | Measure::Mean | Measure::Max => {
                format!("{:.3} ms", value / 1e6)
            }
        };
        SloResult::Violated(format!("{url} violated {text}: {value}"))
    }

    fn holds(&self, value: f64) -> bool {
        self.relation.holds(value, self.bound)
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
        let read: Slo = "p99<5ms, errors<0.1%,rate>10k".parse().expect("it is one");
        let bounds: Vec<f64> = read.0.iter().map(|term| term.bound).collect();
        assert_eq!(bounds, [5e6, 0.001, 10_000.0]);
        let relations: Vec<Relation> = read.0.iter().map(|term| term.relation).collect();
        assert_eq!(relations, [Relation::Less, Relation::Less, Relation::Greater]);
        for text in [
            "",
            "p99",
            "p98<5ms",
            "p99<5",
            "errors<5ms",
            "rate>1%",
            "p99<ms",
            "p99<1..2ms",
            "p99<==5ms",
            "p99=<5ms",
            "p99=5ms",
        ] {
            assert!(text.parse::<Slo>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_bound_belongs_to_the_relations_that_name_it() {
        for (text, below, at, above) in [
            ("errors<1%", true, false, false),
            ("errors<=1%", true, true, false),
            ("errors >= 1%", false, true, true),
            ("errors>1%", false, false, true),
        ] {
            let slo: Slo = text.parse().expect("it is one");
            let holds = [0.0, 0.01, 0.02].map(|value| slo.0[0].holds(value));
            assert_eq!(holds, [below, at, above], "{text}");
        }
    }
}
