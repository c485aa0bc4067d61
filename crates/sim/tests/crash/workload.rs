//! A few thousand commands over all protocols, by clients that remember what they were told.

use jobyard_engine::ClientId;
use jobyard_sim::clients::{date, uuid_of_entry};
use jobyard_sim::random::{below, splitmix};

use crate::demand;
use crate::ledger::{Entry, Ledger, body_of, entry_of};
use crate::speak::{Speaks, beanstalkd, goqueue};
use crate::world::{LISTENERS, World};

const QUEUES: [&str; 3] = ["a", "b", "c"];
/// What is put here is never taken.
const STILL: &str = "still";
const STILL_JOBS: usize = 12;
/// More jobs than this are not let pile up.
const LIVING_MAX: usize = 90;
const CLIENTS: usize = 12;

/// What must have been answered at least once.
const LABELS: [&str; 36] = [
    "beanstalkd bury",
    "beanstalkd delete",
    "beanstalkd kick",
    "beanstalkd kick-job",
    "beanstalkd kick: none",
    "beanstalkd put",
    "beanstalkd release",
    "beanstalkd reserve-with-timeout",
    "beanstalkd touch",
    "beanstalkd watch",
    "goqueue ADD",
    "goqueue DELETE",
    "goqueue DELETE: no",
    "goqueue RESERVE",
    "goqueue RESERVE: no",
    "jobcentre abort",
    "jobcentre delete",
    "jobcentre get",
    "jobcentre put",
    "masenko ACK",
    "masenko ATOMIC",
    "masenko ATOMIC: no",
    "masenko FETCH",
    "masenko NACK",
    "masenko PUSH",
    "takeanumber ADD",
    "takeanumber DONE",
    "takeanumber RESERVE",
    "takeanumber RETRY",
    "takeanumber RETRY: no",
    "workq add",
    "workq complete",
    "workq delete",
    "workq fail",
    "workq run",
    "workq schedule",
];

/// Clients at work.
pub struct Workload {
    pub world: World,
    pub ledger: Ledger,
    pub commands: usize,
    /// How many commands of each kind were answered as asked.
    pub tally: std::collections::BTreeMap<String, usize>,
    random: u64,
    clients: Vec<Client>,
}

struct Client {
    id: ClientId,
    speaks: Speaks,
    pending: Option<Pending>,
    holds: Vec<Held>,
    /// The id of the job that it has put aside last, if it can.
    buried: Option<String>,
}

#[derive(Clone, Debug)]
struct Held {
    entry: Entry,
    id: String,
    /// Where it was looked for first.
    queue: &'static str,
}

/// A command that was not answered yet.
#[derive(Debug, Default)]
struct Pending {
    label: &'static str,
    puts: Vec<Entry>,
    ends: Vec<Entry>,
    /// Where a job is looked for first.
    takes: Option<&'static str>,
    /// A `no` says that the job is gone.
    no_is_end: bool,
}

impl Workload {
    pub fn new(world: World, seed: u64) -> Self {
        let (ledger, tally) = (Ledger::default(), Default::default());
        Workload { world, ledger, commands: 0, tally, random: seed, clients: Vec::new() }
    }

