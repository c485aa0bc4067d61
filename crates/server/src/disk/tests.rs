//! What the real disk promises, in temporary directories.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A directory that goes away with the test. The disk's own is inside.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("jobyard-disk-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn disk(&self) -> OsDisk {
        OsDisk::open(&self.data()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refused(path: &Path) -> String {
    format!("{:#}", OsDisk::open(path).unwrap_err())
}

fn names(disk: &impl Disk) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_missing_directory_is_made_for_its_owner_alone() {
    let place = Place::new();
    let mut disk = place.disk();
    assert_eq!(mode(&place.data()), 0o700);
    assert_eq!(names(&disk), Vec::<String>::new(), "the lock is none of the log's files");
    disk.create("a").unwrap();
    disk.prepare("b", 1);
    disk.prepared(true).unwrap().unwrap();
    for name in ["a", "b", "lock"] {
        assert_eq!(mode(&place.data().join(name)), 0o600, "{name}");
    }
}

#[test]
fn names_are_exchanged() {
    let place = Place::new();
    let mut disk = place.disk();
    for name in ["a", "b"] {
        disk.create(name).unwrap().write_at(0, name.as_bytes()).unwrap();
    }
    disk.exchange("a", "b").unwrap();
    let held = |name: &str| fs::read_to_string(place.data().join(name)).unwrap();
    assert_eq!((held("a").as_str(), held("b").as_str()), ("b", "a"));
    assert!(disk.exchange("a", "nothing").is_err());
    assert_eq!(names(&disk), ["a", "b"]);
}

#[test]
fn a_file_named_without_its_directory_is_refused() {
    // As `--data jobs` names one.
    let file = Path::new("Cargo.toml");
    assert_eq!(refused(file), "Cargo.toml is no directory");
}

#[test]
fn a_directory_that_is_renamed_is_still_the_one_that_is_written_to() {
    let place = Place::new();
    let mut disk = OsDisk::open(&place.data()).unwrap();
    let elsewhere = place.data().with_extension("elsewhere");
    fs::rename(place.data(), &elsewhere).unwrap();
    let other = OsDisk::open(&place.data()).unwrap();
    disk.create("a").unwrap();
    disk.rename("a", "b").unwrap();
    disk.prepare("c", 1);
    disk.prepared(true).unwrap().unwrap();
    assert_eq!(names(&disk), ["b", "c"]);
    assert_eq!(names(&other), Vec::<String>::new());
    assert!(elsewhere.join("b").exists());
    drop(disk);
    fs::remove_dir_all(elsewhere).unwrap();
}

#[test]
fn a_lock_file_that_is_removed_lets_nobody_in() {
    let place = Place::new();
    let disk = OsDisk::open(&place.data()).unwrap();
    fs::remove_file(place.data().join("lock")).unwrap();
    assert!(OsDisk::open(&place.data()).is_err());
    drop(disk);
    OsDisk::open(&place.data()).unwrap();
}

#[test]
fn a_missing_parent_is_named() {
    let place = Place::new();
    let path = place.data().join("deeper");
    assert_eq!(
        refused(&path),
        format!("cannot make the directory {}: {} does not exist", path.display(), place.data().display())
    );
    assert!(!place.data().exists());
}

#[test]
fn a_second_server_is_refused_and_told_who_was_first() {
    let place = Place::new();
    let first = place.disk();
    let message = format!(
        "cannot keep jobs in {}: another server is using it: process {}",
        place.data().display(),
        std::process::id()
    );
    assert_eq!(refused(&place.data()), message);
    assert_eq!(refused(&place.data()), message, "a refusal changes nothing");
    drop(first);
    place.disk();
}

#[test]
fn the_process_id_of_a_former_server_is_replaced() {
    let place = Place::new();
    fs::create_dir(place.data()).unwrap();
    fs::write(place.data().join(LOCK), "4294967295999\nmore\n").unwrap();
    let _disk = place.disk();
    assert_eq!(fs::read_to_string(place.data().join(LOCK)).unwrap(), format!("{}\n", std::process::id()));
    fs::write(place.data().join(LOCK), "\u{fffd}nobody").unwrap();
    assert!(refused(&place.data()).ends_with("another server is using it"));
}

#[test]
fn what_is_written_is_read_back_where_it_was_written() {
    let place = Place::new();
    let mut disk = place.disk();
    let mut file = disk.create("a").unwrap();
    assert_eq!(file.write_at(3, b"body").unwrap(), 4);
    file.sync().unwrap();
    disk.sync_directory().unwrap();
    let file = disk.open("a").unwrap();
    assert_eq!(file.bytes().unwrap(), 7);
    let mut bytes = [9; 10];
    assert_eq!(file.read_at(1, &mut bytes).unwrap(), 6);
    assert_eq!(&bytes[..7], b"\0\0body\x09");
    assert_eq!(file.read_at(7, &mut bytes).unwrap(), 0);
    assert_eq!(disk.open("b").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn files_are_emptied_renamed_and_removed() {
    let place = Place::new();
    let mut disk = place.disk();
    disk.create("a").unwrap().write_at(0, b"old").unwrap();
    assert_eq!(disk.create("a").unwrap().bytes().unwrap(), 0);
    disk.create("b").unwrap().write_at(0, b"b").unwrap();
    disk.rename("b", "a").unwrap();
    assert_eq!(disk.open("a").unwrap().bytes().unwrap(), 1);
    disk.create("c").unwrap();
    disk.remove("c").unwrap();
    assert_eq!(disk.remove("c").unwrap_err().kind(), ErrorKind::NotFound);
    fs::create_dir(place.data().join("lost+found")).unwrap();
    assert_eq!(names(&disk), ["a"]);
}

#[test]
fn a_prepared_file_is_zeros_that_have_room() {
    let place = Place::new();
    let mut disk = place.disk();
    assert!(disk.prepared(true).is_none(), "none is being prepared");
    let bytes = 2 * (1 << 20) + 5;
    disk.prepare("spare-1.log", bytes);
    disk.prepared(true).unwrap().unwrap();
    assert!(disk.prepared(false).is_none(), "it was told once");
    assert_eq!(names(&disk), ["spare-1.log"]);
    let metadata = fs::metadata(place.data().join("spare-1.log")).unwrap();
    assert_eq!(metadata.len(), bytes);
    assert!(metadata.blocks() * 512 >= bytes, "a hole is no room");
    assert!(fs::read(place.data().join("spare-1.log")).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn who_does_not_wait_is_told_when_it_is_done() {
    let place = Place::new();
    let mut disk = place.disk();
    disk.prepare("spare-1.log", 1);
    while disk.prepared(false).map(Result::unwrap).is_none() {
        std::thread::yield_now();
    }
    assert_eq!(names(&disk), ["spare-1.log"]);
}

#[test]
fn of_a_file_that_could_not_be_prepared_nothing_is_left() {
    let place = Place::new();
    let mut disk = place.disk();
    // There is a directory of that name.
    fs::create_dir(place.data().join("spare-1.new")).unwrap();
    disk.prepare("spare-1.new", 10);
    assert!(disk.prepared(true).unwrap().is_err());
    assert_eq!(names(&disk), Vec::<String>::new());
    // Larger than any file can be.
    disk.prepare("spare-2.new", u64::MAX);
    assert!(disk.prepared(true).unwrap().is_err());
    assert_eq!(names(&disk), Vec::<String>::new());
    disk.prepare("spare-3.new", 256 << 20);
    drop(disk);
    assert_eq!(names(&place.disk()), Vec::<String>::new(), "what was being prepared ends with the disk");
}

#[test]
fn who_only_looks_needs_no_lock_and_cannot_write() {
    let place = Place::new();
    assert!(format!("{:#}", OsDirectory::open(&place.data()).unwrap_err()).contains("No such file"));
    let mut disk = place.disk();
    disk.create("a").unwrap().write_at(0, b"jobs").unwrap();
    let mut directory = OsDirectory::open(&place.data()).unwrap();
    let mut file = directory.open_to_read("a").unwrap();
    assert_eq!((DiskFile::bytes(&file).unwrap(), directory.names().unwrap()), (4, vec!["a".to_owned()]));
    assert!(file.write_at(0, b"x").is_err());
    assert!(directory.open_to_read("b").is_err());
    assert_eq!(fs::read(place.data().join("a")).unwrap(), b"jobs");
}

#[test]
fn a_log_is_kept_over_several_segments_and_comes_back() {
    use jobyard_log::{Batch, Completion, FileLog, Log, Moment, Options};

    let place = Place::new();
    let options = || Options { segment_bytes: 64 << 10, ..Options::new(7) };
    let payload = |position: u64| vec![u8::try_from(position % 251).unwrap(); 5000];
    for (life, batches) in [(1, 1..=40), (2, 41..=60)] {
        let mut log = FileLog::open(place.disk(), options());
        let claim = log.claim(0).unwrap();
        assert_eq!((claim.epoch, claim.tail + 1), (life, *batches.start()));
        let mut replayed = 0;
        let mut next = Some(1);
        while let Some(from) = next {
            next = log
                .replay(from, 100_000, &mut |batch| {
                    replayed += 1;
                    assert_eq!((batch.position, batch.batch.payload), (replayed, &payload(replayed)[..]));
                })
                .unwrap();
        }
        assert_eq!(replayed, claim.tail);
        for position in batches {
            log.submit(claim.epoch, position, Batch { at: Moment::default(), payload: &payload(position) });
            assert_eq!(log.completed(), Some(Completion::Durable(position)), "{:?}", log.trouble());
            log.tend(position * 1000);
        }
        log.close();
    }
    assert!(fs::read_dir(place.data()).unwrap().count() > 5);
}
