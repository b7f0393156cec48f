//! Rates of counts that are given by hand, within a window and across the end of windows.

use std::time::Duration;

use crane_model::crane::Counted;

use super::track::Ended;
use super::*;
use crate::sketches::counts::{Named, NamedCounts};

fn pair(n: u8) -> Pair {
    Pair::V4([10, 0, 0, n].into(), [192, 0, 2, 1].into())
}

fn counted(packets: u64, unsure: u64) -> Counted {
    Counted {
        packets,
        bytes: 100 * packets,
        unsure,
    }
}

/// Pairs as number, packets and uncertain packets, and the upper bound for all others.
fn counts(pairs: &[(u8, u64, u64)], others_at_most: u64) -> NamedCounts {
    let pairs = pairs.iter();
    let pairs = pairs.map(|(n, packets, unsure)| (pair(*n), counted(*packets, *unsure)));
    NamedCounts {
        pairs: Named {
            counts: pairs.collect(),
            others_at_most,
        },
        ..NamedCounts::default()
    }
}

fn moment(ms: u64, window: u64, counts: NamedCounts) -> Moment {
    Moment {
        at: Duration::from_millis(ms),
        window,
        counts,
        ended: None,
    }
}

fn with_ended(moment: Moment, number: u64, counts: NamedCounts) -> Moment {
    Moment {
        ended: Some(Ended::Counts(number, Box::new(counts))),
        ..moment
    }
}

/// Packets per second of both periods.
fn speeds(track: &mut Track, n: u8) -> [Option<f64>; 2] {
    let recent = track.recent();
    let rates = recent.rates(&recent.pairs, &[pair(n)]);
    [rates.rate_2s, rates.rate_10s].map(|rate| {
        rate.map(|rate| {
            assert!((rate.bits_per_second - 800.0 * rate.packets_per_second).abs() < 1e-3);
            rate.packets_per_second.round()
        })
    })
}

/// A flow of 1000 packets a second that starts after 5 s and stops after 20 s.
fn sent(ms: u64) -> u64 {
    ms.clamp(5000, 20_000) - 5000
}

#[test]
fn a_rate_is_unknown_until_its_period_was_observed() {
    let mut track = Track::default();
    assert_eq!(speeds(&mut track, 1), [None, None]);
    for ms in (0..=900).step_by(300) {
        track.add(moment(ms, 0, counts(&[(1, ms, 0)], 0)));
        assert_eq!(speeds(&mut track, 1), [None, None], "after {ms} ms");
    }
    for ms in (1200..=8700).step_by(300) {
        track.add(moment(ms, 0, counts(&[(1, ms, 0)], 0)));
        assert_eq!(speeds(&mut track, 1), [Some(1000.0), None], "after {ms} ms");
    }
    track.add(moment(9000, 0, counts(&[(1, 9000, 0)], 0)));
    assert_eq!(speeds(&mut track, 1), [Some(1000.0), Some(1000.0)]);
    let seconds = track.recent().seconds;
    assert_eq!(seconds.rate_2s, Some(1.5));
    // A pair without packets has the rate 0, because all pairs are known by name.
    assert_eq!(speeds(&mut track, 9), [Some(0.0), Some(0.0)]);
}

#[test]
fn a_period_after_a_start_or_stop_the_rate_is_correct_for_any_time_between_moments() {
    for step in [250, 400, 500, 700, 1000] {
        let mut track = Track::default();
        for ms in (0..40_000u64).step_by(step) {
            // Windows of 7 s.
            let (window, start) = (ms / 7000, ms / 7000 * 7000);
            let of = |from: u64, to: u64| match sent(to) - sent(from) {
                0 => counts(&[], 0),
                packets => counts(&[(1, packets, 0)], 0),
            };
            let mut now = moment(ms, window, of(start, ms));
            if window > 0 {
                now = with_ended(now, window - 1, of(start - 7000, start));
            }
            track.add(now);
            let [two, ten] = speeds(&mut track, 1);
            let is_steady = |seconds: u64| match ms {
                ..5000 => Some(0.0),
                _ if ms >= 5000 + 1000 * seconds && ms < 20_000 => Some(1000.0),
                _ if ms >= 20_000 + 1000 * seconds => Some(0.0),
                _ => None,
            };
            if let Some(truth) = is_steady(2).filter(|_| ms >= 2000) {
                assert_eq!(two, Some(truth), "2 s, {ms} ms, moments every {step} ms");
            }
            if let Some(truth) = is_steady(10).filter(|_| ms >= 10_000) {
                assert_eq!(ten, Some(truth), "10 s, {ms} ms, moments every {step} ms");
            }
        }
    }
}

#[test]
fn the_track_starts_again_if_a_window_is_missing() {
    let mut track = Track::default();
    let steady = |track: &mut Track, from: u64, window: u64| {
        for ms in (from..from + 2000).step_by(500) {
            track.add(moment(ms, window, counts(&[(1, ms, 0)], 0)));
        }
        assert_eq!(speeds(track, 1)[0], Some(1000.0));
    };
    steady(&mut track, 0, 0);
    // The next window without the final counts of the last one, as after a fault.
    track.add(moment(2000, 1, counts(&[(1, 10, 0)], 0)));
    assert_eq!(speeds(&mut track, 1), [None, None]);
    steady(&mut track, 2500, 1);
    // A window was missed: the ended window is not that of the latest moment.
    let missed = moment(5000, 3, counts(&[(1, 10, 0)], 0));
    track.add(with_ended(missed, 2, counts(&[(1, 500, 0)], 0)));
    assert_eq!(speeds(&mut track, 1), [None, None]);
    steady(&mut track, 5500, 3);
    // Another interface of the same name starts again with window 0.
    track.add(moment(8000, 0, counts(&[], 0)));
    assert_eq!(speeds(&mut track, 1), [None, None]);
}

