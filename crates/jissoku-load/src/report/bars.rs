//! `--histogram`: latencies as bars of text.

use std::fmt::Write as _;

use super::human::duration;
use super::summary::Report;

/// Number of bars.
const ROWS: u64 = 11;

/// Length of the longest bar.
const BAR_MAX: u64 = 48;

/// One row: values up to `limit_ns`, and how many there are.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    limit_ns: u64,
    count: u64,
}

/// The latencies of each target, as far as the 99th percentile in rows of one width; the last row has
/// the rest.
pub fn histogram(report: &Report) -> String {
    let mut page = String::new();
    for target in &report.targets {
        let max_ns = target.latency_ns.map_or(0, |latency| latency.max).max(target.waited_ns_max);
        let bins = target.latency_bins.iter().chain(&target.waited_bins);
        let rows = rows(bins.map(|&(value_ns, count)| (value_ns.min(max_ns), count)).collect());
        let most = rows.iter().map(|row| row.count).max().unwrap_or(0);
        if most == 0 {
            continue;
        }
        let _infallible = writeln!(page, "Latency histogram of {}", target.url);
        for Row { limit_ns, count } in rows {
            let length = (count * BAR_MAX).div_ceil(most);
            let bar = "#".repeat(usize::try_from(length).unwrap_or(0));
            let line = format!("  <= {:>9} {count:>12} {bar}", duration(limit_ns));
            let _infallible = writeln!(page, "{}", line.trim_end());
        }
    }
    page
}

/// Divides bins of (largest value, count) into rows.
fn rows(mut bins: Vec<(u64, u64)>) -> Vec<Row> {
    bins.sort_unstable();
    let (Some(&(least_ns, _)), Some(&(largest_ns, _))) = (bins.first(), bins.last()) else {
        return Vec::new();
    };
    let all: u64 = bins.iter().map(|(_, count)| count).sum();
    let mut left = all - all / 100;
    let p99_ns = bins.iter().find_map(|&(value_ns, count)| {
        left = left.saturating_sub(count);
        (left == 0).then_some(value_ns)
    });
    let p99_ns = p99_ns.unwrap_or(largest_ns);
    let width_ns = (p99_ns - least_ns).div_ceil(ROWS - 1).max(1);
    let limits = (1..ROWS).map(|row| (least_ns + row * width_ns).min(largest_ns));
    let mut rows: Vec<Row> = limits.map(|limit_ns| Row { limit_ns, count: 0 }).collect();
    rows.push(Row { limit_ns: largest_ns, count: 0 });
    rows.dedup_by_key(|row| row.limit_ns);
    for (value_ns, count) in bins {
        let place = rows.partition_point(|row| row.limit_ns < value_ns);
        rows[place].count += count;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_one_width_up_to_the_99th_percentile() {
        let bins = (1..=1000).map(|value_ns| (value_ns * 100, 1)).chain([(5_000_000, 9)]);
        let rows = rows(bins.collect());
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 1009);
        assert_eq!((rows.len(), rows[10].limit_ns), (11, 5_000_000));
        let widths: Vec<u64> =
            rows[..10].windows(2).map(|pair| pair[1].limit_ns - pair[0].limit_ns).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{rows:?}");
        assert!((99_000..=100_000).contains(&rows[9].limit_ns) && rows[10].count >= 9, "{rows:?}");
    }

    #[test]
    fn few_values_have_few_rows() {
        let found = |bins: &[(u64, u64)]| {
            let rows = rows(bins.to_vec());
            rows.into_iter().map(|row| (row.limit_ns, row.count)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[(7, 3)]), [(7, 3)]);
        assert_eq!(found(&[(7, 3), (8, 1)]), [(8, 4)]);
        assert_eq!(found(&[(10, 1), (10, 2)]), [(10, 3)]);
    }
}
