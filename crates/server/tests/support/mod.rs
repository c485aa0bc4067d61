//! Starts the built binary, talks to it, and ends it. Everything that is waited for has a deadline.
#![allow(dead_code, reason = "each test file uses its own part of it")]

pub mod beanstalkd;
pub mod process;
pub mod redis;
pub mod storage;
pub mod strace;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

pub use rustix::process::Signal;

/// How long anything may take before a test gives up. Nothing waits that long unless something is broken.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Tries until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never came: {what}");
        thread::yield_now();
    }
}

/// A directory that goes away with the test.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("jobyard-test-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The binary, with nothing of our own environment that it would read.
pub fn jobyard() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_jobyard")))
}

/// The binary, started by a shell that does something first.
pub fn jobyard_after(shell: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_jobyard")]).args(arguments);
    clean(command)
}

fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("JOBYARD_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// What a run that ended by itself left behind.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command that is expected to end by itself.
pub fn run(command: &mut Command) -> Ended {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = collect(child.stdout.take().unwrap());
    let stderr = collect(child.stderr.take().unwrap());
    let status = Running::new(child).wait();
    let text = |from: Receiver<String>| from.iter().map(|line| line + "\n").collect();
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// Runs `jobyard` with these arguments, to its end.
pub fn run_with(arguments: &[&str]) -> Ended {
    run(jobyard().args(arguments))
}

fn collect(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// A child that is killed if a test forgets or fails.
struct Running {
    pid: rustix::process::Pid,
    ended: Receiver<ExitStatus>,
    status: Option<ExitStatus>,
}

impl Running {
    fn new(mut child: Child) -> Running {
        let pid = rustix::process::Pid::from_child(&child);
        let (sender, ended) = channel();
        thread::spawn(move || {
            if let Ok(status) = child.wait() {
                let _ = sender.send(status);
            }
        });
        Running { pid, ended, status: None }
    }

    fn signal(&mut self, signal: Signal) {
        self.poll();
        assert!(self.status.is_none(), "the process has ended: {:?}", self.status);
        rustix::process::kill_process(self.pid, signal).unwrap();
    }

    fn poll(&mut self) {
        if let Ok(status) = self.ended.try_recv() {
            self.status = Some(status);
        }
    }

    fn wait(&mut self) -> ExitStatus {
        if self.status.is_none() {
            self.status = Some(self.ended.recv_timeout(PATIENCE).expect("the process does not end"));
        }
        self.status.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.poll();
        if self.status.is_none() && rustix::process::kill_process(self.pid, Signal::KILL).is_ok() {
            let _ = self.ended.recv_timeout(PATIENCE);
        }
    }
}

/// A server that has said where it listens.
pub struct Server {
    running: Running,
    pub stdin: Option<std::process::ChildStdin>,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    /// What it listens on, as it says.
    pub listening: Vec<String>,
    /// Where it stores, as it says.
    pub storing: String,
}

impl Server {
    /// Starts `jobyard serve --memory` with these arguments too.
    pub fn start(arguments: &[&str]) -> Server {
        Server::spawn(jobyard().args(["serve", "--memory"]).args(arguments))
    }

    /// Starts this command, whose stdout nobody reads, and waits until it has logged that it started.
    pub fn spawn_unheard(command: &mut Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let server = Server::new(child, channel().1);
        server.wait_for_log("started");
        server
    }

    fn new(mut child: Child, stdout: Receiver<String>) -> Server {
        let stdin = child.stdin.take();
        let stderr = collect(child.stderr.take().unwrap());
        let running = Running::new(child);
        Server { running, stdin, stdout, stderr, listening: Vec::new(), storing: String::new() }
    }

    /// Starts this command, and waits until it has said where it listens.
    pub fn spawn(command: &mut Command) -> Server {
        match Server::attempt(command) {
            Ok(server) => server,
            Err(ended) => panic!("it ended with {:?}: {}", ended.code, ended.stderr),
        }
    }

    /// Starts this command, and waits until it has said where it listens, or has ended.
    pub fn attempt(command: &mut Command) -> Result<Server, Ended> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = collect(child.stdout.take().unwrap());
        let mut server = Server::new(child, stdout);
        loop {
            let Some(line) = server.try_line() else {
                let (code, stderr) = server.wait();
                return Err(Ended { code, stdout: String::new(), stderr });
            };
            if let Some(address) = line.strip_prefix("listening on ") {
                server.listening.push(address.to_owned());
            } else if line.starts_with("storing ") {
                server.storing = line;
                return Ok(server);
            }
        }
    }

    /// The next line on stdout.
    pub fn line(&mut self) -> String {
        match self.try_line() {
            Some(line) => line,
            None => panic!("nothing more was said on stdout; on stderr: {}", self.logged()),
        }
    }

    /// The next line on stdout, if there is one.
    pub fn try_line(&mut self) -> Option<String> {
        self.stdout.recv_timeout(PATIENCE).ok()
    }

    /// It says nothing on stdout for so long, and does not end.
    pub fn check_silent(&self, time: Duration) {
        assert_eq!(self.stdout.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    }

    /// What was logged so far; all of it, if the process has ended.
    pub fn logged(&mut self) -> String {
        self.running.poll();
        let ended = self.running.status.is_some();
        let lines: Vec<_> = if ended { self.stderr.iter().collect() } else { self.stderr.try_iter().collect() };
        lines.join("\n")
    }

    /// Waits for a log line with this text in it, and returns it.
    pub fn wait_for_log(&self, text: &str) -> String {
        loop {
            let line = self.stderr.recv_timeout(PATIENCE);
            match line {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(_) => panic!("'{text}' was never logged"),
            }
        }
    }

    /// The TCP address of a listener.
    pub fn place(&self, index: usize) -> SocketAddr {
        let address = &self.listening[index];
        let (_, place) = address.split_once("://").unwrap();
        place.split('?').next().unwrap().parse().unwrap_or_else(|_| panic!("{address} is no TCP address"))
    }

    /// Connects to the first listener.
    pub fn connect(&self) -> Peer {
        Peer::connect(self.place(0))
    }

    pub fn signal(&mut self, signal: Signal) {
        self.running.signal(signal);
    }

    pub fn pid(&self) -> rustix::process::Pid {
        self.running.pid
    }

    /// Waits for its end; says the exit code and what was logged.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let status = self.running.wait();
        (status.code(), self.stderr.iter().map(|line| line + "\n").collect())
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.running.wait();
    }

    /// Stops it, which must work.
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        let (code, log) = self.wait();
        assert_eq!(code, Some(0), "{log}");
    }
}

/// One connection to a server.
pub struct Peer {
    pub stream: TcpStream,
}

impl Peer {
    pub fn connect(place: SocketAddr) -> Peer {
        let stream = TcpStream::connect_timeout(&place, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Peer { stream }
    }

    /// Reads what there is. A process that is stopped for a moment is interrupted in a read that has a deadline.
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.stream.read(into) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// The next bytes must be these.
    pub fn expect(&mut self, text: &str) {
        let mut heard = vec![0; text.len()];
        let mut len = 0;
        while len < heard.len() {
            match self.read(&mut heard[len..]) {
                Ok(0) => break,
                Ok(count) => len += count,
                Err(error) => panic!("{error}; heard {:?}", String::from_utf8_lossy(&heard[..len])),
            }
        }
        let same = heard[..len].iter().zip(text.as_bytes()).take_while(|(heard, expected)| heard == expected).count();
        assert!(
            same == text.len(),
            "after {same} of {} bytes expected {:?}, heard {:?}",
            text.len(),
            text[same..].chars().take(100).collect::<String>(),
            String::from_utf8_lossy(&heard[same..len.min(same + 100)])
        );
    }

    /// The next line, its end taken off.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// The next line, its end taken off, if the server is still there to say one.
    pub fn try_line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            match self.read(&mut byte) {
                Ok(1) if byte[0] == b'\n' => return Some(String::from_utf8_lossy(&line).trim_end().to_owned()),
                Ok(1) => line.push(byte[0]),
                Ok(_) => return None,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer came"),
                Err(_) => return None,
            }
        }
    }

    /// All that comes until the server closes.
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.stream.read_to_string(&mut rest).unwrap();
        rest
    }
}

/// A file with this text.
pub fn file(directory: &Directory, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
