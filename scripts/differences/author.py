"""Decides what is asked next, from a seed and from what is known."""

import random

import shapes
from state import RESERVES, SHORT_MAX, UNKNOWN_TTR, Request, Step

CLIENTS_MIN, CLIENTS_MAX = 3, 6
JOBS_MANY = 25
# Who starts timers. On a busy machine those of two that run out at nearly the same time may do so in either order. So
# at an instant there is only one: a delay, a pause, a client by its number, or whoever waits for a job.
DELAY, PAUSE, WAITING = "delay", "pause", "waiting"
# Seconds are counted in their replies: when they are asked matters.
COUNTING = ("stats-job", "stats-tube")
# What can be asked while something that is not known yet may be the case: nobody else notices.
QUIET = ("use", "watch", "ignore", "list-tube-used", "list-tubes-watched", "unknown")
WEIGHTS = {"put": 20, "reserve": 8, "reserve-with-timeout": 10, "reserve-job": 6, "delete": 7, "release": 8, "bury": 6}
WEIGHTS |= {"touch": 6, "kick": 4, "kick-job": 4, "use": 5, "watch": 5, "ignore": 3, "peek": 3, "peek-ready": 2}
WEIGHTS |= {"peek-delayed": 2, "peek-buried": 2, "stats": 2, "stats-job": 8, "stats-tube": 5, "list-tubes": 2}
WEIGHTS |= {"list-tube-used": 1, "list-tubes-watched": 2, "pause-tube": 4, "unknown": 1, "trailed": 1, "long": 1}
WEIGHTS |= {"endless": 1}
# Rounds are of one of these kinds, each with weights of its own. In a crowd several clients wait at once, else one at
# most. In an odd one there is also what is known to make the servers differ from then on: puts without their bodies,
# and ends of lines that beanstalkd does not see.
ODD, CROWD, KICKS = "odd", "crowd", "kicks"
KINDS = {ODD: {"stats": 6}, CROWD: {"reserve": 25}, KICKS: {"reserve": 20, "kick": 25, "bury": 12}, "plain": {}}
# What is kicked is of a tube that somebody watches.
KINDS[KICKS] |= {"use": 0, "watch": 0, "ignore": 0}
FILLER = Request("filler", b"f" * 300 + b"\r\n")
# They take nothing.
PLAIN = ("peek-ready", "peek-delayed", "peek-buried", "stats", "list-tubes", "list-tube-used", "list-tubes-watched")
# What makes little sense for a client that holds no lease.
FOR_HOLDERS = ("release", "bury", "touch")
# How often something is not as it should be.
BAD = 0.12
ATTEMPTS = 100


def may_start(timers):
    """May all these be started at one instant?"""
    started = [starter for starter in timers if starter is not None]
    return len(started) < 2 or len(set(started)) == 1 and isinstance(started[0], int)


