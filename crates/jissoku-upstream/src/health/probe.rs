//! Active checks: after `rise` passes in a row a server is up, after `fall` failures down.
//!
//! One worker probes; the result goes to all through `ServerState::set_probe`.

use crate::random::Random;

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

/// The probes of one server. Until `fall` failures in a row it counts as up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Probe {
    is_down: bool,
    /// Results in a row that speak against the present state.
    contrary: u32,
}

impl Probe {
    /// Of a server that is up or down at first.
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
