//! Job Centre, as a client speaks it.

use super::{
    Answer, Ask, Choice, FOR_EVER_MS, Heard, Said, Speaker, line, nonsense, number_after, object_after, text,
    unexpected, unfinished,
};

pub const SPEAKER: Speaker = Speaker {
    protocol: "jobcentre",
    holds_by_connection: true,
    removes_what_is_done: true,
    choice: Choice::Best,
    heartbeat: false,
    lease_ms: None,
    lease_ms_max: None,
    too_many_clients: "{\"status\":\"error\",\"error\":\"Too many clients.\"}\n",
    too_much_input: "{\"status\":\"error\",\"error\":\"Too much unfinished input.\"}\n",
    nonsense: nonsense::JOBCENTRE,
    blunders: &[],
    unfinished: unfinished::JOBCENTRE,
    commands: &[
        "jobcentre put",
        "jobcentre get",
        "jobcentre delete",
        "jobcentre abort",
        "jobcentre nonsense",
        "jobcentre unfinished",
    ],
    say,
    hear,
};

fn say(ask: &Ask, _wall_ms: i64) -> Said {
    if let Ask::Nonsense(kind) = ask {
        return Some((nonsense::bytes(nonsense::JOBCENTRE, *kind), "jobcentre nonsense"));
    }
    let (text, label) = match ask {
        Ask::Put(put) => {
            let plain = put.delay_s.is_none() && put.lifetime_s.is_none() && put.own_time_s.is_none();
            if !plain || put.is_masenkos() || put.runs || put.failures.is_some() {
                return None;
            }
            let (queue, body, urgency) = (put.queue, &put.body, put.urgency);
            let text = format!("{{\"request\":\"put\",\"queue\":\"{queue}\",\"job\":{body},\"pri\":{urgency}}}\n");
            (text, "jobcentre put")
        }
        Ask::Take { queues, wait_ms } => {
            let wait = match *wait_ms {
                0 => "false",
                FOR_EVER_MS => "true",
                _ => return None,
            };
            let queues: Vec<_> = queues.iter().map(|queue| format!("\"{queue}\"")).collect();
            let text = format!("{{\"request\":\"get\",\"queues\":[{}],\"wait\":{wait}}}\n", queues.join(","));
            (text, "jobcentre get")
        }
        Ask::Complete(held) | Ask::Remove(held) => {
            (format!("{{\"request\":\"delete\",\"id\":{}}}\n", held.id), "jobcentre delete")
        }
        Ask::Release(held) => (format!("{{\"request\":\"abort\",\"id\":{}}}\n", held.id), "jobcentre abort"),
        _ => return None,
    };
    Some((text.into_bytes(), label))
}

fn hear(ask: &Ask, bytes: &[u8]) -> Answer {
    let Some((line, used)) = line(bytes) else { return Ok(None) };
    let words = text(line);
    let heard = if words == "{\"status\":\"no-job\"}" {
        match ask {
            Ask::Take { .. } => Heard::Nothing,
            _ => Heard::Refused("no-job".to_owned()),
        }
    } else if words.starts_with("{\"status\":\"error\"") {
        Heard::Refused(words)
    } else {
        let id = number_after(&words, "\"id\":");
        match (ask, id, object_after(&words, "\"job\":")) {
            (Ask::Put(_), Some(id), None) => Heard::Put(vec![id]),
            (Ask::Take { .. }, Some(id), Some(body)) => {
                Heard::Took { id: id.to_string(), body: body.as_bytes().to_vec(), failures: None }
            }
            (Ask::Complete(_) | Ask::Remove(_) | Ask::Release(_), None, None) if words == "{\"status\":\"ok\"}" => {
                Heard::Done
            }
            _ => return unexpected(line),
        }
    };
    Ok(Some((used, heard)))
}
