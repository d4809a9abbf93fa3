//! The forwarder: one thread, epoll, and for each direction a heap of packets with their departures.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use jissoku_os::clock::monotonic_ns;
use jissoku_os::epoll::{self, Epoll, Interest};
use jissoku_os::timer;
use jissoku_os::tun::{PACKET_BYTES_MAX, Tun};
use serde::Serialize;

use crate::network::link::{Fate, Link, LinkCounters, LinkSettings};

/// Packets that are received from one device before those that are due depart.
const BATCH: usize = 64;

/// Bytes of packets that are held in one direction at most: seconds of what can be forwarded.
const HELD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Separates the seeds of both directions.
const BACK_SEED: u64 = 0xBAC4;

const EVENTS: usize = 8;

/// Name and version of the JSON schema.
const SCHEMA: &str = "jissoku.network/1";

/// What was forwarded since the settings were made; times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON")]
pub struct NetworkCounters {
    pub schema: &'static str,
    pub there: DirectionCounters,
    pub back: DirectionCounters,
}

/// What was forwarded in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON")]
pub struct DirectionCounters {
    #[serde(flatten)]
    pub link: LinkCounters,
    /// Packets that have departed.
    pub departed: u64,
    /// Packets that the other side did not take, as while its interface is down.
    pub refused: u64,
    /// Packets that were dropped because too many were held.
    pub overflowed: u64,
    /// How much later than decided a packet has departed: the largest, and the sum over all.
    pub lateness_ns_max: u64,
    pub lateness_ns_sum: u64,
}

/// A packet that departs; the earliest first, and of the same time the first that arrived.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    at_ns: u64,
    number: u64,
    packet: Box<[u8]>,
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// From one device to the other.
#[derive(Debug)]
struct Direction {
    link: Link,
    held: BinaryHeap<Reverse<Held>>,
    held_bytes: usize,
    number: u64,
    counters: DirectionCounters,
}

impl Direction {
    fn new(settings: LinkSettings, seed: u64) -> Self {
        Self {
            link: Link::new(settings, seed),
            held: BinaryHeap::new(),
            held_bytes: 0,
            number: 0,
            counters: DirectionCounters::default(),
        }
    }

    fn take(&mut self, packet: &[u8], now_ns: u64) {
        let bytes = u64::try_from(packet.len()).unwrap_or(u64::MAX);
        let Fate::Departs(at_ns) = self.link.arrive(now_ns, bytes) else { return };
        if self.held_bytes + packet.len() > HELD_BYTES_MAX {
            self.counters.overflowed += 1;
            return;
        }
        self.held_bytes += packet.len();
        self.held.push(Reverse(Held { at_ns, number: self.number, packet: packet.into() }));
        self.number += 1;
    }

    /// Sends what is due, and returns when the next packet is.
    fn send_due(&mut self, to: &Tun) -> io::Result<Option<u64>> {
        while let Some(Reverse(first)) = self.held.peek() {
            let now_ns = monotonic_ns();
            if first.at_ns > now_ns {
                return Ok(Some(first.at_ns));
            }
            let late_ns = now_ns - first.at_ns;
            let is_taken = to.send(&first.packet)?;
            self.held_bytes -= first.packet.len();
            self.held.pop();
            let counters = &mut self.counters;
            *(if is_taken { &mut counters.departed } else { &mut counters.refused }) += 1;
            counters.lateness_ns_max = counters.lateness_ns_max.max(late_ns);
            counters.lateness_ns_sum += late_ns;
        }
        Ok(None)
    }

    fn counters(&self) -> DirectionCounters {
        DirectionCounters { link: self.link.counters(), ..self.counters }
    }
}

/// A network between two interfaces, which exist as long as this does.
///
/// A packet arrives when it is received here: the time until then is added to its delay, and not
/// known. While this thread waits for a core, packets wait in the interface.
#[derive(Debug)]
pub struct Emulator {
    devices: [Tun; 2],
    /// From the first device, and from the second.
    directions: [Direction; 2],
    epoll: Epoll,
    spin_ns: u64,
}

impl Emulator {
    /// Creates both interfaces, and a network between them that has no effect. For the last
    /// `spin_ns` before a departure it does not sleep. `inputs` can end [`Emulator::forward`].
    ///
    /// # Errors
    /// What failed, and its error: that of [`Tun::create`] or of `epoll(7)`.
    pub fn open(
        near: &str,
        far: &str,
        spin_ns: u64,
        inputs: &[BorrowedFd<'_>],
    ) -> Result<Self, (String, io::Error)> {
        let device = |name: &str| Tun::create(name).map_err(|error| (name.to_owned(), error));
        let devices = [device(near)?, device(far)?];
        let epoll = watching(&devices, inputs).map_err(|error| ("its input".to_owned(), error))?;
        let direction = || Direction::new(LinkSettings::default(), 0);
        Ok(Self { devices, directions: [direction(), direction()], epoll, spin_ns })
    }

    /// Replaces the properties of the network, with new counters. Packets that are on their way
    /// depart when they would have.
    pub fn set(&mut self, there_and_back: [LinkSettings; 2], seed: u64) {
        let settings = there_and_back.into_iter().zip([seed, seed ^ BACK_SEED]);
        for (direction, (settings, seed)) in self.directions.iter_mut().zip(settings) {
            direction.link = Link::new(settings, seed);
            direction.counters = DirectionCounters::default();
        }
    }

    /// What was forwarded since the last change.
    pub fn counters(&self) -> NetworkCounters {
        let [there, back] = &self.directions;
        NetworkCounters { schema: SCHEMA, there: there.counters(), back: back.counters() }
    }

    /// Forwards until one of the inputs is readable, and returns the number of that.
    ///
    /// # Errors
    /// The error of epoll, or of an interface that was removed.
    pub fn forward(&mut self) -> io::Result<usize> {
        timer::set_min_timer_slack()?;
        let mut events = [epoll::no_event(); EVENTS];
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        loop {
            let sleep = self.send_due()?.map(|at_ns| {
                let left_ns = at_ns.saturating_sub(monotonic_ns());
                Duration::from_nanos(left_ns.saturating_sub(self.spin_ns))
            });
            let count = self.epoll.wait(&mut events, sleep)?;
            for event in &events[..count] {
                let source = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
                let Some(device) = self.devices.get(source) else {
                    return Ok(source - self.devices.len());
                };
                for _packet in 0..BATCH {
                    let Some(bytes) = device.receive(&mut buffer)? else { break };
                    self.directions[source].take(&buffer[..bytes], monotonic_ns());
                }
            }
        }
    }

    /// Sends what is due in both directions, and returns when the next packet is.
    fn send_due(&mut self) -> io::Result<Option<u64>> {
        let [near, far] = &self.devices;
        let [there, back] = &mut self.directions;
        let next = [there.send_due(far)?, back.send_due(near)?];
        Ok(next.into_iter().flatten().min())
    }
}

/// Has the devices as numbers 0 and 1, and the inputs from 2 on.
fn watching(devices: &[Tun; 2], inputs: &[BorrowedFd<'_>]) -> io::Result<Epoll> {
    let epoll = Epoll::new()?;
    let sources = devices.iter().map(Tun::as_fd).chain(inputs.iter().copied());
    for (number, source) in (0..).zip(sources) {
        epoll.add(source, number, Interest::IN)?;
    }
    Ok(epoll)
}
