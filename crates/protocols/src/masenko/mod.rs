//! Masenko: `VERB JSON` lines, answered by `VERB JSON` lines, with a heartbeat and transactions.

mod group;
mod replies;
mod requests;
mod time;

use jobyard_engine::{Command, Look, Now, QueueOrder, Reply};

use crate::codec::{Codec, Context, Farewell, Next};
use crate::input::{Input, Line};
use crate::json;
use crate::options::{Dialect, Options};
use crate::table::Begins;
use group::{Group, Sent};

/// One connection.
#[derive(Debug)]
pub(crate) struct Masenko {
    dialect: Dialect,
    heartbeat_ms: u64,
    /// The engine time of the client's last sign of life.
    alive_ms: u64,
    /// The transaction that the client has begun and not ended.
    group: Option<Group>,
    /// The transaction that the engine has been given.
    sent: Sent,
    /// The line that is being passed over, if it has begun.
    passed: Option<Passed>,
}

/// What is kept of a line that is passed over.
#[derive(Clone, Copy, Debug)]
struct Passed {
    /// How much of it has come.
    bytes: usize,
    /// Whether it is a `DONE`.
    done: bool,
}

/// What a client can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Push,
    Fetch,
    Ack,
    Nack,
    Ping,
    Info,
    Quit,
    Atomic,
    Done,
}

const VERBS: &[(&str, Verb)] = &[
    ("PUSH", Verb::Push),
    ("FETCH", Verb::Fetch),
    ("ACK", Verb::Ack),
    ("NACK", Verb::Nack),
    ("PING", Verb::Ping),
    ("INFO", Verb::Info),
    ("QUIT", Verb::Quit),
    ("ATOMIC", Verb::Atomic),
    ("DONE", Verb::Done),
];

/// Whether these bytes begin a masenko command: a verb and what may follow it.
pub(crate) fn begins(bytes: &[u8]) -> Begins {
    let word = bytes.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    if let Some(length) = word {
        // DONE alone begins nothing.
        let found = verb(&bytes[..length]).is_some_and(|verb| verb != Verb::Done);
        // So another protocol's clients take their leave.
        let found = found && !bytes.starts_with(b"quit\r");
        return if found { Begins::Yes } else { Begins::No };
    }
    let prefix = |&(word, verb): &(&str, Verb)| {
        verb != Verb::Done && word.as_bytes().get(..bytes.len()).is_some_and(|start| start.eq_ignore_ascii_case(bytes))
    };
    if VERBS.iter().any(prefix) { Begins::Maybe } else { Begins::No }
}

fn verb(word: &[u8]) -> Option<Verb> {
    VERBS.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word)).map(|&(_, verb)| verb)
}

/// A line's first word and, after one space, the rest. A CR at the line's end is dropped.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match memchr::memchr(b' ', line) {
        Some(space) => (&line[..space], &line[space + 1..]),
        None => (line, &[]),
    }
}

/// What is looked at of a line that is to be passed over: enough to know `DONE`.
const PASSED_OVER_BYTES_MAX: usize = 16;

impl Masenko {
    pub(crate) fn new(options: &Options, now: Now) -> Self {
        Masenko {
            dialect: options.dialect,
            heartbeat_ms: options.heartbeat_ms,
            alive_ms: now.engine_ms,
            group: None,
            sent: Sent::default(),
            passed: None,
        }
    }

    /// Carries out one whole line. `None` if it was a part of a transaction.
    fn line(&mut self, line: &[u8], out: &mut Vec<u8>, context: &Context<'_>) -> Option<Next> {
        let (word, rest) = split(line);
        let (verb, rest) = (verb(word), &*json::text_lossy(rest));
        if let Some(group) = &mut self.group {
            if verb != Some(Verb::Done) {
                group.add(verb, word, rest, context.limits);
                return None;
            }
            return Some(self.finish_group(context));
        }
        self.alive_ms = context.now.engine_ms;
        if verb == Some(Verb::Atomic) {
            self.group = Some(Group::default());
            return None;
        }
        Some(self.single(verb, word, rest, out, context))
    }

