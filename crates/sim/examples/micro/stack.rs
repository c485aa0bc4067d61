//! All of the server but its sockets and its disk: turns of a broker that keeps its jobs in memory.

use jobyard_broker::{Action, Broker, Clock, Config, Event, Listening, SLOT_BITS};
use jobyard_engine::{ClientId, Limits};
use jobyard_log::Discard;
use jobyard_protocols::Options;

use crate::measured;
use crate::requests::Requests;

const CLOCK: Clock = Clock { monotonic_ms: 1, boot: 1, wall_ms: 1_767_225_600_000 };

/// One client with 64 requests in flight: an operation is one of them.
pub fn pipelined(protocol: &str, count: u64) {
    const DEPTH: usize = 64;
    let requests = Requests::of(protocol);
    let mut world = World::new(&requests, 1);
    let mut number = 0;
    for _ in 0..count / (3 * DEPTH as u64) {
        let mut puts = Vec::new();
        for _ in 0..DEPTH {
            puts.extend(requests.put(number));
            number += 1;
        }
        world.clients[0].sent = puts;
        world.round();
        world.clients[0].sent = requests.take.repeat(DEPTH);
        world.round();
        world.clients[0].sent = requests.finish(&world.clients[0].heard);
        world.round();
    }
    assert_eq!(world.broker.jobs(), 0, "all were finished");
}

/// Fifty clients of beanstalkd's protocol, each of which has one request a turn.
pub fn one_at_a_time(count: u64) {
    const CLIENTS: u64 = 50;
    let requests = Requests::of("beanstalkd");
    let mut world = World::new(&requests, CLIENTS);
    for _ in 0..count / (3 * CLIENTS) {
        for client in &mut world.clients {
            client.sent = requests.put(0);
        }
        world.round();
        for client in &mut world.clients {
            client.sent.clone_from(&requests.take);
        }
        world.round();
        for client in &mut world.clients {
            client.sent = requests.finish(&client.heard);
        }
        world.round();
    }
    assert_eq!(world.broker.jobs(), 0, "all were finished");
}

/// A broker, and what its clients send and hear.
struct World {
    broker: Broker<Discard>,
    clients: Vec<Client>,
    events: Vec<Event>,
    actions: Vec<Action>,
    counts: bool,
}

struct Client {
    id: ClientId,
    sent: Vec<u8>,
    heard: Vec<u8>,
}

impl World {
    fn new(requests: &Requests, clients: u64) -> World {
        let listening = Listening { listener: requests.listener, options: Options::default() };
        let config = Config { limits: Limits::default(), listeners: vec![listening], ..Config::default() };
        let broker = Broker::open(config, Discard::default(), CLOCK).expect("there is nothing to read");
        let mut world = World { broker, clients: Vec::new(), events: Vec::new(), actions: Vec::new(), counts: false };
        for slot in 0..clients {
            let id = ClientId((slot + 1) << SLOT_BITS | slot);
            world.events.push(Event::Accepted { client: id, listener: 0 });
            world.clients.push(Client { id, sent: Vec::new(), heard: Vec::new() });
        }
        for client in &mut world.clients {
            client.sent = requests.greeting().to_vec();
        }
        world.round();
        world.counts = true;
        world
    }

    /// Everyone who has sent something is answered.
    fn round(&mut self) {
        for client in &mut self.clients {
            client.heard.clear();
            if !client.sent.is_empty() {
                self.events.push(Event::Readable(client.id));
            }
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        loop {
            let World { broker, events, actions, .. } = self;
            if self.counts {
                measured(|| broker.turn(CLOCK, events, actions));
            } else {
                broker.turn(CLOCK, events, actions);
            }
            for action in std::mem::take(&mut self.actions) {
                self.carry_out(action);
            }
            if self.events.is_empty() {
                return;
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Read { client, .. } => {
                let bytes = std::mem::take(&mut self.client(client).sent);
                self.events.push(Event::Received { client, bytes, more: false });
            }
            Action::Write(client) => {
                let output = self.broker.output(client).to_vec();
                self.client(client).heard.extend_from_slice(&output);
                self.events.push(Event::Wrote { client, count: output.len() });
            }
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn client(&mut self, id: ClientId) -> &mut Client {
        self.clients.iter_mut().find(|client| client.id == id).expect("it is connected")
    }
}
