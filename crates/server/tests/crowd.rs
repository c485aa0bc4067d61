//! A thousand workers at once: half of them vanish while jobs come, and each job is still done once. Then a thousand
//! wait, and cost nothing.

mod support;
#[path = "support/workers.rs"]
mod workers;

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::process::{sleeps, sockets, switches, ticks};
use support::{Server, until};
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