    /// Carries out a command that stands by itself.
    fn single(
        &mut self,
        verb: Option<Verb>,
        word: &[u8],
        rest: &str,
        out: &mut Vec<u8>,
        context: &Context<'_>,
    ) -> Next {
        let limits = context.limits;
        let command = match verb {
            Some(Verb::Push) => requests::push_alone(rest, limits),
            Some(Verb::Fetch) => requests::fetch(rest, self.heartbeat_ms, limits),
            Some(Verb::Ack) => requests::ack(rest),
            Some(Verb::Nack) => requests::nack(rest),
            Some(Verb::Info) => Ok(Some(info())),
            Some(Verb::Ping) => {
                replies::pong(out);
                return Next::Answered;
            }
            Some(Verb::Quit) => {
                replies::ok(out);
                return Next::Close;
            }
            Some(Verb::Atomic | Verb::Done) | None => Err(replies::unknown_verb(word)),
        };
        match command {
            Ok(Some(command)) => return Next::Command(command),
            Ok(None) => replies::empty(out),
            Err(text) => replies::error(out, &text),
        }
        Next::Answered
    }

    /// Ends the open transaction at its `DONE`.
    fn finish_group(&mut self, context: &Context<'_>) -> Next {
        self.alive_ms = context.now.engine_ms;
        let (steps, sent) = self.group.take().unwrap_or_default().finish();
        self.sent = sent;
        Next::Command(Command::Group(steps))
    }

    /// Passes over one line of a transaction that is refused already. `None` if it was not its last.
    fn pass_over(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Option<Next> {
        let Some(mut passed) = self.passed.take().or_else(|| begin_to_pass(input)) else { return Some(Next::More) };
        let bytes = input.len();
        let ended = input.skip_line();
        passed.bytes += bytes - input.len() - usize::from(ended);
        if passed.bytes > context.limits.line_bytes_max() {
            return Some(line_too_long(out, context));
        }
        if !ended {
            self.passed = Some(passed);
            return Some(Next::More);
        }
        passed.done.then(|| self.finish_group(context))
    }
}

/// Looks at the beginning of a line that is to be passed over. `None` if there is not enough of it yet.
fn begin_to_pass(input: &mut Input) -> Option<Passed> {
    let length = match input.line(PASSED_OVER_BYTES_MAX) {
        Line::More => return None,
        Line::Whole(length) => length,
        Line::TooLong => PASSED_OVER_BYTES_MAX,
    };
    let (word, _) = split(&input.bytes()[..length]);
    Some(Passed { bytes: 0, done: verb(word) == Some(Verb::Done) })
}

fn line_too_long(out: &mut Vec<u8>, context: &Context<'_>) -> Next {
    replies::error(out, &replies::line_too_long(context.limits));
    Next::Close
}

/// Every queue whose name masenko could have made, the oldest first.
fn info() -> Command {
    Command::Look(Look::Queues {
        order: QueueOrder::Created,
        nameable: requests::nameable,
        offset: 0,
        count_max: usize::MAX,
    })
}

impl Codec for Masenko {
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        loop {
            let next = if self.group.as_ref().is_some_and(Group::refused) {
                self.pass_over(input, out, context)
            } else {
                match input.line(context.limits.line_bytes_max()) {
                    Line::More => return Next::More,
                    Line::TooLong => return line_too_long(out, context),
                    Line::Whole(length) => {
                        let next = self.line(&input.bytes()[..length], out, context);
                        input.consume(length + 1);
                        next
                    }
                }
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>) {
        replies::error(out, &why.text().to_ascii_lowercase());
    }

    fn encode(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
        match reply {
            Reply::Enqueued { number, .. } => replies::pushed(out, *number),
            Reply::Leased { job, .. } => {
                self.alive_ms = context.now.engine_ms;
                replies::fetched(out, job);
            }
            Reply::NoJob => {
                self.alive_ms = context.now.engine_ms;
                replies::empty(out);
            }
            Reply::Queues { queues, counters } => {
                let metrics = (self.dialect == Dialect::Document).then_some((context.clients_total, counters));
                replies::info(out, queues, metrics);
            }
            Reply::Grouped { numbers } => replies::grouped(out, numbers),
            Reply::GroupRefused { step, refusal } => {
                replies::error(out, &self.sent.refusal_text(*step, *refusal, context.limits));
            }
            Reply::Refused(refusal) => replies::error(out, &replies::refusal_text(*refusal, context.limits)),
            // Of what is left only the answers to ACK and NACK can come.
            _ => replies::ok(out),
        }
        self.sent = Sent::default();
    }

    fn unfinished_bytes(&self) -> usize {
        self.group.as_ref().map_or(0, Group::memory_bytes)
    }

    fn deadline_ms(&self) -> Option<u64> {
        Some(self.alive_ms.saturating_add(self.heartbeat_ms))
    }

    fn deadline_passed(&mut self, out: &mut Vec<u8>) {
        replies::error(out, "no heartbeat");
    }

    fn postpone(&mut self, by_ms: u64) {
        self.alive_ms = self.alive_ms.saturating_add(by_ms);
    }
}

#[cfg(test)]
mod tests;
