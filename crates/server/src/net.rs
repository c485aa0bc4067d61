//! Sockets as events and actions: what is ready becomes events, what the broker wants is done to streams.
//! Edge-triggered: a connection is registered once, and told about each change once.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use jobyard_broker::{Event, SLOT_BITS, slot};
use jobyard_engine::ClientId;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Poll, Registry, Token};

use crate::bind::{Bound, Socket};

/// The token of signals.
pub const SIGNALS: Token = Token(0);
/// The token of whoever wakes the poll from another thread.
pub const WAKER: Token = Token(1);
const LISTENERS: usize = 2;
const CLIENTS: usize = 1 << 16;

/// How many ready sockets one look at the poll can show.
const EVENTS_PER_LOOK: usize = 1024;
/// How many connections one listener accepts between two polls.
const ACCEPTS_PER_POLL: usize = 256;
/// How long nothing is accepted after the machine ran out of files or memory for it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The poll, and every socket in it.
#[derive(Debug)]
pub struct Net {
    poll: Poll,
    happened: mio::Events,
    listeners: Vec<Listener>,
    clients: Clients,
    /// Everything is read into this.
    scratch: Box<[u8]>,
}

#[derive(Debug)]
struct Listener {
    bound: Bound,
    /// Whether there may be connections to accept.
    ready: bool,
    /// Nothing is accepted until then.
    paused_until: Option<Instant>,
}

/// What a poll brought, besides events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Polled {
    /// Whether anything happened to a socket.
    pub any: bool,
    /// Whether there are signals.
    pub signals: bool,
}

impl Net {
    /// A poll with these listeners in it.
    pub fn new(bound: Vec<Bound>, read_bytes_max: usize) -> io::Result<Net> {
        let mut net = Net {
            poll: Poll::new()?,
            happened: mio::Events::with_capacity(EVENTS_PER_LOOK),
            listeners: Vec::new(),
            clients: Clients::default(),
            scratch: vec![0; read_bytes_max].into_boxed_slice(),
        };
        net.listen(bound)?;
        Ok(net)
    }

    /// Takes these listeners, in this order, in place of those it has.
    pub fn listen(&mut self, bound: Vec<Bound>) -> io::Result<()> {
        self.listeners.clear();
        for mut bound in bound {
            let token = Token(LISTENERS + self.listeners.len());
            bound.socket.source().register(self.poll.registry(), token, Interest::READABLE)?;
            self.listeners.push(Listener { bound, ready: false, paused_until: None });
        }
        Ok(())
    }

