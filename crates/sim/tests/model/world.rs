//! One run: the engine and the model are asked the same and must say, and be, the same.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jobyard_engine::{Answers, Change, ClientId, Engine, History, JobNumber, LeaseId, Limits, Now, Reply, Snapshot};
use jobyard_sim::model::Model;

use crate::resolve::Moment;
use crate::stages;
use crate::steps::{Ask, CLIENTS, Jump, Step};
use crate::tally::{Tally, reply_label};

const YEAR_MS: u64 = 365 * 86_400_000;

/// Plays the steps; an error is what was done and what differed.
pub fn play(steps: &[Step], tally: &mut Tally) -> Result<(), String> {
    let mut world = World::new(tally);
    for step in steps.iter().chain(&[Step::Restart(Jump::Millis(1))]) {
        let outcome = catch_unwind(AssertUnwindSafe(|| world.step(step)));
        let difference = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(difference)) => difference,
            Err(panic) => panic_text(panic.as_ref()),
        };
        return Err(format!("\n{}\n\n{difference}\n", world.story.join("\n")));
    }
    Ok(())
}

struct World<'t> {
    engine: Engine,
    model: Model,
    epoch: u64,
    /// What the engine wrote, over all restarts, by stretches; the oldest may have been dropped.
    stretches: VecDeque<Vec<u8>>,
    dropped: bool,
    /// Whether the engine was not told yet of the newest.
    untold: bool,
    /// Whether the oldest stretch is not needed any more.
    superfluous: bool,
    now: Now,
    seats: [ClientId; CLIENTS],
    clients_seen: u64,
    /// Who waits, and with which command.
    asked: Vec<(ClientId, &'static str)>,
    /// Every lease given, over all restarts.
    leases: Vec<(JobNumber, LeaseId)>,
    seen: Snapshot,
    /// What was done, to be read by people.
    story: Vec<String>,
    tally: &'t mut Tally,
}

