//! A server can be cut off anywhere.

mod ledger;
mod record;
mod speak;
mod workload;
mod world;

use jobyard_log::SyncMode;
use jobyard_sim::disk::{Crash, SimDisk};

use workload::Workload;
use world::{World, options};

#[test]
#[allow(clippy::print_stdout)]
fn it_runs() {
    let mut world = World::new(SimDisk::default(), options(12 << 10, SyncMode::Always));
    world.disk.set_prepare_polls(3);
    world.start().unwrap();
    let mut work = Workload::new(world, 1);
    work.begin();
    while work.commands < 2200 {
        work.round();
        assert!(work.world.is_running());
    }
    println!("{:#?}", work.tally);
    println!("{:#?}", work.world.disk.counts());
    println!("{:?} living {} of {}", work.world.when(), work.ledger.living(), work.ledger.promises.len());
    work.world.stop();
    work.world.end(Crash::Kill);
    work.world.start().unwrap();
}