    /// To register what is no socket of ours.
    pub fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// The clients' connections.
    pub fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }

    /// Waits until something happens or the time is over, and adds what happened to `events`. All that had happened by then
    /// is told, however much it is: whoever was left out would seem to have been silent.
    pub fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<Polled> {
        let mut timeout = self.accept_timeout().into_iter().chain(timeout).min();
        let mut polled = Polled::default();
        // Each look begins with those whom the last did not show, so after so many all of them were shown, even if others
        // become ready again and again.
        let looks_max = 1 + self.sources_max() / self.happened.capacity();
        for _ in 0..looks_max {
            // Whatever interrupted it may have stopped us for long: what arrived meanwhile must be known before it is late.
            retry(|| self.poll.poll(&mut self.happened, timeout.replace(Duration::ZERO)))?;
            let count = self.take_happened(&mut polled, events);
            if count < self.happened.capacity() {
                break;
            }
        }
        self.accept(events);
        Ok(polled)
    }

    /// How much there may be in the poll.
    fn sources_max(&self) -> usize {
        LISTENERS + self.listeners.len() + self.clients.slots.len()
    }

    /// Adds what one look showed, and says how much that was.
    fn take_happened(&mut self, polled: &mut Polled, events: &mut Vec<Event>) -> usize {
        let mut count = 0;
        for happened in &self.happened {
            count += 1;
            match happened.token() {
                SIGNALS => polled.signals = true,
                WAKER => {}
                Token(token) if token < CLIENTS => {
                    if let Some(listener) = self.listeners.get_mut(token - LISTENERS) {
                        listener.ready = true;
                    }
                }
                Token(token) => self.clients.happened(token - CLIENTS, happened, events),
            }
        }
        polled.any |= count > 0;
        count
    }

    /// Whether connections wait that could be accepted now.
    fn accept_timeout(&self) -> Option<Duration> {
        let ready = self.listeners.iter().filter(|listener| listener.ready);
        let waits = ready.map(|listener| match listener.paused_until {
            Some(until) => until.saturating_duration_since(Instant::now()),
            None => Duration::ZERO,
        });
        waits.min()
    }

    fn accept(&mut self, events: &mut Vec<Event>) {
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            if listener.ready {
                listener.accept(index, self.poll.registry(), &mut self.clients, events);
            }
        }
    }

    /// Reads once, and says what came of it.
    pub fn read(&mut self, client: ClientId, at_most: usize) -> Option<Event> {
        let connection = self.clients.get(client)?;
        let asked = at_most.min(self.scratch.len());
        let read = retry(|| connection.stream.read(&mut self.scratch[..asked]));
        match read {
            Ok(0) if asked > 0 => Some(Event::Ended(client)),
            Ok(count) => {
                connection.received += count as u64;
                // A short read has emptied the socket: what comes later is told. But an end that was told already
                // is not told again.
                let more = count == asked || connection.read_closed;
                Some(Event::Received { client, bytes: self.scratch[..count].to_vec(), more })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Some(Event::Received { client, bytes: Vec::new(), more: false })
            }
            Err(error) => {
                tracing::debug!(client = client.0, %error, "connection lost");
                Some(Event::Gone(client))
            }
        }
    }

    /// Writes once, and says what came of it.
    pub fn write(&mut self, client: ClientId, bytes: &[u8]) -> Option<Event> {
        let connection = self.clients.get(client)?;
        match retry(|| connection.stream.write(bytes)) {
            Ok(count) => {
                connection.written += count as u64;
                connection.write_blocked = count < bytes.len();
                Some(Event::Wrote { client, count })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                connection.write_blocked = true;
                Some(Event::Wrote { client, count: 0 })
            }
            Err(error) => {
                tracing::debug!(client = client.0, %error, "connection lost");
                // Nothing more will be told of it, so it is read to its end, however little a read brings.
                connection.read_closed = true;
                Some(Event::Lost(client))
            }
        }
    }

    /// Writes nothing more to this client.
    pub fn finish(&mut self, client: ClientId) {
        let Some(connection) = self.clients.get(client) else { return };
        connection.finished = true;
        if let Err(error) = connection.stream.shutdown_write() {
            // The client is gone already, which reading will tell.
            tracing::debug!(client = client.0, %error, "could not shut down");
        }
    }

    /// Closes the connection.
    pub fn close(&mut self, client: ClientId) {
        if let Some(connection) = self.clients.remove(client) {
            tracing::debug!(client = client.0, received = connection.received, written = connection.written, "closed");
        }
    }

    /// Accepts no more connections.
    pub fn close_listeners(&mut self) {
        self.listeners.clear();
    }
}