/// A full sketch knows only the heaviest pairs by name.
#[test]
fn rates_with_too_many_uncertain_packets_are_unknown() {
    let mut track = Track::default();
    let busy = |ms: u64| (1, 10_000 + ms, 7);
    for ms in [0, 500, 1000] {
        track.add(moment(ms, 0, counts(&[busy(ms)], 30)));
    }
    // Pairs 2 and 3 got names after the last moment, so up to 50 packets of each are uncertain.
    // That is less than a tenth of the packets of pair 2 and more than a tenth of those of pair 3.
    let newcomers = |ms: u64, more: u64| {
        let newcomers = [busy(ms), (2, 1000 + more, 50), (3, 100 + more, 50)];
        moment(ms, 0, counts(&newcomers, 30))
    };
    track.add(newcomers(1500, 0));
    assert_eq!(speeds(&mut track, 1)[0], Some(1000.0));
    assert_eq!(speeds(&mut track, 2)[0], Some((1000.0f64 / 1.5).round()));
    assert_eq!(speeds(&mut track, 3)[0], None);
    assert_eq!(speeds(&mut track, 4)[0], None, "it may have had 30 packets");
    // As soon as both ends of the period are after that, the difference is exact.
    for ms in [2000, 2500, 3000] {
        track.add(newcomers(ms, ms - 1500));
    }
    assert_eq!(speeds(&mut track, 3)[0], Some(1000.0));
    // Pair 2 lost its name and got it again, so a difference would be wrong. Pair 1 is unaffected.
    let again = [busy(3500), (2, 40, 4800)];
    track.add(moment(3500, 0, counts(&again, 30)));
    assert_eq!(speeds(&mut track, 2)[0], None);
    assert_eq!(speeds(&mut track, 1)[0], Some(1000.0));
    assert!(!track.recent().pairs.is_complete(Period::TwoSeconds));
}

/// The window ends while its sketch is full: pairs with a name have a rate, others may have had a
/// few packets more.
#[test]
fn after_the_end_of_a_full_window_rates_of_light_pairs_are_unknown() {
    let mut track = Track::default();
    let busy = |ms: u64| [(1, 10_000 + ms, 7), (2, 500, 0)];
    for ms in [0, 500, 1000] {
        track.add(moment(ms, 0, counts(&busy(ms), 30)));
    }
    let next = moment(
        1500,
        1,
        counts(&[(1, 100, 0), (3, 2000, 0), (4, 100, 0)], 0),
    );
    track.add(with_ended(next, 0, counts(&busy(1400), 30)));
    assert_eq!(speeds(&mut track, 1)[0], Some(1000.0));
    assert_eq!(
        speeds(&mut track, 2)[0],
        Some(0.0),
        "it was known by name and had no more packets"
    );
    assert_eq!(speeds(&mut track, 3)[0], Some((2000.0f64 / 1.5).round()));
    assert_eq!(speeds(&mut track, 4)[0], None);
    assert_eq!(speeds(&mut track, 5)[0], None);
}

/// All pairs are known by name, not all addresses: their rates are sums over pairs.
#[test]
fn addresses_of_pairs_that_are_all_known_are_sums() {
    let mut track = Track::default();
    for ms in [0, 500, 1000, 1500] {
        let mut counts = counts(&[(1, ms, 0), (2, 3 * ms, 0)], 0);
        for named in [&mut counts.sources, &mut counts.destinations] {
            named.others_at_most = 9;
        }
        track.add(moment(ms, 0, counts));
    }
    let recent = track.recent();
    let ip = "192.0.2.1".parse().unwrap();
    let rates = recent.rates(&recent.destinations, &[ip]);
    assert_eq!(
        rates.rate_2s.map(|rate| rate.packets_per_second),
        Some(4000.0)
    );
    let both = recent.rates(&recent.pairs, &[pair(1), pair(2)]);
    assert_eq!(both, rates);
}

#[test]
fn a_step_keeps_the_keys_with_the_most_packets() {
    let ip = |n: u32| Pair::V4(n.into(), [192, 0, 2, 1].into());
    let mut track = Track::default();
    for ms in [0u64, 500, 1000, 1500] {
        let count = |n: u32| (ip(n), counted(ms / 500 * u64::from(n), 0));
        let mut counts = NamedCounts::default();
        counts.pairs.counts = (1..=10_000).map(count).collect();
        track.add(moment(ms, 0, counts));
    }
    let recent = track.recent();
    let speed = |n: u32| {
        let rates = recent.rates(&recent.pairs, &[ip(n)]);
        rates.rate_2s.map(|rate| rate.packets_per_second)
    };
    assert_eq!(speed(10_000), Some(20_000.0));
    assert_eq!(speed(5905), Some(11_810.0));
    assert_eq!(speed(5904), None, "uncertain, as it was not kept");
    let fastest = recent.pairs.fastest(3, Period::TwoSeconds);
    assert_eq!(fastest, [ip(10_000), ip(9999), ip(9998)]);
}
