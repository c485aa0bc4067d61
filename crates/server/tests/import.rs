//! `jobyard import`: the jobs of a beanstalkd that runs are moved, each once and as it stood.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use support::beanstalkd::{Original, ask, asked_for_text, put, reserve_job};
use support::{Directory, Ended, Peer, Server, file, run_with, text};

/// A beanstalkd, and a Jobyard that listens for everything.
struct Both {
    there: Original,
    here: Server,
    _directory: Directory,
}

impl Both {
    fn start() -> Both {
        Both::start_with(&[], "")
    }

    /// With options there, and settings here.
    fn start_with(there: &[&str], settings: &str) -> Both {
        let directory = Directory::new();
        let settings = file(&directory, "settings.toml", settings);
        let data = directory.join("binlog");
        std::fs::create_dir(&data).unwrap();
        let serve = ["--listen", "any://127.0.0.1:0"];
        let (there, here) =
            (Original::start(&data, there), Server::start(&[&serve[..], &["--config", text(&settings)]].concat()));
        Both { there, here, _directory: directory }
    }

    fn to(&self) -> String {
        format!("beanstalkd://{}", self.here.place(0))
    }

    fn import(&self, more: &[&str]) -> Ended {
        run_with(&[&["import", &self.there.url(), "--to", &self.to()], more].concat())
    }

    /// What an import would call this job.
    fn origin(&self, id: u64, body: &str) -> String {
        let place = self.there.url().replace("beanstalkd://", "");
        format!("{place}/{id}/{}/{:08x}", body.len(), crc32c::crc32c(body.as_bytes()))
    }
}

/// What is known of each job: body, tube, state, priority, time to run, and whether it is to wait for long.
fn jobs(peer: &mut Peer) -> BTreeSet<String> {
    let mut jobs = BTreeSet::new();
    for id in 1..100 {
        let (_, page) = asked_for_text(peer, &format!("stats-job {id}"));
        let field =
            |name: &str| page.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().replace('"', "");
        if !page.is_empty() {
            let (_, body) = asked_for_text(peer, &format!("peek {id}"));
            let waits_long = field("time-left: ").parse::<u64>().unwrap() > 900;
            let facts = [field("tube: "), field("state: "), field("pri: "), field("ttr: ")].join(" ");
            jobs.insert(format!("{body}: {facts}, waits long: {waits_long}"));
        }
    }
    jobs
}

/// The bodies of the jobs of a tube, as they are given out.
fn order(peer: &mut Peer, tube: &str) -> Vec<String> {
    ask(peer, &format!("watch {tube}"));
    let mut bodies = Vec::new();
    loop {
        let (head, body) = asked_for_text(peer, "reserve-with-timeout 0");
        if !head.starts_with("RESERVED") {
            return bodies;
        }
        bodies.push(body);
    }
}

fn bury(peer: &mut Peer, how: &str, body: &str) {
    let id = put(peer, how, body);
    reserve_job(peer, id);
    assert_eq!(ask(peer, &format!("bury {id} {}", how.split(' ').next().unwrap())), "BURIED");
}

#[track_caller]
fn check(ended: &Ended, code: i32, stdout: &str, stderr: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), stdout), "{}", ended.stderr);
    assert!(ended.stderr.contains(stderr), "{}", ended.stderr);
}

#[test]
fn jobs_are_moved_as_they_stood_and_in_their_order() {
    let both = Both::start();
    let mut there = both.there.connect();
    for (nth, how) in ["5 0 60", "1 0 1", "5 0 7", "4294967295 0 4294967295", "0 0 30"].iter().enumerate() {
        put(&mut there, how, &format!("ready {nth}"));
    }
    ask(&mut there, "use other");
    put(&mut there, "3 1000 60", "delayed");
    put(&mut there, "9 2000 60", "delayed for longer");
    for nth in 0..3 {
        bury(&mut there, "8 0 60", &format!("buried {nth}"));
    }
    put(&mut there, "0 0 60", "");
    ask(&mut there, "use paused");
    put(&mut there, "2 0 60", "in a paused tube");
    put(&mut there, "1 0 60", "in a paused tube, urgent");
    ask(&mut there, "pause-tube paused 1000");
    let expected = jobs(&mut there);
    assert_eq!(expected.len(), 13);
    let ended = both.import(&[]);
    check(&ended, 0, "moved       13 jobs: 8 ready, 2 delayed, 3 buried\n", "");
    let mut here = both.here.connect();
    assert_eq!(jobs(&mut here), expected);
    assert_eq!(jobs(&mut there), BTreeSet::new());
    assert_eq!(order(&mut here, "default"), ["ready 4", "ready 1", "ready 0", "ready 2", "ready 3"]);
    assert_eq!(order(&mut here, "paused"), ["in a paused tube, urgent", "in a paused tube"]);
    ask(&mut here, "use other");
    assert_eq!(ask(&mut here, "kick 9"), "KICKED 3");
    assert_eq!(order(&mut here, "other"), ["", "buried 0", "buried 1", "buried 2"]);
    assert_eq!(ask(&mut here, "list-origins"), "OK 4", "all is settled");
    both.there.kill();
}

