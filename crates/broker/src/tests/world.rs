//! What is plugged into the broker: sockets that are vectors, a clock that moves when told, a log that may be late.

use std::collections::BTreeMap;

use jobyard_engine::{ClientId, Limits};
use jobyard_log::MemoryLog;
use jobyard_protocols::{Options, find};

use super::codec::Lines;
use crate::event::{Action, Clock, Event, Sleep};
use crate::{Broker, Config, Door, Listening};

/// The listener of the clients that need no heartbeat, and of those that must be heard of every second.
pub(super) const PLAIN: usize = 0;
pub(super) const LIVELY: usize = 1;

pub(super) struct World {
    pub(super) broker: Broker<MemoryLog>,
    pub(super) clock: Clock,
    pub(super) sockets: BTreeMap<u64, Socket>,
    events: Vec<Event>,
    /// What the last turn wanted done.
    pub(super) actions: Vec<Action>,
    pub(super) exited: bool,
    pub(super) listening: bool,
    next: u64,
}

/// The far end of a connection.
pub(super) struct Socket {
    /// Sent by the client, not read by the broker.
    sent: Vec<u8>,
    ended: bool,
    gone: bool,
    /// The client is gone; what it had sent is there.
    left: bool,
    /// Written by the broker.
    pub(super) heard: String,
    /// How many bytes the kernel takes.
    room: usize,
    pub(super) finished: bool,
    pub(super) closed: bool,
}

impl Socket {
    /// What the broker has not read.
    pub(super) fn unread(&self) -> String {
        String::from_utf8(self.sent.clone()).unwrap()
    }
}

impl World {
    pub(super) fn new() -> Self {
        Self::open(Limits::default(), MemoryLog::new(7, 0))
    }

    pub(super) fn late(lateness: u32) -> Self {
        Self::open(Limits::default(), MemoryLog::new(7, lateness))
    }

    pub(super) fn limited(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        Self::open(limits, MemoryLog::new(7, 0))
    }

    pub(super) fn open(limits: Limits, log: MemoryLog) -> Self {
        let plain: Door = Box::new(|now| Box::new(Lines::new(None, now)));
        let lively: Door = Box::new(|now| Box::new(Lines::new(Some(1_000), now)));
        let clock = Clock { monotonic_ms: 0, boot: 0, wall_ms: 1_000_000 };
        let config = Config { limits, ..Config::default() };
        let broker = Broker::begin_with(config, vec![plain, lively], log, clock).unwrap();
        Self::with(broker.opened().unwrap(), clock)
    }

    /// A server with real listeners that has not read its log back.
    pub(super) fn begin(listeners: &[&str], log: MemoryLog) -> Self {
        let listening = |name: &&str| Listening { listener: find(name).unwrap(), options: Options::default() };
        let config = Config { listeners: listeners.iter().map(listening).collect(), ..Config::default() };
        let clock = Clock { monotonic_ms: 0, boot: 0, wall_ms: 2_000_000 };
        Self::with(Broker::begin(config, log, clock).unwrap(), clock)
    }

    fn with(broker: Broker<MemoryLog>, clock: Clock) -> Self {
        World {
            broker,
            clock,
            sockets: BTreeMap::new(),
            events: Vec::new(),
            actions: Vec::new(),
            exited: false,
            listening: true,
            next: 1,
        }
    }

    /// The server is killed and started again from what was durable.
    pub(super) fn restart(self, limits: Limits) -> Self {
        World::open(limits, self.broker.into_log().crash())
    }

    pub(super) fn connect(&mut self, listener: usize) -> u64 {
        let id = self.next;
        self.next += 1;
        let socket = Socket {
            sent: Vec::new(),
            ended: false,
            gone: false,
            left: false,
            heard: String::new(),
            room: usize::MAX,
            finished: false,
            closed: false,
        };
        self.sockets.insert(id, socket);
        self.events.push(Event::Accepted { client: ClientId(id), listener });
        id
    }

    /// The client sends this; the broker is not told yet.
    pub(super) fn send(&mut self, id: u64, text: &str) {
        self.socket(id).sent.extend_from_slice(text.as_bytes());
        self.events.push(Event::Readable(ClientId(id)));
    }

    /// The client stops sending.
    pub(super) fn end(&mut self, id: u64) {
        self.socket(id).ended = true;
        self.events.push(Event::Ending(ClientId(id)));
        self.events.push(Event::Readable(ClientId(id)));
    }

