//! What beanstalkd left with `-b` is there when the binary takes its place, whenever it is killed.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::beanstalkd::{Original, account, ask, asked_for_text, link_in, ours, put, reserve_job, serve};
use support::{Directory, Server, jobyard, run, run_with, text};

const TUBES: [&str; 3] = ["default", "other", "bulk"];

/// Lets beanstalkd write a binlog of several files, with jobs in every state; kills it. The last id.
fn write_binlog(data: &Path) -> u64 {
    fs::create_dir_all(data).unwrap();
    let server = Original::start(data, &["-s", "4096", "-f0"]);
    let mut client = server.connect();
    put(&mut client, "10 0 60", "ready");
    for priority in [5, 4, 9] {
        let id = put(&mut client, "5 0 60", "buried");
        reserve_job(&mut client, id);
        assert_eq!(ask(&mut client, &format!("bury {id} {priority}")), "BURIED");
    }
    assert_eq!(ask(&mut client, "use other"), "USING other");
    put(&mut client, "0 4000 30", "delayed");
    let id = put(&mut client, "1 0 30", "released for later, with another priority");
    reserve_job(&mut client, id);
    assert_eq!(ask(&mut client, &format!("release {id} 42 3000")), "RELEASED");
    let id = put(&mut client, "3 0 30", "kicked");
    reserve_job(&mut client, id);
    assert_eq!(ask(&mut client, &format!("bury {id} 3")), "BURIED");
    assert_eq!(ask(&mut client, &format!("kick-job {id}")), "KICKED");
    let id = put(&mut client, "9 0 1", "reserved");
    reserve_job(&mut client, id);
    assert_eq!(ask(&mut client, "use bulk"), "USING bulk");
    let bulk: Vec<u64> =
        (0..40).map(|nth| put(&mut client, &format!("{} 0 120", nth % 3), &"x".repeat(500 + nth))).collect();
    for id in bulk.iter().step_by(2) {
        assert_eq!(ask(&mut client, &format!("delete {id}")), "DELETED");
    }
    let last = put(&mut client, "4294967295 0 4294967295", "");
    server.kill();
    assert!(names(data, "").len() > 4, "{:?}", names(data, ""));
    last
}

