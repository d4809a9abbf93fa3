//! Ejection of a server by the results of its requests, as one word.
//!
//! Serving -> ejected for a time -> one request as a trial -> serving, or ejected for twice as long.

use super::policy::HealthPolicy;

const MS: u64 = 1_000_000;
const TIME_BITS: u32 = 48;
const TIME_MAX: u64 = (1 << TIME_BITS) - 1;
const LEVEL_MAX: u8 = 31;

/// The state of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passive {
    /// Whether it serves.
    pub ejection: Ejection,
    /// Serving: since when. Ejected: until when. In trial: when another trial may begin.
    pub at_ms: u64,
    /// Ejections in succession.
    pub level: u8,
    /// The failure that ejected it was a refused connection: no request can succeed.
    pub is_refusing: bool,
}

/// The three states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ejection {
    /// Requests as usual.
    Serving,
    /// No requests before a time; then one as a trial.
    Ejected,
    /// That one is under way.
    Trial,
}

impl Passive {
    /// A server that has served for ever.
    pub const INITIAL: Self =
        Self { ejection: Ejection::Serving, at_ms: 0, level: 0, is_refusing: false };

    /// A server that begins to serve now.
    pub(super) const fn returned(self, now_ns: u64) -> Self {
        Self { ejection: Ejection::Serving, at_ms: now_ns / MS, is_refusing: false, ..self }
    }

    /// After its failures: out for a time that doubles.
    pub(super) fn ejected(self, now_ns: u64, policy: &HealthPolicy, is_refusing: bool) -> Self {
        let now_ms = now_ns / MS;
        let max_ms = policy.ejection_ns_max / MS;
        let is_stable =
            self.ejection == Ejection::Serving && now_ms - self.at_ms.min(now_ms) >= max_ms;
        let level = if is_stable { 1 } else { self.level.saturating_add(1).min(LEVEL_MAX) };
        let time_ms = (policy.ejection_ns / MS).saturating_mul(1 << (level - 1)).min(max_ms);
        Self { ejection: Ejection::Ejected, at_ms: now_ms + time_ms, level, is_refusing }
    }

    /// The trial, if its time has come.
    pub(super) fn claimed(self, now_ns: u64, policy: &HealthPolicy) -> Option<Self> {
        let again_ms = (now_ns + policy.ejection_ns_max) / MS;
        self.is_trial_due(now_ns).then_some(Self {
            ejection: Ejection::Trial,
            at_ms: again_ms,
            ..self
        })
    }

    /// A trial without a result: another may begin at once.
    pub(super) const fn released(self) -> Self {
        Self { ejection: Ejection::Ejected, at_ms: 0, ..self }
    }

    pub(super) fn is_trial_due(self, now_ns: u64) -> bool {
        self.ejection != Ejection::Serving && self.at_ms <= now_ns / MS
    }

    pub(super) fn pack(self) -> u64 {
        let ejection = match self.ejection {
            Ejection::Serving => 0,
            Ejection::Ejected => 1,
            Ejection::Trial => 2,
        };
        self.at_ms.min(TIME_MAX)
            | ejection << TIME_BITS
            | u64::from(self.is_refusing) << 50
            | u64::from(self.level) << 56
    }

    pub(super) fn unpack(word: u64) -> Self {
        let ejection = match (word >> TIME_BITS) & 3 {
            0 => Ejection::Serving,
            1 => Ejection::Ejected,
            _ => Ejection::Trial,
        };
        let level = u8::try_from(word >> 56).unwrap_or(LEVEL_MAX);
        Self { ejection, at_ms: word & TIME_MAX, level, is_refusing: (word >> 50) & 1 == 1 }
    }
}
