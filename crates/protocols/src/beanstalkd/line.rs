//! The lines of the protocol: which verb, and what its words say.

use jobyard_engine::{JobNumber, QueueName, Wait};
use memchr::memchr;

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    Put(Put),
    /// Of a job that was elsewhere before.
    PutOrigin(Put, Origin),
    ClaimOrigins(Box<[u8]>),
    CloseOrigin(Box<[u8]>),
    /// Those behind this one.
    ListOrigins(Box<[u8]>),
    Reserve(Wait),
    ReserveJob(JobNumber),
    Delete(JobNumber),
    Release {
        number: JobNumber,
        priority: u32,
        delay_s: u32,
    },
    Bury {
        number: JobNumber,
        priority: u32,
    },
    Touch(JobNumber),
    Kick(u32),
    KickJob(JobNumber),
    Peek(JobNumber),
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Stats,
    StatsJob(JobNumber),
    StatsTube(QueueName),
    Use(QueueName),
    Watch(QueueName),
    Ignore(QueueName),
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    PauseTube {
        tube: QueueName,
        pause_s: u32,
    },
    Quit,
}

/// What the line before a body says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Put {
    pub(super) priority: u32,
    pub(super) delay_s: u32,
    pub(super) ttr_s: u32,
    pub(super) size: u32,
    /// Whether something stands behind the size. A body that is too big is skipped all the same.
    pub(super) has_more: bool,
}

/// Where a job was before, and how it stood there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) name: Box<[u8]>,
    pub(super) is_buried: bool,
}

/// Why a line, or the body behind it, is nothing that can be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    BadFormat,
    UnknownCommand,
    ExpectedCrlf,
    JobTooBig,
}

impl Fault {
    /// As it is said.
    pub(super) fn text(self) -> &'static str {
        match self {
            Fault::BadFormat => "BAD_FORMAT",
            Fault::UnknownCommand => "UNKNOWN_COMMAND",
            Fault::ExpectedCrlf => "EXPECTED_CRLF",
            Fault::JobTooBig => "JOB_TOO_BIG",
        }
    }
}

/// The commands that are counted, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Put,
    Peek,
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Reserve,
    ReserveWithTimeout,
    Delete,
    Release,
    Use,
    Watch,
    Ignore,
    Bury,
    Kick,
    Touch,
    Stats,
    StatsJob,
    StatsTube,
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    PauseTube,
}

impl Counted {
    /// All of them, and what each is called among the statistics.
    pub(crate) const ALL: [(Counted, &'static str); 22] = [
        (Counted::Put, "cmd-put"),
        (Counted::Peek, "cmd-peek"),
        (Counted::PeekReady, "cmd-peek-ready"),
        (Counted::PeekDelayed, "cmd-peek-delayed"),
        (Counted::PeekBuried, "cmd-peek-buried"),
        (Counted::Reserve, "cmd-reserve"),
        (Counted::ReserveWithTimeout, "cmd-reserve-with-timeout"),
        (Counted::Delete, "cmd-delete"),
        (Counted::Release, "cmd-release"),
        (Counted::Use, "cmd-use"),
        (Counted::Watch, "cmd-watch"),
        (Counted::Ignore, "cmd-ignore"),
        (Counted::Bury, "cmd-bury"),
        (Counted::Kick, "cmd-kick"),
        (Counted::Touch, "cmd-touch"),
        (Counted::Stats, "cmd-stats"),
        (Counted::StatsJob, "cmd-stats-job"),
        (Counted::StatsTube, "cmd-stats-tube"),
        (Counted::ListTubes, "cmd-list-tubes"),
        (Counted::ListTubeUsed, "cmd-list-tube-used"),
        (Counted::ListTubesWatched, "cmd-list-tubes-watched"),
        (Counted::PauseTube, "cmd-pause-tube"),
    ];
}

/// What a line was found to say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    /// What is counted for it. Some lines count although they cannot be carried out.
    pub(super) counted: Option<Counted>,
    pub(super) request: Result<Request, Fault>,
}

