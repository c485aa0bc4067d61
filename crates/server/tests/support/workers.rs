//! Many Job Centre workers in one thread, the jobs that they are given, and how some of them go.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Registry, Token};
use rustix::net::sockopt::set_socket_linger;

use crate::support::PATIENCE;

/// A crowd of workers, and the one who puts jobs.
pub struct Crowd {
    place: SocketAddr,
    poll: Poll,
    events: Events,
    workers: Vec<Worker>,
    putter: Connection,
    jobs: Vec<Job>,
    /// The ids that the server gave to the jobs that were put, in their order.
    ids: Vec<u64>,
    done: usize,
}

/// One job, as the crowd knows it.
struct Job {
    queue: String,
    id: Option<u64>,
    /// Who was given it last.
    holder: Option<usize>,
    done: bool,
}

/// One worker: gets a job, says that it is done, gets the next.
struct Worker {
    connection: Connection,
    queues: Vec<String>,
    state: State,
    exit: Option<Exit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its `get` has no answer yet.
    Waiting,
    /// It has a job, and has done nothing about it.
    Holding,
    /// It has deleted this job and asked for the next; neither was answered yet.
    Deleting(usize),
    /// It sends nothing more, but hears the answer to its `get`, if that had none, and the end.
    Leaving {
        waiting: bool,
    },
    Gone,
}

/// That a worker goes, and when and how.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// Not before so many jobs are done.
    pub after: usize,
    /// And then at this moment.
    pub moment: Moment,
    /// In this way.
    pub manner: Manner,
}

/// At which moment a worker goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// While it waits.
    Waiting,
    /// While it waits, just when jobs are put: one may soon be given to it.
    JobsPut,
    /// While it has not heard of any, just when jobs were said to be put: one may have been sent to it.
    JobsSent,
    /// With a job that it has been given and not deleted.
    Holding,
}

/// How a worker goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It closes its socket.
    Close,
    /// Its connection is reset.
    Reset,
    /// It stops sending, and waits for the server to close.
    EndInput,
}

const PUTTER: Token = Token(usize::MAX >> 1);
const OK: &str = r#"{"status":"ok"}"#;
const NO_JOB: &str = r#"{"status":"no-job"}"#;

impl Crowd {
    /// A crowd of nobody yet.
    pub fn new(place: SocketAddr) -> Crowd {
        let poll = Poll::new().unwrap();
        let putter = Connection::open(place, poll.registry(), PUTTER);
        Crowd {
            place,
            poll,
            events: Events::with_capacity(1024),
            workers: Vec::new(),
            putter,
            jobs: Vec::new(),
            ids: Vec::new(),
            done: 0,
        }
    }

    /// Jobs that are done.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Jobs that were put and are not done.
    pub fn open(&self) -> usize {
        self.jobs.len() - self.done
    }

    /// Workers that have not gone.
    pub fn here(&self) -> usize {
        self.workers.iter().filter(|worker| worker.state != State::Gone).count()
    }

    /// Workers that did not go when they should have.
    pub fn stragglers(&self) -> Vec<Exit> {
        self.workers.iter().filter_map(|worker| worker.exit).collect()
    }

    /// Adds workers, one for each list of queues. When this returns, all of them wait.
    pub fn join(&mut self, crew: impl IntoIterator<Item = (Vec<String>, Option<Exit>)>) {
        let first = self.workers.len();
        for (queues, exit) in crew {
            let token = Token(self.workers.len());
            let mut connection = Connection::open(self.place, self.poll.registry(), token);
            // The second request is read with the first, so the answer to the first shows that the second waits.
            connection.send(&(get(&["nobody puts anything here".to_owned()], false) + &get(&queues, true)));
            self.workers.push(Worker { connection, queues, state: State::Waiting, exit });
        }
        for worker in &mut self.workers[first..] {
            assert_eq!(worker.connection.wait_for_line(&mut self.poll, &mut self.events), NO_JOB);
        }
    }

    /// Puts jobs, one into each of these queues, in one go.
    pub fn put(&mut self, queues: impl IntoIterator<Item = (String, u64)>) {
        let mut requests = String::new();
        for (queue, priority) in queues {
            let number = self.jobs.len();
            requests += &format!(
                "{{\"request\":\"put\",\"queue\":\"{queue}\",\"job\":{{\"number\":{number}}},\"pri\":{priority}}}\n"
            );
            self.jobs.push(Job { queue, id: None, holder: None, done: false });
        }
        self.putter.send(&requests);
        self.leave_where(Moment::JobsPut);
    }

