//! What goes wrong, and how often: each schedule has some of it.

use jobyard_log::SyncMode;

use super::figures::Figures;
use super::person::Person;
use super::{CLOCK_SEEN_MS, Schedule};
use crate::clients::{Ask, BEANSTALKD, DEFAULT_LEASE_MS};
use crate::disk::{Crash, Fault};
use crate::ledger::When;
use crate::random::{below, coin, splitmix};
use crate::world::Wrong;

/// How much is asked of a full disk to use up its reserve.
const WEAR_ASKS: usize = 200;

const HOUR_MS: i64 = 3_600_000;

/// A sync may be so late.
const SYNC_SLACK_MS: u64 = 200;

/// So many come at once.
const CROWD: usize = 40;

/// After so long the server has seen that there is room again.
const ROOM_SEEN_MS: u64 = 3_000;

/// What a segment holds no records in.
pub const SEGMENT_HEADER_BYTES: u64 = 4_096;

/// All that can go wrong, by name. A run in which one of them never happened has shown nothing about it.
pub const FAULTS: &[&str] = &[
    "fault bytes arrive in pieces",
    "fault bytes arrive late",
    "fault answer taken in part",
    "fault client goes with answers unread",
    "fault client comes before the server is ready",
    "fault crowd of clients",
    "fault client close",
    "fault client reset",
    "fault client halfclose",
    "fault client stops reading",
    "fault client reads again",
    "fault kill",
    "fault power lost",
    "fault power bytes lost",
    "fault power names lost",
    "fault power torn",
    "fault power names at random",
    "fault power scattered",
    "fault power garbage",
    "fault power cut within a turn",
    "fault power cut after an interval",
    "fault disk broken",
    "fault disk short write",
    "fault disk refuses once",
    "fault disk full",
    "fault disk free",
    "fault disk worn down",
    "fault stop",
    "fault stop before deaf clients",
    "fault second stop",
    "fault drain",
    "fault stall",
    "fault stall after a look",
    "fault wall clock set ahead by an hour",
    "fault wall clock set back by an hour",
    "fault wall clock set back while no server runs",
    "fault wall clock set ahead by 50 years",
    "fault wall clock set back by 50 years",
    "fault segments of another length",
];

/// Which of them a schedule has.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub clients: bool,
    kills: bool,
    /// What was told is synced, so that the power may fail at any time.
    synced: bool,
    /// What was told is synced after so long.
    syncs_within_ms: u64,
    pub power: bool,
    pub disk: bool,
    pub full: bool,
    stops: bool,
    /// The log may have to be written anew at a start.
    lengths: bool,
    clocks: bool,
}

impl Faults {
    pub fn draw(random: &mut u64, sync: SyncMode) -> Self {
        let always = sync == SyncMode::Always;
        let syncs_within_ms = match sync {
            SyncMode::Interval(ms) => ms + SYNC_SLACK_MS,
            SyncMode::Always | SyncMode::Never => 0,
        };
        Faults {
            clients: coin(random),
            kills: coin(random),
            synced: always,
            syncs_within_ms,
            power: sync != SyncMode::Never && coin(random),
            disk: below(random, 3) == 0,
            full: below(random, 4) == 0,
            stops: below(random, 3) == 0,
            lengths: below(random, 3) == 0,
            clocks: below(random, 3) == 0,
        }
    }
}

impl Schedule {
    /// Something goes wrong, of what goes wrong in this schedule.
    pub fn something_goes_wrong(&mut self) -> Result<(), Wrong> {
        let Faults { clients, kills, power, disk, full, stops, clocks, .. } = self.faults;
        match self.below(12) {
            0 | 1 if clients => return self.someone_goes(),
            2 if clients => self.someone_stops_reading(),
            3 if kills => return self.crash(Crash::Kill),
            4 if power => return self.cut_power(),
            5 if power && self.faults.syncs_within_ms == 0 => return self.cut_power_within_a_turn(),
            6 if disk => return self.disk_fails(),
            7 if full => return self.disk_fills_up(),
            8 if stops => return self.stop(),
            9 if clocks => return self.clock_is_set(),
            10 if clocks => self.stall(),
            _ if self.lacks_clients() && self.one_in(6) => self.crowd_comes(),
            _ => self.invite(),
        }
        Ok(())
    }

    /// Many come at once, and there is room for few.
    fn crowd_comes(&mut self) {
        self.count("fault crowd of clients", 1);
        for _ in 0..CROWD {
            self.invite();
        }
    }

