//! What a server that is measured can speak: all that Jobyard does, and what is measured beside it.

use std::hash::{BuildHasher, RandomState};

use jobyard_protocols::{Listener, find};

use super::scripts;
use super::wire::{Script, UUID_LEN};
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
    /// Redis itself, whose lists are queues: what was taken is in another list until it is finished.
    Redis,
    /// A server that says again what it hears: what the machine and this program allow.
    Echo,
}

/// A queue of this run, and its jobs.
#[derive(Clone, Copy, Debug)]
pub struct Jobs {
    /// Which run.
    pub run: u64,
    /// Which of its queues.
    pub queue: u32,
    /// How long a body is: no less than the least.
    pub body_bytes: usize,
    /// How many priorities there are.
    pub priorities: u32,
}

/// A number that no other run has.
pub fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 8] = [
        Protocol::Goqueue,
        Protocol::Takeanumber,
        Protocol::Masenko,
        Protocol::Jobcentre,
        Protocol::Workq,
        Protocol::Beanstalkd,
        Protocol::Redis,
        Protocol::Echo,
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
            Protocol::Redis => "redis",
            Protocol::Echo => "echo",
        }
    }

    /// The port on which a server is usually found.
    pub fn port(self) -> u16 {
        match self {
            Protocol::Redis => 6379,
            Protocol::Echo => 7,
            _ => match find(self.name()) {
                Some(Listener::One(protocol)) => protocol.port.unwrap_or(ANY_PORT),
                _ => ANY_PORT,
            },
        }
    }

    /// What stands around a body's filling.
    fn body_frame(self) -> [&'static str; 2] {
        match self {
            Protocol::Goqueue | Protocol::Workq | Protocol::Beanstalkd | Protocol::Redis | Protocol::Echo => ["", ""],
            // An empty body is refused.
            Protocol::Takeanumber => ["x", ""],
            Protocol::Masenko => ["\"", "\""],
            Protocol::Jobcentre => ["{\"fill\":\"", "\"}"],
        }
    }

    /// How small a body can be.
    pub fn body_bytes_min(self) -> usize {
        match self {
            // A job is known by its body alone.
            Protocol::Redis => UUID_LEN,
            _ => self.body_frame().concat().len(),
        }
    }

    /// Whether some of its jobs can be more urgent than others.
    pub fn has_priorities(self) -> bool {
        matches!(self, Protocol::Goqueue | Protocol::Jobcentre | Protocol::Workq | Protocol::Beanstalkd)
    }

    /// Whether who asks for a job can wait until there is one.
    pub fn can_wait(self) -> bool {
        !matches!(self, Protocol::Takeanumber | Protocol::Echo)
    }

    /// The requests of this run in one of its queues.
    pub fn script(self, jobs: Jobs) -> Script {
        let Jobs { run, queue, .. } = jobs;
        self.script_for(format!("bench-{run:016x}-{queue}"), jobs)
    }

    /// The same in a queue of that name.
    pub fn script_for(self, name: String, jobs: Jobs) -> Script {
        let [before, after] = self.body_frame();
        let body = [before, &"x".repeat(jobs.body_bytes - self.body_bytes_min()), after].concat();
        let priorities = jobs.priorities;
        let uuid = uuid(jobs.run, jobs.queue);
        match self {
            Protocol::Goqueue => scripts::goqueue(name, &body, priorities, uuid),
            Protocol::Takeanumber => scripts::takeanumber(name, &body, uuid),
            Protocol::Masenko => scripts::masenko(name, &body, uuid),
            Protocol::Jobcentre => scripts::jobcentre(name, &body, priorities, uuid),
            Protocol::Workq => scripts::workq(name, &body, priorities, uuid),
            Protocol::Beanstalkd => scripts::beanstalkd(name, &body, priorities, uuid),
            Protocol::Redis => scripts::redis(name, &body, uuid),
            Protocol::Echo => scripts::echo(name, &body, uuid),
        }
    }
}

/// A UUID of version 4 for each job: its run's, its queue's, and room for its number.
fn uuid(run: u64, queue: u32) -> [u8; UUID_LEN] {
    // In their third group Jobyard's own UUIDs have something else, so these are none of them.
    let text = format!("{:08x}-{:04x}-4000-8000-{:012x}", run >> 32, queue, 0);
    text.into_bytes().try_into().expect("the groups of a UUID have 36 letters")
}

#[cfg(test)]
mod tests {
    use jobyard_protocols::PROTOCOLS;

    use super::*;
    use crate::bench::wire::Reading;

    fn script(protocol: Protocol, body_bytes: usize) -> Script {
        protocol.script(Jobs { run: 7, queue: 3, body_bytes, priorities: 1 })
    }

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
                script(protocol, body_bytes).write_put(1, &mut request);
                request.len()
            };
            // Two digits both, where the size is written out.
            assert_eq!(request_len(99) - request_len(49), 50, "{}", protocol.name());
        }
        let mut put = Vec::new();
        script(Protocol::Jobcentre, 64).write_put(1, &mut put);
        let put = String::from_utf8(put).unwrap();
        let (_, job) = put.split_once("\"job\":").unwrap();
        assert_eq!(job.split_once(",\"pri\"").unwrap().0.len(), 64);
        let mut push = Vec::new();
        script(Protocol::Redis, 64).write_put(1, &mut push);
        let push = String::from_utf8(push).unwrap();
        assert!(push.contains("\r\n$64\r\n") && push.split("\r\n").nth(6).unwrap().len() == 64, "{push}");
    }

    #[test]
    fn an_id_goes_from_the_reply_to_the_request_that_finishes_it() {
        let script = script(Protocol::Jobcentre, 13);
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
            let jobs = Jobs { run, queue, body_bytes: 0, priorities: 1 };
            Protocol::Workq.script(jobs).write_put(number, &mut request);
            String::from_utf8(request).unwrap().split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!(put(0xabcd_0001_0000_0002, 0x1f, 0x2a), "abcd0001-001f-4000-8000-00000000002a");
        assert_ne!(put(7, 0, 1), put(7, 0, 2));
        assert_ne!(put(7, 0, 1), put(7, 1, 1));
        assert_ne!(put(7 << 32, 0, 1), put(8 << 32, 0, 1));
    }

    #[test]
    fn who_can_wait_has_a_request_for_that() {
        for protocol in Protocol::ALL {
            assert_eq!(script(protocol, 64).wait.is_some(), protocol.can_wait(), "{}", protocol.name());
        }
    }

    #[test]
    fn jobs_have_as_many_priorities_as_they_shall_have() {
        for protocol in Protocol::ALL.into_iter().filter(|protocol| protocol.has_priorities()) {
            let script = protocol.script(Jobs { run: 7, queue: 0, body_bytes: 11, priorities: 10 });
            let requests = |number| {
                let mut request = Vec::new();
                script.write_put(number, &mut request);
                request
            };
            // A workq job has its own id, so these have all the same number.
            let written = |put: &crate::bench::wire::Exchange| {
                let mut request = Vec::new();
                put.request.write(&script.uuid, &mut request);
                request
            };
            let different: std::collections::BTreeSet<_> = script.puts.iter().map(written).collect();
            assert_eq!(different.len(), 10, "{}", protocol.name());
            assert_ne!(requests(1), requests(2), "{}", protocol.name());
        }
    }
}