    fn below(&mut self, end: usize) -> usize {
        below(&mut self.random, end)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// After the server was started: nobody is connected.
    pub fn begin(&mut self) {
        self.clients.clear();
        for index in 0..CLIENTS {
            self.connect(Speaks::ALL[index % Speaks::ALL.len()]);
        }
    }

    fn connect(&mut self, speaks: Speaks) {
        let listener = if self.one_in(3) { LISTENERS.len() - 1 } else { speaks.listener() };
        let id = self.world.connect(listener);
        let mut client = Client { id, speaks, pending: None, holds: Vec::new(), buried: None };
        if speaks == Speaks::Beanstalkd {
            let watch = QUEUES.map(|queue| format!("watch {queue}\r\n")).concat();
            self.world.send(id, format!("{watch}ignore default\r\n").as_bytes());
            client.pending = Some(Pending { label: "beanstalkd watch", ..Pending::default() });
        }
        self.clients.push(client);
    }

    /// Works until so many commands were asked.
    pub fn work_until(&mut self, commands: usize) {
        while self.commands < commands {
            self.round();
            assert!(self.world.is_running(), "the server ended: {:?}", self.world.failure());
        }
    }

    /// Fails unless every command was carried out, and every refusal met that belongs to the work.
    pub fn check_variety(&self) {
        for label in LABELS {
            demand(self.tally.contains_key(label), &format_args!("never: {label}; but {:?}", self.tally));
        }
    }

    /// A few clients ask, and hear; then some time may pass. Ends early if the server does.
    pub fn round(&mut self) {
        let askers = 1 + self.below(4);
        for _ in 0..askers {
            let index = self.below(self.clients.len());
            if self.clients[index].pending.is_none() {
                self.ask(index);
            }
        }
        self.world.settle();
        self.hear();
        if self.one_in(3) {
            let ms = if self.one_in(8) { 1_000 + self.below(9_000) } else { self.below(300) };
            self.world.pass(ms as u64);
            self.hear();
        }
        if self.one_in(40) && self.world.is_running() {
            let client = self.clients.swap_remove(0);
            self.world.leave(client.id);
            self.connect(client.speaks);
        }
    }

    fn ask(&mut self, index: usize) {
        let crowded = self.ledger.living() > LIVING_MAX;
        let holds = !self.clients[index].holds.is_empty();
        let (bytes, pending) = match self.below(100) {
            0..45 if !crowded => self.put(index),
            0..70 if !holds => self.take(index),
            70..74 => self.look(index),
            _ if holds => self.end(index),
            _ if crowded => self.take(index),
            _ => self.put(index),
        };
        let when = self.world.when();
        pending.ends.iter().for_each(|entry| self.ledger.end_asked(*entry, when));
        self.clients[index].pending = Some(pending);
        self.world.send(self.clients[index].id, &bytes);
        self.commands += 1;
    }

    /// A new entry and its body.
    fn entry(&mut self, mortal: bool) -> (Entry, String) {
        let entry = self.ledger.put_asked(self.world.when(), mortal);
        let pad = match self.below(20) {
            0 => 1_000 + self.below(3_000),
            1..5 => 300 + self.below(400),
            _ => self.below(120),
        };
        (entry, body_of(entry, pad))
    }

    fn queue(&mut self) -> &'static str {
        if self.ledger.promises.len() < STILL_JOBS { STILL } else { QUEUES[self.below(QUEUES.len())] }
    }

    fn put(&mut self, index: usize) -> (Vec<u8>, Pending) {
        let queue = self.queue();
        let speaks = self.clients[index].speaks;
        match speaks {
            Speaks::Goqueue => {
                let (entry, body) = self.entry(false);
                let (priority, ttp_s) = (self.below(3), self.below(5));
                let bytes = goqueue::add(queue, to_u32(priority), to_u32(ttp_s), &body);
                (bytes, Pending { label: "goqueue ADD", puts: vec![entry], ..Pending::default() })
            }
            Speaks::Takeanumber => {
                let mortal = self.one_in(3);
                let (entry, body) = self.entry(mortal);
                let retries = if mortal { self.below(2) } else { 1_000 };
                let bytes = format!("ADD {queue} {retries} {body}\r\n").into_bytes();
                (bytes, Pending { label: "takeanumber ADD", puts: vec![entry], ..Pending::default() })
            }
            Speaks::Masenko if self.one_in(4) => self.put_group(index, queue),
            Speaks::Masenko => {
                let (entry, task) = self.task(queue);
                let bytes = format!("PUSH {task}\n").into_bytes();
                (bytes, Pending { label: "masenko PUSH", puts: vec![entry], ..Pending::default() })
            }
            Speaks::Jobcentre => {
                let (entry, body) = self.entry(false);
                let priority = self.below(4);
                let bytes =
                    format!("{{\"request\":\"put\",\"queue\":\"{queue}\",\"job\":{body},\"pri\":{priority}}}\n");
                (bytes.into_bytes(), Pending { label: "jobcentre put", puts: vec![entry], ..Pending::default() })
            }
            Speaks::Workq => self.put_workq(queue),
            Speaks::Beanstalkd => {
                let (entry, body) = self.entry(false);
                let (priority, delay_s, ttr_s) = (self.below(3), self.below(8).saturating_sub(5), 1 + self.below(9));
                let bytes = beanstalkd::put(queue, (priority, delay_s, ttr_s), &body);
                (bytes, Pending { label: "beanstalkd put", puts: vec![entry], ..Pending::default() })
            }
        }
    }

