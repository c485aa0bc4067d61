//! Which part of the log holds the newest full record of which jobs and queues, so that the log can let go of its
//! beginning: see `compact.rs`.

use std::collections::VecDeque;

use crate::bytes::{Reader, put_number};
use crate::names::JobNumber;
use crate::queue::QueueId;

/// The stretches of the log, the oldest first. None if the log keeps everything, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    /// The index of the oldest.
    first: u32,
    list: VecDeque<Stretch>,
    /// An entry of the oldest that is to be given again.
    again: Option<Entry>,
    memory_bytes: usize,
}

/// What had its full record written in one stretch. Entries stay when jobs go, and when they are written anew.
#[derive(Debug, Default)]
struct Stretch {
    /// Job numbers, each as the difference to the one before: a byte for most.
    numbers: Vec<u8>,
    last: JobNumber,
    queues: Vec<QueueId>,
    /// What the records of those queues take.
    queue_bytes: u64,
    /// Up to where it is settled: what is noted behind is in records that the log was not given yet.
    numbers_settled: usize,
    last_settled: JobNumber,
    queues_settled: usize,
    /// How far [`Stretches::next_of_oldest`] has come.
    numbers_read: usize,
    last_read: JobNumber,
    queues_read: usize,
    finished: bool,
}

/// An entry of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Queue(QueueId),
    Job(JobNumber),
}

impl Stretches {
    /// What is written from now on is in a new stretch. Returns what is to be noted anew: it was noted, but the log was not
    /// given its records yet.
    pub(crate) fn begin(&mut self) -> Vec<Entry> {
        let unsettled = self.list.back_mut().map(Stretch::take_unsettled);
        self.list.push_back(Stretch::default());
        self.memory_bytes += size_of::<Stretch>();
        unsettled.unwrap_or_default()
    }

    /// The log was given all records that there are.
    pub(crate) fn settle(&mut self) {
        if let Some(stretch) = self.list.back_mut() {
            (stretch.numbers_settled, stretch.last_settled) = (stretch.numbers.len(), stretch.last);
            stretch.queues_settled = stretch.queues.len();
        }
    }

