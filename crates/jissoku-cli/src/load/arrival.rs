//! `--arrival`: the arrival process of the open loop.

use std::fs;

use jissoku_load::{Arrival, Pace, Rate, Trace};

/// The parsed option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ArrivalChoice {
    Constant,
    Poisson,
    Trace(Trace),
}

/// Parses `constant`, `poisson` or `trace:FILE`; the file is read at once.
pub(super) fn arrival(text: &str) -> Result<ArrivalChoice, String> {
    match (text, text.strip_prefix("trace:")) {
        ("constant", _) => Ok(ArrivalChoice::Constant),
        ("poisson", _) => Ok(ArrivalChoice::Poisson),
        (_, Some(file)) if !file.is_empty() => {
            let read = fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
            Trace::read(file, &read).map(ArrivalChoice::Trace).map_err(|bad| bad.to_string())
        }
        _ => Err("write constant, poisson or trace:FILE".to_owned()),
    }
}

impl ArrivalChoice {
    pub(super) fn is_trace(&self) -> bool {
        matches!(self, Self::Trace(_))
    }

    /// Pace and arrival process at the given rate.
    pub(super) fn at(self, rate: Option<(Rate, Rate)>) -> Result<(Pace, Arrival), String> {
        let arrival = match self {
            Self::Constant => Arrival::Constant,
            Self::Poisson => Arrival::Poisson,
            Self::Trace(trace) => {
                return match rate {
                    None => Ok((Pace::Trace(trace), Arrival::Constant)),
                    Some(_) => {
                        Err("--arrival trace:FILE excludes -R, --sweep and --search: the trace \
                                    determines when each request is sent"
                            .to_owned())
                    }
                };
            }
        };
        let pace = match rate {
            None => Pace::Closed,
            Some((rate, to)) if rate == to => Pace::Constant { rate },
            Some((from, to)) => Pace::Ramp { from, to },
        };
        Ok((pace, arrival))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_leaves_no_room_for_a_rate() {
        let trace = Trace::read("arrivals", b"0\n1\n").expect("it makes sense");
        let choice = ArrivalChoice::Trace(trace.clone());
        assert_eq!(choice.clone().at(None), Ok((Pace::Trace(trace), Arrival::Constant)));
        assert!(
            choice
                .at(Some((Rate::per_second(1), Rate::per_second(1))))
                .is_err_and(|refusal| refusal.contains("-R"))
        );
        for text in ["", "trace", "trace:", "even", "trace:/nowhere/at/all"] {
            assert!(arrival(text).is_err(), "{text:?}");
        }
    }
}
