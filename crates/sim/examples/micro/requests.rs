//! What a client of each protocol says for a job that it puts, takes and finishes.

use jobyard_protocols::{Listener, find};

/// One protocol's requests.
pub struct Requests {
    pub listener: Listener,
    pub take: Vec<u8>,
    put: Vec<u8>,
    /// What stands before and behind the job's id.
    finish: (&'static str, &'static str),
    /// What stands before it in the answer to a take, and nowhere else there.
    before_id: &'static str,
    /// How long it is; if nothing is said, as long as there are digits.
    id_len: Option<usize>,
}

const QUEUE: &str = "mail";
const BODY: &str =
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

impl Requests {
    pub fn of(protocol: &str) -> Requests {
        let (put, take): (String, String);
        let (finish, before_id, id_len);
        match protocol {
            "goqueue" => {
                put = format!("ADD\0{QUEUE}\0\0\0\0\0\x78\0\0\0\x64\0\0\0{BODY}");
                take = format!("RESERVE\0{QUEUE}\0\x0a\0\0\0");
                (finish, before_id, id_len) = (("DELETE\0", ""), "RESERVED\0", Some(8));
            }
            "takeanumber" => {
                put = format!("ADD {QUEUE} 0 {BODY}\r\n");
                take = format!("RESERVE {QUEUE}\r\n");
                (finish, before_id, id_len) = (("DONE mail ", "\r\n"), "+", Some(36));
            }
            "masenko" => {
                put = format!("PUSH {{\"name\":\"n\",\"queue\":\"{QUEUE}\",\"payload\":\"{BODY}\"}}\n");
                take = format!("FETCH {{\"queues\":[\"{QUEUE}\"],\"timeout\":\"1s\"}}\n");
                (finish, before_id, id_len) = (("ACK {\"id\":", "}\n"), "OK {\"id\":", None);
            }
            "jobcentre" => {
                let job = format!("{{\"fill\":\"{BODY}\"}}");
                put = format!("{{\"request\":\"put\",\"queue\":\"{QUEUE}\",\"job\":{job},\"pri\":0}}\n");
                take = format!("{{\"request\":\"get\",\"queues\":[\"{QUEUE}\"]}}\n");
                finish = ("{\"request\":\"delete\",\"id\":", "}\n");
                (before_id, id_len) = ("{\"status\":\"ok\",\"id\":", None);
            }
            "workq" => {
                put = format!(
                    "add 6ba7b810-9dad-41d1-80b4-000000000000 {QUEUE} 120000 3600000 {}\r\n{BODY}\r\n",
                    BODY.len()
                );
                take = format!("lease {QUEUE} 0\r\n");
                (finish, before_id, id_len) = (("delete ", "\r\n"), "+OK 1\r\n", Some(36));
            }
            "beanstalkd" => {
                put = format!("put 0 0 120 {}\r\n{BODY}\r\n", BODY.len());
                take = "reserve-with-timeout 0\r\n".to_owned();
                (finish, before_id, id_len) = (("delete ", "\r\n"), "RESERVED ", None);
            }
            other => panic!("nothing is known of {other}"),
        }
        let listener = find(protocol).expect("it is spoken");
        Requests { listener, put: put.into_bytes(), take: take.into_bytes(), finish, before_id, id_len }
    }

    /// What its clients say first: what they use and watch.
    pub fn greeting(&self) -> &'static [u8] {
        match self.listener.name() {
            "beanstalkd" => b"use mail\r\nwatch mail\r\nignore default\r\n",
            _ => b"",
        }
    }

    /// The request that puts the job of this number: some bring an id of their own.
    pub fn put(&self, number: u64) -> Vec<u8> {
        let mut put = self.put.clone();
        if let Some(at) = put.windows(13).position(|bytes| bytes == b"-000000000000") {
            put[at + 1..at + 13].copy_from_slice(format!("{number:012}").as_bytes());
        }
        put
    }

    /// The requests that finish the jobs of which these answers to takes tell.
    pub fn finish(&self, answers: &[u8]) -> Vec<u8> {
        let mut finish = Vec::new();
        let mut rest = answers;
        while let Some(at) = rest.windows(self.before_id.len()).position(|bytes| bytes == self.before_id.as_bytes()) {
            rest = &rest[at + self.before_id.len()..];
            let digits = || rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (id, behind) = rest.split_at(self.id_len.unwrap_or_else(digits));
            finish.extend_from_slice(self.finish.0.as_bytes());
            finish.extend_from_slice(id);
            finish.extend_from_slice(self.finish.1.as_bytes());
            rest = behind;
        }
        finish
    }
}
