//! Which server gets a request. The numbers are shared by all workers, the choice is local.

use std::cmp::Ordering;

use crate::policy::fleet::{Fleet, Lease, Server};
use crate::policy::health::Admission;
use crate::policy::random::{Random, mix};

/// How servers are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// The fewest requests in flight per weight: a scan up to 16 servers, two random ones beyond.
    #[default]
    Least,
    /// The better of two random servers (Mitzenmacher 2001).
    TwoChoices,
    /// The better of two random servers by latency and requests in flight (peak EWMA).
    Ewma,
    /// In turn, by weight, without bursts to the heaviest (smooth weighted round robin).
    RoundRobin,
    /// By a key of the request: rendezvous hashing (Thaler and Ravishankar 1998) with bounded load.
    Hash,
}

/// Why there is no server for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoServer {
    /// Servers serve, and all are full: queue it, or 503.
    Full,
    /// All were tried, are being removed, refuse connections, or fail their probes: 503.
    Unavailable,
}

/// A worker's way of choosing, with the state that stays local.
#[derive(Debug, Clone)]
pub struct Chooser {
    balance: Balance,
    random: Random,
    turns: Turns,
}

impl Chooser {
    /// Each worker has its own seed, so that workers do not begin with the same server.
    pub const fn new(balance: Balance, seed: u64) -> Self {
        Self { balance, random: Random::new(seed), turns: Turns::new() }
    }

    /// Chooses a server and counts the request there.
    ///
    /// # Errors
    ///
    /// No server can take the request now.
    pub fn choose(&mut self, fleet: &Fleet, selection: Selection<'_>) -> Result<Lease, NoServer> {
        for in_panic in [false, true] {
            let candidates = Candidates { fleet, selection, in_panic };
            // Another worker can take the last place or the trial first; then the next best.
            for _ in 0..=fleet.servers().len() {
                let Some(index) = self.pick(candidates) else { break };
                let Some(server) = fleet.servers().get(index) else { break };
                let admission = server.state().admission(selection.now_ns);
                if let Some(lease) = fleet.acquire(index, admission, selection.now_ns) {
                    return Ok(lease);
                }
            }
            let is_serving = |(index, server): (usize, &Server)| {
                !selection.tried.contains(&index)
                    && server.state().admission(selection.now_ns) == Admission::Serving
            };
            if fleet.servers().iter().enumerate().any(is_serving) {
                return Err(NoServer::Full);
            }
        }
        Err(NoServer::Unavailable)
    }

    fn pick(&mut self, candidates: Candidates<'_>) -> Option<usize> {
        let few = candidates.fleet.servers().len() <= SCAN_MAX;
        match self.balance {
            Balance::Least if few => scan(candidates, &mut self.random, by_in_flight),
            Balance::Least | Balance::TwoChoices => {
                two_choices(candidates, &mut self.random, by_in_flight)
            }
            Balance::Ewma => by_latency(candidates, &mut self.random),
            Balance::RoundRobin => self.turns.next(candidates, &mut self.random),
            Balance::Hash => by_hash(candidates),
        }
    }
}

/// What a choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection<'a> {
    /// Key for hash balancing: `random::hash` of the request's key.
    pub hash: u64,
    /// Servers, by index, that this request must not get again.
    pub tried: &'a [usize],
    /// The present.
    pub now_ns: u64,
}

/// A server that can be chosen.
#[derive(Debug, Clone, Copy)]
struct Candidate<'a> {
    index: usize,
    server: &'a Server,
    /// In thousandths of the configured unit; smaller after a return.
    weight: u64,
    in_flight: u64,
}

/// What a choice is made from: the servers of one admission that were not tried and are not full.
#[derive(Debug, Clone, Copy)]
struct Candidates<'a> {
    fleet: &'a Fleet,
    selection: Selection<'a>,
    /// None is left: also ejected servers.
    in_panic: bool,
}

