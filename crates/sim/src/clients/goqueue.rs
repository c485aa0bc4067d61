//! goqueue, as a client speaks it.

use super::{
    Answer, Ask, Choice, Counts, DEFAULT_LEASE_MS, FOR_EVER_MS, Heard, Said, Speaker, nonsense, text, unexpected,
    unfinished,
};

pub const SPEAKER: Speaker = Speaker {
    protocol: "goqueue",
    holds_by_connection: false,
    removes_what_is_done: true,
    choice: Choice::Best,
    heartbeat: false,
    lease_ms: Some(DEFAULT_LEASE_MS),
    lease_ms_max: None,
    too_many_clients: "ERROR\0Too many clients\0",
    too_much_input: "ERROR\0Too much unfinished input\0",
    nonsense: nonsense::GOQUEUE,
    blunders: nonsense::GOQUEUE_BLUNDERS,
    unfinished: unfinished::GOQUEUE,
    commands: &[
        "goqueue ADD",
        "goqueue RESERVE",
        "goqueue DELETE",
        "goqueue CONNECT",
        "goqueue nonsense",
        "goqueue unfinished",
        "goqueue blunder",
    ],
    say,
    hear,
};

fn say(ask: &Ask, _wall_ms: i64) -> Said {
    if let Ask::Nonsense(kind) = ask {
        return Some((nonsense::bytes(nonsense::GOQUEUE, *kind), "goqueue nonsense"));
    }
    match ask {
        Ask::Put(put) => {
            let plain = put.delay_s.is_none() && put.lifetime_s.is_none() && put.failures.is_none();
            if !plain || put.is_masenkos() || put.runs {
                return None;
            }
            let mut bytes = format!("ADD\0{}\0", put.queue).into_bytes();
            // The smaller, the sooner.
            bytes.extend((9 - put.urgency.min(9)).to_le_bytes());
            bytes.extend(put.own_time_s.unwrap_or(0).to_le_bytes());
            bytes.extend(u32::try_from(put.body.len()).ok()?.to_le_bytes());
            bytes.extend(put.body.as_bytes());
            Some((bytes, "goqueue ADD"))
        }
        Ask::Take { queues, wait_ms } if *wait_ms >= 1_000 => {
            // 0 is for ever.
            let seconds = if *wait_ms == FOR_EVER_MS { 0 } else { u32::try_from(wait_ms / 1_000).ok()? };
            let bytes = [format!("RESERVE\0{}\0", queues[0]).as_bytes(), &seconds.to_le_bytes()].concat();
            Some((bytes, "goqueue RESERVE"))
        }
        Ask::Remove(held) | Ask::Complete(held) => {
            let id: u64 = held.id.parse().ok()?;
            Some(([&b"DELETE\0"[..], &id.to_le_bytes()].concat(), "goqueue DELETE"))
        }
        Ask::Count(_) => Some((b"CONNECT\0".to_vec(), "goqueue CONNECT")),
        _ => None,
    }
}

fn hear(ask: &Ask, bytes: &[u8]) -> Answer {
    let Some(word_end) = bytes.iter().position(|byte| *byte == 0) else { return Ok(None) };
    let rest = &bytes[word_end + 1..];
    let used = word_end + 1;
    match (&bytes[..word_end], ask) {
        (b"OK", Ask::Count(_)) => Ok(Some((used, Heard::Count(Counts::default())))),
        (b"OK", Ask::Remove(_) | Ask::Complete(_)) => Ok(Some((used, Heard::Done))),
        (b"TIMEOUT", Ask::Take { .. }) => Ok(Some((used, Heard::Nothing))),
        (b"ADDED", Ask::Put(_)) => {
            Ok(rest.first_chunk().map(|id| (used + 8, Heard::Put(vec![u64::from_le_bytes(*id)]))))
        }
        (b"ERROR", _) => {
            let Some(end) = rest.iter().position(|byte| *byte == 0) else { return Ok(None) };
            Ok(Some((used + end + 1, Heard::Refused(text(&rest[..end])))))
        }
        (b"RESERVED", Ask::Take { .. }) => Ok(reserved(rest).map(|(len, heard)| (used + len, heard))),
        _ => unexpected(bytes),
    }
}

/// The id, the priority, the ttp, `reserved`, a length and the data.
fn reserved(rest: &[u8]) -> Option<(usize, Heard)> {
    let (id, rest) = rest.split_first_chunk()?;
    let rest = rest.get(8..)?.strip_prefix(b"reserved\0")?;
    let (len, rest) = rest.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let body = rest.get(..len)?.to_vec();
    Some((8 + 8 + 9 + 4 + len, Heard::Took { id: u64::from_le_bytes(*id).to_string(), body, failures: None }))
}
