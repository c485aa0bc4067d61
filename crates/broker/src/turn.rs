//! The turn: what happened comes in, commands are carried out, deadlines pass, one batch is submitted, output that is
//! durable leaves.

use jobyard_engine::ClientId;
use jobyard_log::{Batch, Log};
use jobyard_protocols::Farewell;

use crate::Broker;
use crate::client::{Client, Link};
use crate::drain::Stop;
use crate::event::{Action, Clock, Event, Sleep};
use crate::recovery::{PORTION_BYTES, PROBE_BYTES_MAX};

/// What a turn's events said that concerns more than one client.
#[derive(Default)]
pub(crate) struct News {
    /// Clients that are ending, ended or are gone.
    pub(crate) hung_up: Vec<ClientId>,
    /// Whether someone has sent something that was not read yet.
    pub(crate) unread: bool,
    /// How often the process was told to stop.
    pub(crate) stops: u32,
}

/// So many clients at once are told that there is no room for them; more are closed without a word.
const TURNED_AWAY_MAX: usize = 32;

/// A read asks for at least so much, however little room is left for unfinished input.
const READ_BYTES_MIN: usize = 4 << 10;

/// A date may come sooner than the monotonic clock tells, if the wall clock is stepped.
const DATE_SLEEP_MS_MAX: u64 = 1_000;

/// That the wall clock was stepped is noticed within so long.
const STEP_SLEEP_MS_MAX: u64 = 600_000;

impl<L: Log> Broker<L> {
    /// One turn. Takes the events, adds the actions, and says when the next turn is due if nothing happens before; the answer to
    /// an action is something that happens.
    ///
    /// The clock is read after each look at the sockets. Turns that follow the same look, because there are answers to actions,
    /// are given the same time.
    pub fn turn(&mut self, clock: Clock, events: &mut Vec<Event>, actions: &mut Vec<Action>) -> Sleep {
        (self.machine, self.now) = (clock, self.clock.now(clock));
        if self.stop == Stop::Over {
            events.clear();
            return Sleep::Forever;
        }
        self.turn_work = 0;
        self.looks.turn(self.now.engine_ms, events.is_empty());
        self.clients.heard_until_ms = self.looks.heard_until_ms(false);
        self.recover(PORTION_BYTES);
        let news = self.take_in(events);
        let noted = self.clients.changed.len();
        self.stop(news.stops);
        self.hang_up(&news.hung_up);
        self.run();
        self.bound_input();
        self.pass_deadlines(news.unread);
        self.end_clients();
        self.end_drain();
        self.commit();
        self.tend_ms = self.commit.tend(self.now.engine_ms);
        self.settle(noted);
        self.exit_when_done();
        actions.append(&mut self.actions);
        self.sleep()
    }

    /// Takes note of all that happened, before anything is done about it: nobody who is known to be gone is given a job.
    fn take_in(&mut self, events: &mut Vec<Event>) -> News {
        let now_ms = self.now.engine_ms;
        let mut news = News::default();
        for event in events.drain(..) {
            match event {
                Event::Accepted { client, listener } => self.accept(client, listener),
                Event::Readable(client) => {
                    news.unread = true;
                    self.note(client, |client| client.readable = client.reads());
                }
                Event::Received { client, bytes, more } => self.note(client, |client| {
                    (client.reading, client.readable) = (false, more);
                    client.receive(&bytes, now_ms);
                }),
                Event::Ending(client) => {
                    self.note(client, |client| client.begin_ending(now_ms));
                    news.hung_up.push(client);
                }
                Event::Ended(client) => {
                    let link = if crate::broken("broker-half-is-whole") { Link::Gone } else { Link::Ended };
                    self.note(client, |client| client.end_input(link, now_ms));
                    news.hung_up.push(client);
                }
                Event::Gone(client) => {
                    self.note(client, |client| client.end_input(Link::Gone, now_ms));
                    news.hung_up.push(client);
                }
                Event::Lost(client) => {
                    self.note(client, |client| client.lose(now_ms));
                    news.hung_up.push(client);
                }
                Event::Writable(client) => self.note(client, |client| client.clogged = false),
                Event::Wrote { client, count } => self.note(client, |client| client.wrote(count, now_ms)),
                Event::Stop => news.stops += 1,
                Event::Drain => self.draining = true,
            }
        }
        news
    }

