//! Any bytes as a data directory: reading, starting and salvaging must neither panic nor go on for ever, and what was started
//! once must start again.

use jobyard_broker::{Broker, Clock, Config, Event, Sleep};
use jobyard_engine::{Engine, History, Limits, Now};
use jobyard_log::{Disk, FileLog, Found, Log, Moment, Options, Reader, salvage};

use super::image::{SALT, Source, image_of, seed_of};
use super::records::check_engine;
use crate::disk::{Image, SimDisk};

/// A server that is not at rest after so many turns never will be.
const TURNS_MAX: usize = 20_000;
/// What a portion of a replay has.
const PORTION_BYTES: usize = 4 << 10;
const CLOCK: Clock = Clock { monotonic_ms: 1_000, boot: 1, wall_ms: 1_767_225_600_000 };

/// Makes files of the bytes, and does with them whatever the server and its tools do.
///
/// # Panics
/// If something goes on for ever, or is not as it should be.
pub fn check_log(data: &[u8]) {
    let mut source = Source(data);
    let segment_bytes = [8 << 10, 16 << 10, 64 << 10][usize::from(source.byte()) % 3];
    let options = Options { segment_bytes, ..Options::new(SALT) };
    let image = image_of(&mut source);
    let bytes = image.values().map(|file| file.len()).sum();
    let read = read_damaged(&image, bytes);
    for history in [History::Whole, History::Rest, History::Damaged] {
        replay(&image, &options, history, bytes);
    }
    let disk = SimDisk::from_image(&image);
    if let Some((jobs, disk)) = start(&disk, &options) {
        let (again, _) = start(&disk, &options).expect("what was started once starts again");
        assert_eq!(again, jobs, "jobs after another start");
    }
    if let Some((engine, at)) = read {
        check_salvage(&image, &options, engine, at);
    }
}

/// Reads what can be read, as the tools do.
fn read_damaged(image: &Image, bytes: usize) -> Option<(Engine, Moment)> {
    let mut disk = SimDisk::from_image(image);
    let mut reader = Reader::open_damaged(&mut disk, &[]).map_err(|error| error.to_string()).ok()?;
    let mut engine = Engine::new(Limits::default(), 1, 7);
    let mut at = Moment::default();
    for _ in 0..=bytes + 2 * image.len() + 16 {
        match reader.next() {
            Ok(Some(Found::Segment(_))) => engine.begin_stretch(),
            Ok(Some(Found::Batch(entry))) => {
                at = entry.batch.at;
                if engine.stretches() == 0 {
                    engine.begin_stretch();
                }
                // What makes no sense is left out.
                let _ = engine.replay(entry.batch.payload, History::Damaged);
            }
            Ok(Some(Found::Hole(hole))) => drop(hole.error.to_string()),
            Ok(Some(Found::Tail(cut))) => drop(cut.to_string()),
            Ok(None) => return Some((engine, at)),
            Err(error) => {
                drop(error.to_string());
                return None;
            }
        }
    }
    panic!("the reader does not end");
}

/// Claims the log, and gives it to an engine that believes so much of it.
fn replay(image: &Image, options: &Options, history: History, bytes: usize) {
    let mut log = FileLog::open(SimDisk::from_image(image), options.clone());
    let Ok(claim) = log.claim(0) else { return };
    let mut engine = Engine::new(Limits::default(), claim.epoch, 7);
    engine.begin_stretch();
    let (mut at, mut sound, mut next) = (Moment::default(), true, Some(claim.first));
    for _ in 0..=bytes + 1 {
        let Some(from) = next else { break };
        let outcome = log.replay(from, PORTION_BYTES, &mut |replayed| {
            at = replayed.batch.at;
            sound &= engine.replay(replayed.batch.payload, history).is_ok();
        });
        let Ok(more) = outcome else { return };
        assert!(more.is_none_or(|more| more > from), "a replay goes back from {from} to {more:?}");
        next = more;
    }
    assert!(next.is_none(), "the replay does not end");
    if sound || history == History::Damaged {
        check_engine(engine, bytes, now_of(at));
    }
}

