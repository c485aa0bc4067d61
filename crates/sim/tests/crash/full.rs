//! A disk without room: jobs are refused, what makes room goes on, and jobs are taken again when there is room.

use jobyard_engine::ClientId;
use jobyard_log::SyncMode;
use jobyard_sim::clients::uuid_of_entry;
use jobyard_sim::disk::{Crash, SimDisk};

use jobyard_sim::random::{below, coin};
use jobyard_sim::world::Lateness;

use crate::cut_everywhere;
use crate::demand;
use crate::ledger::{Entry, body_of};
use crate::speak::{Speaks, beanstalkd, goqueue};
use crate::workload::Workload;
use crate::world::{World, options};

const SEGMENT_BYTES: u64 = 16 << 10;
const CAPACITY: u64 = 12 * SEGMENT_BYTES;
/// How many jobs may be put at most before a full disk says so.
const JOBS_MAX: usize = 2_000;

/// A client of each protocol, and the jobs that were put, each with its id as its protocol says it.
struct Crowd {
    work: Workload,
    clients: Vec<(Speaks, ClientId)>,
    jobs: Vec<(usize, Entry, String)>,
}

impl Crowd {
    fn new() -> Self {
        Crowd::late(Lateness::None)
    }

    fn late(lateness: Lateness) -> Self {
        let disk = SimDisk::default();
        disk.set_capacity(Some(CAPACITY));
        let mut world = World::late(disk, options(SEGMENT_BYTES, SyncMode::Always), lateness);
        world.start().expect("there is room for a new log");
        let clients = Speaks::ALL.map(|speaks| (speaks, world.connect(speaks.listener()))).into();
        Crowd { work: Workload::new(world, 1), clients, jobs: Vec::new() }
    }

    /// The server is killed, and starts again on the same disk, with segments of this length.
    fn restart(&mut self, segment_bytes: u64, capacity: u64) {
        let world = &mut self.work.world;
        world.end(Crash::Kill);
        world.disk.set_capacity(Some(capacity));
        if let Err(error) = world.start_with(segment_bytes) {
            assert!(error.contains("cannot be written anew, with segments of"), "{error}");
            world.start().expect("a full disk does not prevent a start");
        }
        self.clients = Speaks::ALL.map(|speaks| (speaks, world.connect(speaks.listener()))).into();
    }

    fn talk(&mut self, who: usize, bytes: &[u8]) -> Vec<u8> {
        let client = self.clients[who].1;
        self.work.commands += 1;
        self.work.world.send(client, bytes);
        self.work.world.settle();
        assert!(self.work.world.is_running(), "a full disk is no reason to end: {:?}", self.work.world.failure());
        self.work.world.hear(client)
    }

    /// Puts a job. Says whether there was room.
    fn put(&mut self, who: usize) -> bool {
        self.put_of(who, 200)
    }

    /// Puts a job of about this length. Says whether there was room.
    fn put_of(&mut self, who: usize, bytes: usize) -> bool {
        let when = self.work.world.when();
        let entry = self.work.ledger.put_asked(when, false);
        let body = body_of(entry, bytes);
        let speaks = self.clients[who].0;
        let bytes = match speaks {
            Speaks::Goqueue => goqueue::add("full", 0, 0, &body),
            Speaks::Takeanumber => format!("ADD full 999 {body}\r\n").into_bytes(),
            Speaks::Masenko => format!("PUSH {{\"name\":\"n\",\"queue\":\"full\",\"payload\":{body}}}\n").into_bytes(),
            Speaks::Jobcentre => {
                format!("{{\"request\":\"put\",\"queue\":\"full\",\"job\":{body},\"pri\":0}}\n").into_bytes()
            }
            Speaks::Workq => {
                format!("add {} full 9000 900000 {}\r\n{body}\r\n", uuid_of_entry(entry), body.len()).into_bytes()
            }
            Speaks::Beanstalkd => beanstalkd::put("full", (0, 0, 9), &body),
        };
        let answer = self.talk(who, &bytes);
        if speaks.is_yes(&answer) {
            self.work.ledger.put(entry, self.work.world.when());
            let id = speaks.put_numbers(&answer).first().map(u64::to_string);
            self.jobs.push((who, entry, id.unwrap_or_else(|| uuid_of_entry(entry))));
            return true;
        }
        let told = String::from_utf8_lossy(&answer).to_lowercase();
        let words = if speaks == Speaks::Beanstalkd { "out_of_memory" } else { "disk" };
        assert!(told.contains(words), "{speaks:?} was told: {told}");
        let why = self.work.world.shortage().unwrap_or_default();
        assert!(why.starts_with("the disk is full: could not ") && why.ends_with("(os error 28)"), "{why}");
        false
    }

    /// Takes the last job away, whoever put it.
    fn remove_one(&mut self) {
        self.remove(self.jobs.len() - 1);
    }

