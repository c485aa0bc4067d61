//! Bytes as a play: what clients send, and between it, behind an escape byte, what else happens. Any bytes are one.

use jobyard_engine::Limits;
use jobyard_protocols::{ANY, Listener, Options, PROTOCOLS, find};

use crate::transcript::{ListenerSetup, Setup, Step, Transcript};

/// The clients there can be at once.
pub(super) const CLIENTS: [&str; 3] = ["alice", "bob", "carol"];

/// What all clients together may send: more shows nothing new and takes long.
const SENT_BYTES_MAX: usize = 128 << 10;

/// Behind this byte comes what is not sent. It is no text, and rare in binary protocols.
const ESCAPE: u8 = 0xff;

/// What can come behind [`ESCAPE`].
mod code {
    pub(super) const CLIENT: u8 = 0;
    pub(super) const OPEN: u8 = 1;
    pub(super) const WAIT: u8 = 2;
    pub(super) const FILL: u8 = 3;
    pub(super) const END: u8 = 4;
    pub(super) const LEAVE: u8 = 5;
    pub(super) const CLOCK: u8 = 6;
    pub(super) const RESTART: u8 = 7;
    pub(super) const DISK_FULL: u8 = 8;
    pub(super) const DISK_FREE: u8 = 9;
    pub(super) const DRAIN: u8 = 10;
    pub(super) const STOP: u8 = 11;
    pub(super) const COUNT: u8 = 12;
}

/// Which limits are small, bit by bit.
mod small {
    pub(super) const BODIES: u8 = 1;
    pub(super) const NAMES: u8 = 2;
    pub(super) const COUNTS: u8 = 4;
    pub(super) const TURNS: u8 = 8;
    pub(super) const OUTPUT: u8 = 16;
    pub(super) const INPUT: u8 = 32;
    pub(super) const MEMORY: u8 = 64;
}

/// What happens. A client is its index in [`CLIENTS`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Happens {
    Opens { client: usize, listener: usize },
    Sends { client: usize, bytes: Vec<u8> },
    Ends(usize),
    Leaves(usize),
    Wait(u64),
    Clock(i64),
    Restart,
    Disk { full: bool },
    Drain,
    Stop,
}

/// A play, read from bytes.
pub(super) struct Script {
    pub setup: Setup,
    /// After how many turns a batch of the log is durable.
    pub lateness: u32,
    /// Where random cuts begin; how the input is cut.
    pub seed: u64,
    /// Whether the same must be heard however the input is cut. How much memory buffers take, and how much input is
    /// unfinished, depends on the cut, and so does what is refused because of it.
    pub comparable: bool,
    pub steps: Vec<Happens>,
}

/// The listeners that a play for this one has: first its own, then all others, each also with every option it knows.
fn listeners(name: &str) -> Vec<ListenerSetup> {
    let others = PROTOCOLS.iter().map(|protocol| protocol.name).chain([ANY]).filter(|other| *other != name);
    let mut setups = Vec::new();
    for listener in std::iter::once(name).chain(others).filter_map(find) {
        let known = listener.options();
        let queries = [vec![], ["dialect=original", "heartbeat=3s", "lease=5m"].to_vec()];
        for query in queries {
            let said: Vec<_> = query.into_iter().filter(|option| is_known(option, &known)).collect();
            setups.push(setup_of(listener, said.join("&"), &known));
        }
    }
    setups
}

fn is_known(option: &str, known: &[&str]) -> bool {
    option.split_once('=').is_some_and(|(name, _)| known.contains(&name))
}

fn setup_of(listener: Listener, query: String, known: &[&str]) -> ListenerSetup {
    let options = Options::parse(&query, known).expect("each option is known and its value makes sense");
    ListenerSetup { listener, query, options }
}

fn limits(bits: u8) -> Limits {
    let mut limits = Limits::default();
    if bits & small::BODIES != 0 {
        (limits.body_bytes_max, limits.block_bytes_max, limits.line_extra_bytes_max) = (64, 32, 128);
        limits.group_bytes_max = 256;
    }
    if bits & small::NAMES != 0 {
        (limits.queue_name_bytes_max, limits.queues_named_max, limits.queues_max) = (8, 2, 3);
    }
    if bits & small::COUNTS != 0 {
        (limits.group_steps_max, limits.held_max, limits.clients_max, limits.revived_max) = (2, 1, 2, 1);
    }
    if bits & small::TURNS != 0 {
        (limits.turn_bytes_max, limits.turn_commands_max) = (16, 1);
    }
    if bits & small::OUTPUT != 0 {
        limits.output_bytes_max = 0;
    }
    if bits & small::INPUT != 0 {
        limits.input_bytes_max = limits.line_bytes_max();
    }
    if bits & small::MEMORY != 0 {
        limits.memory_bytes_max = 128 << 10;
    }
    limits
}

