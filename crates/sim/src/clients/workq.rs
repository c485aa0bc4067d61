//! workq, as a client speaks it.

use super::{
    Answer, Ask, Choice, Counts, DAY_MS, DEFAULT_LEASE_MS, Found, Heard, PAGE, Put, RUN_WAIT_MS, Said, Speaker, date,
    line, nonsense, text, unexpected, unfinished,
};

pub const SPEAKER: Speaker = Speaker {
    protocol: "workq",
    holds_by_connection: false,
    removes_what_is_done: false,
    choice: Choice::Random,
    heartbeat: false,
    lease_ms: Some(DEFAULT_LEASE_MS),
    lease_ms_max: None,
    too_many_clients: "-SERVER-ERROR Too many clients\r\n",
    too_much_input: "-SERVER-ERROR Too much unfinished input\r\n",
    nonsense: nonsense::WORKQ,
    blunders: nonsense::WORKQ_BLUNDERS,
    unfinished: unfinished::WORKQ,
    commands: &[
        "workq add",
        "workq schedule",
        "workq run",
        "workq lease",
        "workq complete",
        "workq fail",
        "workq delete",
        "workq inspect queue",
        "workq inspect job",
        "workq inspect jobs",
        "workq inspect scheduled-jobs",
        "workq inspect queues",
        "workq inspect server",
        "workq result",
        "workq nonsense",
        "workq unfinished",
        "workq blunder",
    ],
    say,
    hear,
};

/// Long enough for every test.
const LIFETIME_MS: u64 = 1 << 50;
/// The results of those who complete, and of those who fail.
const GOOD: &str = "good";
const BAD: &str = "bad";

fn say(ask: &Ask, wall_ms: i64) -> Said {
    if let Ask::Nonsense(kind) = ask {
        return Some((nonsense::bytes(nonsense::WORKQ, *kind), "workq nonsense"));
    }
    let (text, label) = match ask {
        Ask::Put(put) => {
            let is_plain = put.delay_s.is_none() && put.lifetime_s.is_none() && put.failures.is_none();
            if put.is_masenkos() || put.runs && !is_plain {
                return None;
            }
            let (id, queue, body, len) = (put.uuid(), put.queue, &put.body, put.body.len());
            let (ttr, ttl) = (ttr(put), ttl(put));
            let fails = put.failures.map_or(String::new(), |failures| format!(" -max-fails={}", failures + 1));
            let attempts = put.attempts.map_or(String::new(), |attempts| format!(" -max-attempts={attempts}"));
            let flags = format!(" -priority={}{fails}{attempts}", put.urgency);
            let (command, label) = match put.delay_s {
                _ if put.runs => (format!("run {id} {queue} {ttr} {RUN_WAIT_MS} {len}"), "workq run"),
                None => (format!("add {id} {queue} {ttr} {ttl} {len}{flags}"), "workq add"),
                Some(delay_s) => {
                    let time = date(wall_ms + i64::from(delay_s) * 1_000);
                    (format!("schedule {id} {queue} {ttr} {ttl} {time} {len}{flags}"), "workq schedule")
                }
            };
            (format!("{command}\r\n{body}\r\n"), label)
        }
        Ask::Take { queues, wait_ms } if *wait_ms < DAY_MS => {
            (format!("lease {} {wait_ms}\r\n", queues.join(" ")), "workq lease")
        }
        Ask::Complete(held) => (format!("complete {} {}\r\n{GOOD}\r\n", held.id, GOOD.len()), "workq complete"),
        Ask::Fail(held) => (format!("fail {} {}\r\n{BAD}\r\n", held.id, BAD.len()), "workq fail"),
        Ask::Remove(held) => (format!("delete {}\r\n", held.id), "workq delete"),
        Ask::Count(queue) => (format!("inspect queue {queue}\r\n"), "workq inspect queue"),
        Ask::Inspect(uuid) => (format!("inspect job {uuid}\r\n"), "workq inspect job"),
        Ask::Result { uuid, wait_ms } => (format!("result {uuid} {wait_ms}\r\n"), "workq result"),
        Ask::List { queue, delayed: false, offset } => {
            (format!("inspect jobs {queue} {offset} {PAGE}\r\n"), "workq inspect jobs")
        }
        Ask::List { queue, delayed: true, offset } => {
            (format!("inspect scheduled-jobs {queue} {offset} {PAGE}\r\n"), "workq inspect scheduled-jobs")
        }
        Ask::Server => ("inspect server\r\n".to_owned(), "workq inspect server"),
        Ask::Queues => ("inspect queues 0 100\r\n".to_owned(), "workq inspect queues"),
        Ask::Greet if wall_ms % 2 == 0 => ("inspect server\r\n".to_owned(), "workq inspect server"),
        Ask::Greet => ("inspect queues 0 10\r\n".to_owned(), "workq inspect queues"),
        _ => return None,
    };
    Some((text.into_bytes(), label))
}

