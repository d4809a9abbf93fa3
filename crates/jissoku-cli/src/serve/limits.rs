//! Flags for the limits of the server, each with the name it has there.

use clap::Args;
use jissoku_server::Limits;

use crate::units;

/// Flags for limits.
#[derive(Debug, Args)]
pub(super) struct LimitArgs {
    /// Size of a request body; beyond it 413 [default: 1MiB, and 1GiB for an application]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    body_size_max: Option<u64>,
    /// Size of the request line; beyond it 414 [default: 8KiB, and 16KiB for an application]
    #[arg(long, value_name = "SIZE", value_parser = size_u32)]
    request_line_size_max: Option<u32>,
    /// Size of one header field; beyond it 431 [default: 8KiB, and 64KiB for an application]
    #[arg(long, value_name = "SIZE", value_parser = size_u32)]
    field_size_max: Option<u32>,
    /// Total size of the header fields; beyond it 431 [default: 32KiB, and 64KiB for an application]
    #[arg(long, value_name = "SIZE", value_parser = size_u32)]
    fields_size_max: Option<u32>,
    /// Number of header fields; beyond it 431
    #[arg(long, value_name = "N", default_value = "100")]
    fields_count_max: u32,
    /// Size of all chunk extensions of one body; beyond it 400
    #[arg(long, value_name = "SIZE", value_parser = size_u32, default_value = "4KiB")]
    extensions_size_max: u32,
    /// Number of open connections; beyond it 503
    #[arg(long, value_name = "N", value_parser = connections, default_value = "65536",
        allow_hyphen_values = true)]
    connections_max: usize,
    /// Number of open connections per client address; beyond it 503; 0 for no limit
    #[arg(long, value_name = "N", default_value = "0")]
    connections_per_address_max: u32,
    /// Time from the first byte of a request head to its last; then 408
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "10s",
        allow_hyphen_values = true)]
    head_time_max: u64,
    /// Time between two requests; then the connection is closed
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "75s",
        allow_hyphen_values = true)]
    idle_time_max: u64,
    /// Time in which a client may send nothing of its body, or read nothing of its response
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "60s",
        allow_hyphen_values = true)]
    pause_max: u64,
    /// Time before --pace-min applies
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "5s",
        allow_hyphen_values = true)]
    pace_grace: u64,
    /// Minimum rate of a body or a response in bytes per second, against clients that are slow on
    /// purpose; 0 for none
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "0")]
    pace_min: u64,
    /// Time in which a client may continue to send after the last response, such as a 413
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "30s",
        allow_hyphen_values = true)]
    linger_time_max: u64,
    /// Time without bytes meanwhile
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns, default_value = "5s",
        allow_hyphen_values = true)]
    linger_pause_max: u64,
    /// Bytes read and discarded meanwhile
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "1GiB")]
    linger_size_max: u64,
    /// Requests and body parts of one connection processed before other connections
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        default_value = "1000")]
    steps_per_turn_max: u32,
    /// Bytes of buffered responses after which the next request of a connection waits
    #[arg(long, value_name = "SIZE", value_parser = size_u32, default_value = "16KiB")]
    output_size_high: u32,
}

impl LimitArgs {
    /// `limits` with the values of these flags. Those for draining are in `worker_args`.
    pub(super) fn over(&self, limits: Limits) -> Limits {
        let mut limits = Limits {
            connections_max: self.connections_max,
            connections_per_address_max: self.connections_per_address_max,
            head_ns_max: self.head_time_max,
            idle_ns_max: self.idle_time_max,
            pause_ns_max: self.pause_max,
            pace_grace_ns: self.pace_grace,
            pace_min_bps: self.pace_min,
            linger_ns_max: self.linger_time_max,
            linger_pause_ns_max: self.linger_pause_max,
            linger_size_max: self.linger_size_max,
            steps_per_turn_max: self.steps_per_turn_max,
            output_size_high: self.output_size_high as usize,
            ..limits
        };
        let request = &mut limits.request;
        request.body_size_max = self.body_size_max.unwrap_or(request.body_size_max);
        request.request_line_size_max =
            self.request_line_size_max.unwrap_or(request.request_line_size_max);
        request.field_size_max = self.field_size_max.unwrap_or(request.field_size_max);
        request.fields_size_max = self.fields_size_max.unwrap_or(request.fields_size_max);
        limits.request.fields_count_max = self.fields_count_max;
        limits.request.extensions_size_max = self.extensions_size_max;
        limits
    }
}

/// A size of at most 4 GiB.
fn size_u32(text: &str) -> Result<u32, String> {
    units::size(text)?.try_into().map_err(|_| "the largest size is 4 GiB".to_owned())
}

fn connections(text: &str) -> Result<usize, String> {
    let count = units::count(text)?.try_into().ok().filter(|&count: &usize| count > 0);
    count.ok_or_else(|| "write a number of at least 1".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        limits: LimitArgs,
    }

    #[test]
    fn without_flags_the_limits_are_the_defaults() {
        let only = Only::try_parse_from(["x"]).expect("no flag is needed");
        assert_eq!(only.limits.over(Limits::DEFAULT), Limits::DEFAULT);
    }

    #[test]
    fn an_application_has_larger_limits_unless_flags_are_given() {
        let limits = |flags: &[&str]| {
            let only = Only::try_parse_from(["x"].iter().chain(flags)).expect("flags are valid");
            only.limits.over(Limits::APPLICATION)
        };
        assert_eq!(limits(&[]), Limits::APPLICATION);
        assert_eq!(limits(&["--body-size-max=9", "--field-size-max=9"]).request.body_size_max, 9);
        // A field fits into all fields, and a cookie of 16 KiB into a field.
        let request = Limits::APPLICATION.request;
        assert!(request.field_size_max <= request.fields_size_max);
        assert!(request.field_size_max > 16 << 10);
    }

    #[test]
    fn every_limit_has_a_flag() {
        let sizes = "request-line-size-max field-size-max fields-size-max fields-count-max \
                     body-size-max extensions-size-max connections-max connections-per-address-max \
                     pace-min linger-size-max steps-per-turn-max output-size-high";
        let times =
            "head-time-max idle-time-max pause-max pace-grace linger-time-max linger-pause-max";
        let flags = sizes.split(' ').map(|name| format!("--{name}=9"));
        let flags = flags.chain(times.split(' ').map(|name| format!("--{name}=9ns")));
        let flags: Vec<String> = flags.collect();
        let count = flags.len();
        let only = Only::try_parse_from(["x".to_owned()].into_iter().chain(flags));
        // The flags of the shutdown limits are in `worker_args`.
        let shutdown = Limits {
            drain_idle_ns: 9,
            drain_ns_max: 9,
            drain_streams_ns_max: 9,
            stop_idle_ns: 9,
            stop_ns_max: 9,
            ..Limits::DEFAULT
        };
        let limits = only.expect("all flags are known").limits.over(shutdown);
        // All digits are nines: every limit was set.
        let printed = format!("{limits:?}");
        let digits: String = printed.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(digits, "9".repeat(count + 5), "{printed}");
    }
}