    /// Waits until something happens, and does what is to be done about it.
    pub fn go_on(&mut self) {
        let happened = self.wait(PATIENCE);
        assert!(!happened.is_empty(), "{}", self.complaint());
        if happened.contains(&PUTTER) {
            self.hear_ids();
            self.leave_where(Moment::JobsSent);
        }
        for token in happened.into_iter().filter(|&token| token != PUTTER) {
            self.hear(token.0);
        }
        self.leave_where(Moment::Waiting);
    }

    /// Waits for so long, in which nobody may hear anything.
    pub fn hear_nothing(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            // Not all that happens to a socket is something to hear: there is room to write, say.
            for token in self.wait(left) {
                let connection = match token {
                    PUTTER => &mut self.putter,
                    Token(index) => &mut self.workers[index].connection,
                };
                assert!(!connection.receive() && connection.line().is_none(), "{token:?} heard something");
            }
        }
    }

    /// Every job must have had one id all along, and nothing may be left in these queues.
    pub fn check_all_done(&mut self, queues: &[String]) {
        while self.ids.len() < self.jobs.len() || self.workers.iter().any(Worker::is_leaving) {
            self.go_on();
        }
        for (number, (job, &id)) in self.jobs.iter().zip(&self.ids).enumerate() {
            assert!(job.done && job.id == Some(id), "job {number} was put as {id}, done as {:?}", job.id);
        }
        self.putter.send(&get(queues, false));
        assert_eq!(self.putter.wait_for_line(&mut self.poll, &mut self.events), NO_JOB);
    }

    /// Whoever something happened to.
    fn wait(&mut self, time: Duration) -> Vec<Token> {
        self.poll.poll(&mut self.events, Some(time)).unwrap();
        self.events.iter().map(mio::event::Event::token).collect()
    }

    fn complaint(&self) -> String {
        let missing = self.jobs.iter().enumerate().filter(|(_, job)| !job.done);
        let missing: Vec<_> = missing.map(|(number, job)| (number, job.holder)).take(20).collect();
        let leaving = self.workers.iter().filter(|worker| worker.is_leaving()).count();
        format!(
            "nothing happens after {} of {} jobs; not done, with holders: {missing:?}; {leaving} workers are not let go",
            self.done,
            self.jobs.len()
        )
    }

    fn hear_ids(&mut self) {
        self.putter.flush();
        assert!(!self.putter.receive(), "the putter's connection was closed");
        while let Some(line) = self.putter.line() {
            self.ids.push(number_after(&line, r#"{"status":"ok","id":"#));
        }
    }

    fn hear(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        if worker.state == State::Gone {
            return;
        }
        worker.connection.flush();
        let ended = worker.connection.receive();
        // A worker that goes meanwhile does not hear the rest.
        while self.workers[index].state != State::Gone
            && let Some(line) = self.workers[index].connection.line()
        {
            self.hear_line(index, &line);
        }
        let worker = &mut self.workers[index];
        if ended && worker.state != State::Gone {
            assert_eq!(worker.state, State::Leaving { waiting: false }, "worker {index} was closed");
            worker.state = State::Gone;
            worker.connection.close();
        }
    }

    fn hear_line(&mut self, index: usize, line: &str) {
        match self.workers[index].state {
            State::Waiting => self.take(index, line),
            State::Deleting(number) => {
                assert_eq!(line, OK, "job {number} was not deleted");
                self.jobs[number].done = true;
                self.done += 1;
                self.workers[index].state = State::Waiting;
            }
            State::Leaving { waiting: true } => {
                if line != NO_JOB {
                    // It was on its way already. By going the worker gave it back, so others may have heard of it before.
                    self.read_job(index, line);
                }
                self.workers[index].state = State::Leaving { waiting: false };
            }
            State::Holding | State::Leaving { waiting: false } | State::Gone => {
                panic!("worker {index} asked for nothing: {line}")
            }
        }
    }

    fn take(&mut self, index: usize, line: &str) {
        let number = self.hand_out(index, line);
        let worker = &mut self.workers[index];
        worker.state = State::Holding;
        if worker.is_due(Moment::Holding, self.done) {
            return worker.leave();
        }
        let id = self.jobs[number].id.unwrap();
        worker.connection.send(&format!("{{\"request\":\"delete\",\"id\":{id}}}\n{}", get(&worker.queues, true)));
        worker.state = State::Deleting(number);
    }

    /// A job was given to a worker: it must be one that nobody has done, or has.
    fn hand_out(&mut self, index: usize, line: &str) -> usize {
        let number = self.read_job(index, line);
        let job = &mut self.jobs[number];
        assert!(!job.done, "job {number} was given to worker {index} after it was deleted");
        if let Some(holder) = job.holder.replace(index) {
            let state = self.workers[holder].state;
            let left = matches!(state, State::Leaving { .. } | State::Gone);
            assert!(left, "job {number} was given to worker {index}, but worker {holder} has it ({state:?})");
        }
        number
    }

    /// Which job was given to a worker: it must have been put, as it is, where the worker waits.
    fn read_job(&mut self, index: usize, line: &str) -> usize {
        let number = usize::try_from(number_after(line, r#","job":{"number":"#)).unwrap();
        let id = number_after(line, r#"{"status":"ok","id":"#);
        let job = &mut self.jobs[number];
        assert_eq!(*job.id.get_or_insert(id), id, "job {number} has two ids");
        assert!(line.ends_with(&format!(r#","queue":"{}"}}"#, job.queue)), "job {number} was put into {}", job.queue);
        assert!(self.workers[index].queues.contains(&job.queue), "worker {index} does not wait in {}", job.queue);
        number
    }

    /// All for whom this is the moment to go, and who wait, go.
    fn leave_where(&mut self, moment: Moment) {
        for worker in &mut self.workers {
            if worker.state == State::Waiting && worker.is_due(moment, self.done) {
                worker.leave();
            }
        }
    }
}

impl Worker {
    fn leave(&mut self) {
        let exit = self.exit.take().expect("it was to go");
        let waiting = self.state == State::Waiting;
        self.state = State::Gone;
        match exit.manner {
            Manner::Close => self.connection.close(),
            Manner::Reset => {
                set_socket_linger(self.connection.stream(), Some(Duration::ZERO)).unwrap();
                self.connection.close();
            }
            Manner::EndInput => {
                self.connection.stream().shutdown(Shutdown::Write).unwrap();
                self.state = State::Leaving { waiting };
            }
        }
    }

    fn is_due(&self, moment: Moment, done: usize) -> bool {
        self.exit.is_some_and(|exit| exit.moment == moment && exit.after <= done)
    }

    fn is_leaving(&self) -> bool {
        matches!(self.state, State::Leaving { .. })
    }
}

/// One connection that never blocks.
struct Connection {
    token: Token,
    stream: Option<TcpStream>,
    unsent: Vec<u8>,
    unread: VecDeque<u8>,
}

impl Connection {
    fn open(place: SocketAddr, registry: &Registry, token: Token) -> Connection {
        let stream = std::net::TcpStream::connect_timeout(&place, PATIENCE).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(stream);
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE).unwrap();
        Connection { token, stream: Some(stream), unsent: Vec::new(), unread: VecDeque::new() }
    }

    fn stream(&mut self) -> &mut TcpStream {
        self.stream.as_mut().expect("it is open")
    }

    fn close(&mut self) {
        self.stream = None;
    }

    fn send(&mut self, text: &str) {
        self.unsent.extend_from_slice(text.as_bytes());
        self.flush();
    }

    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            let written = self.stream().write(&unsent);
            self.unsent = unsent;
            match written {
                Ok(count) => _ = self.unsent.drain(..count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("cannot send: {error}"),
            }
        }
    }

    /// Reads all that there is. Says whether that was the end.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        loop {
            match self.stream().read(&mut bytes) {
                Ok(0) => return true,
                Ok(count) => self.unread.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => panic!("cannot receive: {error}"),
            }
        }
    }

    /// The next whole line, without its end.
    fn line(&mut self) -> Option<String> {
        let end = self.unread.iter().position(|&byte| byte == b'\n')?;
        let line = self.unread.drain(..=end).take(end).collect();
        Some(String::from_utf8(line).unwrap())
    }

    /// Waits for the next line here, while nobody else is to hear anything.
    fn wait_for_line(&mut self, poll: &mut Poll, events: &mut Events) -> String {
        loop {
            assert!(!self.receive(), "{:?} was closed", self.token);
            if let Some(line) = self.line() {
                return line;
            }
            poll.poll(events, Some(PATIENCE)).unwrap();
            assert!(!events.is_empty(), "{:?} is not answered", self.token);
        }
    }
}

/// `{"request":"get",…}` and its line end.
fn get(queues: &[String], wait: bool) -> String {
    let queues: Vec<_> = queues.iter().map(|queue| format!("\"{queue}\"")).collect();
    format!("{{\"request\":\"get\",\"queues\":[{}],\"wait\":{wait}}}\n", queues.join(","))
}

/// The number that follows this text.
fn number_after(line: &str, text: &str) -> u64 {
    let (_, rest) = line.split_once(text).unwrap_or_else(|| panic!("no {text} in {line}"));
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().unwrap()
}
