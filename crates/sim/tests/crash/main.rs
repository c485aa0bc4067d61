//! A server can be cut off anywhere: what it told is there when it starts again, and what it undid does not come back.

mod bursts;
mod cuts;
mod faults;
mod full;
mod ledger;
mod recover;
mod salvaged;
mod speak;
mod truth;
mod workload;
mod world;

use jobyard_log::SyncMode;
use jobyard_sim::disk::{Crash, SimDisk};

use cuts::{Cutter, Share, Tally};
use truth::Truth;
use workload::Workload;
use world::{World, options};

/// A header and room for a few dozen records: segments begin and end all the time.
const SEGMENT_BYTES: u64 = 16 << 10;

/// Demands that something was met, without which a test shows nothing. Not of a server that is broken on purpose: that it
/// comes to less is no broken promise.
#[track_caller]
fn demand(met: bool, what: &dyn std::fmt::Display) {
    assert!(met || std::env::var_os("JOBYARD_BREAKAGE").is_some(), "{what}");
}

/// Whether the long tests were asked for.
fn long() -> bool {
    std::env::var_os("JOBYARD_LONG").is_some()
}

/// Everything if the long tests were asked for, else a fixed tenth.
fn share() -> Share {
    if long() { Share { places: 1, seeds: 8, again: 6 } } else { Share { places: 10, seeds: 3, again: 64 } }
}

/// A server that was started once for each of these ways to end, and did its share of so many commands each time. The
/// second end is a stop; after it segments are longer.
fn lives(sync: SyncMode, commands: usize, ends: &[Crash]) -> Workload {
    let mut world = World::new(SimDisk::default(), options(SEGMENT_BYTES, sync));
    world.start().expect("a new log");
    let mut work = Workload::new(world, 1);
    for (life, crash) in ends.iter().enumerate() {
        work.world.disk.set_prepare_polls(u32::try_from(life).expect("a few"));
        work.begin();
        work.work_until(commands * (life + 1) / ends.len());
        if life == 1 {
            work.world.stop();
        }
        work.world.end(*crash);
        let segment_bytes = if life == 0 { SEGMENT_BYTES } else { SEGMENT_BYTES * 3 / 2 };
        work.world.start_with(segment_bytes).expect("it starts again");
    }
    work
}

/// Cuts off every life there was.
#[allow(clippy::print_stdout)]
fn cut_everywhere(work: &Workload) -> Tally {
    let (ledger, options, share) = (&work.ledger, work.world.options(), share());
    let mut tally = Tally::default();
    for (index, life) in work.world.lives.iter().enumerate() {
        let truth = Truth::of(&life.notes);
        Cutter { life, index, truth, ledger, options, share, tally: &mut tally }.cut_everywhere();
    }
    println!("{:?}: {} commands\n{tally}", options.sync, work.commands);
    tally
}

#[test]
fn a_server_can_be_cut_off_anywhere() {
    let work = lives(SyncMode::Always, 2_400, &[Crash::Kill, Crash::Kill, Crash::Garbage(3), Crash::Lost]);
    let tally = cut_everywhere(&work);
    tally.check_crashes();
    tally.check_operations();
    work.check_variety();
    let truncations: usize = work.world.lives.iter().map(|life| life.notes.truncations).sum();
    demand(truncations >= 20, &format_args!("the log let go of its beginning {truncations} times"));
}

#[test]
fn a_server_that_syncs_now_and_then_loses_what_was_not_synced_and_leaves_no_hole() {
    let work = lives(SyncMode::Interval(300), 1_200, &[Crash::Kill, Crash::Kill, Crash::Kill]);
    cut_everywhere(&work).check_crashes();
}

#[test]
fn a_server_that_never_syncs_loses_what_was_not_synced_and_leaves_no_hole() {
    let work = lives(SyncMode::Never, 1_200, &[Crash::Kill, Crash::Kill, Crash::Kill]);
    cut_everywhere(&work).check_crashes();
}
