use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const PACKETS: u64 = 20_000;

/// Arrivals as the times between them, in nanoseconds, and bytes.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap_ns = prop_oneof![Just(0), 1..1_000u64, 1..2_000_000u64];
    vec((gap_ns, 20..1_500u64), 1..400)
}

/// Each packet with its time of arrival.
fn timed(arrivals: &[(u64, u64)]) -> impl Iterator<Item = (u64, u64)> {
    arrivals.iter().scan(0, |now_ns, &(gap_ns, bytes)| {
        *now_ns += gap_ns;
        Some((*now_ns, bytes))
    })
}

fn fates(settings: &LinkSettings, seed: u64, arrivals: &[(u64, u64)]) -> Vec<Fate> {
    let mut link = Link::new(settings.clone(), seed);
    timed(arrivals).map(|(now_ns, bytes)| link.arrive(now_ns, bytes)).collect()
}

fn departure(fate: Fate) -> Option<u64> {
    match fate {
        Fate::Departs(at_ns) => Some(at_ns),
        Fate::Lost | Fate::QueueFull => None,
    }
}

fn slow(rate_bps: u64, queue_bytes: u64, delay_ns: u64) -> LinkSettings {
    LinkSettings {
        rate_bps: NonZeroU64::new(rate_bps),
        queue_bytes,
        delay_ns,
        ..LinkSettings::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of packets")]
fn lost_share(loss: Loss, seed: u64) -> f64 {
    let mut link = Link::new(LinkSettings { loss, ..LinkSettings::default() }, seed);
    let lost = (0..PACKETS).filter(|&now_ns| link.arrive(now_ns, 1) == Fate::Lost).count();
    assert_eq!(link.counters().lost, lost as u64);
    lost as f64 / PACKETS as f64
}

proptest! {
    #[test]
    fn without_jitter_packets_depart_in_their_order_and_not_early(
        arrivals in arrivals(), rate in 1_000..10_000_000_000u64, delay_ns in 0..100_000_000u64,
    ) {
        let settings = slow(rate, 20_000, delay_ns);
        let mut last_ns = 0;
        for (fate, (now_ns, _)) in fates(&settings, 1, &arrivals).into_iter().zip(timed(&arrivals)) {
            if let Some(at_ns) = departure(fate) {
                prop_assert!(at_ns >= last_ns && at_ns >= now_ns + delay_ns);
                last_ns = at_ns;
            }
        }
    }

    #[test]
    fn no_span_of_time_has_more_than_the_rate(
        arrivals in arrivals(), rate in 1_000..10_000_000_000u64, delay_ns in 0..100_000_000u64,
    ) {
        let found = fates(&slow(rate, 20_000, delay_ns), 1, &arrivals);
        let sent: Vec<(u64, u64)> = found
            .into_iter()
            .zip(&arrivals)
            .filter_map(|(fate, (_, bytes))| departure(fate).map(|at_ns| (at_ns, *bytes)))
            .collect();
        for (first, (from_ns, _)) in sent.iter().enumerate() {
            let mut bits = 0;
            for (to_ns, bytes) in &sent[first + 1..] {
                bits += u128::from(bytes * 8);
                let allowed = u128::from(rate) * u128::from(to_ns - from_ns);
                prop_assert!(bits * 1_000_000_000 <= allowed);
            }
        }
    }

    #[test]
    fn a_packet_is_dropped_exactly_when_the_queue_has_no_room_for_it(
        arrivals in arrivals(), rate in 1_000..1_000_000_000u64, queue_bytes in 100..20_000u64,
    ) {
        let settings = slow(rate, queue_bytes, 0);
        let mut waiting: Vec<(u64, u64)> = Vec::new();
        for (fate, (now_ns, bytes)) in fates(&settings, 1, &arrivals).into_iter().zip(timed(&arrivals)) {
            waiting.retain(|(until_ns, _)| *until_ns > now_ns);
            let queued: u64 = waiting.iter().map(|(_, bytes)| bytes).sum();
            prop_assert!(queued <= queue_bytes);
            prop_assert_eq!(fate == Fate::QueueFull, queued + bytes > queue_bytes);
            waiting.extend(departure(fate).map(|until_ns| (until_ns, bytes)));
        }
    }

    #[test]
    fn a_link_that_is_not_limited_adds_its_delay_alone(
        arrivals in arrivals(), delay_ns in 0..100_000_000u64,
    ) {
        let settings = LinkSettings { delay_ns, ..LinkSettings::default() };
        let expected = timed(&arrivals).map(|(now_ns, _)| Fate::Departs(now_ns + delay_ns));
        prop_assert_eq!(fates(&settings, 1, &arrivals), expected.collect::<Vec<_>>());
    }

    #[test]
    fn the_same_seed_gives_the_same_fates_and_the_queue_moves_none(
        arrivals in arrivals(), seed: u64, share in 0.0..1.0, burst in 1.0..20.0,
    ) {
        let Some(loss) = Loss::in_bursts(share, burst) else { return Ok(()) };
        let jitter = Delay::Exponential(1_000_000);
        let free = LinkSettings { jitter, loss, ..LinkSettings::default() };
        let limited = LinkSettings { jitter, loss, ..slow(1_000_000, 3_000, 0) };
        let found = fates(&free, seed, &arrivals);
        prop_assert_eq!(&found, &fates(&free, seed, &arrivals));
        for (without, with) in found.iter().zip(fates(&limited, seed, &arrivals)) {
            let is_lost = *without == Fate::Lost;
            prop_assert!(with == Fate::QueueFull || is_lost == (with == Fate::Lost));
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Seven standard deviations: far more seeds than are ever tried stay within.
    #[test]
    fn as_many_packets_are_lost_as_was_asked(
        seed: u64, share in 0.0..=1.0, burst in 1.0..20.0,
    ) {
        for loss in [Loss::independent(share), Loss::in_bursts(share, burst)].into_iter().flatten() {
            let correlation = loss.goes_on - loss.begins;
            let grown = (1.0 + correlation) / (1.0 - correlation).max(f64::EPSILON);
            let deviation = (share * (1.0 - share) * grown.max(0.0) / 20_000.0).sqrt();
            let found = lost_share(loss, seed);
            prop_assert!((found - share).abs() <= 7.0 * deviation + 21.0 / 20_000.0, "{found}");
        }
    }
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "numbers of packets")]
fn bursts_are_as_long_as_was_asked() {
    let loss = Loss::in_bursts(0.05, 4.0).expect("it is possible");
    let mut link = Link::new(LinkSettings { loss, ..LinkSettings::default() }, 7);
    let is_lost: Vec<bool> =
        (0..200_000).map(|now_ns| link.arrive(now_ns, 1) == Fate::Lost).collect();
    let bursts = is_lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let lost = is_lost.iter().filter(|is_lost| **is_lost).count();
    assert!((3.8..4.2).contains(&(lost as f64 / bursts as f64)), "{lost} in {bursts}");
}

#[test]
fn what_cannot_be_lost_is_refused() {
    for share in [-0.1, 1.1, f64::NAN] {
        assert_eq!(Loss::independent(share), None);
        assert_eq!(Loss::in_bursts(share, 2.0), None);
    }
    assert_eq!(Loss::in_bursts(0.1, 0.5), None);
    assert_eq!(Loss::in_bursts(0.8, 2.0), None, "two of ten do not separate bursts of two");
    assert_eq!(Loss::in_bursts(1.0, 2.0), None);
    assert!(lost_share(Loss::independent(1.0).expect("all"), 3) > 0.99);
    assert!(lost_share(Loss::independent(0.0).expect("none"), 3) < 0.01);
}

#[test]
fn packets_overtake_each_other_with_jitter_only() {
    let jitter = Delay::Exponential(1_000_000);
    let settings = LinkSettings { jitter, ..LinkSettings::default() };
    let found = fates(&settings, 1, &[(1, 100); 100]);
    let at_ns: Vec<u64> = found.into_iter().filter_map(departure).collect();
    assert!(!at_ns.is_sorted());
}
