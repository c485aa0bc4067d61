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
    memory_bytes: usize,
}

/// What had its full record written in one stretch. Entries stay when jobs go, and when they are written anew.
#[derive(Debug, Default)]
struct Stretch {
    /// Job numbers, each as the difference to the one before: a byte for most.
    numbers: Vec<u8>,
    last: JobNumber,
    queues: Vec<QueueId>,
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
    /// What is written from now on is in a new stretch.
    pub(crate) fn begin(&mut self) {
        self.list.push_back(Stretch::default());
        self.memory_bytes += size_of::<Stretch>();
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

    /// A queue's record was written. Returns where.
    pub(crate) fn note_queue(&mut self, queue: QueueId) -> u32 {
        if let Some(stretch) = self.list.back_mut() {
            let before = stretch.queues.capacity();
            stretch.queues.push(queue);
            self.memory_bytes += (stretch.queues.capacity() - before) * size_of::<QueueId>();
        }
        self.newest()
    }

    /// The next entry of the oldest stretch, each once.
    pub(crate) fn next_of_oldest(&mut self) -> Option<Entry> {
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

    /// All entries of the oldest have been given. True the first time.
    pub(crate) fn finish_oldest(&mut self) -> bool {
        self.list.front_mut().is_some_and(|stretch| !std::mem::replace(&mut stretch.finished, true))
    }

    /// The entries that [`Stretches::next_of_oldest`] has not given, with their stretches. For checks.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (u32, Entry)> + '_ {
        (self.first..).zip(&self.list).flat_map(|(index, stretch)| {
            let queues = stretch.queues[stretch.queues_read..].iter().map(|&queue| Entry::Queue(queue));
            let mut reader = Reader(&stretch.numbers[stretch.numbers_read..]);
            let mut last = stretch.last_read;
            let numbers = std::iter::from_fn(move || {
                last = read_number(&mut reader, last)?;
                Some(Entry::Job(last))
            });
            queues.chain(numbers).map(move |entry| (index, entry))
        })
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
        stretches.begin();
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
}
