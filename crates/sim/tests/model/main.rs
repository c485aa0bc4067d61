//! The engine against the naive model, over long random runs with crashes.
//!
//! `PROPTEST_CASES` sets the number of runs, `PROPTEST_RNG_SEED` where they begin.

mod resolve;
mod steps;
mod tally;
mod world;

use std::cell::RefCell;
use std::env;

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use steps::Step;

const CASES: u32 = 100;

#[test]
fn the_engine_does_what_the_model_does() {
    let config = config();
    let is_whole = config.cases >= CASES;
    let tally = RefCell::new(tally::Tally::default());
    let outcome = TestRunner::new(config)
        .run(&steps::steps(), |steps| world::play(&steps, &mut tally.borrow_mut()).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(_, steps)) => {
            let (steps, story) = shorten(steps);
            panic!("{story}\n{steps:#?}");
        }
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
    let tally = tally.into_inner();
    assert!(!is_whole || tally.missing().is_empty(), "never happened: {:#?}\n{}", tally.missing(), tally.lines());
}

/// The same runs each time, unless asked for others.
fn config() -> Config {
    let mut config =
        Config { failure_persistence: None, max_shrink_iters: 50_000, max_shrink_time: 120_000, ..Config::default() };
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    if env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(5_627);
    }
    config
}

/// Leaves out whatever can be left out of a run that fails. Proptest passes over it once; what it then
/// made simpler often allows more.
fn shorten(mut steps: Vec<Step>) -> (Vec<Step>, String) {
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
            return (steps, story);
        }
    }
}

fn fails(steps: &[Step]) -> Option<String> {
    world::play(steps, &mut tally::Tally::default()).err()
}
