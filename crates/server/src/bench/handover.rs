//! Jobs that are handed over: of each pair of connections one waits for a job, and the other puts it. What is measured is
//! how long a job is under way, from its put to the one who waited for it.

use anyhow::Result;

use super::connection::Step;
use super::load::Load;

/// When each pair's job was put, in nanoseconds.
#[derive(Debug)]
pub struct Pairs {
    put_at: Vec<u64>,
}

impl Pairs {
    /// Of so many connections, two that follow on each other are a pair.
    pub fn new(connections: usize) -> Pairs {
        Pairs { put_at: vec![0; connections / 2] }
    }

    /// Whether this is the one of its pair who puts. The next one waits.
    pub fn puts(index: usize) -> bool {
        index.is_multiple_of(2)
    }
}

impl Load<'_> {
    /// One of each pair begins to wait; then the other puts its first job.
    pub fn begin_pairs(&mut self) -> Result<()> {
        let now = self.now();
        let waiting = (0..self.connections.len()).filter(|&index| !Pairs::puts(index));
        let waiting: Vec<_> = waiting.filter(|&index| self.may_begin(index, now)).collect();
        self.busy = waiting.len();
        for &index in &waiting {
            self.connections[index].ask(Step::Wait, 0, now);
            self.connections[index].send()?;
        }
        for index in waiting {
            self.put_for(index)?;
        }
        Ok(())
    }

    /// One of a pair had this answered. Whoever has its job finishes it and waits for the next with the same write, so
    /// it waits already when it hears that the one before is finished: then the next is put.
    pub fn go_on_with_pair(&mut self, index: usize, answered: Step, now: u64) -> Result<()> {
        match answered {
            Step::Wait => {
                self.latencies.record(now - self.pairs.put_at[index / 2]);
                if self.may_begin(index, now) {
                    self.connections[index].ask(Step::Wait, 0, now);
                }
            }
            Step::Finish => {
                self.cycles += 1;
                if !self.connections[index].is_idle() {
                    self.put_for(index)?;
                }
            }
            Step::Greet | Step::Put | Step::Take => {}
        }
        Ok(())
    }

    /// Puts the job for which this one waits.
    fn put_for(&mut self, waiting: usize) -> Result<()> {
        let now = self.now();
        self.pairs.put_at[waiting / 2] = now;
        let putting = &mut self.connections[waiting - 1];
        self.busy += usize::from(putting.is_idle());
        putting.ask(Step::Put, self.jobs_put, now);
        self.jobs_put += 1;
        putting.send()
    }
}
