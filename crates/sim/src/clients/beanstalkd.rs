//! beanstalkd, as a client speaks it. What it uses and watches is for others to remember.

use super::{
    Answer, Ask, Choice, Counts, DAY_MS, DEFAULT_LEASE_MS, FOR_EVER_MS, Heard, Put, Said, Speaker, Standing,
    URGENCY_MAX, line, nonsense, text, unexpected, unfinished,
};

pub const SPEAKER: Speaker = Speaker {
    protocol: "beanstalkd",
    holds_by_connection: true,
    removes_what_is_done: true,
    choice: Choice::Best,
    heartbeat: false,
    lease_ms: Some(DEFAULT_LEASE_MS),
    lease_ms_max: None,
    too_many_clients: "OUT_OF_MEMORY\r\n",
    too_much_input: "OUT_OF_MEMORY\r\n",
    nonsense: nonsense::BEANSTALKD,
    blunders: &[],
    unfinished: unfinished::BEANSTALKD,
    commands: &[
        "beanstalkd put",
        "beanstalkd put-origin",
        "beanstalkd claim-origins",
        "beanstalkd close-origin",
        "beanstalkd list-origins",
        "beanstalkd reserve",
        "beanstalkd reserve-with-timeout",
        "beanstalkd reserve-job",
        "beanstalkd delete",
        "beanstalkd release",
        "beanstalkd bury",
        "beanstalkd kick",
        "beanstalkd kick-job",
        "beanstalkd touch",
        "beanstalkd peek",
        "beanstalkd peek-ready",
        "beanstalkd peek-delayed",
        "beanstalkd peek-buried",
        "beanstalkd stats",
        "beanstalkd stats-job",
        "beanstalkd stats-tube",
        "beanstalkd list-tubes",
        "beanstalkd list-tube-used",
        "beanstalkd list-tubes-watched",
        "beanstalkd pause-tube",
        "beanstalkd use",
        "beanstalkd watch",
        "beanstalkd ignore",
        "beanstalkd quit",
        "beanstalkd nonsense",
        "beanstalkd unfinished",
    ],
    say,
    hear,
};

/// A delay that is said and makes no difference.
const IGNORED_DELAY_S: u32 = 1;

fn say(ask: &Ask, _wall_ms: i64) -> Said {
    if let Ask::Nonsense(kind) = ask {
        return Some((nonsense::bytes(nonsense::BEANSTALKD, *kind), "beanstalkd nonsense"));
    }
    if let Ask::Put(put) = ask {
        return say_put(put);
    }
    let (line, label) = say_line(ask)?;
    Some((format!("{line}\r\n").into_bytes(), label))
}

fn say_put(put: &Put) -> Said {
    if put.is_masenkos() || put.runs || put.lifetime_s.is_some() || put.failures.is_some() {
        return None;
    }
    let (priority, delay_s, body, len) = (priority(put.urgency), put.delay_s.unwrap_or(0), &put.body, put.body.len());
    let ttr_s = put.own_time_s.map_or(DAY_MS / 1_000, u64::from);
    let Some(origin) = put.origin else {
        return Some((format!("put {priority} {delay_s} {ttr_s} {len}\r\n{body}\r\n").into_bytes(), "beanstalkd put"));
    };
    // Where it is put aside, its delay does not matter.
    let (delay_s, state) = if put.aside { (IGNORED_DELAY_S, "buried") } else { (delay_s, "ready") };
    let line = format!("put-origin {priority} {delay_s} {ttr_s} {len} {state} o/{origin}\r\n{body}\r\n");
    Some((line.into_bytes(), "beanstalkd put-origin"))
}