    /// A task as masenko is told it. It may be delayed, blocked, or allowed to fail but once.
    fn task(&mut self, queue: &str) -> (Entry, String) {
        let kind = self.below(8);
        let (entry, body) = self.entry(matches!(kind, 0 | 1));
        let extra = match kind {
            0 => format!(",\"retry\":{},\"deadqueue\":\"c\"", entry % 2),
            1 => format!(",\"retry\":1,\"blocked_by\":[{},{}]", 1 + splitmix(&mut self.random) % 400, entry),
            2 => format!(",\"execute_at\":\"{}\"", date(self.world.clock.wall_ms + 5_000)),
            _ => String::new(),
        };
        (entry, format!("{{\"name\":\"n{entry}\",\"queue\":\"{queue}\",\"payload\":{body}{extra}}}"))
    }

    /// A transaction that puts two tasks, one of which waits for the other, and completes what is held.
    fn put_group(&mut self, index: usize, queue: &str) -> (Vec<u8>, Pending) {
        let (first, task) = self.task(queue);
        let (second, body) = self.entry(true);
        let held = self.clients[index].holds.pop();
        let ack = match &held {
            Some(held) => format!("ACK {{\"id\":{}}}\n", held.id),
            // Nobody holds that, and so all of it is refused.
            None if self.one_in(4) => "ACK {\"id\":99999999}\n".to_owned(),
            None => String::new(),
        };
        let bytes = format!(
            "ATOMIC\nPUSH {task}\n{ack}PUSH {{\"name\":\"m\",\"queue\":\"{queue}\",\"payload\":{body},\"blocked_by\":[-1]}}\nDONE\n"
        );
        let ends = held.map(|held| held.entry).into_iter().collect();
        (bytes.into_bytes(), Pending { label: "masenko ATOMIC", puts: vec![first, second], ends, ..Pending::default() })
    }

    fn put_workq(&mut self, queue: &str) -> (Vec<u8>, Pending) {
        let kind = self.below(8);
        let (entry, body) = self.entry(kind < 3);
        let (id, len) = (uuid_of_entry(entry), body.len());
        let ttl_ms = if kind < 2 { 2_000 + self.below(20_000) } else { 1_000_000_000 };
        let (attempts, fails, priority) = (self.below(4), self.below(4), self.below(3));
        let flags = format!("-max-attempts={attempts} -max-fails={fails} -priority={priority}");
        let (label, line) = match kind {
            2 => ("workq run", format!("run {id} {queue} 9000 20000 {len}")),
            3 => {
                let time = date(self.world.clock.wall_ms + 4_000);
                ("workq schedule", format!("schedule {id} {queue} 3000 {ttl_ms} {time} {len} {flags}"))
            }
            _ => ("workq add", format!("add {id} {queue} 3000 {ttl_ms} {len} {flags}")),
        };
        let bytes = format!("{line}\r\n{body}\r\n").into_bytes();
        (bytes, Pending { label, puts: vec![entry], ..Pending::default() })
    }

