//! What each protocol's client sends for a cycle, and what it must hear.

use std::hash::{BuildHasher, RandomState};

use jobyard_protocols::{Listener, find};

use super::wire::{Exchange, IdForm, Message, Script, UUID_LEN};
use crate::address::ANY_PORT;

/// What a server can speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Goqueue,
    Takeanumber,
    Masenko,
    Jobcentre,
    Workq,
    Beanstalkd,
}

/// A number that no other run has.
pub fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 6] = [
        Protocol::Goqueue,
        Protocol::Takeanumber,
        Protocol::Masenko,
        Protocol::Jobcentre,
        Protocol::Workq,
        Protocol::Beanstalkd,
    ];

    /// Its name in an address.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Goqueue => "goqueue",
            Protocol::Takeanumber => "takeanumber",
            Protocol::Masenko => "masenko",
            Protocol::Jobcentre => "jobcentre",
            Protocol::Workq => "workq",
            Protocol::Beanstalkd => "beanstalkd",
        }
    }

    /// The port on which a server is usually found.
    pub fn port(self) -> u16 {
        match find(self.name()) {
            Some(Listener::One(protocol)) => protocol.port.unwrap_or(ANY_PORT),
            _ => ANY_PORT,
        }
    }

    /// What stands around a body's filling.
    fn body_frame(self) -> [&'static str; 2] {
        match self {
            Protocol::Goqueue | Protocol::Workq | Protocol::Beanstalkd => ["", ""],
            // An empty body is refused.
            Protocol::Takeanumber => ["x", ""],
            Protocol::Masenko => ["\"", "\""],
            Protocol::Jobcentre => ["{\"fill\":\"", "\"}"],
        }
    }

    /// How small a body can be.
    pub fn body_bytes_min(self) -> usize {
        self.body_frame().concat().len()
    }

    /// The requests of this run in one of its queues, for bodies of a size that is no less than the least.
    pub fn script(self, run: u64, queue: u32, body_bytes: usize) -> Script {
        self.script_for(format!("bench-{run:016x}-{queue}"), run, queue, body_bytes)
    }

    /// The same in a queue of that name.
    pub fn script_for(self, name: String, run: u64, queue: u32, body_bytes: usize) -> Script {
        let [before, after] = self.body_frame();
        let body = [before, &"x".repeat(body_bytes - self.body_bytes_min()), after].concat();
        let [greet, put, take, finish] = match self {
            Protocol::Goqueue => goqueue(&name, &body),
            Protocol::Takeanumber => takeanumber(&name, &body),
            Protocol::Masenko => masenko(&name, &body),
            Protocol::Jobcentre => jobcentre(&name, &body),
            Protocol::Workq => workq(&name, &body),
            Protocol::Beanstalkd => beanstalkd(&name, &body),
        };
        let greet_names_queue = self == Protocol::Beanstalkd;
        Script { queue: name, greet, greet_names_queue, put, take, finish, uuid: uuid(run, queue) }
    }
}

/// A UUID of version 4 for each job: its run's, its queue's, and room for its number.
fn uuid(run: u64, queue: u32) -> [u8; UUID_LEN] {
    // In their third group Jobyard's own UUIDs have something else, so these are none of them.
    let text = format!("{:08x}-{:04x}-4000-8000-{:012x}", run >> 32, queue, 0);
    text.into_bytes().try_into().expect("the groups of a UUID have 36 letters")
}

/// Greeting, put, take and finish.
type Exchanges = [Exchange; 4];

fn asked(request: Message, reply: Message) -> Exchange {
    Exchange { request, reply }
}

/// Seconds until a job that was taken by a run that broke off is given to others.
const LEASE_SECONDS: u32 = 120;

/// Milliseconds until a workq job that was left by a run that broke off is gone.
const TTL_MS: u32 = 3_600_000;