fn now_of(at: Moment) -> Now {
    Now { engine_ms: at.engine_ms, wall_ms: at.wall_ms, random: 7 }
}

/// Starts a server on this disk and lets it stop again: how many jobs it has then, and what it leaves.
fn start(disk: &SimDisk, options: &Options) -> Option<(usize, SimDisk)> {
    let log = FileLog::open(disk.killed(), options.clone());
    let mut broker = Broker::open(Config::default(), log, CLOCK).map_err(|error| error.to_string()).ok()?;
    let mut actions = Vec::new();
    let mut events = Vec::new();
    for turn in 0..TURNS_MAX {
        let sleep = broker.turn(CLOCK, &mut events, &mut actions);
        assert_eq!(broker.failure(), None, "on a disk that does not fail");
        if broker.stopped() {
            return Some((broker.jobs(), broker.into_log().disk().killed()));
        }
        if turn > 0 && !matches!(sleep, Sleep::No | Sleep::Millis(0)) {
            events.push(Event::Stop);
        }
    }
    panic!("the server is not at rest after {TURNS_MAX} turns");
}

/// Makes a new log of what could be read of the old one: a server starts with it, and has as many jobs.
fn check_salvage(image: &Image, options: &Options, mut engine: Engine, at: Moment) {
    if engine.stretches() == 0 {
        engine.begin_stretch();
    }
    while !engine.recover(now_of(at)) {}
    engine.check();
    engine.skip_numbers(1 << 20);
    let jobs = engine.jobs();
    let mut disk = SimDisk::from_image(image);
    engine.begin_keep_all();
    let mut done = false;
    let batches = std::iter::from_fn(|| {
        if done {
            return None;
        }
        done = engine.keep_all(PORTION_BYTES);
        let records = engine.records().to_vec();
        engine.clear_records();
        Some((at, records))
    });
    if let Err(error) = salvage(&mut disk, options, batches) {
        drop(error.to_string());
        return;
    }
    assert!(disk.list().is_ok_and(|names| names.iter().any(|name| name == "manifest")), "a log has a manifest");
    let log = FileLog::open(disk, options.clone());
    match Broker::open(Config::default(), log, CLOCK) {
        Ok(broker) => assert!(broker.jobs() <= jobs, "{} jobs were salvaged, and {jobs} read", broker.jobs()),
        Err(error) => panic!("what was salvaged does not start: {error}"),
    }
}

/// Bytes for the target of the log, and for that of records, of each segment of a log: of as many batches as are not too long.
///
/// # Panics
/// If the log cannot be read.
#[must_use]
pub fn seed_of_directory(image: &Image, bytes_max: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut disk = SimDisk::from_image(image);
    let mut reader = Reader::open_damaged(&mut disk, &[]).expect("there is a log");
    let mut segments: Vec<(u64, Vec<Vec<u8>>, usize)> = Vec::new();
    while let Some(found) = reader.next().expect("a disk that does not fail") {
        match found {
            Found::Segment(facts) => segments.push((facts.header.first, Vec::new(), 0)),
            Found::Batch(entry) => {
                let Some((_, payloads, bytes)) = segments.last_mut() else { continue };
                *bytes += entry.batch.payload.len() + 3;
                if *bytes <= bytes_max && payloads.len() < usize::from(u8::MAX) {
                    payloads.push(entry.batch.payload.to_vec());
                }
            }
            Found::Hole(_) | Found::Tail(_) => {}
        }
    }
    let seed = |(first, payloads, _): &(u64, Vec<Vec<u8>>, usize)| {
        let mut log = vec![0];
        log.extend(seed_of(*first, payloads));
        let mut records = vec![0];
        records.extend(payloads.concat());
        (log, records)
    };
    segments.iter().map(seed).collect()
}
