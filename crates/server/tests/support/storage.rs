//! Servers that keep jobs in a directory, clients that put and look for jobs, and disks that are small or read-only.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Directory, Peer, Server, jobyard, text};

/// The smallest segments that there can be.
pub const SMALL_SEGMENTS: [&str; 2] = ["--segment-size", "64KiB"];

/// What `jobyard serve` is told to keep jobs here, on a free port.
pub fn serving<'a>(data: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["serve", "--listen", "any://127.0.0.1:0", "--data", text(data)];
    arguments.extend(SMALL_SEGMENTS);
    arguments.extend(more);
    arguments
}

/// Starts a server that keeps jobs here.
pub fn serve(data: &Path) -> Server {
    Server::spawn(jobyard().args(serving(data, &[])))
}

/// The UUID of the job that a test calls by this number.
pub fn uuid(job: u32) -> String {
    format!("6ba7b810-9dad-41d1-80b4-{job:012x}")
}

/// The body of the job that a test calls by this number.
pub fn body(job: u32) -> String {
    format!("body of {job}")
}

/// Puts a job with workq's words; whether that was acknowledged. The server may be gone.
pub fn add(client: &mut Peer, job: u32, body: &str) -> bool {
    said_to_add(client, job, body) == "+OK"
}

/// Puts a job with workq's words; what is answered.
pub fn said_to_add(client: &mut Peer, job: u32, body: &str) -> String {
    said(client, &format!("add {} q 60000 86400000 {}\r\n{body}\r\n", uuid(job), body.len()))
}

/// Completes a job with this result; whether that was acknowledged.
pub fn complete(client: &mut Peer, job: u32, result: &str) -> bool {
    said(client, &format!("complete {} {}\r\n{result}\r\n", uuid(job), result.len())) == "+OK"
}

/// Removes a job; whether that was acknowledged.
pub fn remove(client: &mut Peer, job: u32) -> bool {
    said(client, &format!("delete {}\r\n", uuid(job))) == "+OK"
}

/// The first line of the answer; nothing if the server is gone.
pub fn said(client: &mut Peer, request: &str) -> String {
    use std::io::Write as _;
    match client.stream.write_all(request.as_bytes()) {
        Ok(()) => client.try_line().unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// The state of a job as workq shows it, if it is there; its body must be what it was.
pub fn state(client: &mut Peer, job: u32, body: &str) -> Option<u32> {
    client.send(&format!("inspect job {}\r\n", uuid(job)));
    if client.line() == "-NOT-FOUND" {
        return None;
    }
    let mut state = None;
    let head = client.line();
    let count: usize = head.rsplit(' ').next().unwrap().parse().unwrap();
    for _ in 0..count {
        let line = client.line();
        match line.split_once(' ') {
            Some(("state", value)) => state = value.parse().ok(),
            Some(("payload", found)) => assert_eq!(found, body, "job {job}"),
            _ => {}
        }
    }
    state
}

/// The segments' files, the oldest first.
pub fn segments(data: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_segment = |name: &String| name.ends_with(".log") && name.starts_with(|c: char| c.is_ascii_digit());
    let mut paths: Vec<_> = names.filter(is_segment).map(|name| data.join(name)).collect();
    paths.sort();
    paths
}

/// A file system of its own, which is gone with this. It is seen only through [`Mount::path`]: it is mounted in a
/// process that does nothing else, so nothing has to be unmounted, however the test ends.
pub struct Mount {
    keeper: Child,
    path: PathBuf,
    _place: Directory,
}

impl Mount {
    /// An empty file system in memory, mounted with these options, such as `size=1m` or `ro`.
    pub fn tmpfs(options: &str) -> Mount {
        let place = Directory::new();
        let script = "mount -t tmpfs -o \"$0\" jobyard \"$1\" && echo mounted && exec cat";
        let mut keeper = Command::new("unshare")
            .args(unshare_arguments())
            .args(["sh", "-c", script, options, text(&place.0)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command unshare is missing: on Debian, apt-get install util-linux");
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(
            line, "mounted\n",
            "a tmpfs cannot be mounted: this test needs the right to mount (CAP_SYS_ADMIN), or user namespaces"
        );
        let path = PathBuf::from(format!("/proc/{}/root{}", keeper.id(), text(&place.0)));
        Mount { keeper, path, _place: place }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Who is not root is root in a namespace of its own.
fn unshare_arguments() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