fn goqueue(queue: &str, body: &str) -> Exchanges {
    let [priority, timeout] = [0u32, 10].map(u32::to_le_bytes);
    let ttp = LEASE_SECONDS.to_le_bytes();
    let len = u32::try_from(body.len()).expect("bodies have at most 16 MiB").to_le_bytes();
    let name = [queue.as_bytes(), b"\0"].concat();
    let add = [b"ADD\0", &name[..], &priority, &ttp, &len, body.as_bytes()].concat();
    let reserve = [b"RESERVE\0", &name[..], &timeout].concat();
    let reserved = [&priority[..], &ttp, b"reserved\0", &len, body.as_bytes()].concat();
    [
        asked(Message::plain("CONNECT\0"), Message::plain("OK\0")),
        asked(Message::plain(add), Message::with_id("ADDED\0", IdForm::Word, "")),
        asked(Message::plain(reserve), Message::with_id("RESERVED\0", IdForm::Word, reserved)),
        asked(Message::with_id("DELETE\0", IdForm::Word, ""), Message::plain("OK\0")),
    ]
}

fn takeanumber(queue: &str, body: &str) -> Exchanges {
    [
        asked(Message::plain(format!("LEN {queue}\r\n")), Message::plain(":0\r\n")),
        asked(Message::plain(format!("ADD {queue} 0 {body}\r\n")), Message::with_id("+", IdForm::Uuid, "\r\n")),
        asked(
            Message::plain(format!("RESERVE {queue}\r\n")),
            Message::with_id("+", IdForm::Uuid, format!(" {body}\r\n")),
        ),
        asked(Message::with_id(format!("DONE {queue} "), IdForm::Uuid, "\r\n"), Message::plain("+OK\r\n")),
    ]
}

fn masenko(queue: &str, payload: &str) -> Exchanges {
    let push = format!("PUSH {{\"name\":\"bench\",\"queue\":\"{queue}\",\"payload\":{payload}}}\n");
    let fetch = format!("FETCH {{\"queues\":[\"{queue}\"],\"timeout\":\"1s\"}}\n");
    let task = format!(",\"queue\":\"{queue}\",\"name\":\"bench\",\"payload\":{payload}}}\n");
    [
        asked(Message::plain("PING {}\n"), Message::plain("PONG {}\n")),
        asked(Message::plain(push), Message::with_id("OK {\"id\":", IdForm::Number, "}\n")),
        asked(Message::plain(fetch), Message::with_id("OK {\"id\":", IdForm::Number, task)),
        asked(Message::with_id("ACK {\"id\":", IdForm::Number, "}\n"), Message::plain("OK {}\n")),
    ]
}

fn jobcentre(queue: &str, job: &str) -> Exchanges {
    let put = format!("{{\"request\":\"put\",\"queue\":\"{queue}\",\"job\":{job},\"pri\":0}}\n");
    let get = || Message::plain(format!("{{\"request\":\"get\",\"queues\":[\"{queue}\"]}}\n"));
    let got = format!(",\"job\":{job},\"pri\":0,\"queue\":\"{queue}\"}}\n");
    let ok_with_id = "{\"status\":\"ok\",\"id\":";
    [
        asked(get(), Message::plain("{\"status\":\"no-job\"}\n")),
        asked(Message::plain(put), Message::with_id(ok_with_id, IdForm::Number, "}\n")),
        asked(get(), Message::with_id(ok_with_id, IdForm::Number, got)),
        asked(
            Message::with_id("{\"request\":\"delete\",\"id\":", IdForm::Number, "}\n"),
            Message::plain("{\"status\":\"ok\"}\n"),
        ),
    ]
}

fn workq(queue: &str, payload: &str) -> Exchanges {
    let len = payload.len();
    let add = format!(" {queue} {} {TTL_MS} {len}\r\n{payload}\r\n", LEASE_SECONDS * 1000);
    let lease = || Message::plain(format!("lease {queue} 0\r\n"));
    let leased = format!(" {queue} {len}\r\n{payload}\r\n");
    [
        asked(lease(), Message::plain("-TIMEOUT\r\n")),
        asked(Message::with_id("add ", IdForm::Uuid, add), Message::plain("+OK\r\n")),
        asked(lease(), Message::with_id("+OK 1\r\n", IdForm::Uuid, leased)),
        // A completed job would stay with its result until its TTL ends.
        asked(Message::with_id("delete ", IdForm::Uuid, "\r\n"), Message::plain("+OK\r\n")),
    ]
}

