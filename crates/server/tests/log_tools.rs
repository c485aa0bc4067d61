//! `jobyard log`: what the tools say of a directory, with a server in it or not, and that a copy of it is one.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use support::storage::{add, complete, remove, said, said_to_add, segments, serve, state, uuid};
use support::{Directory, Ended, Peer, jobyard, run_with, text, until};

fn body(job: u32) -> String {
    format!("{job} {}", "x".repeat(1000))
}

fn tool(words: &[&str]) -> Ended {
    run_with(&[&["log"], words].concat())
}

/// Runs a tool that must succeed; what it printed.
fn printed(words: &[&str]) -> String {
    let ended = tool(words);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?}");
    ended.stdout
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn contents(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Jobs over several segments, half of which are gone again.
fn busy(client: &mut Peer) {
    for job in 1..=200 {
        assert!(add(client, job, &body(job)));
    }
    for job in 1..=100 {
        assert!(remove(client, job));
    }
}

#[test]
fn the_tools_work_with_and_without_a_server_and_change_nothing() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data);
    busy(&mut server.connect());
    let tools: [&[&str]; 4] =
        [&["verify", text(&data)], &["stats", text(&data)], &["dump", text(&data)], &["dump", text(&data), "--jobs"]];
    let live: Vec<_> = tools.iter().map(|words| printed(words)).collect();
    server.kill();
    let before = contents(&data);
    let stopped: Vec<_> = tools.iter().map(|words| printed(words)).collect();
    assert_eq!(live, stopped);
    assert!(contents(&data) == before);
}

#[test]
fn verify_says_what_there_is() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data);
    busy(&mut server.connect());
    server.stop();
    let said = printed(&["verify", text(&data)]);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "manifest: format 1, epoch 1; it was closed");
    let segments = segments(&data);
    assert_eq!(lines.len(), segments.len() + 2, "{said}");
    assert!(
        lines[1].contains(segments[0].file_name().unwrap().to_str().unwrap()) && lines[1].ends_with(": ok"),
        "{said}"
    );
    assert!(said.ends_with("; 100 jobs in 1 queue\n"), "{said}");
}

#[test]
fn verify_finds_damage_and_says_what_salvage_would_lose() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data);
    let mut client = server.connect();
    for job in 1..=200 {
        assert!(add(&mut client, job, &body(job)));
    }
    server.kill();
    let second = &segments(&data)[1];
    let mut bytes = fs::read(second).unwrap();
    bytes[4096 + 100] ^= 1;
    fs::write(second, bytes).unwrap();
    let ended = tool(&["verify", text(&data)]);
    assert_eq!(ended.code, Some(1));
    let name = second.file_name().unwrap().to_str().unwrap();
    let line = ended.stdout.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line.contains("DAMAGED at byte 4096: the batch's payload does not match its checksum"), "{line}");
    for part in ["the log is damaged", "--salvage", "199 jobs in 1 queue", "is unreadable"] {
        assert!(ended.stderr.contains(part), "expected '{part}' in: {}", ended.stderr);
    }
    for tool_name in ["stats", "dump"] {
        let ended = tool(&[tool_name, text(&data)]);
        assert_eq!(ended.code, Some(1), "{tool_name}");
        assert!(ended.stderr.contains("the log is damaged"), "{}", ended.stderr);
    }
    let copy = directory.join("copy");
    let ended = tool(&["backup", text(&data), text(&copy)]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("the log is damaged"), "{}", ended.stderr);
    assert!(!copy.join("manifest").exists());
}

