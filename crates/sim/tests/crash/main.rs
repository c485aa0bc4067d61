//! A server can be cut off anywhere: what it told is there when it starts again, and what it undid does not come back.

mod cuts;
mod ledger;
mod record;
mod recover;
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

/// Header and room for a few dozen records.
const SEGMENT_BYTES: u64 = 16 << 10;

/// Everything if the long tests were asked for, else a fixed tenth.
fn share() -> Share {
    if std::env::var_os("JOBYARD_LONG").is_some() {
        Share { places: 1, again: 64 }
    } else {
        Share { places: 10, again: 64 }
    }
}

/// Works until so many commands were asked.
fn work_until(work: &mut Workload, commands: usize) {
    while work.commands < commands {
        work.round();
        assert!(work.world.is_running(), "the server ended: {:?}", work.world.failure);
    }
}

/// A server that was started four times, and did something each time.
fn four_lives(sync: SyncMode, commands: usize) -> Workload {
    let mut world = World::new(SimDisk::default(), options(SEGMENT_BYTES, sync));
    world.start().expect("a new log");
    let mut work = Workload::new(world, 1);
    for (life, crash) in [Crash::Kill, Crash::Kill, Crash::Garbage(3), Crash::Lost].into_iter().enumerate() {
        work.world.disk.set_prepare_polls(u32::try_from(life).expect("a few"));
        work.begin();
        work_until(&mut work, commands * (life + 1) / 4);
        if life == 1 {
            work.world.stop();
        }
        work.world.end(crash);
        work.world.start().expect("it starts again");
    }
    work
}

#[allow(clippy::print_stdout)]
fn cut_everywhere(work: &Workload) -> Tally {
    let mut tally = Tally::default();
    for (index, life) in work.world.lives.iter().enumerate() {
        let truth = Truth::of(&life.notes);
        let options = &work.world.options;
        Cutter { life, index, truth, ledger: &work.ledger, options, tally: &mut tally }.cut_everywhere(share());
    }
    println!("{} commands: {:#?}", work.commands, work.tally);
    println!("{tally:#?}");
    tally
}

#[test]
fn a_server_can_be_cut_off_anywhere() {
    let work = four_lives(SyncMode::Always, 2_400);
    let tally = cut_everywhere(&work);
    tally.check_kinds();
}
