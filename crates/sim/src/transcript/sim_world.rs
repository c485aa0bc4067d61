//! The simulated world: a broker whose sockets are buffers, whose disk is memory and whose clock is a number.

use std::collections::{HashMap, VecDeque};

use jobyard_broker::{Action, Broker, Clock, Config, Event, Listening, Sleep};
use jobyard_engine::ClientId;

use super::parse::Setup;
use super::player::Cut;
use super::sim_log::{Kept, SimLog, Storage, cut_off};
use super::world::{Trouble, World};
use crate::disk::{Fault, SimDisk};
use crate::random::{below, splitmix};

/// 2026-01-01T00:00:00Z.
const START_WALL_MS: i64 = 1_767_225_600_000;
/// The machine's own clock begins anywhere at each boot.
const BOOT_MONOTONIC_MS: u64 = 1_000_003;
const SEED: u64 = 5627;
const DRAIN_TIMEOUT_MS: u64 = 5_000;
/// More than a start does to its disk.
const START_OPERATIONS: usize = 24;
/// A server that is not at rest after so many turns never will be. The longest known way is a body of
/// many MiB that arrives and leaves in small pieces.
const TURNS_MAX: usize = 1_000_000;

/// A server in memory, and its clients.
pub struct SimWorld {
    config: Config,
    cut: Cut,
    storage: Storage,
    random: u64,
    clock: Clock,
    server: Server,
    listening: bool,
    events: Vec<Event>,
    names: HashMap<String, ClientId>,
    pipes: HashMap<ClientId, Pipe>,
    last_client: u64,
}

enum Server {
    /// Boxed: a broker is large, what is left of it is not.
    Runs(Box<Broker<SimLog>>),
    /// It has stopped, and left this.
    Stopped(Kept),
}

/// A connection, as the machine would keep it.
#[derive(Default)]
struct Pipe {
    /// Sent and not read, each piece as it was sent.
    sent: VecDeque<Vec<u8>>,
    /// The client sends nothing more.
    ended: bool,
    /// The client has closed its side.
    left: bool,
    /// Written and not heard.
    written: Vec<u8>,
    /// The server writes nothing more.
    finished: bool,
    /// The server has closed its side.
    closed: bool,
}

impl SimWorld {
    /// A fresh server with its log in memory. What it writes is taken in such pieces as `cut` says, and a batch of its log
    /// is durable after `lateness` turns.
    #[must_use]
    pub fn new(setup: &Setup, cut: Cut, lateness: u32) -> Self {
        SimWorld::with_storage(setup, cut, Storage::Memory { lateness })
    }

    /// A fresh server with its log there.
    #[must_use]
    pub fn with_storage(setup: &Setup, cut: Cut, storage: Storage) -> Self {
        let listening = |listener: &super::ListenerSetup| Listening {
            listener: listener.listener,
            options: listener.options.clone(),
        };
        let config = Config {
            limits: setup.limits.clone(),
            listeners: setup.listeners.iter().map(listening).collect(),
            seed: SEED,
            drain_timeout_ms: DRAIN_TIMEOUT_MS,
            ..Config::default()
        };
        let clock = Clock { monotonic_ms: BOOT_MONOTONIC_MS, boot: 1, wall_ms: START_WALL_MS };
        let mut world = SimWorld {
            config,
            cut,
            storage,
            random: if let Cut::Random(seed) = cut { seed } else { 0 },
            clock,
            server: Server::Stopped(Kept::new(storage)),
            listening: false,
            events: Vec::new(),
            names: HashMap::new(),
            pipes: HashMap::new(),
            last_client: 0,
        };
        world.restart().expect("an empty log can be opened");
        world
    }

