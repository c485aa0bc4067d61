//! The binary under the name of beanstalkd: the same options, the same exit codes, the same locks.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;

use support::beanstalkd::{Original, ask, asked_for_text, link_in, original, ours, put, serve};
use support::strace::{ANSWERS_AND_SYNCS, answers, calls, is_segment, trace_in, under_strace};
use support::{Directory, Server, Signal, file, jobyard, run, text};

#[test]
fn the_link_is_made_once_and_nothing_else_is_touched() {
    let directory = Directory::new();
    let link = directory.join("beanstalkd");
    let make = || run(jobyard().args(["beanstalkd", "--link", text(&directory.0)]));
    let made = make();
    assert!(made.stdout.contains("is a link to") && made.stdout.contains(" now"), "{}", made.stdout);
    let target = fs::read_link(&link).unwrap();
    assert_eq!(target, fs::canonicalize(env!("CARGO_BIN_EXE_jobyard")).unwrap());
    assert!(make().stdout.ends_with("already\n"));

    fs::remove_file(&link).unwrap();
    symlink("/nowhere/jobyard", &link).unwrap();
    assert!(make().stdout.contains("was a link to /nowhere/jobyard, and is one to"));
    assert_eq!(fs::read_link(&link).unwrap(), target);

    fs::remove_file(&link).unwrap();
    symlink("/nowhere/beanstalkd", &link).unwrap();
    let refused = make();
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("a link to /nowhere/beanstalkd: remove it first"), "{}", refused.stderr);
    fs::remove_file(&link).unwrap();
    file(&directory, "beanstalkd", "a program");
    let refused = make();
    assert!(refused.stderr.contains("is no link: remove it first"), "{}", refused.stderr);
    assert_eq!((refused.code, fs::read_to_string(&link).unwrap().as_str()), (Some(1), "a program"));
    let nowhere = run(jobyard().args(["beanstalkd", "--link", text(&directory.join("nowhere"))]));
    assert_eq!(nowhere.code, Some(1));
}

#[test]
fn its_own_help_names_the_link() {
    let help = run(jobyard().args(["beanstalkd", "--help"]));
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("--link <DIR>") && help.stdout.contains("beanstalkd -h"), "{}", help.stdout);
}

#[test]
fn what_makes_no_sense_is_said_as_by_beanstalkd_with_the_same_exit_code() {
    let directory = Directory::new();
    let link = link_in(&directory);
    let lines = ["-x", "-xV", "-Vxy", "foo", "-", "--", "--help", "-p", "-l", "-b", "-u", "-z", "-s", "-f"];
    let more = ["-z abc", "-z 5x", "-f 1x", "-sx", "-p 1 foo", "-z"];
    for line in lines.into_iter().chain(more) {
        let arguments: Vec<_> = line.split(' ').collect();
        let (ours, theirs) = (run(&mut ours(&link, &arguments)), run(&mut original(&arguments)));
        assert_eq!((ours.code, theirs.code), (Some(5), Some(5)), "{line}");
        assert_eq!(ours.stderr.lines().next(), theirs.stderr.lines().next(), "{line}");
        assert!(ours.stderr.contains("\nUse: beanstalkd [OPTIONS]\n"), "{line}: {}", ours.stderr);
        assert_eq!((ours.stdout, theirs.stdout), (String::new(), String::new()), "{line}");
    }
}

#[test]
fn help_and_version_are_printed_where_beanstalkd_prints_them() {
    let directory = Directory::new();
    let link = link_in(&directory);
    for line in ["-h", "-hx", "-Vh"] {
        let (ours, theirs) = (run(&mut ours(&link, &[line])), run(&mut original(&[line])));
        assert_eq!((ours.code, ours.stdout.as_str()), (theirs.code, theirs.stdout.as_str()), "{line}");
        assert_eq!(ours.stderr.lines().next(), theirs.stderr.lines().next(), "{line}");
    }
    let version = format!("beanstalkd 1.13 (jobyard {})\n", env!("CARGO_PKG_VERSION"));
    for line in ["-v", "-Vvx"] {
        let ours = run(&mut ours(&link, &[line]));
        assert_eq!((ours.code, ours.stdout.as_str(), ours.stderr.as_str()), (Some(0), version.as_str(), ""), "{line}");
    }
}

