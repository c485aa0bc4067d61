//! Fills the engine with waiting jobs, then puts, leases and completes some more: what `bench/growth`
//! counts the instructions of. Usage: `growth WAITING equal|random CYCLES`.

use std::hint::black_box;

use jobyard_engine::{
    By, Choice, ClientId, Command, Engine, Hold, JobRef, LeaseRequest, Limits, NewJob, Now, Parting, QueueName, Reply,
    Wait,
};

const CLIENT: ClientId = ClientId(1);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let usage = "usage: growth WAITING equal|random CYCLES";
    let waiting: u64 = arguments.get(1).and_then(|text| text.parse().ok()).expect(usage);
    let random = arguments.get(2).expect(usage) == "random";
    let cycles: u64 = arguments.get(3).and_then(|text| text.parse().ok()).expect(usage);

    let mut engine = Engine::new(Limits::default(), 1, 0);
    let mut dice = Dice(1);
    engine.begin_stretch();
    for _ in 0..waiting {
        enqueue(&mut engine, &mut dice, random);
        engine.clear_records();
    }
    measured(&mut engine, &mut dice, random, cycles);
    black_box(&engine);
}

/// What is counted: callgrind collects inside this function only.
#[inline(never)]
fn measured(engine: &mut Engine, dice: &mut Dice, random: bool, cycles: u64) {
    for _ in 0..cycles {
        enqueue(engine, dice, random);
        let number = lease(engine);
        complete(engine, number);
        engine.clear_records();
    }
}

fn enqueue(engine: &mut Engine, dice: &mut Dice, random: bool) {
    let mut job = NewJob::plain(QueueName::new(b"mail"), vec![b'x'; 100].into());
    if random {
        job.urgency = i128::from(dice.roll() % 1_000_000_007);
    }
    engine.handle(NOW, CLIENT, Command::Enqueue(Box::new(job)), &mut |_, reply| {
        assert!(matches!(reply, Reply::Enqueued { .. }));
    });
}

fn lease(engine: &mut Engine) -> u64 {
    let request = LeaseRequest {
        queues: vec![QueueName::new(b"mail")],
        choice: Choice::Best,
        hold: Hold::Connection(Parting::Release),
        wait: Wait::No,
        creates_queues: false,
        body_without: None,
        heeds_ms: None,
    };
    let mut leased = None;
    engine.handle(NOW, CLIENT, Command::Lease(Box::new(request)), &mut |_, reply| {
        if let Reply::Leased { job, .. } = reply {
            leased = Some(job.number);
        }
    });
    leased.expect("there is a job")
}

fn complete(engine: &mut Engine, number: u64) {
    let command = Command::Complete { job: JobRef::Number(number), by: By::Holder, result: Box::default() };
    engine.handle(NOW, CLIENT, command, &mut |_, reply| assert_eq!(reply, Reply::Done));
}

const NOW: Now = Now { engine_ms: 1, wall_ms: 1, random: 1 };

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