impl<'a> Candidates<'a> {
    fn iter(self) -> impl Iterator<Item = Candidate<'a>> {
        (0..self.fleet.servers().len()).filter_map(move |index| self.candidate(index))
    }

    fn candidate(self, index: usize) -> Option<Candidate<'a>> {
        let server = self.fleet.servers().get(index)?;
        let is_admitted = match server.state().admission(self.selection.now_ns) {
            Admission::Serving | Admission::Trial => true,
            Admission::Ejected => self.in_panic,
            Admission::Never => false,
        };
        if !is_admitted || server.is_full() || self.selection.tried.contains(&index) {
            return None;
        }
        let permille = server.state().weight_permille(self.selection.now_ns, self.fleet.policy());
        Some(Candidate {
            index,
            server,
            weight: u64::from(server.weight()) * permille,
            in_flight: u64::from(server.state().in_flight()),
        })
    }
}

/// Up to this many servers all are compared.
const SCAN_MAX: usize = 16;

/// Draws before a scan replaces them, when few of many servers can be chosen.
const DRAWS_MAX: usize = 8;

/// Compares all; of equal ones a random one, so that workers do not choose the same.
fn scan(
    candidates: Candidates<'_>,
    random: &mut Random,
    compare: impl Fn(&Candidate<'_>, &Candidate<'_>) -> Ordering,
) -> Option<usize> {
    let mut best: Option<Candidate<'_>> = None;
    let mut equal = 1;
    for candidate in candidates.iter() {
        let order = best.map_or(Ordering::Less, |best| compare(&candidate, &best));
        equal = match order {
            Ordering::Less => 1,
            Ordering::Equal => equal + 1,
            Ordering::Greater => equal,
        };
        if order == Ordering::Less || (order == Ordering::Equal && random.below(equal) == 0) {
            best = Some(candidate);
        }
    }
    best.map(|best| best.index)
}

/// The better of two different servers that are drawn by their weights.
fn two_choices(
    candidates: Candidates<'_>,
    random: &mut Random,
    compare: impl Fn(&Candidate<'_>, &Candidate<'_>) -> Ordering,
) -> Option<usize> {
    let mut first: Option<Candidate<'_>> = None;
    for _ in 0..DRAWS_MAX {
        let except = first.map(|first| first.index);
        let Some(drawn) = candidates.fleet.draw(except, random) else { break };
        let Some(candidate) = candidates.candidate(drawn) else { continue };
        match first {
            None => first = Some(candidate),
            Some(other) => {
                let better = if compare(&candidate, &other).is_lt() { candidate } else { other };
                return Some(better.index);
            }
        }
    }
    // One server alone has nothing to be better than.
    scan(candidates, random, compare)
}

/// By requests per weight, with the one that is to come.
fn by_in_flight(one: &Candidate<'_>, other: &Candidate<'_>) -> Ordering {
    let ours = u128::from(one.in_flight + 1) * u128::from(other.weight);
    ours.cmp(&(u128::from(other.in_flight + 1) * u128::from(one.weight)))
}

/// Latency of a server that has not responded to any of its requests yet.
const UNKNOWN: f64 = 1e18;

/// The better of two random servers. With the best of all, every worker would choose the same until
/// its latency has changed.
fn by_latency(candidates: Candidates<'_>, random: &mut Random) -> Option<usize> {
    let now_ns = candidates.selection.now_ns;
    two_choices(candidates, random, |one, other| load(one, now_ns).total_cmp(&load(other, now_ns)))
}

/// The latency times the requests in flight with the one that is to come, per weight. A server of
/// which nothing is known gets one request, and others when that has its response.
#[expect(clippy::cast_precision_loss, reason = "a comparison of latencies needs few digits")]
fn load(candidate: &Candidate<'_>, now_ns: u64) -> f64 {
    let latency = match candidate.server.state().latency_ns(now_ns) {
        Some(ns) => f64::from(ns),
        None if candidate.in_flight == 0 => 0.0,
        None => UNKNOWN,
    };
    latency * (candidate.in_flight + 1) as f64 / candidate.weight.max(1) as f64
}

