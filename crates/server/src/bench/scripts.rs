//! What each protocol's client sends for a cycle, and what it must hear.

use super::wire::{Exchange, Form, Message, Script, UUID_LEN};

/// Seconds until a job that was taken by a run that broke off is given to others.
const LEASE_SECONDS: u32 = 120;

/// Milliseconds until a workq job that was left by a run that broke off is gone.
const TTL_MS: u32 = 3_600_000;

/// How long one waits for a job at most.
const WAIT_SECONDS: u32 = 10;

fn asked(request: Message, reply: Message) -> Exchange {
    Exchange { request, reply }
}

pub fn goqueue(queue: String, body: &str, priorities: u32, uuid: [u8; UUID_LEN]) -> Script {
    let ttp = LEASE_SECONDS.to_le_bytes();
    let len = u32::try_from(body.len()).expect("bodies have at most 16 MiB").to_le_bytes();
    let name = [queue.as_bytes(), b"\0"].concat();
    let add = |priority: u32| {
        let request = [b"ADD\0", &name[..], &priority.to_le_bytes(), &ttp, &len, body.as_bytes()].concat();
        asked(Message::plain(request), Message::with_id("ADDED\0", Form::Bytes(8), ""))
    };
    // It waits in any case.
    let reserve = || {
        let request = [b"RESERVE\0", &name[..], &WAIT_SECONDS.to_le_bytes()].concat();
        let reserved = [&ttp[..], b"reserved\0", &len, body.as_bytes()].concat();
        let reply = Message::with_id("RESERVED\0", Form::Bytes(8), "").any(Form::Bytes(4)).then(reserved);
        asked(Message::plain(request), reply)
    };
    Script {
        greet: asked(Message::plain("CONNECT\0"), Message::plain("OK\0")),
        greet_names_queue: false,
        puts: (0..priorities).map(add).collect(),
        take: reserve(),
        wait: Some(reserve()),
        finish: asked(Message::with_id("DELETE\0", Form::Bytes(8), ""), Message::plain("OK\0")),
        queue,
        uuid,
    }
}

pub fn takeanumber(queue: String, body: &str, uuid: [u8; UUID_LEN]) -> Script {
    let add = Message::plain(format!("ADD {queue} 0 {body}\r\n"));
    let reserve = Message::plain(format!("RESERVE {queue}\r\n"));
    let done = Message::with_id(format!("DONE {queue} "), Form::Uuid, "\r\n");
    Script {
        greet: asked(Message::plain(format!("LEN {queue}\r\n")), Message::plain(":0\r\n")),
        greet_names_queue: false,
        puts: vec![asked(add, Message::with_id("+", Form::Uuid, "\r\n"))],
        take: asked(reserve, Message::with_id("+", Form::Uuid, format!(" {body}\r\n"))),
        wait: None,
        finish: asked(done, Message::plain("+OK\r\n")),
        queue,
        uuid,
    }
}

pub fn masenko(queue: String, payload: &str, uuid: [u8; UUID_LEN]) -> Script {
    let push = format!("PUSH {{\"name\":\"bench\",\"queue\":\"{queue}\",\"payload\":{payload}}}\n");
    let fetch = |timeout: &str| {
        let request = format!("FETCH {{\"queues\":[\"{queue}\"],\"timeout\":\"{timeout}\"}}\n");
        let task = format!(",\"queue\":\"{queue}\",\"name\":\"bench\",\"payload\":{payload}}}\n");
        asked(Message::plain(request), Message::with_id("OK {\"id\":", Form::Number, task))
    };
    Script {
        greet: asked(Message::plain("PING {}\n"), Message::plain("PONG {}\n")),
        greet_names_queue: false,
        puts: vec![asked(Message::plain(push), Message::with_id("OK {\"id\":", Form::Number, "}\n"))],
        take: fetch("1s"),
        wait: Some(fetch(&format!("{WAIT_SECONDS}s"))),
        finish: asked(Message::with_id("ACK {\"id\":", Form::Number, "}\n"), Message::plain("OK {}\n")),
        queue,
        uuid,
    }
}

pub fn jobcentre(queue: String, job: &str, priorities: u32, uuid: [u8; UUID_LEN]) -> Script {
    let ok_with_id = "{\"status\":\"ok\",\"id\":";
    let put = |priority| {
        let request = format!("{{\"request\":\"put\",\"queue\":\"{queue}\",\"job\":{job},\"pri\":{priority}}}\n");
        asked(Message::plain(request), Message::with_id(ok_with_id, Form::Number, "}\n"))
    };
    let get = |more: &str| Message::plain(format!("{{\"request\":\"get\",\"queues\":[\"{queue}\"]{more}}}\n"));
    let got = || {
        let id = Message::with_id(ok_with_id, Form::Number, format!(",\"job\":{job},\"pri\":"));
        id.any(Form::Number).then(format!(",\"queue\":\"{queue}\"}}\n"))
    };
    let delete = Message::with_id("{\"request\":\"delete\",\"id\":", Form::Number, "}\n");
    Script {
        greet: asked(get(""), Message::plain("{\"status\":\"no-job\"}\n")),
        greet_names_queue: false,
        puts: (0..priorities).map(put).collect(),
        take: asked(get(""), got()),
        wait: Some(asked(get(",\"wait\":true"), got())),
        finish: asked(delete, Message::plain("{\"status\":\"ok\"}\n")),
        queue,
        uuid,
    }
}

