//! What the machine is, and what it gives us: memory, how many files may be open, and which of its boots this is.

use std::ffi::CStr;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jobyard_protocols::{CpuTime, Host};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are no clients: the log, listeners, standard streams, the poll itself.
const OTHER_FILES: u64 = 64;

/// Three quarters of the memory that the machine, or the cgroup that we run in, has. If neither can be known there is
/// no limit.
pub fn default_max_memory() -> usize {
    let bytes = memory_bytes(Path::new("/"));
    bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes / 4 * 3).unwrap_or(usize::MAX))
}

/// Lets the process have as many open files as `clients` need, as far as the hard limit goes. Returns how many
/// clients there can be.
pub fn raise_open_files(clients: usize) -> usize {
    let wanted = (clients as u64).saturating_add(OTHER_FILES);
    let mut limit = getrlimit(Resource::Nofile);
    let enough = |limit: &Rlimit| limit.current.is_none_or(|files| files >= wanted);
    if !enough(&limit) {
        let raised = Rlimit { current: Some(limit.maximum.map_or(wanted, |hard| hard.min(wanted))), ..limit };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit = raised,
            Err(error) => tracing::warn!(%error, "the limit of open files could not be raised"),
        }
    }
    if enough(&limit) {
        return clients;
    }
    let possible = limit
        .current
        .map_or(clients, |files| usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(1));
    tracing::info!(clients_max = possible, wanted = clients, "the hard limit of open files allows fewer clients");
    possible
}

/// What clients may be told of the machine, and of this process, which goes by a random number.
pub fn host(instance: u64) -> Host {
    let names = rustix::system::uname();
    let text = |name: &CStr| name.to_string_lossy().into();
    Host {
        pid: std::process::id(),
        name: text(names.nodename()),
        os: text(names.version()),
        platform: text(names.machine()),
        instance,
        cpu_time,
    }
}

/// What this process has taken of the processors; nothing if that cannot be known.
fn cpu_time() -> CpuTime {
    let ticks = read_to_string("/proc/self/stat").ok().and_then(|stat| cpu_ticks(&stat));
    let time = |ticks: u64| Duration::from_secs(ticks) / u32::try_from(clock_ticks_per_second()).unwrap_or(100).max(1);
    ticks.map_or(CpuTime::default(), |(user, system)| CpuTime { user: time(user), system: time(system) })
}

/// In the line of a process the two stand eleven words behind its name, which may hold anything.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Which boot of the machine this is; 0 if it does not say.
pub fn boot() -> u64 {
    read_to_string("/proc/sys/kernel/random/boot_id").map_or(0, |id| boot_of(&id))
}

/// As much of the boot's UUID as fits.
fn boot_of(id: &str) -> u64 {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

/// The memory of the machine whose file system starts at `root`, or of our cgroup in it if that is less.
fn memory_bytes(root: &Path) -> Option<u64> {
    let machine = read_to_string(root.join("proc/meminfo")).ok().and_then(|text| total_of(&text));
    cgroup_bytes(root).into_iter().chain(machine).min()
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The smallest limit of our cgroup and of all those around it, in version 2 or version 1 of cgroups.
fn cgroup_bytes(root: &Path) -> Option<u64> {
    let groups = read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups.lines().filter_map(|line| limit_of(root, line)).min()
}

/// The limit that one line of `/proc/self/cgroup` leads to: `0::/path` or `4:cpu,memory:/path`.
fn limit_of(root: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let (mount, file) = if controllers.is_empty() {
        ("sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|controller| controller == "memory") {
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return None;
    };
    // In a container the path may be the host's, of which only the upper part is there to be seen.
    let path = PathBuf::from(path.trim_start_matches('/'));
    let limits = path.ancestors().filter_map(|group| {
        let text = read_to_string(root.join(mount).join(group).join(file)).ok()?;
        text.trim().parse().ok() // "max" is no limit
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_took_is_found_behind_its_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 105 0 0 0 17 23 0 0 20 0 1 0 100";
        assert_eq!(cpu_ticks(stat), Some((17, 23)));
        assert_eq!(cpu_ticks("42 (a) S 1"), None);
        let host = host(7);
        assert_eq!((host.pid, host.instance), (std::process::id(), 7));
        assert!(!host.name.is_empty() && !host.os.is_empty() && !host.platform.is_empty());
    }

    /// A root directory with the given files, which goes away with the test.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Root {
            let root = std::env::temp_dir().join(format!("jobyard-machine-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Root(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:        8000 kB\nMemFree: 1 kB\n");

    #[test]
    fn without_cgroups_it_is_the_machines() {
        assert_eq!(memory_bytes(&Root::new("bare", &[MEMINFO]).0), Some(8000 * 1024));
        assert_eq!(memory_bytes(&Root::new("nothing", &[("x", "")]).0), None);
    }

    #[test]
    fn version_two_counts_the_groups_around_ours() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "5000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ];
        assert_eq!(memory_bytes(&Root::new("two", &files).0), Some(5000));
    }

    #[test]
    fn version_one_and_a_path_of_the_host() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu:/docker/x\n4:hugetlb,memory:/docker/x\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n"),
        ];
        assert_eq!(memory_bytes(&Root::new("one", &files).0), Some(7000));
    }

    #[test]
    fn a_limit_above_the_machines_memory_does_not_count() {
        let files = [MEMINFO, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "9223372036854771712\n")];
        assert_eq!(memory_bytes(&Root::new("huge", &files).0), Some(8000 * 1024));
    }
}
