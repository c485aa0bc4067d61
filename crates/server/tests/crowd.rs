//! A thousand workers at once: half of them vanish while jobs come, and each job is still done once. Then a thousand
//! wait, and cost nothing.

mod support;
#[path = "support/workers.rs"]
mod workers;

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{PATIENCE, Server};
use workers::{Crowd, Exit, Manner, Moment};

const WORKERS: usize = 1_000;
const VANISHING: usize = 500;
const TEAMS: usize = 100;
const JOBS: usize = 50_000;
/// More jobs are put when so few are open that most workers wait,
const OPEN_MIN: usize = 100;
/// and at most so many at once, that it may be more than there are workers.
const BURST_MAX: usize = 1_500;
/// The last to vanish while jobs come still see many bursts, so that each finds its moment.
const LAST_EXIT: usize = JOBS / 10 * 7;
/// For how long those who wait are watched.
const WATCH: Duration = Duration::from_secs(3);

#[test]
fn half_a_crowd_vanishes_and_every_job_is_done_once_and_then_waiting_costs_nothing() {
    raise_open_files();
    let server = Server::start(&["--listen", "jobcentre://127.0.0.1:0"]);
    let sockets_before = sockets(&server);
    let mut crowd = Crowd::new(server.place(0));
    let mut dice = Dice(1);

    crowd.join((0..WORKERS).map(|worker| (queues_of(worker, &mut dice), exit_of(worker, &mut dice))));
    let mut put = 0;
    while crowd.done() < JOBS {
        if put < JOBS && crowd.open() <= OPEN_MIN {
            let burst = dice.roll(BURST_MAX).clamp(1, JOBS - put);
            crowd.put((0..burst).map(|_| (some_queue(&mut dice), dice.roll(10) as u64)));
            put += burst;
        }
        crowd.go_on();
    }
    let all: Vec<_> = (0..TEAMS).map(team).chain([EVERYONE.to_owned()]).collect();
    crowd.check_all_done(&all);
    assert!(crowd.stragglers().is_empty(), "{:?}", crowd.stragglers());
    assert_eq!(crowd.here(), WORKERS - VANISHING);

    crowd.join((0..VANISHING).map(|worker| (queues_of(worker, &mut dice), None)));
    until("the server knows the crowd as it is", || sockets(&server) == sockets_before + 1 + WORKERS);
    until("the server sleeps", || sleeps(&server));
    let before = (switches(&server), ticks(&server));
    crowd.hear_nothing(WATCH);
    assert_eq!((switches(&server), ticks(&server)), before, "the server was awake: (switches, ticks)");
    server.stop();
}

const EVERYONE: &str = "everyone";

fn team(number: usize) -> String {
    format!("team {number}")
}

/// Where a worker waits: in its team's queue, in another's, and where everyone does. Of two neighbours, one of whom
/// vanishes, both are of one team: no team is left without workers.
fn queues_of(worker: usize, dice: &mut Dice) -> Vec<String> {
    let own = worker / 2 % TEAMS;
    let other = (own + 1 + dice.roll(TEAMS - 1)) % TEAMS;
    vec![team(own), EVERYONE.to_owned(), team(other)]
}

fn some_queue(dice: &mut Dice) -> String {
    if dice.roll(3) == 0 { EVERYONE.to_owned() } else { team(dice.roll(TEAMS)) }
}

/// Every other worker vanishes: most while jobs come, some when none does any more.
fn exit_of(worker: usize, dice: &mut Dice) -> Option<Exit> {
    let moments = [Moment::Waiting, Moment::JobsPut, Moment::JobsSent, Moment::Holding];
    let (after, moment) = match dice.roll(5) {
        0 => (JOBS, Moment::Waiting),
        _ => (dice.roll(LAST_EXIT), moments[dice.roll(moments.len())]),
    };
    let manner = [Manner::Close, Manner::Reset, Manner::EndInput][dice.roll(3)];
    worker.is_multiple_of(WORKERS / VANISHING).then_some(Exit { after, moment, manner })
}

/// Two processes have a socket for each worker: this one, and the server, which raises its own limit.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let enough = WORKERS as u64 + 100;
    assert!(limit.maximum.is_none_or(|files| files >= enough), "the hard limit of open files is under {enough}");
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// Waits until the kernel says that it is so, which takes no time unless something is broken.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::yield_now();
    }
}

fn sockets(server: &Server) -> usize {
    let files = fs::read_dir(proc(server, "fd")).unwrap();
    let targets = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// Whether none of its threads has anything to do.
fn sleeps(server: &Server) -> bool {
    statuses(server).iter().all(|status| field(status, "State:").starts_with('S'))
}

/// How often its threads were put to sleep, or had to let others go first.
fn switches(server: &Server) -> u64 {
    let count = |status: &String, name| field(status, name).parse::<u64>().unwrap();
    let of_one = |status| count(status, "voluntary_ctxt_switches:") + count(status, "nonvoluntary_ctxt_switches:");
    statuses(server).iter().map(of_one).sum()
}

/// The processor time that it took, in the kernel's ticks.
fn ticks(server: &Server) -> u64 {
    let stat = fs::read_to_string(proc(server, "stat")).unwrap();
    // The second field is the name, which may have anything in it.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let (utime, stime) = (14, 15);
    let fields: Vec<_> = fields.split_whitespace().collect();
    [utime, stime].map(|field| fields[field - 3].parse::<u64>().unwrap()).iter().sum()
}

/// What the kernel says of each of its threads.
fn statuses(server: &Server) -> Vec<String> {
    let threads = fs::read_dir(proc(server, "task")).unwrap();
    threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap()).collect()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim()
}

fn proc(server: &Server, file: &str) -> String {
    format!("/proc/{}/{file}", server.pid().as_raw_nonzero())
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    /// One of the numbers from 0 to one under this.
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % sides as u64).unwrap()
    }
}