pub fn workq(queue: String, payload: &str, priorities: u32, uuid: [u8; UUID_LEN]) -> Script {
    let (ttr, len) = (LEASE_SECONDS * 1000, payload.len());
    let add = |priority| {
        // Who needs no priority sends none.
        let flag = if priorities > 1 { format!(" -priority={priority}") } else { String::new() };
        let request = format!(" {queue} {ttr} {TTL_MS} {len}{flag}\r\n{payload}\r\n");
        asked(Message::with_id("add ", Form::Uuid, request), Message::plain("+OK\r\n"))
    };
    let lease = |timeout_ms: u32| Message::plain(format!("lease {queue} {timeout_ms}\r\n"));
    let leased = || Message::with_id("+OK 1\r\n", Form::Uuid, format!(" {queue} {len}\r\n{payload}\r\n"));
    Script {
        greet: asked(lease(0), Message::plain("-TIMEOUT\r\n")),
        greet_names_queue: false,
        puts: (0..priorities).map(add).collect(),
        take: asked(lease(0), leased()),
        wait: Some(asked(lease(WAIT_SECONDS * 1000), leased())),
        // A completed job would stay with its result until its TTL ends.
        finish: asked(Message::with_id("delete ", Form::Uuid, "\r\n"), Message::plain("+OK\r\n")),
        queue,
        uuid,
    }
}

pub fn beanstalkd(queue: String, body: &str, priorities: u32, uuid: [u8; UUID_LEN]) -> Script {
    let len = body.len();
    let put = |priority| {
        let request = format!("put {priority} 0 {LEASE_SECONDS} {len}\r\n{body}\r\n");
        asked(Message::plain(request), Message::with_id("INSERTED ", Form::Number, "\r\n"))
    };
    let reserve = |timeout: u32| {
        let request = Message::plain(format!("reserve-with-timeout {timeout}\r\n"));
        asked(request, Message::with_id("RESERVED ", Form::Number, format!(" {len}\r\n{body}\r\n")))
    };
    Script {
        greet: asked(
            Message::plain(format!("use {queue}\r\nwatch {queue}\r\nignore default\r\n")),
            Message::plain(format!("USING {queue}\r\nWATCHING 2\r\nWATCHING 1\r\n")),
        ),
        greet_names_queue: true,
        puts: (0..priorities).map(put).collect(),
        take: reserve(0),
        wait: Some(reserve(WAIT_SECONDS)),
        finish: asked(Message::with_id("delete ", Form::Number, "\r\n"), Message::plain("DELETED\r\n")),
        queue,
        uuid,
    }
}

/// A body begins with its job's UUID, because a list's items are removed by what they are.
pub fn redis(queue: String, fill: &str, uuid: [u8; UUID_LEN]) -> Script {
    let taken = format!("{queue}-taken");
    let len = UUID_LEN + fill.len();
    let bulks = |words: &[&str]| words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect::<String>();
    let command = |words: &[&str]| Message::plain(format!("*{}\r\n{}", words.len(), bulks(words)));
    // Its last word is the body.
    let about_a_body = |words: &[&str]| {
        let before = format!("*{}\r\n{}${len}\r\n", words.len() + 1, bulks(words));
        Message::with_id(before, Form::Uuid, format!("{fill}\r\n"))
    };
    let moved = || Message::with_id(format!("${len}\r\n"), Form::Uuid, format!("{fill}\r\n"));
    let lmove = command(&["LMOVE", &queue, &taken, "RIGHT", "LEFT"]);
    let blmove = command(&["BLMOVE", &queue, &taken, "RIGHT", "LEFT", &WAIT_SECONDS.to_string()]);
    Script {
        greet: asked(command(&["LLEN", &queue]), Message::plain(":0\r\n")),
        greet_names_queue: false,
        puts: vec![asked(about_a_body(&["LPUSH", &queue]), Message::plain(":").any(Form::Number).then("\r\n"))],
        take: asked(lmove, moved()),
        wait: Some(asked(blmove, moved())),
        finish: asked(about_a_body(&["LREM", &taken, "1"]), Message::plain(":1\r\n")),
        queue,
        uuid,
    }
}

/// The requests of a client of beanstalkd, which come back.
pub fn echo(queue: String, body: &str, uuid: [u8; UUID_LEN]) -> Script {
    let echoed = |text: &str| asked(Message::plain(text), Message::plain(text));
    Script {
        greet: echoed("list-tube-used\r\n"),
        greet_names_queue: false,
        puts: vec![echoed(&format!("put 0 0 {LEASE_SECONDS} {}\r\n{body}\r\n", body.len()))],
        take: echoed("reserve-with-timeout 0\r\n"),
        wait: None,
        finish: echoed("delete 1234567\r\n"),
        queue,
        uuid,
    }
}