    /// The memory that the server takes, by its own count.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &self.server {
            Server::Runs(broker) => broker.memory_bytes(),
            Server::Stopped(_) => 0,
        }
    }

    /// What this client has sent and the server has not carried out yet, in bytes.
    #[must_use]
    pub fn unfinished_bytes(&self, client: &str) -> usize {
        match (&self.server, self.names.get(client)) {
            (Server::Runs(broker), Some(id)) => broker.unfinished_bytes(*id),
            _ => 0,
        }
    }

    /// One turn, and what it wants done.
    fn turn(&mut self) -> Result<Sleep, Trouble> {
        let Server::Runs(broker) = &mut self.server else {
            self.events.clear();
            return Ok(Sleep::Forever);
        };
        let mut actions = Vec::new();
        let sleep = broker.turn(self.clock, &mut self.events, &mut actions);
        for action in actions {
            self.carry_out(action)?;
        }
        Ok(sleep)
    }

    fn carry_out(&mut self, action: Action) -> Result<(), Trouble> {
        match action {
            Action::Read { client, at_most } => self.read(client, at_most),
            Action::Write(client) => self.write(client),
            Action::Finish(client) => self.pipe(client).finished = true,
            Action::Close(client) => self.close(client),
            Action::CloseListeners => self.listening = false,
            Action::Exit => self.exit()?,
        }
        Ok(())
    }

    fn read(&mut self, client: ClientId, at_most: usize) {
        let pipe = self.pipe(client);
        let event = match pipe.sent.pop_front() {
            Some(mut bytes) => {
                if bytes.len() > at_most {
                    pipe.sent.push_front(bytes.split_off(at_most));
                }
                Event::Received { client, bytes, more: !pipe.sent.is_empty() || pipe.ended }
            }
            None if pipe.ended => Event::Ended(client),
            None => Event::Received { client, bytes: Vec::new(), more: false },
        };
        self.events.push(event);
    }

    fn write(&mut self, client: ClientId) {
        let Server::Runs(broker) = &self.server else { return };
        let output = broker.output(client);
        let count = room(self.cut, output.len(), &mut self.random);
        let all = count == output.len();
        let written = output[..count].to_vec();
        let pipe = self.pipe(client);
        if pipe.left {
            self.events.push(Event::Lost(client));
            return;
        }
        assert!(!pipe.finished, "{client:?} is written to after its end");
        pipe.written.extend(written);
        self.events.push(Event::Wrote { client, count });
        if !all {
            self.events.push(Event::Writable(client));
        }
    }

    /// The server knows the client no more; the client may still hear what was written.
    fn close(&mut self, client: ClientId) {
        let pipe = self.pipe(client);
        (pipe.finished, pipe.closed) = (true, true);
        if pipe.left {
            self.pipes.remove(&client);
        }
    }

    /// Something came from the client, or its end.
    fn notify(&mut self, client: ClientId) {
        let Pipe { closed, ended, .. } = *self.pipe(client);
        if !closed {
            if ended {
                self.events.push(Event::Ending(client));
            }
            self.events.push(Event::Readable(client));
        }
    }

    fn exit(&mut self) -> Result<(), Trouble> {
        let Server::Runs(broker) = &self.server else { return Ok(()) };
        let failure = broker.failure().cloned();
        self.kill();
        self.listening = false;
        for pipe in self.pipes.values_mut() {
            (pipe.finished, pipe.closed) = (true, true);
        }
        failure.map_or(Ok(()), |failure| Err(Trouble::new(format!("the server has died: {failure}"))))
    }

    /// Nothing is left of the server but what its log holds for certain.
    fn kill(&mut self) {
        let empty = Server::Stopped(Kept::new(self.storage));
        self.server = match std::mem::replace(&mut self.server, empty) {
            Server::Runs(broker) => Server::Stopped(broker.into_log().killed()),
            stopped @ Server::Stopped(_) => stopped,
        };
        self.events.clear();
    }

    /// The power goes out once more while the server starts: a server at rest has synced all, one that starts has not.
    fn cut_start_off(&mut self, disk: SimDisk) -> SimDisk {
        let until = disk.tried() + below(&mut self.random, START_OPERATIONS) as u64;
        disk.fail_from(until, Fault::Broken);
        // How far it came is all the same: the disk stands still when its power goes out.
        let _ = Broker::open(self.config.clone(), Kept::Disk(disk.clone()).open(self.storage), self.clock);
        disk
    }

    /// Turns until there is nothing to do now; says when there will be.
    fn rest(&mut self) -> Result<Sleep, Trouble> {
        for _ in 0..TURNS_MAX {
            let sleep = self.turn()?;
            if self.events.is_empty() && !matches!(sleep, Sleep::No | Sleep::Millis(0)) {
                return Ok(sleep);
            }
        }
        Err(Trouble::new(format!("the server is not at rest after {TURNS_MAX} turns")))
    }

    fn pass(&mut self, ms: u64) {
        self.clock.monotonic_ms += ms;
        self.clock.wall_ms += i64::try_from(ms).expect("a wait of less than the age of the universe");
    }

    fn named(&self, name: &str) -> Result<ClientId, Trouble> {
        self.names.get(name).copied().ok_or_else(|| Trouble::new(format!("{name} is not connected")))
    }

    fn pipe(&mut self, client: ClientId) -> &mut Pipe {
        self.pipes.get_mut(&client).unwrap_or_else(|| panic!("{client:?} is used after it was closed"))
    }
}