#[test]
fn what_it_cannot_do_ends_it_with_beanstalkds_exit_code() {
    let directory = Directory::new();
    let link = link_in(&directory);
    let server = serve(&link, &data_in(&directory));
    let taken = server.place(0).port().to_string();
    for (arguments, code, said) in [
        (&["-l", "127.0.0.1", "-p", &taken][..], 111, "the address is in use"),
        (&["-l", "no-such-host.invalid"], 111, "cannot find the host"),
        (&["-l", "127.0.0.1", "-p", "no-such-service"], 111, "is no port"),
        (&["-l", "unix:/nonexistent/directory/socket"], 111, "its directory does not exist"),
        (&["-l", "127.0.0.1", "-p", "0", "-u", "no-such-user"], 33, "there is no user 'no-such-user'"),
        (&["-l", "127.0.0.1", "-p", "0", "-b", "/nonexistent/data"], 10, "/nonexistent/data does not exist"),
        (&["-l", "127.0.0.1", "-p", "0", "-b", "/etc/passwd"], 10, "/etc/passwd is no directory: -b names one"),
    ] {
        let (ours, theirs) = (run(&mut ours(&link, arguments)), run(&mut original(arguments)));
        assert_eq!((ours.code, theirs.code), (Some(code), Some(code)), "{arguments:?}: {}", ours.stderr);
        assert!(ours.stderr.contains(said), "{arguments:?}: {}", ours.stderr);
    }
    server.stop();
}

fn data_in(directory: &Directory) -> std::path::PathBuf {
    let data = directory.join("data");
    fs::create_dir_all(&data).unwrap();
    data
}

/// What the server's statistics say of this.
fn statistic(server: &Server, key: &str) -> String {
    let (_, text) = asked_for_text(&mut server.connect(), "stats");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}: ")).map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {key} in {text}"))
}

#[test]
fn without_a_directory_nothing_is_kept_and_strangers_are_warned_of() {
    let directory = Directory::new();
    let link = link_in(&directory);
    let mut server = Server::spawn(&mut ours(&link, &["-p", "0"]));
    assert!(server.listening[0].starts_with("beanstalkd://0.0.0.0:"), "{:?}", server.listening);
    assert_eq!(server.storing, "storing in memory only: jobs are gone when the server ends");
    assert_eq!(statistic(&server, "max-job-size"), "65535");
    put(&mut server.connect(), "0 0 60", "a job");
    server.signal(Signal::TERM);
    let (code, log) = server.wait();
    assert_eq!(code, Some(0));
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("WARN anyone who can reach beanstalkd://0.0.0.0:"), "{log}");
}

#[test]
fn only_this_machine_is_nothing_to_warn_of_and_verbose_says_more() {
    let directory = Directory::new();
    let link = link_in(&directory);
    let logged = |flag| {
        let mut server = Server::spawn(&mut ours(&link, &["-l127.0.0.1", "-p0", flag]));
        server.connect();
        server.signal(Signal::TERM);
        let (code, log) = server.wait();
        assert_eq!(code, Some(0), "{flag}: {log}");
        log
    };
    assert_eq!(logged("-F"), "");
    let log = logged("-V");
    assert!(log.contains(" INFO started") && !log.contains("DEBUG"), "{log}");
    assert!(logged("-VV").contains("DEBUG"));
}

#[test]
fn the_largest_job_is_the_one_that_was_asked_for() {
    let directory = Directory::new();
    let link = link_in(&directory);
    let server = Server::spawn(&mut ours(&link, &["-l", "127.0.0.1", "-p", "0", "-Vn", "-z5"]));
    assert_eq!(statistic(&server, "max-job-size"), "5");
    let mut client = server.connect();
    put(&mut client, "0 0 60", "12345");
    client.send("put 0 0 60 6\r\n123456\r\n");
    assert_eq!(client.line(), "JOB_TOO_BIG");
    server.stop();
}

#[test]
fn when_it_syncs_is_said_and_jobs_are_kept() {
    let directory = Directory::new();
    let (link, data) = (link_in(&directory), data_in(&directory));
    for (flag, said) in [
        ("-c", "synced before each answer"),
        ("-f0", "synced before each answer"),
        ("-f50", "synced every 50ms"),
        ("-F", "synced when the system likes"),
    ] {
        let arguments = ["-l", "127.0.0.1", "-p", "0", "-b", text(&data), "-s", "4096", flag];
        let server = Server::spawn(&mut ours(&link, &arguments));
        assert!(server.storing.contains(said), "{flag}: {}", server.storing);
        put(&mut server.connect(), "0 0 60", flag);
        server.stop();
    }
    let server = serve(&link, &data);
    let mut client = server.connect();
    for flag in ["-c", "-f0", "-f50", "-F"] {
        assert_eq!(asked_for_text(&mut client, "reserve").1, flag);
    }
    server.stop();
}

