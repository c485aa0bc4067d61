//! The server is told to stop, or to take no more jobs: what it has received is answered, nobody is waited for too long, and told
//! twice it ends at once.

use jobyard_broker::Event;

use super::Schedule;
use crate::clients::Ask;
use crate::world::Wrong;

/// For how long the server may write what it has to say.
pub const DRAIN_MS: u64 = 5_000;
/// For how long one who has heard all may go on sending.
const LINGER_MS: u64 = 1_000;
/// So much is asked by those who do not read the answers: more than the kernel takes.
const DEAF_ASKS: usize = 20;

impl Schedule {
    pub fn stop(&mut self) -> Result<(), Wrong> {
        if self.one_in(3) {
            self.draining = true;
            self.world.signal(Event::Drain);
            self.count("fault drain", 1);
            return Ok(());
        }
        self.count("fault stop", 1);
        self.wake_all();
        let has_deaf = self.one_in(3) && self.some_go_deaf();
        // Whatever was sent is there, or some of it is under way and never will be.
        let has_arrived = has_deaf || self.coin();
        if has_arrived {
            self.world.rest()?;
            self.all_hear()?;
        }
        (self.draining, self.stopping) = (true, true);
        self.world.signal(Event::Stop);
        if self.one_in(3) {
            self.stop_again()?;
        } else {
            self.stop_in_time(has_deaf, has_arrived)?;
        }
        if let Some(failure) = self.world.failure() {
            return Err(format!("the server was told to stop, and failed: {failure}"));
        }
        // What left the server is heard in the end.
        self.wake_all();
        self.all_hear()?;
        self.come_back()
    }

    /// Some ask for much, and read nothing of it. Whether anyone does.
    fn some_go_deaf(&mut self) -> bool {
        let mut has_deaf = false;
        for index in 0..self.people.len() {
            let who = &self.people[index];
            if !who.known || !who.may_ask() || self.coin() {
                continue;
            }
            let who = &mut self.people[index];
            (who.reads, who.was_deaf) = (false, true);
            self.world.set_reading(who.client, false);
            for _ in 0..DEAF_ASKS {
                self.ask(index, Ask::Nonsense(0));
            }
            has_deaf = true;
        }
        has_deaf
    }

    /// The server ends when all have heard what is theirs, or when its time is up.
    fn stop_in_time(&mut self, has_deaf: bool, has_arrived: bool) -> Result<(), Wrong> {
        let most_ms = if has_deaf || self.may_keep_waiting() { DRAIN_MS } else { LINGER_MS };
        let waits = self.people.iter().filter(|who| who.hears() && !who.is_answered()).count();
        let mut waited_ms = 0;
        while let Some(ms) = self.world.rest()? {
            if !self.world.is_running() || waited_ms + ms > most_ms {
                break;
            }
            self.world.leap(ms);
            waited_ms += ms;
        }
        if self.world.is_running() {
            return Err(format!("the server was told to stop, and goes on after {waited_ms} ms"));
        }
        self.count("fault stop before deaf clients", u64::from(has_deaf && waited_ms == DRAIN_MS));
        self.all_hear()?;
        if has_arrived && !self.may_keep_waiting() {
            self.check_answered()?;
            self.count("checked: who waits at a stop is answered", waits as u64);
        }
        Ok(())
    }

    /// Whether answers may be late because there is too little of something.
    pub(super) fn may_keep_waiting(&self) -> bool {
        self.is_short_of_memory() || self.may_want_room(self.now())
    }

    /// All that had arrived when the server was told to stop was answered, if anyone reads the answers.
    fn check_answered(&self) -> Result<(), Wrong> {
        let mut hears = self.people.iter().filter(|who| who.hears());
        match hears.find(|who| !who.is_answered()) {
            Some(who) => Err(format!("{who:?} was not answered when the server was told to stop")),
            None => Ok(()),
        }
    }

    /// The server is told to stop once more: it ends without waiting for anyone.
    fn stop_again(&mut self) -> Result<(), Wrong> {
        for _ in 0..self.below(4) {
            self.world.turn();
        }
        if self.coin() {
            let ms = self.below(3_000) as u64;
            self.world.leap(ms);
        }
        let begun_ms = self.world.elapsed_ms();
        self.count("fault second stop", u64::from(self.world.is_running()));
        self.world.signal(Event::Stop);
        self.world.rest()?;
        if self.world.is_running() || self.world.elapsed_ms() > begun_ms {
            return Err("the server was told twice to stop, and goes on".to_owned());
        }
        Ok(())
    }
}
