"""What a round knows of its clients and jobs from beanstalkd's replies: enough to ask what is interesting.

It is no model of the server: where it errs, a question is less interesting, and nothing else.
"""

from dataclasses import dataclass, field

from instants import EACH_SECOND, Timers, phase

RESERVES = ("reserve", "reserve-with-timeout")
# In seconds. Longer timers run out in no round.
SHORT_MAX = 3
UNKNOWN_TTR = 120
# Which requests teach something when they are answered so.
TEACHES = {
    "DELETED": ("delete",),
    "RELEASED": ("release",),
    "BURIED": ("bury",),
    "TOUCHED": ("touch",),
    "KICKED": ("kick", "kick-job"),
    "USING": ("use",),
    "WATCHING": ("watch", "ignore"),
    "PAUSED": ("pause-tube",),
}
# Replies after which it is not clear what was read.
MURKY = ("BAD_FORMAT", "UNKNOWN_COMMAND", "EXPECTED_CRLF", "JOB_TOO_BIG")


@dataclass(frozen=True)
class Request:
    """`about` is what to know if it succeeds: its arguments. `timers` is who may start a timer by it, if anybody. After
    one that is `murky` nobody knows where the next begins: it may end in the middle of a line or body, or too soon."""

    verb: str
    data: bytes
    about: tuple = ()
    timers: str | None = None
    murky: bool = False

    def line(self):
        return self.data.partition(b"\r\n")[0].decode("latin-1")


@dataclass(frozen=True)
class Step:
    """At an instant a client does something: open, send, half-close, close, reset. `rest` is to be sent later, each
    piece with who may start a timer by it."""

    instant: int
    client: int
    act: str
    data: bytes = b""
    requests: tuple = ()
    rest: tuple = ()


@dataclass
class Client:
    """`pending` are requests without a reply, sent at the instants `asked`; `rest` are pieces still to be sent."""

    number: int
    pending: list = field(default_factory=list)
    asked: list = field(default_factory=list)
    rest: list = field(default_factory=list)
    used: str = "default"
    watched: set = field(default_factory=lambda: {"default"})
    murky: bool = False
    half_closed: bool = False

    def blocked(self):
        return bool(self.pending) and not self.rest and self.pending[0].verb in RESERVES


@dataclass
class Job:
    """`marks` are the instants from which its age and the time it has left are counted; None if nobody knows, as with
    `priority`. If its lease is `loose` nobody knows in which order with others it runs out."""

    tube: str
    ttr: int
    marks: list | None
    priority: int | None = None
    state: str = "ready"
    holder: int | None = None
    due: int | None = None
    loose: bool = False

    def rest(self, state="ready"):
        self.state, self.holder, self.due, self.loose = state, None, None, False

    def is_steady(self, instant):
        """No second that is counted for it ends about now."""
        return self.marks is not None and all(is_steady(mark, instant) for mark in self.marks)


def priority_in(request, at):
    """The word of a request at which its job's priority is; beanstalkd passes over blanks before a number."""
    words = request.line().split()
    return int(words[at]) if at < len(words) and words[at].isdigit() else None


def is_steady(mark, instant):
    return mark == instant or phase(mark) != phase(instant)


