//! Reading without writing: whole logs, damaged ones, and one that is being written.

use super::*;
use crate::disk::Disk;
use crate::files::segment::{HEADER_BYTES, name_of};
use crate::files::{Found, Manifest, Reader};
use crate::frame::{Damage, FRAME_HEADER_BYTES};

/// What a reader found, in short.
#[derive(Debug, Default)]
struct Seen {
    segments: Vec<u64>,
    batches: Vec<Position>,
    /// File, offset and the positions lost.
    holes: Vec<(String, u64, Position, Position, u64)>,
    tails: usize,
}

fn look(mut reader: Reader<'_, TestDisk>) -> Seen {
    let mut seen = Seen::default();
    while let Some(found) = reader.next().unwrap() {
        match found {
            Found::Segment(facts) => {
                assert_eq!(facts.file, name_of(facts.header.id));
                seen.segments.push(facts.header.id);
            }
            Found::Batch(entry) => {
                let position = entry.header.position;
                assert_eq!(entry.batch, batch(position, &payload(position)));
                assert_eq!(entry.file, name_of(entry.segment));
                assert_eq!(entry.bytes, (FRAME_HEADER_BYTES + payload(position).len()) as u64);
                assert!(entry.offset >= HEADER_BYTES && entry.header.epoch > 0);
                seen.batches.push(position);
            }
            Found::Hole(hole) => {
                assert!(hole.error.to_string().contains(&hole.file));
                seen.holes.push((hole.file, hole.offset, hole.loss.from, hole.loss.to, hole.loss.batches));
            }
            Found::Tail(_) => seen.tails += 1,
        }
    }
    assert!(reader.next().unwrap().is_none());
    seen
}

fn seen(disk: &TestDisk) -> Seen {
    look(Reader::open(&mut disk.clone(), &[]).unwrap())
}

fn seen_anyway(disk: &TestDisk) -> Seen {
    look(Reader::open_damaged(&mut disk.clone(), &[]).unwrap())
}

/// A log of several segments, and where each batch is: its segment, offset and length.
fn log_of(count: Position) -> (TestDisk, Vec<(u64, usize, usize)>) {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=count);
    let (mut places, mut disk_again) = (Vec::new(), disk.clone());
    let mut reader = Reader::open(&mut disk_again, &[]).unwrap();
    while let Some(found) = reader.next().unwrap() {
        if let Found::Batch(entry) = found {
            let (offset, bytes) = (usize::try_from(entry.offset).unwrap(), usize::try_from(entry.bytes).unwrap());
            places.push((entry.segment, offset, bytes));
        }
    }
    (disk, places)
}

fn positions(range: std::ops::RangeInclusive<Position>) -> Vec<Position> {
    range.collect()
}

#[test]
fn a_whole_log_is_read_and_nothing_is_written() {
    let (disk, places) = log_of(20);
    let before = disk.contents();
    let seen = seen(&disk);
    assert_eq!(seen.batches, positions(1..=20));
    assert_eq!(seen.segments, (1..=places[19].0).collect::<Vec<_>>());
    assert!(seen.holes.is_empty() && seen.tails == 0, "{seen:?}");
    assert_eq!(disk.contents(), before);
}

#[test]
fn nothing_is_no_log() {
    let mut disk = TestDisk::new();
    assert_eq!(Reader::open(&mut disk, &[]).unwrap_err(), LogError::NoLog);
    assert_eq!(Reader::open_damaged(&mut disk, &[]).unwrap_err(), LogError::NoLog);
}

#[test]
fn a_first_start_that_was_cut_off_left_no_log() {
    let mut disk = TestDisk::new();
    claimed(&disk, options());
    disk.remove_now("manifest");
    assert_eq!(Reader::open(&mut disk, &[]).unwrap_err(), LogError::NoLog);
    assert_eq!(Reader::open_damaged(&mut disk, &[]).unwrap_err(), LogError::NoLog);
    disk.change(&name_of(1), |bytes| bytes[4096] = 1);
    assert_eq!(Reader::open(&mut disk, &[]).unwrap_err(), LogError::MissingManifest { segment: name_of(1) });
}

