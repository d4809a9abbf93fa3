//! What a chart shows, in words: for those who do not see it.

use crate::chart::{Chart, Series};
use crate::histogram::{self, Bin};
use crate::kind::Kind;
use crate::limits::present;
use crate::number::{plain, share};

/// How many values are named one by one.
const NAMED_MAX: usize = 24;

/// The description that was given, or one of the values.
pub(crate) fn of(chart: &Chart<'_>) -> String {
    if !chart.description.is_empty() {
        return chart.description.to_owned();
    }
    if chart.present().next().is_none() {
        return "No values.".to_owned();
    }
    let words = match chart.kind {
        Kind::Line | Kind::Sparkline => courses(chart),
        Kind::Bar => bars(chart),
        Kind::Histogram => distribution(chart),
        Kind::Ring => parts(chart),
    };
    if chart.unit.is_empty() { words } else { format!("Values in {}. {words}", chart.unit) }
}

/// How each series goes from its first to its last value.
fn courses(chart: &Chart<'_>) -> String {
    let course = |(index, series): (usize, &Series<'_>)| {
        let values: Vec<f64> = series.values.iter().copied().filter_map(present).collect();
        let name = if chart.series.len() == 1 && series.name.is_empty() {
            String::new()
        } else {
            format!("{}: ", chart.name(index))
        };
        let (Some(first), Some(last)) = (values.first(), values.last()) else {
            return format!("{name}no values");
        };
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let absent = series.values.len() - values.len();
        let absent = if absent > 0 { format!(", {absent} absent") } else { String::new() };
        format!(
            "{name}from {} to {} over {} values, lowest {}, highest {}{absent}",
            plain(*first),
            plain(*last),
            values.len(),
            plain(low),
            plain(high)
        )
    };
    let all: Vec<String> = chart.series.iter().enumerate().map(course).collect();
    format!("{}.", all.join("; "))
}

/// Each bar, as far as there are few.
fn bars(chart: &Chart<'_>) -> String {
    let mut named = Vec::new();
    for (index, series) in chart.series.iter().enumerate() {
        for (place, value) in series.values.iter().enumerate() {
            let Some(value) = present(*value) else { continue };
            let name = if chart.series.len() > 1 {
                format!("{}, {}", chart.name(index), chart.label(place))
            } else {
                chart.label(place)
            };
            named.push(format!("{name}: {}", plain(value)));
        }
    }
    let more = named.len().saturating_sub(NAMED_MAX);
    named.truncate(NAMED_MAX);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{rest}.", named.join("; "))
}

/// How many values there are, and where most of them are.
fn distribution(chart: &Chart<'_>) -> String {
    let values: Vec<f64> = chart.present().collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let bins = histogram::bins(&values, chart.bins);
    let fullest = bins.iter().rev().max_by_key(|bin| bin.count);
    let fullest = fullest.map_or(String::new(), |Bin { low, high, count }| {
        format!("; most of them, {count}, from {} to {}", plain(*low), plain(*high))
    });
    format!("{} values from {} to {}{fullest}.", values.len(), plain(low), plain(high))
}

/// The share of each part.
fn parts(chart: &Chart<'_>) -> String {
    let sum: f64 = chart.present().sum();
    let part = |(index, value): (usize, &f64)| {
        let value = present(*value)?;
        Some(format!("{}: {}, {}", chart.label(index), plain(value), share(value, sum)))
    };
    let all: Vec<String> = chart.values().iter().enumerate().filter_map(part).collect();
    format!("{}; {} in all.", all.join("; "), plain(sum))
}