/// The names of the binlog's files with this behind their numbers.
fn names(data: &Path, suffix: &str) -> Vec<String> {
    let names = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_such = |name: &String| {
        let number = name.strip_prefix("binlog.").and_then(|rest| rest.strip_suffix(suffix));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut names: Vec<_> = names.filter(is_such).collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) -> PathBuf {
    fs::create_dir_all(to).unwrap();
    for name in names(from, "") {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
    to.to_owned()
}

/// What beanstalkd itself makes of a binlog.
fn theirs(data: &Path, last: u64) -> Vec<String> {
    let server = Original::start(data, &[]);
    let account = account(&mut server.connect(), last + 1, &TUBES);
    server.kill();
    account
}

fn check_same(server: &Server, last: u64, expected: &[String], what: &str) {
    let found = account(&mut server.connect(), last + 1, &TUBES);
    assert_eq!(found, expected, "{what}");
}

#[test]
fn all_that_beanstalkd_would_find_is_found_with_its_id_and_in_its_order() {
    let directory = Directory::new();
    let (link, data) = (link_in(&directory), directory.join("data"));
    let last = write_binlog(&data);
    let expected = theirs(&copy(&data, &directory.join("theirs")), last);
    let files = names(&data, "");
    let server = serve(&link, &data);
    assert_eq!(names(&data, ""), Vec::<String>::new());
    assert_eq!(names(&data, ".imported").len(), files.len());
    let id = put(&mut server.connect(), "0 0 60", "the next one");
    assert_eq!(id, last + 1);
    assert_eq!(ask(&mut server.connect(), &format!("delete {id}")), "DELETED");
    server.kill();
    // It is in the log: the files are not needed again.
    for name in names(&data, ".imported") {
        fs::remove_file(data.join(name)).unwrap();
    }
    let server = serve(&link, &data);
    check_same(&server, last, &expected, "after a restart");
    server.stop();
}

#[test]
fn what_is_there_already_stays_and_ids_that_were_given_are_not_given_again() {
    let directory = Directory::new();
    let (link, data) = (link_in(&directory), directory.join("data"));
    fs::create_dir_all(&data).unwrap();
    let server = serve(&link, &data);
    assert_eq!(put(&mut server.connect(), "7 0 60", "our own"), 1);
    server.stop();
    let last = write_binlog(&data);
    let server = serve(&link, &data);
    let mut client = server.connect();
    let (_, body) = asked_for_text(&mut client, "peek 1");
    assert_eq!(body, "our own");
    assert_eq!(asked_for_text(&mut client, "peek 2").1, "ready");
    // Of those that there were, 20 had been deleted.
    assert_eq!(put(&mut client, "0 0 60", "the next one"), last - 20 + 2);
    server.stop();
}

#[test]
fn a_binlog_that_is_damaged_refuses_the_start_and_stays_as_it_is() {
    let directory = Directory::new();
    let (link, data) = (link_in(&directory), directory.join("data"));
    write_binlog(&data);
    let first = data.join(&names(&data, "")[0]);
    let whole = fs::read(&first).unwrap();
    let start = || run(&mut ours(&link, &["-l", "127.0.0.1", "-p", "0", "-b", text(&data)]));
    let damage = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        fs::remove_file(&first).unwrap();
        fs::write(&first, bytes).unwrap();
    };
    for (at, byte, said) in [(0, 8, "has version 8, at byte 0"), (4, 255, "is damaged at byte 4")] {
        damage(at, byte);
        let before = names(&data, "");
        let refused = start();
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains(said) && refused.stderr.contains("binlog."), "{}", refused.stderr);
        assert_eq!(names(&data, ""), before);
        assert!(!data.join("manifest").exists());
    }
    damage(0, whole[0]);
    let refused = run_with(&["serve", "--listen", "any://127.0.0.1:0", "--data", text(&data)]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("that was not imported: start it under the name beanstalkd"), "{}", refused.stderr);
    serve(&link, &data).stop();
    Server::spawn(jobyard().args(["serve", "--listen", "any://127.0.0.1:0", "--data", text(&data)])).stop();
}

/// The binary under strace, which kills it at the `nth` of these calls.
fn killed_at(link: &Path, directory: &Directory, data: &Path, call: &str, nth: u32) -> Command {
    let there = Command::new("strace").arg("-V").stdout(std::process::Stdio::null()).status();
    assert!(there.is_ok_and(|status| status.success()), "strace is missing: on Debian, apt-get install strace");
    let like = ours(link, &["-l", "127.0.0.1", "-p", "0", "-b", text(data)]);
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-o"]).arg(directory.join("trace"));
    command.args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:signal=KILL:when={nth}")]);
    command.arg(like.get_program()).args(like.get_args());
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(std::process::Stdio::null());
    command
}

#[test]
fn an_import_that_is_killed_at_any_call_is_finished_by_the_next_start() {
    let directory = Directory::new();
    let (link, origin) = (link_in(&directory), directory.join("origin"));
    let last = write_binlog(&origin);
    let expected = theirs(&copy(&origin, &directory.join("theirs")), last);
    let (mut kills, mut unfinished) = (0, 0);
    for (call, up_to) in [("rename", 30), ("unlink", 10), ("fdatasync", 30), ("fsync", 30)] {
        for nth in 1..=up_to {
            let data = copy(&origin, &directory.join(&format!("{call}-{nth}")));
            let what = format!("killed at the {nth}th {call}");
            match Server::attempt(&mut killed_at(&link, &directory, &data, call, nth)) {
                // There were not so many before it served.
                Ok(server) => {
                    server.kill();
                    assert!(nth > 1, "{call}: it was never killed");
                    break;
                }
                Err(ended) => assert_eq!(ended.code, None, "{what}: {}", ended.stderr),
            }
            kills += 1;
            if data.join("binlog.import").exists() {
                unfinished += 1;
                let refused = run(jobyard().args(["serve", "--data", text(&data), "--listen", "any://127.0.0.1:0"]));
                assert_eq!(refused.code, Some(1), "{what}");
                assert!(refused.stderr.contains("holds an import from beanstalkd that is not finished"), "{what}");
            }
            let server = serve(&link, &data);
            assert_eq!(names(&data, ""), Vec::<String>::new(), "{what}");
            assert!(!data.join("binlog.import").exists(), "{what}");
            check_same(&server, last, &expected, &what);
            server.stop();
            fs::remove_dir_all(&data).unwrap();
        }
    }
    assert!(kills > 20 && unfinished > 8, "{kills} kills, {unfinished} of them in an import");
}