impl Listener {
    fn accept(&mut self, index: usize, registry: &Registry, clients: &mut Clients, events: &mut Vec<Event>) {
        if self.paused_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        for _ in 0..ACCEPTS_PER_POLL {
            match self.bound.socket.accept() {
                Ok((stream, peer)) => {
                    self.paused_until = None;
                    match clients.add(registry, stream, index, peer) {
                        Ok(client) => events.push(Event::Accepted { client, listener: index }),
                        Err(error) => tracing::warn!(%error, "a connection could not be waited for"),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.ready = false;
                    return;
                }
                Err(error) if is_shortage(&error) => {
                    // Trying again at once would spin until somebody leaves. One line tells of the whole shortage.
                    if self.paused_until.is_none() {
                        tracing::warn!(address = %self.bound.address, %error, "connections cannot be accepted for now");
                    }
                    self.paused_until = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
                // This one connection is gone before it was accepted; others may wait.
                Err(error) => tracing::debug!(%error, "a connection was lost before it was accepted"),
            }
        }
    }
}

/// Whether this is the machine's trouble, not one connection's.
fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    shortages.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Does it again if a signal interrupted it.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Every connection, found by its client's id without a search.
#[derive(Debug, Default)]
pub struct Clients {
    slots: Vec<Option<Connection>>,
    free: Vec<usize>,
    accepted: u64,
    /// What is known of connections that are no more, for those who ask.
    partings: Option<Vec<Parting>>,
}

/// One client's connection.
#[derive(Debug)]
pub struct Connection {
    id: ClientId,
    stream: Stream,
    /// The listener that accepted it, by its index.
    pub listener: usize,
    /// Who is at the other end, if it is TCP.
    pub peer: Option<SocketAddr>,
    /// The end of input, or of everything, was told.
    pub read_closed: bool,
    /// The last write was not taken whole.
    pub write_blocked: bool,
    /// Nothing more will be written.
    pub finished: bool,
    /// Bytes read.
    pub received: u64,
    /// Bytes written.
    pub written: u64,
}

/// What is known of a connection that is no more.
#[derive(Clone, Copy, Debug)]
pub struct Parting {
    /// The listener that had accepted it, by its index.
    pub listener: usize,
    /// Who was at the other end.
    pub peer: Option<SocketAddr>,
    /// Bytes written to it.
    pub written: u64,
}

impl Clients {
    fn add(
        &mut self,
        registry: &Registry,
        mut stream: Stream,
        listener: usize,
        peer: Option<SocketAddr>,
    ) -> io::Result<ClientId> {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        assert!(slot < 1 << SLOT_BITS, "more connections than slots");
        let token = Token(CLIENTS + slot);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = stream.source().register(registry, token, interest) {
            if slot < self.slots.len() {
                self.free.push(slot);
            }
            return Err(error);
        }
        self.accepted += 1;
        let id = ClientId(self.accepted << SLOT_BITS | slot as u64);
        tracing::debug!(client = id.0, ?peer, "connected");
        let connection = Connection {
            id,
            stream,
            listener,
            peer,
            read_closed: false,
            write_blocked: false,
            finished: false,
            received: 0,
            written: 0,
        };
        if slot == self.slots.len() {
            self.slots.push(Some(connection));
        } else {
            self.slots[slot] = Some(connection);
        }
        Ok(id)
    }

    /// A connection, if it is still there.
    fn get(&mut self, client: ClientId) -> Option<&mut Connection> {
        self.slots.get_mut(slot(client))?.as_mut().filter(|connection| connection.id == client)
    }

    fn remove(&mut self, client: ClientId) -> Option<Connection> {
        let slot = slot(client);
        let connection = self.slots.get_mut(slot)?.take_if(|connection| connection.id == client)?;
        self.free.push(slot);
        if let Some(partings) = &mut self.partings {
            let Connection { listener, peer, written, .. } = connection;
            partings.push(Parting { listener, peer, written });
        }
        Some(connection)
    }

    /// Closes every connection.
    pub fn clear(&mut self) {
        let ids: Vec<_> = self.iter().map(|connection| connection.id).collect();
        for id in ids {
            self.remove(id);
        }
    }

    /// The connections that there are.
    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().flatten()
    }

    /// From now on, what is known of connections that end is kept.
    pub fn keep_partings(&mut self) {
        self.partings = Some(Vec::new());
    }

    /// What was kept of connections that ended.
    pub fn partings(&self) -> &[Parting] {
        self.partings.as_deref().unwrap_or_default()
    }

    fn happened(&mut self, slot: usize, happened: &mio::event::Event, events: &mut Vec<Event>) {
        let Some(connection) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        let ended = happened.is_read_closed() || happened.is_error();
        if ended && !connection.read_closed {
            connection.read_closed = true;
            events.push(Event::Ending(connection.id));
        }
        // Also where both directions are closed, what came before is read first: the end is found by reading.
        if happened.is_readable() || ended {
            events.push(Event::Readable(connection.id));
        }
        // Every change tells that there is room; it is news only to those who wait for it.
        if connection.write_blocked && (happened.is_writable() || happened.is_write_closed()) {
            connection.write_blocked = false;
            events.push(Event::Writable(connection.id));
        }
    }
}

impl Connection {
    /// Bytes that have arrived, whether or not they were read.
    pub fn arrived(&self) -> u64 {
        let waiting = match &self.stream {
            Stream::Tcp(stream) => rustix::io::ioctl_fionread(stream),
            Stream::Unix(stream) => rustix::io::ioctl_fionread(stream),
        };
        self.received + waiting.unwrap_or(0)
    }
}

/// One connection's socket.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn shutdown_write(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
        }
    }
}

