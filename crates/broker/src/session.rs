//! What a client has sent becomes commands, and these are carried out or refused.

use jobyard_engine::{ClientId, Command, LeaseRequest, Look, Refusal, Reply, Wait};
use jobyard_log::Log;
use jobyard_protocols::Next;

use crate::Broker;
use crate::client::Link;
use crate::drain::Stop;

/// A turn that has done so much work, in the engine's units, lets the next begin: some milliseconds.
const TURN_WORK_MAX: u64 = 100_000;

/// One client has so much of that, and what its last command takes beyond it: then the next has its share.
const CLIENT_WORK_MAX: u64 = TURN_WORK_MAX / 8;

/// How much of an answer is written in one unit of work.
const OUTPUT_BYTES_PER_WORK: u64 = 64;

/// For how long the answer of an enqueue is held back when memory is almost used up.
const HELD_BACK_MS_MAX: u64 = 100;

/// Without memory, one who waits may name queues that are not there in so many bytes, each counted with what it takes besides.
const NEW_NAMES_BYTES_MAX: usize = 1 << 10;
const NEW_NAME_BYTES: usize = 256;

/// A body of so many bytes can be shown also without memory.
const LITTLE_BYTES: usize = 4 << 10;

/// How full the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressure {
    /// Not very: up to four fifths.
    Low,
    /// Enqueues are slowed down, so that workers catch up: up to 95 %.
    High {
        /// By so much.
        hold_back_ms: u64,
    },
    /// Enqueues are refused. What is left is for results.
    Full,
    /// Results and listings are refused too; taking and finishing jobs goes on.
    Over,
}

impl<L: Log> Broker<L> {
    /// Carries out what the client has sent, as far as its share of this turn goes.
    pub(crate) fn run_client(&mut self, id: ClientId) {
        let (mut carried_out, mut output_bytes, turn_work) = (false, 0, self.turn_work);
        for _ in 0..self.limits.turn_commands_max {
            let scene = self.scene(self.now);
            let Some(client) = self.clients.get_mut(id) else { return };
            if !client.runnable(&self.limits) {
                break;
            }
            let before = (client.output.end(), self.engine.work());
            let next = client.decode(&scene.context(&self.limits, &self.tallies, &self.host));
            self.seal(id, 0);
            carried_out |= matches!(next, Next::Command(_) | Next::Answered);
            match next {
                Next::More => self.all_decoded(id),
                Next::Command(command) => self.carry_out(id, command),
                Next::Answered => {}
                Next::Close if crate::broken("broker-closes-at-once") => self.close(id),
                Next::Close => self.end_session(id),
            }
            let written = self.clients.get(id).map_or(0, |client| client.output.end() - before.0);
            self.turn_work += 1 + self.engine.work() - before.1 + written / OUTPUT_BYTES_PER_WORK;
            output_bytes += written;
            let has_its_share =
                self.turn_work - turn_work >= CLIENT_WORK_MAX || output_bytes >= self.limits.turn_bytes_max as u64;
            if self.turn_is_full() || has_its_share {
                break;
            }
        }
        if let Some(client) = self.clients.get_mut(id) {
            if carried_out && !client.moves_much(&self.limits) {
                self.company.served(id, &client.pace, self.now.engine_ms);
            }
            client.queued = false;
        }
        self.clients.recount(id);
        self.clients.queue_up(id, &self.limits);
    }

    /// Whether this turn has done as much as one should, so that nobody waits for long because of what others ask.
    pub(crate) fn turn_is_full(&self) -> bool {
        self.turn_work >= TURN_WORK_MAX || self.batch_is_full()
    }

    /// Whether as much was decided as one batch should hold.
    fn batch_is_full(&self) -> bool {
        self.engine.records().len() >= self.batch_bytes_max()
    }

    /// Whether nothing more may be decided before the batch in flight is durable: the next one is full.
    pub(crate) fn waits_for_log(&self) -> bool {
        self.commit.in_flight() && self.batch_is_full()
    }

    /// There is no whole request left. If none can follow, the session is over.
    fn all_decoded(&mut self, id: ClientId) {
        // Before the server is ready, what was sent may be whole and wait all the same.
        let starting = self.starting();
        let Some(client) = self.clients.get_mut(id) else { return };
        if !client.finishing || starting {
            return;
        }
        if client.link == Link::Ended {
            client.say_end();
        }
        client.end_session(self.now.engine_ms);
        self.seal(id, 0);
    }

    fn carry_out(&mut self, id: ClientId, command: Command) {
        let pressure = if self.takes_memory(&command) { self.pressure() } else { Pressure::Low };
        if self.disk_refuses(&command) {
            return self.answer(id, &Reply::Refused(Refusal::DiskFull));
        }
        let Some(client) = self.clients.get(id) else { return };
        let may_wait = client.may_wait() && self.stop == Stop::No;
        if let Some(reply) = self.answer_without_engine(client.link, may_wait, pressure, &command) {
            return self.answer(id, &reply);
        }
        let held_back = match pressure {
            Pressure::High { hold_back_ms } if command.enqueues() => {
                Some((id, self.now.engine_ms.saturating_add(hold_back_ms)))
            }
            Pressure::Low | Pressure::High { .. } | Pressure::Full | Pressure::Over => None,
        };
        let mut command = if may_wait { command } else { without_waiting(command) };
        if let (Command::Lease(request), Pressure::Full | Pressure::Over) = (&mut command, pressure)
            && !self.keep_names(request)
        {
            return self.answer(id, &Reply::Refused(Refusal::OutOfMemory));
        }
        self.call_holding_back(self.now, held_back, |engine, now, answers| engine.handle(now, id, command, answers));
    }