impl Parsed {
    fn of(counted: Counted, request: Option<Request>) -> Self {
        match request {
            Some(request) => Parsed { counted: Some(counted), request: Ok(request) },
            None => Fault::BadFormat.into(),
        }
    }

    fn uncounted(request: Option<Request>) -> Self {
        Parsed { counted: None, request: request.ok_or(Fault::BadFormat) }
    }
}

impl From<Fault> for Parsed {
    fn from(fault: Fault) -> Self {
        Parsed { counted: None, request: Err(fault) }
    }
}

/// How the rest of a line is read, after a verb.
type Read = fn(&[u8]) -> Parsed;

/// Verbs as they begin a line, blank included where one is asked for. Of several that fit the first counts.
const VERBS: [(&[u8], Read); 30] = [
    (b"put ", put),
    (b"peek ", |rest| Parsed::of(Counted::Peek, only_number(rest).map(Request::Peek))),
    (b"peek-ready", |rest| Parsed::of(Counted::PeekReady, alone(rest, Request::PeekReady))),
    (b"peek-delayed", |rest| Parsed::of(Counted::PeekDelayed, alone(rest, Request::PeekDelayed))),
    (b"peek-buried", |rest| Parsed::of(Counted::PeekBuried, alone(rest, Request::PeekBuried))),
    (b"reserve-with-timeout ", |rest| Parsed::of(Counted::ReserveWithTimeout, timeout(rest).map(Request::Reserve))),
    (b"reserve-job ", |rest| Parsed::uncounted(only_number(rest).map(Request::ReserveJob))),
    (b"reserve", |rest| Parsed::of(Counted::Reserve, alone(rest, Request::Reserve(Wait::Forever)))),
    (b"delete ", |rest| Parsed::of(Counted::Delete, only_number(rest).map(Request::Delete))),
    (b"release ", |rest| Parsed::of(Counted::Release, release(rest))),
    (b"bury ", |rest| Parsed::of(Counted::Bury, bury(rest))),
    (b"kick-job ", |rest| Parsed::uncounted(only_number(rest).map(Request::KickJob))),
    (b"kick ", |rest| Parsed::of(Counted::Kick, bound(rest).map(Request::Kick))),
    (b"touch ", |rest| Parsed::of(Counted::Touch, only_number(rest).map(Request::Touch))),
    (b"stats-job ", |rest| Parsed::of(Counted::StatsJob, only_number(rest).map(Request::StatsJob))),
    (b"stats-tube ", |rest| Parsed::of(Counted::StatsTube, tube(rest).map(Request::StatsTube))),
    (b"stats", |rest| Parsed::of(Counted::Stats, alone(rest, Request::Stats))),
    (b"use ", |rest| Parsed::of(Counted::Use, tube(rest).map(Request::Use))),
    (b"watch ", |rest| Parsed::of(Counted::Watch, tube(rest).map(Request::Watch))),
    (b"ignore ", |rest| Parsed::of(Counted::Ignore, tube(rest).map(Request::Ignore))),
    (b"list-tubes-watched", |rest| Parsed::of(Counted::ListTubesWatched, alone(rest, Request::ListTubesWatched))),
    (b"list-tube-used", |rest| Parsed::of(Counted::ListTubeUsed, alone(rest, Request::ListTubeUsed))),
    (b"list-tubes", |rest| Parsed::of(Counted::ListTubes, alone(rest, Request::ListTubes))),
    (b"pause-tube", pause_tube),
    (b"claim-origins ", |rest| Parsed::uncounted(origin(rest).map(Request::ClaimOrigins))),
    (b"put-origin ", |rest| Parsed::uncounted(put_origin(rest))),
    (b"close-origin ", |rest| Parsed::uncounted(origin(rest).map(Request::CloseOrigin))),
    (b"list-origins ", |rest| Parsed::uncounted(origin(rest).map(Request::ListOrigins))),
    (b"list-origins", |rest| Parsed::uncounted(alone(rest, Request::ListOrigins(Box::default())))),
    (b"quit", |_| Parsed::uncounted(Some(Request::Quit))),
];

