"""What only beanstalkd's clients can do: bury and kick, release with a priority and for later, touch, take a job by its
number, and pause a tube."""

import time

from asides import BURIED, LATER, LONG_SECONDS, READY, Aside, own
from clients import Refused
from ledger import ACKNOWLEDGED

PRIORITIES = [0, 1, 1023, 1024, 4294967295]
KICKED_MAX = 100_000


class Tubes:
    """A worker's further mind: for jobs in the queues of all, and for a tube of its own, of which it knows all."""

    def __init__(self, worker, queues):
        self.worker, self.ledger, self.draw = worker, worker.ledger, worker.draw
        self.asides, self.queues = worker.ledger.asides, queues
        self.own = own(worker.name.rpartition("-")[2])

    @property
    def client(self):
        return self.worker.client

    def step(self):
        chances = [(self.put, 4), (self.take, 6), (self.kick, 1), (self.let_back, 3), (self.pause, 2)]
        step, = self.draw.choices(*zip(*chances))
        step()

    def put(self):
        """A job into its own tube, now and then for later."""
        job = self.worker.new_job()
        job.queue = self.own
        delay = self.delay() if self.draw.random() < 0.3 else 0
        aside = Aside("put for later", LATER, self.draw.choice(PRIORITIES), delay)
        asked = time.time()
        self.asides.unheard[self.own] += delay > 0
        try:
            number = self.client.put(job.queue, job.body, delay, aside.priority)
        except Refused:
            self.asides.unheard[self.own] -= delay > 0
            raise
        self.ledger.acknowledged(job, number)
        if delay:
            self.asides.unheard[self.own] -= 1
            self.asides.answered(job, self.asides.asking(job), aside, asked)

    def delay(self):
        return LONG_SECONDS if self.draw.random() < 0.5 else self.draw.randrange(1, 4)

    def take(self):
        taken = self.client.take(self.own)
        if taken is not None:
            self.treat(taken)

    def treat(self, taken):
        """Does something about a job that it was given."""
        job = self.worker.given(taken)
        if job is not None and not self.put_aside(job, 0.8):
            self.worker.end(job, taken.reference)

    def put_aside(self, job, share):
        """Puts this share of what it was given aside. Whether it did so."""
        chance = self.draw.random()
        if self.draw.random() < 0.2:
            self.client.touch(job.number)
            self.ledger.count_by("answered", "touch")
        if chance > share:
            return False
        priority, asked = self.draw.choice(PRIORITIES), time.time()
        if chance < 0.5 * share:
            aside = Aside("bury", BURIED, priority)
            ask = lambda: self.client.bury(job.number, priority)
        else:
            delay = self.delay() if chance < 0.75 * share else 0
            aside = Aside("release for later", LATER, priority, delay) if delay else Aside("release", READY, priority)
            ask = lambda: self.client.release(job.number, priority, delay)
        changes = self.asides.asking(job, burying=aside.state == BURIED)
        try:
            ask()
        except Refused:
            # It is still held.
            self.asides.settled(job)
            raise
        self.asides.answered(job, changes, aside, asked)
        return True

    # --- letting them back in

    def let_back(self):
        """One that is buried or put off for long, by its number: it is kicked, taken or deleted."""
        queue, state = self.draw.choice([*self.queues, self.own]), self.draw.choice([BURIED, LATER])
        job = self.asides.pick(state, queue, self.draw)
        if job is None:
            return
        before, not_before = job.aside, job.not_before
        ways = [self.kick_one, self.take_one]
        way = self.draw.choice([*ways, self.delete_one] if state == BURIED else ways)
        changes = self.asides.asking(job)
        try:
            found = way(job, changes, before)
        except Refused:
            self.asides.unchanged(job, changes, before, not_before)
            raise
        if not found:
            self.asides.settled(job)
        # The delay of one that was put off may be over.
        if not found and (state == BURIED or time.time() < not_before):
            self.wrong(f"{job.key} is not found, although it was put aside: {before.by}")

    def kick_one(self, job, changes, before):
        found = self.client.kick_job(job.number)
        if found:
            self.asides.answered(job, changes, Aside("kick-job", READY, before.priority))
        return found

    def take_one(self, job, _changes, _before):
        taken = self.client.take_this(job.number)
        if taken is None:
            return False
        self.ledger.count_by("answered", "reserve-job")
        self.treat(taken)
        return True

    def delete_one(self, job, changes, before):
        self.worker.end(job, job.number)
        if job.end == ACKNOWLEDGED:
            self.asides.settled(job)
        else:
            # It was refused, which a worker may bear.
            self.asides.unchanged(job, changes, before, None)
        return True

    def kick(self):
        """Some of its own tube; all, if what it has put off is kicked, whose order it does not know."""
        jobs, count = self.asides.all(BURIED, self.own), self.draw.choice([1, 2, 5, KICKED_MAX])
        if jobs is None:
            return
        least = most = min(len(jobs), count)
        if not jobs:
            jobs, count, now = self.asides.all(LATER, self.own), KICKED_MAX, time.time()
            least = sum(now + 1 < job.not_before for job in jobs)
            most = len(jobs) + self.asides.unheard[self.own]
        jobs = jobs[:count]
        asked = [(job, job.aside, job.not_before, self.asides.asking(job)) for job in jobs]
        try:
            kicked = self.client.kick(self.own, count)
        except Refused:
            for job, before, not_before, changes in asked:
                self.asides.unchanged(job, changes, before, not_before)
            raise
        if not least <= kicked <= most:
            self.wrong(f"{kicked} jobs of {self.own} were kicked, asked for {count}: not {least} to {most}")
        for job, before, _, changes in asked:
            self.asides.answered(job, changes, Aside("kick", READY, before.priority))

    # --- pauses

    def pause(self):
        """A tube in which something is ready gives nothing while it is paused. Sometimes it stays so until the server
        ends."""
        about = self.client.about_tube(self.own)
        if about is None or about["current-jobs-ready"] == "0":
            return
        self.pause_for(LONG_SECONDS)
        if self.client.take(self.own) is not None:
            self.wrong(f"a job came out of {self.own}, which is paused")
        if self.draw.random() < 0.5:
            self.pause_for(0)
            taken = self.client.take(self.own)
            if taken is None:
                return self.wrong(f"nothing comes out of {self.own}, which is paused no more: {about}")
            self.treat(taken)

    def pause_for(self, seconds):
        self.asides.paused.discard(self.own)
        if not self.client.pause(self.own, seconds):
            return self.wrong(f"{self.own} has jobs and cannot be paused")
        self.ledger.count_by("answered", "pause-tube")
        if seconds:
            self.asides.paused.add(self.own)

    def wrong(self, text):
        with self.ledger.lock:
            self.ledger.say_wrong("asides lost", f"{self.worker.name}: {text}")
