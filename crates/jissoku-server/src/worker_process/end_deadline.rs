//! When a worker process that has to end is killed, whatever its application does: it may block,
//! ignore its cancellation, or run a thread that does not end.

use std::time::Duration;

use super::start::ABORT_TIMEOUT;
use crate::limits::Limits;
use crate::shutdown::{MOVE_DRAIN, RELOAD_DRAIN};

/// Time after that of the connections, within which the worker has to say that it has closed them. A
/// worker that does not is occupied by its application.
const CLOSE_NS: u64 = 1_000_000_000;

/// Time after that of the connections for all that follows: the shutdown of the application, and the
/// exit.
const MARGIN_NS: u64 = 5_000_000_000;

/// Time to exit for a process whose application continues after its shutdown.
const OVERDUE_NS: u64 = 500_000_000;

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
    /// When the time of its connections is over.
    connections_ns: Option<u64>,
    /// When all has to be over.
    end_ns: Option<u64>,
    /// Whether its connections are closed.
    is_drained: bool,
    is_aborted: bool,
}

impl EndDeadline {
    /// The process has received a request to end.
    pub(super) fn on_signal(&mut self, signal: u8, limits: &Limits, now_ns: u64) {
        let connections_ns = match signal {
            MOVE_DRAIN | RELOAD_DRAIN => limits.drain_ns_max.max(limits.drain_streams_ns_max),
            _ => limits.stop_ns_max,
        };
        let connections_ns = now_ns.saturating_add(connections_ns);
        reduce(&mut self.connections_ns, connections_ns);
        self.limit(connections_ns.saturating_add(MARGIN_NS));
    }

    /// The process has no connections any more, and has to end within the time of a stop.
    pub(super) fn on_drained(&mut self, limits: &Limits, now_ns: u64) {
        self.is_drained = true;
        self.limit(now_ns.saturating_add(limits.stop_ns_max.max(MARGIN_NS)));
    }

    /// The application continues although its shutdown is over.
    pub(super) fn on_overdue(&mut self, now_ns: u64) {
        let closed_ns = self.connections_ns.unwrap_or(0).saturating_add(CLOSE_NS);
        self.limit(closed_ns.max(now_ns.saturating_add(OVERDUE_NS)));
    }

    fn limit(&mut self, end_ns: u64) {
        if !self.is_aborted {
            reduce(&mut self.end_ns, end_ns);
        }
    }

    /// Whether the process was killed because its time was over.
    pub(super) fn is_over(&self) -> bool {
        self.is_aborted
    }

    fn due_ns(&self) -> Option<u64> {
        let closed_ns = self.connections_ns.map(|due_ns| due_ns.saturating_add(CLOSE_NS));
        let occupied_ns = closed_ns.filter(|_| !self.is_drained && !self.is_aborted);
        self.end_ns.map(|end_ns| occupied_ns.map_or(end_ns, |due_ns| due_ns.min(end_ns)))
    }

    /// Time until [`EndDeadline::take_action`] has to be called.
    pub(super) fn left(&self, now_ns: u64) -> Option<Duration> {
        self.due_ns().map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)))
    }

    /// What has to be done now; each action is returned once.
    pub(super) fn take_action(&mut self, now_ns: u64) -> EndAction {
        if self.due_ns().is_none_or(|due_ns| now_ns < due_ns) {
            return EndAction::Wait;
        }
        if self.is_aborted {
            self.end_ns = None;
            return EndAction::Kill;
        }
        self.is_aborted = true;
        let abort_ns = u64::try_from(ABORT_TIMEOUT.as_nanos()).unwrap_or(u64::MAX);
        self.end_ns = Some(now_ns.saturating_add(abort_ns));
        EndAction::Abort
    }
}

/// Sets a time that is earlier than the known one.
fn reduce(time_ns: &mut Option<u64>, other_ns: u64) {
    *time_ns = Some(time_ns.map_or(other_ns, |known_ns| known_ns.min(other_ns)));
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
    fn a_worker_that_is_occupied_ends_a_second_after_the_time_of_its_connections() {
        for (signal, expected_s) in [(STOP, 11), (RELOAD_DRAIN, 61), (MOVE_DRAIN, 61)] {
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
    fn the_shutdown_of_an_application_has_its_time_after_the_connections() {
        for (drained_s, expected_s) in [(1, 11), (8, 15), (10, 15)] {
            let mut deadline = EndDeadline::default();
            deadline.on_signal(STOP, &LIMITS, 0);
            deadline.on_drained(&LIMITS, drained_s * S);
            assert_eq!(left_s(&deadline), Some(expected_s));
        }
    }

    #[test]
    fn what_goes_on_after_the_shutdown_of_the_application_has_no_time_of_its_own() {
        for (stop_s, overdue_s, expected_ms) in [(3, 1, 4_000), (3, 3, 4_000), (3, 6, 6_500)] {
            let limits = Limits { stop_ns_max: stop_s * S, ..LIMITS };
            let mut deadline = EndDeadline::default();
            deadline.on_signal(STOP, &limits, 0);
            deadline.on_drained(&limits, overdue_s * S);
            deadline.on_overdue(overdue_s * S);
            assert_eq!(deadline.left(0), Some(Duration::from_millis(expected_ms)));
        }
    }

    #[test]
    fn the_earliest_deadline_counts() {
        let mut deadline = EndDeadline::default();
        deadline.on_signal(MOVE_DRAIN, &LIMITS, 0);
        deadline.on_signal(STOP, &LIMITS, S);
        assert_eq!(left_s(&deadline), Some(12));
        deadline.on_drained(&LIMITS, 3 * S);
        assert_eq!(left_s(&deadline), Some(13));
        deadline.on_signal(RELOAD_DRAIN, &LIMITS, 3 * S);
        assert_eq!(left_s(&deadline), Some(13));
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
        assert_eq!(deadline.take_action(11 * S - 1), EndAction::Wait);
        assert_eq!(deadline.take_action(11 * S), EndAction::Abort);
        // Later events do not delay it.
        deadline.on_drained(&LIMITS, 11 * S);
        assert_eq!(deadline.take_action(13 * S - 1), EndAction::Wait);
        assert_eq!(deadline.take_action(13 * S), EndAction::Kill);
        assert_eq!((deadline.take_action(u64::MAX), left_s(&deadline)), (EndAction::Wait, None));
    }
}
