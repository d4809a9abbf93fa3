//! One direction of a network: when a packet that arrives departs, if it does.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use serde::Serialize;

use crate::oracle::{Delay, Rng};

/// Separates the random numbers of losses and jitter: the same seed with another jitter loses the
/// same packets.
const JITTER_SEED: u64 = 0x1177_E12A;

const BITS_PER_BYTE: u128 = 8;
const SECOND_NS: u128 = 1_000_000_000;

/// Losses in bursts: a chain of two states, in one of which all packets are lost (Gilbert, 1960).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    begins: f64,
    goes_on: f64,
    share: f64,
}

impl Loss {
    /// Loses this share of the packets, each by itself.
    ///
    /// `None` if it is not between 0 and 1.
    pub fn independent(share: f64) -> Option<Self> {
        let is_share = (0.0..=1.0).contains(&share);
        is_share.then_some(Self { begins: share, goes_on: share, share })
    }

    /// Loses this share of the packets, on average `burst` in succession.
    ///
    /// `None` if it is not between 0 and 1, or if a burst is too short for it: one packet, and with
    /// a share above one half more than that.
    pub fn in_bursts(share: f64, burst: f64) -> Option<Self> {
        let begins = share / (burst * (1.0 - share));
        let is_possible = (0.0..1.0).contains(&share) && burst >= 1.0 && begins <= 1.0;
        is_possible.then_some(Self { begins, goes_on: 1.0 - 1.0 / burst, share })
    }
}

/// The properties of one direction; the default has no effect.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSettings {
    /// From the end of a packet's transmission to its departure.
    pub delay_ns: u64,
    /// In addition, by chance; packets can overtake each other.
    pub jitter: Delay,
    /// Packets that are lost on the way, after their transmission.
    pub loss: Loss,
    /// Bits per second of IP packets; `None`: a transmission takes no time.
    pub rate_bps: Option<NonZeroU64>,
    /// Bytes that wait or are transmitted at most; what arrives beyond that is dropped.
    pub queue_bytes: u64,
}

impl LinkSettings {
    /// That of a small router: 10 ms at 100 Mbit/s.
    pub const QUEUE_BYTES: u64 = 128 * 1024;
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            delay_ns: 0,
            jitter: Delay::Constant(0),
            loss: Loss { begins: 0.0, goes_on: 0.0, share: 0.0 },
            rate_bps: None,
            queue_bytes: Self::QUEUE_BYTES,
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It departs at this time, in nanoseconds of the clock of the arrivals.
    Departs(u64),
    /// It is lost on the way.
    Lost,
    /// It found the queue full.
    QueueFull,
}

/// What has arrived, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON")]
pub struct LinkCounters {
    pub packets: u64,
    pub bytes: u64,
    pub lost: u64,
    pub queue_full: u64,
    /// The most bytes that waited or were transmitted at the same time.
    pub queue_bytes_max: u64,
}

/// One direction of a network. The fate of the n-th packet depends on the seed and on n, but for the
/// queue, which depends on when packets arrive.
#[derive(Clone, Debug)]
pub struct Link {
    settings: LinkSettings,
    loss_rng: Rng,
    jitter_rng: Rng,
    is_losing: bool,
    /// The packets that wait or are transmitted: when the transmission of each ends, and its bytes.
    queue: VecDeque<(u64, u64)>,
    queued_bytes: u64,
    free_ns: u64,
    counters: LinkCounters,
}

impl Link {
    /// A link that is idle.
    pub fn new(settings: LinkSettings, seed: u64) -> Self {
        let mut loss_rng = Rng::new(seed);
        // The chain begins as it is on average.
        let is_losing = loss_rng.fraction() <= settings.loss.share;
        Self {
            settings,
            loss_rng,
            jitter_rng: Rng::new(seed ^ JITTER_SEED),
            is_losing,
            queue: VecDeque::new(),
            queued_bytes: 0,
            free_ns: 0,
            counters: LinkCounters::default(),
        }
    }

    /// The fate of a packet that arrives. Times do not decrease from call to call.
    pub fn arrive(&mut self, now_ns: u64, bytes: u64) -> Fate {
        let number = self.counters.packets;
        self.counters.packets += 1;
        self.counters.bytes += bytes;
        // Drawn for each packet, so that the queue moves no later draw.
        let loss = &self.settings.loss;
        let share = if self.is_losing { loss.goes_on } else { loss.begins };
        self.is_losing = self.loss_rng.fraction() <= share;
        let jitter_ns = self.settings.jitter.draw(&mut self.jitter_rng, number);
        let Some(sent_ns) = self.transmit(now_ns, bytes) else {
            self.counters.queue_full += 1;
            return Fate::QueueFull;
        };
        if self.is_losing {
            self.counters.lost += 1;
            return Fate::Lost;
        }
        Fate::Departs(sent_ns.saturating_add(self.settings.delay_ns).saturating_add(jitter_ns))
    }

    /// When the transmission of a packet ends; `None` if it finds the queue full.
    fn transmit(&mut self, now_ns: u64, bytes: u64) -> Option<u64> {
        let Some(rate_bps) = self.settings.rate_bps else { return Some(now_ns) };
        while let Some(&(end_ns, sent)) = self.queue.front()
            && end_ns <= now_ns
        {
            self.queue.pop_front();
            self.queued_bytes -= sent;
        }
        if self.queued_bytes + bytes > self.settings.queue_bytes {
            return None;
        }
        let needed = u128::from(bytes) * BITS_PER_BYTE * SECOND_NS;
        let takes_ns = needed.div_ceil(u128::from(rate_bps.get()));
        let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
        self.free_ns = self.free_ns.max(now_ns).saturating_add(takes_ns);
        self.queue.push_back((self.free_ns, bytes));
        self.queued_bytes += bytes;
        self.counters.queue_bytes_max = self.counters.queue_bytes_max.max(self.queued_bytes);
        Some(self.free_ns)
    }

    /// What has arrived since this link was made.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