#[test]
fn every_batch_may_be_damaged_and_only_that_one_is_lost() {
    let (whole, places) = log_of(20);
    for position in 1..20 {
        let (segment, offset, bytes) = places[usize::try_from(position).unwrap() - 1];
        for at in [0, 10, FRAME_HEADER_BYTES + 3] {
            let disk = whole.copy();
            disk.change(&name_of(segment), |bytes| bytes[offset + at] ^= 4);
            let seen = seen(&disk);
            assert_eq!(seen.holes, [(name_of(segment), offset as u64, position, position, 1)]);
            let rest: Vec<_> = (1..=20).filter(|other| *other != position).collect();
            assert_eq!(seen.batches, rest);
            let LogError::Damaged { file, loss, .. } = recovered(&disk).unwrap_err() else { panic!() };
            assert_eq!((file, loss.from, loss.to, loss.batches), (name_of(segment), position, position, 1));
            assert_eq!(loss.bytes, bytes as u64);
        }
    }
}

#[test]
fn all_holes_are_counted_together() {
    let (disk, places) = log_of(20);
    for position in [3, 4, 11] {
        let (segment, offset, _) = places[position - 1];
        disk.change(&name_of(segment), |bytes| bytes[offset] ^= 4);
    }
    let LogError::Damaged { offset, loss, .. } = recovered(&disk).unwrap_err() else { panic!() };
    assert_eq!(offset, places[2].1 as u64);
    assert_eq!((loss.from, loss.to, loss.batches), (3, 11, 3));
}

#[test]
fn of_what_is_missing_at_either_end_nobody_knows_how_much_it_was() {
    let (whole, places) = log_of(20);
    let newest = places[19].0;
    for (missing, at_least) in [(1, true), (2, false), (newest, true)] {
        let disk = whole.copy();
        disk.remove_now(&name_of(missing));
        let loss = Reader::open(&mut disk.clone(), &[]).unwrap().loss().unwrap();
        assert_eq!(loss.at_least, at_least, "segment {missing}: {loss}");
        assert_eq!((loss.to_string().starts_with("at least"), loss.bytes), (at_least, 0), "{loss}");
    }
}

#[test]
fn segments_that_never_were_are_one_hole_however_many_a_manifest_names() {
    let (disk, places) = log_of(20);
    let manifest = Manifest::read(&mut disk.clone(), 1).unwrap().unwrap();
    let newest = manifest.newest + 5_000_000_000;
    disk.put("manifest", Manifest { newest, ..manifest }.to_text().as_bytes());
    let seen = seen(&disk);
    assert_eq!(seen.batches, positions(1..=20));
    assert_eq!(seen.holes, [(name_of(places[19].0 + 1), 0, 21, 21, 1)]);
    assert_eq!(recovered(&disk).unwrap_err(), LogError::MissingSegment { file: name_of(places[19].0 + 1) });
}

#[test]
fn a_lost_segment_or_header_costs_no_more_than_it_held() {
    let (whole, places) = log_of(20);
    let newest = places[19].0;
    for id in 1..newest {
        let held: Vec<Position> =
            (1..=20).filter(|position| places[usize::try_from(*position).unwrap() - 1].0 == id).collect();
        let disk = whole.copy();
        disk.remove_now(&name_of(id));
        let lost = seen(&disk);
        let rest: Vec<_> = (1..=20).filter(|position| !held.contains(position)).collect();
        assert_eq!(lost.batches, rest, "segment {id}");
        assert_eq!((lost.holes.len(), lost.holes[0].3), (1, *held.last().unwrap()));
        if id > 1 {
            assert_eq!(lost.holes[0].2, held[0]);
        }

        let disk = whole.copy();
        disk.change(&name_of(id), |bytes| bytes[20] ^= 1);
        let kept = seen(&disk);
        assert_eq!(kept.batches, positions(1..=20), "segment {id}");
        assert_eq!(kept.holes.iter().map(|hole| hole.4).sum::<u64>(), 0, "{:?}", kept.holes);
        assert_eq!((kept.holes.len(), &kept.holes[0].0), (1, &name_of(id)));
    }
}

#[test]
fn without_a_manifest_all_segments_are_read_if_one_insists() {
    let (disk, _) = log_of(20);
    disk.remove_now("manifest");
    assert_eq!(Reader::open(&mut disk.clone(), &[]).unwrap_err(), LogError::MissingManifest { segment: name_of(1) });
    let seen = seen_anyway(&disk);
    assert_eq!((seen.batches, seen.holes.len()), (positions(1..=20), 0));
    disk.put("manifest", b"jobyard log\nnonsense");
    assert!(matches!(Reader::open(&mut disk.clone(), &[]), Err(LogError::Manifest { .. })));
    assert_eq!(seen_anyway(&disk).batches, positions(1..=20));
}