/// What a line says, without its end.
pub(super) fn parse(line: &[u8]) -> Parsed {
    if memchr(0, line).is_some() {
        return Fault::BadFormat.into();
    }
    // Most verbs are known to be others by their first letter.
    let mut likely = VERBS.iter().filter(|(verb, _)| verb.first() == line.first());
    let found = likely.find_map(|(verb, read)| line.strip_prefix(*verb).map(|rest| (rest, read)));
    found.map_or(Fault::UnknownCommand.into(), |(rest, read)| read(rest))
}

/// `put <priority> <delay> <ttr> <size>`
fn put(mut rest: &[u8]) -> Parsed {
    let mut number = || u32::try_from(number(&mut rest)?).ok();
    let (Some(priority), Some(delay_s), Some(ttr_s), Some(size)) = (number(), number(), number(), number()) else {
        return Fault::BadFormat.into();
    };
    let has_more = !rest.is_empty();
    Parsed::of(Counted::Put, Some(Request::Put(Put { priority, delay_s, ttr_s, size, has_more })))
}

/// `put-origin <priority> <delay> <ttr> <size> <ready or buried> <origin>`
fn put_origin(mut rest: &[u8]) -> Option<Request> {
    let (priority, delay_s) = (small(&mut rest)?, small(&mut rest)?);
    let (ttr_s, size) = (small(&mut rest)?, small(&mut rest)?);
    let (is_buried, name) = match (rest.strip_prefix(b" ready "), rest.strip_prefix(b" buried ")) {
        (Some(name), _) => (false, name),
        (None, Some(name)) => (true, name),
        (None, None) => return None,
    };
    let put = Put { priority, delay_s, ttr_s, size, has_more: false };
    Some(Request::PutOrigin(put, Origin { name: origin(name)?, is_buried }))
}

/// What an origin is called.
fn origin(name: &[u8]) -> Option<Box<[u8]>> {
    let is_name = (1..=ORIGIN_BYTES_MAX).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic);
    is_name.then(|| name.into())
}

/// `release <number> <priority> <delay>`
fn release(mut rest: &[u8]) -> Option<Request> {
    let (number, priority, delay_s) = (number(&mut rest)?, small(&mut rest)?, small(&mut rest)?);
    alone(rest, Request::Release { number, priority, delay_s })
}

/// `bury <number> <priority>`
fn bury(mut rest: &[u8]) -> Option<Request> {
    let (number, priority) = (number(&mut rest)?, small(&mut rest)?);
    alone(rest, Request::Bury { number, priority })
}

/// `pause-tube <tube> <seconds>`: the blanks may be any number, and the first may be missing. A name that is none counts
/// if its letters may stand in one.
fn pause_tube(rest: &[u8]) -> Parsed {
    let rest = without_blanks(rest);
    let end = rest.iter().take_while(|byte| is_in_names(byte)).count();
    let (name, mut rest) = rest.split_at(end);
    let pause_s = small(&mut rest).filter(|_| rest.is_empty());
    match (tube(name), pause_s) {
        (_, None) => Fault::BadFormat.into(),
        (None, Some(_)) => Parsed { counted: Some(Counted::PauseTube), request: Err(Fault::BadFormat) },
        (Some(tube), Some(pause_s)) => Parsed::of(Counted::PauseTube, Some(Request::PauseTube { tube, pause_s })),
    }
}

/// The request, if nothing stands behind it.
fn alone(rest: &[u8], request: Request) -> Option<Request> {
    rest.is_empty().then_some(request)
}

