//! One connection: its session, its input and output, and where it stands in its life.

use jobyard_engine::{ClientId, Limits, Reply};
use jobyard_protocols::{Codec, Context, Farewell, Input, Next};

use crate::output::Output;
use crate::pace::Pace;
use crate::timers::Slot;

/// One connection.
pub(crate) struct Client {
    /// How many clients there had been when it came.
    number: u64,
    /// It came when there was no room.
    pub(crate) turned_away: bool,
    /// It may ask for the server's health, even before the server is ready.
    pub(crate) probes: bool,
    codec: Box<dyn Codec>,
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) link: Link,
    pub(crate) phase: Phase,
    /// A command of its is in the engine and has no reply.
    pub(crate) waiting: bool,
    /// There may be something to decode.
    pub(crate) fed: bool,
    /// It sends nothing beyond what has arrived, so nothing of it may wait any more.
    pub(crate) ending: bool,
    /// Its session is over once all that it has sent was decoded.
    pub(crate) finishing: bool,
    /// There may be something to read.
    pub(crate) readable: bool,
    /// A read was asked for and not answered.
    pub(crate) reading: bool,
    /// A write was asked for and not answered.
    pub(crate) writing: bool,
    /// How much of what is sendable the kernel was last offered.
    offered: usize,
    /// How much it has moved of late.
    pub(crate) pace: Pace,
    /// The kernel has no room.
    pub(crate) clogged: bool,
    /// It is among those that have something to decode.
    pub(crate) queued: bool,
    /// Up to when all that had arrived was read, when it was last put among those.
    pub(crate) heard_until_ms: u64,
    /// It is among those that have to be settled.
    pub(crate) listed: bool,
    /// The engine was told that it is gone, or need not be.
    pub(crate) parted: bool,
    /// When output last moved, or there was last a reason to look whether it does.
    moved_ms: u64,
    hold: Option<Hold>,
    pub(crate) heartbeat: Slot,
    pub(crate) farewell: Slot,
    pub(crate) counted: Counted,
}

/// What is known of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Both directions work.
    Open,
    /// The client sends nothing more.
    Ended,
    /// Nothing can be written to it. What had arrived before may still have to be read.
    Gone,
}

/// Where a connection stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Commands are decoded and answered.
    Serving,
    /// The session is over: what was written goes out.
    Ending,
    /// All was sent. What the client still sends is read and dropped, so that closing does not reset the connection
    /// before the client has read the last answer.
    Lingering {
        /// For how long at most.
        until_ms: u64,
        /// How many bytes at most.
        bytes_left: usize,
    },
}

/// For how long the server has kept a client from showing a sign of life.
#[derive(Clone, Copy, Debug)]
struct Hold {
    since_ms: u64,
    /// The deadline then. If the codec sets another, the hold counts from that moment.
    deadline_ms: Option<u64>,
}

/// A client that is to be closed and takes no output for so long is given up.
const STALLED_MS_MAX: u64 = 30_000;

/// The kernel is offered so much at once: copying more would keep the others waiting.
const WRITE_BYTES_MAX: usize = 128 << 10;

/// What a client was last seen to take, for the sums over all clients.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) input_bytes: usize,
    pub(crate) memory_bytes: usize,
}

impl Client {
    pub(crate) fn new(number: u64, codec: Box<dyn Codec>, turned_away: bool, probes: bool) -> Self {
        Client {
            number,
            turned_away,
            probes,
            codec,
            input: Input::default(),
            output: Output::default(),
            link: Link::Open,
            phase: Phase::Serving,
            waiting: false,
            fed: false,
            ending: false,
            finishing: false,
            readable: false,
            reading: false,
            writing: false,
            offered: 0,
            pace: Pace::default(),
            clogged: false,
            queued: false,
            heard_until_ms: 0,
            listed: false,
            parted: false,
            moved_ms: 0,
            hold: None,
            heartbeat: Slot::default(),
            farewell: Slot::default(),
            counted: Counted::default(),
        }
    }

    pub(crate) fn serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// Whether the next command can be decoded now.
    pub(crate) fn runnable(&self, limits: &Limits) -> bool {
        self.serving() && !self.waiting && self.fed && !self.clogged_up(limits)
    }