/// How many of these bytes the machine takes now.
fn room(cut: Cut, bytes: usize, random: &mut u64) -> usize {
    let single = cut.single_bytes();
    match cut {
        // Of a long output, the end only: byte by byte it takes long and shows nothing more.
        Cut::Bytes | Cut::Ends(_) if bytes > single => bytes - single,
        Cut::Bytes | Cut::Ends(_) => bytes.min(1),
        Cut::Random(_) => usize::try_from(splitmix(random)).unwrap_or(0) % (bytes + 1),
        Cut::Whole => bytes,
    }
}

impl World for SimWorld {
    fn open(&mut self, client: &str, listener: usize) -> Result<(), Trouble> {
        if !self.listening {
            return Err(Trouble::new("the server does not listen"));
        }
        self.last_client += 1;
        let id = ClientId(self.last_client);
        self.names.insert(client.to_owned(), id);
        self.pipes.insert(id, Pipe::default());
        self.events.push(Event::Accepted { client: id, listener });
        Ok(())
    }

    fn send(&mut self, client: &str, bytes: &[u8]) -> Result<(), Trouble> {
        let id = self.named(client)?;
        self.pipe(id).sent.push_back(bytes.to_vec());
        self.notify(id);
        self.turn().map(|_| ())
    }

    fn end(&mut self, client: &str) -> Result<(), Trouble> {
        let id = self.named(client)?;
        self.pipe(id).ended = true;
        self.notify(id);
        Ok(())
    }