impl Script {
    /// Reads a play for the listener of this name.
    pub fn read(name: &str, data: &[u8]) -> Script {
        let (head, rest) = data.split_at(data.len().min(3));
        let byte = |at: usize| head.get(at).copied().unwrap_or(0);
        let setup = Setup { limits: limits(byte(0)), limits_set: Vec::new(), listeners: listeners(name) };
        let mut reader = Reader { rest, listeners: setup.listeners.len(), steps: Vec::new(), client: 0, sent: 0 };
        reader.steps.push(Happens::Opens { client: 0, listener: 0 });
        while reader.step() {}
        Script {
            setup,
            lateness: u32::from(byte(1) % 4),
            seed: u64::from(byte(2)),
            comparable: byte(0) & (small::INPUT | small::MEMORY) == 0,
            steps: reader.steps,
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    listeners: usize,
    steps: Vec<Happens>,
    /// Who speaks.
    client: usize,
    /// What was sent so far.
    sent: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Reads one thing; false at the end.
    fn step(&mut self) -> bool {
        match self.byte() {
            Some(ESCAPE) => self.escaped().is_some(),
            Some(byte) => self.send(byte, 1),
            None => false,
        }
    }

    /// What is sent without anything between it is one piece.
    fn send(&mut self, byte: u8, count: usize) -> bool {
        self.sent += count;
        if self.sent > SENT_BYTES_MAX {
            return false;
        }
        let Some(Happens::Sends { client, bytes }) = self.steps.last_mut() else {
            self.steps.push(Happens::Sends { client: self.client, bytes: vec![byte; count] });
            return true;
        };
        if *client == self.client {
            bytes.extend(std::iter::repeat_n(byte, count));
        } else {
            self.steps.push(Happens::Sends { client: self.client, bytes: vec![byte; count] });
        }
        true
    }

    fn escaped(&mut self) -> Option<()> {
        let said = self.byte()?;
        if said == ESCAPE {
            return self.send(ESCAPE, 1).then_some(());
        }
        let client = self.client;
        let happens = match said % code::COUNT {
            code::CLIENT => {
                self.client = usize::from(self.byte()?) % CLIENTS.len();
                return Some(());
            }
            code::OPEN => {
                let listener = usize::from(self.byte()?) % self.listeners;
                Happens::Opens { client, listener }
            }
            code::WAIT => Happens::Wait(1 << (self.byte()? % 27)),
            code::FILL => {
                let (count, byte) = (self.byte()?, self.byte()?);
                return self.send(byte, 1 << (count % 16)).then_some(());
            }
            code::END => Happens::Ends(client),
            code::LEAVE => Happens::Leaves(client),
            code::CLOCK => {
                let by = self.byte()?;
                let ms = 1_i64 << (by % 32);
                Happens::Clock(if by & 0x80 == 0 { ms } else { -ms })
            }
            code::RESTART => Happens::Restart,
            code::DISK_FULL => Happens::Disk { full: true },
            code::DISK_FREE => Happens::Disk { full: false },
            code::DRAIN => Happens::Drain,
            _ => Happens::Stop,
        };
        self.steps.push(happens);
        Some(())
    }
}

/// A play for the listener of this name that does what a transcript does, as far as it can be said.
#[must_use]
pub fn seed_of_transcript(name: &str, transcript: &Transcript) -> Vec<u8> {
    let mut writer = Writer {
        out: vec![small_limits(transcript), 0, u8::from(transcript.lines.len().is_multiple_of(2))],
        names: Vec::new(),
        client: 0,
    };
    let listeners = listeners(name);
    for line in &transcript.lines {
        match &line.step {
            Step::Open { client, listener } => {
                let wanted = &transcript.setup.listeners[*listener];
                let same = |setup: &ListenerSetup| {
                    setup.listener.name() == wanted.listener.name() && setup.query.is_empty() == wanted.query.is_empty()
                };
                let at = listeners.iter().position(same).unwrap_or(0);
                writer.speaks(client);
                writer.escaped(&[code::OPEN, u8::try_from(at).unwrap_or(0)]);
            }
            Step::Send { client, bytes } => {
                writer.speaks(client);
                writer.sends(bytes);
            }
            Step::Ends(client) => {
                writer.speaks(client);
                writer.escaped(&[code::END]);
            }
            Step::Leaves(client) => {
                writer.speaks(client);
                writer.escaped(&[code::LEAVE]);
            }
            Step::Wait(ms) => writer.escaped(&[code::WAIT, u8::try_from(magnitude(*ms)).unwrap_or(0)]),
            Step::Clock(ms) => {
                let sign = if *ms < 0 { 0x80 } else { 0 };
                writer.escaped(&[code::CLOCK, u8::try_from(magnitude(ms.unsigned_abs())).unwrap_or(0) | sign]);
            }
            Step::Restart | Step::Crash => writer.escaped(&[code::RESTART]),
            Step::Disk { full } => writer.escaped(&[if *full { code::DISK_FULL } else { code::DISK_FREE }]),
            Step::Drain => writer.escaped(&[code::DRAIN]),
            Step::Stop => writer.escaped(&[code::STOP]),
            Step::Expect { .. } | Step::Closed(_) => {}
        }
    }
    writer.out
}

/// The power of two that is no less.
fn magnitude(number: u64) -> u32 {
    number.max(1).next_power_of_two().ilog2()
}

/// The small limits that come nearest to those of a transcript.
fn small_limits(transcript: &Transcript) -> u8 {
    let bit = |name: &str| match name {
        "body_bytes_max" | "block_bytes_max" | "line_extra_bytes_max" | "group_bytes_max" => small::BODIES,
        "queue_name_bytes_max" | "queues_named_max" | "queues_max" => small::NAMES,
        "group_steps_max" | "held_max" | "clients_max" | "revived_max" => small::COUNTS,
        "turn_bytes_max" | "turn_commands_max" => small::TURNS,
        "output_bytes_max" => small::OUTPUT,
        "input_bytes_max" => small::INPUT | small::BODIES,
        "memory_bytes_max" => small::MEMORY,
        _ => 0,
    };
    transcript.setup.limits_set.iter().fold(0, |bits, (name, _)| bits | bit(name))
}

struct Writer {
    out: Vec<u8>,
    /// The transcript's clients, each where its index in [`CLIENTS`] is, modulo their number.
    names: Vec<String>,
    client: usize,
}

impl Writer {
    fn escaped(&mut self, what: &[u8]) {
        self.out.push(ESCAPE);
        self.out.extend_from_slice(what);
    }

    fn speaks(&mut self, client: &str) {
        let at = self.names.iter().position(|name| name == client).unwrap_or_else(|| {
            self.names.push(client.to_owned());
            self.names.len() - 1
        });
        let at = at % CLIENTS.len();
        if at != self.client {
            self.client = at;
            self.escaped(&[code::CLIENT, u8::try_from(at).unwrap_or(0)]);
        }
    }

    /// Long rows of the same byte are said in short.
    fn sends(&mut self, mut bytes: &[u8]) {
        const ROW_MIN: usize = 32;
        while let Some(&first) = bytes.first() {
            let row = bytes.iter().take_while(|byte| **byte == first).count();
            let said: usize = if row < ROW_MIN { 1 } else { 1 << row.ilog2().min(15) };
            if said > 1 {
                self.escaped(&[code::FILL, u8::try_from(said.ilog2()).unwrap_or(0), first]);
            } else if first == ESCAPE {
                self.escaped(&[ESCAPE]);
            } else {
                self.out.push(first);
            }
            bytes = &bytes[said..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_comes_back_as_a_play() {
        let text = "# Shows.\nlimits held_max=1\nalice> PING\nopen bob masenko?heartbeat=3s\nbob>> \\xff\nwait 3ms\nbob ends\nalice leaves\n";
        let transcript = Transcript::parse("transcripts/masenko/x.txt", text).unwrap();
        let script = Script::read("masenko", &seed_of_transcript("masenko", &transcript));
        assert_eq!(script.setup.limits.held_max, 1);
        let expected = [
            Happens::Opens { client: 0, listener: 0 },
            Happens::Opens { client: 0, listener: 0 },
            Happens::Sends { client: 0, bytes: b"PING\n".to_vec() },
            Happens::Opens { client: 1, listener: 1 },
            Happens::Sends { client: 1, bytes: vec![0xff] },
            Happens::Wait(4),
            Happens::Ends(1),
            Happens::Leaves(0),
        ];
        assert_eq!(script.steps, expected);
        let row = [b'x'; 100];
        let mut writer = Writer { out: vec![0; 3], names: Vec::new(), client: 0 };
        writer.sends(&row);
        // 64 and 32 of them in short, and four more.
        assert_eq!(writer.out.len(), 3 + 4 + 4 + 4);
        let script = Script::read("masenko", &writer.out);
        assert_eq!(script.steps[1], Happens::Sends { client: 0, bytes: row.to_vec() });
    }
}