fn say_line(ask: &Ask) -> Option<(String, &'static str)> {
    Some(match ask {
        Ask::Take { wait_ms: FOR_EVER_MS, .. } => ("reserve".to_owned(), "beanstalkd reserve"),
        Ask::Take { wait_ms, .. } => {
            (format!("reserve-with-timeout {}", wait_ms / 1_000), "beanstalkd reserve-with-timeout")
        }
        Ask::Complete(held) | Ask::Remove(held) => (format!("delete {}", held.id), "beanstalkd delete"),
        Ask::PutBack { held, urgency, delay_s } => {
            (format!("release {} {} {delay_s}", held.id, priority(*urgency)), "beanstalkd release")
        }
        Ask::Bury { held, urgency } => (format!("bury {} {}", held.id, priority(*urgency)), "beanstalkd bury"),
        Ask::Kick { count, .. } => (format!("kick {count}"), "beanstalkd kick"),
        Ask::KickJob(held) => (format!("kick-job {}", held.id), "beanstalkd kick-job"),
        Ask::TakeThis(held) => (format!("reserve-job {}", held.id), "beanstalkd reserve-job"),
        Ask::Pause { queue, pause_s } => (format!("pause-tube {queue} {pause_s}"), "beanstalkd pause-tube"),
        Ask::Extend(held) => (format!("touch {}", held.id), "beanstalkd touch"),
        Ask::State(held) => (format!("stats-job {}", held.id), "beanstalkd stats-job"),
        Ask::Peek(held) => (format!("peek {}", held.id), "beanstalkd peek"),
        Ask::PeekNext { state, .. } => match state {
            Standing::Ready => ("peek-ready".to_owned(), "beanstalkd peek-ready"),
            Standing::Delayed => ("peek-delayed".to_owned(), "beanstalkd peek-delayed"),
            Standing::Buried => ("peek-buried".to_owned(), "beanstalkd peek-buried"),
        },
        Ask::Count(queue) | Ask::Figures(queue) => (format!("stats-tube {queue}"), "beanstalkd stats-tube"),
        Ask::Queues => ("list-tubes".to_owned(), "beanstalkd list-tubes"),
        Ask::Greet => ("stats".to_owned(), "beanstalkd stats"),
        Ask::ClaimOrigins => ("claim-origins o/".to_owned(), "beanstalkd claim-origins"),
        Ask::CloseOrigin(origin) => (format!("close-origin o/{origin}"), "beanstalkd close-origin"),
        Ask::Origins { after: None } => ("list-origins".to_owned(), "beanstalkd list-origins"),
        Ask::Origins { after: Some(after) } => (format!("list-origins o/{after}"), "beanstalkd list-origins"),
        Ask::Use(queue) => (format!("use {queue}"), "beanstalkd use"),
        Ask::Watch(queue) => (format!("watch {queue}"), "beanstalkd watch"),
        Ask::Ignore(queue) => (format!("ignore {queue}"), "beanstalkd ignore"),
        Ask::Attended { watched: false } => ("list-tube-used".to_owned(), "beanstalkd list-tube-used"),
        Ask::Attended { watched: true } => ("list-tubes-watched".to_owned(), "beanstalkd list-tubes-watched"),
        Ask::Leave { politely: false } => ("quit".to_owned(), "beanstalkd quit"),
        _ => return None,
    })
}

/// The smaller, the sooner.
fn priority(urgency: u32) -> u32 {
    URGENCY_MAX - urgency.min(URGENCY_MAX)
}

/// What says that something cannot be done, or makes no sense.
const REFUSALS: [&str; 10] = [
    "OPEN",
    "TAKEN",
    "NOT_CLAIMED",
    "NOT_FOUND",
    "NOT_IGNORED",
    "DRAINING",
    "OUT_OF_MEMORY",
    "EXPECTED_CRLF",
    "BAD_FORMAT",
    "UNKNOWN_COMMAND",
];