#[test]
fn what_is_no_data_directory_is_refused() {
    let directory = Directory::new();
    for (path, message) in [(directory.0.clone(), "there is no log here"), (directory.join("none"), "cannot look at")] {
        for words in [&["verify"][..], &["stats"], &["dump"]] {
            let ended = tool(&[words, &[text(&path)]].concat());
            assert_eq!(ended.code, Some(1));
            assert!(ended.stderr.contains(message) && ended.stderr.contains(text(&path)), "{}", ended.stderr);
        }
    }
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[test]
fn dump_prints_every_record_and_nothing_that_a_terminal_would_obey() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data);
    let mut client = server.connect();
    let hostile = "\u{1b}[2J\u{9b}31m\"quotes\"\u{202e}";
    assert!(add(&mut client, 1, hostile));
    assert!(add(&mut client, 2, "two"));
    assert!(complete(&mut client, 2, "result"));
    let mut goqueue = server.connect();
    use std::io::Write as _;
    goqueue.stream.write_all(b"ADD\0q\0\0\0\0\0\0\0\0\0\x02\0\0\0\xff\0").unwrap();
    goqueue.expect("ADDED\0\x03");
    server.stop();
    let dumped = printed(&["dump", text(&data)]);
    assert!(dumped.chars().all(|letter| letter == '\n' || (' '..'\u{7f}').contains(&letter)), "{dumped}");
    let lines = json_lines(&dumped);
    let of = |kind: &str| lines.iter().filter(|line| line["record"] == kind).collect::<Vec<_>>();
    let enqueued = of("enqueued");
    assert_eq!(enqueued.len(), 3);
    assert_eq!(enqueued[0]["body"], hostile);
    assert_eq!(enqueued[0]["uuid"], uuid(1));
    assert_eq!(enqueued[2]["body_base64"], "/wA=");
    assert_eq!((&enqueued[2]["job"], &enqueued[2]["queue"]), (&Value::from(3), &Value::from("q")));
    assert_eq!(of("queue_created").len(), 1);
    assert_eq!(of("done")[0]["result"], "result");
    let positions: Vec<_> = lines.iter().map(|line| line["position"].as_u64().unwrap()).collect();
    assert!(positions.is_sorted() && positions[0] == 1, "{positions:?}");
    assert!(lines[0]["time"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn who_has_seen_enough_of_a_dump_may_go() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data);
    busy(&mut server.connect());
    server.stop();
    let mut child = jobyard().args(["log", "dump", text(&data)]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn dump_of_jobs_says_why_each_is_where_it_is() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data);
    let mut workq = server.connect();
    let mut task = server.connect();
    assert!(add(&mut workq, 1, "leased"));
    assert_eq!(said(&mut workq, "lease q 0\r\n"), "+OK 1");
    workq.line();
    workq.line();
    for (line, answer) in [
        ("PUSH {\"name\":\"n\",\"queue\":\"first\"}", "OK {\"id\":2}"),
        ("PUSH {\"name\":\"n\",\"queue\":\"b\",\"blocked_by\":[2]}", "OK {\"id\":3}"),
        ("PUSH {\"name\":\"n\",\"queue\":\"d\",\"execute_at\":\"2096-01-01T00:00:00Z\"}", "OK {\"id\":4}"),
        ("PUSH {\"name\":\"n\",\"queue\":\"f\"}", "OK {\"id\":5}"),
        ("FETCH {\"queues\":[\"f\"]}", "OK {\"id\":5,\"queue\":\"f\",\"name\":\"n\"}"),
        ("NACK {\"id\":5}", "OK {}"),
    ] {
        assert_eq!(said(&mut task, &format!("{line}\n")), answer);
    }
    assert!(add(&mut workq, 6, "done"));
    assert!(complete(&mut workq, 6, "result"));
    assert!(add(&mut workq, 7, "removed"));
    assert!(remove(&mut workq, 7));
    let mut number = server.connect();
    assert!(said(&mut number, "ADD endless 3 body\r\n").starts_with('+'));
    assert!(said(&mut number, "RESERVE endless\r\n").starts_with('+'));
    server.kill();

    let jobs = json_lines(&printed(&["dump", text(&data), "--jobs"]));
    let numbers: Vec<_> = jobs.iter().map(|job| job["job"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 8]);
    for (job, state, why, record) in [
        (0, "leased", "leased until 20", "leased"),
        (1, "ready", "it was put", "enqueued"),
        (2, "blocked", "blocked by 2", "enqueued"),
        (3, "delayed", "delayed: its date is 2096-01-01T00:00:00.000Z", "enqueued"),
        (4, "delayed", "delayed: failed 1 time, rests until 20", "backed_off"),
        (5, "done", "its result is kept", "done"),
        (6, "leased", "leased until it is finished or given back", "leased"),
    ] {
        let line = &jobs[job];
        assert_eq!((&line["state"], &line["record"]), (&Value::from(state), &Value::from(record)), "{line}");
        assert!(line["why"].as_str().unwrap().contains(why), "{line}");
        assert!(line["position"].as_u64().unwrap() > 0, "{line}");
    }
    assert_eq!(jobs[5]["result"], "result");
}

#[test]
fn stats_adds_up() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data);
    let mut client = server.connect();
    busy(&mut client);
    let said = printed(&["stats", text(&data)]);
    let rows: Vec<Vec<&str>> =
        said.lines().filter(|line| line.starts_with("0000")).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), segments(&data).len(), "{said}");
    let number = |row: &[&str], column: usize| row[column].parse::<u64>().unwrap();
    let mut next = number(&rows[0], 1);
    for row in &rows {
        assert_eq!(number(row, 1), next, "{said}");
        next = number(row, 2) + 1;
        assert_eq!(number(row, 4) + number(row, 5), number(row, 3), "{said}");
    }
    let live: u64 = rows.iter().map(|row| number(row, 4)).sum();
    assert!((100_000..130_000).contains(&live), "a hundred jobs of a thousand bytes live: {said}");
    assert!(said.contains("100 jobs in 1 queue\n"), "{said}");
    until("it is short", || printed(&["stats", text(&data)]).contains("the log is as short as it should be (at most "));
    server.stop();
}

