//! A server on a simulated disk and its connections: no more than a broker needs to be driven.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use jobyard_broker::{Action, Broker, Clock, Config, Event, Listening, Sleep};
use jobyard_engine::{ClientId, Limits};
use jobyard_log::{FileLog, Options, SyncMode};
use jobyard_protocols::{Options as ListenerOptions, find};
use jobyard_sim::disk::{Crash, SimDisk};

use crate::record::{Life, Notes, Recorder};

/// 2026-01-01T00:00:00Z.
pub const START_WALL_MS: i64 = 1_767_225_600_000;
pub const SALT: u64 = 0x5eed_0fa1_2b3c_4d5e;
const TURNS_MAX: usize = 100_000;

/// What listens, in this order; the last is the one port for all.
pub const LISTENERS: [(&str, &str); 6] = [
    ("goqueue", ""),
    ("takeanumber", ""),
    ("masenko", "heartbeat=2h"),
    ("jobcentre", ""),
    ("workq", ""),
    ("any", "heartbeat=2h"),
];

pub fn config() -> Config {
    let listening = |(name, query): (&str, &str)| {
        let listener = find(name).expect("it is in the table");
        let options = ListenerOptions::parse(query, &listener.options()).expect("it knows its options");
        Listening { listener, options }
    };
    Config {
        limits: Limits::default(),
        listeners: LISTENERS.map(listening).into(),
        seed: 5627,
        drain_timeout_ms: 5_000,
    }
}

/// How the logs of these tests are kept.
pub fn options(segment_bytes: u64, sync: SyncMode) -> Options {
    Options { segment_bytes, sync, ..Options::new(SALT) }
}

/// These options for one start: each has a number of its own.
pub fn for_one_start(options: &Options) -> Options {
    thread_local!(static STARTS: Cell<u64> = const { Cell::new(0) });
    STARTS.set(STARTS.get() + 1);
    Options { salt_for_new: SALT ^ STARTS.get() << 8, ..options.clone() }
}

/// A server and its connections.
pub struct World {
    pub clock: Clock,
    pub disk: SimDisk,
    pub options: Options,
    pub notes: Rc<RefCell<Notes>>,
    /// The lives that have ended.
    pub lives: Vec<Life>,
    broker: Option<Box<Broker<Recorder>>>,
    events: Vec<Event>,
    pipes: BTreeMap<ClientId, Pipe>,
    last_client: u64,
    /// Why the server ended, if it did.
    pub failure: Option<String>,
}

#[derive(Default)]
struct Pipe {
    sent: VecDeque<Vec<u8>>,
    left: bool,
    heard: Vec<u8>,
    closed: bool,
}

impl World {
    pub fn new(disk: SimDisk, options: Options) -> Self {
        let clock = Clock { monotonic_ms: 1_000, boot: 1, wall_ms: START_WALL_MS };
        World {
            clock,
            disk,
            options,
            notes: Rc::default(),
            lives: Vec::new(),
            broker: None,
            events: Vec::new(),
            pipes: BTreeMap::new(),
            last_client: 0,
            failure: None,
        }
    }

    /// Starts the server on what the disk holds.
    pub fn start(&mut self) -> Result<(), String> {
        let log = FileLog::open(self.disk.clone(), for_one_start(&self.options));
        let recorder = Recorder::new(log, self.options.sync, Rc::clone(&self.notes));
        let broker = Broker::open(config(), recorder, self.clock).map_err(|error| error.to_string())?;
        self.broker = Some(Box::new(broker));
        self.failure = None;
        self.settle();
        Ok(())
    }

    /// The moment, as the ledger counts.
    pub fn when(&self) -> (usize, usize) {
        (self.lives.len(), self.disk.operations())
    }

    pub fn is_running(&self) -> bool {
        self.broker.is_some()
    }

    /// Why its server could find no more room.
    pub fn shortage(&self) -> Option<String> {
        self.broker.as_ref()?.shortage()
    }

    pub fn connect(&mut self, listener: usize) -> ClientId {
        self.last_client += 1;
        let client = ClientId(self.last_client);
        self.pipes.insert(client, Pipe::default());
        self.events.push(Event::Accepted { client, listener });
        client
    }

    pub fn send(&mut self, client: ClientId, bytes: Vec<u8>) {
        if let Some(pipe) = self.pipes.get_mut(&client).filter(|pipe| !pipe.closed) {
            pipe.sent.push_back(bytes);
            self.events.push(Event::Readable(client));
        }
    }

