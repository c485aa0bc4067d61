//! The engine against the naive model, over long random runs with crashes.
//!
//! `PROPTEST_CASES` sets the number of runs, `PROPTEST_RNG_SEED` where they begin. With
//! `JOBYARD_FIRST_FAILURE` a run that fails is shown as it is, instead of the shortest one: for those who only ask whether.

mod resolve;
mod stages;
mod steps;
mod tally;
mod world;

use std::cell::RefCell;
use std::{env, panic};

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use steps::Step;

const CASES: u32 = 2_000;

#[test]
fn the_engine_does_what_the_model_does() {
    let config = config();
    let is_whole = config.cases >= CASES;
    let tally = RefCell::new(tally::Tally::default());
    // The panics of runs that fail are part of their story; printed one by one they would bury it.
    let loud = panic::take_hook();
    panic::set_hook(Box::new(|info| {
        LAST_PANIC.set(info.location().map(ToString::to_string).unwrap_or_default());
    }));
    let outcome = TestRunner::new(config)
        .run(&steps::steps(), |steps| world::play(&steps, &mut tally.borrow_mut()).map_err(TestCaseError::fail));
    let outcome = outcome.map_err(|error| match error {
        TestError::Fail(why, _) if is_hasty() => why.to_string(),
        TestError::Fail(_, steps) => shorten(steps),
        TestError::Abort(why) => why.to_string(),
    });
    panic::set_hook(loud);
    if let Err(story) = outcome {
        panic!("{story}");
    }
    let tally = tally.into_inner();
    if is_whole {
        assert!(tally.missing().is_empty(), "never happened: {:#?}\n{}", tally.missing(), tally.lines());
        let transitions = tally.transitions;
        let missing = transitions.missing();
        assert!(missing.is_empty(), "no job ever changed so: {missing:#?}\n{}", transitions.lines());
    }
}

thread_local! {
    /// Where something last panicked.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Where something last panicked.
fn last_panic() -> String {
    LAST_PANIC.with_borrow(String::clone)
}

/// The same runs each time, unless asked for others.
fn config() -> Config {
    let max_shrink_iters = if is_hasty() { 0 } else { 50_000 };
    let mut config =
        Config { failure_persistence: None, max_shrink_iters, max_shrink_time: 120_000, ..Config::default() };
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    if env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(5_627);
    }
    config
}

fn is_hasty() -> bool {
    env::var_os("JOBYARD_FIRST_FAILURE").is_some()
}

/// Leaves out whatever can be left out of a run that fails. Proptest passes over it once; what it then
/// made simpler often allows more.
fn shorten(mut steps: Vec<Step>) -> String {
    let mut story = fails(&steps).expect("the same steps fail again");
    loop {
        let before = steps.len();
        for index in (0..steps.len()).rev() {
            let mut fewer = steps.clone();
            fewer.remove(index);
            if let Some(shorter) = fails(&fewer) {
                (steps, story) = (fewer, shorter);
            }
        }
        if steps.len() == before {
            return story;
        }
    }
}

fn fails(steps: &[Step]) -> Option<String> {
    world::play(steps, &mut tally::Tally::default()).err()
}