    /// Takes a job away, whoever put it.
    fn remove(&mut self, which: usize) {
        let (putter, entry, id) = self.jobs.swap_remove(which);
        let when = self.work.world.when();
        self.work.ledger.end_asked(entry, when);
        let numbers = self.clients.iter().position(|(speaks, _)| *speaks == Speaks::Goqueue).expect("all are there");
        let speaks = self.clients[putter].0;
        let (who, bytes) = match speaks {
            Speaks::Workq => (putter, format!("delete {id}\r\n").into_bytes()),
            Speaks::Takeanumber => {
                let number: u64 = id.parse().expect("a number");
                (putter, format!("DONE full 6a6f6279-6172-4640-8000-{number:012x}\r\n").into_bytes())
            }
            Speaks::Jobcentre => (putter, format!("{{\"request\":\"delete\",\"id\":{id}}}\n").into_bytes()),
            // What someone has leased it does not remove.
            Speaks::Beanstalkd if !self.is_leased(&id) => (putter, format!("delete {id}\r\n").into_bytes()),
            Speaks::Goqueue | Speaks::Masenko | Speaks::Beanstalkd => (numbers, goqueue::delete(&id)),
        };
        let answer = self.talk(who, &bytes);
        assert!(
            self.clients[who].0.is_yes(&answer),
            "a full disk refused to remove, {} left: {}",
            self.jobs.len(),
            answer.escape_ascii()
        );
        self.work.ledger.ended(entry, self.work.world.when());
    }

    /// Whether someone has the job of this number.
    fn is_leased(&mut self, id: &str) -> bool {
        let who = self.clients.iter().position(|(speaks, _)| *speaks == Speaks::Beanstalkd).expect("all are there");
        let answer = self.talk(who, format!("stats-job {id}\r\n").as_bytes());
        String::from_utf8_lossy(&answer).contains("\nstate: reserved\n")
    }

    /// Puts until every protocol was refused.
    fn fill(&mut self) {
        let mut refused = vec![false; self.clients.len()];
        for nth in 0..JOBS_MAX {
            let who = nth % self.clients.len();
            refused[who] |= !self.put(who);
            if refused.iter().all(|refused| *refused) {
                return;
            }
        }
        panic!("{JOBS_MAX} jobs fit a disk of {CAPACITY} bytes");
    }
}

#[test]
fn a_full_disk_refuses_jobs_lets_others_go_and_takes_jobs_again() {
    let mut crowd = Crowd::new();
    for round in 0..4 {
        crowd.fill();
        assert!(crowd.work.world.disk.bytes() <= CAPACITY);
        // More than once through what is there, so that much is written while there is no room.
        for _ in 0..crowd.jobs.len() * 3 / 4 {
            crowd.remove_one();
        }
        crowd.work.world.pass(10_000);
        for who in 0..crowd.clients.len() {
            assert!(crowd.put(who), "round {round}: {:?} is still refused", crowd.clients[who].0);
        }
    }
    crowd.work.world.end(Crash::Garbage(1));
    crowd.work.world.start().expect("it starts again on a full disk");
    cut_everywhere(&crowd.work).check_crashes();
}

#[test]
fn a_disk_that_gets_more_room_is_used() {
    let mut crowd = Crowd::new();
    crowd.fill();
    crowd.work.world.disk.set_capacity(Some(2 * CAPACITY));
    crowd.work.world.pass(2_000);
    for who in 0..crowd.clients.len() {
        assert!(crowd.put(who), "{:?} is still refused", crowd.clients[who].0);
    }
    let jobs = crowd.jobs.len();
    crowd.fill();
    assert!(crowd.jobs.len() > jobs * 3 / 2, "{jobs}, then {}", crowd.jobs.len());
}

#[test]
fn a_server_starts_on_a_full_disk() {
    let mut crowd = Crowd::new();
    crowd.fill();
    for crash in [Crash::Kill, Crash::Lost, Crash::Scattered(1)] {
        let disk = SimDisk::from_image(&crowd.work.world.disk.crash(crash));
        // Not a byte more than there is.
        disk.set_capacity(Some(disk.bytes()));
        let mut world = World::new(disk, crowd.work.world.options().clone());
        world.start().unwrap_or_else(|error| panic!("{crash:?}: {error}"));
        let client = world.connect(Speaks::Jobcentre.listener());
        world.send(client, b"{\"request\":\"get\",\"queues\":[\"full\"]}\n");
        world.settle();
        assert!(Speaks::Jobcentre.is_yes(&world.hear(client)), "{crash:?}");
        for number in 1..60 {
            world.send(client, format!("{{\"request\":\"delete\",\"id\":{number}}}\n").as_bytes());
        }
        world.pass(5_000);
        assert!(world.is_running(), "{crash:?}: {:?}", world.failure());
    }
}

/// Others take at once whatever is given back.
fn leave_no_room(crowd: &Crowd) {
    let disk = &crowd.work.world.disk;
    disk.set_capacity(Some(disk.bytes()));
}

