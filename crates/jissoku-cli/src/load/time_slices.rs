//! Options of time-sliced load.

use crate::units;

/// How several URLs are loaded one at a time.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct SliceArgs {
    /// Load the URLs one at a time, in time slices of about this length, in palindromic order (A B
    /// B A); a slice ends with its last response, and the window with a complete cycle (with -R, -t
    /// 1) [default: all at once]
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns)]
    pub(super) slice: Option<u64>,
    /// With --slice: send the first N requests of each slice without counting them [default: 0]
    #[arg(long, value_name = "N", value_parser = units::count, default_value = "0", hide_default_value = true)]
    pub(super) settle: u64,
    /// With --slice: open the window when each URL has been sent this many requests [default: 0]
    #[arg(long, value_name = "N", value_parser = units::count, default_value = "0", hide_default_value = true)]
    pub(super) warmup_requests: u64,
    /// Before the first request, measure the CPU usage of the --watch servers without load for this
    /// time [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "0", hide_default_value = true)]
    pub(super) idle_watch: u64,
}
