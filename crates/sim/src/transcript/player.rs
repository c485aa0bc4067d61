//! Plays a transcript in a world, and says where what was heard is not what was expected.

use std::collections::BTreeMap;
use std::fmt;

use super::escape::escape;
use super::parse::{Line, Step, Transcript};
use super::world::{Trouble, World};
use crate::random::splitmix;

/// In which pieces sent bytes arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// As each line sends them.
    Whole,
    /// One by one. Of a long text, only its two ends: the middle of a body is all alike.
    Bytes,
    /// So many bytes of each end one by one, and of what is heard those of its last end: for those who have little time.
    Ends(usize),
    /// In pieces of random sizes, from this seed.
    Random(u64),
}

impl Cut {
    /// How many bytes at each end of a text go one by one.
    pub(crate) fn single_bytes(self) -> usize {
        match self {
            Cut::Bytes => 4 << 10,
            Cut::Ends(bytes) => bytes,
            Cut::Whole | Cut::Random(_) => 0,
        }
    }
}

/// Plays `transcript` in `world`, which is fresh.
///
/// # Errors
/// If something else came than expected, nothing came, or the world could not go on.
pub fn play(transcript: &Transcript, world: &mut dyn World, cut: Cut) -> Result<(), Box<Failure>> {
    let random = if let Cut::Random(seed) = cut { seed } else { 0 };
    let mut player =
        Player { transcript, world, cut, random, clients: BTreeMap::new(), talk: Vec::new(), stopped: false };
    for line in &transcript.lines {
        player.play(line).map_err(|what| player.failure(line.number, what))?;
    }
    let last = transcript.lines.last().map_or(1, |line| line.number);
    player.expect_quiet("the end").map_err(|what| player.failure(last, what))
}

