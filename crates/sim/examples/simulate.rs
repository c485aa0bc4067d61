//! Runs simulated schedules, each from its own seed, and says what has happened in them and whether anything was wrong.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its user")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use jobyard_sim::schedule::{Outcome, PANICKED, Tally, never_happened, run};

const USAGE: &str = "\
Runs simulated schedules: a whole server in one thread, with clients of every protocol, from one seed each.

Usage: simulate [--seed SEED] [--schedules N] [--quiet] [--trace] [--past-panics]
  --seed SEED      the first seed (1)
  --schedules N    how many, from that seed on (2000; 1 with --seed alone)
  --trace          all that happens, line by line
  --quiet          only what is wrong, how many they were, and what faults they had
  --past-panics    go on when something panics, to see whether a checker outside the server notices anything";

struct Arguments {
    seed: u64,
    schedules: u64,
    quiet: bool,
    trace: bool,
    past_panics: bool,
}

fn arguments() -> Option<Arguments> {
    let (mut seed, mut schedules, mut quiet, mut trace, mut past_panics) = (None, None, false, false, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => seed = Some(words.next()?.parse().ok()?),
            "--schedules" => schedules = Some(words.next()?.parse().ok()?),
            "--quiet" => quiet = true,
            "--trace" => trace = true,
            "--past-panics" => past_panics = true,
            _ => return None,
        }
    }
    let schedules = schedules.unwrap_or(if seed.is_some() { 1 } else { 2_000 });
    Some(Arguments { seed: seed.unwrap_or(1), schedules, quiet, trace, past_panics })
}

fn main() -> ExitCode {
    let Some(Arguments { seed, schedules, quiet, trace, past_panics }) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let begun = Instant::now();
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (tally, wrong, panicked) = (Mutex::new(Tally::new()), Mutex::new(None), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = Tally::new();
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= schedules {
                        break;
                    }
                    let seed = seed.wrapping_add(index);
                    let Outcome { tally, wrong: found, trace: lines, .. } = run(seed, trace);
                    lines.iter().for_each(|line| println!("{line}"));
                    tally.into_iter().for_each(|(what, count)| *mine.entry(what).or_default() += count);
                    if past_panics && found.as_deref() == Some(PANICKED) {
                        panicked.fetch_add(1, Ordering::Relaxed);
                    } else if let Some(found) = found {
                        stop.store(true, Ordering::Relaxed);
                        wrong.lock().expect("nobody panics with it").get_or_insert((seed, found));
                    }
                }
                let mut tally = tally.lock().expect("nobody panics with it");
                mine.into_iter().for_each(|(what, count)| *tally.entry(what).or_default() += count);
            });
        }
    });
    let tally = tally.into_inner().expect("nobody panics with it");
    let told = tally.iter().filter(|(what, _)| !quiet || what.starts_with("fault "));
    told.for_each(|(what, count)| println!("{count:>12}  {what}"));
    let done = next.into_inner().min(schedules);
    println!("{done} schedules in {:.1} s", begun.elapsed().as_secs_f64());
    if let Some((seed, what)) = wrong.into_inner().expect("nobody panics with it") {
        println!("seed {seed}: {what}\nto see it again: scripts/simulate --seed {seed} --trace");
        return ExitCode::FAILURE;
    }
    let panicked = panicked.into_inner();
    if panicked > 0 {
        println!("panicked: {panicked} of them, and nothing else was wrong");
        return ExitCode::FAILURE;
    }
    let missing = never_happened(&tally, schedules);
    if schedules >= 2_000 && !missing.is_empty() {
        println!("never happened: {}", missing.join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
