//! One schedule: from one seed a server, its clients, all that they ask and all that goes wrong; and whether the server kept
//! its promises.

mod audit;
mod becoming;
mod by_number;
mod exam;
mod expected;
mod farewell;
mod faults;
mod figures;
mod hearing;
mod origins;
mod pauses;
mod people;
mod person;
mod rest;
mod shown;
mod small_talk;
mod stops;
mod texts;
mod tubes;
mod wants;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use jobyard_broker::{Config, Listening};
use jobyard_engine::{ClientId, Limits};
use jobyard_log::{Options, SyncMode};
use jobyard_protocols::{ANY, Dialect, Options as ListenerOptions, PROTOCOLS, find};

use crate::clients::{SPEAKERS, TAKEANUMBER_LEASE_MS};
use crate::ledger::{Ledger, When};
use crate::random::{below, coin, splitmix};
use crate::world::{Lateness, Setup, Troubles, World, Wrong};
use expected::{ANSWERS, CHECKS, FAREWELLS, SELDOM, nonsense_answers, record_kinds};
use farewell::Sent;
pub use faults::FAULTS;
use faults::Faults;
use figures::Figures;
use origins::Origins;
use person::Person;
use texts::{Texts, texts_demanded};

/// How often what has happened, by name: commands, answers, faults, records.
pub type Tally = BTreeMap<String, u64>;

/// What came of a schedule.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What has happened, how often.
    pub tally: Tally,
    /// The same whenever all that was sent, heard and written was the same.
    pub digest: u64,
    /// What was wrong, if anything.
    pub wrong: Option<Wrong>,
    /// All that has happened, line by line, if that was wanted.
    pub trace: Vec<String>,
}

/// What is wrong when the server, or what checks it, gave up by itself.
pub const PANICKED: &str = "something panicked, and has said why";

/// Runs the schedule of this seed.
#[must_use]
pub fn run(seed: u64, traced: bool) -> Outcome {
    let mut schedule = Schedule::new(seed);
    schedule.world.trace = traced.then(Vec::new);
    let wrong = match catch_unwind(AssertUnwindSafe(|| schedule.run())) {
        Ok(ran) => ran.err(),
        Err(_) => Some(PANICKED.to_owned()),
    };
    for (record, count) in schedule.world.seen().counts() {
        schedule.count(&format!("record {record}"), count);
    }
    for (change, count) in schedule.world.changes().map(becoming::counts).unwrap_or_default() {
        schedule.count(&change, count);
    }
    for (fate, count) in schedule.ledger.summary() {
        schedule.count(&format!("jobs {fate}"), count);
    }
    for (rule, count) in std::mem::take(&mut schedule.ledger.checked) {
        schedule.count(rule, count);
    }
    let Troubles { cut, late, taken_in_part } = schedule.world.troubles();
    schedule.count("fault bytes arrive in pieces", cut);
    schedule.count("fault bytes arrive late", late);
    schedule.count("fault answer taken in part", taken_in_part);
    let trace = schedule.world.trace.take().unwrap_or_default();
    Outcome { tally: schedule.tally, digest: schedule.world.digest(), wrong, trace }
}

/// What should have happened in so many schedules, and never did: commands, answers, refusals, faults, records.
#[must_use]
pub fn never_happened(tally: &Tally, schedules: u64) -> Vec<String> {
    let commands = SPEAKERS.iter().flat_map(|speaker| speaker.commands);
    let seldom = if schedules >= SELDOM_SCHEDULES { SELDOM } else { &[] };
    let expected = commands
        .chain(FAULTS)
        .chain(ANSWERS)
        .chain(FAREWELLS)
        .chain(CHECKS)
        .chain(seldom)
        .map(|what| (*what).to_owned());
    let expected = expected.chain(record_kinds()).chain(nonsense_answers()).chain(texts_demanded());
    let expected = expected.chain(becoming::demanded(schedules >= SELDOM_SCHEDULES));
    expected.filter(|what| tally.get(what).is_none_or(|times| *times == 0)).collect()
}