class Author:
    """What happens in a round of one of the kinds."""

    def __init__(self, seed, state, kind):
        self.draw, self.state, self.crowd, self.odd = random.Random(seed), state, kind == CROWD, kind == ODD
        self.instant, self.timers, self.opened = 0, None, 0
        self.weights = WEIGHTS | KINDS[kind]

    def count(self):
        """How many steps there are at an instant."""
        return self.draw.choice((1, 1, 2, 2, 3, 4, 5))

    def begin(self, instant):
        self.instant, self.timers = instant, None
        self.state.pass_to(instant)

    def next(self):
        """The next step; None if there is none that fits here."""
        clients = self.state.clients
        if self.timers is None and (loose := self.state.loose()):
            return self.tighten(*loose[0])
        if len(clients) < CLIENTS_MIN or len(clients) < CLIENTS_MAX and self.chance(0.03):
            return self.open()
        for _ in range(ATTEMPTS):
            step, timers = self.propose()
            if step is not None and may_start([self.timers, timers]):
                self.timers = timers if self.timers is None else self.timers
                return step
        return None

    def tighten(self, number, job):
        """The holder of a loose lease does something to it, so that it runs out when everybody knows, or never."""
        client = self.state.clients[job.holder]
        verb, *words = self.draw.choice((("touch",), ("touch",), ("delete",), ("bury", "1"), ("release", "1", "1000")))
        about = (number, 1000) if verb == "release" else (number,)
        self.timers = client.number
        request = self.line(verb, str(number), *words, about=about)
        return Step(self.instant, client.number, "send", request.data, (request,))

    def open(self):
        self.opened += 1
        return Step(self.instant, self.opened, "open")

    def look(self):
        """At the end a new client asks for all there is."""
        state, instant = self.state, self.instant
        lines = ["stats", "list-tubes"]
        lines += [f"stats-tube {tube}" for tube in sorted(set(shapes.TUBES)) if state.has_steady_pause(tube, instant)]
        lines += [f"stats-job {number}" for number, job in state.jobs.items() if job.is_steady(instant)]
        step = self.open()
        requests = tuple(self.line(*line.split(" ")) for line in lines)
        return step, Step(instant, step.client, "send", b"".join(request.data for request in requests), requests)

    def hand_out(self):
        """While somebody waits in a tube of its own, two jobs become ready together, of which the first is not the best:
        steps, each for an instant of its own."""
        yield (putter := self.open())
        yield (taker := self.open())
        yield self.say(putter, self.line("use", "kicked"))
        for verb, tube in (("watch", "kicked"), ("ignore", "default")):
            yield self.say(taker, self.line(verb, tube, about=(tube,)))
        for priority in (5, 1):
            data = f"put {priority} 1000 1000 1\r\nk\r\n".encode()
            yield self.say(putter, Request("put", data, (1000, 1000)))
        yield self.say(taker, self.line("reserve"))
        yield self.say(putter, self.line("kick", "2"))

    def begin_put(self):
        """Who has put nothing sends the line of a put, and another asks how many put jobs: steps, each for an instant of its
        own."""
        yield (putter := self.open())
        yield (asker := self.open())
        request = Request("put", b"put 5 1000 1000 1\r\nk\r\n", (1000, 1000))
        line, body = request.data[:-3], request.data[-3:]
        yield Step(self.instant, putter.client, "send", line, (request,), ((body, request.timers),))
        yield self.say(asker, self.line("stats"))
        yield Step(self.instant, putter.client, "send", body)

    def say(self, client, request):
        return Step(self.instant, client.client, "send", request.data, (request,))

    def propose(self):
        """A step, and who may start timers by it."""
        client = self.choose_client()
        if client is None:
            return None, None
        if client.half_closed or client.blocked() and self.chance(0.5):
            return self.end(client)
        if client.blocked():
            return self.send(client, [self.request(client, QUIET)])
        if client.rest:
            data, timers = client.rest[0]
            return Step(self.instant, client.number, "send", data), timers
        roll = self.draw.random()
        if roll < 0.03:
            return self.end(client)
        if client.murky:
            return self.send(client, [self.request(client) if self.chance(0.5) else FILLER])
        if roll < 0.09:
            return self.send(client, self.burst(client))
        if roll < 0.15:
            return self.send_pieces(client)
        return self.send(client, [self.request(client)])

    def choose_client(self):
        loose = {job.holder for _, job in self.state.loose()}
        clients = [client for client in self.state.clients.values() if client.number not in loose]
        able = [client for client in clients if not client.blocked()]
        return self.draw.choice(able if able and self.chance(0.92) else clients or [None])

    def send(self, client, requests):
        timers = [request.timers for request in requests]
        murky = any(request.murky for request in requests)
        leases = self.must_speak(client) or any("reserve" in request.verb for request in requests)
        starter = next((starter for starter in timers if starter is not None), None)
        if not may_start(timers) or murky and leases or client.murky and starter is not None:
            return None, None
        data = b"".join(request.data for request in requests)
        return Step(self.instant, client.number, "send", data, tuple(requests)), starter

    def send_pieces(self, client):
        """Cut anywhere. The first piece is sent; the rest waits its turn."""
        request = self.request(client)
        long_enough = 3 < len(request.data) < 2 * shapes.LINE_MAX
        uses_up = request.verb == "put" and not self.odd
        if not long_enough or uses_up or request.verb in COUNTING or self.must_speak(client):
            return None, None
        cuts = sorted(self.draw.sample(range(1, len(request.data)), self.draw.choice((1, 1, 2))))
        pieces = [request.data[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
        rest = tuple((piece, request.timers) for piece in pieces[1:])
        return Step(self.instant, client.number, "send", pieces[0], (request,), rest), request.timers

    def must_speak(self, client):
        """It will have to, clearly, when its lease runs out."""
        return any(job.holder == client.number and job.due is not None for job in self.state.jobs.values())

    def burst(self, client):
        requests = []
        for _ in range(self.draw.randint(2, 7)):
            waits = any(request.verb in RESERVES for request in requests)
            requests.append(self.request(client, QUIET if waits else None))
            if requests[-1].murky:
                break
        return requests

    def end(self, client):
        """Who goes without a word leaves only one request behind: nobody knows whether more of them would be read."""
        act, timers = self.draw.choice(("close", "reset", "half-close", "quit")), self.handing()
        silent = act in ("close", "reset")
        if silent and len(client.pending) > 1 or client.half_closed and not silent:
            return None, None
        if act == "quit":
            return self.send(client, [Request("quit", b"quit\r\n", (), timers)])
        return Step(self.instant, client.number, act), timers

    def request(self, client, verbs=None):
        verbs = verbs or tuple(WEIGHTS)
        verb = self.draw.choices(verbs, [self.weights[verb] for verb in verbs])[0]
        if verb in FOR_HOLDERS and not any(map(self.held_by(client), self.state.jobs.values())) and self.chance(0.8):
            verb = "reserve-job"
        return self.line(verb) if verb in PLAIN else getattr(self, verb.replace("-", "_"))(client)

    # --- what is drawn

    def chance(self, share):
        return self.draw.random() < share

    def number(self, good, bad=shapes.BAD_NUMBERS, share=BAD / 3):
        """As text, and what it is, or could be at most in seconds. Such a share of them is bad."""
        text = str(self.draw.choice(bad if self.chance(share) else good))
        return text, int(text) if text.strip(" ").isdigit() else SHORT_MAX

    def tube(self):
        if self.chance(BAD):
            return self.draw.choice((*shapes.STRANGE_TUBES, *shapes.BAD_TUBES))
        return self.draw.choice(shapes.TUBES)

    def id(self, wanted):
        """As text, and what it is. Mostly of a job that is wanted; else of one that was, or will be, or never."""
        jobs = self.state.jobs
        fit = [number for number, job in jobs.items() if wanted(job)]
        roll = self.draw.random()
        if fit and roll < 0.75:
            number = self.draw.choice(fit)
        elif jobs and roll < 0.88:
            number = self.draw.choice(list(jobs))
        elif self.state.gone and roll < 0.93:
            number = self.draw.choice(self.state.gone)
        elif roll < 0.96:
            # To beanstalkd the next numbers may be those of jobs whose bodies have not come.
            number = max([*jobs, *self.state.gone, 0]) + 1000
        else:
            return self.draw.choice(shapes.STRANGE_IDS), None
        return self.draw.choice(shapes.BENT_IDS).format(number) if self.chance(BAD / 3) else str(number), number

    def in_some_state(self):
        """Equally often in each, however many there are."""
        state = self.draw.choice(sorted({job.state for job in self.state.jobs.values()}) or ["ready"])
        return lambda job: job.state == state

    def held_by(self, client):
        return lambda job: job.holder == client.number

    def handing(self):
        """What makes a job ready gives it to whoever waits."""
        return WAITING if self.state.blocked() else None

    # --- a request for each verb, and others

    def put(self, client):
        if len(self.state.jobs) > JOBS_MANY:
            return self.delete(client)
        if self.chance(BAD):
            return self.bad_put()
        priority, _ = self.number(shapes.PRIORITIES)
        delay, seconds = self.number(shapes.DELAYS)
        ttr, ttr_seconds = self.number(shapes.TTRS)
        murky = bool({priority, delay, ttr} & set(shapes.BAD_NUMBERS))
        bodies = shapes.PLAIN_BODIES if murky and not self.odd else shapes.BODIES
        body = b"z" * self.draw.choice(shapes.LARGE) if self.chance(0.02) else self.draw.choice(bodies)
        data = f"put {priority} {delay} {ttr} {len(body)}\r\n".encode("latin-1") + body + b"\r\n"
        return Request("put", data, (seconds, ttr_seconds), DELAY if seconds else self.handing(), murky)

    def bad_put(self):
        """Without a delay and with a long lease, since nobody knows when its body is complete, or that it is."""
        body, end = self.draw.choice(shapes.BODIES if self.odd else shapes.PLAIN_BODIES), b"\r\n"
        words = ["put", str(self.draw.choice(shapes.PRIORITIES)), "0", str(UNKNOWN_TTR), str(len(body))]
        unfinished = ("end", "short", "long") if self.odd else ()
        match self.draw.choice(("size", "words", "trail", "large and trail", *unfinished)):
            case "size":
                words[4] = self.draw.choice(shapes.BAD_NUMBERS if self.odd else shapes.NO_NUMBERS)
            case "words":
                words = words[: self.draw.randint(2, 4)]
            case "end":
                end = self.draw.choice((b"\n\r", b"xx", b"\r\r"))
            case "short":
                words[4] = str(len(body) + self.draw.randint(1, 40))
            case "long":
                body += b"w" * self.draw.randint(1, 5)
            case "trail":
                words.append(self.draw.choice(("", "1", "x")))
            case "large and trail":
                body = b"v" * shapes.TOO_LARGE
                words[4:] = [str(len(body)), "1"]
        data = " ".join(words).encode("latin-1") + b"\r\n" + body + end
        return Request("put", data, (0, UNKNOWN_TTR), self.handing(), murky=True)

    def may_wait(self):
        """Not everybody waits: somebody must be there to end it."""
        blocked = self.state.blocked()
        return len(self.state.clients) - len(blocked) > 2 if self.crowd else not blocked

    def reserve(self, client):
        if not self.may_wait():
            return self.reserve_job(client)
        return Request("reserve", b"reserve\r\n", (), client.number)

    def reserve_with_timeout(self, client):
        timeout, seconds = self.number(shapes.TIMEOUTS, shapes.BAD_TIMEOUTS, BAD) if self.may_wait() else ("0", 0)
        return self.line("reserve-with-timeout", timeout, about=(seconds,), timers=client.number)

    def reserve_job(self, client):
        text, number = self.id(lambda job: job.state != "reserved")
        return self.line("reserve-job", text, about=(number,), timers=client.number)

    def delete(self, client):
        text, number = self.id(self.held_by(client) if self.chance(0.5) else self.in_some_state())
        return self.line("delete", text, about=(number,))

    def release(self, client):
        text, number = self.id(self.held_by(client))
        priority, _ = self.number(shapes.PRIORITIES)
        delay, seconds = self.number(shapes.DELAYS)
        timers = DELAY if seconds else self.handing()
        return self.line("release", text, priority, delay, about=(number, seconds), timers=timers)

    def bury(self, client):
        text, number = self.id(self.held_by(client))
        return self.line("bury", text, self.number(shapes.PRIORITIES)[0], about=(number,))

    def touch(self, client):
        text, number = self.id(self.held_by(client))
        return self.line("touch", text, about=(number,), timers=client.number)

    def kick(self, _client):
        return self.line("kick", self.number(shapes.KICKS, shapes.BAD_KICKS, BAD)[0], timers=self.handing())

    def kick_job(self, _client):
        text, number = self.id(lambda job: job.state in ("delayed", "buried"))
        return self.line("kick-job", text, about=(number,), timers=self.handing())

    def use(self, _client):
        return self.line("use", self.tube())

    def watch(self, _client):
        tube = self.tube()
        return self.line("watch", tube, about=(tube,))

    def ignore(self, client):
        tube = self.draw.choice(sorted(client.watched) or shapes.TUBES) if self.chance(0.7) else self.tube()
        return self.line("ignore", tube, about=(tube,))

    def peek(self, _client):
        text, _ = self.id(self.in_some_state())
        return self.line("peek", text)

    def stats_job(self, client):
        wanted = self.in_some_state()
        text, number = self.id(lambda job: wanted(job) and job.is_steady(self.instant))
        job = self.state.jobs.get(number)
        if job is not None and not job.is_steady(self.instant):
            return self.peek(client)
        return self.line("stats-job", text, about=(number,))

    def stats_tube(self, _client):
        tube = self.tube()
        if not self.state.has_steady_pause(tube, self.instant):
            return self.line("list-tubes")
        return self.line("stats-tube", tube)

    def pause_tube(self, _client):
        tube = self.tube()
        pause, seconds = self.number(shapes.PAUSES)
        return self.line("pause-tube", tube, pause, about=(tube.strip(" "), seconds), timers=PAUSE)

    def unknown(self, _client):
        return Request("unknown", self.draw.choice(shapes.UNKNOWN).encode("latin-1") + b"\r\n")

    def trailed(self, client):
        word = self.draw.choice(shapes.TRAILED) + self.draw.choice(shapes.TRAILS)
        if word.startswith("reserve-"):
            return self.unknown(client)
        return Request("trailed", word.encode("latin-1") + b"\r\n")

    def long(self, _client):
        """A line with an end that is about as long as can be."""
        begin = self.draw.choice(("", "use ", "stats-tube ", "delete ", f"put 0 0 {UNKNOWN_TTR} ", "kick "))
        fill = self.draw.choice("l0 " if self.odd or not begin.startswith("put") else "l ")
        line = begin.ljust(self.draw.choice(shapes.LINES if self.odd else shapes.PLAIN_LINES) - 2, fill)
        return Request("long", f"{line}\r\n".encode(), murky=True)

    def endless(self, _client):
        """What does not end a line, and the beginning of one."""
        return Request("endless", self.draw.choice(shapes.ENDLESS if self.odd else shapes.PLAIN_ENDLESS), murky=True)

    def line(self, verb, *words, about=(), timers=None):
        data = " ".join((verb, *words)).encode("latin-1") + b"\r\n"
        return Request(verb, data, about, timers, murky=len(data) > shapes.LINE_MAX)
