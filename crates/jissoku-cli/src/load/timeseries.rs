//! `--timeseries`: the file, the length of its intervals, and its format.

use std::path::{Path, PathBuf};

use jissoku_load::report::timeseries::Layout;

use crate::units;

/// The default length of intervals.
const LENGTH_NS: u64 = 1_000_000_000;

/// Reporting an interval takes a worker up to some 50 us.
const LENGTH_NS_MIN: u64 = 10_000_000;

/// The parsed option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Intervals {
    pub(super) file: PathBuf,
    pub(super) length_ns: u64,
    pub(super) layout: Layout,
}

/// Parses `run.ndjson` or `run.csv:100ms`.
pub(super) fn intervals(text: &str) -> Result<Intervals, String> {
    let is_length = |tail: &str| tail.starts_with(|first: char| first.is_ascii_digit());
    let (file, length_ns) = match text.rsplit_once(':').filter(|(_, tail)| is_length(tail)) {
        None => (text, LENGTH_NS),
        Some((file, tail)) => (file, units::duration_ns(tail)?),
    };
    if file.is_empty() {
        return Err("write FILE or FILE:INTERVAL, such as run.csv:100ms".to_owned());
    }
    if length_ns < LENGTH_NS_MIN {
        return Err("shorter intervals would disturb the measurement: give 10ms or more".into());
    }
    let is_csv = Path::new(file).extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"));
    let layout = if is_csv { Layout::Csv } else { Layout::Json };
    Ok(Intervals { file: file.into(), length_ns, layout })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_may_follow_the_file() {
        for (text, file, length_ns, layout) in [
            ("run.ndjson", "run.ndjson", LENGTH_NS, Layout::Json),
            ("run.csv:250ms", "run.csv", 250_000_000, Layout::Csv),
            ("a:b.CSV:10ms", "a:b.CSV", 10_000_000, Layout::Csv),
            ("a:b", "a:b", LENGTH_NS, Layout::Json),
            ("run:2", "run", 2 * LENGTH_NS, Layout::Json),
        ] {
            let wanted = Intervals { file: file.into(), length_ns, layout };
            assert_eq!(intervals(text), Ok(wanted), "{text}");
        }
        for text in ["", ":1s", "run:9ms", "run:0", "run:1x", "run:1.5.2s"] {
            assert!(intervals(text).is_err(), "{text:?}");
        }
    }
}
