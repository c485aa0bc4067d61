//! How much more processor time a request costs the server when millions of jobs wait: what `bench/growth-server`
//! runs. Usage: `growth_server JOBYARD MANY`, where JOBYARD is the binary to measure.
//!
//! Two servers, one with few and one with many waiting jobs, are measured in turn: what else the machine does, it does
//! to both.
#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use mio::{Events, Interest, Poll, Token};

const FEW: u64 = 10_000;
const MANY: u64 = 5_000_000;
const CONNECTIONS: usize = 10;
/// Jobs that are put, taken and finished over each connection in one repetition.
const CYCLES: usize = 2_000;
const REQUESTS_PER_CYCLE: usize = 3;
const REPETITIONS: usize = 7;
const GROWTH_MAX: f64 = 2.0;
const BODY_BYTES: u32 = 100;
const BODY: [u8; BODY_BYTES as usize] = [b'x'; BODY_BYTES as usize];
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: growth_server JOBYARD [MANY]";
    let jobyard = arguments.next().context(usage)?;
    let many = arguments.next().map_or(Ok(MANY), |text| text.parse()).context(usage)?;
    ensure!(arguments.next().is_none() && many > 0, usage);

    println!("server CPU, in microseconds a request, over {CONNECTIONS} connections, one request at a time over each:");
    println!(
        "{:<10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>12}",
        "priorities",
        format!("at {FEW}"),
        format!("at {many}"),
        "growth",
        "min",
        "max",
        "at most",
        "bytes a job"
    );
    let mut within = true;
    for priorities in [Priorities::Equal, Priorities::Random] {
        let measured = measure(Path::new(&jobyard), many, priorities)?;
        let growth = Spread::of(measured.pairs.iter().map(|pair| pair.at_many / pair.at_few));
        println!(
            "{:<10} {:>10.2} {:>10.2} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>12.0}",
            format!("{priorities:?}").to_lowercase(),
            Spread::of(measured.pairs.iter().map(|pair| pair.at_few)).median,
            Spread::of(measured.pairs.iter().map(|pair| pair.at_many)).median,
            growth.median,
            growth.min,
            growth.max,
            GROWTH_MAX,
            measured.bytes_per_job,
        );
        within &= growth.median <= GROWTH_MAX;
    }
    println!(
        "(medians of {REPETITIONS} repetitions of {} requests; growth is within each repetition; bodies of {BODY_BYTES} bytes)",
        CONNECTIONS * CYCLES * REQUESTS_PER_CYCLE,
    );
    Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Which priorities jobs are put with.
#[derive(Clone, Copy, Debug)]
enum Priorities {
    Equal,
    /// Each job as likely to come before as after any that waits, however many were taken already: the last priority
    /// that was taken, and a random number. Without that, jobs put late would be more urgent than what is left of the
    /// first, and the soonest so where few wait.
    Random,
}

/// Random priorities reach so far beyond the last that was taken.
const REACH: u32 = 1 << 27;
const _: () = {
    let generations = ((REPETITIONS + 1) * CYCLES * CONNECTIONS) as u64 / FEW;
    assert!((generations + 1) * (REACH as u64) < 1 << 32, "priorities must not overflow");
};

struct Measured {
    pairs: Vec<Pair>,
    bytes_per_job: f64,
}

/// Microseconds a request, measured one after the other.
struct Pair {
    at_few: f64,
    at_many: f64,
}

fn measure(jobyard: &Path, many: u64, priorities: Priorities) -> Result<Measured> {
    let mut few_jobs = Subject::start(jobyard, priorities)?;
    let mut many_jobs = Subject::start(jobyard, priorities)?;
    few_jobs.fill(FEW)?;
    let empty_bytes = many_jobs.server.resident_bytes()?;
    many_jobs.fill(many)?;
    let bytes = many_jobs.server.resident_bytes()? - empty_bytes;
    // The first time, caches and buffers are cold.
    few_jobs.cycles()?;
    many_jobs.cycles()?;
    let mut pairs = Vec::new();
    for repetition in 0..REPETITIONS {
        // Neither is always the first.
        let (at_few, at_many) = if repetition % 2 == 0 {
            (few_jobs.cycles()?, many_jobs.cycles()?)
        } else {
            let at_many = many_jobs.cycles()?;
            (few_jobs.cycles()?, at_many)
        };
        pairs.push(Pair { at_few, at_many });
    }
    Ok(Measured { pairs, bytes_per_job: bytes / many as f64 })
}

