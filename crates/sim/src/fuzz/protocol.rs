//! A play of any bytes against a whole server in memory: it must not panic, must come to rest, must keep to its memory, and
//! must say the same however its input is cut.

use super::script::{CLIENTS, Happens, Script};
use crate::transcript::{Cut, SimWorld, Trouble, World, pieces};

/// So many bytes at each end of what is sent at once go one by one, and at the last end of what is heard.
const SINGLE_BYTES: usize = 48;
/// What a server that holds nothing may take, with its clients and their buffers.
const MEMORY_BYTES: usize = 256 << 10;
/// What it may take for each byte that was sent to it: the shortest request makes a job or a queue of some hundred bytes.
const MEMORY_PER_BYTE: usize = 256;
/// By how much a limit of memory may be exceeded, beside one request and one answer: by what is not refused.
const MEMORY_OVER: usize = 192 << 10;
/// After so long nobody rests any more who has moved much.
const REST_MS: u64 = 20;

/// Plays the bytes on the listener of this name.
///
/// # Panics
/// If the server does what it must not.
pub fn check_protocol(name: &str, data: &[u8]) {
    let _ = check_and_count(name, data);
}

/// The same. Of how many things that happened what was heard was compared, and how many happened.
///
/// # Panics
/// If the server does what it must not.
#[must_use]
pub fn check_and_count(name: &str, data: &[u8]) -> (usize, usize) {
    let script = Script::read(name, data);
    let whole = play(&script, Cut::Whole);
    // One other cut at a time, for a fuzzer's speed; it finds both.
    let cut = if script.seed.is_multiple_of(2) { Cut::Ends(SINGLE_BYTES) } else { Cut::Random(script.seed) };
    let heard = play(&script, cut);
    let compared = if script.comparable { compare(&script, cut, &whole, &heard) } else { 0 };
    (compared, script.steps.len())
}

/// What was heard: after each thing that happened, by each client, and who was cut off. Less was heard than happened if from
/// somewhere on it is left to chance who comes first.
type Heard = Vec<Vec<(usize, Vec<u8>, bool)>>;

fn compare(script: &Script, cut: Cut, whole: &Heard, heard: &Heard) -> usize {
    for ((step, whole), heard) in script.steps.iter().zip(whole).zip(heard) {
        let text = |heard: &[(usize, Vec<u8>, bool)]| {
            let line = |(client, bytes, closed): &(usize, Vec<u8>, bool)| {
                let closed = if *closed { " closed" } else { "" };
                format!("  {}< {}{closed}\n", CLIENTS[*client], bytes.escape_ascii())
            };
            heard.iter().map(line).collect::<String>()
        };
        assert!(
            whole == heard,
            "after {step:?}: input that came whole was answered\n{}and cut by {cut:?}\n{}",
            text(whole),
            text(heard)
        );
    }
    whole.len().min(heard.len())
}

fn play(script: &Script, cut: Cut) -> Heard {
    let mut player = Player {
        world: SimWorld::new(&script.setup, cut, script.lateness),
        cut,
        random: script.seed,
        open: [false; CLIENTS.len()],
        ended: [false; CLIENTS.len()],
        raced: false,
        sent_bytes: 0,
    };
    let mut all = Vec::with_capacity(script.steps.len());
    for step in &script.steps {
        let outcome = player.step(step).and_then(|()| player.hear());
        let heard = outcome.unwrap_or_else(|trouble| panic!("{cut:?}, after {step:?}: {trouble}"));
        player.check_memory(script);
        if !player.raced {
            all.push(heard);
        }
    }
    all
}

struct Player {
    world: SimWorld,
    cut: Cut,
    random: u64,
    /// Which clients are connected, as far as they know.
    open: [bool; CLIENTS.len()],
    ended: [bool; CLIENTS.len()],
    /// Two clients had something to do at once.
    raced: bool,
    sent_bytes: usize,
}

impl Player {
    fn step(&mut self, step: &Happens) -> Result<(), Trouble> {
        match step {
            Happens::Opens { client, listener } => {
                self.leave(*client)?;
                self.open(*client, *listener)?;
            }
            Happens::Sends { client, bytes } => {
                if !self.open[*client] {
                    self.open(*client, 0)?;
                }
                self.send(*client, bytes)?;
            }
            Happens::Ends(client) => {
                if self.open[*client] {
                    self.ended[*client] = true;
                    self.world.end(CLIENTS[*client])?;
                }
            }
            Happens::Leaves(client) => self.leave(*client)?,
            Happens::Wait(ms) => self.world.wait(*ms)?,
            Happens::Clock(ms) => self.world.step_clock(*ms)?,
            Happens::Restart => self.restart(false)?,
            Happens::Disk { full } => self.world.fill_disk(*full)?,
            Happens::Drain => self.world.drain()?,
            Happens::Stop => self.restart(true)?,
        }
        // Who has moved much rests for the others' sake.
        self.world.wait(REST_MS)
    }