#[test]
fn a_torn_end_is_just_the_end() {
    let (disk, places) = log_of(6);
    let (segment, offset, _) = places[5];
    disk.change(&name_of(segment), |bytes| bytes[offset + 90..].fill(0));
    let seen = seen(&disk);
    assert_eq!((seen.batches, seen.tails, seen.holes.len()), (positions(1..=5), 1, 0));
}

#[test]
fn a_log_that_is_written_meanwhile_is_read_up_to_some_end_of_it() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=9);
    let mut reading = disk.clone();
    let mut reader = Reader::open(&mut reading, &[]).unwrap();
    let (mut next, mut batches) = (10, Vec::new());
    while let Some(found) = reader.next().unwrap() {
        match found {
            Found::Batch(entry) => batches.push(entry.header.position),
            Found::Segment(_) => {}
            Found::Hole(_) | Found::Tail(_) => panic!("{found:?}"),
        }
        append(&mut log, 1, next..=next);
        next += 1;
    }
    assert!(batches.len() >= 9);
    assert_eq!(batches, (1..=batches.len() as u64).collect::<Vec<_>>());
}

#[test]
fn what_the_server_drops_meanwhile_is_no_damage() {
    // Once its file is used again before it is read, once while it is being read.
    for read_before in [0, 3, 6] {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, options());
        append(&mut log, 1, 1..=20);
        let mut reading = disk.clone();
        let mut reader = Reader::open(&mut reading, &[]).unwrap();
        for _ in 0..read_before {
            reader.next().unwrap().unwrap();
        }
        log.truncate_before(20);
        append(&mut log, 1, 21..=60);
        let error = loop {
            match reader.next() {
                Ok(Some(Found::Batch(entry))) => assert_eq!(entry.batch.payload, payload(entry.header.position)),
                Ok(Some(Found::Segment(_))) => {}
                Ok(other) => panic!("{other:?}"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, LogError::MovedOn { .. }), "{error}");
    }
}

#[test]
fn segments_that_do_not_belong_together_are_noticed() {
    let (disk, places) = log_of(20);
    let (other, _) = log_of(3);
    // Another history of the same log: the same positions, another chain.
    let (mut log, claim) = claimed(&other, options());
    for position in 4..=20 {
        let mut different = payload(position);
        different[0] ^= 1;
        submit(&mut log, claim.epoch, position, &different);
    }
    assert_eq!(places[19].0, log.held.as_ref().unwrap().newest().header.id);
    disk.put(&name_of(3), &other.get(&name_of(3)));
    let LogError::Damaged { file, offset, damage, loss } = recovered(&disk).unwrap_err() else { panic!() };
    assert_eq!((file, offset, damage), (name_of(3), 0, Damage::Chain));
    // All batches can be read, but the first of that segment is not the one that belongs there.
    let first = places.iter().position(|(segment, ..)| *segment == 3).unwrap() as u64 + 1;
    assert_eq!((loss.from, loss.to, loss.batches), (first, first, 1));
}

#[test]
fn what_the_disk_cannot_read_is_damage_like_any_other() {
    // Segments of more than one block.
    let large = || Options { segment_bytes: 40_000, ..options() };
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, large());
    append(&mut log, 1, 1..=250);
    disk.state().unreadable = Some((name_of(1), 8192, 12_288));
    let block = seen(&disk);
    assert_eq!(block.holes.len(), 1);
    let (_, _, from, to, _) = block.holes[0];
    assert!(to - from < 40, "{:?}", block.holes);
    assert_eq!(block.batches, (1..from).chain(to + 1..=250).collect::<Vec<_>>());
    let mut again = open(&disk.copy(), large());
    again.disk().state().unreadable = Some((name_of(1), 8192, 12_288));
    again.claim(0).unwrap();
    assert!(matches!(read(&mut again), Err(LogError::Disk { .. })), "a server does not go on");
    disk.state().unreadable = Some((name_of(1), 0, 4096));
    assert_eq!(seen(&disk).batches, positions(1..=250));
}