impl Socket {
    fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        match self {
            Socket::Tcp(listener) => listener.accept().map(|(stream, peer)| (Stream::Tcp(stream), Some(peer))),
            Socket::Unix(listener, _) => listener.accept().map(|(stream, _)| (Stream::Unix(stream), None)),
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(listener) => listener,
            Socket::Unix(listener, _) => listener,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::net::UnixStream as Peer;

    use super::*;

    const CLIENTS: usize = 100;
    /// Far fewer than there are clients, and no divisor of their number.
    const SHOWN: usize = 7;

    /// A poll with as many clients as this, and the other ends of their connections.
    fn crowd(clients: usize, shown: usize) -> (Net, Vec<Peer>) {
        let mut net = Net::new(Vec::new(), 64).unwrap();
        net.happened = mio::Events::with_capacity(shown);
        let peers = (0..clients).map(|_| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            net.clients.add(net.poll.registry(), Stream::Unix(ours), 0, None).unwrap();
            Peer::from(theirs)
        });
        let peers = peers.collect();
        (net, peers)
    }

    fn readable(events: &[Event]) -> BTreeSet<u64> {
        let clients = events.iter().filter_map(|event| match event {
            Event::Readable(client) => Some(client.0),
            _ => None,
        });
        clients.collect()
    }

    #[test]
    fn one_poll_tells_of_everyone_who_was_ready() {
        let (mut net, mut peers) = crowd(CLIENTS, SHOWN);
        for peer in &mut peers {
            peer.write_all(b"ping").unwrap();
        }
        let mut events = Vec::new();
        assert!(net.poll(None, &mut events).unwrap().any);
        assert_eq!(readable(&events).len(), CLIENTS);
        events.clear();
        assert!(!net.poll(Some(Duration::ZERO), &mut events).unwrap().any);
        assert!(events.is_empty(), "{events:?}");
    }

    #[test]
    fn one_poll_comes_to_an_end_if_as_many_are_ready_as_it_can_show() {
        for clients in [SHOWN - 1, SHOWN, SHOWN + 1, 2 * SHOWN] {
            let (mut net, mut peers) = crowd(clients, SHOWN);
            for peer in &mut peers {
                peer.write_all(b"ping").unwrap();
            }
            let mut events = Vec::new();
            net.poll(None, &mut events).unwrap();
            assert_eq!(readable(&events).len(), clients);
        }
    }

    #[test]
    fn the_end_of_everyones_input_is_told_in_one_poll() {
        let (mut net, peers) = crowd(CLIENTS, SHOWN);
        drop(peers);
        let mut events = Vec::new();
        net.poll(None, &mut events).unwrap();
        let endings = events.iter().filter(|event| matches!(event, Event::Ending(_))).count();
        assert_eq!((endings, readable(&events).len()), (CLIENTS, CLIENTS));
    }
}
