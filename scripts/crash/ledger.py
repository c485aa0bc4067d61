"""What clients were promised, and what they saw. It stands outside the server and believes only answers."""

import hashlib
import json
import threading
import time
from collections import Counter

from asides import Asides
from clients import uuid_of_number

# States as workq shows them. A job that is buried seems to have failed.
FAILED = b"2"
FINISHED = (b"1", FAILED)
LEASED = b"4"

ASKED, ACKNOWLEDGED = "asked", "acknowledged"


def digest(body):
    """What is remembered of a body once the job has ended."""
    return hashlib.blake2b(body, digest_size=16).digest()


class Job:
    """One job: what was asked for, and what was acknowledged."""

    def __init__(self, key, queue, body, by, uuid=None, not_before=None, blocker=None):
        self.key, self.queue, self.body, self.by = key, queue, body, by
        self.digest = digest(body)
        self.uuid, self.number = uuid, None
        self.not_before, self.blocker = not_before, blocker
        self.put = ASKED
        self.end, self.how, self.result = None, None, None
        self.leased_until, self.leased_by = None, None
        # What was last answered about it to those who put aside and let back in; how often clients did something on which
        # that depends; its place among those that were buried.
        self.aside, self.changes, self.burial = None, 0, 0
        # The connection with which a lease ends that does not outlive it; known only if its owner tells.
        self.held_by = None

    def is_there(self):
        """Whether it must be."""
        return self.put == ACKNOWLEDGED and self.end is None

    def name(self):
        """What it can be looked up by; None if nobody was told."""
        if self.uuid is not None:
            return self.uuid
        return None if self.number is None else uuid_of_number(self.number)


