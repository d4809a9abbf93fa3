//! Rates and ratios of counts.

pub(super) fn rate(count: u64, duration_ns: u64) -> f64 {
    ratio(count, duration_ns) * 1e9
}

/// A rate in requests per second for people, with three decimal places below 100.
#[must_use]
pub fn rate_text(rate_rps: f64) -> String {
    let text = if rate_rps < 100.0 { format!("{rate_rps:.3}") } else { format!("{rate_rps:.0}.") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

pub(super) fn seconds(duration_ns: u64) -> f64 {
    float(duration_ns) / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53 for months")]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}
