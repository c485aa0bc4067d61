"""A round's talk with both servers: each step is done at both; when they have said all they will, it is compared."""

import asyncio
from collections import Counter
from itertools import zip_longest

from instants import ASKED_BY, HEARD_BY, NUDGED_AT, PITCH, Clock, Void
from known import Asked
from state import Client, Request, State, Step
from wire import Wire

# A request that nobody knows or counts: whoever has answered it has read what was sent to him before.
BARRIER = b"barrier\r\n"
NUDGE = Request("list-tube-used", b"list-tube-used\r\n")
# So often it must be answered in silence until we believe that nothing more comes; once, if all that was expected came.
SILENCES = 3
# beanstalkd may take a turn for so many bytes of a request.
BYTES_EACH_SILENCE = 1000
# How long we wait for a server that has not said what the other one did.
PATIENCE_SECONDS = 2
CONNECT_SECONDS = BARRIER_SECONDS = 30


class Differs(Exception):
    """The servers do not say the same."""

    def __init__(self, client, request, replies):
        super().__init__(f"the servers differ in what they say to client {client}")
        self.request, self.replies = request, replies
        self.sign = (request.verb if request else "", *map(first_word, replies))


class Gone(Exception):
    """A server has ended by itself, or says nothing at all."""


class Ended(Exception):
    """From here on nothing can be compared: the servers differ as is known, or nobody knows what must come first."""