#[test]
fn a_batch_that_was_looked_at_while_it_was_written_is_read_when_it_is_whole() {
    let (disk, places) = log_of(4);
    assert_eq!(places[3].0, 1, "the test counts on it");
    let whole = disk.get(&name_of(1));
    // What is there when so many batches were read: half of the one behind the next.
    let states = [(0, Some(2)), (1, Some(3)), (3, None)];
    let half = |batch: usize| [&whole[..places[batch].1 + 100], &vec![0; whole.len() - places[batch].1 - 100]].concat();
    let mut reading = disk.clone();
    let mut reader = Reader::open(&mut reading, &[]).unwrap();
    let mut batches = Vec::new();
    loop {
        if let Some((_, state)) = states.iter().find(|(read, _)| *read == batches.len()) {
            disk.change(&name_of(1), |bytes| *bytes = state.map_or_else(|| whole.clone(), half));
        }
        match reader.next().unwrap() {
            Some(Found::Batch(entry)) => batches.push(entry.header.position),
            Some(Found::Segment(_)) => {}
            None => break,
            found => panic!("{found:?}"),
        }
    }
    assert_eq!(batches, [1, 2, 3, 4]);
}

#[test]
fn a_first_segment_without_a_batch_is_no_log_only_if_it_is_alone() {
    let mut disk = TestDisk::new();
    claimed(&disk, options());
    disk.remove_now("manifest");
    disk.put(&name_of(2), &disk.get(&name_of(1)));
    let missing = LogError::MissingManifest { segment: name_of(1) };
    assert_eq!(Reader::open(&mut disk, &[]).unwrap_err(), missing);
}

#[test]
fn without_their_headers_segments_are_read_all_the_same() {
    for count in [3, 7] {
        let (disk, places) = log_of(count);
        for id in 1..=places.last().unwrap().0 {
            disk.change(&name_of(id), |bytes| bytes[20] ^= 1);
        }
        assert_eq!(seen(&disk).batches, positions(1..=count));
    }
}

#[test]
fn damage_before_a_segment_without_a_header_hides_nothing_between() {
    let (disk, places) = log_of(20);
    // The first of two or more in the second segment.
    let at = places.iter().position(|(segment, ..)| *segment == 2).unwrap();
    assert_eq!(places[at + 1].0, 2, "the test counts on it");
    disk.change(&name_of(2), |bytes| bytes[places[at].1] ^= 4);
    disk.change(&name_of(3), |bytes| bytes[20] ^= 1);
    let lost = at as u64 + 1;
    let seen = seen(&disk);
    assert_eq!(seen.batches, (1..=20).filter(|position| *position != lost).collect::<Vec<_>>());
    assert_eq!(seen.holes[0], (name_of(2), places[at].1 as u64, lost, lost, 1));
    assert_eq!(seen.holes[1], (name_of(3), 0, 0, 0, 0), "no batch is lost with a header");
    let loss = Reader::open(&mut disk.clone(), &[]).unwrap().loss().unwrap();
    assert!(!loss.at_least, "what is between two batches is known: {loss}");
}

#[test]
fn damage_that_goes_on_in_the_next_segment_is_counted_in_both() {
    let (disk, places) = log_of(20);
    let bytes: usize = places.iter().filter(|(segment, ..)| *segment == 2).map(|(.., bytes)| bytes).sum();
    let first = places.iter().find(|(segment, ..)| *segment == 3).unwrap();
    disk.change(&name_of(2), |bytes| bytes[..4096].fill(1));
    for (_, offset, _) in places.iter().filter(|(segment, ..)| *segment == 2) {
        disk.change(&name_of(2), |bytes| bytes[*offset] ^= 4);
    }
    disk.change(&name_of(3), |bytes| bytes[20] ^= 1);
    disk.change(&name_of(3), |bytes| bytes[first.1] ^= 4);
    let loss = Reader::open(&mut disk.clone(), &[]).unwrap().loss().unwrap();
    assert_eq!(loss.bytes, (bytes + first.2) as u64, "{loss}");
}

#[test]
fn without_a_manifest_a_segment_of_another_log_is_not_read() {
    let (disk, places) = log_of(20);
    disk.remove_now("manifest");
    let header = crate::files::SegmentHeader::read(&disk.clone().open(&name_of(3)).unwrap(), "").unwrap();
    let other = crate::files::SegmentHeader { salt: SALT + 1, ..header }.to_block();
    disk.change(&name_of(3), |bytes| bytes[..4096].copy_from_slice(&other));
    let seen = seen_anyway(&disk);
    assert_eq!(seen.segments, (1..=places[19].0).filter(|id| *id != 3).collect::<Vec<_>>());
    assert_eq!((seen.holes.len(), &seen.holes[0].0), (1, &name_of(3)));
}