/// Where a transcript and the server differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The transcript.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What went wrong: what was expected and what came.
    pub what: String,
    /// What was said until then, one entry a line.
    pub talk: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        writeln!(f, "{}:{}: {}", self.path, self.line, self.what)?;
        writeln!(f, "  so far:")?;
        if self.talk.len() > SHOWN {
            writeln!(f, "    … {} lines before", self.talk.len() - SHOWN)?;
        }
        for line in &self.talk[self.talk.len().saturating_sub(SHOWN)..] {
            writeln!(f, "    {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

struct Player<'a> {
    transcript: &'a Transcript,
    world: &'a mut dyn World,
    cut: Cut,
    random: u64,
    clients: BTreeMap<String, Client>,
    talk: Vec<String>,
    /// The server was told to stop: it may close what it likes.
    stopped: bool,
}

#[derive(Default)]
struct Client {
    /// What came and was not expected yet.
    heard: Vec<u8>,
    ended: bool,
}

impl Player<'_> {
    fn play(&mut self, line: &Line) -> Result<(), String> {
        match &line.step {
            Step::Open { client, listener } => self.open(client, *listener),
            Step::Send { client, bytes } => self.send(client, bytes),
            Step::Expect { client, parts } => self.expect(client, parts),
            Step::Closed(client) => self.expect_closed(client),
            Step::Ends(client) => self.end(client),
            Step::Leaves(client) => self.leave(client),
            Step::Wait(ms) => {
                self.expect_quiet("this wait")?;
                self.happens(format!("wait {ms}ms"), |world| world.wait(*ms))
            }
            Step::Clock(ms) => self.happens(format!("clock {ms:+}ms"), |world| world.step_clock(*ms)),
            Step::Restart => self.start_again("restart", |world| world.restart()),
            Step::Crash => self.start_again("crash", |world| world.crash()),
            Step::Disk { full } => {
                let name = if *full { "disk full" } else { "disk free" };
                self.happens(name.to_owned(), |world| world.fill_disk(*full))
            }
            Step::Drain => self.happens("drain".to_owned(), |world| {
                world.drain()?;
                world.settle()
            }),
            Step::Stop => {
                self.stopped = true;
                self.happens("stop".to_owned(), |world| world.stop())
            }
        }
    }

    fn open(&mut self, client: &str, listener: usize) -> Result<(), String> {
        let setup = &self.transcript.setup.listeners[listener];
        let options = if setup.query.is_empty() { String::new() } else { format!("?{}", setup.query) };
        let talk = format!("open {client} {}{options}", setup.listener.name());
        self.happens(talk, |world| {
            world.open(client, listener)?;
            world.settle()
        })?;
        self.clients.insert(client.to_owned(), Client::default());
        Ok(())
    }

    fn send(&mut self, client: &str, bytes: &[u8]) -> Result<(), String> {
        if self.world.closed(client, false).map_err(|trouble| trouble.to_string())? {
            return Err(format!("{client} cannot send: the server has closed the connection"));
        }
        let pieces = pieces(self.cut, bytes.len(), &mut self.random);
        self.happens(format!("{client}>> {}", shown(bytes)), |world| {
            let mut rest = bytes;
            for piece in pieces {
                let (now, later) = rest.split_at(piece);
                world.send(client, now)?;
                rest = later;
            }
            world.settle()
        })
    }

    fn expect(&mut self, client: &str, parts: &[Vec<u8>]) -> Result<(), String> {
        self.hear(client, parts.iter().map(Vec::len).sum())?;
        let heard = &mut self.client(client)?.heard;
        let length = begins(heard, parts).ok_or_else(|| difference(client, parts, heard))?;
        let heard: Vec<u8> = heard.drain(..length).collect();
        self.talk.push(format!("{client}<< {}", shown(&heard)));
        Ok(())
    }

    fn expect_closed(&mut self, client: &str) -> Result<(), String> {
        self.hear(client, 0)?;
        if !self.world.closed(client, true).map_err(|trouble| trouble.to_string())? {
            return Err(format!("{client} should be closed, but is connected still"));
        }
        // What came on the way to the end has arrived by now.
        self.hear(client, 0)?;
        self.expect_nothing_heard(client, "its end")?;
        self.clients.remove(client);
        self.happens(format!("{client} closed"), |world| {
            world.leave(client)?;
            world.settle()
        })
    }

    fn end(&mut self, client: &str) -> Result<(), String> {
        self.client(client)?.ended = true;
        self.happens(format!("{client} ends"), |world| {
            world.end(client)?;
            world.settle()
        })
    }

    fn leave(&mut self, client: &str) -> Result<(), String> {
        self.hear(client, 0)?;
        self.expect_nothing_heard(client, "it left")?;
        self.clients.remove(client);
        self.happens(format!("{client} leaves"), |world| {
            world.leave(client)?;
            world.settle()
        })
    }

    fn start_again(
        &mut self,
        talk: &str,
        again: impl FnOnce(&mut dyn World) -> Result<(), Trouble>,
    ) -> Result<(), String> {
        self.expect_quiet(&format!("this {talk}"))?;
        self.clients.clear();
        self.stopped = false;
        self.happens(talk.to_owned(), again)
    }

    /// Something happens in the world; what was said is kept, also if it goes wrong.
    fn happens(
        &mut self,
        talk: String,
        what: impl FnOnce(&mut dyn World) -> Result<(), Trouble>,
    ) -> Result<(), String> {
        self.talk.push(talk);
        what(self.world).map_err(|trouble| trouble.to_string())
    }

    /// No client may have heard what nobody expected, or been cut off without a word about it.
    fn expect_quiet(&mut self, before: &str) -> Result<(), String> {
        let clients: Vec<_> = self.clients.iter().map(|(name, client)| (name.clone(), client.ended)).collect();
        for (client, ended) in clients {
            self.hear(&client, 0)?;
            self.expect_nothing_heard(&client, before)?;
            let may_close = ended || self.stopped;
            if !may_close && self.world.closed(&client, false).map_err(|trouble| trouble.to_string())? {
                return Err(format!("{client} was closed before {before}, and nobody expected that"));
            }
        }
        Ok(())
    }

    fn expect_nothing_heard(&mut self, client: &str, before: &str) -> Result<(), String> {
        let heard = &self.client(client)?.heard;
        if heard.is_empty() {
            return Ok(());
        }
        Err(format!("{client} heard before {before} what nobody expected:\n    {}", shown(heard)))
    }

    fn hear(&mut self, client: &str, bytes_min: usize) -> Result<(), String> {
        let mut heard = std::mem::take(&mut self.client(client)?.heard);
        let outcome = self.world.hear(client, &mut heard, bytes_min);
        self.client(client)?.heard = heard;
        outcome.map_err(|trouble| trouble.to_string())
    }

    fn client(&mut self, client: &str) -> Result<&mut Client, String> {
        self.clients.get_mut(client).ok_or_else(|| format!("{client} is not connected"))
    }

    fn failure(&self, line: usize, what: String) -> Box<Failure> {
        Box::new(Failure { path: self.transcript.path.clone(), line, what, talk: self.talk.clone() })
    }
}