fn ttr(put: &Put) -> u64 {
    put.own_time_s.map_or(DAY_MS, |seconds| u64::from(seconds) * 1_000)
}

fn ttl(put: &Put) -> u64 {
    put.lifetime_s.map_or(LIFETIME_MS, |seconds| u64::from(seconds) * 1_000)
}

fn hear(ask: &Ask, bytes: &[u8]) -> Answer {
    let Some((first, used)) = line(bytes) else { return Ok(None) };
    let (first, rest) = (text(first), &bytes[used..]);
    if first == "-TIMEOUT" {
        return Ok(Some((used, Heard::Nothing)));
    }
    if first == "-NOT-FOUND" && matches!(ask, Ask::Inspect(_)) {
        return Ok(Some((used, Heard::Job(None))));
    }
    if first.starts_with('-') {
        return Ok(Some((used, Heard::Refused(first))));
    }
    match ask {
        Ask::Put(put) if put.runs => result(&put.uuid(), rest, used),
        Ask::Result { uuid, .. } => result(uuid, rest, used),
        Ask::List { .. } => listed(&first, rest, used),
        Ask::Server if first == "+OK 1" => {
            Ok(inspected_lines(rest).map(|(len, lines)| (used + len, Heard::Facts(lines))))
        }
        Ask::Queues => queues(&first, rest, used),
        Ask::Greet => Ok(listed(&first, rest, used)?.map(|(used, _)| (used, Heard::Done))),
        Ask::Put(_) if first == "+OK" => Ok(Some((used, Heard::Put(Vec::new())))),
        Ask::Complete(_) | Ask::Fail(_) | Ask::Remove(_) if first == "+OK" => Ok(Some((used, Heard::Done))),
        Ask::Take { .. } if first == "+OK 1" => Ok(taken(rest).map(|(len, heard)| (used + len, heard))),
        Ask::Count(_) if first == "+OK 1" => Ok(lines(rest, 3).map(|(lines, len)| {
            let count = |index: usize, key: &str| lines[index].strip_prefix(key).and_then(|count| count.parse().ok());
            let (ready, delayed) = (count(1, "ready-len "), count(2, "scheduled-len "));
            (used + len, Heard::Count(Counts { ready, delayed, ..Counts::default() }))
        })),
        Ask::Inspect(_) if first == "+OK 1" => Ok(inspected(rest).map(|(len, heard)| (used + len, heard))),
        _ => unexpected(bytes),
    }
}

/// `<id> <0|1> <size>`, and the result: what those who complete or fail a job say, or nothing.
fn result(uuid: &str, rest: &[u8], used: usize) -> Answer {
    let Some((head, len)) = line(rest) else { return Ok(None) };
    let head = text(head);
    let words: Vec<_> = head.split(' ').collect();
    let [id, success, size] = words[..] else { return unexpected(rest) };
    let size: usize = size.parse().map_err(|_| head.clone())?;
    let Some(result) = rest.get(len..len + size) else { return Ok(None) };
    if rest.len() < len + size + 2 {
        return Ok(None);
    }
    let said = if success == "1" { GOOD } else { BAD };
    if id != uuid || !result.is_empty() && result != said.as_bytes() {
        return unexpected(rest);
    }
    let heard = Heard::Result { success: success == "1", says: !result.is_empty() };
    Ok(Some((used + len + size + 2, heard)))
}

