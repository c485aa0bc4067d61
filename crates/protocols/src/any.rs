//! The port that speaks whatever its client speaks: the first bytes decide.

use jobyard_engine::Reply;

use crate::codec::{Codec, Context, Farewell, Health, Next};
use crate::http::{self, Http};
use crate::input::Input;
use crate::options::Options;
use crate::table::{Begins, PROTOCOLS, Protocol};

/// Blanks that may come before the first bytes.
const BLANKS_MAX: usize = 64;

/// First bytes after which it must be known what they are.
const OPENING_BYTES_MAX: usize = 64;

/// How long it may be unknown, from the first byte. A client that has sent nothing may take its
/// time: pools open connections early.
const OPENING_MS_MAX: u64 = 10_000;

/// One connection of which it is not known, or has been found out, what it speaks.
pub(crate) struct Any {
    options: Options,
    state: State,
}

enum State {
    /// Nothing that decides has come.
    Undecided { blanks: usize, deadline_ms: Option<u64> },
    /// It will be spoken once the server has started.
    Chosen(&'static Protocol),
    /// It is being spoken.
    Speaking(Box<dyn Codec>),
}

/// What the first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening<'a, Row> {
    /// It is this.
    Is(&'a Row),
    /// More bytes are needed.
    Open,
    /// It is nothing that is spoken here.
    Foreign,
}

/// Whether `bytes` begin with one of these words, or may with more to follow.
pub(crate) fn begins_with(bytes: &[u8], words: &[&[u8]]) -> Begins {
    if words.iter().any(|word| bytes.starts_with(word)) {
        Begins::Yes
    } else if words.iter().any(|word| word.starts_with(bytes)) {
        Begins::Maybe
    } else {
        Begins::No
    }
}

impl Any {
    pub(crate) fn new(options: &Options) -> Self {
        Any { options: options.clone(), state: State::Undecided { blanks: 0, deadline_ms: None } }
    }

    /// Looks at the first bytes. `None` once the protocol is known.
    fn listen(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Option<Next> {
        let State::Undecided { blanks, deadline_ms } = &mut self.state else {
            return None;
        };
        if deadline_ms.is_none() && !input.is_empty() {
            *deadline_ms = Some(context.now.engine_ms.saturating_add(OPENING_MS_MAX));
        }
        let count = input.bytes().iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
        input.consume(count);
        *blanks = blanks.saturating_add(count);
        if *blanks > BLANKS_MAX {
            write_spoken(out);
            return Some(Next::Close);
        }
        match opening(input.bytes(), PROTOCOLS, |protocol, bytes| (protocol.begins)(bytes)) {
            // It is spoken before the server has read its log, too, and has what is left of the time.
            Opening::Is(protocol) if protocol.name == http::NAME => {
                self.state = State::Speaking(Box::new(Http::with_deadline(*deadline_ms)));
                None
            }
            Opening::Is(protocol) => {
                self.state = State::Chosen(protocol);
                None
            }
            Opening::Open => Some(Next::More),
            Opening::Foreign => {
                write_spoken(out);
                Some(Next::Close)
            }
        }
    }
}

/// Which of `rows` the first bytes are. What comes after the first 64 is not looked at, so that it
/// does not matter in which pieces they arrive.
fn opening<Row>(bytes: &[u8], rows: &'static [Row], begins: fn(&Row, &[u8]) -> Begins) -> Opening<'static, Row> {
    let first = &bytes[..bytes.len().min(OPENING_BYTES_MAX)];
    if first.is_empty() {
        return Opening::Open;
    }
    if let Some(row) = rows.iter().find(|row| begins(row, first) == Begins::Yes) {
        return Opening::Is(row);
    }
    let open = first.len() < OPENING_BYTES_MAX && rows.iter().any(|row| begins(row, first) == Begins::Maybe);
    if open { Opening::Open } else { Opening::Foreign }
}

/// Says what this port speaks. It begins as an error does in most of them.
fn write_spoken(out: &mut Vec<u8>) {
    out.extend_from_slice(b"-ERR This port speaks ");
    for (index, protocol) in PROTOCOLS.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(protocol.name.as_bytes());
    }
    out.extend_from_slice(b".\r\n");
}

impl Codec for Any {
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        if let Some(next) = self.listen(input, out, context) {
            return next;
        }
        if let State::Chosen(protocol) = self.state {
            if context.health == Health::Starting {
                return Next::More;
            }
            self.state = State::Speaking(protocol.open(&self.options, context.now));
        }
        match &mut self.state {
            State::Speaking(codec) => codec.decode(input, out, context),
            State::Undecided { .. } | State::Chosen(_) => Next::More,
        }
    }

    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>) {
        match &mut self.state {
            State::Speaking(codec) => codec.last_words(why, out),
            // It begins as an error does in most of them.
            State::Undecided { .. } | State::Chosen(_) => {
                out.extend_from_slice(format!("-ERR {}.\r\n", why.text()).as_bytes());
            }
        }
    }

    fn encode(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
        if let State::Speaking(codec) = &mut self.state {
            codec.encode(reply, out, context);
        }
    }