    fn take(&mut self, index: usize) -> (Vec<u8>, Pending) {
        let queue = QUEUES[self.below(QUEUES.len())];
        let wait = self.one_in(3);
        let (label, text) = match self.clients[index].speaks {
            Speaks::Goqueue => {
                let pending = Pending { label: "goqueue RESERVE", takes: Some(queue), ..Pending::default() };
                return (goqueue::reserve(queue, 1), pending);
            }
            Speaks::Takeanumber => ("takeanumber RESERVE", format!("RESERVE {queue}\r\n")),
            Speaks::Masenko => {
                let timeout_ms = if wait { 700 } else { 1 };
                let fetch = format!("FETCH {{\"queues\":[\"{queue}\",\"a\",\"b\"],\"timeout\":\"{timeout_ms}ms\"}}\n");
                ("masenko FETCH", fetch)
            }
            Speaks::Jobcentre => {
                ("jobcentre get", format!("{{\"request\":\"get\",\"queues\":[\"{queue}\",\"c\"],\"wait\":{wait}}}\n"))
            }
            Speaks::Workq => ("workq lease", format!("lease {queue} b {}\r\n", if wait { 700 } else { 0 })),
            Speaks::Beanstalkd => {
                ("beanstalkd reserve-with-timeout", format!("reserve-with-timeout {}\r\n", u8::from(wait)))
            }
        };
        (text.into_bytes(), Pending { label, takes: Some(queue), ..Pending::default() })
    }

    fn look(&mut self, index: usize) -> (Vec<u8>, Pending) {
        let (label, text) = match self.clients[index].speaks {
            Speaks::Goqueue => ("goqueue CONNECT", "CONNECT\0"),
            Speaks::Takeanumber => ("takeanumber LEN", "LEN a\r\n"),
            Speaks::Masenko => ("masenko INFO", "INFO\n"),
            Speaks::Jobcentre => ("jobcentre delete of nothing", "{\"request\":\"delete\",\"id\":99999999}\n"),
            Speaks::Workq => ("workq inspect", "inspect queues 0 5\r\n"),
            Speaks::Beanstalkd => return self.kick(index),
        };
        (text.as_bytes().to_vec(), Pending { label, ..Pending::default() })
    }

    /// Lets jobs back in that were put aside.
    fn kick(&mut self, index: usize) -> (Vec<u8>, Pending) {
        let (label, text) = match self.clients[index].buried.take() {
            Some(id) if self.one_in(2) => ("beanstalkd kick-job", format!("kick-job {id}\r\n")),
            _ => ("beanstalkd kick", format!("use {}\r\nkick 2\r\n", QUEUES[self.below(QUEUES.len())])),
        };
        (text.into_bytes(), Pending { label, ..Pending::default() })
    }

    /// Does something with a job that does not end it, in one of the ways that beanstalkd has.
    fn keep(&mut self, index: usize, held: Held) -> (Vec<u8>, Pending) {
        let (id, priority) = (held.id.clone(), self.below(3));
        let (label, text) = match self.below(3) {
            0 => ("beanstalkd release", format!("release {id} {priority} {}\r\n", self.below(3))),
            1 => {
                self.clients[index].buried = Some(id.clone());
                ("beanstalkd bury", format!("bury {id} {priority}\r\n"))
            }
            _ => {
                self.clients[index].holds.push(held);
                ("beanstalkd touch", format!("touch {id}\r\n"))
            }
        };
        (text.into_bytes(), Pending { label, ..Pending::default() })
    }

