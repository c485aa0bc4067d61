//! The disk keeps what was synced, whatever the crash; and every crash that can be told apart comes.

use std::collections::BTreeSet;

use super::*;

/// A disk with a file `a` that holds `old` sectors of `o`, all of it durable.
fn disk(old: usize) -> (SimDisk, SimFile) {
    let mut disk = SimDisk::default();
    let mut file = disk.create("a").unwrap();
    file.write_at(0, &b"o".repeat(old * SECTOR_BYTES)).unwrap();
    file.sync().unwrap();
    disk.sync_directory().unwrap();
    (disk, file)
}

fn read(image: &Image, name: &str) -> Option<Vec<u8>> {
    image.get(name).map(|bytes| bytes.to_vec())
}

fn names(image: &Image) -> Vec<&str> {
    image.keys().map(String::as_str).collect()
}

/// Each sector by its one byte, `*` if it has many.
fn sectors(bytes: &[u8]) -> String {
    let letter = |sector: &[u8]| match sector {
        [first, rest @ ..] if rest.iter().all(|byte| byte == first) => char::from(*first),
        _ => '*',
    };
    bytes.chunks(SECTOR_BYTES).map(letter).collect()
}

/// Every image of one file that some seed gives.
fn outcomes(disk: &SimDisk, name: &str, crash: fn(u64) -> Crash) -> BTreeSet<Option<String>> {
    (0..500).map(|seed| read(&disk.crash(crash(seed)), name).map(|bytes| sectors(&bytes))).collect()
}

fn all_of(outcomes: &[&str]) -> BTreeSet<Option<String>> {
    outcomes.iter().map(|outcome| Some((*outcome).to_owned())).collect()
}

