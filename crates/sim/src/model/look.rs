//! Questions, which change nothing.

use jobyard_engine::{
    Answers, ClientId, JobView, LeaseRequest, Look, Now, QueueCounts, QueueName, QueueOrder, QueueView, Refusal, Reply,
    StateView, Sum, URGENT, Which,
};

use super::Model;
use super::job::{Job, State};
use super::wait::Waiting;

impl Model {
    pub(super) fn look(&self, now: Now, client: ClientId, look: &Look, answers: &mut Answers<'_>) {
        match look {
            Look::Job(name) => match self.find(name) {
                Err(refusal) => answers(client, Reply::Refused(refusal)),
                Ok(number) => answers(client, Reply::Job(self.job(number).view())),
            },
            Look::Jobs { queue, .. } | Look::Queue(queue) if !self.queues.contains(queue) => {
                answers(client, Reply::Refused(Refusal::NoSuchQueue));
            }
            Look::Jobs { queue, which, offset, count_max } => {
                let jobs = match which {
                    Which::Ready => self.ready_in_order(queue),
                    Which::Delayed => self.delayed_in_order(queue),
                    Which::Due => self.due_in_order(now, queue),
                    Which::Buried => self.buried_in_order(queue),
                };
                let views: Vec<JobView<'_>> = jobs.into_iter().skip(*offset).take(*count_max).map(Job::view).collect();
                answers(client, Reply::Jobs(&views));
            }
            Look::Queue(name) => answers(client, Reply::Queue(self.queue_view(name))),
            Look::Queues { order, nameable, offset, count_max } => {
                let mut names: Vec<&QueueName> = self.queues.iter().filter(|name| nameable(name.as_bytes())).collect();
                if *order == QueueOrder::Name {
                    names.sort();
                }
                let views: Vec<QueueView<'_>> =
                    names.into_iter().skip(*offset).take(*count_max).map(|name| self.queue_view(name)).collect();
                answers(client, Reply::Queues { queues: &views, counters: self.counters });
            }
            Look::Server => answers(client, Reply::Server(self.counters)),
            Look::Sum => answers(client, Reply::Sum(self.sum())),
            Look::Origins { after, count_max } => {
                let open = self.open_origins();
                let behind = open.iter().map(|(origin, ..)| &origin[..]).filter(|origin| *origin > &after[..]);
                answers(client, Reply::Origins(&behind.take(*count_max).collect::<Vec<_>>()));
            }
        }
    }

    fn sum(&self) -> Sum {
        let count = |state| self.jobs.iter().filter(|job| job.state_view() == state).count();
        Sum {
            queues: self.queues.len(),
            counts: QueueCounts {
                ready: count(StateView::Ready),
                delayed: count(StateView::Delayed),
                leased: count(StateView::Leased),
                buried: count(StateView::Buried),
            },
            urgent: self.jobs.iter().filter(|job| job.is_ready() && job.urgency >= URGENT).count(),
            waiting: self.waiting.iter().filter_map(Waiting::lease_request).count(),
            producers: self.producers.len(),
            workers: self.workers.len(),
            counters: self.counters,
        }
    }

    fn queue_view<'a>(&self, name: &'a QueueName) -> QueueView<'a> {
        let (putters, takers) = self.attended(name);
        let waits_here = |request: &LeaseRequest| request.queues.contains(name);
        QueueView {
            name,
            counts: self.counts(name),
            urgent: self.ready_in_order(name).iter().filter(|job| job.urgency >= URGENT).count(),
            pause: self.pauses.get(name).copied(),
            putters,
            takers,
            waiting: self
                .waiting
                .iter()
                .filter_map(Waiting::lease_request)
                .filter(|request| waits_here(request))
                .count(),
            totals: self.totals.get(name).copied().unwrap_or_default(),
        }
    }

    fn delayed_in_order(&self, queue: &QueueName) -> Vec<&Job> {
        let mut delayed: Vec<(i64, u64, &Job)> = Vec::new();
        for job in self.jobs.iter().filter(|job| job.queue == *queue) {
            if let State::Delayed { shown_wall_ms, .. } = job.state {
                delayed.push((shown_wall_ms, job.place, job));
            }
        }
        delayed.sort_by_key(|&(shown_wall_ms, place, job)| (std::cmp::Reverse(job.urgency), shown_wall_ms, place));
        delayed.into_iter().map(|(_, _, job)| job).collect()
    }
}