    /// The power fails when all that was told is synced: at once, or after so long that nobody is told anything.
    fn cut_power(&mut self) -> Result<(), Wrong> {
        let syncs_within_ms = self.faults.syncs_within_ms;
        if syncs_within_ms > 0 {
            self.wake_all();
            self.all_hear()?;
            // Who did not read may have been given up meanwhile.
            self.mourn()?;
        }
        let synced_ms = |it: &Self| it.told_ms.max(it.stalled_until_ms) + syncs_within_ms;
        while syncs_within_ms > 0 && synced_ms(self) > self.world.elapsed_ms() {
            self.time_passes(syncs_within_ms)?;
            if self.one_in(4) {
                return Ok(());
            }
        }
        self.count("fault power cut after an interval", u64::from(syncs_within_ms > 0));
        let crash = self.some_power_cut();
        self.crash(crash)
    }

    fn some_power_cut(&mut self) -> Crash {
        let seed = splitmix(&mut self.random);
        let tears = self.world.disk.tears();
        match self.below(7) {
            0 => Crash::Lost,
            1 => Crash::BytesLost,
            2 => Crash::NamesLost,
            3 if !tears.is_empty() => Crash::Torn(tears[self.below(tears.len())]),
            4 => Crash::Names(seed),
            5 => Crash::Scattered(seed),
            _ => Crash::Garbage(seed),
        }
    }

    /// The server ends in this way, and another one starts.
    pub fn crash(&mut self, crash: Crash) -> Result<(), Wrong> {
        // What is told now must outlive it.
        let is_safe = crash == Crash::Kill || self.faults.synced;
        if self.world.is_running() && is_safe {
            self.someone_asks_at_last();
        }
        let kind = Crash::KINDS[crash.kind()];
        let is_struck = self.world.disk.crash(crash) != self.world.disk.crash(Crash::Kill);
        self.count(
            &match crash {
                Crash::Kill => "fault kill".to_owned(),
                _ if is_struck => format!("fault power {kind}"),
                _ => "power cut at rest".to_owned(),
            },
            1,
        );
        // What left the server is on its way to machines that go on.
        self.wake_all();
        self.all_hear()?;
        let ended_ms = self.world.elapsed_ms();
        self.world.crash(crash);
        if self.coin() {
            let ms = self.below(20_000) as u64;
            self.world.leap(ms);
        }
        if crash != Crash::Kill
            && let Some((set_ms, _)) = self.clock_untold
        {
            // One that sleeps for so long without looking at the clock has nothing to do. What was over may last again.
            let had_nothing_to_do = !self.faults.full && ended_ms > set_ms + CLOCK_SEEN_MS;
            let now_ms = self.world.elapsed_ms();
            if had_nothing_to_do { self.ledger.time_stood(now_ms) } else { self.ledger.time_lost(now_ms) }
        } else if self.faults.clocks && self.one_in(4) {
            self.set_back_while_down(crash);
        }
        self.come_back()
    }

    /// The clock is set back while no server runs. After a boot that is all the next one has to tell for how long none ran: for
    /// no time, so that nothing ends early, and what was to end may end later.
    fn set_back_while_down(&mut self, crash: Crash) {
        self.world.clock.wall_ms = self.world.clock.wall_ms.saturating_sub(HOUR_MS);
        self.ledger.dates_lost(self.world.turns());
        if crash != Crash::Kill {
            self.ledger.time_stood(self.world.elapsed_ms());
            // What the next one writes down of it may be lost with it.
            self.clock_untold = Some((self.world.elapsed_ms(), self.world.rests())).filter(|_| !self.faults.synced);
        }
        self.count("fault wall clock set back while no server runs", 1);
    }