#[test]
fn stats_counts_no_more_live_than_there_is() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data);
    let mut client = server.connect();
    // Small jobs, and results that are written segments later: their records of today are longer than those that were written.
    for job in 1..=300 {
        assert!(add(&mut client, job, "x"));
    }
    for job in 1..=300 {
        assert!(complete(&mut client, job, &body(job)));
    }
    server.stop();
    let said = printed(&["stats", text(&data)]);
    let (mut bytes, mut live) = (0, 0);
    for line in said.lines().filter(|line| line.starts_with("0000")) {
        let numbers: Vec<u64> = line.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect();
        let [_, _, here, live_here, dead_here, percent] = numbers[..] else { panic!("{said}") };
        assert!(live_here + dead_here == here && percent <= 100, "{said}");
        bytes += here;
        live += live_here;
    }
    // A result is live where it was written.
    assert!(live > 300 * 1000 && live < bytes, "{said}");
}

/// Does something while two clients come and go with jobs, so that segments are written, emptied and recycled all the time.
fn under_load(server: &support::Server, act: impl FnOnce()) {
    /// The clients stop when this is dropped, however that comes.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for client in 1..=2 {
            let (mut peer, stop) = (server.connect(), &stop);
            scope.spawn(move || {
                let mut job = client * 1_000_000;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(said_to_add(&mut peer, job, &body(job)), "+OK");
                    assert!(remove(&mut peer, job));
                    job += 1;
                }
            });
        }
        act();
    });
}

#[test]
fn a_dump_under_load_prints_each_batch_once_and_finds_no_damage() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data);
    busy(&mut server.connect());
    under_load(&server, || {
        for _ in 0..20 {
            let mut expected = None;
            for line in json_lines(&printed(&["dump", text(&data)])) {
                assert!(line.get("damaged").is_none(), "{line}");
                let (first, last) = match line.get("dropped") {
                    Some(_) => (&line["from"], &line["to"]),
                    None => (&line["position"], &line["position"]),
                };
                let (first, last) = (first.as_u64().unwrap(), last.as_u64().unwrap());
                // A batch has a line for each of its records.
                let follows = expected.is_none_or(|expected| first == expected || first + 1 == expected);
                assert!(follows && first <= last, "after {expected:?}: {line}");
                expected = Some(last + 1);
            }
        }
    });
    server.stop();
}

#[test]
fn a_backup_under_load_holds_all_that_was_acknowledged_before_it_began() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = serve(&data);
    under_load(&server, || {
        for round in 1..=5 {
            check_backup(&data, &directory.join(&format!("copy-{round}")), round * 1_000, &server);
        }
    });
    server.stop();
}

/// Puts jobs and ends some, copies the directory, and looks for them in a server that was started with the copy.
fn check_backup(data: &Path, copy: &Path, first: u32, server: &support::Server) {
    let mut client = server.connect();
    for job in first..first + 100 {
        assert_eq!(said_to_add(&mut client, job, &body(job)), "+OK");
    }
    for job in first..first + 50 {
        assert!(remove(&mut client, job));
    }
    let said = printed(&["backup", text(data), text(copy)]);
    assert!(said.contains(" batches (") && said.contains("up to 20"), "{said}");
    printed(&["verify", text(copy)]);
    let lengths: Vec<_> = segments(copy).iter().map(|file| file.metadata().unwrap().len()).collect();
    let (newest, before) = lengths.split_last().unwrap();
    assert!(before.iter().all(|length| length == before.first().unwrap() && length >= newest), "{lengths:?}");
    let restored = serve(copy);
    let mut client = restored.connect();
    for job in first..first + 100 {
        let there = state(&mut client, job, &body(job)).is_some();
        assert_eq!(there, job >= first + 50, "job {job}");
    }
    assert!(add(&mut client, 1, "and it goes on"));
    restored.stop();
}

#[test]
fn read_log_says_how_it_is_used() {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/read-log");
    let usage = "Usage: scripts/read-log [--jobs] DIR";
    let run = |words: &[&str]| support::run(Command::new(&reader).args(words));
    for words in [&["--help"][..], &["-h"], &["--jobs", "--help"]] {
        let ended = run(words);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?}");
        assert!(ended.stdout.contains(usage), "{words:?}: {}", ended.stdout);
    }
    for words in [&[][..], &["--jobs"], &["one", "two"], &["--job", "one"], &["--none"]] {
        let ended = run(words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(ended.stderr.contains(usage), "{words:?}: {}", ended.stderr);
    }
    assert_eq!(run(&["/nowhere"]).code, Some(1));
}

#[test]
fn a_backup_goes_to_a_directory_of_its_own() {
    let directory = Directory::new();
    let data = directory.join("data");
    serve(&data).stop();
    let full = directory.join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("mine"), "mine").unwrap();
    let refused = tool(&["backup", text(&data), text(&full)]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("is not empty"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(full.join("mine")).unwrap(), "mine");
    let refused = tool(&["backup", text(&data), text(&data)]);
    assert!(refused.stderr.contains("is not empty"), "{}", refused.stderr);
    let empty = directory.join("empty");
    fs::create_dir(&empty).unwrap();
    printed(&["backup", text(&data), text(&empty)]);
    let missing = directory.join("no/parent");
    assert_eq!(tool(&["backup", text(&data), text(&missing)]).code, Some(1));
}