/// A schedule that is being run.
pub(crate) struct Schedule {
    world: World,
    ledger: Ledger,
    people: Vec<Person>,
    /// All that was sent.
    sent: Vec<Sent>,
    /// Those of this life who came when there was no room, and may still be there.
    turned_away: BTreeSet<ClientId>,
    faults: Faults,
    tally: Tally,
    random: u64,
    queues: usize,
    /// Whether any of them is ever paused.
    pauses: bool,
    /// What listeners are told, if they know what it means.
    told: ListenerOptions,
    /// How long bodies are, at most.
    pad_max: usize,
    steps: usize,
    /// Whether the server takes no more jobs.
    draining: bool,
    /// Whether it is about to stop.
    stopping: bool,
    /// When the wall clock was set, and how often the server had come to rest by then, if the log may not tell so yet.
    clock_untold: Option<(u64, u64)>,
    /// When someone was last told something.
    told_ms: u64,
    /// When the server last stood still.
    stalled_until_ms: u64,
    /// When the disk last refused something.
    room_wanted_ms: Option<u64>,
    /// Where jobs of beanstalkd's clients were before.
    origins: Origins,
    /// What its server counts for beanstalkd's clients.
    figures: Figures,
    /// What protocols can say and nobody has heard yet.
    texts: Texts,
}

/// In so many schedules even that happens which is seldom.
const SELDOM_SCHEDULES: u64 = 100_000;

/// The queues that there can be.
const QUEUES: [&str; 4] = ["a", "b", "c", "d"];

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut random = seed;
        let random = &mut random;
        // Each schedule leaves out much, so that what it does it does often.
        let lateness = match below(random, 4) {
            0 => [Lateness::Polls, Lateness::Sleeps].map(|late| [1, 2, 3].map(late)).as_flattened()[below(random, 6)],
            _ => Lateness::None,
        };
        let sync = match below(random, 6) {
            0 => SyncMode::Interval(50 + below(random, 400) as u64),
            1 => SyncMode::Never,
            _ => SyncMode::Always,
        };
        let faults = Faults::draw(random, sync);
        let limits = limits(random);
        // A disk that fills up is to be full to the last of its reserve.
        let segment_bytes = match below(random, 4) {
            0 if faults.full => 8 << 10,
            _ if faults.full => 6 << 10,
            kind => [16 << 10, 24 << 10, 64 << 10, 1 << 20][kind],
        };
        // Where memory is counted, so is that of a batch.
        let segment_bytes =
            if limits.memory_bytes_max < usize::MAX { segment_bytes.min(16 << 10) } else { segment_bytes };
        let log = Options { segment_bytes, sync, ..Options::new(splitmix(random) | 1) };
        let told = ListenerOptions {
            dialect: if below(random, 4) == 0 { Dialect::Original } else { Dialect::Document },
            heartbeat_ms: if below(random, 3) == 0 { 8_000 } else { 7_200_000 },
            lease_ms: (below(random, 3) == 0).then_some(TAKEANUMBER_LEASE_MS),
        };
        let config = Config { limits, ..config(splitmix(random), &told) };
        let setup = Setup { config, log, lateness };
        let (queues, pad_max) = (1 + below(random, QUEUES.len()), [10, 100, 1_500][below(random, 3)]);
        // No larger than what fits into a segment with what else a turn decides.
        let pad_max = if segment_bytes == 6 << 10 { pad_max.min(400) } else { pad_max };
        let steps = 60 + below(random, if faults.full { 640 } else { 240 });
        let pauses = coin(random);
        let world = World::new(setup, splitmix(random));
        world.disk.set_prepare_polls(u32::try_from(below(random, 4)).unwrap_or(0));
        Schedule {
            world,
            ledger: Ledger::default(),
            people: Vec::new(),
            sent: Vec::new(),
            turned_away: BTreeSet::new(),
            faults,
            tally: Tally::new(),
            random: *random,
            queues,
            pauses,
            told,
            pad_max,
            steps,
            draining: false,
            stopping: false,
            clock_untold: None,
            told_ms: 0,
            stalled_until_ms: 0,
            room_wanted_ms: None,
            origins: Origins::new(),
            figures: Figures::default(),
            texts: Texts::new(),
        }
    }

    fn run(&mut self) -> Result<(), Wrong> {
        self.world.start()?;
        self.world.rest()?;
        for _ in 0..3 + self.below(6) {
            self.invite();
        }
        for _ in 0..self.steps {
            self.step()?;
        }
        self.audit()
    }

    fn below(&mut self, end: usize) -> usize {
        below(&mut self.random, end)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn coin(&mut self) -> bool {
        coin(&mut self.random)
    }

    fn count(&mut self, what: &str, count: u64) {
        if count == 1 && what.starts_with("fault") {
            self.world.say(|_| what.to_owned());
        }
        *self.tally.entry(what.to_owned()).or_default() += count;
    }

    fn now(&self) -> When {
        When { turn: self.world.turns(), at_ms: self.world.elapsed_ms() }
    }

    /// Something happens.
    fn step(&mut self) -> Result<(), Wrong> {
        match self.below(10) {
            0..6 => self.someone_asks(),
            6 => {
                let turns = 1 + self.below(4);
                for _ in 0..turns {
                    self.world.turn();
                }
            }
            7 => self.time_passes(0)?,
            8 => {
                let ms = match self.below(5) {
                    0 => 1_000 + self.below(9_000),
                    1 => 100 + self.below(900),
                    _ => self.below(100),
                };
                self.time_passes(ms as u64)?;
            }
            _ => self.something_goes_wrong()?,
        }
        self.all_hear()?;
        self.mourn()
    }

    fn time_passes(&mut self, ms: u64) -> Result<(), Wrong> {
        self.world.pass(ms)?;
        self.all_hear()?;
        // The log tells of it, if there is room to.
        let is_told = |&(_, rests): &(u64, u64)| self.world.rests() > rests && self.world.is_running();
        let untold = self.clock_untold.filter(|set| self.faults.full || !is_told(set));
        if self.clock_untold.is_some() && untold.is_none() {
            // Like all that is told, that is not synced at once.
            self.told_ms = self.world.elapsed_ms();
        }
        self.clock_untold = untold;
        self.check_at_rest()
    }
}

