//! Looking, without changing anything.

use crate::attend::Attending;
use crate::command::{Look, QueueOrder, Which};
use crate::engine::{Answers, Engine};
use crate::job::Job;
use crate::names::{ClientId, QueueName};
use crate::queue::Queue;
use crate::reply::{JobView, QueueView, Refusal, Reply, Sum};
use crate::time::Now;

impl Engine {
    pub(crate) fn handle_look(&mut self, now: Now, client: ClientId, look: &Look, answers: &mut Answers<'_>) {
        match look {
            Look::Job(job) => answers(
                client,
                match self.find(job) {
                    Ok(job) => Reply::Job(self.view(job)),
                    Err(refusal) => Reply::Refused(refusal),
                },
            ),
            Look::Jobs { queue, which, offset, count_max } => {
                // The others pass over them by their counts.
                self.work += if *which == Which::Due { *offset as u64 } else { 0 };
                self.look_at_jobs(now, client, queue, (*which, *offset, *count_max), answers);
            }
            Look::Queue(name) => answers(
                client,
                match self.store.queues.find(name) {
                    Some(queue) => Reply::Queue(queue.view()),
                    None => Reply::Refused(Refusal::NoSuchQueue),
                },
            ),
            Look::Queues { order, nameable, offset, count_max } => {
                self.work += self.store.queues.len() as u64;
                let queues = self.look_at_queues(*order, *nameable, *offset, *count_max);
                answers(client, Reply::Queues { queues: &queues, counters: self.counters });
            }
            Look::Server => answers(client, Reply::Server(self.counters)),
            Look::Sum => {
                self.work += self.store.queues.len() as u64;
                answers(client, Reply::Sum(self.sum()));
            }
            Look::Origins { after, count_max } => {
                self.work += (*count_max).min(self.store.origins.len()) as u64;
                answers(client, Reply::Origins(&self.open_origins(after, *count_max)));
            }
        }
    }

    fn look_at_jobs(
        &self,
        now: Now,
        client: ClientId,
        queue: &QueueName,
        (which, offset, count_max): (Which, usize, usize),
        answers: &mut Answers<'_>,
    ) {
        let Some(queue) = self.store.queues.find(queue) else {
            return answers(client, Reply::Refused(Refusal::NoSuchQueue));
        };
        let view = |number| self.view(self.store.job(number));
        let wrong = |name: &str, len: usize| usize::from(len > 1 && count_max == 1 && crate::broken(name));
        let jobs: Vec<JobView<'_>> = match which {
            Which::Ready => queue
                .ready
                .iter_from(offset + wrong("engine-shows-second-ready", queue.ready.len()))
                .take(count_max)
                .map(|key| view(key.number))
                .collect(),
            Which::Delayed => queue.delayed.iter_from(offset).take(count_max).map(|key| view(key.number)).collect(),
            Which::Due => queue
                .by_due(now)
                .skip(offset + wrong("engine-shows-second-due", queue.delayed.len()))
                .take(count_max)
                .map(view)
                .collect(),
            Which::Buried => queue
                .buried
                .iter_from(offset + wrong("engine-shows-second-buried", queue.buried.len()))
                .take(count_max)
                .map(|(_, number)| view(number))
                .collect(),
        };
        answers(client, Reply::Jobs(&jobs));
    }

    fn sum(&self) -> Sum {
        let Attending { producers, workers, .. } = self.store.attending;
        let waiting = self.waiting.for_jobs();
        let mut sum = Sum { producers, workers, waiting, counters: self.counters, ..Sum::default() };
        for QueueView { counts, urgent, .. } in self.store.queues.by_age().map(Queue::view) {
            sum.queues += 1;
            sum.counts.ready += counts.ready;
            sum.counts.delayed += counts.delayed;
            sum.counts.leased += counts.leased;
            sum.counts.buried += counts.buried;
            sum.urgent += urgent;
        }
        sum
    }

    fn look_at_queues(
        &self,
        order: QueueOrder,
        nameable: fn(&[u8]) -> bool,
        offset: usize,
        count_max: usize,
    ) -> Vec<QueueView<'_>> {
        match order {
            QueueOrder::Created => page_of(self.store.queues.by_age(), nameable, offset, count_max),
            QueueOrder::Name => page_of(self.store.queues.by_name(), nameable, offset, count_max),
        }
    }

    pub(crate) fn view<'a>(&'a self, job: &'a Job) -> JobView<'a> {
        let rare = job.rare.as_deref();
        JobView {
            number: job.number,
            uuid: job.uuid(),
            queue: &self.store.queues.get(job.queue).name,
            name: rare.and_then(|rare| rare.name.as_deref()),
            body: &job.body,
            urgency: job.urgency,
            own_time: job.own_time,
            lifetime_ms: rare.and_then(|rare| rare.lifetime_ms),
            attempts: rare.map_or(0, |rare| rare.attempts),
            attempts_max: rare.and_then(|rare| rare.attempt_rule).and_then(|rule| rule.max),
            failures: rare.map_or(0, |rare| rare.failures),
            failures_allowed: job.failure_rule().and_then(|rule| rule.allowed),
            state: job.state_view(),
            created_wall_ms: job.created_wall_ms,
            date_wall_ms: rare.and_then(|rare| rare.date).map(|(wall_ms, _)| wall_ms),
            delay_ms: rare.map_or(0, |rare| rare.delay_ms),
            until: job.until(),
            tally: job.tally(),
        }
    }
}

fn page_of<'a>(
    queues: impl Iterator<Item = &'a Queue>,
    nameable: fn(&[u8]) -> bool,
    offset: usize,
    count_max: usize,
) -> Vec<QueueView<'a>> {
    queues.filter(|queue| nameable(queue.name.as_bytes())).skip(offset).take(count_max).map(Queue::view).collect()
}