#[test]
fn whatever_is_there_can_be_removed_in_any_order_from_a_disk_without_any_room() {
    for seed in 0..300 {
        let mut random = seed;
        let lateness = [Lateness::None, Lateness::Polls(1), Lateness::Sleeps(2)][below(&mut random, 3)];
        let mut crowd = Crowd::late(lateness);
        let lengths = [[20, 20, 20], [20, 200, 1_000], [200, 1_000, 4_000], [1_000, 4_000, 6_000]];
        let lengths = lengths[below(&mut random, lengths.len())];
        let takes = Speaks::ALL.iter().position(|speaks| *speaks == Speaks::Takeanumber).expect("it is spoken");
        let greedy = coin(&mut random);
        let mut put = |crowd: &mut Crowd| {
            crowd.put_of(below(&mut random, Speaks::ALL.len()), lengths[below(&mut random, lengths.len())])
        };
        // Segments may come to be of another length, on a disk that is full or is about to be.
        let other_length = [14 << 10, 24 << 10, 48 << 10].get(usize::try_from(seed % 6).expect("small"));
        if let (Some(length), true) = (other_length, seed % 12 < 6) {
            for _ in 0..20 {
                put(&mut crowd);
            }
            crowd.restart(*length, CAPACITY);
        }
        while put(&mut crowd) {}
        leave_no_room(&crowd);
        if let (Some(length), false) = (other_length, seed % 12 < 6) {
            let capacity = crowd.work.world.disk.bytes();
            crowd.restart(*length, capacity);
        }
        // Small records, until even those find no room.
        for _ in 0..below(&mut random, 600) {
            let answer = crowd.talk(takes, b"RESERVE full\r\n");
            let Some(id) = answer.strip_prefix(b"+").and_then(|rest| rest.get(..36)) else { break };
            crowd.talk(takes, &[b"RETRY full ", id, b"\r\n"].concat());
        }
        while !crowd.jobs.is_empty() {
            crowd.remove(below(&mut random, crowd.jobs.len()));
            if greedy {
                leave_no_room(&crowd);
            }
        }
        crowd.work.world.disk.set_capacity(Some(CAPACITY));
        crowd.work.world.pass(10_000);
        assert!(crowd.put(0), "seed {seed}: jobs are still refused");
    }
}

#[test]
fn whatever_ends_by_itself_needs_no_more_room_than_there_is() {
    for (down, length) in [(false, 1), (true, 1), (false, 300), (true, 300)] {
        let mut crowd = Crowd::new();
        let workq = Speaks::ALL.iter().position(|speaks| *speaks == Speaks::Workq).expect("it is spoken");
        let mut jobs = 0;
        let put = |crowd: &mut Crowd, job: usize| {
            let body = "x".repeat(length);
            let add = format!("add {} full 9000 60000 {length}\r\n{body}\r\n", uuid_of_entry(job));
            Speaks::Workq.is_yes(&crowd.talk(workq, add.as_bytes()))
        };
        while put(&mut crowd, jobs) {
            jobs += 1;
        }
        demand(jobs * length > 300, &format_args!("{jobs} jobs"));
        leave_no_room(&crowd);
        let world = &mut crowd.work.world;
        if down {
            world.clock.wall_ms += 100_000;
            world.clock.monotonic_ms += 100_000;
            let capacity = world.disk.bytes();
            crowd.restart(SEGMENT_BYTES, capacity);
        }
        let world = &mut crowd.work.world;
        world.pass(100_000);
        assert!(world.is_running(), "{:?}", world.failure());
        assert!(put(&mut crowd, 0), "all {jobs} jobs of {length} bytes are gone, and there is no room");
    }
}

#[test]
fn what_was_begun_of_a_segment_takes_no_room_that_is_not_there() {
    let mut refused = 0;
    for (at, free) in (0..30).flat_map(|at| (0..12).map(move |free| (at, free))) {
        let mut crowd = Crowd::new();
        crowd.work.world.disk.set_capacity(None);
        let workq = Speaks::ALL.iter().position(|speaks| *speaks == Speaks::Workq).expect("it is spoken");
        let add =
            |job, bytes| format!("add {} full 9000 90000000 {bytes}\r\n{}\r\n", uuid_of_entry(job), "x".repeat(bytes));
        // Jobs of one segment, with results that take many.
        for job in 0..60 {
            crowd.talk(workq, add(job, 20).as_bytes());
        }
        for job in 0..60 {
            let complete = format!("complete {} 4000\r\n{}\r\n", uuid_of_entry(job), "r".repeat(4_000));
            assert!(Speaks::Workq.is_yes(&crowd.talk(workq, complete.as_bytes())));
        }
        // Others come and go, so that the segment is being written anew when the disk gets full.
        for job in 100..200 {
            if job == 100 + at {
                let disk = &crowd.work.world.disk;
                disk.set_capacity(Some(disk.bytes() + free * SEGMENT_BYTES));
            }
            if !Speaks::Workq.is_yes(&crowd.talk(workq, add(job, 4_000).as_bytes())) {
                refused += 1;
                break;
            }
            crowd.talk(workq, format!("delete {}\r\n", uuid_of_entry(job)).as_bytes());
        }
    }
    demand(refused > 20, &format_args!("{refused} disks of 360 got full"));
}