    fn accept(&mut self, id: ClientId, listener: usize) {
        let turned_away = if crate::broken("broker-turned-away-take-room") { 0 } else { self.clients.turned_away };
        let full =
            self.clients.len() - turned_away >= self.limits.clients_max && !crate::broken("broker-takes-everyone");
        if self.stop != Stop::No || full && self.clients.turned_away >= TURNED_AWAY_MAX {
            self.actions.push(Action::Close(id));
            return;
        }
        let codec = self.doors[listener](self.now);
        let probes = self.probed.get(listener).copied().unwrap_or(false);
        self.clients.add(id, codec, full, probes);
        if full {
            self.dismiss(id, Farewell::TooManyClients);
        } else {
            self.note(id, |client| client.fed = true);
        }
    }

    /// Something happened to a client, if it is still known.
    fn note(&mut self, id: ClientId, what: impl FnOnce(&mut Client)) {
        if let Some(client) = self.clients.get_mut(id) {
            what(client);
            self.clients.change(id);
            self.clients.recount(id);
            self.clients.queue_up(id, &self.limits);
        }
    }

    /// Gives each client that has something to decode its share, from where the last turn stopped.
    fn run(&mut self) {
        if self.starting() {
            return self.run_probes();
        }
        if !self.started {
            self.start();
        }
        if self.awaits_room() {
            return;
        }
        for _ in 0..self.clients.queue.len() {
            if self.turn_is_full() {
                return;
            }
            let Some(id) = self.clients.queue.pop_front() else { return };
            self.run_client(id);
        }
    }

    /// Ends sessions until the unfinished input of all clients is within its limit, the largest first.
    fn bound_input(&mut self) {
        let broken_max = if crate::broken("broker-input-limit-too-small") { 400 } else { usize::MAX };
        let bytes_max = self.limits.unfinished_bytes_max().min(broken_max);
        while self.clients.counted.input_bytes > bytes_max
            && !crate::broken("broker-input-unlimited")
            && let Some(id) = self.clients.largest_input()
        {
            self.dismiss(id, Farewell::TooMuchInput);
            self.clients.recount(id);
        }
    }

    /// Submits what was decided, if no batch is in flight; else it goes on filling the next.
    pub(crate) fn commit(&mut self) {
        self.commit.poll();
        if self.may_submit() && self.stop != Stop::Hurried && !self.replaying() {
            let decided_bytes = self.engine.records().len();
            // What is written anew goes along. With a long batch it comes behind it, if the log has time for another: who
            // decides while one is in flight may have nothing but long ones.
            let is_long = decided_bytes > self.batch_bytes_max();
            if !is_long || self.commit.log.wakes() {
                self.compact(decided_bytes);
            }
            self.submit();
            if is_long && self.may_submit() {
                self.compact(decided_bytes);
                self.submit();
            }
            self.make_room();
        }
        self.drop_rewritten();
        self.commit.notice_trouble();
    }

    pub(crate) fn may_submit(&self) -> bool {
        !self.commit.in_flight() && self.commit.failure().is_none()
    }

    /// Submits a batch, if there is something to tell: records, or of the clocks.
    pub(crate) fn submit(&mut self) {
        let at = self.moment();
        if self.engine.records().is_empty() && !self.commit.clocks_untold(at) {
            return;
        }
        let begins_segment = self.begins_segment();
        self.commit.submit(Batch { at, payload: self.engine.records() });
        if begins_segment {
            self.follow_segment();
        }
        self.engine.clear_records();
        self.commit.poll();
    }

    /// Releases and writes output, asks for input, and sets the timers of every client to which something happened. Those who
    /// have waited, and are answered because of what others did, come before those who were noted first.
    fn settle(&mut self, noted: usize) {
        (self.held_back_until_ms, self.rest_until_ms) = (None, None);
        if self.commit.failure().is_some() {
            return;
        }
        let mut readers = Vec::new();
        let mut changed = std::mem::take(&mut self.clients.changed);
        changed.rotate_left(noted);
        changed.retain(|&id| self.settle_client(id, &mut readers));
        // A client that stays on the list is still marked as being on it.
        self.clients.changed = changed;
        self.read(&readers);
    }