/// A number with nothing behind it.
fn only_number(mut rest: &[u8]) -> Option<u64> {
    number(&mut rest).filter(|_| rest.is_empty())
}

fn without_blanks(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|&&byte| byte == b' ').count()..]
}

/// Any number of blanks, then digits.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let text = without_blanks(rest);
    let (number, end) = digits(text)?;
    *rest = &text[end..];
    u64::try_from(number).ok()
}

fn small(rest: &mut &[u8]) -> Option<u32> {
    number(rest).and_then(|number| u32::try_from(number).ok())
}

/// The digits at the front, and how many they are; what is larger than 64 bits is only known to be so.
fn digits(text: &[u8]) -> Option<(u128, usize)> {
    /// So many always fit into 64 bits.
    const SHORT: usize = 19;
    let end = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = text[..end].iter().map(|byte| byte - b'0');
    let value = if end <= SHORT {
        digits.fold(0, |value, digit| value * 10 + u64::from(digit)).into()
    } else {
        let larger = u128::from(u64::MAX) + 1;
        digits.fold(0_u128, |value, digit| (value * 10 + u128::from(digit)).min(larger))
    };
    (end > 0).then_some((value, end))
}

/// White space, a sign and digits, as C's library reads them; what stands behind them does not matter.
fn signed(rest: &[u8]) -> Option<(bool, u128)> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let text = &rest[rest.iter().take_while(|byte| is_space(byte)).count()..];
    let (is_negative, text) = match text {
        [b'-', text @ ..] => (true, text),
        [b'+', text @ ..] => (false, text),
        text => (false, text),
    };
    digits(text).map(|(value, _)| (is_negative, value))
}

/// How many jobs to kick: only the lowest 32 bits count, of a negative number too.
fn bound(rest: &[u8]) -> Option<u32> {
    let (is_negative, value) = signed(rest)?;
    let value = u64::try_from(value).ok()?;
    let value = if is_negative { value.wrapping_neg() } else { value };
    Some(low_bits(value))
}

/// How long to wait: the lowest 32 bits, signed; a negative number is for ever, and no number is 0.
fn timeout(rest: &[u8]) -> Option<Wait> {
    let (is_negative, value) = signed(rest).unwrap_or_default();
    let magnitude_max = u128::from(i64::MAX.unsigned_abs()) + u128::from(is_negative);
    let value = u64::try_from(value).ok().filter(|&value| u128::from(value) <= magnitude_max)?;
    let seconds = low_bits(if is_negative { value.wrapping_neg() } else { value }).cast_signed();
    Some(match u64::try_from(seconds) {
        Ok(0) => Wait::No,
        Ok(seconds) => Wait::Millis(seconds * 1_000),
        Err(_) => Wait::Forever,
    })
}

fn low_bits(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).expect("32 bits")
}

/// The longest name of an origin.
pub const ORIGIN_BYTES_MAX: usize = 128;

/// The longest name of a tube.
pub const NAME_BYTES_MAX: usize = 200;

/// Whether a queue can be named here.
#[must_use]
pub fn is_tube(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name[0] != b'-' && name.iter().all(is_in_names)
}

fn is_in_names(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(byte)
}