/// `<id> <name> <size>`, and the body.
fn taken(rest: &[u8]) -> Option<(usize, Heard)> {
    let (head, len) = line(rest)?;
    let head = text(head);
    let words: Vec<_> = head.split(' ').collect();
    let size: usize = words.last()?.parse().ok()?;
    let body = rest.get(len..len + size)?.to_vec();
    rest.get(len + size + 1)?;
    Some((len + size + 2, Heard::Took { id: words[0].to_owned(), body, failures: None }))
}

/// So many lines, and what they take.
fn lines(mut rest: &[u8], count: usize) -> Option<(Vec<String>, usize)> {
    let (mut lines, mut used) = (Vec::new(), 0);
    for _ in 0..count {
        let (one, len) = line(rest)?;
        lines.push(text(one));
        rest = &rest[len..];
        used += len;
    }
    Some((lines, used))
}

/// `<id> 12`, and so many lines of a key and its value. No body holds an end of line.
fn inspected(rest: &[u8]) -> Option<(usize, Heard)> {
    let (len, lines) = inspected_lines(rest)?;
    let state = value(&lines, "state ").parse().ok()?;
    let body = value(&lines, "payload ").as_bytes().to_vec();
    Some((len, Heard::Job(Some(Found { state, body, facts: lines }))))
}

/// A name and a number, and so many lines; what they take.
fn inspected_lines(rest: &[u8]) -> Option<(usize, Vec<String>)> {
    let (head, len) = line(rest)?;
    let count: usize = text(head).rsplit(' ').next()?.parse().ok()?;
    let (lines, more) = lines(&rest[len..], count)?;
    Some((len + more, lines))
}

fn value<'a>(lines: &'a [String], key: &str) -> &'a str {
    lines.iter().find_map(|line| line.strip_prefix(key)).unwrap_or_default()
}

/// What must be said of a job, whatever has become of it.
pub(super) fn facts_of(put: &Put) -> Vec<String> {
    vec![
        format!("name {}", put.queue),
        format!("ttr {}", ttr(put)),
        format!("ttl {}", ttl(put)),
        format!("payload-size {}", put.body.len()),
        format!("max-attempts {}", put.attempts.unwrap_or(0)),
        format!("max-fails {}", put.failures.map_or(0, |failures| failures + 1)),
        format!("priority {}", put.urgency),
    ]
}

/// `+OK <count>`, and of so many queues the name, and how many jobs are ready and scheduled.
fn queues(first: &str, mut rest: &[u8], mut used: usize) -> Answer {
    let count: usize = first.strip_prefix("+OK ").and_then(|count| count.parse().ok()).ok_or(first)?;
    let mut facts = Vec::new();
    for _ in 0..count {
        let Some((head, _)) = line(rest) else { return Ok(None) };
        let Some((len, lines)) = inspected_lines(rest) else { return Ok(None) };
        let name = text(head).trim_end_matches(" 2").to_owned();
        facts.push(format!("{name} {} {}", value(&lines, "ready-len "), value(&lines, "scheduled-len ")));
        (rest, used) = (&rest[len..], used + len);
    }
    Ok(Some((used, Heard::Facts(facts))))
}

/// `+OK <count>`, and so many jobs.
fn listed(first: &str, mut rest: &[u8], mut used: usize) -> Answer {
    let count: usize = first.strip_prefix("+OK ").and_then(|count| count.parse().ok()).ok_or(first)?;
    let mut bodies = Vec::new();
    for _ in 0..count {
        let Some((len, lines)) = inspected_lines(rest) else { return Ok(None) };
        bodies.push(value(&lines, "payload ").as_bytes().to_vec());
        (rest, used) = (&rest[len..], used + len);
    }
    Ok(Some((used, Heard::List(bodies))))
}
