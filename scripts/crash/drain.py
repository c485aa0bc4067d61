"""The end of a run: all that can be taken is taken, and held against what was counted and promised."""

import time

from clients import Jobcentre, Masenko, Takeanumber, Workq, uuid_of_number
from ledger import ACKNOWLEDGED, digest
from load import QUEUES

# So often what is there is taken: what is blocked comes in the next round.
ROUNDS_MAX = 1000
# Not leased, as workq shows it.
UNLEASED = b"0"
# A job that a masenko client held and let go of rests, nobody knows for how long, if one of these put it; else for a second.
RESTING = ("masenko", "takeanumber")
REST_SECONDS = 5  # and what a busy machine may add


class Drain:
    """Nobody else is there."""

    def __init__(self, places, ledger):
        self.ledger = ledger
        kinds = (Masenko, Takeanumber, Jobcentre, Workq)
        self.clients = self.counting, self.measuring, self.taking, self.looking = tuple(
            kind(places[kind.__name__.lower()]) for kind in kinds
        )

    def run(self):
        try:
            deadline = time.monotonic() + REST_SECONDS
            while (asleep := self.empty_all()) and time.monotonic() < deadline:
                time.sleep(0.1)
            for job in asleep:
                self.ledger.say_wrong("missing", f"{job.key}, id {job.number}, never becomes ready")
            self.check_groups()
        finally:
            for client in self.clients:
                client.close()

    def empty_all(self):
        """Takes all there is. The jobs that are there, and are neither given to anybody nor held."""
        for queue in QUEUES:
            self.empty(queue)
        return self.asleep()

    def empty(self, queue):
        for _ in range(ROUNDS_MAX):
            if not self.take_all(queue):
                return
        self.ledger.say_wrong("unexpected", f"there are more and more jobs in {queue}")

    def take_all(self, queue):
        """Takes what is ready, and ends it when no more comes. How much that was."""
        before, held = self.counts_of(queue), []
        while (taken := self.taking.take(queue)) is not None:
            held.append((self.ledger.taken(taken, durable=False), taken.reference))
        after = self.counts_of(queue)
        # Dates come meanwhile.
        came = before["delayed"] - after["delayed"]
        rightly = (
            before["ready"] + came == len(held)
            and after["ready"] == 0
            and after["to_ack"] == before["to_ack"] + len(held)
            and all(counts["free"] == counts["ready"] + counts["delayed"] for counts in (before, after))
        )
        self.ledger.count("counts compared")
        if not rightly:
            self.ledger.say_wrong("counted wrongly", f"{queue}: {before}, {len(held)} were taken, {after}")
        for job, reference in held:
            if job is not None:
                self.ledger.ending(job, "removed")
                self.taking.end(queue, reference)
                self.ledger.acknowledged_end(job)
        return len(held)

    def counts_of(self, queue):
        queues = {shown["name"]: shown for shown in self.counting.okay("INFO", {})["queues"]}
        shown = queues.get(queue, {"ready": 0, "delayed": 0, "to_ack": 0})
        return {**{key: shown[key] for key in ("ready", "delayed", "to_ack")}, "free": self.measuring.length(queue)}

    def asleep(self):
        now = time.time()
        awake = [job for job in self.ledger.jobs.values() if self.is_awake(job, now)]
        self.ledger.count("jobs awake", len(awake))
        found = zip(awake, self.looking.inspect([job.name() for job in awake]))
        return [job for job, shown in found if shown is not None and shown["state"] == UNLEASED]

    def is_awake(self, job, now):
        """Whether it must be ready or leased, unless it rests for a second."""
        is_there = job.put == ACKNOWLEDGED and job.end is None and job.name() is not None and job.queue in QUEUES
        may_rest = job.key.split("-")[1] in RESTING or job.not_before is not None and now < job.not_before
        return is_there and not may_rest

    def check_groups(self):
        """Of two jobs that were put at once, both were there, or neither. Their numbers follow each other."""
        groups = [(self.ledger.jobs[job.blocker], job) for job in self.ledger.jobs.values() if job.blocker is not None]
        for first, second in groups:
            seen = [job.put == ACKNOWLEDGED for job in (first, second)]
            if all(seen) or seen[0] and self.is_behind(first, second):
                self.ledger.count("groups put whole")
            elif not any(seen):
                self.ledger.count("groups not put")
            else:
                self.ledger.say_wrong("halves", f"of {first.key} and {second.key}, put at once, one was there: {seen}")

    def is_behind(self, first, second):
        """Whether the second is there although nobody has seen it: it waits for the first, or is leased."""
        found, = self.looking.inspect([uuid_of_number(first.number + 1)])
        return found is not None and digest(found["payload"]) == second.digest
