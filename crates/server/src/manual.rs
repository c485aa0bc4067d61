//! `--clock stdin`, for tests: time stands still, and lines on stdin say what happens. Each is carried out when the
//! server has nothing left to do, and answered on stdout by a line `ok …` when it has nothing left to do again.
//!
//! - `settle [LISTENER/PEER=BYTES[e]]…`: waits until so many bytes (and with `e` the end of input) have arrived from
//!   each of these peers, by the listener's index and the peer's address (which is its own on one listener only), and
//!   all that there is for them is written. Answers `LISTENER/PEER=BYTES[c]` for each: what was written to it, and `c`
//!   if that was all it will ever get.
//! - `wait MS`: time passes on both clocks; what falls due is done at its time.
//! - `step ±MS`: the wall clock steps.
//! - `disk full`, `disk free`: the disk has only its reserve left, or room again.
//! - `drain`, `stop`: as the signals. After `stop` time passes until all is done; the process stays.
//! - `restart`: all connections are cut, and the broker is opened again from what its log has made durable.

use std::io::BufRead;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use jobyard_broker::{Broker, Event, Sleep};
use jobyard_log::MemoryLog;
use mio::Waker;

use crate::address::Address;
use crate::bind::{Bound, bind};
use crate::clock::{ManualTime, Time};
use crate::config::Config;
use crate::failure::Failure;
use crate::net::{Net, SIGNALS, WAKER};
use crate::run::{Round, Server};
use crate::serve::{announcement, broker_config, say};
use crate::signals::Signals;

/// Runs until stdin ends.
pub fn run(config: &Config, bound: Vec<Bound>) -> Result<(), Failure> {
    let text = announcement(config, &bound);
    let addresses = bound.iter().map(|bound| bound.address.clone()).collect();
    let mut net = Net::new(Vec::new(), config.limits.turn_bytes_max).context("cannot wait for sockets")?;
    net.clients().keep_partings();
    // Kept until the end: what a waker has said is lost with the last of its owners.
    let waker = Arc::new(Waker::new(net.registry(), WAKER).context("cannot wait for stdin")?);
    let lines = read_lines(Arc::clone(&waker));
    let time = ManualTime::new();
    let server = open(config, net, bound, MemoryLog::new(0, 0), &time)?;
    let mut manual = Manual { config, addresses, time, server, stopped: false, lines };
    say(&text);
    while let Some(line) = manual.next_line()? {
        let answer = manual.carry_out(&line).with_context(|| line.clone())?;
        say(&format!("ok{answer}\n"));
    }
    drop(waker);
    Ok(())
}

struct Manual<'a> {
    config: &'a Config,
    /// Where it listens, with real ports, so that it can listen there again.
    addresses: Vec<Address>,
    time: ManualTime,
    server: Server<MemoryLog>,
    /// The broker is done.
    stopped: bool,
    lines: Receiver<String>,
}

fn read_lines(waker: Arc<Waker>) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
            let _ = waker.wake();
        }
        drop(sender);
        let _ = waker.wake();
    });
    lines
}

fn open(
    config: &Config,
    mut net: Net,
    bound: Vec<Bound>,
    log: MemoryLog,
    time: &ManualTime,
) -> Result<Server<MemoryLog>> {
    let broker = Broker::open(broker_config(config, &bound, 0), log, time.now()).context("cannot start")?;
    net.listen(bound).context("cannot listen")?;
    let signals = Signals::register(net.registry(), SIGNALS)?;
    Ok(Server::new(net, signals, broker))
}