    fn end(&mut self, input: &Input, out: &mut Vec<u8>) {
        match &mut self.state {
            State::Speaking(codec) => codec.end(input, out),
            State::Undecided { deadline_ms: Some(_), .. } => write_spoken(out),
            State::Undecided { deadline_ms: None, .. } | State::Chosen(_) => {}
        }
    }

    fn unfinished_bytes(&self) -> usize {
        match &self.state {
            State::Speaking(codec) => codec.unfinished_bytes(),
            State::Undecided { .. } | State::Chosen(_) => 0,
        }
    }

    fn kept_bytes(&self) -> usize {
        match &self.state {
            State::Speaking(codec) => codec.kept_bytes(),
            State::Undecided { .. } | State::Chosen(_) => 0,
        }
    }

    fn deadline_ms(&self) -> Option<u64> {
        match &self.state {
            State::Speaking(codec) => codec.deadline_ms(),
            State::Undecided { deadline_ms, .. } => *deadline_ms,
            State::Chosen(_) => None,
        }
    }

    fn deadline_passed(&mut self, out: &mut Vec<u8>) {
        match &mut self.state {
            State::Speaking(codec) => codec.deadline_passed(out),
            State::Undecided { .. } => write_spoken(out),
            State::Chosen(_) => {}
        }
    }

