//! Rates of counts that are written by hand, and of real windows that turn.

use std::time::Duration;

use crane_model::crane::Counted;

use super::moment::Ended;
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

/// Pairs with so many packets, of which so many are unsure, and what others had at most.
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

/// Packets a second of both periods.
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
fn nothing_is_known_before_it_was_observed() {
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
    // Who never came has no rate, which is known where all have a name.
    assert_eq!(speeds(&mut track, 9), [Some(0.0), Some(0.0)]);
}

#[test]
fn two_seconds_after_a_start_and_a_stop_the_rate_is_right_whatever_the_time_between_looks() {
    for step in [250, 400, 500, 700, 1000] {
        let mut track = Track::default();
        for ms in (0..40_000u64).step_by(step) {
            // Windows of 7 s: most looks see one that is over for the first time.
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
                assert_eq!(two, Some(truth), "2 s, {ms} ms, looks every {step} ms");
            }
            if let Some(truth) = is_steady(10).filter(|_| ms >= 10_000) {
                assert_eq!(ten, Some(truth), "10 s, {ms} ms, looks every {step} ms");
            }
        }
    }
}

#[test]
fn a_window_that_is_not_known_breaks_the_track() {
    let mut track = Track::default();
    let steady = |track: &mut Track, from: u64, window: u64| {
        for ms in (from..from + 2000).step_by(500) {
            track.add(moment(ms, window, counts(&[(1, ms, 0)], 0)));
        }
        assert_eq!(speeds(track, 1)[0], Some(1000.0));
    };
    steady(&mut track, 0, 0);
    // The next window, but what the last one got is gone: after a fault.
    track.add(moment(2000, 1, counts(&[(1, 10, 0)], 0)));
    assert_eq!(speeds(&mut track, 1), [None, None]);
    steady(&mut track, 2500, 1);
    // A window was missed: the last one is not the one that was seen.
    let missed = moment(5000, 3, counts(&[(1, 10, 0)], 0));
    track.add(with_ended(missed, 2, counts(&[(1, 500, 0)], 0)));
    assert_eq!(speeds(&mut track, 1), [None, None]);
    steady(&mut track, 5500, 3);
    // Another interface of the same name begins anew.
    track.add(moment(8000, 0, counts(&[], 0)));
    assert_eq!(speeds(&mut track, 1), [None, None]);
}

/// A sketch that is full knows the heaviest by name.
#[test]
fn what_is_not_certain_is_not_said() {
    let mut track = Track::default();
    let busy = |ms: u64| (1, 10_000 + ms, 7);
    for ms in [0, 500, 1000] {
        track.add(moment(ms, 0, counts(&[busy(ms)], 30)));
    }
    // 2 got its name just now: all but 50 packets are certain. 3 has as much that is unsure.
    let newcomers = |ms: u64, more: u64| {
        let newcomers = [busy(ms), (2, 1000 + more, 50), (3, 100 + more, 50)];
        moment(ms, 0, counts(&newcomers, 30))
    };
    track.add(newcomers(1500, 0));
    assert_eq!(speeds(&mut track, 1)[0], Some(1000.0));
    assert_eq!(speeds(&mut track, 2)[0], Some((1000.0f64 / 1.5).round()));
    assert_eq!(speeds(&mut track, 3)[0], None);
    assert_eq!(speeds(&mut track, 4)[0], None, "it may have had 30");
    // Once both ends of the time are after that, the difference is exact.
    for ms in [2000, 2500, 3000] {
        track.add(newcomers(ms, ms - 1500));
    }
    assert_eq!(speeds(&mut track, 3)[0], Some(1000.0));
    // 2 lost its name and got it again: what it had since is no difference. 1 goes on.
    let again = [busy(3500), (2, 40, 4800)];
    track.add(moment(3500, 0, counts(&again, 30)));
    assert_eq!(speeds(&mut track, 2)[0], None);
    assert_eq!(speeds(&mut track, 1)[0], Some(1000.0));
    assert!(!track.recent().pairs.is_complete(Period::TwoSeconds));
}

/// The window ends while its sketch is full: who had a name has its rate, others may have had
/// a little.
#[test]
fn a_full_sketch_that_ends_leaves_a_little_unsure() {
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
        "it was known and got nothing"
    );
    assert_eq!(speeds(&mut track, 3)[0], Some((2000.0f64 / 1.5).round()));
    assert_eq!(speeds(&mut track, 4)[0], None);
    assert_eq!(speeds(&mut track, 5)[0], None);
}

/// Pairs are known, addresses are not: these are sums.
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
fn of_very_many_those_with_the_most_are_kept() {
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
    assert_eq!(speed(5904), None, "no more than is known of it");
    let fastest = recent.pairs.fastest(3, Period::TwoSeconds);
    assert_eq!(fastest, [ip(10_000), ip(9999), ip(9998)]);
}