/// Turns that a new worker skips at most, so that workers do not begin with the same server.
const SKIPPED_MAX: u64 = 256;

/// Smooth weighted round robin, as nginx's: each server collects its weight, the richest is chosen and
/// pays the sum. Of weights 5, 1, 1 the order is a a b a c a a.
#[derive(Debug, Clone)]
struct Turns {
    collected: Vec<i64>,
}

impl Turns {
    const fn new() -> Self {
        Self { collected: Vec::new() }
    }

    fn next(&mut self, candidates: Candidates<'_>, random: &mut Random) -> Option<usize> {
        let count = candidates.fleet.servers().len();
        if self.collected.len() != count {
            self.collected = vec![0; count];
            for _ in 0..random.below(candidates.fleet.total_weight().min(SKIPPED_MAX)) {
                self.turn(candidates);
            }
        }
        self.turn(candidates)
    }

    fn turn(&mut self, candidates: Candidates<'_>) -> Option<usize> {
        let mut best: Option<(usize, i64)> = None;
        let mut sum = 0;
        for candidate in candidates.iter() {
            let weight = i64::try_from(candidate.weight).unwrap_or(i64::MAX / 2);
            let collected = self.collected.get_mut(candidate.index)?;
            *collected = collected.saturating_add(weight);
            sum += weight;
            if best.is_none_or(|(_, most)| *collected > most) {
                best = Some((candidate.index, *collected));
            }
        }
        let (index, _) = best?;
        *self.collected.get_mut(index)? -= sum;
        Some(index)
    }
}

/// Rendezvous hashing with bounded load.
///
/// Each server has a score for each key, and the highest wins: without a table, a server that leaves
/// moves exactly its own keys, evenly to all others. Costs a hash per server; a ring or Maglev's
/// table would pay beyond some hundred servers. A server with more than 1.25 of its fair share in
/// flight passes the key on to the next score (Mirrokni, Thorup and Zadimoghaddam 2018), which
/// bounds what one popular key can do.
fn by_hash(candidates: Candidates<'_>) -> Option<usize> {
    let total: u64 = candidates.iter().map(|candidate| candidate.in_flight + 1).sum();
    let count = u64::try_from(candidates.iter().count()).unwrap_or(u64::MAX);
    let in_flight = total - count;
    let weights: u64 =
        candidates.iter().map(|candidate| u64::from(candidate.server.weight())).sum();
    // A server is within its bound if in_flight < ceil(1.25 * (all in flight + 1) * its share).
    let has_room = |candidate: &Candidate<'_>| {
        let bound = u128::from(in_flight + 1) * 5 * u128::from(candidate.server.weight());
        u128::from(candidate.in_flight) * 4 * u128::from(weights) < bound
    };
    let score = |candidate: &Candidate<'_>| {
        let hash = mix(candidates.selection.hash ^ candidate.server.hash());
        if candidates.fleet.has_equal_weights() {
            hash
        } else {
            weighted(hash, candidate.server.weight())
        }
    };
    // Other workers change the numbers meanwhile; if none seems to have room, the bound is void.
    let key = |candidate: &Candidate<'_>| {
        (has_room(candidate), score(candidate), candidate.server.hash())
    };
    candidates.iter().max_by_key(key).map(|candidate| candidate.index)
}

/// -weight / ln(hash / 2^64), as an integer of the same order: each server wins its weight's share.
#[expect(clippy::cast_precision_loss, reason = "53 bits of a hash are as random as 64")]
fn weighted(hash: u64, weight: u32) -> u64 {
    let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    // Positive floats are ordered as their bits are.
    (-f64::from(weight) / uniform.ln()).to_bits()
}

#[cfg(test)]
mod tests;