    /// Another server starts on what is left.
    pub fn come_back(&mut self) -> Result<(), Wrong> {
        self.forget_silent(self.now());
        self.ledger.server_gone(self.now());
        (self.draining, self.stopping) = (false, false);
        self.turned_away.clear();
        self.figures = Figures::begin(self.ledger.next_entry());
        for person in std::mem::take(&mut self.people) {
            self.world.forget(person.client);
            self.lose(&person);
            self.settle(&person);
        }
        self.ledger.pauses_gone();
        let before = self.world.setup().log.segment_bytes;
        let mut segment_bytes = before;
        if self.faults.lengths && self.one_in(3) {
            segment_bytes = [8 << 10, 16 << 10, 24 << 10, 64 << 10][self.below(4)];
        }
        if segment_bytes != before {
            self.count("fault segments of another length", 1);
        }
        let salt = splitmix(&mut self.random) | 1;
        self.world.set_segment_bytes(segment_bytes, salt);
        let started = match self.world.start() {
            Err(why) if why.contains("cannot be written anew, with segments of") => {
                self.count("a start without room for another length", 1);
                self.world.set_segment_bytes(before, salt + 2);
                self.world.start()
            }
            started => started,
        };
        started.map_err(|why| format!("the server does not start: {why}"))?;
        // It can be found out what was done if nobody does more.
        let finds_out = self.coin();
        if !finds_out {
            self.come_early();
        }
        self.world.rest()?;
        if let Some(failure) = self.world.failure() {
            return Err(format!("the server ended after its start: {failure}"));
        }
        if finds_out {
            self.find_out()?;
        }
        for _ in 0..2 + self.below(4) {
            self.invite();
        }
        Ok(())
    }

    /// Some are there, and ask, before the server has read its log back.
    pub fn come_early(&mut self) {
        for _ in 0..self.below(3) {
            self.invite();
            self.someone_asks();
            self.count("fault client comes before the server is ready", 1);
        }
    }

    fn cut_power_within_a_turn(&mut self) -> Result<(), Wrong> {
        let operations = self.below(6) as u64;
        let struck_before = self.world.disk.struck().len();
        self.world.cut_power_after(operations);
        for _ in 0..6 {
            self.someone_asks();
            self.world.turn();
            if !self.world.is_running() {
                break;
            }
        }
        if self.world.disk.struck().len() > struck_before {
            self.count("fault power cut within a turn", 1);
            self.room_wanted();
        }
        let crash = self.some_power_cut();
        self.crash(crash)
    }

    fn disk_fails(&mut self) -> Result<(), Wrong> {
        let at = self.world.disk.tried() + self.below(8) as u64;
        let (fault, name) = match self.below(4) {
            0 => (Fault::Broken, "fault disk broken"),
            1 => (Fault::Full, "fault disk refuses once"),
            _ => (Fault::Short(1 + self.below(300)), "fault disk short write"),
        };
        let struck_before = self.world.disk.struck().len();
        self.world.disk.fail(at, fault);
        for _ in 0..8 {
            self.someone_asks();
            self.world.turn();
        }
        self.world.rest()?;
        self.world.disk.heal();
        let struck = self.world.disk.struck().split_off(struck_before);
        // Only what is written can be written in part.
        if struck.iter().any(|kind| !matches!(fault, Fault::Short(_)) || *kind == "write") {
            self.count(name, 1);
            self.room_wanted();
        }
        if self.world.is_running() {
            return Ok(());
        }
        if self.world.failure().is_none() {
            return Err("the server ended without a word".to_owned());
        }
        let crash = if self.coin() || !self.faults.synced { Crash::Kill } else { self.some_power_cut() };
        self.crash(crash)
    }

    fn disk_fills_up(&mut self) -> Result<(), Wrong> {
        // Often and for long, so that the reserve is used up.
        if !self.one_in(5) {
            let full = Some(self.world.disk.bytes());
            // One that is full already may have some room again, which is taken.
            if self.world.disk.capacity() != full {
                self.world.disk.set_capacity(full);
                self.count("fault disk full", 1);
            }
            if self.one_in(3) {
                return self.wear_down();
            }
        } else if self.world.disk.capacity().is_some() {
            self.free_disk();
            self.count("fault disk free", 1);
        }
        Ok(())
    }

    /// There is room again.
    pub fn free_disk(&mut self) {
        if self.world.disk.capacity().is_some() {
            self.room_wanted();
        }
        self.world.disk.set_capacity(None);
    }

    /// The disk refuses something until now.
    fn room_wanted(&mut self) {
        self.room_wanted_ms = Some(self.world.elapsed_ms());
    }

    /// Whether the server may say to one who asked then that there is no room on its disk. It looks for some every second,
    /// unless it stands still.
    pub fn may_want_room(&self, asked: When) -> bool {
        let lately = self.room_wanted_ms.is_some_and(|ms| asked.at_ms <= ms.max(self.stalled_until_ms) + ROOM_SEEN_MS);
        lately || self.world.disk.capacity().is_some()
    }