/// A server that sleeps looks at the clock once in so long, if anything is to fall due.
const CLOCK_SEEN_MS: u64 = 600_000;

/// What is listened to: every protocol with jobs, and the one port for all last.
fn config(seed: u64, told: &ListenerOptions) -> Config {
    let names = PROTOCOLS.iter().map(|protocol| protocol.name).chain([ANY]);
    let listening = |name: &str| {
        let listener = find(name).expect("it is in the table");
        let knows = listener.options();
        let dialect = if told.dialect == Dialect::Original { "original" } else { "document" };
        let mut query = vec![format!("dialect={dialect}"), format!("heartbeat={}ms", told.heartbeat_ms)];
        query.extend(told.lease_ms.map(|lease_ms| format!("lease={lease_ms}ms")));
        query.retain(|option| knows.iter().any(|name| option.split('=').next() == Some(name)));
        let options = ListenerOptions::parse(&query.join("&"), &knows).expect("it knows its options");
        Listening { listener, options }
    };
    Config {
        limits: Limits::default(),
        listeners: names.map(listening).collect(),
        seed,
        drain_timeout_ms: stops::DRAIN_MS,
        ..Config::default()
    }
}

/// Often as ever; else a turn is short and little output may wait, there is memory for some hundred jobs only, there are few
/// queues, nobody may hold many jobs, few clients may come, or little
/// may be left unfinished.
fn limits(random: &mut u64) -> Limits {
    let mut limits = Limits::default();
    if below(random, 3) == 0 {
        limits.turn_bytes_max = 16 + below(random, 100);
        limits.turn_commands_max = 1 + below(random, 3);
        limits.output_bytes_max = below(random, 200);
    }
    if below(random, 6) == 0 {
        limits.memory_bytes_max = (40 + below(random, 60)) << 10;
    }
    if below(random, 12) == 0 {
        limits.queues_max = 1 + below(random, QUEUES.len() - 1);
    }
    if below(random, 8) == 0 {
        limits.held_max = 1 + below(random, 3);
    }
    if below(random, 12) == 0 {
        limits.clients_max = 2 + below(random, 4);
    }
    if below(random, 10) == 0 {
        limits.input_bytes_max = 1_000 + below(random, 4_000);
    }
    limits
}

/// The listener of a protocol, by its place.
fn listener_of(protocol: &str) -> usize {
    let place = PROTOCOLS.iter().position(|row| row.name == protocol);
    place.expect("every speaker's protocol is in the table")
}
