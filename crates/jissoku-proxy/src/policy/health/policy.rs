//! The rules of ejection and return, and active checks: after `rise` passes in a row a server is up,
//! after `fall` failures down.

use crate::policy::random::Random;

/// When servers are ejected, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthPolicy {
    /// Failures in a row that eject a server.
    pub failures: u32,
    /// The first ejection's time, doubled with each that follows.
    pub ejection_ns: u64,
    /// The longest ejection. A server that served this long since its return begins anew.
    pub ejection_ns_max: u64,
    /// At most this share of the servers is ejected, rounded down.
    pub ejected_percent_max: u32,
    /// For how long a server's weight grows after its return.
    pub slow_start_ns: u64,
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            failures: 3,
            ejection_ns: 1_000_000_000,
            ejection_ns_max: 30_000_000_000,
            ejected_percent_max: 50,
            slow_start_ns: 10_000_000_000,
        }
    }
}

/// How a server is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbePolicy {
    /// The time between two probes, of which up to 20 % are added or subtracted by chance.
    pub every_ns: u64,
    /// Passes in a row after which a server that was down is up.
    pub rise: u32,
    /// Failures in a row after which a server is down.
    pub fall: u32,
}

impl Default for ProbePolicy {
    fn default() -> Self {
        Self { every_ns: 2_000_000_000, rise: 2, fall: 3 }
    }
}

/// The active checks of one server, whose result goes to all workers through
/// `ServerState::set_probe`. Until `fall` failures in a row it counts as up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Probe {
    is_down: bool,
    /// Results in a row that speak against the present state.
    contrary: u32,
}

impl Probe {
    /// The state of a server that is taken for up or down at first.
    pub const fn starting(is_up: bool) -> Self {
        Self { is_down: !is_up, contrary: 0 }
    }

    /// Adds a result; the new state, if it has changed: whether the server is up.
    pub fn observe(&mut self, has_passed: bool, policy: &ProbePolicy) -> Option<bool> {
        if has_passed != self.is_down {
            self.contrary = 0;
            return None;
        }
        self.contrary += 1;
        let needed = if self.is_down { policy.rise } else { policy.fall };
        if self.contrary < needed {
            return None;
        }
        *self = Self { is_down: !self.is_down, contrary: 0 };
        Some(!self.is_down)
    }

    /// The time of the next probe: spread, so that servers are not probed at once.
    pub fn next_ns(now_ns: u64, policy: &ProbePolicy, random: &mut Random) -> u64 {
        let fifth = policy.every_ns / 5;
        now_ns + policy.every_ns - fifth + random.below(2 * fifth + 1)
    }
}
