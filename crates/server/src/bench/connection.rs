//! One connection under load: what it has sent, in order, and the bytes on their way in and out.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, Result, bail};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use super::wire::{Exchange, Reading, Script};

/// Room for replies; more if one is longer.
const INPUT_BYTES_MIN: usize = 8 << 10;

/// How much of an unexpected reply is shown.
const SHOWN_BYTES: usize = 300;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first word on a connection.
    Greet,
    /// Put a job.
    Put,
    /// Take a job.
    Take,
    /// Wait for a job and take it.
    Wait,
    /// Finish the job that was taken.
    Finish,
}

/// A request that has no reply yet.
#[derive(Clone, Copy, Debug)]
struct Asked {
    step: Step,
    /// When, in nanoseconds.
    at: u64,
}

/// A reply that came.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// To what.
    pub step: Step,
    /// When that was asked, in nanoseconds.
    pub asked_at: u64,
}

/// A connection.
#[derive(Debug)]
pub struct Connection<'a> {
    stream: TcpStream,
    script: &'a Script,
    asked: VecDeque<Asked>,
    input: Vec<u8>,
    /// Where in `input` the bytes are that were received and not yet understood.
    start: usize,
    end: usize,
    output: Vec<u8>,
    written: usize,
}

impl<'a> Connection<'a> {
    /// A connection that will have at most this many requests in flight.
    pub fn new(stream: std::net::TcpStream, script: &'a Script, depth: usize) -> Connection<'a> {
        let input_bytes = INPUT_BYTES_MIN.max(2 * script.reply_len_max());
        Connection {
            stream: TcpStream::from_std(stream),
            script,
            asked: VecDeque::with_capacity(depth),
            input: vec![0; input_bytes],
            start: 0,
            end: 0,
            output: Vec::new(),
            written: 0,
        }
    }

    /// Has its events told.
    pub fn register(&mut self, registry: &Registry, token: Token) -> std::io::Result<()> {
        registry.register(&mut self.stream, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Whether every request was answered.
    pub fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Asks for a step that needs no reply before it: any but a finish. A put is of the job of this number.
    pub fn ask(&mut self, step: Step, number: u64, now: u64) {
        match step {
            Step::Put => self.script.write_put(number, &mut self.output),
            step => exchange(self.script, step).request.write(&[], &mut self.output),
        }
        self.asked.push_back(Asked { step, at: now });
    }

    /// Takes the next reply off the input. Unless it was the last step that was wanted, the next is asked for: a job
    /// that was put is followed by a take, and that by its finish. So there is a job for each take, whoever gets it.
    pub fn answer(&mut self, last: Step, now: u64) -> Result<Option<Answer>> {
        let input = &self.input[self.start..self.end];
        if input.is_empty() {
            return Ok(None);
        }
        let Some(&Asked { step, at: asked_at }) = self.asked.front() else {
            bail!("the server said something that nobody asked for: {}", shown(input));
        };
        let (len, id) = match exchange(self.script, step).reply.read(input) {
            Reading::Whole { len, id } => (len, id),
            Reading::Part => return Ok(None),
            Reading::Other => bail!("the server's answer to a {} was {}", step.name(), shown(input)),
        };
        let next = match step {
            step if step == last => None,
            Step::Put => Some(Step::Take),
            Step::Take | Step::Wait => Some(Step::Finish),
            Step::Greet | Step::Finish => None,
        };
        self.asked.pop_front();
        if let Some(step) = next {
            exchange(self.script, step).request.write(&input[id], &mut self.output);
            self.asked.push_back(Asked { step, at: now });
        }
        self.start += len;
        Ok(Some(Answer { step, asked_at }))
    }

    /// Reads once. Says whether there may be more to read, in which case nothing will tell of it.
    pub fn receive(&mut self, event: &Event) -> Result<bool> {
        self.input.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            let room = self.input.len() - self.end;
            match self.stream.read(&mut self.input[self.end..]) {
                Ok(0) => bail!("the server hung up with {} requests unanswered on a connection", self.asked.len()),
                Ok(len) => {
                    self.end += len;
                    // Less than there was room for is all there was; but an end behind it would be told only once.
                    return Ok(len == room || event.is_read_closed());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the connection broke"),
            }
        }
    }

    /// Writes as much as the socket takes. The rest goes when the socket tells that it takes more.
    pub fn send(&mut self) -> Result<()> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(len) => self.written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the connection broke"),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }
}

fn exchange(script: &Script, step: Step) -> &Exchange {
    match step {
        Step::Greet => &script.greet,
        // All puts are answered alike.
        Step::Put => &script.puts[0],
        Step::Take => &script.take,
        Step::Wait => script.wait.as_ref().expect("nobody waits whose protocol does not"),
        Step::Finish => &script.finish,
    }
}

fn shown(input: &[u8]) -> String {
    let shown = &input[..input.len().min(SHOWN_BYTES)];
    format!("\"{}\"{}", shown.escape_ascii(), if input.len() > SHOWN_BYTES { " …" } else { "" })
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Greet => "greeting",
            Step::Put => "put",
            Step::Take => "take",
            Step::Wait => "wait",
            Step::Finish => "finish",
        }
    }
}