    /// Returns whether the client is to be settled in the next turn too.
    fn settle_client(&mut self, id: ClientId, readers: &mut Vec<ClientId>) -> bool {
        let starting = self.starting();
        let Some(client) = self.clients.get_mut(id) else { return false };
        client.output.release(self.commit.durable(), self.now.engine_ms);
        let rests_until_ms = match self.stop {
            Stop::No if client.moves_much(&self.limits) => {
                self.company.rests_until_ms(id, &client.pace, self.now.engine_ms)
            }
            _ => None,
        };
        let rests = rests_until_ms.is_some();
        if !rests && client.offer() {
            self.actions.push(Action::Write(id));
        }
        let withheld = client.output.withheld();
        if client.serving() {
            client.update_hold(starting || withheld || client.clogged_up(&self.limits), self.now.engine_ms);
        }
        let may_read = !starting || client.probes && client.input.len() < PROBE_BYTES_MAX;
        if client.wants_read(&self.limits) && may_read && !rests {
            client.reading = true;
            readers.push(id);
        }
        let held_back_until_ms = client.output.held_back_until_ms().filter(|&ms| ms > self.now.engine_ms);
        self.held_back_until_ms = self.held_back_until_ms.into_iter().chain(held_back_until_ms).min();
        self.rest_until_ms = self.rest_until_ms.into_iter().chain(rests_until_ms).min();
        client.listed = withheld || starting || rests;
        let stays = client.listed;
        self.clients.schedule(id, &self.limits);
        self.clients.recount(id);
        stays
    }

    /// Asks for input, for no more in all than there is room for.
    fn read(&mut self, readers: &[ClientId]) {
        let room = self.limits.unfinished_bytes_max().saturating_sub(self.clients.counted.input_bytes);
        let share = room / readers.len().max(1);
        let at_most = share.max(READ_BYTES_MIN).min(self.limits.turn_bytes_max);
        self.actions.extend(readers.iter().map(|&client| Action::Read { client, at_most }));
    }

    fn sleep(&self) -> Sleep {
        if self.stop == Stop::Over {
            return Sleep::Forever;
        }
        let wakes = self.commit.wakes();
        if wakes && (self.starting() || self.waits_for_log() || self.stretches.are_awaited()) {
            return Sleep::Forever;
        }
        // What waits for the batch in flight is done when that is known.
        let pending = || self.commit.in_flight() || self.recovery.is_some() || self.compaction_due();
        if !self.clients.queue.is_empty() || !wakes && pending() {
            return Sleep::No;
        }
        let now = self.now;
        let next = self.engine.next_deadline();
        let until_date = |wall_ms: i64| {
            let ms = u64::try_from(wall_ms.saturating_sub(now.wall_ms)).unwrap_or(0);
            now.engine_ms.saturating_add(ms.min(DATE_SLEEP_MS_MAX))
        };
        let moments = [
            next.engine_ms,
            // As long as something is to fall due, a step of the wall clock should be noticed, and written down.
            next.engine_ms
                .map(|_| now.engine_ms.saturating_add(STEP_SLEEP_MS_MAX))
                .filter(|_| !crate::broken("broker-sleeps-past-steps")),
            next.wall_ms.map(until_date).filter(|_| !crate::broken("broker-sleeps-past-dates")),
            self.clients.heartbeats.first().map(|(ms, _)| ms),
            self.clients.farewells.first().map(|(ms, _)| ms).filter(|_| !crate::broken("broker-sleeps-past-farewells")),
            self.held_back_until_ms.filter(|_| !crate::broken("broker-sleeps-past-answers")),
            self.rest_until_ms,
            self.tend_ms.filter(|_| !crate::broken("broker-sleeps-past-syncs") || self.commit.log.extent().short),
            self.stop.until_ms(),
        ];
        match moments.into_iter().flatten().min() {
            None => Sleep::Forever,
            Some(at_ms) if at_ms <= now.engine_ms => Sleep::No,
            Some(_) if crate::broken("broker-sleeps-badly") => Sleep::Millis(1),
            Some(at_ms) => Sleep::Millis(at_ms - now.engine_ms),
        }
    }
}