    /// There is no memory for the names of queues that nobody can put a job in now, but for a few short ones: who waits for
    /// such a queue is served when there is memory for it. False if that cannot be.
    fn keep_names(&self, request: &mut LeaseRequest) -> bool {
        request.creates_queues = false;
        let new = request.queues.iter().filter(|name| !self.engine.has_queue(name));
        let new_bytes: usize = new.map(|name| NEW_NAME_BYTES + name.as_bytes().len()).sum();
        if new_bytes <= NEW_NAMES_BYTES_MAX {
            return true;
        }
        request.queues.retain(|name| self.engine.has_queue(name));
        request.wait == Wait::No
    }

    /// What the engine need not or must not hear of. Nobody is given a job who cannot be told of it, or to whom the server is
    /// about to be lost; nothing is put for someone who cannot wait for its result.
    fn answer_without_engine(
        &self,
        link: Link,
        may_wait: bool,
        pressure: Pressure,
        command: &Command,
    ) -> Option<Reply<'static>> {
        let stopping = self.stop != Stop::No;
        match command {
            _ if self.draining && command.enqueues() => Some(Reply::Refused(Refusal::Draining)),
            Command::Lease(_) | Command::LeaseJob { .. } if stopping || link == Link::Gone => Some(Reply::NoJob),
            Command::Lease(_) | Command::LeaseJob { .. } => None,
            Command::Group(_) if !command.enqueues() => None,
            // Nobody is there to read it, and one who left may have asked for thousands.
            Command::Look(_) if link == Link::Gone => Some(Reply::Refused(Refusal::OutOfMemory)),
            _ if pressure == Pressure::Over => Some(Reply::Refused(Refusal::OutOfMemory)),
            _ if pressure == Pressure::Full && command.enqueues() => Some(Reply::Refused(Refusal::OutOfMemory)),
            Command::Run { .. } if !may_wait => Some(Reply::TimedOut),
            _ => None,
        }
    }

    /// Whether carrying this out may take more memory than a little: by a job, a result, the names of queues, an answer, or by
    /// what is kept of a job that is put aside or back.
    pub(crate) fn takes_memory(&self, command: &Command) -> bool {
        match command {
            Command::Complete { result, .. } | Command::Fail { result, .. } => !result.is_empty(),
            Command::Look(look) => match look {
                Look::Job(job) => self.engine.body_bytes(job) > LITTLE_BYTES,
                Look::Jobs { .. } | Look::Queues { .. } | Look::Origins { .. } => true,
                Look::Queue(_) | Look::Server | Look::Sum => false,
            },
            Command::Enqueue(_) | Command::Run { .. } | Command::Group(_) | Command::Lease(_) => true,
            // Who is to take from a queue must be able to say so.
            Command::Attend { queue, .. } => !self.engine.has_queue(queue),
            Command::Release { job, again: Some(_) } | Command::Bury { job, .. } | Command::ReviveJob { job } => {
                self.engine.is_plain(job)
            }
            Command::Revive { .. } => true,
            Command::Leave { .. }
            | Command::LeaseJob { .. }
            | Command::Release { again: None, .. }
            | Command::Extend { .. }
            | Command::Pause { .. }
            | Command::Remove { .. }
            | Command::ClaimOrigins { .. }
            | Command::CloseOrigin { .. }
            | Command::Await { .. } => false,
        }
    }

    fn pressure(&self) -> Pressure {
        if crate::broken("broker-memory-ignored") {
            return Pressure::Low;
        }
        pressure(self.memory_bytes(), self.limits.memory_bytes_max)
    }
}

/// The same command, answered at once as if its time had run out where it would wait.
fn without_waiting(command: Command) -> Command {
    match command {
        Command::Lease(mut request) => {
            request.wait = Wait::No;
            Command::Lease(request)
        }
        Command::Await { job, .. } => Command::Await { job, wait_ms: 0 },
        other => other,
    }
}

fn pressure(used: usize, max: usize) -> Pressure {
    let (high, full) = (max / 100 * 80, max / 100 * 95);
    if used <= high {
        return Pressure::Low;
    }
    if used > full {
        return if used > max { Pressure::Over } else { Pressure::Full };
    }
    let share = (used - high) as u128 * u128::from(HELD_BACK_MS_MAX);
    let hold_back_ms = share.div_ceil((full - high).max(1) as u128);
    Pressure::High { hold_back_ms: u64::try_from(hold_back_ms).unwrap_or(HELD_BACK_MS_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuller_the_memory_the_longer_an_enqueue_is_held_back() {
        assert_eq!(pressure(800, 1_000), Pressure::Low);
        assert_eq!(pressure(801, 1_000), Pressure::High { hold_back_ms: 1 });
        assert_eq!(pressure(875, 1_000), Pressure::High { hold_back_ms: 50 });
        assert_eq!(pressure(950, 1_000), Pressure::High { hold_back_ms: 100 });
        assert_eq!(pressure(951, 1_000), Pressure::Full);
        assert_eq!(pressure(1_000, 1_000), Pressure::Full);
        assert_eq!(pressure(1_001, 1_000), Pressure::Over);
    }

    #[test]
    fn without_a_limit_there_is_no_pressure() {
        assert_eq!(pressure(1 << 40, usize::MAX), Pressure::Low);
    }
}
