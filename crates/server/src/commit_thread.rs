//! `--commit thread`: a log that another thread appends to. The log itself goes there with each batch and comes back when
//! its outcome is known, so that it is never in two places.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle, yield_now};

use jobyard_log::{Away, Batch, Claim, Completion, Extent, Log, LogError, Moment, Position, Replayed};

/// The largest buffer that is kept from batch to batch.
const BUFFER_BYTES_KEPT: usize = 4 << 20;

const LOST: &str = "the thread that appends to the log panicked";

/// A log whose batches are appended by a thread.
#[derive(Debug)]
pub struct ThreadLog<L> {
    place: Place<L>,
    /// To the thread; nothing once it is to end.
    errands: Option<Sender<Errand<L>>>,
    returns: Receiver<Return<L>>,
    thread: Option<JoinHandle<()>>,
    /// Kept beyond the thread's end: what a waker has said is lost with the last of its owners.
    _wake: Arc<dyn Any + Send + Sync>,
    /// For the next batch's payload.
    buffer: Vec<u8>,
}

/// Where the log is.
#[derive(Debug)]
enum Place<L> {
    Here(Box<L>),
    Away(Away),
    /// It went down with its thread.
    Lost(Away),
}

/// A log with a batch to append.
struct Errand<L> {
    log: Box<L>,
    epoch: u64,
    position: Position,
    at: Moment,
    payload: Vec<u8>,
}

/// A log that has said what became of its batch.
struct Return<L> {
    log: Box<L>,
    completion: Completion,
    /// To be used again.
    payload: Vec<u8>,
}

impl<L: Log + Send + 'static> ThreadLog<L> {
    /// This log, with a thread that calls `wake` after each batch: then [`Log::completed`] has something to say.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn new(log: L, wake: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let (errands, received) = channel();
        let (sender, returns) = channel();
        let wake = Arc::new(wake);
        let worker = Worker { returns: sender, wake: Wake(Arc::clone(&wake)) };
        let thread = Builder::new().name("commit".to_owned()).spawn(move || worker.run(&received))?;
        let place = Place::Here(Box::new(log));
        let (errands, thread) = (Some(errands), Some(thread));
        Ok(ThreadLog { place, errands, returns, thread, _wake: wake, buffer: Vec::new() })
    }

    /// The log is back: what was put off is done.
    fn take_back(&mut self, returned: Return<L>) -> Completion {
        let Return { mut log, mut completion, payload } = returned;
        if let Place::Away(away) = &mut self.place {
            away.come_back(log.as_mut());
        }
        // What was put off may have failed. To a log in trouble nothing is submitted, so it must be known now.
        if log.trouble().is_some() {
            completion = Completion::Unknown;
        }
        self.place = Place::Here(log);
        self.buffer = payload;
        completion
    }

    /// The thread is gone, and the log with it.
    fn lose(&mut self) -> Completion {
        if let Place::Away(away) = &self.place {
            self.place = Place::Lost(away.clone());
        }
        Completion::Unknown
    }

    /// Waits until the log is here, if it is not lost.
    fn wait(&mut self) {
        if matches!(self.place, Place::Away(_)) {
            match self.returns.recv() {
                Ok(returned) => self.take_back(returned),
                Err(RecvError) => self.lose(),
            };
        }
    }

    /// The log, if it is here: before anything was submitted it is.
    fn here(&mut self) -> Result<&mut L, LogError> {
        match &mut self.place {
            Place::Here(log) => Ok(log),
            Place::Away(_) | Place::Lost(_) => Err(LogError::NoLog),
        }
    }
}

impl<L: Log + Send + 'static> Log for ThreadLog<L> {
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        self.wait();
        self.here()?.claim(seen_epoch)
    }

    fn replay(
        &mut self,
        from: Position,
        bytes: usize,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Option<Position>, LogError> {
        self.wait();
        self.here()?.replay(from, bytes, each)
    }

    fn submit(&mut self, epoch: u64, expected_position: Position, batch: Batch<'_>) {
        let away = match &self.place {
            Place::Here(log) => Place::Away(Away::new(log.as_ref(), batch.payload.len())),
            Place::Away(_) => panic!("a batch is in flight already"),
            // It stays so, and `completed` says it.
            Place::Lost(_) => return,
        };
        let Place::Here(log) = std::mem::replace(&mut self.place, away) else { return };
        let mut payload = std::mem::take(&mut self.buffer);
        if payload.capacity() > BUFFER_BYTES_KEPT {
            payload = Vec::new();
        }
        payload.clear();
        payload.extend_from_slice(batch.payload);
        let errand = Errand { log, epoch, position: expected_position, at: batch.at, payload };
        // If nobody takes it, nobody brings it back either: it is lost.
        let _ = self.errands.as_ref().map(|errands| errands.send(errand));
    }

    fn completed(&mut self) -> Option<Completion> {
        match &self.place {
            Place::Here(_) => None,
            Place::Lost(_) => Some(Completion::Unknown),
            Place::Away(_) => match self.returns.try_recv() {
                Ok(returned) => Some(self.take_back(returned)),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(self.lose()),
            },
        }
    }

    fn wakes(&self) -> bool {
        true
    }

    fn truncate_before(&mut self, position: Position) {
        match &mut self.place {
            Place::Here(log) => log.truncate_before(position),
            Place::Away(away) => away.truncate_before(position),
            Place::Lost(_) => {}
        }
    }

    fn extent(&self) -> Extent {
        match &self.place {
            Place::Here(log) => log.extent(),
            Place::Away(away) | Place::Lost(away) => away.extent,
        }
    }

    fn tend(&mut self, engine_ms: u64) -> Option<u64> {
        match &mut self.place {
            Place::Here(log) => log.tend(engine_ms),
            Place::Away(away) => {
                away.tend(engine_ms);
                None
            }
            Place::Lost(_) => None,
        }
    }

    fn close(&mut self) {
        self.wait();
        if let Place::Here(log) = &mut self.place {
            log.close();
        }
    }

    fn shortage(&self) -> Option<String> {
        match &self.place {
            Place::Here(log) => log.shortage(),
            Place::Away(away) | Place::Lost(away) => away.shortage.clone(),
        }
    }

    fn trouble(&self) -> Option<String> {
        match &self.place {
            Place::Here(log) => log.trouble(),
            // Nothing is submitted to a log in trouble.
            Place::Away(_) => None,
            Place::Lost(_) => Some(LOST.to_owned()),
        }
    }
}

impl<L> Drop for ThreadLog<L> {
    /// The thread ends with its errand: whoever has the log's directory next must not find it writing there.
    fn drop(&mut self) {
        self.errands = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

/// The thread's part.
struct Worker<L, W: Fn()> {
    // Dropped before the last wake, also by a panic: whoever is woken must see that nothing will come.
    returns: Sender<Return<L>>,
    wake: Wake<W>,
}

/// Wakes once more at its end, whatever that is.
struct Wake<W: Fn()>(Arc<W>);

impl<W: Fn()> Drop for Wake<W> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl<L: Log, W: Fn()> Worker<L, W> {
    fn run(self, errands: &Receiver<Errand<L>>) {
        for Errand { mut log, epoch, position, at, payload } in errands {
            log.submit(epoch, position, Batch { at, payload: &payload });
            let completion = loop {
                // A log in files knows it at once.
                match log.completed() {
                    Some(completion) => break completion,
                    None => yield_now(),
                }
            };
            if self.returns.send(Return { log, completion, payload }).is_err() {
                return;
            }
            (self.wake.0)();
        }
    }
}

#[cfg(test)]
mod tests;