    /// The oldest is forgotten.
    pub(crate) fn drop_oldest(&mut self) {
        assert!(self.list.len() > 1, "the newest stretch is written to");
        let stretch = self.list.pop_front().expect("there are two");
        self.first += 1;
        self.memory_bytes -= stretch.memory_bytes();
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The index of the oldest.
    pub(crate) fn oldest(&self) -> u32 {
        self.first
    }

    /// The index of the newest; 0 if there is none.
    pub(crate) fn newest(&self) -> u32 {
        let further = u32::try_from(self.list.len().saturating_sub(1)).expect("a log of 2^32 segments does not fit");
        self.first + further
    }

    /// How many stretches there are before the one of this index.
    pub(crate) fn since_oldest(&self, index: u32) -> usize {
        index.saturating_sub(self.first) as usize
    }

    /// A job's full record was written. Returns where.
    pub(crate) fn note_job(&mut self, number: JobNumber) -> u32 {
        if let Some(stretch) = self.list.back_mut() {
            let before = stretch.numbers.capacity();
            let difference = number.wrapping_sub(stretch.last).cast_signed();
            put_number(&mut stretch.numbers, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
            stretch.last = number;
            self.memory_bytes += stretch.numbers.capacity() - before;
        }
        self.newest()
    }

    /// A queue's record was written, which takes so much. Returns where.
    pub(crate) fn note_queue(&mut self, queue: QueueId, bytes: u64) -> u32 {
        if let Some(stretch) = self.list.back_mut() {
            stretch.queue_bytes += bytes;
            let before = stretch.queues.capacity();
            stretch.queues.push(queue);
            self.memory_bytes += (stretch.queues.capacity() - before) * size_of::<QueueId>();
        }
        self.newest()
    }

    /// A queue's record in this stretch, which takes so much, is needed no more: it is written anew.
    pub(crate) fn forget_queue(&mut self, index: u32, bytes: u64) {
        let index = index.wrapping_sub(self.first) as usize;
        if let Some(stretch) = self.list.get_mut(index) {
            stretch.queue_bytes -= bytes;
        }
    }

    /// What the records of queues take that are in the oldest stretch.
    pub(crate) fn oldest_queue_bytes(&self) -> u64 {
        self.list.front().map_or(0, |stretch| stretch.queue_bytes)
    }

    /// The last entry that was given is to be given again.
    pub(crate) fn give_again(&mut self, entry: Entry) {
        self.again = Some(entry);
    }

    /// The next entry of the oldest stretch, each once.
    pub(crate) fn next_of_oldest(&mut self) -> Option<Entry> {
        if let Some(entry) = self.again.take() {
            return Some(entry);
        }
        let stretch = self.list.front_mut()?;
        if let Some(&queue) = stretch.queues.get(stretch.queues_read) {
            stretch.queues_read += 1;
            return Some(Entry::Queue(queue));
        }
        let mut reader = Reader(&stretch.numbers[stretch.numbers_read..]);
        let number = read_number(&mut reader, stretch.last_read)?;
        stretch.last_read = number;
        stretch.numbers_read = stretch.numbers.len() - reader.0.len();
        Some(Entry::Job(number))
    }

    /// Whether entries of the oldest have been given.
    pub(crate) fn oldest_is_begun(&self) -> bool {
        self.list.front().is_some_and(|stretch| stretch.numbers_read + stretch.queues_read > 0)
    }

    /// All entries of the oldest have been given. True the first time.
    pub(crate) fn finish_oldest(&mut self) -> bool {
        self.list.front_mut().is_some_and(|stretch| !std::mem::replace(&mut stretch.finished, true))
    }

    /// The entries that [`Stretches::next_of_oldest`] has not given, with their stretches. For checks.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (u32, Entry)> + '_ {
        let again = self.again.map(|entry| (self.first, entry));
        again.into_iter().chain((self.first..).zip(&self.list).flat_map(|(index, stretch)| {
            let queues = stretch.queues[stretch.queues_read..].iter().map(|&queue| Entry::Queue(queue));
            let mut reader = Reader(&stretch.numbers[stretch.numbers_read..]);
            let mut last = stretch.last_read;
            let numbers = std::iter::from_fn(move || {
                last = read_number(&mut reader, last)?;
                Some(Entry::Job(last))
            });
            queues.chain(numbers).map(move |entry| (index, entry))
        }))
    }

    /// The memory that the lists take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The same, counted anew. For checks.
    pub(crate) fn memory_bytes_counted(&self) -> usize {
        self.list.iter().map(Stretch::memory_bytes).sum()
    }
}

/// The next number of a list, if there is one.
fn read_number(reader: &mut Reader<'_>, last: JobNumber) -> Option<JobNumber> {
    let folded = reader.number().ok()?;
    let difference = (folded >> 1).cast_signed() ^ -((folded & 1).cast_signed());
    Some(last.wrapping_add_signed(difference))
}

impl Stretch {
    /// What was noted since it was last settled.
    fn take_unsettled(&mut self) -> Vec<Entry> {
        let mut entries: Vec<_> = self.queues.drain(self.queues_settled..).map(Entry::Queue).collect();
        let mut reader = Reader(&self.numbers[self.numbers_settled..]);
        let mut last = self.last_settled;
        while let Some(number) = read_number(&mut reader, last) {
            entries.push(Entry::Job(number));
            last = number;
        }
        self.numbers.truncate(self.numbers_settled);
        self.last = self.last_settled;
        entries
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Stretch>() + self.numbers.capacity() + self.queues.capacity() * size_of::<QueueId>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_in_order_and_once() {
        let numbers = [1, 2, 3, 1_000_000, 5, u64::MAX, 0, u64::MAX / 2, 7];
        let mut stretches = Stretches::default();
        assert_eq!(stretches.note_job(9), 0, "nothing is noted before the first stretch");
        stretches.begin();
        for number in numbers {
            assert_eq!(stretches.note_job(number), 0);
        }
        stretches.settle();
        assert_eq!(stretches.begin(), []);
        assert_eq!(stretches.note_job(8), 1);
        let all: Vec<_> = stretches.unread().collect();
        let read: Vec<_> = std::iter::from_fn(|| stretches.next_of_oldest()).collect();
        assert_eq!(read, numbers.map(Entry::Job));
        assert_eq!(all.len(), numbers.len() + 1);
        assert_eq!(all.last(), Some(&(1, Entry::Job(8))));
        stretches.drop_oldest();
        assert_eq!((stretches.oldest(), stretches.newest(), stretches.len()), (1, 1, 1));
        assert_eq!(stretches.next_of_oldest(), Some(Entry::Job(8)));
        assert_eq!(stretches.memory_bytes(), stretches.memory_bytes_counted());
    }

    #[test]
    fn what_was_not_settled_is_to_be_noted_anew() {
        let mut stretches = Stretches::default();
        assert_eq!(stretches.begin(), []);
        let noted = [900, 901, 30, 902, 31];
        for (count, number) in noted.into_iter().enumerate() {
            stretches.note_job(number);
            if count == 1 {
                stretches.settle();
            }
        }
        assert_eq!(stretches.begin(), [30, 902, 31].map(Entry::Job));
        stretches.note_job(7);
        let all: Vec<_> = stretches.unread().collect();
        assert_eq!(all, [(0, Entry::Job(900)), (0, Entry::Job(901)), (1, Entry::Job(7))]);
    }

    #[test]
    fn an_entry_can_be_given_again() {
        let mut stretches = Stretches::default();
        stretches.begin();
        stretches.note_job(1);
        stretches.note_job(2);
        let first = stretches.next_of_oldest().unwrap();
        stretches.give_again(first);
        assert_eq!(stretches.unread().count(), 2);
        let read: Vec<_> = std::iter::from_fn(|| stretches.next_of_oldest()).collect();
        assert_eq!(read, [Entry::Job(1), Entry::Job(2)]);
    }
}
