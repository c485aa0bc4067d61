//! The binary under the name of beanstalkd, beanstalkd itself, and what both say of their jobs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use super::{Directory, Peer, Running, Server, clean, jobyard, run, text, until};

/// The link that `jobyard beanstalkd --link` makes in this directory.
pub fn link_in(directory: &Directory) -> PathBuf {
    let ended = run(jobyard().args(["beanstalkd", "--link", text(&directory.0)]));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    directory.join("beanstalkd")
}

/// The binary under that name, with small segments.
pub fn ours(link: &Path, arguments: &[&str]) -> Command {
    let mut command = clean(Command::new(link));
    command.env("JOBYARD_SEGMENT_SIZE", "128KiB").args(arguments);
    command
}

/// Starts it on a free port of this machine, with its data there.
pub fn serve(link: &Path, data: &Path) -> Server {
    Server::spawn(&mut ours(link, &["-l", "127.0.0.1", "-p", "0", "-b", text(data)]))
}

/// beanstalkd itself.
pub fn original(arguments: &[&str]) -> Command {
    let there = Command::new("beanstalkd").arg("-v").stdout(Stdio::null()).status();
    assert!(there.is_ok_and(|status| status.success()), "beanstalkd is missing: on Debian, apt-get install beanstalkd");
    let mut command = Command::new("beanstalkd");
    command.args(arguments).stdin(Stdio::null());
    command
}

/// beanstalkd itself, running.
pub struct Original {
    running: Running,
    port: u16,
}

impl Original {
    pub fn start(data: &Path, more: &[&str]) -> Original {
        // It cannot say which port it has. Of those that are given out to nobody, others may have taken this one.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        loop {
            let base = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
            let port = base + NEXT.fetch_add(1, Ordering::Relaxed) % 500;
            if std::net::TcpListener::bind(("127.0.0.1", port)).is_err() {
                continue;
            }
            let port_text = port.to_string();
            let mut command = original(&["-l", "127.0.0.1", "-p", &port_text, "-b", text(data)]);
            let child = command.args(more).stderr(Stdio::null()).spawn().unwrap();
            let mut running = Running::new(child);
            until("beanstalkd listens", || {
                running.poll();
                assert!(running.status.is_none(), "beanstalkd ended: {:?}", running.status);
                std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            return Original { running, port };
        }
    }

    /// As `jobyard import` is told.
    pub fn url(&self) -> String {
        format!("beanstalkd://127.0.0.1:{}", self.port)
    }

    pub fn connect(&self) -> Peer {
        Peer::connect(([127, 0, 0, 1], self.port).into())
    }

    pub fn kill(mut self) {
        self.running.signal(super::Signal::KILL);
        self.running.wait();
    }
}

/// Sends a line; the answer's first line.
pub fn ask(peer: &mut Peer, line: &str) -> String {
    peer.send(&format!("{line}\r\n"));
    peer.line()
}

/// Puts a job. Its id.
pub fn put(peer: &mut Peer, how: &str, body: &str) -> u64 {
    peer.send(&format!("put {how} {}\r\n{body}\r\n", body.len()));
    let answer = peer.line();
    answer.strip_prefix("INSERTED ").unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
}

/// Sends a line that is answered with a text. Its first line, and the text.
pub fn asked_for_text(peer: &mut Peer, line: &str) -> (String, String) {
    let head = ask(peer, line);
    let length = head.rsplit(' ').next().and_then(|length| length.parse::<usize>().ok());
    let Some(length) = length.filter(|_| !head.starts_with("NOT_FOUND")) else { return (head, String::new()) };
    use std::io::Read;
    let mut bytes = vec![0; length + 2];
    peer.stream.read_exact(&mut bytes).unwrap();
    bytes.truncate(length);
    (head, String::from_utf8(bytes).unwrap())
}

/// Takes a job, ready or not.
pub fn reserve_job(peer: &mut Peer, id: u64) {
    let (head, _) = asked_for_text(peer, &format!("reserve-job {id}"));
    assert!(head.starts_with("RESERVED"), "{head}");
}

/// All that both servers must agree on for the jobs up to this id: their tubes, states, priorities, times and bodies, the
/// order in which buried ones are kicked, and that in which they are taken. This takes them all.
pub fn account(peer: &mut Peer, up_to: u64, tubes: &[&str]) -> Vec<String> {
    let mut account = Vec::new();
    for id in 1..=up_to {
        let (_, stats) = asked_for_text(peer, &format!("stats-job {id}"));
        let (head, body) = asked_for_text(peer, &format!("peek {id}"));
        let same = |line: &&str| ["tube:", "state:", "pri:", "ttr:"].iter().any(|key| line.starts_with(key));
        let facts: Vec<_> = stats.lines().filter(same).map(|line| line.replace('"', "")).collect();
        account.push(format!("{head} {facts:?} {body:?}"));
    }
    for tube in tubes {
        ask(peer, &format!("watch {tube}"));
        ask(peer, &format!("use {tube}"));
        account.push(asked_for_text(peer, "peek-buried").0);
        account.push(asked_for_text(peer, "peek-delayed").0);
        while ask(peer, "kick 1") == "KICKED 1" {
            account.push(asked_for_text(peer, "peek-buried").0);
        }
    }
    loop {
        let (head, _) = asked_for_text(peer, "reserve-with-timeout 0");
        if !head.starts_with("RESERVED") {
            return account;
        }
        account.push(head);
    }
}
