//! The broker: engine, sessions and log as one value, which owns the turn.
//!
//! Absent here: sockets, clocks, threads. What happens comes in as [`Event`]s, what is to be done goes out as [`Action`]s.

mod client;
mod clients;
mod clock;
mod commit;
mod deadlines;
mod drain;
mod ending;
mod event;
mod output;
mod pace;
mod recovery;
mod room;
mod session;
mod stretches;
mod timers;
mod turn;

#[cfg(test)]
mod tests;

use std::fmt;

use jobyard_engine::{Answers, Change, ClientId, Engine, JobNumber, LeaseId, Limits, Now, Reply};
use jobyard_log::{Log, LogError, Moment, Position};
use jobyard_protocols::{Codec, Context, Health, Host, Listener, LogView, Options, Tallies};

use crate::client::{Client, Link};
use crate::clients::Clients;
use crate::clock::EngineClock;
use crate::commit::Commit;
use crate::deadlines::Looks;
use crate::drain::Stop;
use crate::pace::Company;
use crate::recovery::Recovery;
use crate::stretches::Stretches;

pub use crate::commit::Failure;
pub use crate::event::{Action, Clock, Event, SLOT_BITS, Sleep, slot};
pub use crate::recovery::{Progress, Replay};

/// How a broker is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the server accepts at most.
    pub limits: Limits,
    /// Where clients come in. Events name them by their index.
    pub listeners: Vec<Listening>,
    /// Where randomness begins.
    pub seed: u64,
    /// For how long output is written after [`Event::Stop`].
    pub drain_timeout_ms: u64,
    /// Where the server runs, for those who ask.
    pub host: Host,
}

/// One listener: what it speaks, and how.
#[derive(Clone, Debug)]
pub struct Listening {
    /// What it speaks.
    pub listener: Listener,
    /// How.
    pub options: Options,
}

impl Default for Config {
    fn default() -> Self {
        let host = Host::default();
        Config { limits: Limits::default(), listeners: Vec::new(), seed: 0, drain_timeout_ms: 5_000, host }
    }
}