#[test]
fn what_is_written_is_read_by_everyone() {
    let (mut disk, mut file) = disk(0);
    file.write_at(3, b"abc").unwrap();
    let mut bytes = [9; 8];
    assert_eq!(disk.open("a").unwrap().read_at(1, &mut bytes).unwrap(), 5);
    assert_eq!(&bytes[..5], b"\0\0abc");
    assert_eq!(file.read_at(6, &mut bytes).unwrap(), 0);
    assert_eq!(file.bytes().unwrap(), 6);
    assert_eq!(disk.open("b").unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(disk.create("a").unwrap().bytes().unwrap(), 0, "it is emptied");
    disk.rename("a", "b").unwrap();
    assert_eq!(disk.list().unwrap(), ["b"]);
    disk.remove("b").unwrap();
    assert!(disk.list().unwrap().is_empty());
    assert!(disk.remove("b").is_err() && disk.rename("b", "c").is_err());
}

#[test]
fn what_is_synced_survives_every_crash() {
    let (mut disk, mut file) = disk(2);
    file.write_at(700, b"new").unwrap();
    file.sync().unwrap();
    disk.rename("a", "b").unwrap();
    disk.sync_directory().unwrap();
    let kept = disk.crash(Crash::Kill);
    assert_eq!(&kept["b"][700..703], b"new");
    for crash in [Crash::Lost, Crash::BytesLost, Crash::NamesLost, Crash::Torn(0)] {
        assert_eq!(disk.crash(crash), kept, "{crash:?}");
    }
    for seed in 0..50 {
        assert_eq!(disk.crash(Crash::Names(seed)), kept);
        assert_eq!(disk.crash(Crash::Scattered(seed)), kept);
        assert_eq!(disk.crash(Crash::Garbage(seed)), kept);
    }
    assert!(disk.tears().is_empty() && disk.look().state.is_settled());
}

#[test]
fn what_is_not_synced_is_lost_or_kept() {
    let (mut disk, mut file) = disk(1);
    file.write_at(512, &[b'n'; 512]).unwrap();
    disk.create("c").unwrap().write_at(0, b"c").unwrap();
    disk.rename("a", "b").unwrap();
    let lost = disk.crash(Crash::Lost);
    assert_eq!((names(&lost), sectors(&lost["a"]).as_str()), (vec!["a"], "o"));
    let kept = disk.crash(Crash::Kill);
    assert_eq!((names(&kept), sectors(&kept["b"]).as_str()), (vec!["b", "c"], "on"));
    let bytes_lost = disk.crash(Crash::BytesLost);
    assert_eq!((sectors(&bytes_lost["b"]).as_str(), bytes_lost["c"].len()), ("o", 0));
    let names_lost = disk.crash(Crash::NamesLost);
    assert_eq!((names(&names_lost), sectors(&names_lost["a"]).as_str()), (vec!["a"], "on"));
}

#[test]
fn the_last_write_is_torn_where_sectors_end_and_elsewhere() {
    let (disk, mut file) = disk(4);
    file.write_at(10, &[b'x'; 20]).unwrap();
    file.write_at(500, &[b'n'; 1100]).unwrap();
    assert_eq!(disk.tears(), [0, 1, 12, 524, 551, 1036, 1099]);
    for tear in disk.tears() {
        let bytes = read(&disk.crash(Crash::Torn(tear)), "a").unwrap();
        assert_eq!(bytes.iter().filter(|&&byte| byte == b'x').count(), 20, "the write before it is whole");
        assert_eq!(bytes[500..].iter().take_while(|&&byte| byte == b'n').count(), tear);
        assert!(bytes[500 + tear..].iter().all(|&byte| byte == b'o'));
    }
}

#[test]
fn a_torn_write_beyond_the_end_makes_the_file_shorter() {
    let (disk, mut file) = disk(1);
    file.write_at(512, &[b'n'; 600]).unwrap();
    assert_eq!(disk.crash(Crash::Torn(512))["a"].len(), 1024);
    assert_eq!(disk.crash(Crash::Torn(0))["a"].len(), 512);
}

#[test]
fn each_sector_is_as_at_any_moment_since_the_sync() {
    let (disk, mut file) = disk(2);
    file.write_at(0, &[b'1'; 1024]).unwrap();
    file.write_at(512, &[b'2'; 512]).unwrap();
    let expected = all_of(&["oo", "o1", "o2", "1o", "11", "12"]);
    assert_eq!(outcomes(&disk, "a", Crash::Scattered), expected);
}

#[test]
fn a_file_may_be_as_long_as_at_any_moment_since_the_sync() {
    let (disk, mut file) = disk(1);
    file.write_at(512, &[b'n'; 512]).unwrap();
    assert_eq!(outcomes(&disk, "a", Crash::Scattered), all_of(&["o", "on", "o\0"]));
    SimDisk::clone(&disk).create("a").unwrap();
    assert!(outcomes(&disk, "a", Crash::Scattered).contains(&Some(String::new())));
}

#[test]
fn garbage_is_only_where_something_was_written() {
    let (disk, mut file) = disk(3);
    file.write_at(600, &[b'n'; 800]).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let bytes = read(&disk.crash(Crash::Garbage(seed)), "a").unwrap();
        assert!(bytes[..600].iter().chain(&bytes[1400..]).all(|&byte| byte == b'o'));
        seen.insert(match &bytes[700..705] {
            b"ooooo" => "old",
            b"nnnnn" => "new",
            b"\0\0\0\0\0" => "zeros",
            _ => "garbage",
        });
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn each_name_is_or_is_not_but_none_without_what_it_follows_from() {
    let (mut disk, _) = disk(1);
    disk.create("n").unwrap().write_at(0, &[b'n'; 512]).unwrap();
    disk.rename("n", "a").unwrap();
    disk.create("c").unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let image = disk.crash(Crash::Names(seed));
        let a = sectors(&image["a"]);
        assert!(a == "o" || !image.contains_key("n"), "renamed, and still there under its old name");
        seen.insert((a, names(&image).join(" ")));
    }
    let expected = [("n", "a"), ("n", "a c"), ("o", "a"), ("o", "a c"), ("o", "a c n"), ("o", "a n")];
    assert_eq!(seen, expected.map(|(a, names)| (a.to_owned(), names.to_owned())).into());
}

#[test]
fn names_are_exchanged_both_or_neither() {
    let (mut disk, _) = disk(1);
    disk.create("n").unwrap().write_at(0, &[b'n'; 512]).unwrap();
    disk.sync_directory().unwrap();
    disk.exchange("n", "a").unwrap();
    let outcome = |image: &Image| format!("{}{}", sectors(&image["a"]), sectors(&image["n"]));
    let outcomes: BTreeSet<_> = (0..50).map(|seed| outcome(&disk.crash(Crash::Names(seed)))).collect();
    assert_eq!(outcomes, ["no", "on"].map(str::to_owned).into());
    disk.sync_directory().unwrap();
    assert_eq!(outcome(&disk.crash(Crash::NamesLost)), "no");
    assert!(disk.exchange("a", "nothing").is_err());
}

#[test]
fn a_removed_file_may_come_back_with_what_was_written_since() {
    let (mut disk, mut file) = disk(1);
    disk.rename("a", "b").unwrap();
    file.write_at(0, &[b'n'; 512]).unwrap();
    file.sync().unwrap();
    disk.remove("b").unwrap();
    assert_eq!(read(&disk.crash(Crash::Lost), "a").map(|bytes| sectors(&bytes)).as_deref(), Some("n"));
    assert!(disk.crash(Crash::Kill).is_empty());
    let outcomes: BTreeSet<_> = (0..50).map(|seed| names(&disk.crash(Crash::Names(seed))).join(" ")).collect();
    assert_eq!(outcomes, ["", "a", "b"].map(str::to_owned).into());
}

#[test]
fn a_failed_sync_makes_nothing_durable_and_the_next_one_does_not_make_up_for_it() {
    let (disk, mut file) = disk(2);
    file.write_at(0, &[b'n'; 512]).unwrap();
    disk.fail(disk.tried(), Fault::Broken);
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
    file.write_at(512, &[b'm'; 512]).unwrap();
    file.sync().unwrap();
    assert_eq!(sectors(&disk.crash(Crash::Lost)["a"]), "om");
    assert_eq!(sectors(&disk.crash(Crash::Kill)["a"]), "nm");
}

#[test]
fn of_what_a_failed_sync_left_only_what_was_not_written_over_can_be_lost_or_come_back() {
    let (disk, mut file) = disk(4);
    file.write_at(0, &[b'n'; 4 * 512]).unwrap();
    disk.fail(disk.tried(), Fault::Broken);
    file.sync().unwrap_err();
    file.write_at(512, &[b'm'; 512]).unwrap();
    file.write_at(1024, &[b'm'; 512]).unwrap();
    file.sync().unwrap();
    assert_eq!(sectors(&disk.crash(Crash::Lost)["a"]), "ommo");
    assert_eq!(sectors(&disk.crash(Crash::Torn(0))["a"]), "nmmo");
    assert_eq!(outcomes(&disk, "a", Crash::Scattered), all_of(&["ommo", "nmmo", "ommn", "nmmn"]));
}

#[test]
fn what_fails_changes_nothing() {
    let (mut disk, mut file) = disk(1);
    let before = disk.operations();
    disk.fail_from(disk.tried(), Fault::Full);
    let errors = [
        disk.create("b").map(|_| ()),
        disk.rename("a", "b"),
        disk.remove("a"),
        disk.sync_directory(),
        file.write_at(0, b"n").map(|_| ()),
    ];
    assert!(errors.iter().all(|error| error.as_ref().is_err_and(|error| error.raw_os_error() == Some(28))));
    assert_eq!((disk.operations(), disk.tried()), (before, 9));
    assert_eq!(disk.struck(), ["create", "rename", "remove", "sync of the directory", "write"]);
    disk.fail_read(disk.read() + 1, Fault::Broken);
    assert_eq!(disk.list().unwrap(), ["a"]);
    assert!(file.bytes().is_err());
    assert_eq!(file.bytes().unwrap(), 512);
}

#[test]
fn a_short_write_is_told() {
    let (disk, mut file) = disk(0);
    disk.fail(disk.tried(), Fault::Short(3));
    disk.fail(disk.tried() + 1, Fault::Short(0));
    assert_eq!(file.write_at(0, b"abcdef").unwrap(), 3);
    assert_eq!(file.write_at(3, b"def").unwrap(), 0);
    assert_eq!(file.write_at(3, b"def").unwrap(), 3);
    assert_eq!(read(&disk.crash(Crash::Kill), "a").unwrap(), b"abcdef");
}

#[test]
fn a_full_disk_takes_what_fits() {
    let (mut disk, mut file) = disk(1);
    disk.set_capacity(Some(600));
    assert_eq!(file.write_at(500, &[b'n'; 200]).unwrap(), 100);
    assert_eq!(file.write_at(600, b"n").unwrap_err().raw_os_error(), Some(28));
    assert_eq!(file.write_at(0, b"over").unwrap(), 4, "what is there can be written again");
    assert_eq!(disk.create("b").unwrap().write_at(1_000, b"n").unwrap_err().raw_os_error(), Some(28));
    disk.prepare("spare", 10);
    assert_eq!(disk.prepared(false).unwrap().unwrap_err().raw_os_error(), Some(28));
    assert_eq!(disk.list().unwrap(), ["a", "b"], "nothing is left of it");
    disk.remove("a").unwrap();
    disk.prepare("spare", 600);
    disk.prepared(false).unwrap().unwrap();
    assert_eq!(disk.bytes(), 600);
}

#[test]
fn a_file_is_prepared_as_late_as_asked_and_then_durable() {
    let (mut disk, _) = disk(0);
    assert!(disk.prepared(true).is_none());
    disk.set_prepare_polls(2);
    disk.create("b").unwrap();
    disk.prepare("spare", 1024);
    assert!(disk.prepared(false).is_none() && disk.prepared(false).is_none());
    assert_eq!(names(&disk.crash(Crash::Lost)), ["a"]);
    let outcomes = outcomes(&disk, "spare", Crash::Scattered);
    assert_eq!(outcomes, [None, Some(String::new()), Some("\0\0".to_owned())].into());
    disk.prepared(false).unwrap().unwrap();
    let lost = disk.crash(Crash::Lost);
    assert_eq!((names(&lost), sectors(&lost["spare"]).as_str()), (vec!["a", "spare"], "\0\0"));
    disk.prepare("spare-2", 512);
    disk.prepared(true).unwrap().unwrap();
    assert_eq!(disk.bytes(), 1536);
}

#[test]
fn a_walk_sees_what_the_disk_was_at_each_moment() {
    let (mut disk, mut file) = disk(1);
    let mut seen = vec![(disk.operations(), disk.crash(Crash::Lost), disk.crash(Crash::Garbage(7)), disk.tears())];
    let mut note = |disk: &SimDisk| {
        seen.push((disk.operations(), disk.crash(Crash::Lost), disk.crash(Crash::Garbage(7)), disk.tears()));
    };
    file.write_at(100, &[b'n'; 1000]).unwrap();
    note(&disk);
    disk.prepare("spare", 700);
    note(&disk);
    disk.prepared(true).unwrap().unwrap();
    note(&disk);
    disk.rename("spare", "b").unwrap();
    note(&disk);
    disk.fail(disk.tried(), Fault::Broken);
    file.sync().unwrap_err();
    note(&disk);
    file.sync().unwrap();
    note(&disk);
    disk.sync_directory().unwrap();
    disk.remove("b").unwrap();
    note(&disk);

    let history = disk.history();
    let mut walk = history.walk();
    let mut steps = 0;
    for (at, lost, garbage, tears) in seen {
        while steps < at {
            walk.step().unwrap();
            steps += 1;
        }
        assert_eq!((walk.crash(Crash::Lost), walk.crash(Crash::Garbage(7)), walk.tears()), (lost, garbage, tears));
        assert_eq!(walk.disk().crash(Crash::Lost), walk.crash(Crash::Lost));
        assert_eq!(walk.disk().history().walk().crash(Crash::Garbage(7)), walk.crash(Crash::Garbage(7)));
    }
    assert!(walk.step().is_none() && !walk.is_settled());
    let again = SimDisk::from_image(&disk.crash(Crash::Kill));
    assert_eq!(again.crash(Crash::Lost), disk.crash(Crash::Kill));
}