    /// Whether it has to take output before it is read again.
    pub(crate) fn clogged_up(&self, limits: &Limits) -> bool {
        self.output.waiting_bytes() > limits.output_bytes_max
    }

    /// Whether it may be made to wait.
    pub(crate) fn may_wait(&self) -> bool {
        self.link == Link::Open && !self.ending && !crate::broken("broker-nobody-waits")
    }

    /// Whether more input is wanted now. One whose command waits is read far ahead: its end comes behind all that it sent.
    pub(crate) fn wants_read(&self, limits: &Limits) -> bool {
        let wants = match self.phase {
            Phase::Serving => {
                let starved = !self.fed && !self.waiting;
                let ahead_max = if self.waiting { limits.line_bytes_max() } else { limits.turn_bytes_max };
                (starved || self.input.len() < ahead_max) && !self.clogged_up(limits) && !self.finishing
            }
            Phase::Ending => false,
            Phase::Lingering { .. } => true,
        };
        wants && self.reads() && self.readable && !self.reading
    }

    /// Whether there may be more to read, now or later. Whoever goes without hearing its answers is read to its end all the same:
    /// what it sent had arrived.
    pub(crate) fn reads(&self) -> bool {
        match self.link {
            Link::Open => true,
            Link::Ended => false,
            Link::Gone => !self.finishing,
        }
    }

    /// Whether what it has to move is part of something large. Small requests and answers never rest.
    pub(crate) fn moves_much(&self, limits: &Limits) -> bool {
        self.unfinished_bytes() >= limits.turn_bytes_max || self.output.waiting_bytes() >= limits.turn_bytes_max
    }

    /// Offers the kernel a portion of what is sendable, if there is something and it has room. Says whether that is so.
    pub(crate) fn offer(&mut self) -> bool {
        let sendable = self.output.sendable().len();
        if self.link == Link::Gone || self.writing || self.clogged || sendable == 0 {
            return false;
        }
        (self.writing, self.offered) = (true, sendable.min(WRITE_BYTES_MAX));
        true
    }

    /// What the kernel is offered.
    pub(crate) fn offered(&self) -> &[u8] {
        let sendable = self.output.sendable();
        &sendable[..self.offered.min(sendable.len())]
    }

    /// Input arrived.
    pub(crate) fn receive(&mut self, bytes: &[u8], now_ms: u64) {
        self.pace.moved(bytes.len(), now_ms);
        if self.link == Link::Gone {
            // It is not given up as long as there is more to read.
            self.moved_ms = now_ms;
        }
        match &mut self.phase {
            Phase::Serving => {
                self.input.push(bytes);
                self.fed |= !bytes.is_empty();
            }
            Phase::Ending => {}
            Phase::Lingering { bytes_left, .. } => *bytes_left = bytes_left.saturating_sub(bytes.len()),
        }
    }

    /// What it has sent is to be looked at, again if it was before.
    pub(crate) fn feed(&mut self) {
        self.fed = !self.input.is_empty() || self.finishing;
    }

    /// Nothing will arrive beyond what is there to be read.
    pub(crate) fn begin_ending(&mut self, now_ms: u64) {
        self.ending = true;
        self.moved_ms = now_ms;
    }

    /// Nothing more can be written. That there is nothing to read either is found by reading.
    pub(crate) fn lose(&mut self, now_ms: u64) {
        self.link = Link::Gone;
        self.readable = self.reads();
        self.begin_ending(now_ms);
    }

    /// Nothing more will arrive.
    pub(crate) fn end_input(&mut self, link: Link, now_ms: u64) {
        if self.link != Link::Gone {
            self.link = link;
        }
        self.readable = false;
        self.input.end();
        self.finish(now_ms);
    }

    /// Nothing more is to be read.
    pub(crate) fn finish(&mut self, now_ms: u64) {
        self.begin_ending(now_ms);
        self.finishing = true;
        self.fed = true;
    }

    /// The kernel took so many bytes of what is sendable.
    pub(crate) fn wrote(&mut self, count: usize, now_ms: u64) {
        self.writing = false;
        let count = if crate::broken("broker-lost-answer") { self.output.sendable().len() } else { count };
        self.output.advance(count);
        self.clogged = count < self.offered;
        self.pace.moved(count, now_ms);
        if count > 0 {
            self.moved_ms = now_ms;
        }
    }