class State:
    def __init__(self):
        self.timers = Timers()
        self.clients, self.jobs, self.gone, self.pauses = {}, {}, [], {}
        self.nudged, self.leases_began = set(), {}
        # Whether the line of a put may have been read without its body, or with one that was refused.
        self.unfinished = False

    def blocked(self):
        return [client for client in self.clients.values() if client.blocked()]

    def leave(self, number):
        """The client has gone; what it held is ready."""
        del self.clients[number]
        for job in self.jobs.values():
            if job.holder == number:
                job.rest()

    def pass_to(self, instant):
        """Short timers have run out by then."""
        for job in self.jobs.values():
            if job.due is not None and job.due < instant:
                job.rest()

    def sent(self, client, requests, rest, instant):
        """These were sent, or their first piece with others to follow, or the next piece."""
        client.rest = list(rest) if requests else client.rest[1:]
        if requests and not client.blocked():
            client.pending, client.asked = [], []
        client.pending += requests
        client.asked.append(instant)
        client.murky = client.murky or any(request.murky for request in requests)
        self.unfinished = self.unfinished or any(
            request.data.startswith(b"put ") and (rest or request.murky) for request in requests
        )

    def settled(self, client, instant):
        """All that is said now has been said: whoever waits may do so for a time."""
        if client.blocked() and client.pending[0].verb == "reserve-with-timeout":
            self.timers.start(instant, client.pending[0].about[0])

    def nudge(self, instant):
        """Who holds leases that run out at the instant."""
        holders = {job.holder for job in self.jobs.values() if job.state == "reserved" and job.due == instant}
        if holders:
            self.nudged.add(instant)
        return sorted(holders)

    def loose(self):
        return [(number, job) for number, job in self.jobs.items() if job.loose]

    def heard(self, client, reply, instant):
        """A reply came. Returns the request that it answers, if that is known."""
        request = client.pending.pop(0) if client.pending else None
        word, *values = reply.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if word == "INSERTED":
            self.inserted(client, request, int(values[0]), instant)
        elif word == "RESERVED":
            self.reserved(client, int(values[0]), instant)
        elif request is not None and request.verb in TEACHES.get(word, ()):
            getattr(self, word.lower())(client, request, instant, *values)
        if request is not None and not request.murky and word not in MURKY:
            client.murky = any(later.murky for later in client.pending)
        return request

    def inserted(self, client, request, number, instant):
        if request is None or request.verb != "put":
            self.job(number)
            return
        delay, ttr = request.about
        # From when the age of a job counts whose put came in pieces is known of beanstalkd only.
        marks = list(client.asked) if len(client.asked) == 1 else None
        job = self.jobs[number] = Job(client.used, max(ttr, 1), marks, priority_in(request, 1))
        if delay:
            self.start(job, "delayed", delay, instant)

    def reserved(self, client, number, instant):
        job = self.job(number)
        job.holder = client.number
        self.lease(job, instant)

    def lease(self, job, instant):
        self.start(job, "reserved", job.ttr, instant)
        together = self.leases_began.setdefault(instant, [])
        together.append(job)
        if instant in self.nudged or len({other.holder for other in together} - {None}) > 1:
            for other in together:
                other.loose = other.holder is not None and other.due is not None

    def released(self, _client, request, instant):
        number, delay = request.about
        self.job(number).rest()
        self.job(number).priority = priority_in(request, 2)
        if delay:
            self.start(self.job(number), "delayed", delay, instant)

    def touched(self, _client, request, instant):
        job = self.job(request.about[0])
        self.lease(job, instant)

    def buried(self, _client, request, _instant):
        job = self.job(request.about[0])
        job.rest("buried")
        job.priority = priority_in(request, 2)

    def kicked(self, client, request, _instant, count=None):
        if count is None:
            self.job(request.about[0]).rest()
            return
        here = [job for job in self.jobs.values() if job.tube == client.used]
        buried = [job for job in here if job.state == "buried"]
        for job in (buried or [job for job in here if job.state == "delayed"])[: int(count)]:
            job.rest()

    def deleted(self, _client, request, _instant):
        number = request.about[0]
        self.jobs.pop(number, None)
        self.gone.append(number)

    def using(self, client, _request, _instant, tube):
        client.used = tube

    def watching(self, client, request, _instant, _count):
        change = client.watched.add if request.verb == "watch" else client.watched.discard
        change(request.about[0])

    def paused(self, _client, request, instant):
        tube, seconds = request.about
        self.pauses[tube] = instant
        if seconds <= SHORT_MAX:
            self.timers.start(instant, seconds)

    def rank(self, reply):
        """Where the job that is handed out stands among those that are ready: the least is the best. None if nobody knows."""
        words = reply.split(b" ")
        job = self.jobs.get(int(words[1])) if words[0] == b"RESERVED" else None
        return (job.priority, int(words[1])) if job and job.priority is not None else None

    def job(self, number):
        """One of which nobody knows where it came from was put by half, and then by whatever came next."""
        return self.jobs.setdefault(number, Job("default", UNKNOWN_TTR, None))

    def start(self, job, state, seconds, instant):
        job.state, job.due, job.loose = state, None, False
        if job.marks is not None:
            job.marks.append(instant)
        if seconds <= SHORT_MAX:
            job.due = instant + seconds * EACH_SECOND
            self.timers.start(instant, seconds)

    def has_steady_pause(self, tube, instant):
        return tube not in self.pauses or is_steady(self.pauses[tube], instant)