    pub fn leave(&mut self, client: ClientId) {
        if let Some(pipe) = self.pipes.get_mut(&client).filter(|pipe| !pipe.closed) {
            pipe.left = true;
            self.events.push(Event::Gone(client));
        }
    }

    /// All that this client has heard since it was last asked.
    pub fn hear(&mut self, client: ClientId) -> Vec<u8> {
        self.pipes.get_mut(&client).map(|pipe| std::mem::take(&mut pipe.heard)).unwrap_or_default()
    }

    pub fn is_closed(&self, client: ClientId) -> bool {
        self.pipes.get(&client).is_none_or(|pipe| pipe.closed)
    }

    /// Turns until there is nothing to do; says for how long.
    pub fn settle(&mut self) -> Option<u64> {
        for _ in 0..TURNS_MAX {
            match self.turn() {
                None | Some(Sleep::Forever) if self.events.is_empty() => return None,
                Some(Sleep::Millis(ms)) if ms > 0 && self.events.is_empty() => return Some(ms),
                _ => {}
            }
        }
        panic!("the server is not at rest after {TURNS_MAX} turns");
    }

    fn turn(&mut self) -> Option<Sleep> {
        let Some(broker) = &mut self.broker else {
            self.events.clear();
            return None;
        };
        let mut actions = Vec::new();
        let sleep = broker.turn(self.clock, &mut self.events, &mut actions);
        for action in actions {
            self.carry_out(action);
        }
        Some(sleep)
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Read { client, at_most } => self.read(client, at_most),
            Action::Write(client) => self.write(client),
            Action::Finish(_) | Action::CloseListeners => {}
            Action::Close(client) => self.close(client),
            Action::Exit => self.exit(),
        }
    }

    fn read(&mut self, client: ClientId, at_most: usize) {
        let Some(pipe) = self.pipes.get_mut(&client) else { return };
        let mut bytes = pipe.sent.pop_front().unwrap_or_default();
        if bytes.len() > at_most {
            pipe.sent.push_front(bytes.split_off(at_most));
        }
        self.events.push(Event::Received { client, bytes, more: !pipe.sent.is_empty() });
    }

    fn write(&mut self, client: ClientId) {
        let (Some(broker), Some(pipe)) = (&self.broker, self.pipes.get_mut(&client)) else { return };
        if pipe.left {
            self.events.push(Event::Gone(client));
            return;
        }
        let output = broker.output(client);
        pipe.heard.extend_from_slice(output);
        self.events.push(Event::Wrote { client, count: output.len() });
    }

    fn close(&mut self, client: ClientId) {
        if let Some(pipe) = self.pipes.get_mut(&client) {
            pipe.closed = true;
        }
    }

    fn exit(&mut self) {
        self.failure = self.broker.as_ref().and_then(|broker| broker.failure().map(ToString::to_string));
        self.broker = None;
        self.pipes.values_mut().for_each(|pipe| pipe.closed = true);
    }

    /// Time passes; what falls due is done at its time.
    pub fn pass(&mut self, mut ms: u64) {
        loop {
            let step = self.settle().unwrap_or(ms).min(ms);
            self.clock.monotonic_ms += step;
            self.clock.wall_ms += i64::try_from(step).expect("a short while");
            ms -= step;
            if ms == 0 {
                self.settle();
                return;
            }
        }
    }

    /// The server is told to stop, and does.
    pub fn stop(&mut self) {
        self.events.push(Event::Stop);
        while let (true, Some(ms)) = (self.is_running(), self.settle()) {
            self.clock.monotonic_ms += ms;
        }
        assert!(!self.is_running(), "the server was told to stop");
        assert_eq!(self.failure, None);
    }

    /// The server ends as it stands, and what the crash leaves is the next one's disk.
    pub fn end(&mut self, crash: Crash) {
        self.broker = None;
        self.events.clear();
        self.pipes.clear();
        self.lives.push(Life { history: self.disk.history(), notes: self.notes.borrow().clone() });
        self.disk = SimDisk::from_image(&self.disk.crash(crash));
        let batches = std::mem::take(&mut self.notes.borrow_mut().batches);
        *self.notes.borrow_mut() = Notes { batches, ..Notes::default() };
        if crash != Crash::Kill {
            self.clock.boot += 1;
            self.clock.monotonic_ms = 500;
        }
    }
}
