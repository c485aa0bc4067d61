//! The simulated world: one server on a simulated disk, its clocks, and its clients' connections. What happens and when is
//! decided by whoever drives it; what is left to chance comes from one seed.

mod late;
mod net;
mod notes;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jobyard_broker::{Action, Broker, Clock, Config, Event, SLOT_BITS, Sleep, slot};
use jobyard_engine::{ClientId, Limits};
use jobyard_log::{FileLog, Options};

use crate::disk::{Crash, Fault, SimDisk};
use crate::random::{Digest, splitmix};
use crate::transitions::Transitions;
pub use late::{Late, Lateness, Seen};
use net::Pipe;
pub use net::{Chunk, Manners, Parting, Troubles};
pub use notes::{Noted, Notes};

/// 2026-01-01T00:00:00Z.
pub const START_WALL_MS: i64 = 1_767_225_600_000;
/// The machine's own clock begins anywhere at each boot.
const BOOT_MONOTONIC_MS: u64 = 77_003;
/// So many of the disk's last operations are told at a crash.
const OPERATIONS_SAID: usize = 40;
/// A server that is not at rest after so many turns never will be.
const TURNS_MAX: u32 = 30_000;
/// A server that wakes up more often than this and once in so many milliseconds sleeps badly.
const WAKES_MAX: u64 = 100;
const WAKE_MS_MIN: u64 = 200;

/// How a server is set up, in all its lives.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What it listens to, and its limits.
    pub config: Config,
    /// How its log is kept.
    pub log: Options,
    /// When batches reach the log.
    pub lateness: Lateness,
}

/// What is wrong with a server, whatever its clients think of it.
pub type Wrong = String;

/// One server and its clients.
pub struct World {
    /// As the machine has them.
    pub clock: Clock,
    /// What the server keeps its log on.
    pub disk: SimDisk,
    setup: Setup,
    server: Option<Box<Broker<Late>>>,
    listening: bool,
    events: Vec<Event>,
    pipes: BTreeMap<ClientId, Pipe>,
    /// The connections that the server was told of and has not closed.
    open: BTreeSet<ClientId>,
    last_client: u64,
    turns: u64,
    elapsed_ms: u64,
    /// Why the server ended by itself, if it did.
    failure: Option<String>,
    random: u64,
    digest: Digest,
    seen: Seen,
    troubles: Troubles,
    /// When the server wants to be woken if nothing happens.
    wakes_ms: Option<u64>,
    /// How often it came to rest.
    rests: u64,
    /// When the server started, by the wall clock, and how many clients have come since.
    started: (i64, u64),
    /// What became of jobs, over all lives.
    changes: Transitions,
    /// What became of one that may not.
    strange: Option<Wrong>,
    /// What the log was given and said in this life, if anyone wants to know.
    pub notes: Option<Rc<RefCell<Notes>>>,
    /// What has happened, line by line, if anyone wants to know.
    pub trace: Option<Vec<String>>,
}

impl World {
    /// An empty disk, and no server yet.
    #[must_use]
    pub fn new(setup: Setup, seed: u64) -> Self {
        World {
            clock: Clock { monotonic_ms: BOOT_MONOTONIC_MS, boot: 1, wall_ms: START_WALL_MS },
            disk: SimDisk::default(),
            setup,
            server: None,
            listening: false,
            events: Vec::new(),
            pipes: BTreeMap::new(),
            open: BTreeSet::new(),
            last_client: 0,
            turns: 0,
            elapsed_ms: 0,
            failure: None,
            random: seed,
            digest: Digest::default(),
            seen: Seen::default(),
            troubles: Troubles::default(),
            wakes_ms: None,
            rests: 0,
            started: (START_WALL_MS, 0),
            changes: Transitions::default(),
            strange: None,
            notes: None,
            trace: None,
        }
    }

    /// How the server is set up.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// From the next start on there can be as many queues and clients as ever, and a client can hold as many jobs and leave as
    /// much unfinished.
    pub fn lift_limits(&mut self) {
        let Limits { queues_max, held_max, clients_max, input_bytes_max, .. } = Limits::default();
        let limits = self.setup.config.limits.clone();
        self.setup.config.limits = Limits { queues_max, held_max, clients_max, input_bytes_max, ..limits };
    }

    /// The next server is told to have segments of this length. Like every start it has a random number of its own.
    pub fn set_segment_bytes(&mut self, segment_bytes: u64, salt_for_new: u64) {
        self.setup.log = Options { segment_bytes, salt_for_new, ..self.setup.log.clone() };
    }