#[test]
fn unless_told_otherwise_no_answer_leaves_before_its_job_is_synced() {
    let jobs = 50;
    // Started so, how many answers left too early, and how many at all.
    let answered = |flags: &[&str]| {
        let directory = Directory::new();
        let (link, data, trace) = (link_in(&directory), data_in(&directory), trace_in(&directory));
        let arguments = [&["-l", "127.0.0.1", "-p", "0", "-b", text(&data)], flags].concat();
        let mut command = under_strace(&trace, &[ANSWERS_AND_SYNCS], &link, &arguments);
        let server = Server::spawn(command.env("JOBYARD_SEGMENT_SIZE", "128KiB"));
        let mut client = server.connect();
        (0..jobs).for_each(|_| _ = put(&mut client, "0 0 60", "a job"));
        let pid = server.pid().as_raw_nonzero().to_string();
        server.stop();
        let mut calls = calls(&trace, &pid);
        calls.retain(|call| is_segment(call) || call.thread == pid);
        answers(&calls)
    };
    assert_eq!(answered(&[]), (0, jobs));
    for flags in [["-f", "50"].as_slice(), &["-F"]] {
        let (early, all) = answered(flags);
        assert!(early > 0 && all == jobs, "{flags:?}: {early} of {all}, so the above says nothing");
    }
}

#[test]
fn a_unix_socket_is_listened_on() {
    let directory = Directory::new();
    let link = link_in(&directory);
    let socket = directory.join("socket");
    let server = Server::spawn(&mut ours(&link, &["-l", &format!("unix:{}", text(&socket)), "-p", "ignored"]));
    use std::io::{Read, Write};
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"list-tube-used\r\n").unwrap();
    let mut heard = [0; 15];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"USING default\r\n");
    server.stop();
}

#[test]
fn a_first_signal_to_drain_takes_no_more_jobs() {
    let directory = Directory::new();
    let link = link_in(&directory);
    let mut server = Server::spawn(&mut ours(&link, &["-l", "127.0.0.1", "-p", "0"]));
    let mut client = server.connect();
    put(&mut client, "0 0 60", "before");
    server.signal(Signal::USR1);
    support::until("it drains", || {
        client.send("put 0 0 60 5\r\nafter\r\n");
        client.line() == "DRAINING"
    });
    assert_eq!(ask(&mut client, "delete 1"), "DELETED");
    server.stop();
}

/// Needs to be root, as whoever installs a server is.
#[test]
fn it_becomes_another_user_before_it_reads_or_writes_a_job() {
    let directory = Directory::new();
    let (link, data) = (link_in(&directory), data_in(&directory));
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd.lines().find(|line| line.starts_with("nobody:")).expect("there is always nobody");
    let ids: Vec<u32> = line.split(':').skip(2).take(2).map(|id| id.parse().unwrap()).collect();
    // As beanstalkd leaves them: not even their owner may write to them.
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/beanstalkd-7");
    for name in ["binlog.1", "binlog.2", "binlog.3", ""] {
        let path = data.join(name);
        if !name.is_empty() {
            fs::copy(fixture.join(name), &path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        }
        chown(&path, Some(ids[0]), Some(ids[1])).expect("this test needs to be root");
    }
    let server = Server::spawn(&mut ours(&link, &["-l", "127.0.0.1", "-p", "0", "-b", text(&data), "-u", "nobody"]));
    assert_eq!(asked_for_text(&mut server.connect(), "peek 1").1, "ready");
    assert_eq!(put(&mut server.connect(), "0 0 60", "a job"), 15);
    for task in fs::read_dir(format!("/proc/{}/task", server.pid().as_raw_nonzero())).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let has = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
        assert_eq!(has("Uid:"), vec![ids[0].to_string(); 4].join("\t"));
        assert_eq!(has("Gid:"), vec![ids[1].to_string(); 4].join("\t"));
        assert_eq!(has("Groups:"), ids[1].to_string());
    }
    for entry in fs::read_dir(&data).unwrap() {
        let metadata = entry.unwrap().metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (ids[0], ids[1]));
    }
    server.stop();
}

#[test]
fn beanstalkd_and_we_keep_each_other_out() {
    let directory = Directory::new();
    let (link, data) = (link_in(&directory), data_in(&directory));
    let start = |data: &Path| run(&mut ours(&link, &["-l", "127.0.0.1", "-p", "0", "-b", text(data)]));
    let first = Original::start(&data, &[]);
    let refused = start(&data);
    assert_eq!(refused.code, Some(10), "{}", refused.stderr);
    assert!(refused.stderr.contains("a beanstalkd is using it"), "{}", refused.stderr);
    first.kill();
    let server = serve(&link, &data);
    let refused = run(&mut original(&["-l", "127.0.0.1", "-p", "0", "-b", text(&data)]));
    assert_eq!(refused.code, Some(10), "{}", refused.stderr);
    assert_eq!(start(&data).code, Some(10));
    server.stop();
}
