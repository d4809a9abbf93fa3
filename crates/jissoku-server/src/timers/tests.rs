use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const TICK_NS: u64 = 1 << TICK_BITS;

/// What the wheel should do: in order of ticks, and among equals in order of coming.
#[derive(Debug, Default)]
struct Model {
    entries: BTreeMap<(u64, u32), u32>,
    count: u32,
}

impl Model {
    fn add(&mut self, due_ns: u64, key: u32, overdue_tick: u64) {
        let tick = due_ns.div_ceil(TICK_NS).min(TICK_MAX).max(overdue_tick);
        self.entries.insert((tick, self.count), key);
        self.count += 1;
    }

    fn earliest_ns(&self) -> Option<u64> {
        self.entries.keys().next().map(|&(tick, _)| tick * TICK_NS)
    }

    fn take_due(&mut self, now_ns: u64) -> Option<u32> {
        let entry = self.entries.first_entry()?;
        (entry.key().0 <= now_ns >> TICK_BITS).then(|| entry.remove())
    }
}

/// Time passes by the first number, and then delays are added.
fn steps() -> impl Strategy<Value = Vec<(u64, Vec<u64>)>> {
    let span_ns = || {
        prop_oneof![
            Just(0),
            Just(10_000_000),
            0..5_000_u64,
            0..100_000_000_u64,
            (0..42_u32).prop_map(|bits| 1 << bits),
            0..3_600_000_000_000_u64,
        ]
    };
    prop::collection::vec((span_ns(), prop::collection::vec(span_ns(), 0..20)), 0..60)
}

proptest! {
    #[test]
    fn the_wheel_is_a_sorted_list(start_ns in 0..u64::MAX >> 8, steps in steps()) {
        let (mut wheel, mut model) = (Timers::default(), Model::default());
        let mut now_ns = start_ns;
        let mut number = 0;
        for (passes_ns, delays_ns) in steps {
            now_ns += passes_ns;
            loop {
                let taken = wheel.take_due(now_ns);
                prop_assert_eq!(taken, model.take_due(now_ns));
                prop_assert_eq!(wheel.earliest_ns(), model.earliest_ns());
                if taken.is_none() {
                    break;
                }
            }
            for delay_ns in delays_ns {
                wheel.add(now_ns + delay_ns, number);
                model.add(now_ns + delay_ns, number, wheel.cursor);
                prop_assert_eq!(wheel.earliest_ns(), model.earliest_ns());
                number += 1;
            }
        }
        // What is left is taken at the end of time, and the room for it was used again.
        let most = model.entries.len();
        while let Some(key) = model.take_due(u64::MAX) {
            prop_assert_eq!(wheel.take_due(u64::MAX), Some(key));
        }
        prop_assert_eq!(wheel.take_due(u64::MAX), None);
        prop_assert_eq!((wheel.levels_used, wheel.slots_used), (0, [0; LEVELS]));
        prop_assert!(wheel.entries.len() >= most);
    }
}

/// Takes everything that comes by `now_ns`.
fn take_all(timers: &mut Timers<()>, now_ns: u64) -> usize {
    std::iter::from_fn(|| timers.take_due(now_ns)).count()
}

#[test]
fn no_timer_expires_too_early() {
    let mut timers = Timers::default();
    for due_ns in [3_000_000, 1_000_001, 2_000_000, 1_000_001] {
        timers.add(due_ns, ());
    }
    assert_eq!(take_all(&mut timers, 1_000_000), 0);
    let earliest_ns = timers.earliest_ns().expect("four wait");
    assert!((1_000_001..1_000_001 + TICK_NS).contains(&earliest_ns));
    assert_eq!(take_all(&mut timers, earliest_ns), 2);
    assert_eq!(take_all(&mut timers, 1_999_999), 0);
    assert_eq!(take_all(&mut timers, 9_000_000), 2);
    assert_eq!(timers.earliest_ns(), None);
}

#[test]
fn what_is_overdue_is_due() {
    let mut timers = Timers::default();
    timers.add(5_000_000, ());
    assert_eq!(take_all(&mut timers, 9_000_000), 1);
    timers.add(1, ());
    assert_eq!(take_all(&mut timers, 9_000_000), 1);
}

#[test]
fn the_end_of_time_can_be_waited_for() {
    let mut timers = Timers::default();
    timers.add(u64::MAX, ());
    assert_eq!(take_all(&mut timers, u64::MAX / 2), 0);
    assert_eq!(timers.earliest_ns(), Some(TICK_MAX << TICK_BITS));
    assert_eq!(take_all(&mut timers, u64::MAX), 1);
}

#[test]
fn room_is_used_again() {
    let mut wheel = Timers::default();
    for now_ns in (0..100_000_000).step_by(100_000) {
        while wheel.take_due(now_ns).is_some() {}
        wheel.add(now_ns + 10_000_000, ());
    }
    assert!(wheel.entries.len() <= 102, "a hundred were pending at any time");
}

/// Runs `pending` connections in a circle, each with a delay of `delay_ns` again and again, and
/// returns how often an entry was put into a list per thousand delays.
fn links_per_thousand(pending: u64, delay_ns: u64) -> u64 {
    let mut wheel = Timers::default();
    let step_ns = (delay_ns / pending).max(1);
    let mut delays = 0;
    for now_ns in (0..4 * delay_ns).step_by(usize::try_from(step_ns).expect("64 bits")) {
        while wheel.take_due(now_ns).is_some() {}
        wheel.add(now_ns + delay_ns, ());
        delays += 1;
    }
    assert!(wheel.entries.len() as u64 >= pending);
    wheel.links * 1_000 / delays
}

#[test]
fn a_delay_costs_the_same_with_a_hundred_thousand_others() {
    for pending in [100, 1_000, 10_000, 100_000] {
        // Once when it is added, and once for each further digit that the delay has in base 64; a
        // fourth time for the few whose delay crosses from one slot of the level above to the next.
        let links = links_per_thousand(pending, 10_000_000);
        assert!(links < 3_200, "{links} with {pending} pending");
    }
}