    /// Starts the server on what the disk holds.
    ///
    /// # Errors
    /// If it refuses to start.
    pub fn start(&mut self) -> Result<(), Wrong> {
        let log = FileLog::open(self.disk.clone(), self.setup.log.clone());
        let mut late = Late::new(log, self.setup.lateness, self.seen.clone());
        if let Some(notes) = &self.notes {
            late = late.with_notes(Rc::clone(notes), self.setup.log.sync);
        }
        let mut broker =
            Broker::begin(self.setup.config.clone(), late, self.clock).map_err(|error| error.to_string())?;
        broker.note_changes();
        self.server = Some(Box::new(broker));
        (self.failure, self.listening) = (None, true);
        self.started = (self.clock.wall_ms, 0);
        self.wakes_ms = Some(self.elapsed_ms);
        Ok(())
    }

    /// Whether there is a server.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Whether the server takes clients.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.listening
    }

    /// Why the server ended by itself, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Why the server could find no more room on its disk.
    #[must_use]
    pub fn shortage(&self) -> Option<String> {
        self.server.as_ref()?.shortage()
    }

    /// How many clients the server knows.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.server.as_ref().map_or(0, |server| server.clients())
    }

    /// The connections that the server was told of and has not closed.
    #[must_use]
    pub fn open(&self) -> &BTreeSet<ClientId> {
        &self.open
    }

    /// When the server started, by the wall clock, and how many clients have come since.
    #[must_use]
    pub fn started(&self) -> (i64, u64) {
        self.started
    }

    /// The memory that the server takes, by its own count.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.server.as_ref().map_or(0, |server| server.memory_bytes())
    }

    /// How many turns there were, over all lives.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// How often the server came to rest: all that it had decided then was as durable as it will ever be.
    #[must_use]
    pub fn rests(&self) -> u64 {
        self.rests
    }

    /// How much time has passed, whatever clocks say.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms
    }

    /// A number that is the same whenever all that was sent, heard and written to the log was the same.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest.value() ^ self.seen.digest()
    }

    /// What the log was given, over all lives.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// What became of jobs, over all lives.
    ///
    /// # Errors
    /// If something became of one that there is not.
    pub fn changes(&self) -> Result<&Transitions, Wrong> {
        self.strange.clone().map_or(Ok(&self.changes), Err)
    }

    /// A client connects.
    pub fn connect(&mut self, listener: usize, manners: Manners) -> ClientId {
        self.last_client += 1;
        let client = ClientId(self.last_client << SLOT_BITS | self.free_slot());
        let pipe = Pipe::new(manners, self.listening);
        if self.listening {
            self.events.push(Event::Accepted { client, listener });
            self.open.insert(client);
            self.started.1 += 1;
        }
        self.pipes.insert(client, pipe);
        client
    }

    /// The smallest slot that nobody has who is connected, as a server gives it.
    fn free_slot(&self) -> u64 {
        let taken: BTreeSet<_> = self.open.iter().map(|&client| slot(client) as u64).collect();
        (0..).find(|slot| !taken.contains(slot)).expect("there are more slots than clients")
    }

    /// A client sends; when that arrives is another matter.
    pub fn send(&mut self, client: ClientId, bytes: &[u8]) {
        self.note(1, bytes);
        self.say(|_| format!("{client:?} > {}", bytes.escape_ascii()));
        if let Some(pipe) = self.pipes.get_mut(&client) {
            pipe.send(bytes);
        }
    }

    /// A client goes.
    pub fn part(&mut self, client: ClientId, parting: Parting) {
        self.say(|_| format!("{client:?} goes: {parting:?}"));
        if let Some(pipe) = self.pipes.get_mut(&client) {
            let parting = if parting == Parting::Close && pipe.has_unread() { Parting::Reset } else { parting };
            pipe.part(parting);
            if parting == Parting::Reset && pipe.is_known() {
                self.events.push(Event::Gone(client));
            }
        }
    }

    /// From now on a client reads what it is sent, or does not.
    pub fn set_reading(&mut self, client: ClientId, reading: bool) {
        if let Some(pipe) = self.pipes.get_mut(&client)
            && pipe.set_reading(reading)
        {
            self.events.push(Event::Writable(client));
        }
    }

    /// Whether a client has answers that it does not read.
    #[must_use]
    pub fn has_unread(&self, client: ClientId) -> bool {
        self.pipes.get(&client).is_some_and(Pipe::has_unread)
    }

    /// How many bytes the server could write to a client, heard or not.
    #[must_use]
    pub fn taken_bytes(&self, client: ClientId) -> usize {
        self.pipes.get(&client).map_or(0, Pipe::taken_bytes)
    }

    /// What has happened to bytes under way.
    #[must_use]
    pub fn troubles(&self) -> Troubles {
        self.troubles
    }

    /// What a client has heard since it was last asked.
    pub fn hear(&mut self, client: ClientId) -> Vec<Chunk> {
        self.pipes.get_mut(&client).map(Pipe::hear).unwrap_or_default()
    }

    /// Whether a client has heard all that it ever will.
    #[must_use]
    pub fn is_closed(&self, client: ClientId) -> bool {
        self.pipes.get(&client).is_none_or(Pipe::is_closed)
    }

    /// Forgets a connection.
    pub fn forget(&mut self, client: ClientId) {
        self.pipes.remove(&client);
    }

    /// One turn, before which some of what is under way may arrive. False if there is nothing to do now.
    pub fn turn(&mut self) -> bool {
        self.deliver(false);
        let (busy, sleep) = self.turn_now();
        let wakes_ms = sleep.map(|ms| self.elapsed_ms.saturating_add(ms));
        self.wakes_ms = if busy { Some(self.elapsed_ms) } else { wakes_ms };
        busy
    }

    /// Turns until all that is under way has arrived and there is nothing to do now. Says for how long.
    ///
    /// # Errors
    /// If the server never rests.
    pub fn rest(&mut self) -> Result<Option<u64>, Wrong> {
        for _ in 0..TURNS_MAX {
            self.deliver(true);
            if let (false, sleep) = self.turn_now() {
                self.wakes_ms = sleep.map(|ms| self.elapsed_ms.saturating_add(ms));
                self.rests += 1;
                return Ok(sleep);
            }
        }
        Err(format!("the server is not at rest after {TURNS_MAX} turns"))
    }

    /// Time passes; what falls due is done at its time. The server wakes up when something arrives, or when it wanted to be
    /// woken, and not because someone looks.
    ///
    /// # Errors
    /// If the server never rests, or wakes up all the time.
    pub fn pass(&mut self, ms: u64) -> Result<(), Wrong> {
        let end_ms = self.elapsed_ms.saturating_add(ms);
        for _ in 0..WAKES_MAX + ms / WAKE_MS_MIN {
            self.deliver(true);
            if !self.events.is_empty() || self.wakes_ms.is_some_and(|wakes_ms| wakes_ms <= self.elapsed_ms) {
                self.rest()?;
            }
            let until_ms = self.wakes_ms.map_or(end_ms, |wakes_ms| wakes_ms.min(end_ms));
            if until_ms <= self.elapsed_ms {
                return Ok(());
            }
            self.leap(until_ms - self.elapsed_ms);
        }
        let left_ms = end_ms - self.elapsed_ms;
        Err(format!("the server wakes up all the time: {left_ms} of {ms} ms were left"))
    }

    /// As by SIGSTOP: time passes, all that is under way arrives, and the server does nothing. It may have looked just before,
    /// so that in its next turn it knows the time, and nothing of what has arrived.
    pub fn stall(&mut self, ms: u64, has_looked: bool) {
        if has_looked {
            self.leap(ms);
            self.turn_now();
        }
        self.deliver(true);
        self.pipes.values_mut().for_each(Pipe::join_arrived);
        if !has_looked {
            self.leap(ms);
        }
    }

    /// Time passes, and the server does nothing.
    pub fn leap(&mut self, ms: u64) {
        self.elapsed_ms += ms;
        self.clock.monotonic_ms += ms;
        self.clock.wall_ms = self.clock.wall_ms.saturating_add_unsigned(ms);
    }

    /// The server is told to stop, or to take no more jobs.
    pub fn signal(&mut self, event: Event) {
        if self.is_running() {
            self.events.push(event);
        }
    }

    /// From so many operations of the disk on the power is gone: nothing is done any more, and nothing leaves.
    pub fn cut_power_after(&mut self, operations: u64) {
        let from = self.disk.tried() + operations;
        self.disk.fail_from(from, Fault::Broken);
    }

    /// The server ends as it stands, and what the crash leaves is the next one's disk.
    pub fn crash(&mut self, crash: Crash) {
        self.say(|_| format!("{crash:?}"));
        self.say_what_the_disk_did();
        self.end_server();
        self.disk = self.disk.after(crash);
        if crash != Crash::Kill {
            self.clock.boot += 1;
            self.clock.monotonic_ms = BOOT_MONOTONIC_MS + splitmix(&mut self.random) % 1_000;
        }
    }

    fn deliver(&mut self, all: bool) {
        for (&client, pipe) in &mut self.pipes {
            if pipe.deliver(all, &mut self.random, &mut self.troubles) {
                self.events.push(Event::Readable(client));
            }
            if pipe.ending_arrives() {
                self.events.push(Event::Ending(client));
                self.events.push(Event::Readable(client));
            }
        }
    }

    /// One turn. Whether there is more to do now, and if not, for how long there is nothing.
    fn turn_now(&mut self) -> (bool, Option<u64>) {
        self.turns += 1;
        let Some(server) = &mut self.server else {
            self.events.clear();
            return (self.pipes.values().any(Pipe::has_under_way) && self.drop_under_way(), None);
        };
        let mut actions = Vec::new();
        let sleep = server.turn(self.clock, &mut self.events, &mut actions);
        let gets_on = sleep != Sleep::No && server.log_mut().server_sleeps();
        let changes = server.take_changes();
        self.note(2, &self.disk.tried().to_le_bytes());
        for (call, change) in changes {
            self.say(|_| format!("in {call}: {change:?}"));
            if let Err(strange) = self.changes.count(call, &change) {
                self.strange = Some(format!("{strange}, of job {}", change.number));
            }
        }
        for action in actions {
            self.carry_out(action);
        }
        let busy = !self.events.is_empty() || self.pipes.values().any(Pipe::has_under_way);
        match sleep {
            _ if gets_on => (true, None),
            Sleep::No | Sleep::Millis(0) => (true, None),
            Sleep::Millis(ms) => (busy, Some(ms)),
            Sleep::Forever => (busy, None),
        }
    }

    /// Nobody is there to receive it.
    fn drop_under_way(&mut self) -> bool {
        self.pipes.values_mut().for_each(Pipe::drop_under_way);
        false
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Read { client, at_most } => self.read(client, at_most),
            Action::Write(client) => self.write(client),
            Action::Finish(client) => self.with_pipe(client, Pipe::finish),
            Action::Close(client) => {
                self.open.remove(&client);
                self.with_pipe(client, Pipe::close);
            }
            Action::CloseListeners => self.listening = false,
            Action::Exit => {
                self.say(|world| {
                    format!("the server ends: {:?}", world.server.as_ref().map(|server| server.failure().cloned()))
                });
                self.failure = self.server.as_ref().and_then(|server| server.failure().map(ToString::to_string));
                self.end_server();
            }
        }
    }

    fn with_pipe(&mut self, client: ClientId, what: impl FnOnce(&mut Pipe)) {
        if let Some(pipe) = self.pipes.get_mut(&client) {
            what(pipe);
        }
    }

    fn read(&mut self, client: ClientId, at_most: usize) {
        let Some(pipe) = self.pipes.get_mut(&client) else { return };
        self.events.push(pipe.read(client, at_most));
    }

    fn write(&mut self, client: ClientId) {
        let (Some(server), Some(pipe)) = (&self.server, self.pipes.get_mut(&client)) else { return };
        let output = server.output(client);
        match pipe.write(output, (self.turns, self.elapsed_ms), &mut self.random, &mut self.troubles) {
            None => self.events.push(Event::Lost(client)),
            Some(count) => {
                let taken = output[..count].to_vec();
                let all = count == output.len();
                let takes_more = !all && pipe.takes();
                self.events.push(Event::Wrote { client, count });
                if takes_more {
                    self.events.push(Event::Writable(client));
                }
                self.note(3, &taken);
                self.say(|_| format!("{client:?} < {}", taken.escape_ascii()));
            }
        }
    }

    fn end_server(&mut self) {
        self.server = None;
        self.open.clear();
        self.listening = false;
        self.events.clear();
        self.pipes.values_mut().for_each(Pipe::cut_off);
    }

    /// Takes note of something, if anyone wants to know.
    pub fn say(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = format!("turn {} at {} ms: {}", self.turns, self.elapsed_ms, what(self));
            self.trace.iter_mut().for_each(|trace| trace.push(line.clone()));
        }
    }

    /// What led to what a crash leaves.
    fn say_what_the_disk_did(&mut self) {
        if self.trace.is_some() {
            let operations = self.disk.history().operations;
            for operation in &operations[operations.len().saturating_sub(OPERATIONS_SAID)..] {
                self.say(|_| format!("the disk's last operations: {operation}"));
            }
        }
    }

    fn note(&mut self, kind: u8, bytes: &[u8]) {
        self.digest.add(kind, bytes);
    }
}