    fn leave(&mut self, client: &str) -> Result<(), Trouble> {
        let id = self.named(client)?;
        self.names.remove(client);
        let pipe = self.pipe(id);
        (pipe.ended, pipe.left) = (true, true);
        self.notify(id);
        if self.pipe(id).closed {
            self.pipes.remove(&id);
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Trouble> {
        self.rest().map(|_| ())
    }

    fn hear(&mut self, client: &str, heard: &mut Vec<u8>, _bytes_min: usize) -> Result<(), Trouble> {
        let id = self.named(client)?;
        heard.append(&mut self.pipe(id).written);
        Ok(())
    }

    fn closed(&mut self, client: &str, _expected: bool) -> Result<bool, Trouble> {
        let id = self.named(client)?;
        Ok(self.pipe(id).finished)
    }

    fn wait(&mut self, mut ms: u64) -> Result<(), Trouble> {
        loop {
            let step = match self.rest()? {
                Sleep::Millis(due) => due.min(ms),
                Sleep::No | Sleep::Forever => ms,
            };
            self.pass(step);
            ms -= step;
            if ms == 0 {
                return self.settle();
            }
        }
    }

    fn step_clock(&mut self, by_ms: i64) -> Result<(), Trouble> {
        self.clock.wall_ms += by_ms;
        self.settle()
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.kill();
        self.names.clear();
        self.pipes.clear();
        let Server::Stopped(kept) = &self.server else { return Err(Trouble::new("the server was not killed")) };
        let broker = Broker::open(self.config.clone(), kept.open(self.storage), self.clock)
            .map_err(|error| Trouble::new(format!("the server does not start: {error}")))?;
        self.server = Server::Runs(Box::new(broker));
        self.listening = true;
        self.settle()
    }

    fn crash(&mut self) -> Result<(), Trouble> {
        self.kill();
        self.clock.boot += 1;
        // Beyond that of the boot before, for some clocks, and short of it, for others.
        self.clock.monotonic_ms = BOOT_MONOTONIC_MS * self.clock.boot;
        if let (Server::Stopped(kept), Storage::Disk { crash, .. }) = (&self.server, self.storage)
            && let Some(disk) = kept.disk()
        {
            let disk = self.cut_start_off(cut_off(disk, crash));
            self.server = Server::Stopped(Kept::Disk(cut_off(&disk, crash)));
        }
        self.restart()
    }

    fn fill_disk(&mut self, full: bool) -> Result<(), Trouble> {
        if let Server::Runs(broker) = &mut self.server {
            broker.log_mut().fill_up(full);
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Trouble> {
        self.events.push(Event::Drain);
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Trouble> {
        self.events.push(Event::Stop);
        loop {
            let sleep = self.rest()?;
            match (&self.server, sleep) {
                (Server::Stopped(_), _) => return Ok(()),
                (_, Sleep::Millis(due)) => self.pass(due),
                (_, Sleep::No | Sleep::Forever) => {
                    return Err(Trouble::new("the server was told to stop, and waits for something for ever"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transcript;
    use super::*;

    /// A world with alice connected to masenko.
    fn world(cut: Cut, lateness: u32) -> SimWorld {
        let transcript = Transcript::parse("transcripts/masenko/x.txt", "# Shows.\nalice> PING").unwrap();
        let mut world = SimWorld::new(&transcript.setup, cut, lateness);
        world.open("alice", 0).unwrap();
        world.settle().unwrap();
        world
    }

    fn heard(world: &mut SimWorld) -> String {
        let mut heard = Vec::new();
        world.hear("alice", &mut heard, 0).unwrap();
        String::from_utf8(heard).unwrap()
    }

    /// How many turns it takes until alice hears something.
    fn turns_until_heard(world: &mut SimWorld) -> u32 {
        (1..100)
            .find(|_| {
                world.turn().unwrap();
                !heard(world).is_empty()
            })
            .expect("alice hears something in the end")
    }

    const PUSH: &[u8] = b"PUSH {\"name\":\"n\"}\n";

    #[test]
    fn an_answer_is_as_late_as_the_log() {
        let mut turns = Vec::new();
        for lateness in [0, 1, 5] {
            let mut world = world(Cut::Whole, lateness);
            world.send("alice", PUSH).unwrap();
            turns.push(turns_until_heard(&mut world));
        }
        assert_eq!((turns[1] - turns[0], turns[2] - turns[0]), (1, 5));
    }

    #[test]
    fn a_restart_takes_what_was_not_durable_and_keeps_what_was() {
        for (settled, ready) in [(false, ""), (true, r#"{"name":"default","ready":1,"delayed":0,"to_ack":0}"#)] {
            let mut world = world(Cut::Whole, 5);
            world.send("alice", PUSH).unwrap();
            world.turn().unwrap();
            if settled {
                world.settle().unwrap();
            }
            world.restart().unwrap();
            assert!(world.send("alice", PUSH).is_err(), "alice was cut off");
            world.open("alice", 0).unwrap();
            world.send("alice", b"INFO\n").unwrap();
            world.settle().unwrap();
            let info = heard(&mut world);
            assert!(info.starts_with(&format!(r#"OK {{"queues":[{ready}]"#)), "{info}");
        }
    }

    #[test]
    fn byte_by_byte_no_turn_writes_more_than_one() {
        let mut world = world(Cut::Bytes, 0);
        world.send("alice", b"PING\n").unwrap();
        let mut all = String::new();
        for _ in 0..20 {
            world.turn().unwrap();
            let heard = heard(&mut world);
            assert!(heard.len() <= 1, "{heard}");
            all.push_str(&heard);
        }
        assert_eq!(all, "PONG {}\n");
    }

    #[test]
    fn pieces_are_read_as_they_were_sent() {
        let mut world = world(Cut::Whole, 0);
        let id = world.named("alice").unwrap();
        world.pipe(id).sent.extend([b"PI".to_vec(), b"NG\n".to_vec()]);
        world.read(id, 1);
        world.read(id, 100);
        world.read(id, 100);
        world.read(id, 100);
        let received = world.events.iter().map(|event| match event {
            Event::Received { bytes, more, .. } => (&bytes[..], *more),
            other => panic!("{other:?}"),
        });
        let expected: [(&[u8], bool); 4] = [(b"P", true), (b"I", true), (b"NG\n", false), (b"", false)];
        assert_eq!(received.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_server_that_stopped_takes_no_clients_and_can_be_started_again() {
        let mut world = world(Cut::Whole, 1);
        world.stop().unwrap();
        assert_eq!(world.closed("alice", true), Ok(true));
        assert!(world.open("bob", 0).is_err());
        world.restart().unwrap();
        world.open("bob", 0).unwrap();
    }
}
