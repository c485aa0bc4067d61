//! One protocol's codec: from the bytes of a request to the engine's command, and from the engine's reply to bytes. What the
//! engine does in between is not counted.

use jobyard_engine::{ClientId, Engine, Limits, Now};
use jobyard_protocols::{Codec, Context, Health, Host, Input, LogView, Next, Options, Tallies};

use crate::measured;
use crate::requests::Requests;

const CLIENT: ClientId = ClientId(1);
const NOW: Now = Now { engine_ms: 1, wall_ms: 1, random: 1 };

pub fn codec(protocol: &str, count: u64) {
    let requests = Requests::of(protocol);
    let mut talk = Talk::new(&requests);
    for number in 0..count / 3 {
        talk.ask(&requests.put(number));
        talk.ask(&requests.take);
        let finish = requests.finish(&talk.out);
        talk.ask(&finish);
    }
}

/// A codec, and the engine that it speaks for.
struct Talk {
    codec: Box<dyn Codec>,
    engine: Engine,
    limits: Limits,
    tallies: Tallies,
    host: Host,
    input: Input,
    out: Vec<u8>,
}

impl Talk {
    fn new(requests: &Requests) -> Talk {
        let mut engine = Engine::new(Limits::default(), 1, 0);
        engine.begin_stretch();
        let mut talk = Talk {
            codec: requests.listener.open(&Options::default(), NOW),
            engine,
            limits: Limits::default(),
            tallies: Tallies::default(),
            host: Host::default(),
            input: Input::default(),
            out: Vec::new(),
        };
        // Connecting may be a request itself.
        talk.decode_all();
        talk.ask(requests.greeting());
        talk
    }

    fn ask(&mut self, request: &[u8]) {
        self.out.clear();
        self.input.push(request);
        self.decode_all();
        assert!(self.input.is_empty(), "there is more than was understood");
        self.engine.clear_records();
    }

    fn decode_all(&mut self) {
        let Talk { codec, engine, limits, tallies, host, input, out } = self;
        let context = Context {
            now: NOW,
            limits,
            clients: 1,
            clients_total: 1,
            client: 1,
            started_wall_ms: 0,
            health: Health::Ready,
            tallies,
            host,
            log: LogView::default(),
        };
        while let Next::Command(command) = measured(|| codec.decode(input, out, &context)) {
            engine.handle(NOW, CLIENT, command, &mut |_, reply| measured(|| codec.encode(&reply, out, &context)));
            if input.is_empty() {
                break;
            }
        }
    }
}
