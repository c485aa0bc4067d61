//! What the kernel knows of a server: whether it sleeps or was stopped, how often it woke up, its processor time, its
//! memory, its sockets.

use std::fs;
use std::net::SocketAddr;

use super::Server;

/// Whether none of its threads has anything to do.
pub fn sleeps(server: &Server) -> bool {
    statuses(server).iter().all(|status| field(status, "State:").starts_with('S'))
}

/// Whether a signal has stopped all its threads.
pub fn stopped(server: &Server) -> bool {
    statuses(server).iter().all(|status| field(status, "State:").starts_with('T'))
}

/// The memory that it has, in bytes, and the most that it had.
pub fn memory(server: &Server) -> (usize, usize) {
    let status = fs::read_to_string(path(server, "status")).unwrap();
    let bytes = |name| field(&status, name).trim_end_matches(" kB").parse::<usize>().unwrap() * 1024;
    (bytes("VmRSS:"), bytes("VmHWM:"))
}

/// How often its threads went to sleep, or were made to.
pub fn switches(server: &Server) -> u64 {
    let count = |status: &String, name| field(status, name).parse::<u64>().unwrap();
    let of_one = |status| count(status, "voluntary_ctxt_switches:") + count(status, "nonvoluntary_ctxt_switches:");
    statuses(server).iter().map(of_one).sum()
}

/// The processor time that it took, in the kernel's ticks.
pub fn ticks(server: &Server) -> u64 {
    let stat = fs::read_to_string(path(server, "stat")).unwrap();
    // The second field is the name, which may have anything in it.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields: Vec<_> = fields.split_whitespace().collect();
    let (utime, stime) = (14, 15);
    [utime, stime].map(|field| fields[field - 3].parse::<u64>().unwrap()).iter().sum()
}

/// How many sockets it has open.
pub fn sockets(server: &Server) -> usize {
    let files = fs::read_dir(path(server, "fd")).unwrap();
    let targets = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// How many bytes the kernel has taken from this end of a connection and not got rid of. 0 without such a connection.
pub fn unsent_bytes(local: SocketAddr, remote: SocketAddr) -> usize {
    let ends = [local, remote].map(|place| format!(":{:04X}", place.port()));
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let of_it = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = of_it.into_iter().find(|fields| fields[1].ends_with(&ends[0]) && fields[2].ends_with(&ends[1]));
    line.map_or(0, |fields| usize::from_str_radix(fields[4].split_once(':').unwrap().0, 16).unwrap())
}

/// What the kernel says of each of its threads.
fn statuses(server: &Server) -> Vec<String> {
    let threads = fs::read_dir(path(server, "task")).unwrap();
    // One may end meanwhile.
    threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok()).collect()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim()
}

fn path(server: &Server, file: &str) -> String {
    format!("/proc/{}/{file}", server.pid().as_raw_nonzero())
}
