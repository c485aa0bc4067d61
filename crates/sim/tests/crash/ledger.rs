//! What clients were promised, kept outside the server. Jobs are known by a number that their bodies carry.

use std::collections::BTreeMap;

use jobyard_engine::{Snapshot, StateView};

/// A moment: in which life, and after how many operations of its disk.
pub type When = (usize, usize);

/// A job's number in the ledger.
pub type Entry = usize;

/// What is known of a job.
#[derive(Clone, Debug)]
pub struct Promise {
    pub put_asked: When,
    /// When it was told that the job is there.
    pub put: Option<When>,
    /// When someone first asked for what may end it.
    pub end_asked: Option<When>,
    /// When it was told that the job has ended.
    pub ended: Option<When>,
    /// It may also end by itself: by its time, or by failures.
    pub mortal: bool,
}

/// All promises.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub promises: Vec<Promise>,
    /// The largest job number that was told, by when.
    pub numbers: Vec<(When, u64)>,
}

impl Ledger {
    /// A job is about to be put.
    pub fn put_asked(&mut self, when: When, mortal: bool) -> Entry {
        self.promises.push(Promise { put_asked: when, put: None, end_asked: None, ended: None, mortal });
        self.promises.len() - 1
    }

    pub fn put(&mut self, entry: Entry, when: When) {
        self.promises[entry].put = Some(when);
    }

    pub fn end_asked(&mut self, entry: Entry, when: When) {
        self.promises[entry].end_asked.get_or_insert(when);
    }

    pub fn ended(&mut self, entry: Entry, when: When) {
        self.promises[entry].ended.get_or_insert(when);
    }

    pub fn number(&mut self, number: u64, when: When) {
        self.numbers.push((when, number));
    }

    /// The largest number that was told by then.
    pub fn number_max(&self, when: When) -> u64 {
        self.numbers.iter().filter(|(told, _)| *told <= when).map(|(_, number)| *number).max().unwrap_or(0)
    }

    /// How many jobs have not ended, as far as is known.
    pub fn living(&self) -> usize {
        self.promises.iter().filter(|promise| promise.put.is_some() && promise.ended.is_none()).count()
    }

    /// Holds what is there against what was promised by then.
    pub fn check(&self, there: &Snapshot, when: When) -> Result<(), String> {
        let mut found: BTreeMap<Entry, bool> = BTreeMap::new();
        for job in &there.jobs {
            let finished = matches!(job.state, StateView::Done | StateView::Failed);
            let entry = entry_of(&job.body).ok_or_else(|| format!("job {} was put by nobody", job.number))?;
            if found.insert(entry, finished).is_some() {
                return Err(format!("the job of entry {entry} is there twice"));
            }
        }
        for (entry, promise) in self.promises.iter().enumerate() {
            let told = |told: Option<When>| told.is_some_and(|told| told <= when);
            let may_have_ended = promise.mortal || promise.end_asked.is_some_and(|asked| asked < when);
            match found.get(&entry) {
                Some(false) if told(promise.ended) => return Err(format!("entry {entry} came back: {promise:?}")),
                Some(_) if when <= promise.put_asked => {
                    return Err(format!("entry {entry} came too soon: {promise:?}"));
                }
                None if told(promise.put) && !may_have_ended => {
                    return Err(format!("entry {entry} was lost: {promise:?}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What a body begins with, so that its entry is known.
pub fn body_of(entry: Entry, pad: usize) -> String {
    format!("{{\"j\":{entry},\"pad\":\"{}\"}}", "x".repeat(pad))
}

/// The entry of the first body in these bytes.
pub fn entry_of(bytes: &[u8]) -> Option<Entry> {
    const MARK: &[u8] = b"{\"j\":";
    let at = bytes.windows(MARK.len()).position(|window| window == MARK)? + MARK.len();
    let digits: Vec<u8> = bytes[at..].iter().copied().take_while(u8::is_ascii_digit).collect();
    String::from_utf8(digits).ok()?.parse().ok()
}
