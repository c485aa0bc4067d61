//! What the binary says at its start: addresses, settings, refusals, exit codes.

mod support;

use std::net::{IpAddr, TcpListener};
use std::process::Command;

use support::{Directory, Ended, Server, file, jobyard, jobyard_after, run, run_with, text};

fn refused(ended: &Ended, code: i32, message: &str) {
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    assert!(ended.stderr.contains(message), "expected '{message}' in: {}", ended.stderr);
    assert!(ended.stderr.lines().any(|line| line.starts_with("error: ")), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
}

#[test]
fn it_prints_where_it_listens_with_real_ports_and_where_it_stores() {
    let server = Server::start(&["--listen", "any://127.0.0.1:0", "--listen", "workq://127.0.0.1:0?dialect=original"]);
    assert_eq!(server.listening.len(), 2);
    assert!(server.listening[0].starts_with("any://127.0.0.1:"), "{:?}", server.listening);
    assert!(server.listening[1].ends_with("?dialect=original"), "{:?}", server.listening);
    assert_ne!(server.place(0).port(), 0);
    assert_ne!(server.place(0), server.place(1));
    assert_eq!(server.storing, "storing in memory only: jobs are gone when the server ends");
    server.stop();
}

#[test]
fn without_memory_it_says_where_it_stores_and_makes_the_directory() {
    let directory = Directory::new();
    let data = directory.join("data");
    let server = Server::spawn(jobyard().args(["serve", "--listen", "any://127.0.0.1:0", "--data", text(&data)]));
    assert_eq!(server.storing, format!("storing in {} (synced before each answer)", text(&data)));
    server.stop();
    assert!(data.join("manifest").exists());
}

#[test]
fn an_address_in_use_is_named_with_what_to_do() {
    let first = Server::start(&["--listen", "any://127.0.0.1:0"]);
    let address = first.listening[0].clone();
    let second = run_with(&["serve", "--memory", "--listen", &address]);
    refused(&second, 1, &format!("cannot listen on {address}: the address is in use"));
    assert!(second.stderr.contains("--listen"), "{}", second.stderr);
    first.stop();
}

#[test]
fn an_address_that_other_machines_reach_needs_a_word() {
    let refused_run = run_with(&["serve", "--memory", "--listen", "any://0.0.0.0:0"]);
    refused(&refused_run, 2, "--insecure-public");
    assert!(refused_run.stderr.contains("any://0.0.0.0:0"), "{}", refused_run.stderr);
    let server = Server::start(&["--listen", "any://0.0.0.0:0", "--insecure-public"]);
    assert!(server.listening[0].starts_with("any://0.0.0.0:"));
    server.stop();
}

#[test]
fn ipv6_and_names_are_addresses() {
    if TcpListener::bind("[::1]:0").is_ok() {
        let server = Server::start(&["--listen", "workq://[::1]:0"]);
        let mut client = server.connect();
        client.send("inspect nothing\r\n");
        client.expect("-CLIENT-ERROR Unknown command\r\n");
        server.stop();
    } else {
        let ended = run_with(&["serve", "--memory", "--listen", "workq://[::1]:0"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    }
    let server = Server::start(&["--listen", "workq://localhost:0"]);
    assert!(server.place(0).ip().is_loopback());
    server.stop();
    let ended = run_with(&["serve", "--memory", "--listen", "workq://no-such-host.invalid:1"]);
    refused(&ended, 1, "cannot find the host 'no-such-host.invalid'");
}

#[test]
fn a_name_stands_for_all_its_addresses() {
    // A port that was free a moment ago: a name with port 0 would listen on one address only.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::start(&["--listen", &format!("any://localhost:{port}")]);
    let names: Vec<IpAddr> = (0..server.listening.len()).map(|index| server.place(index).ip()).collect();
    assert!(names.contains(&"127.0.0.1".parse().unwrap()), "{names:?}");
    assert!((0..names.len()).all(|index| server.place(index).port() == port));
    server.stop();
}

#[test]
fn addresses_that_make_no_sense_are_refused() {
    for (address, message) in [
        ("smtp://localhost:25", "unknown protocol 'smtp'"),
        ("any+tls://localhost", "TLS is not in this version"),
        ("faktory://localhost", "the protocol 'faktory' is not in this version"),
        ("workq://localhost?lease=5m", "unknown option 'lease': workq knows dialect"),
        ("masenko://localhost?heartbeat=soon", "option 'heartbeat' cannot be 'soon'"),
        ("127.0.0.1:5627", "expected <protocol>://HOST:PORT"),
    ] {
        let ended = run_with(&["serve", "--memory", "--listen", address]);
        refused(&ended, 2, message);
        assert!(ended.stderr.contains(address), "{}", ended.stderr);
    }
}

#[test]
fn flags_win_over_variables_and_these_over_the_file() {
    let directory = Directory::new();
    let config = file(
        &directory,
        "jobyard.toml",
        "listen = ['goqueue://127.0.0.1:0']\nmemory = true\nlog_format = 'json'\nlog_level = 'info'\n",
    );
    let started = |variables: &[(&str, &str)], flags: &[&str]| {
        let mut command = jobyard();
        command.args(["serve", "--config", text(&config)]).args(flags);
        let server = Server::spawn(command.envs(variables.iter().copied()));
        let protocol = server.listening[0].split(':').next().unwrap().to_owned();
        let log = server.wait_for_log("started");
        server.stop();
        (protocol, log.starts_with('{'))
    };
    assert_eq!(started(&[], &[]), ("goqueue".to_owned(), true));
    let variables = [("JOBYARD_LISTEN", "masenko://127.0.0.1:0"), ("JOBYARD_LOG_FORMAT", "auto")];
    assert_eq!(started(&variables, &[]), ("masenko".to_owned(), false));
    let flags = ["--listen", "workq://127.0.0.1:0"];
    assert_eq!(started(&variables, &flags), ("workq".to_owned(), false));

    let server = Server::spawn(
        jobyard().arg("serve").envs([("JOBYARD_CONFIG", text(&config)), ("JOBYARD_LISTEN", "any://127.0.0.1:0")]),
    );
    assert!(server.listening[0].starts_with("any://"));
    server.stop();
}

#[test]
fn unknown_settings_are_errors_that_name_them() {
    let directory = Directory::new();
    let config = file(&directory, "jobyard.toml", "memory = true\n\n[limits]\nheld_maximum = 3\n");
    let ended = run_with(&["serve", "--config", text(&config)]);
    refused(&ended, 2, "unknown field `held_maximum`");
    assert!(ended.stderr.contains(text(&config)) && ended.stderr.contains("line 4"), "{}", ended.stderr);

    let ended = run(jobyard().arg("serve").env("JOBYARD_DRAIN_TIME", "5s"));
    refused(&ended, 2, "unknown variable JOBYARD_DRAIN_TIME: did you mean JOBYARD_DRAIN_TIMEOUT?");
    refused(&run_with(&["serve", "--lisen", "x"]), 2, "unexpected argument '--lisen'");
    refused(&run_with(&["serve", "--config", "/nonexistent.toml"]), 2, "cannot read /nonexistent.toml");
    refused(&run_with(&["serve", "--memory", "--data", "x"]), 2, "cannot be used with '--data <DIR>'");
    refused(&run_with(&["serve", "--drain-timeout", "5"]), 2, "'5' is no time");
    refused(&run_with(&["serve", "--fsync", "often"]), 2, "'often' is none of always, interval, interval=TIME, never");
    refused(&run_with(&["serve", "--segment-size", "4K"]), 2, "segment_size cannot be 4096 bytes");
    refused(&run_with(&["serve", "--memory", "--salvage"]), 2, "cannot be used with");
    // Nothing is kept: whoever says how has something else in mind.
    for how in ["--fsync=always", "--commit=thread", "--segment-size=64K"] {
        refused(&run_with(&["serve", "--memory", how]), 2, "cannot be used with");
    }
    let ended = run(jobyard().args(["serve", "--salvage"]).env("JOBYARD_MEMORY", "true"));
    refused(&ended, 2, "--salvage needs a directory");
    refused(&run_with(&["serve", "--clock", "stdin"]), 2, "--clock stdin needs --memory");
}

#[test]
fn logs_are_json_when_asked_and_plain_where_there_is_no_terminal() {
    let server = Server::start(&["--listen", "any://127.0.0.1:0", "--log-format", "json"]);
    let line = server.wait_for_log("started");
    assert!(line.starts_with('{') && line.ends_with('}') && line.contains(r#""level":"INFO""#), "{line}");
    server.stop();
    let server = Server::start(&["--listen", "any://127.0.0.1:0"]);
    let line = server.wait_for_log("started");
    assert!(line.contains("INFO") && !line.contains('\u{1b}'), "{line:?}");
    server.stop();
}

#[test]
fn where_log_lines_are_json_so_is_the_reason_of_a_failure() {
    let failed = |command: &mut Command, code: i32, message: &str| {
        let ended = run(command);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{}", ended.stderr);
        let is_json = |line: &str| line.starts_with('{') && line.ends_with('}');
        assert!(ended.stderr.lines().all(is_json), "{}", ended.stderr);
        let last = ended.stderr.lines().last().unwrap_or_default();
        assert!(last.contains(r#""level":"ERROR""#) && last.contains(message), "expected '{message}' in: {last}");
    };
    let first = Server::start(&["--listen", "any://127.0.0.1:0"]);
    let serve = |flags: &[&str]| {
        let mut command = jobyard();
        command.args(["serve", "--memory"]).args(flags);
        command
    };
    failed(&mut serve(&["--log-format", "json", "--listen", &first.listening[0]]), 1, "the address is in use");
    failed(&mut serve(&["--log-format", "json", "--config", "/nonexistent.toml"]), 2, "cannot read /nonexistent.toml");
    let variables = [("JOBYARD_LOG_FORMAT", "json"), ("JOBYARD_DRAIN_TIMEOUT", "soon")];
    failed(serve(&[]).envs(variables), 2, "JOBYARD_DRAIN_TIMEOUT: 'soon' is no time");
    first.stop();

    let directory = Directory::new();
    let config = file(&directory, "jobyard.toml", "log_format = 'json'\nlisten = ['any://0.0.0.0:0']\n");
    failed(&mut serve(&["--config", text(&config)]), 2, "--insecure-public");
}

#[test]
fn limits_that_make_no_sense_are_refused_at_the_start() {
    let directory = Directory::new();
    for (limits, message) in [
        ("body_bytes_max = 4294967296", "limits.body_bytes_max cannot be 4294967296: it must be 4294967295 or less"),
        ("turn_bytes_max = 0", "limits.turn_bytes_max cannot be 0: it must be 1 or more"),
        ("input_bytes_max = 100", "limits.input_bytes_max cannot be 100: one request can have 16842752 bytes"),
    ] {
        let config = file(&directory, "jobyard.toml", &format!("memory = true\n[limits]\n{limits}\n"));
        refused(&run_with(&["serve", "--config", text(&config)]), 2, message);
    }
}

#[test]
fn fewer_open_files_mean_fewer_clients() {
    let arguments = ["serve", "--memory", "--listen", "workq://127.0.0.1:0"];
    let server = Server::spawn(&mut jobyard_after("ulimit -n 74", &arguments));
    server.wait_for_log("clients_max=10");
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("inspect nothing\r\n");
        client.expect("-CLIENT-ERROR Unknown command\r\n");
    }
    assert_eq!(server.connect().rest(), "-SERVER-ERROR Too many clients\r\n");
    clients.truncate(5);
    for client in &mut clients {
        client.send("inspect nothing\r\n");
        client.expect("-CLIENT-ERROR Unknown command\r\n");
    }
    server.stop();
}

#[test]
fn the_soft_limit_of_open_files_is_raised() {
    let arguments = ["serve", "--memory", "--listen", "any://127.0.0.1:0"];
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let server = Server::spawn(&mut jobyard_after("ulimit -S -n 64", &arguments));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid().as_raw_nonzero())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let soft: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert_eq!(soft, hard.unwrap_or(u64::MAX).min(20_064));
    server.stop();
}

#[test]
fn nobody_needs_to_read_its_stdout() {
    let directory = Directory::new();
    let path = directory.join("jobs.sock");
    let address = format!("any+unix://{}", text(&path));
    let server = Server::spawn_unheard(jobyard().args(["serve", "--memory", "--listen", &address]));
    std::os::unix::net::UnixStream::connect(&path).unwrap();
    server.stop();
}

#[test]
fn help_and_version_tell_what_one_needs_to_know() {
    let version = run_with(&["--version"]);
    assert_eq!((version.code, version.stdout), (Some(0), format!("jobyard {}\n", env!("CARGO_PKG_VERSION"))));

    let help = run_with(&["serve", "--help"]);
    assert_eq!(help.code, Some(0));
    for word in ["Listening:", "Storage:", "Protocols:", "Examples:", "[limits]", "Signals:", "Exit codes:", "13331"] {
        assert!(help.stdout.contains(word), "{word} is not in the help");
    }
    assert!(!help.stdout.contains("--clock"), "the test mode is not for people");

    let help = run_with(&["help"]);
    assert!(help.stdout.contains("serve") && help.code == Some(0));
    let nothing = run_with(&[]);
    assert_eq!(nothing.code, Some(2));
    assert!(nothing.stderr.contains("Usage: jobyard"), "{}", nothing.stderr);
}
