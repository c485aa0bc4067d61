"""Clients that find out, while a fault lasts, whether what must go on goes on."""

import contextlib
import time

import rough
from clients import PROTOCOLS, Gone, Refused, Unexpected, Unread

PATIENCE = 30
TRIES = 20
# Jobs are taken again if for so long none was refused: longer than the server waits before it looks for room again.
STEADY_SECONDS = 1.2
# What is answered to who holds a job on a lease that ends with time, and says meanwhile that it is there, or is done.
HONOURED = {"workq": [b"+OK"], "goqueue": [b"OK"], "beanstalkd": [b"TOUCHED", b"DELETED"]}
# The shortest lease of those that count it in seconds, and a little.
LEASE_SECONDS = 1.3


class Probe(rough.Rough):
    """One client that does as it is told, in a queue of its own."""

    def __init__(self, name, protocol, life, ledger, draw):
        super().__init__(name, protocol, life.places[protocol], ledger, draw)
        self.queue, self.ending = f"probe-{name}", life.ending
        self.client = PROTOCOLS[protocol](self.place)

    def put_here(self):
        """Puts one job. Raises Refused if it is not taken."""
        self.made = []
        job = self.new_job()
        job.queue = self.queue
        own = (job.uuid,) if self.protocol == "workq" else ()
        try:
            self.ledger.acknowledged(job, self.client.put(self.queue, job.body, *own))
        except Refused:
            self.ledger.refuse(job)
            raise
        return job

    def take_here(self, durable):
        """Takes a job: it, and what its taker calls it."""
        taken = self.client.take(self.queue)
        if taken is None:
            raise Unexpected(f"{self.name}: there is no job in the queue {self.queue}")
        return self.ledger.taken(taken, self.protocol, durable), taken.reference


class Probes:
    """Some clients, all closed at the end. A server that goes away is none of their faults."""

    serial = 0

    def __init__(self, life, ledger, draw):
        self.life, self.ledger, self.draw, self.clients = life, ledger, draw, []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _trace):
        for probe in self.clients:
            probe.client.close()
        if kind in (Gone, Unexpected, Refused):
            raise SystemExit(f"{type(self).__name__}: {kind.__name__} {error} {error.__cause__ or ''}")

    def new(self, protocol):
        Probes.serial += 1
        name = f"{protocol}-{type(self).__name__.lower()}-{Probes.serial}"
        probe = Probe(name, protocol, self.life, self.ledger, self.draw)
        self.clients.append(probe)
        return probe


class Leases(Probes):
    """Leases that would run out while the server stands still. Their holders answer meanwhile; someone else waits."""

    def __init__(self, life, ledger, draw, seconds):
        super().__init__(life, ledger, draw)
        self.seconds, self.taken = seconds, []

    def take(self):
        """Must be followed by the stop at once: the leases are short. What was taken before is left to whoever waits."""
        self.taken = []
        lease = self.seconds * self.draw.uniform(0.4, 0.9)
        wanted = {"workq": max(lease, 0.15)}
        if self.seconds > LEASE_SECONDS:
            wanted |= {"goqueue": 1, "beanstalkd": 1}  # whole seconds
        self.wanted = len(wanted)
        for protocol, seconds in wanted.items():
            # A busy machine may need more than one try; what it cannot do at all is counted, and missed in the end.
            any(self.take_one(protocol, seconds) for _ in range(TRIES))

    def run_at(self, moment):
        """Whether all that should have been taken was, and is leased still."""
        return sum(until > moment for *_, until in self.taken) == self.wanted

    def take_one(self, protocol, seconds):
        """Whether enough of the lease is left."""
        holder, rival = self.new(protocol), self.new(protocol)
        rival.queue = holder.queue
        match protocol:
            case "workq":
                holder.client.TTR_MS = round(1000 * seconds)
            case "goqueue":
                holder.client.TTP_SECONDS = seconds
            case "beanstalkd":
                holder.client.TTR_SECONDS = seconds
        holder.put_here()
        begun = time.monotonic()
        job, reference = holder.take_here(durable=False)
        rival.client.ask_for_one(rival.queue, PATIENCE)
        self.taken.append((holder, rival, job, reference, begun + seconds))
        if time.monotonic() - begun < seconds / 3:
            return True
        self.taken.pop()
        return False

    def answer(self, stopped):
        """The holders answer; nobody reads it yet. A lease that was over when the server was stopped
        is not checked."""
        self.taken = [taken for taken in self.taken if taken[-1] > stopped]
        for holder, _rival, job, reference, _until in self.taken:
            self.ledger.ending(job, holder.client.ENDS)
            holder.client.deaf = True
            if holder.protocol == "beanstalkd":
                with contextlib.suppress(Unread):
                    holder.client.touch(reference)
            with contextlib.suppress(Unread):
                holder.client.end(job.queue, reference)
            holder.client.deaf = False

    def check(self):
        """The answers count, and whoever waits gets what is put now."""
        for holder, rival, job, _reference, _until in self.taken:
            hear = holder.client.word if holder.protocol == "goqueue" else holder.client.line
            expected = HONOURED[holder.protocol]
            answers = [hear() for _ in expected]
            if answers != expected:
                holder.wrong("leases lost", f"what was sent while the server stood still was answered {answers}")
                continue
            self.ledger.acknowledged_end(job, holder.protocol)
            self.ledger.count_by("honoured after SIGSTOP", holder.protocol)
            following = holder.put_here()
            taken = heard(rival.client)
            if taken.body != following.body:
                rival.wrong("leases lost", f"{job.key} was answered in time, and this came: {taken.body[:60]!r}")
                continue
            rival.end(self.ledger.taken(taken, rival.protocol, False), taken.reference)


def heard(client):
    """The job that was asked for."""
    taken = client.taken()
    if taken is None:
        raise Unexpected(f"{type(client).__name__}: whoever waits gets nothing")
    return taken


class Room(Probes):
    """Without room jobs are refused and what is there can be finished; with room again, jobs are taken."""

    def take(self):
        self.held = []
        for protocol in PROTOCOLS:
            probe = self.new(protocol)
            probe.put_here()
            self.held.append((probe, *probe.take_here(probe.client.durable_leases)))

    def until_refused(self):
        deadline = time.monotonic() + PATIENCE
        for probe, *_ in self.held:
            with contextlib.suppress(Refused):
                while time.monotonic() < deadline:
                    probe.put_here()
                raise SystemExit(f"the disk is full, and {probe.protocol} takes jobs {PATIENCE} s later")

    def finish(self):
        for probe, job, reference in self.held:
            self.ledger.ending(job, probe.client.ENDS)
            try:
                probe.client.end(job.queue, reference)
                self.ledger.acknowledged_end(job, probe.protocol)
                self.ledger.count_by("finished without room", probe.protocol)
            except Refused as refused:
                probe.wrong("finishing refused", f"{job.key}: {refused}")

    def until_accepted(self, seconds):
        """Within this time jobs are taken again by all, and go on being taken."""
        probes = [self.new(protocol) for protocol in PROTOCOLS]
        deadline = time.monotonic() + seconds
        resumed = time.monotonic()
        while time.monotonic() < resumed + STEADY_SECONDS:
            for probe in probes:
                try:
                    probe.put_here()
                except Refused:
                    resumed = time.monotonic()
                    if resumed > deadline:
                        raise SystemExit(f"there is room on the disk, and {probe.protocol} still refuses jobs") from None
            self.life.ending.wait(STEADY_SECONDS / 20)