    /// Decodes the next request. If it is a command, the client waits for its reply.
    pub(crate) fn decode(&mut self, context: &Context<'_>) -> Next {
        let context = Context { client: self.number, ..*context };
        let next = self.codec.decode(&mut self.input, self.output.writer(), &context);
        match next {
            Next::More => self.fed = false,
            Next::Command(_) => self.waiting = true,
            Next::Answered | Next::Close => self.feed(),
        }
        next
    }

    /// Writes the reply to the command that waits.
    pub(crate) fn answer(&mut self, reply: &Reply<'_>, context: &Context<'_>) {
        debug_assert!(self.waiting, "a reply that nobody waits for: {reply:?}");
        let start = self.output.end();
        let context = Context { client: self.number, ..*context };
        self.codec.encode(reply, self.output.writer(), &context);
        if let Reply::Leased { job, lease } = reply {
            self.output.tells_lease(start, job.number, *lease);
        }
        self.waiting = false;
        self.feed();
    }

    /// The input has ended, and its last complete request was answered.
    pub(crate) fn say_end(&mut self) {
        self.codec.end(&self.input, self.output.writer());
    }

    /// The server has to end the connection.
    pub(crate) fn say_last_words(&mut self, why: Farewell) {
        self.codec.last_words(why, self.output.writer());
    }

    /// The client was silent for too long.
    pub(crate) fn say_deadline_passed(&mut self) {
        self.codec.deadline_passed(self.output.writer());
    }

    /// Nothing more is decoded; what was written goes out.
    pub(crate) fn end_session(&mut self, now_ms: u64) {
        self.phase = Phase::Ending;
        self.moved_ms = now_ms;
        // What an unfinished request took is given back at once.
        self.input = Input::default();
        self.codec = Box::new(Mute);
        self.waiting = false;
        self.fed = false;
    }

    /// When the client has been silent for too long, unless it cannot show a sign of life because of us.
    pub(crate) fn silent_at_ms(&self) -> Option<u64> {
        if !self.serving() || self.hold.is_some() || self.link != Link::Open || crate::broken("broker-no-heartbeat") {
            return None;
        }
        let hasty_ms = if crate::broken("broker-hasty-heartbeat") { 4_000 } else { 0 };
        self.codec.deadline_ms().map(|ms| ms.saturating_sub(hasty_ms))
    }

    /// Whether it may have sent a sign of life that was not looked at yet.
    pub(crate) fn unheard(&self, limits: &Limits) -> bool {
        self.queued || self.reading || self.wants_read(limits)
    }

    /// The deadline stands still while the client is not read because of what it has to take first, or because its
    /// answer is not durable yet.
    pub(crate) fn update_hold(&mut self, held: bool, now_ms: u64) {
        let deadline_ms = self.codec.deadline_ms();
        match (&mut self.hold, held) {
            (None, false) => {}
            (None, true) => self.hold = Some(Hold { since_ms: now_ms, deadline_ms }),
            (Some(hold), true) if hold.deadline_ms != deadline_ms => *hold = Hold { since_ms: now_ms, deadline_ms },
            (Some(_), true) => {}
            (Some(hold), false) => {
                let since_ms = if hold.deadline_ms == deadline_ms { hold.since_ms } else { now_ms };
                self.codec.postpone(now_ms - since_ms);
                self.hold = None;
            }
        }
    }

    /// Whether nothing is under way in either direction.
    pub(crate) fn quiet(&self) -> bool {
        let sends = self.readable || self.reading || !self.input.is_empty();
        let takes = self.waiting || self.writing || !self.output.is_empty();
        !sends && !takes
    }

    /// When the connection is given up, if nothing moves any more.
    pub(crate) fn farewell_at_ms(&self, limits: &Limits) -> Option<u64> {
        match self.phase {
            _ if self.link == Link::Gone && self.finishing => None,
            Phase::Serving if self.ending && (self.clogged_up(limits) || self.link == Link::Gone) => {
                Some(self.moved_ms + STALLED_MS_MAX)
            }
            Phase::Serving => None,
            Phase::Ending => Some(self.moved_ms + STALLED_MS_MAX),
            Phase::Lingering { until_ms, .. } => Some(until_ms),
        }
    }