fn hear(ask: &Ask, bytes: &[u8]) -> Answer {
    let Some((first, used)) = line(bytes) else { return Ok(None) };
    let first = text(first);
    if REFUSALS.contains(&&*first) {
        return Ok(Some((used, Heard::Refused(first))));
    }
    let words: Vec<&str> = first.split(' ').collect();
    let heard = match (ask, &words[..]) {
        (Ask::Put(_), ["INSERTED", number]) => Heard::Put(vec![number.parse().map_err(|_| first.clone())?]),
        (Ask::Take { .. }, ["TIMED_OUT"]) => Heard::Nothing,
        (Ask::Take { .. }, ["DEADLINE_SOON"]) => Heard::Soon,
        (Ask::Take { .. } | Ask::TakeThis(_), ["RESERVED", id, size]) => {
            let taken = |body| Heard::Took { id: (*id).to_owned(), body, failures: None };
            return with_body(size, &bytes[used..], used, taken);
        }
        (Ask::Peek(held), ["FOUND", id, size]) if held.id == *id => {
            return with_body(size, &bytes[used..], used, |body| Heard::List(vec![body]));
        }
        (Ask::PeekNext { .. }, ["FOUND", id, size]) => {
            return with_body(size, &bytes[used..], used, |body| Heard::Shown { id: (*id).to_owned(), body });
        }
        (Ask::Complete(_) | Ask::Remove(_), ["DELETED"])
        | (Ask::PutBack { .. }, ["RELEASED"])
        | (Ask::Bury { .. }, ["BURIED"])
        | (Ask::KickJob(_), ["KICKED"])
        | (Ask::Extend(_), ["TOUCHED"])
        | (Ask::Pause { .. }, ["PAUSED"])
        | (Ask::ClaimOrigins, ["CLAIMED"])
        | (Ask::CloseOrigin(_), ["CLOSED"]) => Heard::Done,
        (Ask::Watch(_) | Ask::Ignore(_), ["WATCHING", count]) => {
            Heard::Watching(count.parse().map_err(|_| first.clone())?)
        }
        (Ask::Use(queue), ["USING", name]) if queue == name => Heard::Done,
        (Ask::Attended { watched: false }, ["USING", name]) => Heard::Facts(vec![(*name).to_owned()]),
        (Ask::Kick { .. }, ["KICKED", count]) => Heard::Kicked(count.parse().map_err(|_| first.clone())?),
        (
            Ask::Count(_)
            | Ask::Figures(_)
            | Ask::State(_)
            | Ask::Greet
            | Ask::Queues
            | Ask::Origins { .. }
            | Ask::Attended { watched: true },
            ["OK", size],
        ) => {
            return with_body(size, &bytes[used..], used, |page| page_of(ask, &page));
        }
        _ => return unexpected(bytes),
    };
    Ok(Some((used, heard)))
}

/// So many bytes and the end of a line.
fn with_body(size: &str, rest: &[u8], used: usize, heard: impl FnOnce(Vec<u8>) -> Heard) -> Answer {
    let size: usize = size.parse().map_err(|_| size.to_owned())?;
    let Some(body) = rest.get(..size + 2) else { return Ok(None) };
    match body.strip_suffix(b"\r\n") {
        Some(body) => Ok(Some((used + size + 2, heard(body.to_vec())))),
        None => unexpected(rest),
    }
}

/// A page of YAML: names, or names and values.
fn page_of(ask: &Ask, page: &[u8]) -> Heard {
    let page = text(page);
    let facts = page.lines().skip(1).map(|line| line.strip_prefix("- ").unwrap_or(line));
    let value = |key: &str| facts.clone().find_map(|fact| fact.strip_prefix(key));
    let count = |key: &str| value(key).and_then(|count| count.parse().ok());
    match ask {
        Ask::Count(_) => Heard::Count(Counts {
            ready: count("current-jobs-ready: "),
            delayed: count("current-jobs-delayed: "),
            leased: count("current-jobs-reserved: "),
            buried: count("current-jobs-buried: "),
            pause_s: value("pause: ").and_then(|seconds| seconds.parse().ok()),
            free: None,
        }),
        _ => Heard::Facts(facts.map(str::to_owned).collect()),
    }
}