fn beanstalkd(tube: &str, body: &str) -> Exchanges {
    let len = body.len();
    let put = format!("put 0 0 {LEASE_SECONDS} {len}\r\n{body}\r\n");
    let reserved = format!(" {len}\r\n{body}\r\n");
    [
        asked(
            Message::plain(format!("use {tube}\r\nwatch {tube}\r\nignore default\r\n")),
            Message::plain(format!("USING {tube}\r\nWATCHING 2\r\nWATCHING 1\r\n")),
        ),
        asked(Message::plain(put), Message::with_id("INSERTED ", IdForm::Number, "\r\n")),
        asked(Message::plain("reserve-with-timeout 0\r\n"), Message::with_id("RESERVED ", IdForm::Number, reserved)),
        asked(Message::with_id("delete ", IdForm::Number, "\r\n"), Message::plain("DELETED\r\n")),
    ]
}

#[cfg(test)]
mod tests {
    use jobyard_protocols::PROTOCOLS;

    use super::*;
    use crate::bench::wire::Reading;

    #[test]
    fn every_protocol_of_the_server_can_be_measured() {
        for protocol in PROTOCOLS.iter().filter(|protocol| protocol.name != "http") {
            assert!(Protocol::ALL.iter().any(|known| known.name() == protocol.name), "{}", protocol.name);
        }
    }

    #[test]
    fn a_body_has_the_size_that_was_asked_for() {
        for protocol in Protocol::ALL {
            let request_len = |body_bytes| {
                let mut request = Vec::new();
                protocol.script(7, 0, body_bytes).write_put(1, &mut request);
                request.len()
            };
            // Two digits both, where the size is written out.
            assert_eq!(request_len(99) - request_len(49), 50, "{}", protocol.name());
        }
        let script = Protocol::Jobcentre.script(7, 0, 64);
        let mut put = Vec::new();
        script.write_put(1, &mut put);
        let put = String::from_utf8(put).unwrap();
        let (_, job) = put.split_once("\"job\":").unwrap();
        assert_eq!(job.split_once(",\"pri\"").unwrap().0.len(), 64);
    }

    #[test]
    fn an_id_goes_from_the_reply_to_the_request_that_finishes_it() {
        let script = Protocol::Jobcentre.script(7, 3, 13);
        let queue = &script.queue;
        let reply =
            format!("{{\"status\":\"ok\",\"id\":42,\"job\":{{\"fill\":\"xx\"}},\"pri\":0,\"queue\":\"{queue}\"}}\n");
        let Reading::Whole { len, id } = script.take.reply.read(reply.as_bytes()) else { panic!("{reply}") };
        assert_eq!(len, reply.len());
        let mut request = Vec::new();
        script.finish.request.write(&reply.as_bytes()[id], &mut request);
        assert_eq!(request, b"{\"request\":\"delete\",\"id\":42}\n");
    }

    #[test]
    fn jobs_with_ids_of_their_own_have_each_another() {
        let put = |run, queue, number| {
            let mut request = Vec::new();
            Protocol::Workq.script(run, queue, 0).write_put(number, &mut request);
            String::from_utf8(request).unwrap().split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!(put(0xabcd_0001_0000_0002, 0x1f, 0x2a), "abcd0001-001f-4000-8000-00000000002a");
        assert_ne!(put(7, 0, 1), put(7, 0, 2));
        assert_ne!(put(7, 0, 1), put(7, 1, 1));
        assert_ne!(put(7 << 32, 0, 1), put(8 << 32, 0, 1));
    }
}