    /// Input that is no whole request yet, or was not looked at yet.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.input.len() + self.codec.unfinished_bytes()
    }

    /// The memory its buffers take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let buffers = self.input.memory_bytes() + self.codec.unfinished_bytes() + self.output.memory_bytes();
        // In the table there is its id, and where it is.
        size_of::<Client>() + 2 * size_of::<ClientId>() + self.codec.kept_bytes() + buffers
    }
}

/// The codec of a session that is over: it is asked for nothing, and keeps nothing.
pub(crate) struct Mute;

impl Codec for Mute {
    fn decode(&mut self, _input: &mut Input, _out: &mut Vec<u8>, _context: &Context<'_>) -> Next {
        Next::Close
    }

    fn encode(&mut self, _reply: &Reply<'_>, _out: &mut Vec<u8>, _context: &Context<'_>) {}

    fn last_words(&mut self, _why: Farewell, _out: &mut Vec<u8>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobyard_engine::Now;
    use jobyard_protocols::{Health, Host, LogView, Tallies};

    /// A protocol that keeps what was sent, and must be heard of by then.
    struct Keeping {
        unfinished_bytes: usize,
        deadline_ms: u64,
    }

    impl Codec for Keeping {
        fn decode(&mut self, _input: &mut Input, _out: &mut Vec<u8>, _context: &Context<'_>) -> Next {
            Next::More
        }

        fn encode(&mut self, _reply: &Reply<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
            out.extend_from_slice(format!("client {}", context.client).as_bytes());
        }

        fn last_words(&mut self, _why: Farewell, _out: &mut Vec<u8>) {}

        fn unfinished_bytes(&self) -> usize {
            self.unfinished_bytes
        }

        fn deadline_ms(&self) -> Option<u64> {
            Some(self.deadline_ms)
        }
    }

    fn client() -> Client {
        Client::new(1, Box::new(Keeping { unfinished_bytes: 1_000, deadline_ms: 7 }), false, false)
    }

    /// One to which this much may be sent.
    fn client_with(sendable: &[u8]) -> Client {
        let mut client = client();
        client.output.writer().extend_from_slice(sendable);
        client.output.seal(1, 0);
        client.output.release(1, 0);
        client
    }

    #[test]
    fn a_client_is_read_ahead_as_far_as_it_may_be() {
        let limits = Limits { turn_bytes_max: 10, ..Limits::default() };
        let read = |len: usize, fed: bool, waiting: bool| {
            let mut client = Client { readable: true, ..client() };
            client.input.push(&vec![b'x'; len]);
            (client.fed, client.waiting) = (fed, waiting);
            client.wants_read(&limits)
        };
        assert!(read(9, true, false) && !read(10, true, false), "what was not decoded yet comes first");
        assert!(read(11, false, false), "it has no whole request");
        let ahead_max = limits.line_bytes_max();
        assert!(read(ahead_max - 1, false, true) && !read(ahead_max, false, true), "its end is behind all that");
        assert!(!read(ahead_max, true, true));
    }

    #[test]
    fn the_kernel_is_offered_what_it_may_take() {
        let mut client = client_with(b"answer");
        assert!(client.offer());
        assert_eq!(client.offered(), b"answer");
        assert!(!client.offer(), "it was not answered yet");
        for mut client in [
            client_with(b""),
            Client { link: Link::Gone, ..client_with(b"answer") },
            Client { clogged: true, ..client_with(b"answer") },
        ] {
            assert!(!client.offer());
        }
    }

    #[test]
    fn who_is_ending_is_given_up_when_nothing_has_moved_for_too_long() {
        let limits = Limits { output_bytes_max: 5, ..Limits::default() };
        let mut client = client_with(b"answer");
        assert_eq!(client.farewell_at_ms(&limits), None);
        client.begin_ending(100);
        assert_eq!(client.farewell_at_ms(&limits), Some(100 + STALLED_MS_MAX));
        client.offer();
        client.wrote(0, 200);
        assert_eq!(client.farewell_at_ms(&limits), Some(100 + STALLED_MS_MAX), "nothing has moved");
        client.end_session(300);
        assert_eq!(client.farewell_at_ms(&limits), Some(300 + STALLED_MS_MAX));
        client.offer();
        client.wrote(1, 400);
        assert_eq!(client.farewell_at_ms(&limits), Some(400 + STALLED_MS_MAX));
        client.link = Link::Gone;
        client.finish(500);
        assert_eq!(client.farewell_at_ms(&limits), None);
    }

    #[test]
    fn who_cannot_be_written_to_is_read_until_its_end_or_given_up() {
        let limits = Limits::default();
        let mut client = client();
        client.lose(100);
        assert!(client.reads() && client.wants_read(&limits));
        assert_eq!(client.farewell_at_ms(&limits), Some(100 + STALLED_MS_MAX));
        client.receive(b"more", 150);
        assert_eq!(client.farewell_at_ms(&limits), Some(150 + STALLED_MS_MAX));
        client.end_input(Link::Ended, 200);
        assert_eq!((client.link, client.reads(), client.farewell_at_ms(&limits)), (Link::Gone, false, None));
        client.lose(300);
        assert!(!client.reads() && !client.readable, "its end was read");
    }

    #[test]
    fn who_can_show_no_sign_of_life_is_not_silent() {
        assert_eq!(client().silent_at_ms(), Some(7));
        let mut held = client();
        held.update_hold(true, 1);
        assert_eq!(held.silent_at_ms(), None);
        assert_eq!(Client { link: Link::Ended, ..client() }.silent_at_ms(), None);
        assert_eq!(Client { phase: Phase::Ending, ..client() }.silent_at_ms(), None);
    }

    #[test]
    fn what_was_not_looked_at_may_be_a_sign_of_life() {
        let limits = Limits::default();
        assert!(!client().unheard(&limits));
        for client in [
            Client { queued: true, ..client() },
            Client { reading: true, ..client() },
            Client { readable: true, ..client() },
        ] {
            assert!(client.unheard(&limits));
        }
    }

    #[test]
    fn a_client_is_quiet_if_nothing_is_under_way() {
        assert!(client().quiet());
        let mut sent = client();
        sent.input.push(b"x");
        for client in [
            sent,
            client_with(b"answer"),
            Client { readable: true, ..client() },
            Client { reading: true, ..client() },
            Client { waiting: true, ..client() },
            Client { writing: true, ..client() },
        ] {
            assert!(!client.quiet());
        }
    }

    #[test]
    fn a_client_takes_itself_and_its_buffers() {
        let alone = client().memory_bytes();
        assert_eq!(alone, size_of::<Client>() + 2 * size_of::<ClientId>() + 1_000);
        let mut sent = client();
        sent.input.push(&[b'x'; 500]);
        assert_eq!(sent.memory_bytes(), alone + sent.input.memory_bytes());
        assert!(sent.input.memory_bytes() >= 500);
        let answered = client_with(&[b'x'; 500]);
        assert_eq!(answered.memory_bytes(), alone + answered.output.memory_bytes());
        assert!(answered.output.memory_bytes() >= 500);
    }

    #[test]
    fn an_answer_is_written_for_the_client_that_hears_it() {
        let limits = Limits::default();
        let now = Now { engine_ms: 0, wall_ms: 0, random: 0 };
        let context = Context {
            now,
            limits: &limits,
            clients: 3,
            clients_total: 5,
            client: 5,
            started_wall_ms: 0,
            health: Health::Ready,
            tallies: &Tallies::default(),
            host: &Host::default(),
            log: LogView::default(),
        };
        let mut client = Client { waiting: true, ..client() };
        client.answer(&Reply::Done, &context);
        client.output.seal(1, 0);
        client.output.release(1, 0);
        assert_eq!(client.output.sendable(), b"client 1");
    }

    #[test]
    fn a_session_that_is_over_is_served_no_more() {
        let limits = Limits::default();
        assert!(Client { fed: true, ..client() }.runnable(&limits));
        assert!(!Client { fed: true, phase: Phase::Ending, ..client() }.runnable(&limits));
    }
}