#[test]
fn only_the_tubes_that_were_named_are_moved_and_what_is_reserved_is_left() {
    let both = Both::start();
    let mut there = both.there.connect();
    put(&mut there, "0 0 60", "elsewhere");
    ask(&mut there, "use a");
    let reserved = put(&mut there, "0 0 60", "reserved");
    reserve_job(&mut there, reserved);
    put(&mut there, "0 0 60", "a");
    ask(&mut there, "use b");
    put(&mut there, "0 0 60", "b");
    let dry = both.import(&["--dry-run", "--tube", "a", "--tube", "b", "--tube", "none"]);
    let expected = "\
tube         ready      delayed       buried     reserved
a                1            0            0            1
b                1            0            0            0
none             0            0            0            0
(all)            2            0            0            1

2 jobs would be moved, 1 left there
";
    check(&dry, 0, expected, "");
    assert_eq!(jobs(&mut both.here.connect()).len(), 0);
    let ended = both.import(&["--tube", "a", "--tube", "b", "--tube", "none", "--rate", "1000"]);
    let expected = "\
moved       2 jobs: 2 ready, 0 delayed, 0 buried
left there  1 job that somebody has reserved
";
    check(&ended, 0, expected, "");
    assert_eq!(jobs(&mut both.here.connect()).len(), 2);
    assert_eq!(jobs(&mut there).len(), 2);
    both.there.kill();
}

#[test]
fn what_an_earlier_run_has_put_is_settled_first_and_never_put_again() {
    let both = Both::start();
    let (mut there, mut here) = (both.there.connect(), both.here.connect());
    let mut earlier = both.here.connect();
    let place = both.there.url().replace("beanstalkd://", "");
    assert_eq!(ask(&mut earlier, &format!("claim-origins {place}/")), "CLAIMED");
    let put_here = |here: &mut Peer, id: u64, body: &str| {
        let origin = both.origin(id, body);
        here.send(&format!("put-origin 0 0 60 {} ready {origin}\r\n{body}\r\n", body.len()));
        assert!(here.line().starts_with("INSERTED"));
    };
    let still_there = put(&mut there, "0 0 60", "still there");
    put_here(&mut earlier, still_there, "still there");
    let done_here = put(&mut there, "0 0 60", "done here");
    put_here(&mut earlier, done_here, "done here");
    assert_eq!(ask(&mut here, "delete 2"), "DELETED");
    bury(&mut there, "0 0 60", "buried there");
    put_here(&mut earlier, 3, "buried there");
    put_here(&mut earlier, 99, "gone there");
    let another = put(&mut there, "0 0 60", "another of that number");
    put_here(&mut earlier, another, "one that was lost");
    let reserved = put(&mut there, "0 0 60", "reserved there");
    put_here(&mut earlier, reserved, "reserved there");
    reserve_job(&mut there, reserved);
    drop(earlier);
    let ended = both.import(&[]);
    let expected = "\
moved       1 job: 1 ready, 0 delayed, 0 buried
settled     5 jobs of an earlier run
left there  1 job that somebody has reserved
still open  1 job here already, and reserved there by somebody
";
    check(&ended, 1, expected, "1 job is here, and reserved there by a worker: run it again");
    let bodies =
        |peer: &mut Peer| jobs(peer).iter().map(|job| job.split(':').next().unwrap().to_owned()).collect::<Vec<_>>();
    let moved =
        ["another of that number", "buried there", "gone there", "one that was lost", "reserved there", "still there"];
    assert_eq!(bodies(&mut here), moved);
    assert_eq!(bodies(&mut there), ["reserved there"]);
    // It is ready when its holder leaves, and is here already.
    drop(there);
    support::until("it is ready", || asked_for_text(&mut both.there.connect(), "peek-ready").0.starts_with("FOUND"));
    check(
        &both.import(&[]),
        0,
        "moved       0 jobs: 0 ready, 0 delayed, 0 buried\nsettled     1 job of an earlier run\n",
        "",
    );
    assert_eq!(bodies(&mut here), moved);
    assert_eq!(ask(&mut here, "list-origins"), "OK 4");
    both.there.kill();
}