impl Manual<'_> {
    /// The next line, taken only when there is nothing else to do; nothing if stdin has ended.
    fn next_line(&mut self) -> Result<Option<String>> {
        loop {
            self.settle()?;
            match self.lines.try_recv() {
                Ok(line) => return Ok(Some(line)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) if self.stopped => return Ok(self.lines.recv().ok()),
                Err(TryRecvError::Empty) => self.round(None)?,
            };
        }
    }

    fn carry_out(&mut self, line: &str) -> Result<String> {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("wait"), Some(ms)) => self.wait(ms.parse()?)?,
            (Some("step"), Some(ms)) => self.time.step(ms.parse()?),
            (Some("disk"), Some("full")) => self.server.broker_mut().log_mut().fill_up(true),
            (Some("disk"), Some("free")) => self.server.broker_mut().log_mut().fill_up(false),
            (Some("drain"), None) => self.server.happens(Event::Drain),
            (Some("stop"), None) => self.stop()?,
            (Some("restart"), None) => self.restart()?,
            (Some("settle"), first) => return self.settle_with(first.into_iter().chain(words)),
            _ => bail!("expected settle, wait MS, step ±MS, disk full, disk free, drain, stop or restart"),
        }
        self.settle()?;
        Ok(String::new())
    }

    fn wait(&mut self, mut ms: u64) -> Result<()> {
        loop {
            let step = match self.settle()? {
                Sleep::No => 0,
                Sleep::Millis(due) => due.min(ms),
                Sleep::Forever => ms,
            };
            self.time.pass(step);
            ms -= step;
            if ms == 0 {
                return Ok(());
            }
        }
    }

    fn stop(&mut self) -> Result<()> {
        self.server.happens(Event::Stop);
        loop {
            match self.settle()? {
                _ if self.stopped => return Ok(()),
                Sleep::No => {}
                Sleep::Millis(due) => self.time.pass(due),
                Sleep::Forever => bail!("the broker was told to stop, and waits for something for ever"),
            }
        }
    }

    fn restart(&mut self) -> Result<()> {
        self.server.net.clients().clear();
        self.server.net.close_listeners();
        let mut bound = Vec::new();
        for address in &self.addresses {
            bound.extend(bind(address, true).map_err(|failure| anyhow!("{:#}", failure.error()))?);
        }
        let config = broker_config(self.config, &bound, 0);
        self.server.net.listen(bound)?;
        let log = self.server.broker().log().clone().crash();
        self.server.replace(Broker::open(config, log, self.time.now())?);
        self.stopped = false;
        Ok(())
    }

    /// Gives the broker turns until nothing happens any more.
    fn settle(&mut self) -> Result<Sleep> {
        loop {
            if self.stopped {
                return Ok(Sleep::Forever);
            }
            match self.server.round(&self.time, Some(Duration::ZERO))? {
                Round::Exit => self.exit(),
                Round::On { busy: false, sleep } if sleep != Sleep::No => return Ok(sleep),
                Round::On { .. } => {}
            }
        }
    }

    fn round(&mut self, timeout: Option<Duration>) -> Result<()> {
        if self.server.round(&self.time, timeout)? == Round::Exit {
            self.exit();
        }
        Ok(())
    }

    /// What the end of the process would do to its sockets.
    fn exit(&mut self) {
        self.server.net.clients().clear();
        self.server.net.close_listeners();
        self.stopped = true;
    }

    fn settle_with<'a>(&mut self, words: impl Iterator<Item = &'a str>) -> Result<String> {
        let peers: Vec<_> = words.map(Peer::parse).collect::<Result<_>>()?;
        loop {
            self.settle()?;
            let told = peers.iter().map(|peer| peer.told(&mut self.server.net)).collect::<Option<Vec<_>>>();
            match told {
                Some(told) => return Ok(told.concat()),
                None if self.stopped => bail!("the server was stopped before this arrived"),
                None => self.round(None)?,
            }
        }
    }
}

/// What a peer says it has sent.
struct Peer<'a> {
    /// The listener and the address, as they were said.
    name: &'a str,
    listener: usize,
    address: SocketAddr,
    sent: u64,
    ended: bool,
}

impl Peer<'_> {
    fn parse(word: &str) -> Result<Peer<'_>> {
        let (name, sent) = word.split_once('=').context("expected LISTENER/PEER=BYTES")?;
        let (listener, address) = name.split_once('/').context("expected LISTENER/PEER")?;
        let (sent, ended) = match sent.strip_suffix('e') {
            Some(sent) => (sent, true),
            None => (sent, false),
        };
        Ok(Peer { name, listener: listener.parse()?, address: address.parse()?, sent: sent.parse()?, ended })
    }

    fn is(&self, listener: usize, peer: Option<SocketAddr>) -> bool {
        listener == self.listener && peer == Some(self.address)
    }

    /// What it is told, if all that it has sent has arrived, or nobody will read it any more.
    fn told(&self, net: &mut Net) -> Option<String> {
        let clients = net.clients();
        if let Some(open) = clients.iter().find(|connection| self.is(connection.listener, connection.peer)) {
            let arrived = open.arrived() >= self.sent && (open.read_closed || !self.ended);
            let closed = if open.finished { "c" } else { "" };
            return (arrived && !open.write_blocked).then(|| format!(" {}={}{closed}", self.name, open.written));
        }
        let parted = clients.partings().iter().rfind(|parting| self.is(parting.listener, parting.peer));
        parted.map(|parting| format!(" {}={}c", self.name, parting.written))
    }
}
