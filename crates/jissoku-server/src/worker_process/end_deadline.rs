//! When a worker process that has to end is killed, whatever its application does: it may block,
//! ignore its cancellation, or run a thread that does not end.

use std::time::Duration;

use super::start::ABORT_TIMEOUT;
use crate::limits::Limits;
use crate::shutdown::{MOVE_DRAIN, RELOAD_DRAIN};

/// Time after that of the connections: to close them, and for the shutdown of the application.
const MARGIN_NS: u64 = 5_000_000_000;

/// What has to be done to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndAction {
    Wait,
    /// An interpreter writes its stacks on this signal, and ends.
    Abort,
    Kill,
}

/// The time at which a process is killed, once it has been requested to end.
#[derive(Debug, Default)]
pub(super) struct EndDeadline {
    due_ns: Option<u64>,
    is_aborted: bool,
}

impl EndDeadline {
    /// The process has received a request to end.
    pub(super) fn on_signal(&mut self, signal: u8, limits: &Limits, now_ns: u64) {
        let connections_ns = match signal {
            MOVE_DRAIN | RELOAD_DRAIN => limits.drain_ns_max.max(limits.drain_streams_ns_max),
            _ => limits.stop_ns_max,
        };
        self.limit(now_ns.saturating_add(connections_ns).saturating_add(MARGIN_NS));
    }

    /// The process has no connections any more, and has to end within the time of a stop.
    pub(super) fn on_drained(&mut self, limits: &Limits, now_ns: u64) {
        self.limit(now_ns.saturating_add(limits.stop_ns_max.max(MARGIN_NS)));
    }

    fn limit(&mut self, due_ns: u64) {
        if !self.is_aborted {
            self.due_ns = Some(self.due_ns.map_or(due_ns, |earlier_ns| earlier_ns.min(due_ns)));
        }
    }

    /// Whether the process was killed because its time was over.
    pub(super) fn is_over(&self) -> bool {
        self.is_aborted
    }

    /// Time until [`EndDeadline::take_action`] has to be called.
    pub(super) fn left(&self, now_ns: u64) -> Option<Duration> {
        self.due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)))
    }

    /// What has to be done now; each action is returned once.
    pub(super) fn take_action(&mut self, now_ns: u64) -> EndAction {
        if self.due_ns.is_none_or(|due_ns| now_ns < due_ns) {
            return EndAction::Wait;
        }
        if self.is_aborted {
            self.due_ns = None;
            return EndAction::Kill;
        }
        self.is_aborted = true;
        let abort_ns = u64::try_from(ABORT_TIMEOUT.as_nanos()).unwrap_or(u64::MAX);
        self.due_ns = Some(now_ns.saturating_add(abort_ns));
        EndAction::Abort
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const STOP: u8 = 3;
    const LIMITS: Limits = Limits {
        stop_ns_max: 10 * S,
        drain_ns_max: 20 * S,
        drain_streams_ns_max: 60 * S,
        ..Limits::DEFAULT
    };

    /// The seconds until the process is aborted.
    fn left_s(deadline: &EndDeadline) -> Option<u64> {
        deadline.left(0).map(|left| left.as_secs())
    }

    #[test]
    fn each_request_to_end_has_a_deadline() {
        for (signal, expected_s) in [(STOP, 15), (RELOAD_DRAIN, 65), (MOVE_DRAIN, 65)] {
            let mut deadline = EndDeadline::default();
            assert_eq!(
                (left_s(&deadline), deadline.take_action(u64::MAX)),
                (None, EndAction::Wait)
            );
            deadline.on_signal(signal, &LIMITS, 0);
            assert_eq!(left_s(&deadline), Some(expected_s));
        }
    }

    #[test]
    fn the_earliest_deadline_counts() {
        let mut deadline = EndDeadline::default();
        deadline.on_signal(MOVE_DRAIN, &LIMITS, 0);
        deadline.on_signal(STOP, &LIMITS, S);
        assert_eq!(left_s(&deadline), Some(16));
        deadline.on_drained(&LIMITS, 2 * S);
        assert_eq!(left_s(&deadline), Some(12));
        deadline.on_signal(RELOAD_DRAIN, &LIMITS, 3 * S);
        assert_eq!(left_s(&deadline), Some(12));
    }

    #[test]
    fn without_a_stop_timeout_there_is_time_for_the_shutdown_of_the_application() {
        let limits = Limits { stop_ns_max: 0, ..LIMITS };
        let mut deadline = EndDeadline::default();
        deadline.on_drained(&limits, 0);
        assert_eq!(left_s(&deadline), Some(5));
    }

    #[test]
    fn stacks_are_written_before_the_process_is_killed() {
        let mut deadline = EndDeadline::default();
        deadline.on_signal(STOP, &LIMITS, 0);
        assert_eq!(deadline.take_action(15 * S - 1), EndAction::Wait);
        assert_eq!(deadline.take_action(15 * S), EndAction::Abort);
        // Later events do not delay it.
        deadline.on_drained(&LIMITS, 15 * S);
        assert_eq!(deadline.take_action(17 * S - 1), EndAction::Wait);
        assert_eq!(deadline.take_action(17 * S), EndAction::Kill);
        assert_eq!((deadline.take_action(u64::MAX), left_s(&deadline)), (EndAction::Wait, None));
    }
}