/// A server with waiting jobs, and the connections over which it is used.
struct Subject {
    server: Server,
    priorities: Priorities,
    dice: Dice,
    /// The priority of the job that was last taken.
    taken: u32,
    poll: Poll,
    events: Events,
    clients: Vec<Client>,
}

impl Subject {
    fn start(jobyard: &Path, priorities: Priorities) -> Result<Subject> {
        let server = Server::start(jobyard)?;
        let poll = Poll::new()?;
        let mut clients = Vec::new();
        for index in 0..CONNECTIONS {
            let mut stream = mio::net::TcpStream::from_std(server.connect()?);
            stream.set_nodelay(true)?;
            poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            clients.push(Client { stream, doing: Doing::Nothing, heard: Vec::new(), taken: 0 });
        }
        Ok(Subject {
            server,
            priorities,
            dice: Dice(1),
            taken: 0,
            poll,
            events: Events::with_capacity(CONNECTIONS),
            clients,
        })
    }

    /// Puts so many jobs over one connection, many at a time.
    fn fill(&mut self, jobs: u64) -> Result<()> {
        const AT_ONCE: u64 = 1_000;
        let mut stream = self.server.connect()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (mut requests, mut replies) = (Vec::new(), Vec::new());
        for start in (0..jobs).step_by(usize::try_from(AT_ONCE)?) {
            let count = AT_ONCE.min(jobs - start);
            requests.clear();
            for _ in 0..count {
                write_add(&mut requests, self.priority());
            }
            stream.write_all(&requests)?;
            replies.resize(usize::try_from(count)? * ADDED_BYTES, 0);
            stream.read_exact(&mut replies)?;
            ensure!(replies.chunks(ADDED_BYTES).all(|reply| reply.starts_with(ADDED)), "a job was not put");
        }
        Ok(())
    }

    /// Puts, takes and finishes jobs over all connections at once. Returns the server's microseconds for each request.
    fn cycles(&mut self) -> Result<f64> {
        let before = self.server.cpu_ns()?;
        let mut begun = 0;
        let mut busy = 0;
        for index in 0..CONNECTIONS {
            self.begin(index, &mut begun, &mut busy)?;
        }
        while busy > 0 {
            self.poll.poll(&mut self.events, Some(PATIENCE))?;
            ensure!(!self.events.is_empty(), "the server does not answer");
            let ready: Vec<usize> = self.events.iter().map(|event| event.token().0).collect();
            for index in ready {
                if let Some(priority) = self.clients[index].go_on()? {
                    self.taken = priority;
                    busy -= 1;
                    self.begin(index, &mut begun, &mut busy)?;
                }
            }
        }
        let ns = self.server.cpu_ns()? - before;
        Ok(ns as f64 / 1_000.0 / (begun * REQUESTS_PER_CYCLE) as f64)
    }

    /// Begins the next cycle over a connection, if there is one to begin.
    fn begin(&mut self, index: usize, begun: &mut usize, busy: &mut usize) -> Result<()> {
        if *begun < CYCLES * CONNECTIONS {
            let priority = self.priority();
            self.clients[index].put(priority)?;
            *begun += 1;
            *busy += 1;
        }
        Ok(())
    }

    fn priority(&mut self) -> u32 {
        match self.priorities {
            Priorities::Equal => 0,
            Priorities::Random => self.taken + self.dice.roll() % REACH,
        }
    }
}

const ADDED: &[u8] = b"ADDED\0";
const ADDED_BYTES: usize = ADDED.len() + 8;
const RESERVED: &[u8] = b"RESERVED\0";
const RESERVED_BYTES: usize = RESERVED.len() + 8 + 4 + 4 + b"reserved\0".len() + 4 + BODY.len();
const DELETED: &[u8] = b"OK\0";

