//! How long a request waited for an application, was in it, and waited for its client.

/// Times of a request that an application answers, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppTimes {
    /// From its last byte until the application was called.
    pub queue_ns: u64,
    /// In the application.
    pub app_ns: u64,
    /// Until the client had read what the application had to wait for.
    pub write_ns: u64,
}

impl AppTimes {
    /// The phases by name, in their order.
    pub(crate) const NAMES: [&str; 3] = ["queue", "app", "write"];

    pub(crate) const fn phases_ns(self) -> [u64; 3] {
        [self.queue_ns, self.app_ns, self.write_ns]
    }
}

/// Measures [`AppTimes`]: the application is entered and left by turns.
#[derive(Clone, Copy, Debug)]
pub struct AppClock {
    times: AppTimes,
    /// The last change, on the monotonic clock.
    mark_ns: u64,
    has_begun: bool,
}

impl AppClock {
    /// Starts when the last byte of the request was received.
    pub const fn new(received_ns: u64) -> Self {
        let times = AppTimes { queue_ns: 0, app_ns: 0, write_ns: 0 };
        Self { times, mark_ns: received_ns, has_begun: false }
    }

    /// The application is called, or continues after its client has read.
    pub fn enter(&mut self, now_ns: u64) {
        let waited_ns = self.since_mark(now_ns);
        if std::mem::replace(&mut self.has_begun, true) {
            self.times.write_ns += waited_ns;
        } else {
            self.times.queue_ns = waited_ns;
        }
    }

    /// The application has returned, or waits for its client.
    pub const fn leave(&mut self, now_ns: u64) {
        self.times.app_ns += self.since_mark(now_ns);
    }

    /// The times so far.
    pub const fn times(&self) -> AppTimes {
        self.times
    }

    const fn since_mark(&mut self, now_ns: u64) -> u64 {
        let passed_ns = now_ns.saturating_sub(self.mark_ns);
        self.mark_ns = now_ns;
        passed_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_belongs_to_one_phase() {
        let mut clock = AppClock::new(100);
        for (enter_ns, leave_ns) in [(130, 150), (155, 161), (170, 170)] {
            clock.enter(enter_ns);
            clock.leave(leave_ns);
        }
        assert_eq!(clock.times(), AppTimes { queue_ns: 30, app_ns: 26, write_ns: 14 });
    }

    #[test]
    fn a_clock_of_an_earlier_iteration_does_not_wrap() {
        let mut clock = AppClock::new(100);
        clock.enter(90);
        clock.leave(80);
        assert_eq!(clock.times(), AppTimes::default());
    }
}
