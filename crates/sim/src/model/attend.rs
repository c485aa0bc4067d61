//! Who has to do with which queues, and which of these exist because of that.

use jobyard_engine::{Answers, ClientId, QueueName, Refusal, Reply, Role};

use super::Model;

impl Model {
    pub(super) fn attend(
        &mut self,
        client: ClientId,
        queue: &QueueName,
        role: Role,
        keeps_queue: bool,
        answers: &mut Answers<'_>,
    ) {
        let taken_from = self.takers.iter().filter(|(taker, _)| *taker == client).count();
        let is_new = !self.queues.contains(queue);
        let takes_more = role.takes() && !self.takers.contains(&(client, queue.clone()));
        if takes_more && taken_from >= self.limits.queues_named_max {
            return answers(client, Reply::Refused(Refusal::TooManyNamed));
        }
        if is_new && queue.as_bytes().len() > self.limits.queue_name_bytes_max {
            return answers(client, Reply::Refused(Refusal::QueueNameTooLong));
        }
        if is_new && self.queues.len() >= self.limits.queues_max {
            return answers(client, Reply::Refused(Refusal::TooManyQueues));
        }
        self.make_queue(queue);
        if keeps_queue {
            self.create_queue(queue);
        }
        self.attendants.insert(client);
        if role.puts() {
            self.putters.insert(client, queue.clone());
        }
        if role.takes() {
            self.takers.insert((client, queue.clone()));
        }
        answers(client, Reply::Done);
    }

    pub(super) fn leave(&mut self, client: ClientId, queue: &QueueName, answers: &mut Answers<'_>) {
        self.takers.remove(&(client, queue.clone()));
        answers(client, Reply::Done);
    }

    pub(super) fn leave_all(&mut self, client: ClientId) {
        self.putters.remove(&client);
        self.takers.retain(|(taker, _)| *taker != client);
        self.producers.remove(&client);
        self.workers.remove(&client);
        self.attendants.remove(&client);
    }

    /// Whether the client has, or had, to do with a queue.
    fn has_attended(&self, client: ClientId) -> bool {
        self.attendants.contains(&client)
    }

    pub(super) fn note_producer(&mut self, client: ClientId) {
        if self.has_attended(client) {
            self.producers.insert(client);
        }
    }

    pub(super) fn note_worker(&mut self, client: ClientId) {
        if self.has_attended(client) {
            self.workers.insert(client);
        }
    }

    /// Everybody is gone. Queues that are not kept are found by their jobs, and come after the others, by name.
    pub(super) fn forget_attendance(&mut self) {
        self.putters.clear();
        self.takers.clear();
        self.producers.clear();
        self.workers.clear();
        self.attendants.clear();
        let (kept, mut others): (Vec<_>, Vec<_>) =
            self.queues.drain(..).partition(|queue| self.kept_queues.contains(queue));
        others.retain(|queue| self.has_jobs(queue));
        others.sort();
        self.queues = [kept, others].concat();
    }

    /// A queue that is not kept, has no job, and that nobody attends, does not exist any more.
    pub(super) fn forget_idle_queues(&mut self) {
        let mut queues = std::mem::take(&mut self.queues);
        queues.retain(|queue| {
            let has_reason = self.kept_queues.contains(queue) || self.attended(queue) != (0, 0) || self.has_jobs(queue);
            if !has_reason {
                self.pauses.remove(queue);
                self.totals.remove(queue);
            }
            has_reason
        });
        self.queues = queues;
    }

    /// Whether it has a job, or one that is gone and whose origin is open.
    fn has_jobs(&self, queue: &QueueName) -> bool {
        self.jobs.iter().any(|job| job.queue == *queue) || self.gone.iter().any(|gone| gone.queue == *queue)
    }

    /// How many put jobs there, and how many take them.
    pub(super) fn attended(&self, queue: &QueueName) -> (usize, usize) {
        let putters = self.putters.values().filter(|put_to| *put_to == queue).count();
        let takers = self.takers.iter().filter(|(_, taken_from)| taken_from == queue).count();
        (putters, takers)
    }
}
