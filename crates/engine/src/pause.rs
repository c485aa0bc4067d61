//! Queues of which nobody is given a job for a while.

use crate::broken;
use crate::engine::{Answers, Engine};
use crate::names::{ClientId, QueueName};
use crate::queue::QueueId;
use crate::reply::{Pause, Refusal, Reply};
use crate::time::Now;
use crate::timers::Timer;

impl Engine {
    pub(crate) fn handle_pause(
        &mut self,
        now: Now,
        client: ClientId,
        name: &QueueName,
        pause_ms: u64,
        answers: &mut Answers<'_>,
    ) {
        let queues = &self.store.queues;
        let Some(queue) = queues.id(name.as_bytes()).filter(|_| queues.exists(name)) else {
            return answers(client, Reply::Refused(Refusal::NoSuchQueue));
        };
        if pause_ms > 0 || !broken("engine-pause-cannot-be-ended") {
            self.end_pause(queue);
        }
        self.store.queues.get_mut(queue).totals.pauses += 1;
        if pause_ms > 0 {
            let length_ms = if broken("engine-pause-too-short") { pause_ms / 2 } else { pause_ms };
            let until_ms = now.engine_ms.saturating_add(length_ms);
            self.store.queues.get_mut(queue).pause = Some(Pause { ms: pause_ms, until_ms });
            if !broken("engine-pause-never-ends") {
                self.store.timers.add(until_ms, Timer::PauseEnd(queue));
            }
        }
        answers(client, Reply::Done);
    }

    /// The jobs of a queue can be taken again.
    pub(crate) fn end_pause(&mut self, queue: QueueId) {
        let paused = self.store.queues.get_mut(queue);
        let Some(pause) = paused.pause.take() else {
            return;
        };
        if !paused.waiting.is_empty() && !broken("engine-pause-ends-unnoticed") {
            self.store.stirred.push(queue);
        }
        self.store.timers.remove(pause.until_ms, Timer::PauseEnd(queue));
    }
}