    fn postpone(&mut self, by_ms: u64) {
        match &mut self.state {
            State::Speaking(codec) => codec.postpone(by_ms),
            State::Undecided { deadline_ms, .. } => {
                *deadline_ms = deadline_ms.map(|deadline_ms| deadline_ms.saturating_add(by_ms));
            }
            State::Chosen(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use jobyard_engine::{Command, Limits, Look};

    use super::*;
    use crate::testing;

    const SPOKEN: &str = "-ERR This port speaks goqueue, takeanumber, masenko, jobcentre, workq, beanstalkd, http.\r\n";

    /// A connection and what it has said.
    struct Client {
        any: Any,
        input: Input,
        out: Vec<u8>,
    }

    impl Client {
        fn new() -> Self {
            Client { any: Any::new(&Options::default()), input: Input::default(), out: Vec::new() }
        }

        fn send(&mut self, bytes: &[u8], health: Health) -> Next {
            let limits = Limits::default();
            let context = Context { now: testing::now(1_000), health, ..testing::context(&limits) };
            self.input.push(bytes);
            self.any.decode(&mut self.input, &mut self.out, &context)
        }

        fn said(&self) -> &str {
            std::str::from_utf8(&self.out).unwrap()
        }
    }

    /// Sends all at once to one client and byte by byte to another, up to what was decided.
    fn check(bytes: &[u8], expected: &str, closes: bool) {
        let mut whole = Client::new();
        let next = whole.send(bytes, Health::Ready);
        assert_eq!((whole.said(), matches!(next, Next::Close)), (expected, closes), "{}", bytes.escape_ascii());
        let mut slow = Client::new();
        let mut next = Next::More;
        for byte in bytes {
            if matches!(next, Next::More) {
                next = slow.send(&[*byte], Health::Ready);
            }
        }
        assert_eq!((slow.said(), matches!(next, Next::Close)), (expected, closes), "{}", bytes.escape_ascii());
    }

    /// A table of two: one that begins with `ab`, one that begins with upper-case letters and a NUL.
    static FAKES: [fn(&[u8]) -> Begins; 2] = [
        |bytes| begins_with(bytes, &[b"ab"]),
        |bytes| match bytes.iter().position(|byte| !byte.is_ascii_uppercase()) {
            None => Begins::Maybe,
            Some(at) if at > 0 && bytes[at] == 0 => Begins::Yes,
            Some(_) => Begins::No,
        },
    ];

    fn fake_opening(bytes: &[u8]) -> Result<usize, bool> {
        match opening(bytes, &FAKES, |begins, bytes| begins(bytes)) {
            Opening::Is(row) => Ok(usize::from(!std::ptr::eq(row, &raw const FAKES[0]))),
            Opening::Open => Err(true),
            Opening::Foreign => Err(false),
        }
    }

    #[test]
    fn the_first_row_that_is_sure_is_chosen() {
        assert_eq!(fake_opening(b"abc"), Ok(0));
        assert_eq!(fake_opening(b"ADD\0x"), Ok(1));
        assert_eq!(fake_opening(b""), Err(true));
        assert_eq!(fake_opening(b"a"), Err(true));
        assert_eq!(fake_opening(b"ADD"), Err(true));
        assert_eq!(fake_opening(b"ADD "), Err(false));
        assert_eq!(fake_opening(b"b"), Err(false));
    }

    #[test]
    fn what_is_open_after_64_bytes_is_foreign_also_if_it_would_be_known_later() {
        let mut bytes = vec![b'A'; 63];
        assert_eq!(fake_opening(&bytes), Err(true));
        bytes.push(0);
        assert_eq!(fake_opening(&bytes), Ok(1));
        let mut bytes = vec![b'A'; 64];
        assert_eq!(fake_opening(&bytes), Err(false));
        bytes.push(0);
        assert_eq!(fake_opening(&bytes), Err(false));
    }

    #[test]
    fn words_begin_and_may_begin() {
        assert_eq!(begins_with(b"add x", &[b"add ", b"all "]), Begins::Yes);
        assert_eq!(begins_with(b"al", &[b"add ", b"all "]), Begins::Maybe);
        assert_eq!(begins_with(b"ax", &[b"add ", b"all "]), Begins::No);
    }

    #[test]
    fn a_protocol_is_found_and_spoken() {
        check(b"result x 1\r\n", "-CLIENT-ERROR Invalid ID\r\n", false);
        let mut client = Client::new();
        let next = client.send(b"inspect server\r\nfoo\r\n", Health::Ready);
        assert!(matches!(next, Next::Command(Command::Look(Look::Server))), "{next:?}");
        client.out.clear();
        let next = client.send(b"", Health::Ready);
        assert!(matches!(next, Next::Answered), "{next:?}");
        assert_eq!(client.said(), "-CLIENT-ERROR Unknown command\r\n");
        assert_eq!(client.any.deadline_ms(), None);
    }

    #[test]
    fn what_its_protocol_keeps_is_counted() {
        let mut client = Client::new();
        assert_eq!(client.any.unfinished_bytes(), 0);
        assert!(matches!(client.send(b"ATOMIC\nPUSH {\"name\":\"a\"}\n", Health::Ready), Next::More));
        assert!(client.any.unfinished_bytes() > 0);
    }

    #[test]
    fn http_is_spoken() {
        let mut client = Client::new();
        assert!(matches!(client.send(b"GET /healthz HTTP/1.0\r\n\r\n", Health::Draining), Next::Close));
        assert!(client.said().starts_with("HTTP/1.1 503 "), "{}", client.said());
    }

    #[test]
    fn http_has_what_is_left_of_the_time() {
        let mut client = Client::new();
        client.send(b"\r\nGET", Health::Ready);
        client.any.postpone(5);
        client.send(b" /healthz HTTP/1.0\r\n", Health::Ready);
        assert_eq!(client.any.deadline_ms(), Some(11_005));
        client.any.deadline_passed(&mut client.out);
        assert!(client.said().starts_with("HTTP/1.1 408 "), "{}", client.said());
    }

    #[test]
    fn the_options_reach_the_protocol() {
        let options = Options::parse("dialect=original", &["dialect"]).unwrap();
        assert_eq!(Any::new(&options).options, options);
    }

    #[test]
    fn blanks_are_passed_over_up_to_64() {
        let blanks = b" \t\r\n".repeat(16);
        check(&[&blanks[..], b"result x 1\r\n"].concat(), "-CLIENT-ERROR Invalid ID\r\n", false);
        check(&blanks, "", false);
        check(&[&blanks[..], b" "].concat(), SPOKEN, true);
    }

    #[test]
    fn what_begins_nothing_is_told_what_is_spoken() {
        check(b"hello\r\n", SPOKEN, true);
        check(b"\x16", SPOKEN, true);
        check(b"\x16\x03\x01", SPOKEN, true);
        check(b"results ", SPOKEN, true);
    }

    #[test]
    fn the_time_to_decide_begins_with_the_first_byte() {
        let mut client = Client::new();
        client.send(b"", Health::Ready);
        assert_eq!(client.any.deadline_ms(), None);
        client.any.postpone(5);
        assert_eq!(client.any.deadline_ms(), None);
        client.send(b"\r\n", Health::Ready);
        assert_eq!(client.any.deadline_ms(), Some(11_000));
        client.send(b"a", Health::Ready);
        client.any.postpone(5);
        assert_eq!(client.any.deadline_ms(), Some(11_005));
        client.any.deadline_passed(&mut client.out);
        assert_eq!(client.said(), SPOKEN);
    }

    #[test]
    fn a_client_that_ends_undecided_is_told_what_is_spoken_if_it_sent_anything() {
        let mut silent = Client::new();
        silent.any.end(&silent.input, &mut silent.out);
        assert_eq!(silent.said(), "");
        let mut client = Client::new();
        client.send(b"add", Health::Ready);
        client.any.end(&client.input, &mut client.out);
        assert_eq!(client.said(), SPOKEN);
    }

    #[test]
    fn while_the_server_starts_only_http_is_spoken_and_nobody_is_cut_off() {
        let mut client = Client::new();
        assert!(matches!(client.send(b"result x 1\r\n", Health::Starting), Next::More));
        assert_eq!((client.said(), client.any.deadline_ms()), ("", None));
        assert!(matches!(client.send(b"", Health::Ready), Next::Answered));
        assert_eq!(client.said(), "-CLIENT-ERROR Invalid ID\r\n");
        let mut probe = Client::new();
        assert!(matches!(probe.send(b"GET /healthz HTTP/1.0\r\n\r\n", Health::Starting), Next::Close));
        assert!(probe.said().ends_with("\r\n\r\nstarting"));
    }
}
