//! Rates and ratios of counts.

pub(super) fn rate(count: u64, duration_ns: u64) -> f64 {
    ratio(count, duration_ns) * 1e9
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