/// The sizes of the pieces in which so many bytes are sent.
pub(crate) fn pieces(cut: Cut, bytes: usize, random: &mut u64) -> Vec<usize> {
    const MIDDLE: usize = 64 << 10;
    let single = cut.single_bytes();
    let mut sizes = Vec::new();
    let mut rest = bytes;
    while rest > 0 {
        let size = match cut {
            Cut::Whole => rest,
            Cut::Bytes | Cut::Ends(_) if bytes - rest < single || rest <= single => 1,
            Cut::Bytes | Cut::Ends(_) => (rest - single).min(MIDDLE),
            Cut::Random(_) => random_size(random).min(rest),
        };
        sizes.push(size);
        rest -= size;
    }
    sizes
}

/// Sizes of every order of magnitude up to 64 KiB, small ones often.
fn random_size(state: &mut u64) -> usize {
    let magnitude = splitmix(state) % 17;
    let size = splitmix(state) % (1 << magnitude) + 1;
    usize::try_from(size).unwrap_or(1)
}

/// How much of what was heard is these parts, with the fewest bytes in between, if they are there.
fn begins(heard: &[u8], parts: &[Vec<u8>]) -> Option<usize> {
    let (first, others) = parts.split_first()?;
    let first = heard.starts_with(first).then_some(first.len());
    others.iter().fold(first, |end, part| {
        let rest = &heard[end?..];
        let at = if part.is_empty() { Some(0) } else { rest.windows(part.len()).position(|bytes| bytes == part) };
        Some(end? + at? + part.len())
    })
}

fn difference(client: &str, parts: &[Vec<u8>], heard: &[u8]) -> String {
    let came = if heard.is_empty() { "(nothing)".to_owned() } else { shown(heard) };
    let expected: Vec<_> = parts.iter().map(|part| shown(part)).collect();
    let mut text = format!("{client} expected\n    {}\n  and heard\n    {came}", expected.join("\\?"));
    let same = parts[0].iter().zip(heard).take_while(|(expected, heard)| expected == heard).count();
    if same > 0 {
        text.push_str(&format!("\n  The first {same} bytes are as expected, then comes\n    "));
        text.push_str(&if same == heard.len() { "(nothing)".to_owned() } else { shown(&heard[same..]) });
    }
    text
}

/// Bytes as a report shows them: escaped, and not for pages.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 2_000;
    let escaped = escape(bytes);
    match escaped.char_indices().nth(SHOWN_MAX) {
        None => escaped,
        Some((at, _)) => format!("{}… ({} bytes in all)", &escaped[..at], bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_whole() {
        for cut in [Cut::Whole, Cut::Bytes, Cut::Ends(3), Cut::Random(7)] {
            for bytes in [0, 1, 5, 8_192, 8_193, 1 << 20] {
                let sizes = pieces(cut, bytes, &mut 7);
                assert_eq!(sizes.iter().sum::<usize>(), bytes, "{cut:?}");
                assert!(!sizes.contains(&0), "{cut:?}: a piece of nothing");
            }
        }
        assert_eq!(pieces(Cut::Bytes, 5, &mut 0), [1; 5]);
        assert_eq!(pieces(Cut::Ends(2), 9, &mut 0), [1, 1, 5, 1, 1]);
        assert_eq!(pieces(Cut::Bytes, 1 << 20, &mut 0).iter().filter(|&&size| size == 1).count(), 8_192);
    }
}
