//! What clients have to do with queues: where they put jobs, and where they take them from.

use std::collections::HashMap;

use crate::command::Role;
use crate::engine::{Answers, Engine};
use crate::hash::ByNumber;
use crate::names::{ClientId, QueueName};
use crate::queue::QueueId;
use crate::reply::{Refusal, Reply};

/// What each client has to do with which queues.
#[derive(Debug, Default)]
pub(crate) struct Attending {
    clients: HashMap<ClientId, Attendance, ByNumber>,
    /// How many of these have put a job.
    pub(crate) producers: usize,
    /// How many of these have asked for the next job of a queue, or taken one by name.
    pub(crate) workers: usize,
    /// How many queues are taken from, counted once for each client.
    taken_from: usize,
}

/// What one client has to do with which queues.
#[derive(Debug, Default)]
struct Attendance {
    puts_to: Option<QueueId>,
    takes_from: Vec<QueueId>,
    has_put: bool,
    has_asked: bool,
}

impl Attending {
    /// A client has put a job. It counts if it attends a queue.
    pub(crate) fn note_put(&mut self, client: ClientId) {
        if let Some(attendance) = self.clients.get_mut(&client).filter(|attendance| !attendance.has_put) {
            attendance.has_put = true;
            self.producers += 1;
        }
    }

    /// A client has asked for the next job of a queue, or taken one by name. It counts if it attends a queue.
    pub(crate) fn note_asked(&mut self, client: ClientId) {
        if let Some(attendance) = self.clients.get_mut(&client).filter(|attendance| !attendance.has_asked) {
            attendance.has_asked = true;
            self.workers += 1;
        }
    }

    /// The memory that is taken by what clients have to do with queues.
    pub(crate) fn memory_bytes(&self) -> usize {
        // The table may be half empty, and a list.
        self.clients.len() * 2 * size_of::<(ClientId, Attendance)>() + self.taken_from * 2 * size_of::<QueueId>()
    }

    /// Each client and each queue that it attends, and how.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (QueueId, Role)> + '_ {
        self.clients.values().flat_map(|attendance| {
            let takes_from = attendance.takes_from.iter().map(|&queue| (queue, Role::Taker));
            attendance.puts_to.map(|queue| (queue, Role::Putter)).into_iter().chain(takes_from)
        })
    }
}

impl Engine {
    pub(crate) fn handle_attend(
        &mut self,
        client: ClientId,
        queue: &QueueName,
        role: Role,
        keeps_queue: bool,
        answers: &mut Answers<'_>,
    ) {
        let reply = match self.check_attend(client, queue, role) {
            Ok(()) => {
                if keeps_queue {
                    self.create_queue(queue);
                }
                self.attend(client, queue, role);
                Reply::Done
            }
            Err(refusal) => Reply::Refused(refusal),
        };
        answers(client, reply);
    }

    fn check_attend(&self, client: ClientId, queue: &QueueName, role: Role) -> Result<(), Refusal> {
        let taken_from = self.store.attending.clients.get(&client).map_or(&[][..], |attendance| &attendance.takes_from);
        let is_taken_from = || self.store.queues.id(queue.as_bytes()).is_some_and(|id| taken_from.contains(&id));
        if role.takes() && taken_from.len() >= self.limits.queues_named_max && !is_taken_from() {
            return Err(Refusal::TooManyNamed);
        }
        if self.store.queues.exists(queue) {
            return Ok(());
        }
        if queue.as_bytes().len() > self.limits.queue_name_bytes_max {
            return Err(Refusal::QueueNameTooLong);
        }
        if self.store.queues.len() >= self.limits.queues_max { Err(Refusal::TooManyQueues) } else { Ok(()) }
    }

    fn attend(&mut self, client: ClientId, queue: &QueueName, role: Role) {
        let queue = self.find_or_make_queue(queue);
        let attendance = self.store.attending.clients.entry(client).or_default();
        if role.takes() && !attendance.takes_from.contains(&queue) {
            self.store.queues.get_mut(queue).takers += 1;
            attendance.takes_from.push(queue);
            self.store.attending.taken_from += 1;
        }
        if role.puts() {
            self.store.queues.get_mut(queue).putters += 1;
            if let Some(left) = attendance.puts_to.replace(queue) {
                self.stop_attending(left, Role::Putter);
            }
        }
    }

    pub(crate) fn handle_leave(&mut self, client: ClientId, queue: &QueueName, answers: &mut Answers<'_>) {
        let attendance = self.store.attending.clients.get_mut(&client);
        if let (Some(attendance), Some(queue)) = (attendance, self.store.queues.id(queue.as_bytes()))
            && let Some(at) = attendance.takes_from.iter().position(|&taken_from| taken_from == queue)
        {
            attendance.takes_from.remove(at);
            self.stop_attending(queue, Role::Taker);
        }
        answers(client, Reply::Done);
    }

    /// The client is gone.
    pub(crate) fn leave_all(&mut self, client: ClientId) {
        let Some(attendance) = self.store.attending.clients.remove(&client) else {
            return;
        };
        self.store.attending.producers -= usize::from(attendance.has_put);
        self.store.attending.workers -= usize::from(attendance.has_asked);
        if let Some(queue) = attendance.puts_to.filter(|_| !crate::broken("engine-leaver-attends")) {
            self.stop_attending(queue, Role::Putter);
        }
        for queue in attendance.takes_from {
            self.stop_attending(queue, Role::Taker);
        }
    }

    /// A queue has one fewer who attends it.
    fn stop_attending(&mut self, queue: QueueId, role: Role) {
        let attended = self.store.queues.get_mut(queue);
        attended.putters -= usize::from(role.puts());
        attended.takers -= usize::from(role.takes());
        self.store.attending.taken_from -= usize::from(role.takes());
        self.store.let_go(queue);
    }
}