    /// The client closes its connection, whatever it has not heard.
    pub(super) fn leave(&mut self, id: u64) {
        self.socket(id).left = true;
        self.end(id);
    }

    /// A write fails, and nothing else is ever told of the connection.
    pub(super) fn lose(&mut self, id: u64) {
        self.events.push(Event::Lost(ClientId(id)));
    }

    /// The connection breaks.
    pub(super) fn cut(&mut self, id: u64) {
        self.socket(id).gone = true;
        self.events.push(Event::Gone(ClientId(id)));
    }

    /// The kernel takes only so many bytes more for this client.
    pub(super) fn clog(&mut self, id: u64, room: usize) {
        self.socket(id).room = room;
    }

    pub(super) fn unclog(&mut self, id: u64) {
        self.socket(id).room = usize::MAX;
        self.events.push(Event::Writable(ClientId(id)));
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.events.push(event);
    }

    pub(super) fn socket(&mut self, id: u64) -> &mut Socket {
        self.sockets.get_mut(&id).unwrap()
    }

    /// One turn, and what it wants done.
    pub(super) fn turn(&mut self) -> Sleep {
        self.actions.clear();
        let sleep = self.broker.turn(self.clock, &mut self.events, &mut self.actions);
        for action in self.actions.clone() {
            self.carry_out(action);
        }
        sleep
    }

    /// One turn, after which this connection turns out to be broken.
    pub(super) fn turn_with_broken(&mut self, id: u64) {
        self.socket(id).gone = true;
        self.turn();
    }

    /// Turns until nothing happens any more.
    pub(super) fn settle(&mut self) -> Sleep {
        for _ in 0..10_000 {
            let sleep = self.turn();
            if self.events.is_empty() && sleep != Sleep::No {
                return sleep;
            }
        }
        panic!("the broker never rests");
    }

    /// Time passes, from deadline to deadline.
    pub(super) fn pass(&mut self, mut ms: u64) {
        loop {
            let sleep = self.settle();
            let step = match sleep {
                Sleep::Millis(next) if next <= ms => next,
                _ => ms,
            };
            self.stall(step);
            ms -= step;
            if ms == 0 {
                self.settle();
                return;
            }
        }
    }

    /// Time passes and the broker sees nothing of it.
    pub(super) fn stall(&mut self, ms: u64) {
        self.clock.monotonic_ms += ms;
        self.clock.wall_ms += i64::try_from(ms).unwrap();
    }

    /// The client sends this; what it hears until the broker rests.
    pub(super) fn ask(&mut self, id: u64, text: &str) -> String {
        self.send(id, text);
        self.settle();
        self.hear(id)
    }

    /// What the client has heard since it was last asked.
    pub(super) fn hear(&mut self, id: u64) -> String {
        std::mem::take(&mut self.socket(id).heard)
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Read { client, at_most } => {
                let event = self.read(client, at_most);
                self.events.push(event);
            }
            Action::Write(client) => {
                let event = self.write(client);
                self.events.push(event);
            }
            Action::Finish(client) => self.socket(client.0).finished = true,
            Action::Close(client) => self.socket(client.0).closed = true,
            Action::CloseListeners => self.listening = false,
            Action::Exit => self.exited = true,
        }
    }

    fn read(&mut self, client: ClientId, at_most: usize) -> Event {
        let socket = self.socket(client.0);
        if socket.gone {
            return Event::Gone(client);
        }
        if socket.sent.is_empty() && socket.ended {
            return Event::Ended(client);
        }
        let count = at_most.min(socket.sent.len());
        let bytes = socket.sent.drain(..count).collect();
        Event::Received { client, bytes, more: !socket.sent.is_empty() || socket.ended }
    }

    fn write(&mut self, client: ClientId) -> Event {
        let output = String::from_utf8(self.broker.output(client).to_vec()).unwrap();
        assert!(!output.is_empty(), "a write of nothing");
        let socket = self.socket(client.0);
        assert!(!socket.closed && !socket.finished, "a write after the end");
        if socket.gone || socket.left {
            return Event::Lost(client);
        }
        let count = output.len().min(socket.room);
        socket.room -= if socket.room == usize::MAX { 0 } else { count };
        socket.heard.push_str(&output[..count]);
        Event::Wrote { client, count }
    }
}
