//! Which server gets a request. The numbers are shared by all workers, the choice is local.

mod candidates;
mod ewma;
mod hashed;
mod least;
mod round_robin;

use self::candidates::Candidates;
pub use self::candidates::Selection;
use crate::fleet::{Fleet, Lease, Server};
use crate::health::Admission;
use crate::random::Random;

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
    turns: round_robin::Turns,
}

impl Chooser {
    /// Each worker has its own seed, so that workers do not begin with the same server.
    pub const fn new(balance: Balance, seed: u64) -> Self {
        Self { balance, random: Random::new(seed), turns: round_robin::Turns::new() }
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
        let few = candidates.fleet.servers().len() <= least::SCAN_MAX;
        match self.balance {
            Balance::Least if few => least::scan(candidates, &mut self.random, least::compare),
            Balance::Least | Balance::TwoChoices => {
                least::two_choices(candidates, &mut self.random, least::compare)
            }
            Balance::Ewma => ewma::pick(candidates, &mut self.random),
            Balance::RoundRobin => self.turns.next(candidates, &mut self.random),
            Balance::Hash => hashed::pick(candidates),
        }
    }
}

#[cfg(test)]
mod tests;
