//! masenko, as a client speaks it.

use super::{
    Answer, Ask, Choice, Counts, FOR_EVER_MS, Heard, Put, Said, Speaker, date, line, nonsense, number_after,
    object_after, text, unexpected, unfinished,
};

pub const SPEAKER: Speaker = Speaker {
    protocol: "masenko",
    holds_by_connection: true,
    removes_what_is_done: false,
    choice: Choice::InOrder,
    heartbeat: true,
    lease_ms: None,
    lease_ms_max: None,
    too_many_clients: "ERR {\"msg\":\"too many clients\"}\n",
    too_much_input: "ERR {\"msg\":\"too much unfinished input\"}\n",
    nonsense: nonsense::MASENKO,
    blunders: &[],
    unfinished: unfinished::MASENKO,
    commands: &[
        "masenko PUSH",
        "masenko FETCH",
        "masenko ACK",
        "masenko NACK",
        "masenko ATOMIC",
        "masenko INFO",
        "masenko PING",
        "masenko QUIT",
        "masenko nonsense",
        "masenko unfinished",
    ],
    say,
    hear,
};

fn task(put: &Put, wall_ms: i64, blocked_by: &[i64]) -> Option<String> {
    if put.lifetime_s.is_some() || put.own_time_s.is_some() || put.runs || put.urgency != 0 {
        return None;
    }
    let mut task = format!("{{\"name\":\"n\",\"queue\":\"{}\",\"payload\":{}", put.queue, put.body);
    task += &format!(",\"retry\":{}", put.failures.unwrap_or(255));
    if let Some(delay_s) = put.delay_s {
        task += &format!(",\"execute_at\":\"{}\"", date(wall_ms + i64::from(delay_s) * 1_000));
    }
    let blockers = put.blockers.iter().map(ToString::to_string).chain(blocked_by.iter().map(ToString::to_string));
    let blockers: Vec<_> = blockers.collect();
    if !blockers.is_empty() {
        task += &format!(",\"blocked_by\":[{}]", blockers.join(","));
    }
    if let Some(queue) = put.dead_queue {
        task += &format!(",\"deadqueue\":\"{queue}\"");
    }
    Some(task + "}")
}

fn say(ask: &Ask, wall_ms: i64) -> Said {
    if let Ask::Nonsense(kind) = ask {
        return Some((nonsense::bytes(nonsense::MASENKO, *kind), "masenko nonsense"));
    }
    let (text, label) = match ask {
        Ask::Put(put) => (format!("PUSH {}\n", task(put, wall_ms, &[])?), "masenko PUSH"),
        Ask::Group { puts, completes } => {
            let mut text = "ATOMIC\n".to_owned();
            for (index, put) in puts.iter().enumerate() {
                let blocked_by: &[i64] = if index == 0 { &[] } else { &[-1] };
                text += &format!("PUSH {}\n", task(put, wall_ms, blocked_by)?);
            }
            if let Some(held) = completes {
                text += &format!("ACK {{\"id\":{}}}\n", held.id);
            }
            (text + "DONE\n", "masenko ATOMIC")
        }
        Ask::Take { queues, wait_ms } => {
            // 0 is not allowed, and a millisecond is as good.
            let wait_ms = if *wait_ms == FOR_EVER_MS { return None } else { (*wait_ms).max(1) };
            let queues: Vec<_> = queues.iter().map(|queue| format!("\"{queue}\"")).collect();
            let text = format!("FETCH {{\"queues\":[{}],\"timeout\":\"{wait_ms}ms\"}}\n", queues.join(","));
            (text, "masenko FETCH")
        }
        Ask::Complete(held) => (format!("ACK {{\"id\":{}}}\n", held.id), "masenko ACK"),
        Ask::Fail(held) => (format!("NACK {{\"id\":{}}}\n", held.id), "masenko NACK"),
        Ask::Count(_) | Ask::Queues | Ask::Server => ("INFO\n".to_owned(), "masenko INFO"),
        Ask::Greet => ("PING\n".to_owned(), "masenko PING"),
        Ask::Leave { politely: true } => ("QUIT\n".to_owned(), "masenko QUIT"),
        _ => return None,
    };
    Some((text.into_bytes(), label))
}

fn hear(ask: &Ask, bytes: &[u8]) -> Answer {
    let Some((line, used)) = line(bytes) else { return Ok(None) };
    let words = text(line);
    let heard = if words == "EMPTY {}" && matches!(ask, Ask::Take { .. }) {
        Heard::Nothing
    } else if words.starts_with("ERR {") {
        Heard::Refused(words)
    } else {
        match ask {
            Ask::Put(_) => number_after(&words, "OK {\"id\":").map(|id| Heard::Put(vec![id])),
            Ask::Group { .. } => words
                .strip_prefix("OK {\"ids\":[")
                .and_then(|list| list.strip_suffix("]}"))
                .map(|list| Heard::Put(list.split(',').filter_map(|id| id.parse().ok()).collect())),
            Ask::Take { .. } => {
                let id = number_after(&words, "OK {\"id\":");
                let body = object_after(&words, "\"payload\":");
                // None is not said, and no body says it.
                let failures = number_after(&words, "\"failures\":").unwrap_or(0).try_into().ok();
                id.zip(body).map(|(id, body)| Heard::Took {
                    id: id.to_string(),
                    body: body.as_bytes().to_vec(),
                    failures,
                })
            }
            Ask::Complete(_) | Ask::Fail(_) | Ask::Leave { .. } => (words == "OK {}").then_some(Heard::Done),
            Ask::Greet => (words == "PONG {}").then_some(Heard::Done),
            Ask::Queues => words.starts_with("OK {\"queues\":").then(|| Heard::Facts(queues(&words))),
            Ask::Server => words.starts_with("OK {\"queues\":").then(|| Heard::Facts(metrics(&words))),
            Ask::Count(queue) => words.starts_with("OK {\"queues\":").then(|| Heard::Count(counts(&words, queue))),
            _ => None,
        }
        .map_or_else(|| unexpected(line).map(|_| Heard::Done), Ok)?
    };
    Ok(Some((used, heard)))
}

/// Each queue, and how many tasks are ready and delayed.
fn queues(words: &str) -> Vec<String> {
    let number = |text: &str, mark: &str| number_after(text, mark).unwrap_or(0);
    let fact = |queue: &str| {
        let name = queue.split('"').next().unwrap_or_default();
        format!("{name} {} {}", number(queue, "\"ready\":"), number(queue, "\"delayed\":"))
    };
    words.split("{\"name\":\"").skip(1).map(fact).collect()
}

/// The counters since the start, if the dialect has them.
fn metrics(words: &str) -> Vec<String> {
    let Some(metrics) = object_after(words, "\"metrics\":") else { return Vec::new() };
    let pairs = metrics.trim_matches(['{', '}']).split(',');
    pairs.map(|pair| pair.replace('"', "").replace(':', " ")).collect()
}

fn counts(words: &str, queue: &str) -> Counts {
    let queue = words.find(&format!("{{\"name\":\"{queue}\""));
    let count = |mark: &str| number_after(&words[queue?..], mark).and_then(|count| usize::try_from(count).ok());
    // A queue that was never made has none.
    let [ready, delayed, leased] = ["\"ready\":", "\"delayed\":", "\"to_ack\":"].map(|mark| count(mark).or(Some(0)));
    Counts { ready, delayed, leased, ..Counts::default() }
}
