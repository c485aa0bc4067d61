//! A protocol to test with: one word a line, one line an answer.

use std::cell::Cell;

use jobyard_engine::{
    By, Choice, Command, DateRank, Hold, JobRef, LeaseRequest, Look, NewJob, Now, Parting, QueueName, Reply, Start,
    Wait, Which,
};
use jobyard_protocols::{Codec, Context, Farewell, Input, Line, Next};

thread_local! {
    /// How many listings were written in this test.
    pub(super) static LISTINGS: Cell<u32> = const { Cell::new(0) };
}

/// `put QUEUE BODY`, `at WALL_MS QUEUE` (an empty body), `get QUEUE` (held until the connection ends), `hold QUEUE` (and its end is a failure), `keep QUEUE` (for ever), `lease QUEUE MS`,
/// `wait QUEUE MS`, `await-lease QUEUE MS` (waits for ever), `rm NUMBER`, `len QUEUE`, `jobs QUEUE`, `run QUEUE MS`, `await NUMBER MS`; without the engine: `echo TEXT`, `fill BYTES`, `health`, `bye`.
/// `hoard` keeps all that follows for ever, as a part of a request that never becomes whole.
pub(super) struct Lines {
    hoard: Option<Vec<u8>>,
    heartbeat_ms: Option<u64>,
    deadline_ms: u64,
}

impl Lines {
    pub(super) fn new(heartbeat_ms: Option<u64>, now: Now) -> Self {
        Lines { hoard: None, heartbeat_ms, deadline_ms: now.engine_ms + heartbeat_ms.unwrap_or(0) }
    }

    fn alive(&mut self, context: &Context<'_>) {
        self.deadline_ms = context.now.engine_ms + self.heartbeat_ms.unwrap_or(0);
    }
}

impl Codec for Lines {
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        if let Some(hoard) = &mut self.hoard {
            hoard.extend_from_slice(input.bytes());
            input.consume(input.len());
            return Next::More;
        }
        let Line::Whole(len) = input.line(usize::MAX) else { return Next::More };
        let line = String::from_utf8(input.bytes()[..len].to_vec()).unwrap();
        input.consume(len + 1);
        self.alive(context);
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[..] {
            ["echo", ..] => out.extend_from_slice(format!("{}\n", &line[5..]).as_bytes()),
            ["fill", bytes] => out.extend(std::iter::repeat_n(b'.', bytes.parse().unwrap())),
            ["hoard"] => self.hoard = Some(Vec::new()),
            ["health"] => out.extend_from_slice(format!("{:?}\n", context.health).as_bytes()),
            ["bye"] => {
                out.extend_from_slice(b"bye\n");
                return Next::Close;
            }
            _ => return Next::Command(command(&words)),
        }
        Next::Answered
    }

    fn encode(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
        self.alive(context);
        let text = match reply {
            Reply::Enqueued { number, .. } => format!("put {number}"),
            Reply::Leased { job, .. } => format!("job {} {}", job.number, String::from_utf8_lossy(job.body)),
            Reply::NoJob => "none".to_owned(),
            Reply::Done => "done".to_owned(),
            Reply::Queue(queue) => format!("len {} {}", queue.counts.ready, queue.counts.leased),
            Reply::TimedOut => "late".to_owned(),
            Reply::Refused(refusal) => format!("{refusal:?}"),
            Reply::Jobs(jobs) => {
                LISTINGS.set(LISTINGS.get() + 1);
                format!("{} jobs", jobs.len())
            }
            other => panic!("{other:?}"),
        };
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    }

    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{}\n", why.text()).as_bytes());
    }

    fn end(&mut self, input: &Input, out: &mut Vec<u8>) {
        if !input.is_empty() {
            out.extend_from_slice(b"cut short\n");
        }
    }

    fn unfinished_bytes(&self) -> usize {
        self.hoard.as_ref().map_or(0, Vec::len)
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.heartbeat_ms.map(|_| self.deadline_ms)
    }

    fn deadline_passed(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"silent\n");
    }

    fn postpone(&mut self, by_ms: u64) {
        self.deadline_ms += by_ms;
    }
}

fn command(words: &[&str]) -> Command {
    let lease = |queue: &str, hold, wait| {
        let queues = vec![QueueName::new(queue.as_bytes())];
        let (creates_queues, body_without) = (false, None);
        Command::Lease(Box::new(LeaseRequest {
            queues,
            choice: Choice::Best,
            hold,
            wait,
            creates_queues,
            body_without,
            heeds_ms: None,
        }))
    };
    let plain =
        |queue: &str, body: &str| Box::new(NewJob::plain(QueueName::new(queue.as_bytes()), body.as_bytes().into()));
    let held = Hold::Connection(Parting::Release);
    let number = |text: &str| JobRef::Number(text.parse().unwrap());
    match *words {
        ["put", queue, body] => Command::Enqueue(plain(queue, body)),
        ["at", wall_ms, queue] => {
            let start = Start::At { wall_ms: wall_ms.parse().unwrap(), rank: DateRank::Ahead };
            Command::Enqueue(Box::new(NewJob {
                start,
                ..NewJob::plain(QueueName::new(queue.as_bytes()), (*b"").into())
            }))
        }
        ["get", queue] => lease(queue, held, Wait::No),
        ["hold", queue] => lease(queue, Hold::Connection(Parting::Fail), Wait::No),
        ["keep", queue] => lease(queue, Hold::Endless, Wait::No),
        ["lease", queue, ms] => lease(queue, Hold::For(ms.parse().unwrap()), Wait::No),
        ["await-lease", queue, ms] => lease(queue, Hold::For(ms.parse().unwrap()), Wait::Forever),
        ["wait", queue, ms] => lease(queue, held, Wait::Millis(ms.parse().unwrap())),
        ["rm", job] => Command::Remove { job: number(job), by: By::Anyone },
        ["len", queue] => Command::Look(Look::Queue(QueueName::new(queue.as_bytes()))),
        ["jobs", queue] => {
            let (queue, which) = (QueueName::new(queue.as_bytes()), Which::Ready);
            Command::Look(Look::Jobs { queue, which, offset: 0, count_max: 100 })
        }
        ["run", queue, ms] => Command::Run { job: plain(queue, ""), wait_ms: ms.parse().unwrap() },
        ["await", job, ms] => Command::Await { job: number(job), wait_ms: ms.parse().unwrap() },
        _ => panic!("no such command: {words:?}"),
    }
}
