//! The simulated world as these tests use it: nothing is cut up, nor late unless asked for, all that the log is given is noted,
//! and what was done to the disk is kept, life by life.

use std::cell::{Cell, Ref, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use jobyard_broker::{Config, Event, Listening};
use jobyard_engine::{ClientId, Limits};
use jobyard_log::{Options, SyncMode};
use jobyard_protocols::{Options as ListenerOptions, find};
use jobyard_sim::disk::{Crash, History, SimDisk};
use jobyard_sim::world::{self, Lateness, Manners, Notes, Parting, Setup};

pub const SALT: u64 = 0x5eed_0fa1_2b3c_4d5e;

/// What listens, in this order; the last is the one port for all.
pub const LISTENERS: [(&str, &str); 7] = [
    ("goqueue", ""),
    ("takeanumber", ""),
    ("masenko", "heartbeat=2h"),
    ("jobcentre", ""),
    ("workq", ""),
    ("beanstalkd", ""),
    ("any", "heartbeat=2h"),
];

fn config() -> Config {
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
        ..Config::default()
    }
}

/// How the logs of these tests are kept.
pub fn options(segment_bytes: u64, sync: SyncMode) -> Options {
    Options { segment_bytes, sync, ..Options::new(SALT) }
}

/// A number for one start: each has its own.
fn salt() -> u64 {
    thread_local!(static STARTS: Cell<u64> = const { Cell::new(0) });
    STARTS.set(STARTS.get() + 1);
    SALT ^ STARTS.get() << 8
}

/// These options for one start.
pub fn for_one_start(options: &Options) -> Options {
    Options { salt_for_new: salt(), ..options.clone() }
}

/// One life of a server: from its start to its end, clean or not.
#[derive(Clone, Debug)]
pub struct Life {
    pub history: History,
    pub notes: Notes,
}

/// A server and its connections.
pub struct World {
    world: world::World,
    /// The lives that have ended.
    pub lives: Vec<Life>,
    /// Why it did not start, if it did not.
    refused: Option<String>,
    notes: Rc<RefCell<Notes>>,
}

impl Deref for World {
    type Target = world::World;

    fn deref(&self) -> &world::World {
        &self.world
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut world::World {
        &mut self.world
    }
}

impl World {
    pub fn new(disk: SimDisk, options: Options) -> Self {
        World::late(disk, options, Lateness::None)
    }

    /// Its log is so late.
    pub fn late(disk: SimDisk, options: Options, lateness: Lateness) -> Self {
        let setup = Setup { config: config(), log: options, lateness };
        let mut world =
            World { world: world::World::new(setup, 1), lives: Vec::new(), refused: None, notes: Rc::default() };
        world.disk = disk;
        world.world.notes = Some(Rc::clone(&world.notes));
        world
    }

    /// How its log is kept.
    pub fn options(&self) -> &Options {
        &self.setup().log
    }

    /// What its log was given, and what it said.
    pub fn notes(&self) -> Ref<'_, Notes> {
        self.notes.borrow()
    }

    /// Starts the server on what the disk holds.
    pub fn start(&mut self) -> Result<(), String> {
        self.start_with(self.options().segment_bytes)
    }

    /// Starts the server on what the disk holds, with segments of this length.
    pub fn start_with(&mut self, segment_bytes: u64) -> Result<(), String> {
        let before = self.options().segment_bytes;
        self.set_segment_bytes(segment_bytes, salt());
        self.refused = self.world.start().err();
        self.settle();
        let ended = self.why_ended().map(str::to_owned);
        if let Some(why) = ended {
            self.set_segment_bytes(before, salt());
            return Err(why);
        }
        Ok(())
    }

    /// Why the server ended by itself, or did not start.
    pub fn why_ended(&self) -> Option<&str> {
        self.refused.as_deref().or(self.failure())
    }

    /// The moment, as the ledger counts.
    pub fn when(&self) -> (usize, usize) {
        (self.lives.len(), self.disk.operations())
    }

    pub fn connect(&mut self, listener: usize) -> ClientId {
        self.world.connect(listener, Manners::PLAIN)
    }

    pub fn leave(&mut self, client: ClientId) {
        self.part(client, Parting::Reset);
    }

    /// All that this client has heard since it was last asked.
    pub fn hear(&mut self, client: ClientId) -> Vec<u8> {
        self.world.hear(client).into_iter().flat_map(|chunk| chunk.bytes).collect()
    }

    /// Turns until there is nothing to do; says for how long.
    pub fn settle(&mut self) -> Option<u64> {
        self.rest().unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    /// Time passes; what falls due is done at its time.
    pub fn pass(&mut self, ms: u64) {
        self.world.pass(ms).unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    /// The server is told to stop, and does.
    pub fn stop(&mut self) {
        self.signal(Event::Stop);
        while let (true, Some(ms)) = (self.is_running(), self.settle()) {
            self.leap(ms);
        }
        assert!(!self.is_running(), "the server was told to stop");
        assert_eq!(self.failure(), None);
    }

    /// The server ends as it stands, and what the crash leaves is the next one's disk, all of it durable.
    pub fn end(&mut self, crash: Crash) {
        let (history, notes) = (self.disk.history(), self.notes().clone());
        *self.notes.borrow_mut() = notes.of_next_life();
        self.lives.push(Life { history, notes });
        self.crash(crash);
        self.disk = SimDisk::from_image(&self.disk.crash(Crash::Kill));
    }
}