/// Puts a job whose lease lasts a minute, in the Go Job Queue's protocol.
fn write_add(out: &mut Vec<u8>, priority: u32) {
    let ttp_s: u32 = 60;
    out.extend_from_slice(b"ADD\0mail\0");
    for number in [priority, ttp_s, BODY_BYTES] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&BODY);
}

/// One connection, with one request at a time.
struct Client {
    stream: mio::net::TcpStream,
    doing: Doing,
    heard: Vec<u8>,
    /// The priority of the job that was last taken.
    taken: u32,
}

#[derive(Clone, Copy)]
enum Doing {
    Nothing,
    Putting,
    Taking,
    Finishing,
}

impl Client {
    fn put(&mut self, priority: u32) -> Result<()> {
        let mut request = Vec::with_capacity(200);
        write_add(&mut request, priority);
        self.ask(Doing::Putting, &request)
    }

    /// Reads on, and asks for the next step if the last was answered. After the last step, says the priority of the job
    /// that was finished.
    fn go_on(&mut self) -> Result<Option<u32>> {
        self.receive()?;
        let (word, length) = match self.doing {
            Doing::Nothing => (&b""[..], 0),
            Doing::Putting => (ADDED, ADDED_BYTES),
            Doing::Taking => (RESERVED, RESERVED_BYTES),
            Doing::Finishing => (DELETED, DELETED.len()),
        };
        if self.heard.len() < length {
            return Ok(None);
        }
        let heard = std::mem::take(&mut self.heard);
        ensure!(heard.len() == length && heard.starts_with(word), "heard {}", heard.escape_ascii());
        match self.doing {
            Doing::Nothing => {}
            Doing::Putting => self.ask(Doing::Taking, b"RESERVE\0mail\0\0\0\0\0")?,
            Doing::Taking => {
                let (id, rest) = heard[word.len()..].split_at(8);
                self.taken = u32::from_le_bytes(rest[..4].try_into()?);
                self.ask(Doing::Finishing, &[b"DELETE\0", id].concat())?;
            }
            Doing::Finishing => {
                self.doing = Doing::Nothing;
                return Ok(Some(self.taken));
            }
        }
        Ok(None)
    }

    fn ask(&mut self, doing: Doing, request: &[u8]) -> Result<()> {
        self.doing = doing;
        // Nothing else is on its way, so that there is room.
        let written = self.stream.write(request)?;
        ensure!(written == request.len(), "a request was not taken whole");
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        let mut bytes = [0; 512];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => bail!("the server closed the connection"),
                Ok(count) => self.heard.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A server that ends with this value.
struct Server {
    child: Child,
    place: SocketAddr,
}

impl Server {
    fn start(jobyard: &Path) -> Result<Server> {
        let mut command = Command::new(jobyard);
        command.args(["serve", "--memory", "--log-level", "error", "--listen", "goqueue://127.0.0.1:0"]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("JOBYARD_")) {
            command.env_remove(name);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let child = child.with_context(|| format!("cannot start {}", jobyard.display()))?;
        let mut server = Server { child, place: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let mut line = String::new();
        let stdout = server.child.stdout.as_mut().context("it has a stdout")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let place = line.trim().strip_prefix("listening on goqueue://");
        server.place = place.with_context(|| format!("the server said: {line}"))?.parse()?;
        Ok(server)
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.place, PATIENCE)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// The processor time that all its threads took, from the scheduler, which counts more finely than the clock ticks.
    fn cpu_ns(&self) -> Result<u64> {
        let mut sum = 0;
        for thread in fs::read_dir(self.proc("task"))? {
            let text = fs::read_to_string(thread?.path().join("schedstat")).context("the kernel has no schedstat")?;
            sum += text.split_whitespace().next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(sum)
    }

    fn resident_bytes(&self) -> Result<f64> {
        let status = fs::read_to_string(self.proc("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")).context("the kernel does not tell VmRSS")?;
        Ok(kib.trim().parse::<f64>()? * 1024.0)
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is nobody to tell if it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The middle and the ends of some figures.
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Spread {
    fn of(figures: impl Iterator<Item = f64>) -> Spread {
        let mut figures: Vec<f64> = figures.collect();
        figures.sort_by(f64::total_cmp);
        Spread { min: figures[0], median: figures[figures.len() / 2], max: figures[figures.len() - 1] }
    }
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }
}