#[test]
fn the_same_server_under_another_name_is_found_out() {
    let both = Both::start();
    let (mut there, mut here) = (both.there.connect(), both.here.connect());
    put(&mut there, "0 0 60", "once");
    let origin = both.origin(1, "once").replace("127.0.0.1", "localhost");
    assert_eq!(ask(&mut here, "claim-origins localhost"), "CLAIMED");
    here.send(&format!("put-origin 0 0 60 4 ready {origin}\r\nonce\r\n"));
    here.line();
    check(&both.import(&[]), 1, "moved       0 jobs: 0 ready, 0 delayed, 0 buried\n", "finish 'jobyard import");
    assert_eq!((jobs(&mut here).len(), jobs(&mut there).len()), (1, 1), "nothing was moved");
    both.there.kill();
}

#[test]
fn what_cannot_be_is_said_and_nothing_is_lost() {
    let both = Both::start_with(&["-z", "100000"], "[limits]\nbody_bytes_max = 65536\n");
    let mut there = both.there.connect();
    let large = "x".repeat(70_000);
    put(&mut there, "0 0 1", &large);
    bury(&mut there, "0 0 60", &large);
    for nth in 0..5 {
        put(&mut there, "1 0 60", &format!("small {nth}"));
    }
    let moved = "moved       5 jobs: 5 ready, 0 delayed, 0 buried\ntoo large   2 jobs left there\n";
    check(
        &both.import(&[]),
        1,
        moved,
        "2 jobs are too large for Jobyard, and those behind in a tube are not shown: raise",
    );
    assert_eq!(jobs(&mut there).len(), 2);
    bury(&mut there, "0 0 60", "behind");
    let ended = both.import(&[]);
    assert!(ended.stderr.ends_with("and run it again; 1 job is left there\n"), "{}", ended.stderr);
    assert_eq!(jobs(&mut both.here.connect()).len(), 5);
    let (from, to) = (both.there.url(), both.to());
    let import = |from: &str, to: &str| run_with(&["import", from, "--to", to]);
    check(&import(&from, &from), 1, "", "is no Jobyard");
    check(&import(&to, &to), 1, "", "are the same");
    check(&import("beanstalkd://127.0.0.1:1", &to), 1, "", "cannot connect to 127.0.0.1:1");
    check(&import("workq://127.0.0.1:1", &to), 2, "", "expected beanstalkd://HOST[:PORT]");
    check(&run_with(&["import", &from, "--tube", "a b"]), 2, "", "no tube can be called that");
    both.there.kill();
}

