//! takeanumber, as a client speaks it: in lines, or in arrays as those of Redis do.

use super::{
    Answer, Ask, Choice, Counts, Heard, Said, Speaker, TAKEANUMBER_LEASE_MS, TALKS, line, nonsense, text, unexpected,
    unfinished,
};

pub const SPEAKER: Speaker = Speaker {
    protocol: "takeanumber",
    holds_by_connection: false,
    removes_what_is_done: false,
    choice: Choice::Best,
    heartbeat: false,
    lease_ms: None,
    lease_ms_max: None,
    too_many_clients: "-ERR Too many clients.\r\n",
    too_much_input: "-ERR Too much unfinished input.\r\n",
    nonsense: nonsense::TAKEANUMBER,
    blunders: nonsense::TAKEANUMBER_BLUNDERS,
    unfinished: unfinished::TAKEANUMBER,
    commands: &[
        "takeanumber ADD",
        "takeanumber RESERVE",
        "takeanumber DONE",
        "takeanumber RETRY",
        "takeanumber LEN",
        "takeanumber AUTH",
        "takeanumber CLIENT GETNAME",
        "takeanumber CLIENT ID",
        "takeanumber CLIENT MAINT_NOTIFICATIONS",
        "takeanumber CLIENT NO-EVICT",
        "takeanumber CLIENT NO-TOUCH",
        "takeanumber CLIENT SETINFO",
        "takeanumber CLIENT SETNAME",
        "takeanumber COMMAND",
        "takeanumber COMMAND COUNT",
        "takeanumber COMMAND DOCS",
        "takeanumber ECHO",
        "takeanumber HELLO",
        "takeanumber INFO",
        "takeanumber PING",
        "takeanumber RESET",
        "takeanumber SELECT",
        "takeanumber QUIT",
        "takeanumber CLOSE",
        "takeanumber nonsense",
        "takeanumber unfinished",
        "takeanumber blunder",
    ],
    say,
    hear,
};

/// One whose listener ends leases.
pub const LEASED: Speaker = Speaker { lease_ms_max: Some(TAKEANUMBER_LEASE_MS), ..SPEAKER };

fn say(ask: &Ask, wall_ms: i64) -> Said {
    if let Ask::Nonsense(kind) = ask {
        return Some((nonsense::bytes(nonsense::TAKEANUMBER, *kind), "takeanumber nonsense"));
    }
    if let Ask::SmallTalk(kind) = ask {
        let talk = &TALKS[*kind];
        return Some((array(talk.words).into_bytes(), talk.label));
    }
    let (line, label) = say_line(ask)?;
    let may_be_array = !line.starts_with('*');
    // Whoever speaks mixes both forms.
    let words = line.trim_end().splitn(4, ' ');
    let text = if may_be_array && wall_ms % 2 == 0 { array(&words.collect::<Vec<_>>()) } else { line };
    Some((text.into_bytes(), label))
}

pub(super) fn array(words: &[&str]) -> String {
    let bulk = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), bulk.collect::<String>())
}

fn say_line(ask: &Ask) -> Option<(String, &'static str)> {
    Some(match ask {
        Ask::Put(put) => {
            let plain = put.delay_s.is_none() && put.lifetime_s.is_none() && put.own_time_s.is_none();
            if !plain || put.is_masenkos() || put.runs || put.urgency != 0 {
                return None;
            }
            (format!("ADD {} {} {}\r\n", put.queue, put.failures.unwrap_or(1_000_000), put.body), "takeanumber ADD")
        }
        Ask::Take { queues, wait_ms: 0 } => (format!("RESERVE {}\r\n", queues[0]), "takeanumber RESERVE"),
        Ask::Complete(held) => (format!("DONE {} {}\r\n", held.queue, held.id), "takeanumber DONE"),
        Ask::Fail(held) => (format!("RETRY {} {}\r\n", held.queue, held.id), "takeanumber RETRY"),
        Ask::Count(queue) => (format!("LEN {queue}\r\n"), "takeanumber LEN"),
        // This has no line.
        Ask::Leave { politely: true } => (array(&["QUIT"]), "takeanumber QUIT"),
        Ask::Leave { politely: false } => ("CLOSE\r\n".to_owned(), "takeanumber CLOSE"),
        _ => return None,
    })
}

fn hear(ask: &Ask, bytes: &[u8]) -> Answer {
    if matches!(ask, Ask::SmallTalk(_)) && !bytes.starts_with(b"-") {
        return Ok(value(bytes)?.map(|used| (used, Heard::Facts(vec![text(&bytes[..used])]))));
    }
    let Some((line, used)) = line(bytes) else { return Ok(None) };
    let heard = match (line.split_first(), ask) {
        (Some((b'-', b"ERR No items available to reserve.")), Ask::Take { .. }) => Heard::Nothing,
        (Some((b'-', words)), _) => Heard::Refused(text(words)),
        (Some((b':', b"-1")), Ask::Take { .. }) => Heard::Nothing,
        (Some((b':', count)), Ask::Count(_)) => {
            let free = Some(text(count).parse().map_err(|_| text(line))?);
            Heard::Count(Counts { free, ..Counts::default() })
        }
        (Some((b'+', uuid)), Ask::Put(_)) => match number_of(uuid) {
            Some(number) => Heard::Put(vec![number]),
            None => return unexpected(line),
        },
        (Some((b'+', b"OK")), Ask::Complete(_) | Ask::Fail(_) | Ask::Leave { .. }) => Heard::Done,
        (Some((b'+', job)), Ask::Take { .. }) if job.len() > 37 => {
            Heard::Took { id: text(&job[..36]), body: job[37..].to_vec(), failures: None }
        }
        _ => return unexpected(line),
    };
    Ok(Some((used, heard)))
}

/// What one value of Redis takes, of whatever kind, if it is whole.
fn value(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some((head, mut used)) = line(bytes) else { return Ok(None) };
    let Some((kind, count)) = head.split_first() else { return Err(text(head)) };
    let count = || text(count).parse::<usize>().map_err(|_| text(head));
    let values = match kind {
        b'+' | b':' | b'_' => 0,
        b'$' if head == b"$-1" => 0,
        b'$' | b'=' => {
            used += count()? + 2;
            0
        }
        b'*' => count()?,
        b'%' => 2 * count()?,
        _ => return Err(text(head)),
    };
    for _ in 0..values {
        let Some(rest) = bytes.get(used..) else { return Ok(None) };
        let Some(more) = value(rest)? else { return Ok(None) };
        used += more;
    }
    Ok((used <= bytes.len()).then_some(used))
}

/// The number of which a UUID was made: it is in its last digits as long as there are few jobs.
fn number_of(uuid: &[u8]) -> Option<u64> {
    u64::from_str_radix(text(uuid).rsplit('-').next()?, 16).ok()
}