class Conversation:
    """`lines` is all that was said, with what beanstalkd said to it; `script` the steps that were done."""

    def __init__(self, places, known):
        self.places, self.known, self.state = places, known, State()
        self.clock, self.wires, self.barriers = None, {}, []
        # What was done last, each in a word or as its first line, and what each server was heard to say to it so far.
        self.after, self.said = [], ([], [])
        # Who waited for a job when it was done.
        self.waiting = set()
        self.lines, self.script, self.heard = [], [], Counter()
        # How many requests had the same reply, or one that is known to differ; and which entries say so.
        self.compared, self.differed = 0, Counter()

    async def begin(self, delay):
        self.clock = Clock()
        self.barriers = [await self.connect(place, CONNECT_SECONDS) for place in self.places]
        await self.pass_barrier()
        self.clock.begin(delay)

    async def connect(self, place, seconds=0):
        """For so long it is tried: the server may not be ready."""
        deadline = self.clock.loop.time() + seconds
        while True:
            try:
                _, wire = await self.clock.loop.create_connection(lambda: Wire(self.clock), *place)
                return wire
            except OSError:
                if self.clock.loop.time() > deadline:
                    raise Void from None
                await asyncio.sleep(0.05)

    async def do(self, step):
        if step.act != "open" and step.client not in self.state.clients:
            return
        self.script.append(step)
        self.note_waiting()
        if step.act != "send":
            self.lines.append((step.instant, step.client, ">", step.act))
        if step.act == "open":
            self.wires[step.client] = [await self.connect(place) for place in self.places]
            self.state.clients[step.client] = Client(step.client)
            await self.settle(step)
            return
        client = self.state.clients[step.client]
        if step.act == "send":
            self.send(step)
        else:
            client.half_closed = True
            for wire in self.wires[step.client]:
                getattr(wire, step.act.replace("-", "_"))()
        if step.act in ("close", "reset"):
            self.state.leave(step.client)
            del self.wires[step.client]
        await self.settle(step)
        if step.client in self.state.clients:
            self.state.settled(client, step.instant)

    def send(self, step):
        self.lines.append((step.instant, step.client, ">", step.data))
        self.state.sent(self.state.clients[step.client], step.requests, step.rest, step.instant)
        for wire in self.wires[step.client]:
            wire.transport.write(step.data)

    async def settle(self, step, seconds=ASKED_BY):
        """Waits until both have said all that they say now, and compares it."""
        silent, silences = 0, SILENCES + len(step.data) // BYTES_EACH_SILENCE
        wires = self.wires.get(step.client, ())
        while silent < silences:
            before = self.clock.heard
            await self.pass_barrier()
            # Each of the two barriers was heard.
            silent = silent + 1 if self.clock.heard == before + 2 else 0
            if step.requests and not step.rest and all(len(wire.replies) >= len(step.requests) for wire in wires):
                silences = 1
        # If one of them says nothing, it is waited for now.
        self.clock.check(step.instant, seconds)
        await self.compare(step)
        self.clock.check(step.instant, seconds)

    async def advance(self, last, instant):
        """Waits for the instant, and compares what comes until then. Holders of leases that run out are nudged."""
        for passed in range(last + 1, instant):
            if holders := self.state.nudge(passed):
                if any(job.due == passed for _, job in self.state.loose()):
                    raise Ended
                await self.nudge(passed, holders)
        await self.clock.wait_for(instant)
        self.clock.check(instant)
        self.note_waiting()
        await self.compare(Step(instant, 0, "listen"))
        self.clock.check(instant)

    async def nudge(self, instant, holders):
        await self.clock.wait_for(instant, NUDGED_AT)
        for holder in holders:
            step = Step(instant, holder, "send", NUDGE.data, (NUDGE,))
            self.note_waiting()
            self.send(step)
            await self.settle(step, HEARD_BY)

    def note_waiting(self):
        self.waiting = {client.number for client in self.state.blocked()}

    async def pass_barrier(self):
        try:
            async with asyncio.timeout(BARRIER_SECONDS):
                await asyncio.gather(*(wire.ask(BARRIER) for wire in self.barriers))
        except TimeoutError:
            raise Gone("a server says nothing") from None
        if any(wire.ended for wire in self.barriers):
            raise Gone("a server has ended by itself")
        # What came with it is read now.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def doing(self, step):
        """What a step does. A later piece is of the request that was begun."""
        client = self.state.clients.get(step.client)
        begun = client.pending[-1:] if client and step.act == "send" else []
        requests = step.requests or begun
        return [request.line() for request in requests] or [step.act]

    async def compare(self, step):
        self.after, self.said = self.doing(step), ([], [])
        # What a client put, or held when it left, may have been given to another.
        order = sorted(self.wires.items(), key=lambda item: (item[0] != step.client, not item[1][0].ended))
        for number, wires in order:
            patience = PATIENCE_SECONDS
            while not in_step(*wires) and patience > 0:
                patience -= PITCH
                await asyncio.sleep(PITCH)
            ended, (instant, other) = [wire.ended for wire in wires], [wire.instant for wire in wires]
            if in_step(*wires) and instant != other:
                raise Void
            taken = [wire.take() for wire in wires]
            for replies in zip_longest(*taken, fillvalue=b""):
                self.hear(number, replies, instant)
            for said, replies in zip(self.said, taken, strict=True):
                said += replies
            if ended[0] != ended[1]:
                self.differ(number, [b"(the end)" if end else b"" for end in ended])
            if ended[0]:
                self.end(number, instant)

    def hear(self, number, replies, instant):
        client = self.state.clients[number]
        if replies[0] != replies[1]:
            self.differ(number, replies)
        asked = client.asked[0] if client.asked else instant
        self.lines.append((instant, number, "<", replies[0]))
        request = self.state.heard(client, replies[0], instant)
        self.compared += request is not None and request is not NUDGE
        later = ", later" if asked < instant else ""
        self.heard[request.verb if request else "(none)", first_word(replies[0]) + later] += 1

    def differ(self, number, replies):
        """Unless it is known that they do."""
        if self.clock.late:
            raise Void
        client = self.state.clients[number]
        request = client.pending[0] if client.pending else None
        texts = [reply.decode("latin-1").replace("\r\n", "\n") for reply in replies]
        cases = client.murky, self.state.unfinished, self.is_elsewhere(number, replies)
        cases += number in self.waiting, self.is_better(number, replies)
        found = self.known.explain(Asked(request.line() if request else "", self.after, *cases), *texts)
        if not found:
            raise Differs(number, request, replies)
        self.differed.update(entry.name for entry in found)
        if any(entry.ends for entry in found):
            raise Ended

    def is_elsewhere(self, number, replies):
        """Has each server said to another client what the other one says to this?"""
        return all(not reply or self.is_said(number, reply, 1 - server) for server, reply in enumerate(replies))

    def is_said(self, number, reply, server):
        """Has the server said this to another client than that?"""
        others = (wires[server].replies for client, wires in self.wires.items() if client != number)
        return reply in self.said[server] or any(reply in said for said in others)

    def is_better(self, number, replies):
        """Is the other server's job better than beanstalkd's, or beanstalkd's no longer to be had there?"""
        ours, theirs = (self.state.rank(reply) for reply in replies)
        return None not in (ours, theirs) and (theirs < ours or self.is_said(number, replies[0], 1))

    def end(self, number, instant):
        """Both servers have ended the client's connection."""
        pending = self.state.clients[number].pending
        self.heard[pending[0].verb if pending else "(none)", "(the end)"] += 1
        self.lines.append((instant, number, "<", "(the end)"))
        for wire in self.wires.pop(number):
            wire.close()
        self.state.leave(number)

    def close(self):
        for wire in [*self.barriers, *(wire for pair in self.wires.values() for wire in pair)]:
            wire.close()


def in_step(first, second):
    """Have both said as much, and nothing by half?"""
    equal = len(first.replies) == len(second.replies) and first.ended == second.ended
    return equal and not first.unread and not second.unread


def first_word(reply):
    return reply.split(b" ")[0].split(b"\r")[0].decode("latin-1")[:20]
