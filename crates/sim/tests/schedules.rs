//! Whole schedules: none may break a promise, the same seed must give the same bytes, and all that can happen must.

use std::sync::atomic::{AtomicBool, Ordering};

use jobyard_sim::clients::SPEAKERS;
use jobyard_sim::schedule::{FAULTS, Tally, never_happened, run};

/// How many schedules are run, or as `JOBYARD_SCHEDULES` says: in fewer, not all that can happen must.
const SCHEDULES: u64 = 2_000;

fn schedules() -> u64 {
    std::env::var("JOBYARD_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(SCHEDULES)
}

#[test]
fn no_schedule_breaks_a_promise_and_all_that_can_happen_does() {
    let (count, threads) = (schedules(), std::thread::available_parallelism().map_or(1, usize::from) as u64);
    let is_wrong = AtomicBool::new(false);
    let share = |thread: u64| {
        let mut tally = Tally::new();
        for seed in (1..=count).filter(|seed| seed % threads == thread) {
            if is_wrong.load(Ordering::Relaxed) {
                break;
            }
            let outcome = run(seed, false);
            if let Some(wrong) = outcome.wrong {
                is_wrong.store(true, Ordering::Relaxed);
                panic!("seed {seed}: {wrong}\nto see it again: scripts/simulate --seed {seed} --trace");
            }
            outcome.tally.into_iter().for_each(|(what, times)| *tally.entry(what).or_default() += times);
        }
        tally
    };
    let tallies = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it has said what is wrong")).collect::<Vec<_>>()
    });
    let mut tally = Tally::new();
    tallies.into_iter().flatten().for_each(|(what, times)| *tally.entry(what).or_default() += times);
    if count < SCHEDULES {
        return;
    }
    assert_eq!(never_happened(&tally, count), Vec::<String>::new());
    let sum = |beginning: &str| {
        tally
            .range(beginning.to_owned()..)
            .take_while(|(what, _)| what.starts_with(beginning))
            .map(|(_, times)| times)
            .sum::<u64>()
    };
    assert!(sum("fault ") > count && sum("audit: ") > 10 * count, "{tally:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 1..=40 {
        let (once, again) = (run(seed, false), run(seed, true));
        assert_eq!((once.digest, once.tally), (again.digest, again.tally), "seed {seed}");
    }
    let digests: std::collections::BTreeSet<_> = (1..=40).map(|seed| run(seed, false).digest).collect();
    assert_eq!(digests.len(), 40, "and another one gives others");
}

#[test]
fn what_never_happened_is_named() {
    let missing = never_happened(&Tally::new(), 1);
    assert!(missing.len() > FAULTS.len() + SPEAKERS.len());
    assert!(missing.iter().any(|what| what == "fault kill") && missing.iter().any(|what| what == "workq lease"));
}
