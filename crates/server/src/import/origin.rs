//! What a job is called by where it was: its server, its number there, and the length and the sum of its body.

use anyhow::{Result, ensure};
use jobyard_protocols::beanstalkd::ORIGIN_BYTES_MAX;

use super::peer::{Job, Peer, entries};
use super::place::Place;

/// A server that jobs are moved from, as origins name it.
#[derive(Clone, Debug)]
pub struct Source(String);

impl Source {
    pub fn new(place: &Place) -> Result<Source> {
        let longest = format!("{place}/{}/{}/{:08x}", u64::MAX, u32::MAX, u32::MAX);
        ensure!(longest.len() <= ORIGIN_BYTES_MAX, "the host's name is too long: say its address instead");
        Ok(Source(format!("{place}/")))
    }

    /// How its origins begin. None begins with `id/`, for a place ends in a port.
    pub fn beginning(&self) -> &str {
        &self.0
    }

    /// Whether this is one of them.
    pub fn is_of(&self, open: &Open) -> bool {
        open.origin.starts_with(&self.0)
    }

    /// What a job of it is called.
    pub fn origin(&self, job: &Job) -> String {
        format!("{}{}", self.0, Mark::of(job).text())
    }
}

/// What tells a job of a server from all others: a server that lost its jobs may give their numbers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub id: u64,
    length: usize,
    sum: u32,
}

impl Mark {
    pub fn of(job: &Job) -> Mark {
        Mark { id: job.id, length: job.body.len(), sum: crc32c::crc32c(&job.body) }
    }

    fn text(self) -> String {
        let Mark { id, length, sum } = self;
        format!("{id}/{length}/{sum:08x}")
    }

    fn read(text: &str) -> Option<Mark> {
        let mut parts = text.split('/');
        let (id, length) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let mark = Mark { id, length, sum: u32::from_str_radix(parts.next()?, 16).ok()? };
        (mark.text() == text).then_some(mark)
    }
}

/// An origin that is open.
#[derive(Debug, PartialEq, Eq)]
pub struct Open {
    pub origin: String,
    pub mark: Mark,
}

/// Origins that are open, of all that name jobs so.
pub fn all_open(here: &mut Peer) -> Result<Vec<Open>> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        here.say(format!("list-origins {after}").trim_end())?;
        let page = here.hear_page()?.as_deref().map(entries).unwrap_or_default();
        let Some(last) = page.last() else { return Ok(found) };
        ensure!(*last > after, "{} lists its origins in no order", here.name());
        after.clone_from(last);
        let mark_of = |origin: &str| origin.split_once('/').and_then(|(_, mark)| Mark::read(mark));
        found.extend(page.into_iter().filter_map(|origin| Some(Open { mark: mark_of(&origin)?, origin })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_says_all_that_tells_a_job_from_others() {
        let source = Source::new(&"beanstalkd://[::1]".parse().unwrap()).unwrap();
        let job = Job { id: 17, body: b"123456789".to_vec() };
        assert_eq!(source.origin(&job), "[::1]:11300/17/9/e3069283");
        let mark = Mark::read("17/9/e3069283").unwrap();
        assert_eq!(mark, Mark::of(&job));
        for other in [Job { id: 18, ..job_of(b"123456789") }, job_of(b"123456788"), job_of(b"12345678")] {
            assert_ne!(mark, Mark::of(&other));
        }
    }

    fn job_of(body: &[u8]) -> Job {
        Job { id: 17, body: body.to_vec() }
    }

    #[test]
    fn what_is_no_origin_of_ours_is_left_alone() {
        for text in
            ["17/9", "17/9/e3069283/1", "17/9/E3069283", "17/9/1", "x/9/e3069283", "+17/9/e3069283", "017/9/e3069283"]
        {
            assert_eq!(Mark::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_source_whose_origins_would_be_too_long_is_refused() {
        let place = |length: usize| Place { host: "h".repeat(length), port: 65_535 };
        assert!(Source::new(&place(81)).is_ok());
        assert!(Source::new(&place(82)).is_err());
    }
}