    /// Whether this may not fit into a segment, with what else is decided then: it is refused as if there were no room.
    pub fn may_not_fit(&self, ask: &Ask) -> bool {
        const PER_REQUEST: usize = 300;
        let bodies: usize = match ask {
            Ask::Put(put) => put.body.len() + PER_REQUEST,
            Ask::Group { puts, .. } => puts.iter().map(|put| put.body.len() + PER_REQUEST).sum(),
            _ => 0,
        };
        let room = (self.world.setup().log.segment_bytes - SEGMENT_HEADER_BYTES) / 4 * 3;
        (bodies + PER_REQUEST) as u64 > room
    }

    /// Jobs are taken, and given back by those who can: on a full disk that goes on until the reserve is used up, and is then
    /// refused.
    fn wear_down(&mut self) -> Result<(), Wrong> {
        if self.coin() {
            self.fill_up()?;
        }
        let mut asked = 0;
        for _ in 0..WEAR_ASKS {
            let index = self.below(self.people.len().max(1));
            // What ends with its connection is not written, but for what beanstalkd's clients do with it, and that it failed.
            let is_tubes = |person: &Person| person.speaker.protocol == BEANSTALKD;
            let writes = |person: &Person| {
                let is_written = !person.speaker.holds_by_connection || person.holding().is_some() || is_tubes(person);
                person.may_ask() && is_written
            };
            if self.people.get(index).is_some_and(writes) {
                let fails = |ask: &Ask| (self.people[index].speaker.say)(ask, 0).is_some();
                let wears = is_tubes(&self.people[index]);
                let ask = match self.people[index].holding().map(Ask::Fail).filter(fails) {
                    Some(ask) => {
                        self.people[index].give_up();
                        ask
                    }
                    None if wears => self.write_a_little(index),
                    None => self.take(index),
                };
                self.ask(index, ask);
                self.world.rest()?;
                self.all_hear()?;
                asked += 1;
            }
        }
        if asked > WEAR_ASKS / 4 {
            self.count("fault disk worn down", 1);
        }
        Ok(())
    }

    /// Jobs are put until there is no room for one: then nothing of the log can be let go of, and its reserve is soon used up.
    fn fill_up(&mut self) -> Result<(), Wrong> {
        for _ in 0..WEAR_ASKS {
            let index = self.below(self.people.len().max(1));
            if self.people.get(index).is_some_and(Person::may_ask) {
                let entry = self.ledger.next_entry();
                let put = self.job(entry);
                self.ask(index, Ask::Put(put));
                self.world.rest()?;
                self.all_hear()?;
                if self.ledger.jobs.get(entry).is_some_and(|job| job.refused) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The server stands still, while some clients have just sent that they are done: whatever ran out meanwhile, that came first.
    fn stall(&mut self) {
        for index in 0..self.people.len() {
            if self.people[index].may_ask()
                && self.coin()
                && let Some(held) = self.people[index].give_up()
            {
                self.ask(index, Ask::Complete(held));
            }
        }
        let longest_ms = if self.coin() { 3_000 } else { 12_000 };
        let ms = 100 + self.below(longest_ms) as u64;
        let has_looked = self.coin();
        self.world.stall(ms, has_looked);
        self.stalled_until_ms = self.world.elapsed_ms();
        self.count(if has_looked { "fault stall after a look" } else { "fault stall" }, 1);
    }

    fn clock_is_set(&mut self) -> Result<(), Wrong> {
        const YEARS_MS: i64 = 50 * 365 * 24 * HOUR_MS;
        // Some servers sleep when it is set, and long after: only leases of a day are left.
        let sleeps = self.one_in(6);
        if sleeps {
            self.time_passes(2 * DEFAULT_LEASE_MS)?;
        }
        let (by_ms, name) = [
            (HOUR_MS, "fault wall clock set ahead by an hour"),
            (-HOUR_MS, "fault wall clock set back by an hour"),
            (YEARS_MS, "fault wall clock set ahead by 50 years"),
            (-YEARS_MS, "fault wall clock set back by 50 years"),
        ][self.below(4)];
        self.world.clock.wall_ms = self.world.clock.wall_ms.saturating_add(by_ms);
        self.clock_untold = Some((self.world.elapsed_ms(), self.world.rests()));
        self.ledger.dates_lost(self.world.turns());
        self.count(name, 1);
        if sleeps {
            self.time_passes(CLOCK_SEEN_MS + 1_000)?;
            if self.faults.power && self.coin() {
                return self.cut_power();
            }
        }
        Ok(())
    }
}