/// A server that says what it is told to, and else what a beanstalkd with one job in the tube `default` would.
fn fake(
    body: &'static str,
    state: &'static str,
    mut says: impl FnMut(&str) -> Option<String> + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let page = |text: String| format!("OK {}\r\n{text}\r\n", text.len());
        let job = |word: &str| format!("{word} 1 {}\r\n{body}\r\n", body.len());
        for line in lines.map_while(Result::ok) {
            let line = line.trim_end();
            let answer = says(line).unwrap_or_else(|| match line.split(' ').next().unwrap() {
                "stats" => page("---\nid: fake\nmax-job-size: 65535\n".to_owned()),
                "list-tubes" => page("---\n- default\n".to_owned()),
                "stats-tube" => page(format!("---\ncurrent-jobs-{state}: 1\n")),
                "stats-job" => page(format!("---\nid: 1\nstate: {state}\npri: 5\nttr: 60\ntime-left: 0\n")),
                "use" => "USING default\r\n".to_owned(),
                "reserve-with-timeout" if state == "ready" => job("RESERVED"),
                "reserve-with-timeout" => "TIMED_OUT\r\n".to_owned(),
                "touch" => "TOUCHED\r\n".to_owned(),
                "peek-buried" if state == "buried" => job("FOUND"),
                "peek-ready" | "peek-delayed" | "peek-buried" => "NOT_FOUND\r\n".to_owned(),
                "peek" => job("FOUND"),
                "delete" => "DELETED\r\n".to_owned(),
                "list-origins" => "UNKNOWN_COMMAND\r\n".to_owned(),
                other => panic!("{other}"),
            });
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    place
}

fn import_from(place: SocketAddr, here: &Server) -> Ended {
    let (from, to) = (format!("beanstalkd://{place}"), format!("any://{}", here.place(0)));
    run_with(&["import", &from, "--to", &to])
}

const NOTHING: &str = "moved       0 jobs: 0 ready, 0 delayed, 0 buried\n";

#[test]
fn whatever_a_server_says_of_a_job_its_body_is_no_command() {
    let here = Server::start(&["--listen", "any://127.0.0.1:0"]);
    put(&mut here.connect(), "0 0 60", "to be left alone");
    let page = "---\nstate: ready\npri: 4294967296\nttr: 99999999999\n";
    let mut given = false;
    let place = fake("x\r\ndelete 1\r\n", "ready", move |line| match line {
        "stats-job 1" => Some(format!("OK {}\r\n{page}\r\n", page.len())),
        "reserve-with-timeout 0" if std::mem::replace(&mut given, true) => Some("TIMED_OUT\r\n".to_owned()),
        "stats-tube default" if given => Some("NOT_FOUND\r\n".to_owned()),
        _ => None,
    });
    check(&import_from(place, &here), 0, "moved       1 job: 1 ready, 0 delayed, 0 buried\n", "");
    let (head, _) = asked_for_text(&mut here.connect(), "peek 1");
    assert!(head.starts_with("FOUND 1"), "{head}");
}

#[test]
fn a_job_that_is_not_ours_any_more_is_not_put() {
    let here = Server::start(&["--listen", "any://127.0.0.1:0"]);
    let place = fake("a", "ready", |line| (line == "touch 1").then(|| "NOT_FOUND\r\n".to_owned()));
    check(&import_from(place, &here), 1, NOTHING, "1 job is left there");
    assert_eq!(jobs(&mut here.connect()).len(), 0);
}

#[test]
fn a_job_that_somebody_took_just_before_it_was_deleted_stays_open() {
    let here = Server::start(&["--listen", "any://127.0.0.1:0"]);
    let place = fake("a", "buried", |line| (line == "delete 1").then(|| "NOT_FOUND\r\n".to_owned()));
    let ended = import_from(place, &here);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.starts_with("moved       1 job: 0 ready, 0 delayed, 1 buried\n"), "{}", ended.stdout);
    assert!(ended.stderr.contains("1 job is here, and reserved there by a worker"), "{}", ended.stderr);
    assert_eq!(jobs(&mut here.connect()).len(), 1, "once");
}

#[test]
fn a_server_that_shows_one_job_for_ever_is_left() {
    let here = Server::start(&["--listen", "any://127.0.0.1:0"]);
    let page = "---\nstate: delayed\npri: 0\nttr: 1\ntime-left: 3\n";
    let odd = format!("OK {}\r\n{page}\r\n", page.len());
    let place = fake("a", "buried", move |line| (line == "stats-job 1").then(|| odd.clone()));
    check(&import_from(place, &here), 1, NOTHING, "1 job is left there");
    let place = fake("a", "ready", |_| None);
    let ended = import_from(place, &here);
    assert!(ended.stderr.contains("gives job 1 again, which it has deleted"), "{}", ended.stderr);
}