fn tube(name: &[u8]) -> Option<QueueName> {
    is_tube(name).then(|| QueueName::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Result<Request, Fault> = Err(Fault::BadFormat);
    const UNKNOWN: Result<Request, Fault> = Err(Fault::UnknownCommand);

    fn said(line: &str) -> Result<Request, Fault> {
        parse(line.as_bytes()).request
    }

    #[test]
    fn what_is_counted_is_shown_in_its_order() {
        for (index, (counted, key)) in Counted::ALL.into_iter().enumerate() {
            assert_eq!(counted as usize, index, "{key}");
        }
    }

    #[test]
    fn a_verb_is_known_by_how_a_line_begins() {
        for line in ["put", "delete", "use", "kick", "kick-job", "touch", "peek", "put0 0 60 1", "kick1", "peek-", ""] {
            assert_eq!(said(line), UNKNOWN, "{line}");
        }
        for line in ["reserve-job", "reserve-with-timeout", "reservex", "reserve ", "stats-job", "statsfoo", "stats "] {
            assert_eq!(said(line), BAD, "{line}");
        }
        for line in
            ["peek-readyx", "list-tubesx", "list-tubes ", "list-tube-used x", "list-tubes-watchedx", "pause-tube"]
        {
            assert_eq!(said(line), BAD, "{line}");
        }
        for line in ["list-tube", "list", " stats", "STATS", "\nstats"] {
            assert_eq!(said(line), UNKNOWN, "{line:?}");
        }
        for line in ["quit", "quitx", "quit now"] {
            assert_eq!(said(line), Ok(Request::Quit), "{line}");
        }
        for line in ["quit\0", "foo\0"] {
            assert_eq!(said(line), BAD, "{line:?}");
        }
    }

    #[test]
    fn a_number_may_have_blanks_and_zeros_before_it_and_nothing_behind() {
        let deleted = |line| said(&format!("delete {line}"));
        assert_eq!(deleted("1"), Ok(Request::Delete(1)));
        assert_eq!(deleted("   0007"), Ok(Request::Delete(7)));
        assert_eq!(deleted("18446744073709551615"), Ok(Request::Delete(u64::MAX)));
        for wrong in ["18446744073709551616", "99999999999999999999999999", "1 ", "+1", "-1", "\t1", "x", "", "1x"] {
            assert_eq!(deleted(wrong), BAD, "{wrong:?}");
        }
        let release = Request::Release { number: 1, priority: u32::MAX, delay_s: 3 };
        assert_eq!(said("release 1 4294967295 3"), Ok(release));
        for wrong in ["release 1 4294967296 3", "release 1 2", "release 1 2 3 4", "bury 1", "bury 1 0 "] {
            assert_eq!(said(wrong), BAD, "{wrong:?}");
        }
    }

    #[test]
    fn a_put_is_known_by_four_numbers() {
        let put = |has_more| Put { priority: 1, delay_s: 2, ttr_s: 3, size: 4, has_more };
        assert_eq!(said("put 1 2 3 4"), Ok(Request::Put(put(false))));
        for line in ["put 1 2 3 4 ", "put 1 2 3 4x", "put 1 2 3 4 5"] {
            let parsed = parse(line.as_bytes());
            assert_eq!(parsed, Parsed { counted: Some(Counted::Put), request: Ok(Request::Put(put(true))) }, "{line}");
        }
        for line in ["put 1 2 3", "put 1 2 3 x", "put 1 2 3 4294967296", "put -1 2 3 4"] {
            assert_eq!(parse(line.as_bytes()), Fault::BadFormat.into(), "{line}");
        }
    }

    #[test]
    fn an_origin_is_a_word() {
        let put = Put { priority: 1, delay_s: 2, ttr_s: 3, size: 4, has_more: false };
        let origin = |is_buried| Origin { name: b"h:1/2"[..].into(), is_buried };
        assert_eq!(said("put-origin 1 2 3 4 ready h:1/2"), Ok(Request::PutOrigin(put, origin(false))));
        assert_eq!(said("put-origin 1 2 3 4 buried h:1/2"), Ok(Request::PutOrigin(put, origin(true))));
        assert_eq!(said("claim-origins h:1/"), Ok(Request::ClaimOrigins(b"h:1/"[..].into())));
        assert_eq!(said("close-origin h:1/2"), Ok(Request::CloseOrigin(b"h:1/2"[..].into())));
        assert_eq!(said("list-origins h:1/2"), Ok(Request::ListOrigins(b"h:1/2"[..].into())));
        assert_eq!(said("list-origins"), Ok(Request::ListOrigins(Box::default())));
        let (long, longer) = ("o".repeat(128), "o".repeat(129));
        assert_eq!(said(&format!("close-origin {long}")), Ok(Request::CloseOrigin(long.as_bytes().into())));
        for wrong in ["", " ", "a b", "a ", "\u{e4}", "\x01", &longer] {
            assert_eq!(said(&format!("close-origin {wrong}")), BAD, "{wrong:?}");
        }
        for wrong in
            ["1 2 3 ready o", "1 2 3 4 delayed o", "1 2 3 4 ready", "1 2 3 4 ready  o", "1 2 3 4294967296 ready o"]
        {
            assert_eq!(said(&format!("put-origin {wrong}")), BAD, "{wrong}");
        }
    }

    #[test]
    fn how_many_to_kick_and_how_long_to_wait_are_read_as_c_reads_them() {
        for (text, count) in [("1x", 1), ("1 2", 1), ("+1", 1), ("\t 1", 1), ("4294967296", 0), ("4294967297", 1)] {
            assert_eq!(said(&format!("kick {text}")), Ok(Request::Kick(count)), "{text}");
        }
        assert_eq!(said("kick -1"), Ok(Request::Kick(u32::MAX)));
        for wrong in ["kick x", "kick ", "kick 18446744073709551616"] {
            assert_eq!(said(wrong), BAD, "{wrong}");
        }
        for (text, wait) in [("x", Wait::No), ("", Wait::No), ("0", Wait::No), ("4294967296", Wait::No)] {
            assert_eq!(said(&format!("reserve-with-timeout {text}")), Ok(Request::Reserve(wait)), "{text}");
        }
        for (text, seconds) in [("1", 1), ("4294967297", 1), ("2147483647", 2_147_483_647), (" +7x", 7)] {
            let wait = Wait::Millis(seconds * 1_000);
            assert_eq!(said(&format!("reserve-with-timeout {text}")), Ok(Request::Reserve(wait)), "{text}");
        }
        for text in ["-1", "-2", "2147483648", "4294967295", "9223372036854775807"] {
            assert_eq!(said(&format!("reserve-with-timeout {text}")), Ok(Request::Reserve(Wait::Forever)), "{text}");
        }
        for text in ["9223372036854775808", "-9223372036854775809", "18446744073709551616"] {
            assert_eq!(said(&format!("reserve-with-timeout {text}")), BAD, "{text}");
        }
        assert_eq!(said("reserve-with-timeout -9223372036854775808"), Ok(Request::Reserve(Wait::No)));
    }

    #[test]
    fn a_tube_has_a_name_of_some_letters() {
        let name = |name: &str| said(&format!("use {name}"));
        let long = "t".repeat(200);
        for right in ["default", "a-+/;.$_()9", "+", long.as_str()] {
            assert_eq!(name(right), Ok(Request::Use(QueueName::new(right.as_bytes()))), "{right}");
        }
        for wrong in ["", "-a", " a", "a ", "a b", "a:b", "ä", &format!("{long}t")] {
            assert_eq!(name(wrong), BAD, "{wrong:?}");
        }
    }

    #[test]
    fn a_pause_may_have_blanks_anywhere_between_and_counts_also_with_a_name_that_is_none() {
        let pause = || Request::PauseTube { tube: QueueName::new(b"t"), pause_s: 3 };
        for line in ["pause-tube t 3", "pause-tubet 3", "pause-tube   t   3"] {
            assert_eq!(said(line), Ok(pause()), "{line}");
        }
        let wrong = Parsed { counted: Some(Counted::PauseTube), request: BAD };
        assert_eq!(parse(b"pause-tube -t 0"), wrong);
        for words in ["t x", "t", "t 3 ", "t 4294967296", "t,u 0", ", 0", "\t 0"] {
            assert_eq!(parse(format!("pause-tube {words}").as_bytes()), Fault::BadFormat.into(), "{words}");
        }
    }
}
