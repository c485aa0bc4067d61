//! A salvage can be cut off anywhere: then there is the old log, still damaged, or the new one, and never less.

use jobyard_log::{Batch, Completion, Disk, DiskFile, FileLog, Log, LogError, Moment, Options, SyncMode, salvage};
use jobyard_sim::disk::{Crash, Image, SimDisk};

use crate::demand;
use crate::world::{SALT, options};

/// Room for a few batches.
const SEGMENT_BYTES: u64 = 4096 + 2048;
const BATCHES: u64 = 12;

fn with_salt(salt_for_new: u64) -> Options {
    Options { salt_for_new, ..options(SEGMENT_BYTES, SyncMode::Always) }
}

fn payload(position: u64) -> Vec<u8> {
    vec![u8::try_from(position).expect("a few"); 500]
}

/// A log of several segments, whose second batch is damaged; all of it durable.
fn damaged() -> Image {
    let disk = SimDisk::default();
    let mut log = FileLog::open(disk.clone(), with_salt(SALT));
    let claim = log.claim(0).expect("a new log");
    for position in 1..=BATCHES {
        log.submit(claim.epoch, position, Batch { at: Moment::default(), payload: &payload(position) });
        assert_eq!(log.completed(), Some(Completion::Durable(position)));
    }
    let mut file = disk.clone().open(&segment(1)).expect("it is there");
    file.write_at(4096 + 700, b"damage").expect("it is there");
    disk.crash(Crash::Kill)
}

fn segment(id: u64) -> String {
    format!("{id:020}.log")
}

/// What is left of it, or so.
fn remains() -> impl Iterator<Item = (Moment, Vec<u8>)> {
    (BATCHES + 1..=2 * BATCHES).map(|position| (Moment::default(), payload(position)))
}

/// What a start finds.
fn found(disk: &SimDisk, salt: u64) -> Result<Vec<Vec<u8>>, LogError> {
    let mut log = FileLog::open(disk.clone(), with_salt(salt));
    log.claim(0)?;
    let mut found = Vec::new();
    log.replay(1, usize::MAX, &mut |batch| found.push(batch.batch.payload.to_vec()))?;
    Ok(found)
}

#[test]
fn a_salvage_can_be_cut_off_anywhere() {
    let old = damaged();
    let segments: Vec<&String> = old.keys().filter(|name| name.starts_with('0')).collect();
    let mut disk = SimDisk::from_image(&old);
    salvage(&mut disk, &with_salt(SALT + 1), remains()).expect("there is room");
    let expected: Vec<Vec<u8>> = remains().map(|(_, payload)| payload).collect();
    let history = disk.history();
    let mut walk = history.walk();
    let (mut olds, mut news) = (0, 0);
    loop {
        let seeds = (0..8).flat_map(|seed| [Crash::Names(seed), Crash::Scattered(seed), Crash::Garbage(seed)]);
        let tears = walk.tears().into_iter().map(Crash::Torn);
        let crashes =
            [Crash::Kill, Crash::Lost, Crash::BytesLost, Crash::NamesLost].into_iter().chain(seeds).chain(tears);
        for crash in crashes {
            let mut disk = SimDisk::from_image(&walk.crash(crash));
            match found(&disk, SALT + 2) {
                Ok(found) => {
                    news += 1;
                    assert_eq!(found, expected, "{crash:?}");
                }
                Err(LogError::Damaged { file, .. }) => {
                    olds += 1;
                    assert_eq!(file, segment(1), "{crash:?}");
                    salvage(&mut disk, &with_salt(SALT + 3), remains()).expect("it can be done again");
                    assert_eq!(found(&disk, SALT + 4).expect("it was salvaged"), expected, "{crash:?}");
                }
                Err(error) => panic!("{crash:?}: {error}"),
            }
            let kept = disk.crash(Crash::Kill);
            for name in &segments {
                assert_eq!(kept.get(&format!("damaged-{name}")), old.get(*name), "{crash:?}: {name}");
            }
        }
        if walk.step().is_none() {
            break;
        }
    }
    demand(olds > 100 && news > 100, &format_args!("the old log was there {olds} times, the new one {news} times"));
}