/// The bodies of all jobs up to this id, in order.
fn bodies(server: &Server, up_to: u64) -> Vec<String> {
    let mut client = server.connect();
    let found = (1..=up_to).filter_map(|id| match asked_for_text(&mut client, &format!("peek {id}")) {
        (head, _) if head == "NOT_FOUND" => None,
        (_, body) => Some(body),
    });
    let mut bodies: Vec<_> = found.collect();
    bodies.sort();
    bodies
}

#[test]
fn an_import_after_which_beanstalkd_went_on_is_taken_back() {
    let directory = Directory::new();
    let (link, origin) = (link_in(&directory), directory.join("origin"));
    let last = write_binlog(&origin);
    let server = serve(&link, &copy(&origin, &directory.join("whole")));
    let imported = bodies(&server, last);
    server.stop();
    let mut expected = imported.clone();
    expected.push("put meanwhile".to_owned());
    expected.sort();
    let (mut went_on, mut refused) = (0, 0);
    for nth in 1..=30 {
        let data = copy(&origin, &directory.join(&nth.to_string()));
        if let Ok(server) = Server::attempt(&mut killed_at(&link, &directory, &data, "rename", nth)) {
            server.kill();
            break;
        }
        if !data.join("binlog.import").exists() {
            continue;
        }
        let server = Original::start(&data, &["-s", "4096", "-f0"]);
        put(&mut server.connect(), "0 0 60", "put meanwhile");
        server.kill();
        let (server, expected) = match Server::attempt(&mut ours(&link, &["-l", "127.0.0.1", "-p0", "-b", text(&data)]))
        {
            Ok(server) => {
                went_on += 1;
                (server, &expected)
            }
            // It had not found all that was imported, and removed what it had no use for.
            Err(ended) => {
                refused += 1;
                assert!(ended.stderr.contains("without binlog.1.imported, and has removed"), "{}", ended.stderr);
                names(&data, "").iter().for_each(|name| fs::remove_file(data.join(name)).unwrap());
                (serve(&link, &data), &imported)
            }
        };
        assert_eq!(bodies(&server, 4 * last), *expected, "killed at the {nth}th rename");
        assert!(names(&data, "").is_empty() && !data.join("binlog.import").exists());
        server.stop();
    }
    assert!(went_on > 3, "{went_on}, and {refused} that were refused");
}

#[test]
fn a_log_that_is_damaged_refuses_the_import_and_it_is_said_what_can_be_salvaged() {
    let directory = Directory::new();
    let (link, data) = (link_in(&directory), directory.join("data"));
    fs::create_dir_all(&data).unwrap();
    let server = serve(&link, &data);
    for body in ["one", "two", "three"] {
        put(&mut server.connect(), "0 0 60", &body.repeat(100));
    }
    server.stop();
    write_binlog(&data);
    let entries = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let segment = entries.filter(|path| path.extension().is_some_and(|is| is == "log")).min().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let body = bytes.windows(6).position(|window| window == b"twotwo").unwrap();
    bytes[body] = b'T';
    fs::write(&segment, bytes).unwrap();
    let before = names(&data, "");
    let refused = run(&mut ours(&link, &["-l", "127.0.0.1", "-p", "0", "-b", text(&data)]));
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let advice = format!("'jobyard serve --salvage --data {}'", text(&data));
    assert!(refused.stderr.contains(&advice) && refused.stderr.contains("2 jobs"), "{}", refused.stderr);
    assert_eq!(names(&data, ""), before);
    assert!(!data.join("binlog.import").exists());
}