    fn open(&mut self, client: usize, listener: usize) -> Result<(), Trouble> {
        self.world.open(CLIENTS[client], listener)?;
        (self.open[client], self.ended[client]) = (true, false);
        self.world.settle()
    }

    fn send(&mut self, client: usize, bytes: &[u8]) -> Result<(), Trouble> {
        self.sent_bytes += bytes.len();
        let is_busy = |(other, name): (usize, &str)| {
            other != client && self.open[other] && (self.ended[other] || self.world.unfinished_bytes(name) > 0)
        };
        // If it is answered meanwhile, it goes on while this client's requests are carried out, or behind them.
        self.raced |= CLIENTS.into_iter().enumerate().any(is_busy);
        let mut rest = bytes;
        for piece in pieces(self.cut, bytes.len(), &mut self.random) {
            let (now, later) = rest.split_at(piece);
            self.world.send(CLIENTS[client], now)?;
            rest = later;
        }
        Ok(())
    }

    fn leave(&mut self, client: usize) -> Result<(), Trouble> {
        if std::mem::take(&mut self.open[client]) {
            self.world.leave(CLIENTS[client])?;
            self.world.settle()?;
        }
        Ok(())
    }

    fn restart(&mut self, well: bool) -> Result<(), Trouble> {
        let is_unread = |(client, name): (usize, &str)| self.open[client] && self.world.unfinished_bytes(name) > 0;
        // Of what lies behind a request that waits, a server that stops carries out what it has read.
        self.raced |= well && CLIENTS.into_iter().enumerate().any(is_unread);
        self.open = [false; CLIENTS.len()];
        // A log in memory cannot be opened as a full one.
        self.world.fill_disk(false)?;
        if well {
            self.world.stop()?;
        }
        self.world.restart()
    }

    /// What each client has heard since it was last asked, and whether it was cut off; who was is gone.
    fn hear(&mut self) -> Result<Vec<(usize, Vec<u8>, bool)>, Trouble> {
        let mut all = Vec::new();
        let open = self.open;
        for (client, name) in CLIENTS.into_iter().enumerate().filter(|(client, _)| open[*client]) {
            let mut heard = Vec::new();
            self.world.hear(name, &mut heard, 0)?;
            let closed = self.world.closed(name, false)?;
            if closed {
                self.leave(client)?;
            }
            all.push((client, heard, closed));
        }
        Ok(all)
    }

    fn check_memory(&self, script: &Script) {
        let limits = &script.setup.limits;
        let taken = self.world.memory_bytes();
        let allowed = MEMORY_BYTES + MEMORY_PER_BYTE * self.sent_bytes;
        assert!(taken <= allowed, "the server takes {taken} bytes after it was sent {}", self.sent_bytes);
        let request = limits.line_bytes_max().min(self.sent_bytes).saturating_mul(2);
        let allowed = limits.memory_bytes_max.saturating_add(request).saturating_add(MEMORY_OVER);
        assert!(taken <= allowed, "the server takes {taken} bytes, and may take {}", limits.memory_bytes_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_noticed() {
        let script = Script::read("masenko", b"\0\0\0PING\n");
        let heard = play(&script, Cut::Whole);
        assert_eq!(heard[1], [(0, b"PONG {}\n".to_vec(), false)]);
        let mut other = heard.clone();
        other[1][0].1.pop();
        compare(&script, Cut::Bytes, &heard, &heard);
        assert!(std::panic::catch_unwind(|| compare(&script, Cut::Bytes, &heard, &other)).is_err());
    }

    #[test]
    fn a_client_that_was_cut_off_comes_back_with_what_it_sends_next() {
        let script = Script::read("masenko", b"\0\0\0\x16\x03\xff\x02\x00PING\n");
        let heard = play(&script, Cut::Whole);
        assert!(heard[1][0].2, "TLS is spoken to nobody");
        assert_eq!(heard[3], [(0, b"PONG {}\n".to_vec(), false)]);
    }
}