impl World<'_> {
    fn new(tally: &mut Tally) -> World<'_> {
        let model = Model::new(limits(), 1);
        let mut world = World {
            engine: Engine::new(limits(), 1, 1),
            epoch: 1,
            stretches: VecDeque::from([Vec::new()]),
            dropped: false,
            untold: false,
            superfluous: false,
            now: Now { engine_ms: 1_000, wall_ms: 1_767_225_600_250, random: 0 },
            seats: [ClientId(0); CLIENTS],
            clients_seen: 0,
            asked: Vec::new(),
            leases: Vec::new(),
            seen: model.snapshot(),
            story: Vec::new(),
            tally,
            model,
        };
        world.engine.begin_stretch();
        world.engine.note_changes();
        for seat in 0..CLIENTS {
            world.connect(seat);
        }
        world
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Ask { seat, random, ask } => self.ask(*seat, *random, ask),
            Step::StopWaiting { seat } => self.stop_waiting(*seat),
            Step::Disconnect { seat } => self.disconnect(*seat),
            Step::UndoLease { ago } => self.undo_lease(*ago),
            Step::Pass(jump) => {
                self.jump(*jump);
                Ok(())
            }
            Step::Tick { jump, late_ms, random } => self.tick(*jump, *late_ms, *random),
            Step::Restart(jump) => self.restart(*jump),
            Step::BeginStretch { late } => self.begin_stretch(*late),
            Step::Compact { bytes } => self.compact(*bytes),
            Step::DropStretch => {
                self.drop_stretch();
                Ok(())
            }
        }
    }

    fn ask(&mut self, seat: usize, random: u64, ask: &Ask) -> Result<(), String> {
        let Some(client) = self.free_client(seat) else {
            return self.stop_waiting(seat);
        };
        self.now.random = random;
        let now = self.now;
        let command =
            Moment { seen: &self.seen, next_number: self.model.next_number(), wall_ms: now.wall_ms, asker: client }
                .command(ask);
        let label = command.name();
        self.asked.push((client, label));
        self.both(
            label,
            &format!("handle {}, random {random}: {command:?}", client.0),
            |model, answers| model.handle(now, client, command.clone(), answers),
            |engine, answers| engine.handle(now, client, command.clone(), answers),
        )?;
        for asked in self.asked.iter_mut().filter(|asked| asked.0 == client) {
            asked.1 = later(label);
        }
        Ok(())
    }

    fn stop_waiting(&mut self, seat: usize) -> Result<(), String> {
        let (now, client) = (self.now, self.seats[seat]);
        let waits = self.seen.waiting.contains(&client);
        self.tally.count(if waits { "stop_waiting: answered" } else { "stop_waiting: nothing" });
        self.both(
            "stop_waiting",
            &format!("stop_waiting {}", client.0),
            |model, answers| model.stop_waiting(now, client, answers),
            |engine, answers| engine.stop_waiting(now, client, answers),
        )
    }

    fn disconnect(&mut self, seat: usize) -> Result<(), String> {
        let (now, client) = (self.now, self.seats[seat]);
        let waits = self.seen.waiting.contains(&client);
        let holds = self.seen.jobs.iter().any(|job| job.held_by == Some(client));
        self.tally.count(match (waits, holds) {
            (true, _) => "disconnect: waiting",
            (false, true) => "disconnect: holding",
            (false, false) => "disconnect: nothing",
        });
        self.asked.retain(|asked| asked.0 != client);
        self.both(
            "disconnect",
            &format!("disconnect {}", client.0),
            |model, answers| model.disconnect(now, client, answers),
            |engine, answers| engine.disconnect(now, client, answers),
        )?;
        self.connect(seat);
        Ok(())
    }

    fn undo_lease(&mut self, ago: usize) -> Result<(), String> {
        let Some(&(number, lease)) = self.leases.iter().rev().nth(ago) else {
            return Ok(());
        };
        let now = self.now;
        let leased = self.seen.jobs.iter().find(|job| job.lease == Some(lease));
        self.tally.count(match leased.map(|job| job.held_by) {
            Some(Some(_)) => "undo_lease: held",
            Some(None) => "undo_lease: leased",
            None => "undo_lease: ignored",
        });
        self.both(
            "undo_lease",
            &format!("undo_lease of job {number}, {lease:?}"),
            |model, answers| model.undo_lease(now, number, lease, answers),
            |engine, answers| engine.undo_lease(now, number, lease, answers),
        )
    }

    fn tick(&mut self, jump: Jump, late_ms: u64, random: u64) -> Result<(), String> {
        self.jump(jump);
        self.now.random = random;
        let now = self.now;
        let until_ms = now.engine_ms.saturating_sub(late_ms);
        let before = self.seen.clone();
        let mut is_done = true;
        self.both(
            "tick",
            &format!("tick until {until_ms}, random {random}"),
            |model, answers| model.tick(now, until_ms, answers),
            |engine, answers| is_done = engine.tick(now, until_ms, answers),
        )?;
        self.tally.count(if self.seen == before { "tick: nothing" } else { "tick: changes" });
        let deadline = self.model.next_deadline();
        let is_left = deadline.engine_ms.is_some_and(|due_ms| due_ms <= until_ms)
            || deadline.wall_ms.is_some_and(|due_ms| due_ms <= now.wall_ms);
        if is_left == is_done {
            return Err(format!("the tick says that it is done: {is_done}; what is next: {deadline:?}"));
        }
        if is_left {
            self.tally.count("tick: some of it");
        }
        Ok(())
    }

    fn restart(&mut self, jump: Jump) -> Result<(), String> {
        self.jump(jump);
        for job in &self.seen.jobs {
            match (job.runs, job.lease, job.held_by) {
                (true, ..) => self.tally.count("restart: run jobs"),
                (false, _, Some(_)) => self.tally.count("restart: held marks"),
                (false, Some(_), None) => self.tally.count("restart: leases"),
                (false, None, None) => {}
            }
        }
        self.epoch += 1;
        self.asked.clear();
        for seat in 0..CLIENTS {
            self.connect(seat);
        }
        let now = self.now;
        let mut engine = Engine::new(limits(), self.epoch, self.epoch);
        engine.note_changes();
        let history = if self.dropped { History::Rest } else { History::Whole };
        self.tally.count(if self.dropped { "restart: from the rest" } else { "restart: from the whole" });
        for records in &self.stretches {
            engine.begin_stretch();
            engine.replay(records, history).map_err(|_| "the engine cannot read its own records")?;
        }
        self.engine = engine;
        self.superfluous = false;
        self.untold = false;
        self.both("restart", "restart", |model, _| model.restart(now), |engine, _| _ = engine.recover(now))
    }

    fn begin_stretch(&mut self, late: bool) -> Result<(), String> {
        self.tally.count(if late { "stretch: begun late" } else { "stretch: begun" });
        self.tell_of_stretch();
        self.stretches.push_back(Vec::new());
        self.untold = true;
        if !late {
            self.tell_of_stretch();
        }
        self.compare("begin_stretch")
    }

    /// The engine learns of a stretch that the log has begun.
    fn tell_of_stretch(&mut self) {
        if std::mem::take(&mut self.untold) {
            self.story.push("begin_stretch".to_owned());
            self.engine.begin_stretch();
        }
    }

    fn compact(&mut self, bytes: usize) -> Result<(), String> {
        let mut superfluous = false;
        let live_bytes = self.engine.live_bytes();
        let before = self.stretches.iter().map(Vec::len).sum::<usize>();
        self.both("compact", &format!("compact {bytes}"), |_, _| {}, |engine, _| superfluous = engine.compact(bytes))?;
        self.superfluous = superfluous;
        if self.engine.live_bytes() != live_bytes {
            return Err("compaction changed what lives".to_owned());
        }
        let moved = self.stretches.iter().map(Vec::len).sum::<usize>() > before;
        self.tally.count(match (superfluous, moved) {
            (true, _) => "compact: whole",
            (false, true) => "compact: in part",
            (false, false) => "compact: nothing",
        });
        Ok(())
    }

    fn drop_stretch(&mut self) {
        if self.superfluous {
            self.tally.count("stretch: dropped");
            self.story.push("drop_stretch".to_owned());
            self.stretches.pop_front();
            self.engine.drop_stretch();
            self.dropped = true;
            self.superfluous = false;
        }
    }

    /// Makes the same call of both, and compares.
    fn both(
        &mut self,
        cause: &'static str,
        call: &str,
        ask_model: impl FnOnce(&mut Model, &mut Answers<'_>),
        ask_engine: impl FnOnce(&mut Engine, &mut Answers<'_>),
    ) -> Result<(), String> {
        self.story.push(format!("@{} {}  {call}", self.now.engine_ms, self.now.wall_ms));
        let mut expected: Vec<(ClientId, String)> = Vec::new();
        let mut labels: Vec<(ClientId, String)> = Vec::new();
        let leases = &mut self.leases;
        ask_model(&mut self.model, &mut |client, reply| {
            expected.push((client, format!("{reply:?}")));
            labels.push((client, reply_label(&reply)));
            if let Reply::Leased { job, lease } = &reply {
                leases.push((job.number, *lease));
            }
        });
        for (client, reply) in &expected {
            self.story.push(format!("    {} < {reply}", client.0));
        }
        for (client, label) in labels {
            let position = self.asked.iter().position(|asked| asked.0 == client);
            let position = position.ok_or_else(|| format!("the model answers {client:?}, who did not ask"))?;
            let (_, asked) = self.asked.remove(position);
            self.tally.count(format!("{asked}: {label}"));
        }

        let mut said: Vec<(ClientId, String)> = Vec::new();
        ask_engine(&mut self.engine, &mut |client, reply| said.push((client, format!("{reply:?}"))));
        let newest = self.stretches.back_mut().expect("there is always one");
        newest.extend_from_slice(self.engine.records());
        self.engine.clear_records();
        self.tell_of_stretch();
        if said != expected {
            return Err(format!("replies differ\n  model:  {expected:#?}\n  engine: {said:#?}"));
        }
        self.compare(cause)
    }

    /// After this call.
    fn compare(&mut self, cause: &'static str) -> Result<(), String> {
        self.engine.check();
        let before = std::mem::replace(&mut self.seen, self.model.snapshot());
        let engine = self.engine.snapshot();
        if engine != self.seen {
            return Err(difference(&self.seen, &engine));
        }
        let (expected, said) = (self.model.next_deadline(), self.engine.next_deadline());
        if said != expected {
            return Err(format!("next deadlines differ\n  model:  {expected:?}\n  engine: {said:?}"));
        }
        self.tally.count_jobs(&self.seen, expected);
        let changes = self.model.take_changes();
        stages::check(&changes, &before, &self.seen)?;
        changes.iter().try_for_each(|change| self.tally.transitions.count(cause, change))?;
        self.compare_changes(cause, changes)
    }

    /// Whether the engine says the same of what became of each job. Of what was lost with a crash it knows nothing.
    fn compare_changes(&mut self, cause: &'static str, mut expected: Vec<Change>) -> Result<(), String> {
        let noted = self.engine.take_changes();
        if cause == "restart" {
            return noted.iter().try_for_each(|(call, change)| self.tally.transitions.clone().count(call, change));
        }
        if let Some((call, _)) = noted.iter().find(|(call, _)| *call != cause) {
            return Err(format!("the engine says that jobs changed in {call}, not in {cause}"));
        }
        let mut said: Vec<Change> = noted.into_iter().map(|(_, change)| change).collect();
        // Of those that change at once each may be told first.
        said.sort_by_key(|change| change.number);
        expected.sort_by_key(|change| change.number);
        if said != expected {
            return Err(format!("changes differ\n  model:  {expected:#?}\n  engine: {said:#?}"));
        }
        Ok(())
    }

    fn jump(&mut self, jump: Jump) {
        let deadline = self.model.next_deadline();
        let passed_ms = match jump {
            Jump::Millis(millis) => millis,
            Jump::Deadline(beside_ms) => {
                let due_ms = deadline.engine_ms.unwrap_or(self.now.engine_ms);
                due_ms.saturating_add_signed(beside_ms).saturating_sub(self.now.engine_ms)
            }
            Jump::Date(beside_ms) => {
                let due_ms = deadline.wall_ms.unwrap_or(self.now.wall_ms).saturating_add(beside_ms);
                u64::try_from(due_ms.saturating_sub(self.now.wall_ms)).unwrap_or(0)
            }
            Jump::WallSteps(millis) => {
                self.now.wall_ms += millis;
                0
            }
        };
        // A lifetime of 2^64 ms may fall due just before the clock's end; nobody will be there.
        if passed_ms < YEAR_MS {
            self.now.engine_ms += passed_ms;
            self.now.wall_ms = self.now.wall_ms.saturating_add_unsigned(passed_ms);
        }
    }

    fn connect(&mut self, seat: usize) {
        self.clients_seen += 1;
        self.seats[seat] = ClientId(self.clients_seen);
    }

    /// The client in this seat, or in the next one whose client does not wait.
    fn free_client(&self, seat: usize) -> Option<ClientId> {
        let mut seats = (0..CLIENTS).map(|further| self.seats[(seat + further) % CLIENTS]);
        seats.find(|client| !self.seen.waiting.contains(client))
    }
}

/// Small enough that each is met.
fn limits() -> Limits {
    Limits {
        group_steps_max: 4,
        queue_name_bytes_max: 5,
        queues_named_max: 3,
        queues_max: 4,
        held_max: 2,
        revived_max: 3,
        default_lease_ms: 50,
        vanished_rest_ms: 40,
        ..Limits::default()
    }
}

fn later(label: &'static str) -> &'static str {
    match label {
        "Lease" => "Lease, later",
        "Await" => "Await, later",
        "Run" => "Run, later",
        _ => label,
    }
}

/// Only what differs.
fn difference(model: &Snapshot, engine: &Snapshot) -> String {
    let mut lines = vec!["snapshots differ".to_owned()];
    let numbers = |snapshot: &Snapshot| snapshot.jobs.iter().map(|job| job.number).collect::<Vec<_>>();
    if numbers(model) != numbers(engine) {
        lines.push(format!("  jobs, model:  {:?}\n  jobs, engine: {:?}", numbers(model), numbers(engine)));
    }
    for job in &model.jobs {
        if let Some(other) = engine.jobs.iter().find(|other| other.number == job.number && *other != job) {
            lines.push(format!("  model:  {job:?}\n  engine: {other:?}"));
        }
    }
    if model.queues != engine.queues {
        lines.push(format!("  model:  {:?}\n  engine: {:?}", model.queues, engine.queues));
    }
    if model.waiting != engine.waiting {
        lines.push(format!("  waiting, model:  {:?}\n  waiting, engine: {:?}", model.waiting, engine.waiting));
    }
    if model.origins != engine.origins {
        lines.push(format!("  origins, model:  {:?}\n  origins, engine: {:?}", model.origins, engine.origins));
    }
    lines.join("\n")
}

/// What a panic says, and where it was: whether the engine or the model gave up is for others to tell.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("panicked at {}: {}", crate::last_panic(), text.unwrap_or("with no text"))
}