    /// Ends the work on something held, well or not.
    fn end(&mut self, index: usize) -> (Vec<u8>, Pending) {
        let at = self.below(self.clients[index].holds.len());
        let held = self.clients[index].holds.swap_remove(at);
        let well = !self.one_in(4);
        let speaks = self.clients[index].speaks;
        if speaks == Speaks::Beanstalkd && self.one_in(2) {
            return self.keep(index, held);
        }
        let Held { entry, id, queue } = held;
        let (label, text) = match speaks {
            Speaks::Goqueue => {
                let pending =
                    Pending { label: "goqueue DELETE", ends: vec![entry], no_is_end: true, ..Pending::default() };
                return (goqueue::delete(&id), pending);
            }
            Speaks::Takeanumber => {
                let text = format!("{} {queue} {id}\r\n", if well { "DONE" } else { "RETRY" });
                (if well { "takeanumber DONE" } else { "takeanumber RETRY" }, text)
            }
            Speaks::Masenko if well => ("masenko ACK", format!("ACK {{\"id\":{id}}}\n")),
            Speaks::Masenko => ("masenko NACK", format!("NACK {{\"id\":{id}}}\n")),
            Speaks::Jobcentre if well => ("jobcentre delete", format!("{{\"request\":\"delete\",\"id\":{id}}}\n")),
            Speaks::Jobcentre => ("jobcentre abort", format!("{{\"request\":\"abort\",\"id\":{id}}}\n")),
            Speaks::Workq if well && self.one_in(3) => ("workq delete", format!("delete {id}\r\n")),
            Speaks::Workq if well => ("workq complete", format!("complete {id} 6\r\nresult\r\n")),
            Speaks::Workq => ("workq fail", format!("fail {id} 4\r\noops\r\n")),
            Speaks::Beanstalkd => ("beanstalkd delete", format!("delete {id}\r\n")),
        };
        // Who fails may end a job as well; whether that happened is for its rules to say.
        (text.into_bytes(), Pending { label, ends: vec![entry], ..Pending::default() })
    }

    /// Takes note of all that was answered.
    fn hear(&mut self) {
        for index in 0..self.clients.len() {
            let answer = self.world.hear(self.clients[index].id);
            if answer.is_empty() {
                continue;
            }
            let Some(pending) = self.clients[index].pending.take() else {
                panic!("{:?} heard what it did not ask for: {}", self.clients[index].speaks, answer.escape_ascii());
            };
            self.note(index, &pending, &answer);
        }
        let gone = |client: &Client, world: &World| world.is_closed(client.id);
        let lost: Vec<Speaks> =
            self.clients.iter().filter(|client| gone(client, &self.world)).map(|client| client.speaks).collect();
        let world = &self.world;
        self.clients.retain(|client| !gone(client, world));
        if self.world.is_running() {
            lost.into_iter().for_each(|speaks| self.connect(speaks));
        }
    }

    fn note(&mut self, index: usize, pending: &Pending, answer: &[u8]) {
        let when = self.world.when();
        let speaks = self.clients[index].speaks;
        let yes = speaks.is_yes(answer);
        let outcome = match yes {
            true if speaks.is_none_of_many(answer) => format!("{}: none", pending.label),
            true => pending.label.to_owned(),
            false => format!("{}: no", pending.label),
        };
        *self.tally.entry(outcome).or_default() += 1;
        if let Some(queue) = pending.takes {
            if let (Some(entry), Some(id)) = (entry_of(answer), speaks.taken_id(answer)) {
                self.clients[index].holds.push(Held { entry, id, queue });
            }
            return;
        }
        let fails = ["takeanumber RETRY", "masenko NACK", "jobcentre abort", "workq fail"].contains(&pending.label);
        if yes {
            let numbers = if pending.puts.is_empty() { Vec::new() } else { speaks.put_numbers(answer) };
            numbers.into_iter().for_each(|number| self.ledger.number(number, when));
            if pending.label == "workq run" {
                return;
            }
            pending.puts.iter().for_each(|entry| self.ledger.put(*entry, when));
            pending.ends.iter().filter(|_| !fails).for_each(|entry| self.ledger.ended(*entry, when));
        } else if pending.no_is_end {
            pending.ends.iter().for_each(|entry| self.ledger.ended(*entry, when));
        }
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("a small number")
}