class Ledger:
    """All jobs there ever were."""

    def __init__(self):
        self.lock = threading.Lock()
        self.jobs = {}
        self.by_number = {}
        self.asides = Asides(self)
        # By what they count, and by that and whom they count.
        self.counts = Counter()
        self.wrong = []
        # What was left leased, to be ended in a later life.
        self.left = []
        # Keys that ended since the last look.
        self.recently_ended = []
        self.ended = []
        # What was refused since the last look.
        self.refused = []
        self.held = {}

    def watch_threads(self):
        """A client that fails to be one must not go unnoticed."""
        threading.excepthook = lambda failed: self.say_wrong("unexpected", f"{failed.thread.name}: {failed.exc_value!r}")

    def say_wrong(self, what, text):
        self.counts[what] += 1
        self.wrong.append(f"{what}: {text}")

    def count(self, what, times=1):
        with self.lock:
            self.counts[what] += times

    def count_by(self, what, who, times=1):
        """As `count`, for each of them."""
        with self.lock:
            self.counts[what] += times
            self.counts[what, who] += times

    def backlog(self):
        """About how many jobs there are."""
        return self.counts["acknowledged puts"] + self.counts["found out"] - self.counts["completed"]

    def asked(self, job):
        with self.lock:
            self.jobs[job.key] = job

    def acknowledged(self, job, number=None):
        with self.lock:
            self.counts["acknowledged puts"] += 1
            self.counts["acknowledged puts", job.by] += 1
            job.put = ACKNOWLEDGED
            self.seen(job, number)

    def found_out(self, job):
        """A job is there, whether its put was acknowledged or not."""
        self.counts["found out"] += job.put != ACKNOWLEDGED
        job.put = ACKNOWLEDGED

    def refuse(self, job):
        """A put was refused: the job must never be seen."""
        with self.lock:
            self.counts["refused for the disk"] += 1
            self.counts["refused for the disk", job.by] += 1
            job.put = None
            self.refused.append(job)

    def seen(self, job, number):
        """A job was seen under this number."""
        if number is None:
            return
        if self.by_number.setdefault(number, job.key) != job.key:
            self.say_wrong("ids given twice", f"{number} was given to {self.by_number[number]} and to {job.key}")
        elif job.number not in (None, number):
            self.say_wrong("ids given twice", f"{job.key} had the id {job.number} and has {number}")
        job.number = number

    def taken(self, taken, by, durable, holder=None):
        """A job was taken, by a client of this protocol; the job, if it is one that could be."""
        with self.lock:
            key = json.loads(taken.body).get("k")
            job = self.jobs.get(key)
            if job is None or job.digest != digest(taken.body):
                self.say_wrong("unexpected", f"a job came that nobody put: {taken.body[:100]!r}")
                return None
            self.counts["leases"] += 1
            self.counts["leases", by] += 1
            if job.end == ACKNOWLEDGED:
                self.say_wrong("returned", f"{key} was {job.how}, and was given to a worker")
                return None
            if job.put is None:
                self.say_wrong("unexpected", f"{key} was refused or not there after a crash, and came later")
            now = time.time()
            if job.leased_until is not None and now < job.leased_until:
                self.say_wrong("leases lost", f"{key} was leased, and was given to another worker")
            if job.held_by is not None:
                self.say_wrong("leases lost", f"{key} was held by a connection, and was given to another")
            if job.not_before is not None and now < job.not_before - 0.001:
                self.say_wrong("early", f"{key} came {job.not_before - now:.3f} s before its date")
            if job.blocker is not None and self.jobs[job.blocker].end is None:
                self.say_wrong("early", f"{key} came before {job.blocker}, which blocks it, was done")
            self.found_out(job)
            self.seen(job, taken.number)
            self.asides.taken(job)
            # Less than it lasts: what is checked is the server, not the clocks.
            job.leased_until, job.leased_by = now + 500 if durable else None, by
            if holder is not None and not durable:
                job.held_by = holder
                self.held.setdefault(holder, []).append(job)
            return job

    def let_go(self, holder):
        """A connection is about to end, and with it what it holds."""
        with self.lock:
            for job in self.held.pop(holder, []):
                if job.held_by == holder:
                    job.held_by = None

    def leave(self, job, protocol, reference):
        """A job stays leased although nobody works on it."""
        with self.lock:
            self.left.append((job, protocol, reference))

    def take_left(self, protocol, draw):
        """A job that was left by a client of this protocol, if there is one."""
        with self.lock:
            mine = [index for index, left in enumerate(self.left) if left[1] == protocol]
            if not mine:
                return None
            job, _, reference = self.left.pop(draw.choice(mine))
            return job, reference

    def ending(self, job, how, result=None):
        with self.lock:
            job.end, job.how, job.result = ASKED, how, result

    def acknowledged_end(self, job, by):
        with self.lock:
            self.counts["completed"] += 1
            self.counts["completed", by] += 1
            job.end, job.leased_until, job.held_by, job.body = ACKNOWLEDGED, None, None, None
            self.recently_ended.append(job)

    def giving_back(self, job):
        with self.lock:
            job.leased_until, job.held_by = None, None

    def look(self, client, tubes, draw, ended_max):
        """Compares all that is known with what the server has after a start. `client` speaks workq, and `tubes`
        beanstalkd. Of those that ended before the last look, so many are looked up; all if that is None."""
        with self.lock:
            before = self.ended if ended_max is None else draw.sample(self.ended, min(ended_max, len(self.ended)))
            ended = self.recently_ended + before
            self.ended = self.ended + self.recently_ended
            self.recently_ended = []
            open_jobs = [job for job in self.jobs.values() if job.end != ACKNOWLEDGED and job.put is not None]
            self.check_open(client, tubes, [job for job in open_jobs if job.name() is not None])
            self.check_ended(client, ended)
            self.check_refused(client)
        self.asides.look(tubes)

    def check_open(self, client, tubes, jobs):
        shown = client.inspect([job.name() for job in jobs])
        failed = [job for job, found in zip(jobs, shown) if found is not None and found["state"] == FAILED]
        known = [job for job in failed if job.number is not None]
        about = zip(known, tubes.about_jobs([job.number for job in known]))
        buried = {job.key for job, about in about if about is not None and about["state"] == "buried"}
        for job, found in zip(jobs, shown):
            gone = found is None or found["state"] in FINISHED and job.key not in buried
            if job.put == ASKED:
                # It may be there or not, but it must be decided.
                job.put = None
                if not gone:
                    self.found_out(job)
            elif job.end == ASKED:
                if gone:
                    job.end = ACKNOWLEDGED
                    self.ended.append(job)
                else:
                    job.end = None
            elif gone:
                self.say_wrong("missing", f"{job.key}, id {job.number}, {job.name()}")
                job.end = ACKNOWLEDGED
            else:
                self.counts["recovered"] += 1
                self.counts["recovered", job.by] += 1
                if job.leased_until is not None and time.time() < job.leased_until:
                    self.counts["leases kept"] += 1
                    self.counts["leases kept", job.leased_by] += 1
                    if found["state"] != LEASED:
                        self.say_wrong("leases lost", f"{job.key} has the state {found['state'].decode()}")
            if found is not None and digest(found["payload"]) != job.digest:
                self.say_wrong("unexpected", f"{job.key} has another body: {found['payload'][:100]!r}")

    def check_ended(self, client, jobs):
        for job, found in zip(jobs, client.inspect([job.name() for job in jobs])):
            if found is not None and (job.how == "removed" or found["state"] not in FINISHED):
                self.say_wrong("returned", f"{job.key} was {job.how}, and is there: state {found['state'].decode()}")
            if job.result is not None and job.how == "completed":
                self.counts["results kept"] += 1
                result = client.result(job.uuid)
                if result != job.result:
                    self.say_wrong("results lost", f"{job.key}: expected {job.result!r}, found {result!r}")

    def check_refused(self, client):
        jobs, self.refused = [job for job in self.refused if job.name() is not None], []
        for job, found in zip(jobs, client.inspect([job.name() for job in jobs])):
            if found is not None:
                self.say_wrong("unexpected", f"{job.key} was refused, and is there: state {found['state'].decode()}")
