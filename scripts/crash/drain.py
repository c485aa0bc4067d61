"""The end of a run: all that can be taken is taken, and held against what was counted and promised."""

import time

from asides import BURIED, READY, Aside, own
from clients import Beanstalkd, Jobcentre, Masenko, Takeanumber, Workq, uuid_of_number
from ledger import ACKNOWLEDGED, digest
from load import CLIENTS_PER_PROTOCOL, QUEUES

TUBES = [*QUEUES, *map(own, range(CLIENTS_PER_PROTOCOL))]
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
        kinds = (Masenko, Takeanumber, Jobcentre, Workq, Beanstalkd)
        self.clients = self.counting, self.measuring, self.taking, self.looking, self.kicking = tuple(
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
        for queue in TUBES:
            self.kick(queue)
            self.empty(queue)
        return self.asleep()

    def kick(self, queue):
        """Lets those back in that are buried: as many as were promised."""
        counts, jobs = self.counts_of(queue), self.ledger.asides.all(BURIED, queue)
        kicked = self.kicking.kick(queue, len(jobs)) if jobs else 0
        self.ledger.count("buried ones counted", kicked)
        if counts["buried"] != len(jobs) or kicked != len(jobs) or self.counts_of(queue)["buried"] != 0:
            self.ledger.say_wrong("counted wrongly", f"{queue}: {len(jobs)} are buried, {kicked} were kicked, {counts}")
        for job in jobs:
            self.ledger.asides.answered(job, self.ledger.asides.asking(job), Aside("kick", READY))

    def empty(self, queue):
        for _ in range(ROUNDS_MAX):
            if not self.take_all(queue):
                return
        self.ledger.say_wrong("unexpected", f"there are more and more jobs in {queue}")

    def take_all(self, queue):
        """Takes what is ready, and ends it when no more comes. How much that was."""
        before, held = self.counts_of(queue), []
        while (taken := self.taking.take(queue)) is not None:
            held.append((self.ledger.taken(taken, "jobcentre", durable=False), taken.reference))
        after = self.counts_of(queue)
        # Dates come meanwhile, also when nothing more was taken.
        came = before["delayed"] - after["delayed"]
        rightly = (
            before["ready"] + came == len(held) + after["ready"]
            and after["ready"] <= came
            and after["to_ack"] == before["to_ack"] + len(held)
            and all(agree(counts) for counts in (before, after))
        )
        self.ledger.count("counts compared")
        if not rightly:
            self.ledger.say_wrong("counted wrongly", f"{queue}: {before}, {len(held)} were taken, {after}")
        for job, reference in held:
            if job is not None:
                self.ledger.ending(job, "removed")
                self.taking.end(queue, reference)
                self.ledger.acknowledged_end(job, "jobcentre")
        return len(held)

    def counts_of(self, queue):
        """What masenko, takeanumber and beanstalkd say is there."""
        queues = {shown["name"]: shown for shown in self.counting.okay("INFO", {})["queues"]}
        shown = queues.get(queue, {"ready": 0, "delayed": 0, "to_ack": 0})
        counts = {**{key: shown[key] for key in ("ready", "delayed", "to_ack")}, "free": self.measuring.length(queue)}
        about = self.kicking.about_tube(queue) or {}
        states = ("ready", "delayed", "reserved", "buried")
        counts["tube"] = {state: int(about.get(f"current-jobs-{state}", 0)) for state in states}
        return {**counts, "buried": counts["tube"]["buried"]}

    def asleep(self):
        now = time.time()
        awake = [job for job in self.ledger.jobs.values() if self.is_awake(job, now)]
        self.ledger.count("jobs awake", len(awake))
        found = zip(awake, self.looking.inspect([job.name() for job in awake]))
        return [job for job, shown in found if shown is not None and shown["state"] == UNLEASED]

    def is_awake(self, job, now):
        """Whether it must be ready or leased, unless it rests for a second."""
        is_there = job.put == ACKNOWLEDGED and job.end is None and job.name() is not None and job.queue in TUBES
        may_rest = job.by in RESTING or job.not_before is not None and now < job.not_before
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


def agree(counts):
    """Whether the three say the same. What becomes ready by itself may do so while they are asked."""
    tube = counts["tube"]
    return counts["free"] == counts["ready"] + counts["delayed"] == tube["ready"] + tube["delayed"] and (
        counts["to_ack"] == tube["reserved"]
    )
