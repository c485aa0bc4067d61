//! Binlogs that beanstalkd wrote, and such as it never would.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::beanstalkd::testing::{Written, text};
use crate::disk::OsDirectory;

/// A directory with these files that goes away with the test.
struct Place(PathBuf);

impl Place {
    fn new(files: &[(&str, &[u8])]) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("jobyard-binlog-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        for (name, bytes) in files {
            fs::write(path.join(name), bytes).unwrap();
        }
        Place(path)
    }

    fn read(&self) -> Result<Binlog> {
        read(&mut OsDirectory::open(&self.0).unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read_files(files: &[(&str, &[u8])]) -> Result<Binlog> {
    Place::new(files).read()
}

fn refused(files: &[(&str, &[u8])]) -> String {
    match read_files(files) {
        Ok(binlog) => panic!("it was read: {binlog:?}"),
        Err(error) => format!("{error:#}"),
    }
}

fn fixture(name: &str) -> Binlog {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    read(&mut OsDirectory::open(&path).unwrap()).unwrap()
}

/// Each job in a line: id, tube, priority, TTR, state, body.
fn lines(binlog: &Binlog) -> Vec<String> {
    let line = |(id, job): (&u64, &Job)| {
        let stands = match job.stands {
            Stands::Ready => "ready",
            Stands::Delayed { .. } => "delayed",
            Stands::Buried => "buried",
        };
        let (tube, body) = (text(&job.tube), text(&job.body));
        format!("{id} {tube} {} {} {stands} {body}", job.priority, job.ttr_ms)
    };
    binlog.jobs.iter().map(line).collect()
}

/// What README.txt beside the fixtures says.
const HELD: [&str; 9] = [
    "1 default 10 60000 ready ready",
    "2 default 77 60000 buried buried with another priority",
    "3 other 0 30000 delayed put for much later",
    "4 other 42 30000 delayed released for much later",
    "5 other 3 1000 ready kicked",
    "7 other 9 30000 ready reserved",
    "11 bulk 4 120000 ready 3",
    "12 bulk 4 120000 ready 4",
    "13 a+b/c;d.e$f_g(h)-i 4294967295 4294967295000 ready ",
];

#[test]
fn what_beanstalkd_1_12_wrote_is_read() {
    let binlog = fixture("beanstalkd-7");
    assert_eq!(lines(&binlog), HELD);
    assert_eq!((binlog.last_id, binlog.notices.len()), (14, 0));
    assert!(binlog.files.len() > 1, "{:?}", binlog.files);
    let Stands::Delayed { until_wall_ms } = binlog.jobs[&3].stands else { panic!("it is delayed") };
    assert_eq!((until_wall_ms - binlog.jobs[&3].created_wall_ms) / 1_000, i64::from(u32::MAX));
}

#[test]
fn what_beanstalkd_1_4_6_would_have_written_is_read() {
    let binlog = fixture("beanstalkd-5");
    assert_eq!(lines(&binlog), HELD);
    assert_eq!(binlog.last_id, 14);
    let Stands::Delayed { until_wall_ms } = binlog.jobs[&3].stands else { panic!("it is delayed") };
    assert_eq!((until_wall_ms - binlog.jobs[&3].created_wall_ms) / 1_000, i64::from(u32::MAX));
}

/// Three jobs, of which the first is buried and the second deleted; and where each record ends.
fn sample() -> (Written, Vec<usize>) {
    let mut written = Written::new();
    let mut ends = vec![written.bytes.len()];
    let steps: [fn(&mut Written); 5] = [
        |written| written.put(1, "default", 1, b"one"),
        |written| written.put(2, "a-tube", 1, b"two"),
        |written| written.change(1, 3, 3),
        |written| written.change(2, 0, 3),
        |written| written.put(3, "default", 1, b"three"),
    ];
    for step in steps {
        step(&mut written);
        ends.push(written.bytes.len());
    }
    (written, ends)
}

/// How many jobs there are after so many records.
const JOBS: [usize; 6] = [0, 1, 2, 2, 1, 2];

#[test]
fn a_file_that_ends_anywhere_gives_the_records_before_that() {
    let (Written { bytes, .. }, ends) = sample();
    for len in 4..=bytes.len() {
        let binlog = read_files(&[("binlog.1", &bytes[..len])]).unwrap_or_else(|error| panic!("{len}: {error:#}"));
        let records = ends.iter().filter(|&&end| end <= len).count() - 1;
        assert_eq!(binlog.jobs.len(), JOBS[records], "{len}");
        // Nobody can tell the zeros that a record begins with from those of a file that was made ahead.
        let is_whole = bytes[ends[records]..len].iter().all(|&byte| byte == 0);
        assert_eq!(binlog.notices.is_empty(), is_whole, "{len}: {:?}", binlog.notices);
    }
}

#[test]
fn a_file_made_ahead_gives_the_records_before_the_write_in_which_beanstalkd_died() {
    let (Written { bytes, writes }, ends) = sample();
    let in_last_body = bytes.len() - 7..bytes.len();
    for len in writes.into_iter().chain(in_last_body) {
        let mut made = bytes[..len].to_vec();
        made.resize(4_096, 0);
        let binlog = read_files(&[("binlog.1", &made)]).unwrap_or_else(|error| panic!("{len}: {error:#}"));
        let records = ends.iter().filter(|&&end| end <= len).count() - 1;
        assert_eq!(binlog.jobs.len(), JOBS[records], "{len}");
        let is_whole = bytes[ends[records]..len].iter().all(|&byte| byte == 0);
        assert_eq!(binlog.notices.is_empty(), is_whole, "{len}: {:?}", binlog.notices);
    }
}

/// A file that was made ahead, in which the record that `end` writes for job 9 begins at this byte; and what is torn off.
fn at_the_end(at: usize, end: fn(&mut Written), torn: Option<usize>) -> Vec<u8> {
    let mut written = Written::new();
    written.put(9, "default", 1, b"nine");
    let mut more = Written::new();
    more.put(8, "default", 1, b"");
    let body_bytes = at - written.bytes.len() - (more.bytes.len() - 4);
    written.put(8, "default", 1, &vec![b'x'; body_bytes]);
    assert_eq!(written.bytes.len(), at);
    end(&mut written);
    if let Some(torn) = torn {
        written.bytes.truncate(torn);
    }
    written.bytes.resize(4_096, 0);
    written.bytes
}

/// A change of a job takes so many bytes; its state is in this one.
const CHANGE_BYTES: usize = 84;
const STATE_AT: usize = 80;

#[test]
fn a_change_that_a_power_cut_tore_at_any_of_its_bytes_leaves_the_job_as_it_was() {
    let ends: [fn(&mut Written); 3] =
        [|written| written.change(9, 3, 4), |written| written.change(9, 1, 4), |written| written.delay(9, 1_000, 4)];
    for end in ends {
        for there in 0..=STATE_AT {
            // As a disk does, at the end of a sector.
            let at = 1_024 - there;
            let binlog = read_files(&[("binlog.1", &at_the_end(at, end, Some(1_024)))]).unwrap();
            assert_eq!(binlog.jobs[&9].stands, Stands::Ready, "{there}");
            assert_eq!((binlog.jobs.len(), binlog.jobs[&9].priority), (2, 1), "{there}");
            // Of four bytes nobody can tell that they are there, for they are zeros.
            assert_eq!(binlog.notices.len(), usize::from(there > 4), "{there}: {:?}", binlog.notices);
        }
        for there in STATE_AT + 1..=CHANGE_BYTES {
            let at = 1_024 - there;
            let binlog = read_files(&[("binlog.1", &at_the_end(at, end, Some(1_024)))]).unwrap();
            assert_eq!((binlog.jobs[&9].priority, binlog.notices.len()), (7, 0), "{there}");
        }
    }
}

#[test]
fn a_job_that_was_deleted_last_is_gone_unless_a_sector_ends_there() {
    let deleted: fn(&mut Written) = |written| written.change(9, 0, 4);
    for there in 1..=512 {
        let bytes = at_the_end(1_024 - there, deleted, None);
        let binlog = read_files(&[("binlog.1", &bytes)]).unwrap();
        // Before that, something of it is behind the end of the sector.
        let is_in_doubt = (52..=STATE_AT).contains(&there);
        assert_eq!(binlog.jobs.contains_key(&9), is_in_doubt, "{there}");
        let expected = format!(
            "binlog.1 may end at byte {} in a record that was never finished: job 9 is kept as it was before, and it may have \
             been deleted",
            1_024 - there
        );
        assert_eq!(binlog.notices, if is_in_doubt { vec![expected] } else { Vec::new() }, "{there}");
        // With a file behind it that was not used, the same; with one that was, beanstalkd has decided.
        let unused = read_files(&[("binlog.1", &bytes), ("binlog.2", b"\x07\0\0\0\0")]).unwrap();
        assert_eq!(unused.jobs.contains_key(&9), is_in_doubt, "{there}");
        let mut used = Written::new();
        used.put(10, "default", 1, b"ten");
        let used = read_files(&[("binlog.1", &bytes), ("binlog.2", &used.bytes)]).unwrap();
        assert_eq!((used.jobs.contains_key(&9), used.notices.len()), (false, 0), "{there}");
    }
}

#[test]
fn files_that_were_made_ahead_and_not_used_are_none() {
    let (Written { bytes, .. }, ends) = sample();
    let header = [7, 0, 0, 0, 0, 0, 0, 0];
    for more in [&header[..], &header[..4], &[], &[0; 100]] {
        let binlog = read_files(&[("binlog.1", &bytes), ("binlog.2", more), ("binlog.3", more)]).unwrap();
        assert_eq!((binlog.jobs.len(), binlog.files.len(), binlog.notices.len()), (2, 3, 0));
        let torn = &bytes[..bytes.len() - 1];
        let binlog = read_files(&[("binlog.1", torn), ("binlog.2", more)]).unwrap();
        let [notice] = &binlog.notices[..] else { panic!("{:?}", binlog.notices) };
        assert!(notice.starts_with(&format!("binlog.1 ends at byte {} in a record", ends[4])), "{notice}");
    }
}

#[test]
fn a_file_that_ends_in_a_record_before_others_is_refused() {
    let (Written { bytes, .. }, ends) = sample();
    let mut more = Written::new();
    more.put(9, "default", 1, b"nine");
    let error = refused(&[("binlog.1", &bytes[..bytes.len() - 1]), ("binlog.2", &more.bytes)]);
    let at = ends[4];
    assert_eq!(error, format!("binlog.1 ends in the middle of a record, at byte {at}, and there are more behind it"));
    let error = refused(&[("binlog.1", b"\x07"), ("binlog.2", &more.bytes)]);
    assert!(error.starts_with("binlog.1 ends in the middle of a record, at byte 0"), "{error}");
    // Where a crash left zeros, the next start of beanstalkd went on in another file.
    let mut made = bytes[..bytes.len() - 3].to_vec();
    made.resize(4_096, 0);
    let binlog = read_files(&[("binlog.1", &made), ("binlog.2", &more.bytes)]).unwrap();
    assert_eq!(binlog.jobs.keys().collect::<Vec<_>>(), [&1, &9]);
    assert_eq!(binlog.notices.len(), 1);
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let (Written { bytes, .. }, ends) = sample();
    let put = ends[0];
    let fixed = put + 4 + "default".len();
    for (offset, byte, expected) in [
        (0, 6, "binlog.1 has version 6, at byte 0: only 5 and 7 are known".to_owned()),
        (put, 201, format!("binlog.1 is damaged at byte {put}: a tube's name cannot have 201 bytes")),
        (put + 3, 0x80, format!("binlog.1 is damaged at byte {put}: a tube's name cannot have 2147483655 bytes")),
        (put + 4, b'-', format!("binlog.1 is damaged at byte {put}: job 1 is in a tube of no possible name: -efault")),
        (put + 4, 0, format!("binlog.1 is damaged at byte {put}: what is known of a job is not there")),
        (fixed, 0, format!("binlog.1 is damaged at byte {put}: what is known of a job is not there")),
        (fixed + 32, 4, format!("binlog.1 is damaged at byte {put}: the body of job 1 does not end as each does")),
        (fixed + 32, 1, format!("binlog.1 is damaged at byte {put}: job 1 cannot have 1 bytes")),
        (fixed + 35, 0x7f, format!("binlog.1 is damaged at byte {put}: job 1 cannot have 2130706437 bytes")),
        (fixed + 31, 0x80, format!("binlog.1 is damaged at byte {put}: job 1 has times that cannot be")),
        (fixed + 76, 5, format!("binlog.1 is damaged at byte {put}: job 1 is in a state that there is not: 5")),
        (fixed + 76, 0, format!("binlog.1 is damaged at byte {put}: what is known of a job is not there")),
        (ends[2] + 4 + 32, 9, format!("binlog.1 is damaged at byte {}: job 1 has another size than before", ends[2])),
    ] {
        let mut damaged = bytes.clone();
        damaged[offset] = byte;
        assert_eq!(refused(&[("binlog.1", &damaged)]), expected, "byte {offset}");
    }
    let mut hollow = bytes.clone();
    hollow[ends[1]..ends[2]].fill(0);
    let at = ends[1];
    let error = refused(&[("binlog.1", &hollow)]);
    assert_eq!(error, format!("binlog.1 is damaged at byte {at}: what is known of a job is not there"));
}

#[test]
fn a_missing_file_is_refused_and_others_are_no_part_of_it() {
    let (Written { bytes, .. }, _) = sample();
    let error = refused(&[("binlog.3", &bytes), ("binlog.5", &bytes)]);
    assert_eq!(error, "binlog.4 is missing between those before it and binlog.5");
    let others = [("binlog.1.imported", &b"x"[..]), ("binlog.", b"x"), ("binlog.x", b"x"), ("lock", b"1\n")];
    let mut files = others.to_vec();
    files.push(("binlog.10", &bytes));
    files.push(("binlog.9", &bytes[..4]));
    let binlog = read_files(&files).unwrap();
    assert_eq!(binlog.files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["binlog.9", "binlog.10"]);
    assert_eq!(binlog.jobs.len(), 2);
}

#[test]
fn a_file_has_a_number_as_beanstalkd_writes_it() {
    let (Written { bytes, .. }, _) = sample();
    let names_of = |files: &[(&str, &[u8])]| {
        let files = read_files(files).unwrap().files;
        files.into_iter().map(|file| file.name).collect::<Vec<_>>()
    };
    let found = names_of(&[("binlog.01", b"x"), ("binlog.1", &bytes), ("binlog.+2", b"x"), ("binlog.002", b"x")]);
    assert_eq!(found, ["binlog.1"]);
    let last = [("binlog.4294967294", &bytes[..]), ("binlog.4294967295", &bytes), ("binlog.4294967296", b"x")];
    assert_eq!(names_of(&last), ["binlog.4294967294", "binlog.4294967295"]);
    let error = refused(&[("binlog.1", &bytes), ("binlog.4294967295", &bytes)]);
    assert_eq!(error, "binlog.2 is missing between those before it and binlog.4294967295");
}

#[test]
fn a_job_may_be_written_once_more_but_no_other_may_have_its_id() {
    let mut written = Written::new();
    written.put(5, "default", 1, b"five");
    let at = written.bytes.len();
    written.put(5, "default", 9, b"five");
    let binlog = read_files(&[("binlog.1", &written.bytes)]).unwrap();
    assert_eq!(lines(&binlog), ["5 default 9 60000 ready five"]);
    // A second later, and more: in the highest byte but one of when it was put.
    let created = at + 4 + "default".len() + 40;
    written.bytes[created + 6] += 1;
    let error = refused(&[("binlog.1", &written.bytes)]);
    assert_eq!(error, format!("binlog.1 is damaged at byte {at}: job 5 is another than before"));
}

#[test]
fn what_befell_a_job_whose_put_is_gone_is_told_unless_it_is_written_once_more_or_deleted() {
    let mut lost = Written::new();
    let places = [5, 4].map(|id| {
        let at = lost.bytes.len();
        lost.change(id, 3, 3);
        at
    });
    let notices = |written: &Written| read_files(&[("binlog.2", &written.bytes)]).unwrap().notices;
    let said =
        format!("in binlog.2, at byte {}, job 4 is spoken of, and 1 more, and no file says what it is", places[1]);
    assert!(notices(&lost)[0].contains(&said), "{:?}", notices(&lost));
    lost.change(4, 0, 3);
    let said = format!("in binlog.2, at byte {}, job 5 is spoken of, and no file", places[0]);
    assert!(notices(&lost)[0].contains(&said), "{:?}", notices(&lost));
    assert!(notices(&lost)[0].ends_with("if a file before binlog.2 was lost, so are its jobs"));

    let mut written = Written::new();
    written.change(5, 3, 3);
    written.change(6, 0, 3);
    // It was written once more, and then only that counts.
    written.put(5, "default", 9, b"five!");
    let binlog = read_files(&[("binlog.2", &written.bytes)]).unwrap();
    assert_eq!(lines(&binlog), ["5 default 9 60000 ready five!"]);
    assert_eq!((binlog.last_id, binlog.notices), (6, Vec::new()));
}

#[test]
fn the_sum_of_a_file_changes_with_any_byte() {
    assert_ne!(sum(b"ab"), sum(b"ba"));
    assert_ne!(sum(b"a\0"), sum(b"a"));
    assert_eq!(sum(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(sum(b"a"), 0xaf63_dc4c_8601_ec8c);
}
