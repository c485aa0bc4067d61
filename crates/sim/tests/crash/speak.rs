//! As much of each protocol as a small client needs to put, take and end jobs.

use crate::world::LISTENERS;

/// What a client speaks, by its place among the listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Goqueue,
    Takeanumber,
    Masenko,
    Jobcentre,
    Workq,
    Beanstalkd,
}

impl Speaks {
    pub const ALL: [Speaks; 6] =
        [Speaks::Goqueue, Speaks::Takeanumber, Speaks::Masenko, Speaks::Jobcentre, Speaks::Workq, Speaks::Beanstalkd];

    /// The listener of this protocol alone.
    pub fn listener(self) -> usize {
        let name = format!("{self:?}").to_lowercase();
        LISTENERS.iter().position(|(listener, _)| *listener == name).expect("every protocol is listened to")
    }

    /// Whether this answer says that what was asked was done.
    pub fn is_yes(self, answer: &[u8]) -> bool {
        match self {
            Speaks::Goqueue => ["ADDED\0", "OK\0", "RESERVED\0"].iter().any(|yes| answer.starts_with(yes.as_bytes())),
            Speaks::Takeanumber => answer.starts_with(b"+"),
            Speaks::Masenko => answer.starts_with(b"OK "),
            Speaks::Jobcentre => answer.starts_with(b"{\"status\":\"ok\""),
            Speaks::Workq => answer.starts_with(b"+OK"),
            Speaks::Beanstalkd => beanstalkd::is_yes(answer),
        }
    }

    /// Whether what was to be done to many jobs was done to none.
    pub fn is_none_of_many(self, answer: &[u8]) -> bool {
        self == Speaks::Beanstalkd && answer.ends_with(b"KICKED 0\r\n")
    }

    /// The id of the job that this answer brings, as its protocol writes it.
    pub fn taken_id(self, answer: &[u8]) -> Option<String> {
        match self {
            Speaks::Goqueue => {
                let id = answer.strip_prefix(b"RESERVED\0")?.first_chunk()?;
                Some(u64::from_le_bytes(*id).to_string())
            }
            Speaks::Takeanumber => word(answer.strip_prefix(b"+")?),
            Speaks::Masenko | Speaks::Jobcentre => numbers(answer).first().map(u64::to_string),
            Speaks::Workq => word(after(answer, b"\r\n")?),
            Speaks::Beanstalkd => word(answer.strip_prefix(b"RESERVED ")?),
        }
    }

    /// The numbers of the jobs that this answer says were put.
    pub fn put_numbers(self, answer: &[u8]) -> Vec<u64> {
        match self {
            Speaks::Goqueue => {
                let id = answer.strip_prefix(b"ADDED\0").and_then(|rest| rest.first_chunk());
                id.map(|id| u64::from_le_bytes(*id)).into_iter().collect()
            }
            Speaks::Takeanumber => {
                let low = word(answer).and_then(|uuid| u64::from_str_radix(uuid.rsplit('-').next()?, 16).ok());
                low.into_iter().collect()
            }
            Speaks::Masenko | Speaks::Jobcentre => numbers(answer),
            Speaks::Workq => Vec::new(),
            Speaks::Beanstalkd => {
                let number = after(answer, b"INSERTED ").and_then(word);
                number.and_then(|number| number.parse().ok()).into_iter().collect()
            }
        }
    }
}

fn word(bytes: &[u8]) -> Option<String> {
    let word = bytes.split(u8::is_ascii_whitespace).next()?;
    String::from_utf8(word.to_vec()).ok()
}

fn after<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let at = bytes.windows(mark.len()).position(|window| window == mark)?;
    Some(&bytes[at + mark.len()..])
}

/// What stands behind `"id":` or `"ids":[`.
fn numbers(answer: &[u8]) -> Vec<u64> {
    let list = after(answer, b"\"id\":").or_else(|| after(answer, b"\"ids\":[")).unwrap_or_default();
    let end = list.iter().position(|byte| !byte.is_ascii_digit() && *byte != b',').unwrap_or(list.len());
    let text = String::from_utf8_lossy(&list[..end]).into_owned();
    text.split(',').filter_map(|number| number.parse().ok()).collect()
}

pub mod goqueue {
    pub fn add(queue: &str, priority: u32, ttp_s: u32, body: &str) -> Vec<u8> {
        let mut bytes = format!("ADD\0{queue}\0").into_bytes();
        bytes.extend(priority.to_le_bytes());
        bytes.extend(ttp_s.to_le_bytes());
        bytes.extend(u32::try_from(body.len()).expect("a small body").to_le_bytes());
        bytes.extend(body.as_bytes());
        bytes
    }

    pub fn reserve(queue: &str, timeout_s: u32) -> Vec<u8> {
        [format!("RESERVE\0{queue}\0").as_bytes(), &timeout_s.to_le_bytes()].concat()
    }

    pub fn delete(id: &str) -> Vec<u8> {
        let id: u64 = id.parse().expect("an id is a number");
        [&b"DELETE\0"[..], &id.to_le_bytes()].concat()
    }
}

pub mod beanstalkd {
    /// What is said when something was done, or there is something.
    const YES: [&[u8]; 8] = [
        b"INSERTED ",
        b"RESERVED ",
        b"DELETED\r\n",
        b"RELEASED\r\n",
        b"BURIED\r\n",
        b"TOUCHED\r\n",
        b"KICKED",
        b"WATCHING ",
    ];

    /// Whether it was done for which a tube was to be used first, or no other.
    pub fn is_yes(answer: &[u8]) -> bool {
        let end = answer.iter().position(|byte| *byte == b'\n').filter(|_| answer.starts_with(b"USING "));
        let answer = end.map_or(answer, |end| &answer[end + 1..]);
        YES.iter().any(|yes| answer.starts_with(yes))
    }

    pub fn put(tube: &str, (priority, delay_s, ttr_s): (usize, usize, usize), body: &str) -> Vec<u8> {
        format!("use {tube}\r\nput {priority} {delay_s} {ttr_s} {}\r\n{body}\r\n", body.len()).into_bytes()
    }
}