/// Why a broker cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The log cannot be used.
    Log(LogError),
    /// A batch is whole, but its records make no sense.
    Records {
        /// The batch.
        position: Position,
    },
    /// What it counts has come further than anyone can count.
    Counted,
    /// The log ended before its end.
    Short {
        /// The last batch that it said it has.
        expected: Position,
        /// The last one that it gave.
        found: Position,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Log(error) => error.fmt(f),
            OpenError::Records { position } => {
                write!(f, "batch {position} of the log holds records that make no sense")
            }
            OpenError::Counted => f.write_str("the log says that more was counted than anyone can count"),
            OpenError::Short { expected, found } => {
                write!(f, "the log ends with batch {found}, and should end with batch {expected}")
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// Makes the codec of a new connection.
type Door = Box<dyn Fn(Now) -> Box<dyn Codec> + Send>;

/// The whole server but its cables.
pub struct Broker<L> {
    limits: Limits,
    drain_timeout_ms: u64,
    host: Host,
    tallies: Tallies,
    doors: Vec<Door>,
    /// Which listeners may be asked for the server's health.
    probed: Vec<bool>,
    seed: u64,
    engine: Engine,
    commit: Commit<L>,
    stretches: Stretches,
    /// The log is being read back.
    recovery: Option<Recovery>,
    /// What clients sent before the server was ready has been looked at.
    started: bool,
    /// What the log had to tell when it was claimed.
    notices: Vec<String>,
    /// When the log has something to do.
    tend_ms: Option<u64>,
    clients: Clients,
    clock: EngineClock,
    /// What the machine's clocks said in this turn.
    machine: Clock,
    /// What time it is in this turn.
    now: Now,
    looks: Looks,
    /// How much this turn has done, in the engine's units of work.
    turn_work: u64,
    started_wall_ms: i64,
    /// What recovery decided. Nobody's commands are carried out before it is durable.
    recovered: Position,
    draining: bool,
    stop: Stop,
    /// Clients that were answered by the call into the engine that is under way.
    answered: Vec<ClientId>,
    /// What this turn wants done.
    actions: Vec<Action>,
    /// When output that is held back may leave.
    held_back_until_ms: Option<u64>,
    /// When the first of those who rest may go on.
    rest_until_ms: Option<u64>,
    company: Company,
}

impl<L: Log> Broker<L> {
    /// Claims the log, rebuilds the engine from it, and submits what recovery decided.
    ///
    /// # Errors
    /// If the log cannot be read or trusted.
    pub fn open(config: Config, log: L, clock: Clock) -> Result<Self, OpenError> {
        Self::begin(config, log, clock)?.opened()
    }

    /// Claims the log; turns rebuild the engine from it. Until that is done clients are taken in, and nobody but those
    /// who ask for the server's health is answered.
    ///
    /// # Errors
    /// If the log cannot be claimed. That it cannot be read comes later, as a [`Failure`].
    pub fn begin(config: Config, log: L, clock: Clock) -> Result<Self, OpenError> {
        let doors = config.listeners.iter().cloned().map(|Listening { listener, options }| {
            let door: Door = Box::new(move |now| listener.open(&options, now));
            door
        });
        let doors = doors.collect();
        Self::begin_with(config, doors, log, clock)
    }

    /// Rebuilds the engine at once.
    fn opened(mut self) -> Result<Self, OpenError> {
        while self.recovery.is_some() {
            self.recover(usize::MAX);
        }
        match self.commit.failure() {
            Some(Failure::Open(error)) => Err(error.clone()),
            _ => Ok(self),
        }
    }

    fn begin_with(config: Config, doors: Vec<Door>, mut log: L, clock: Clock) -> Result<Self, OpenError> {
        let claim = log.claim(0).map_err(OpenError::Log)?;
        // Engine time is known when the log's last batch is. Until then it counts from zero.
        let mut time = EngineClock::new(None, clock, config.seed);
        let now = time.now(clock);
        Ok(Broker {
            doors,
            probed: config.listeners.iter().map(|listening| listening.listener.answers_health()).collect(),
            seed: config.seed,
            engine: Engine::new(config.limits.clone(), claim.epoch, config.seed),
            limits: config.limits,
            drain_timeout_ms: config.drain_timeout_ms,
            host: config.host,
            tallies: Tallies::default(),
            commit: Commit::new(log, claim.epoch, claim.tail),
            stretches: Stretches::default(),
            recovery: Some(Recovery::new(&claim, clock)),
            started: false,
            recovered: claim.tail,
            notices: claim.notices,
            tend_ms: None,
            clients: Clients::default(),
            clock: time,
            machine: clock,
            now,
            looks: Looks::new(now.engine_ms),
            turn_work: 0,
            started_wall_ms: clock.wall_ms,
            draining: false,
            stop: Stop::No,
            answered: Vec::new(),
            actions: Vec::new(),
            held_back_until_ms: None,
            rest_until_ms: None,
            company: Company::default(),
        })
    }

    /// What the log had to tell when it was claimed, in words.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// What may be written to this client now.
    #[must_use]
    pub fn output(&self, client: ClientId) -> &[u8] {
        self.clients.get(client).map_or(&[], |client| client.offered())
    }

    /// Why [`Action::Exit`] came, if it was not asked for.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.commit.failure()
    }

    /// Whether [`Action::Exit`] came.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop == Stop::Over
    }

    /// How many clients are connected.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// How many jobs there are.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.engine.jobs()
    }

    /// The memory that jobs, sessions and buffers take, as it is counted for [`Limits::memory_bytes_max`].
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.engine.memory_bytes().saturating_add(self.clients.counted.memory_bytes)
    }

    /// What this client has sent and was not carried out yet, in bytes.
    #[must_use]
    pub fn unfinished_bytes(&self, client: ClientId) -> usize {
        self.clients.get(client).map_or(0, Client::unfinished_bytes)
    }

    /// Whether the server is ready to work.
    #[must_use]
    pub fn health(&self) -> Health {
        if self.starting() {
            Health::Starting
        } else if self.draining || self.stop != Stop::No {
            Health::Draining
        } else {
            Health::Ready
        }
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &L {
        &self.commit.log
    }

    /// The log, to be tampered with.
    pub fn log_mut(&mut self) -> &mut L {
        &mut self.commit.log
    }

    /// From now on it is noted what becomes of jobs, for [`Broker::take_changes`].
    pub fn note_changes(&mut self) {
        self.engine.note_changes();
    }

    /// What became of jobs since this was last asked, and in which calls.
    pub fn take_changes(&mut self) -> Vec<(&'static str, Change)> {
        self.engine.take_changes()
    }

    /// The log, of which the broker lets go as it is.
    #[must_use]
    pub fn into_log(self) -> L {
        self.commit.log
    }

    /// Calls the engine. Its replies are written to their clients' outputs, which then depend on what it decided.
    fn call(&mut self, now: Now, work: impl FnOnce(&mut Engine, Now, &mut Answers<'_>)) {
        self.call_holding_back(now, None, work);
    }

    /// Calls the engine. The reply to this client, if there is one, may not leave before that engine time.
    fn call_holding_back(
        &mut self,
        now: Now,
        held_back: Option<(ClientId, u64)>,
        work: impl FnOnce(&mut Engine, Now, &mut Answers<'_>),
    ) {
        let now = Now { random: self.clock.roll(), ..now };
        let context = self.scene(now);
        let context = context.context(&self.limits, &self.tallies, &self.host);
        let (clients, answered) = (&mut self.clients, &mut self.answered);
        work(&mut self.engine, now, &mut |id, reply| {
            if let Some(client) = clients.get_mut(id).filter(|client| client.waiting) {
                client.answer(&reply, &context);
                answered.push(id);
            }
        });
        let mut answered = std::mem::take(&mut self.answered);
        for id in answered.drain(..) {
            let not_before_ms = held_back.filter(|(held, _)| *held == id).map_or(0, |(_, ms)| ms);
            self.seal(id, not_before_ms);
            self.clients.queue_up(id, &self.limits);
        }
        // What it has allocated is used again.
        self.answered = answered;
    }

    /// The lease never reached its client.
    fn undo_lease(&mut self, number: JobNumber, lease: LeaseId) {
        self.call(self.now, |engine, now, answers| engine.undo_lease(now, number, lease, answers));
    }

    /// Answers a command without the engine.
    fn answer(&mut self, id: ClientId, reply: &Reply<'_>) {
        let scene = self.scene(self.now);
        if let Some(client) = self.clients.get_mut(id) {
            client.answer(reply, &scene.context(&self.limits, &self.tallies, &self.host));
        }
        self.seal(id, 0);
    }

    /// What was written to this client depends on all that the engine has decided so far. If the client is gone, the leases it
    /// was to hear of never were.
    fn seal(&mut self, id: ClientId, not_before_ms: u64) {
        self.clients.change(id);
        let mut position = self.commit.position(self.engine.records());
        if crate::broken("broker-early-look") && self.engine.records().is_empty() {
            position = self.commit.durable();
        }
        let Some(client) = self.clients.get_mut(id) else { return };
        if client.link == Link::Gone {
            self.undo_unsent(id);
        } else {
            client.output.seal(position, not_before_ms);
        }
    }

    /// This turn, on every clock.
    fn moment(&self) -> Moment {
        let (Now { engine_ms, wall_ms, .. }, Clock { monotonic_ms, boot, .. }) = (self.now, self.machine);
        Moment { engine_ms, wall_ms, boot_ms: monotonic_ms, boot }
    }

    /// What codecs may know, apart from the limits, which are borrowed.
    fn scene(&self, now: Now) -> Scene {
        let miscounted = usize::from(crate::broken("broker-clients-miscounted"));
        Scene {
            now,
            clients: self.clients.len() + miscounted,
            clients_total: self.clients.total,
            started_wall_ms: self.started_wall_ms,
            health: self.health(),
            log: self.stretches.view(self.engine.written()),
        }
    }
}

/// A [`Context`] that borrows nothing yet.
#[derive(Clone, Copy)]
struct Scene {
    now: Now,
    clients: usize,
    clients_total: u64,
    started_wall_ms: i64,
    health: Health,
    log: LogView,
}

impl Scene {
    fn context<'a>(self, limits: &'a Limits, tallies: &'a Tallies, host: &'a Host) -> Context<'a> {
        let Scene { now, clients, clients_total, started_wall_ms, health, log } = self;
        Context { now, limits, clients, clients_total, client: 0, started_wall_ms, health, tallies, host, log }
    }
}

/// Whether this is broken on purpose, for a test that must notice it.
#[cfg(not(feature = "breakages"))]
pub(crate) const fn broken(_what: &str) -> bool {
    false
}
#[cfg(feature = "breakages")]
pub(crate) use jobyard_breakage::broken;