#[test]
fn one_import_of_a_server_runs_at_a_time() {
    let both = Both::start();
    let mut there = both.there.connect();
    let (_, page) = asked_for_text(&mut there, "stats");
    let id = page.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    let place = both.there.url().replace("beanstalkd://", "");
    // By its name, and by whatever name.
    for beginning in [format!("{place}/"), format!("id/{id}/")] {
        put(&mut there, "0 0 60", "a");
        let before = jobs(&mut both.here.connect()).len();
        let mut other = both.here.connect();
        assert_eq!(ask(&mut other, &format!("claim-origins {beginning}")), "CLAIMED");
        let (from, to) = (both.there.url(), both.to());
        let import = std::thread::spawn(move || run_with(&["import", &from, "--to", &to]));
        // The other one, the import's two, and who asks.
        let has_come = || asked_for_text(&mut both.here.connect(), "stats").1.contains("current-connections: 4\n");
        support::until("it has come", has_come);
        assert_eq!(jobs(&mut both.here.connect()).len(), before);
        drop(other);
        check(&import.join().unwrap(), 0, "moved       1 job: 1 ready, 0 delayed, 0 buried\n", "");
    }
    both.there.kill();
}

#[test]
fn no_more_jobs_are_moved_in_a_second_than_was_said() {
    let both = Both::start();
    let mut there = both.there.connect();
    put(&mut there, "0 0 60", "ready");
    put(&mut there, "0 1000 60", "delayed");
    bury(&mut there, "0 0 60", "buried");
    let begun = Instant::now();
    check(&both.import(&["--rate", "5"]), 0, "moved       3 jobs: 1 ready, 1 delayed, 1 buried\n", "");
    assert!(begun.elapsed() >= Duration::from_millis(400), "a fifth of a second lies between two");
    both.there.kill();
}

#[test]
fn on_a_terminal_a_line_shows_how_far_it_is_and_goes() {
    let both = Both::start();
    let mut there = both.there.connect();
    for nth in 0..3 {
        put(&mut there, "0 0 60", &format!("job {nth}"));
    }
    // It runs a command on a terminal of its own.
    let import = format!(
        "{} import {} --to {} --rate 5",
        support::jobyard().get_program().display(),
        both.there.url(),
        both.to()
    );
    let ended = support::run(std::process::Command::new("script").args([
        "--quiet",
        "--return",
        "--command",
        &import,
        "/dev/null",
    ]));
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    for line in ["[######..............]  33 %  1 of 3, ", "\r\x1b[K[####################] 100 %  3 of 3, "] {
        assert!(ended.stdout.contains(line), "{line:?} is not in {:?}", ended.stdout);
    }
    assert!(ended.stdout.contains("/s\r\x1b[Kmoved       3 jobs: 3 ready, 0 delayed, 0 buried"), "{:?}", ended.stdout);
    both.there.kill();
}

#[test]
fn of_a_jobyard_it_is_said_what_is_not_moved() {
    let servers = ["any://127.0.0.1:0"; 2].map(|address| Server::start(&["--listen", address]));
    put(&mut servers[0].connect(), "0 0 60", "a");
    let [from, to] = servers.each_ref().map(|server| format!("any://{}", server.place(0)));
    let ended = run_with(&["import", &from, "--to", &to]);
    check(
        &ended,
        0,
        "moved       1 job: 1 ready, 0 delayed, 0 buried\n",
        "is a Jobyard: of jobs that clients of other",
    );
}

#[test]
fn who_is_told_to_stop_finishes_what_it_has_begun() {
    let both = Both::start();
    let mut there = both.there.connect();
    for nth in 0..300 {
        put(&mut there, "0 0 60", &format!("job {nth}"));
    }
    let (from, to) = (both.there.url(), both.to());
    let import = support::jobyard()
        .args(["import", &from, "--to", &to, "--rate", "50"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let here_has = |count: &str| asked_for_text(&mut both.here.connect(), "stats").1.contains(count);
    support::until("some are moved", || !here_has("current-jobs-ready: 0\n"));
    let pid = rustix::process::Pid::from_child(&import);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = import.wait_with_output().unwrap();
    let complaint = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("it was told to stop; run it again, and it goes on"), "{complaint}");
    assert_eq!(ask(&mut both.here.connect(), "list-origins"), "OK 4", "nothing is in both places");
    assert_eq!(both.import(&[]).code, Some(0));
    assert!(here_has("current-jobs-ready: 300\n"));
    both.there.kill();
}
