//! The loop: waits for sockets and signals, gives the broker its turn, and carries out its actions. It decides
//! nothing.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use jobyard_broker::{Action, Broker, Event, Failure, Sleep};
use jobyard_log::Log;

use crate::clock::Time;
use crate::net::Net;
use crate::signals::Signals;
use crate::watch::Watch;

/// Turns between two polls. Three answer a request with three system calls in all (wait, read, write): it is readable,
/// it was read, it was answered. After that, whoever became ready meanwhile must get a word in.
const TURNS_PER_POLL: usize = 3;

/// A broker and the cables plugged into it.
pub struct Server<L: Log> {
    /// The sockets.
    pub net: Net,
    broker: Broker<L>,
    signals: Signals,
    events: Vec<Event>,
    actions: Vec<Action>,
}

/// What came of one poll and the turns after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// The broker is done.
    Exit,
    /// The broker goes on.
    On {
        /// Whether anything happened or was done.
        busy: bool,
        /// How long the next poll may wait.
        sleep: Sleep,
    },
}

impl<L: Log> Server<L> {
    /// Plugs the cables in.
    pub fn new(net: Net, signals: Signals, broker: Broker<L>) -> Server<L> {
        Server { net, broker, signals, events: Vec::new(), actions: Vec::new() }
    }

    /// Runs until the broker is done.
    pub fn run(mut self, time: &impl Time) -> Result<()> {
        let mut sleep = Sleep::No;
        let mut watch = Watch::new();
        let mut look_again = None;
        while let Round::On { sleep: next, .. } = self.round(time, sooner(timeout(sleep), look_again))? {
            look_again = watch.look(&self.broker);
            sleep = next;
        }
        watch.look(&self.broker);
        match self.broker.failure() {
            Some(Failure::Open(error)) => Err(error.clone()).context("cannot start"),
            Some(failure) => bail!("nothing more is acknowledged: {failure}"),
            None => Ok(()),
        }
    }

    /// Waits at most so long for something to happen, and gives the broker its turns. They all happen at the moment
    /// of the poll, however long they take: what arrives after it is known only in the next round, and the broker must
    /// not believe that it did not come in time.
    pub fn round(&mut self, time: &impl Time, timeout: Option<Duration>) -> Result<Round> {
        let polled = self.net.poll(timeout, &mut self.events).context("cannot wait for sockets")?;
        if polled.signals {
            self.signals.take(&mut self.events);
        }
        let now = time.now();
        let mut busy = polled.any || !self.events.is_empty();
        for _ in 0..TURNS_PER_POLL {
            let sleep = self.broker.turn(now, &mut self.events, &mut self.actions);
            busy |= !self.actions.is_empty();
            if self.carry_out() {
                return Ok(Round::Exit);
            }
            if self.events.is_empty() {
                return Ok(Round::On { busy, sleep });
            }
        }
        Ok(Round::On { busy: true, sleep: Sleep::No })
    }

    /// The broker.
    pub fn broker(&self) -> &Broker<L> {
        &self.broker
    }

    /// The broker, to be tampered with.
    pub fn broker_mut(&mut self) -> &mut Broker<L> {
        &mut self.broker
    }

    /// Another broker takes over; what the old one was about to do is forgotten.
    pub fn replace(&mut self, broker: Broker<L>) {
        self.broker = broker;
        self.events.clear();
        self.actions.clear();
    }

    /// Something happens that is neither socket nor signal.
    pub fn happens(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Carries out the turn's actions. Says whether all is done.
    fn carry_out(&mut self) -> bool {
        let mut exit = false;
        for action in self.actions.drain(..) {
            match action {
                Action::Read { client, at_most } => self.events.extend(self.net.read(client, at_most)),
                Action::Write(client) => self.events.extend(self.net.write(client, self.broker.output(client))),
                Action::Finish(client) => self.net.finish(client),
                Action::Close(client) => self.net.close(client),
                Action::CloseListeners => self.net.close_listeners(),
                Action::Exit => exit = true,
            }
        }
        exit
    }
}

/// The shorter of two waits, of which either may last for ever.
fn sooner(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

fn timeout(sleep: Sleep) -> Option<Duration> {
    match sleep {
        Sleep::No => Some(Duration::ZERO),
        Sleep::Millis(ms) => Some(Duration::from_millis(ms)),
        Sleep::Forever => None,
    }
}
