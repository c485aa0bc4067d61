"""Plays a transcript against a server, and says where what was heard is not what was expected."""

import random

from server import Client
from transcript import Wrong, in_line

# At each end of a text, so many bytes are sent one by one; what lies between is all alike.
SINGLE_BYTES = 4 << 10
MIDDLE_BYTES = 64 << 10
SHOWN_MAX = 2_000
# Nothing is done in no time: a pause of 0 seconds, which lasts a nanosecond, is over when the next command comes. And
# what falls due when a wait ends is done only after that moment.
MOMENT_MICROSECONDS = 1


class Cut:
    """In which pieces a text is sent: `whole`, `bytes`, or `random` as the seed says."""

    def __init__(self, kind, seed):
        self.kind, self.draw = kind, random.Random(seed)

    def pieces(self, data):
        at = 0
        while at < len(data):
            size = self.size(at, len(data) - at)
            yield data[at : at + size]
            at += size

    def size(self, sent, left):
        if self.kind == "whole":
            return left
        if self.kind == "random":
            return self.draw.randint(1, 1 << self.draw.randrange(17))
        if sent < SINGLE_BYTES or left <= SINGLE_BYTES:
            return 1
        return min(left - SINGLE_BYTES, MIDDLE_BYTES)


class Player:
    """The clients of one transcript, by name. Those who have gone are known, so that nobody takes them for new ones."""

    def __init__(self, server, cut):
        self.server, self.cut = server, cut
        self.clients, self.gone = {}, set()

    def play(self, steps):
        try:
            for number, step in steps:
                with in_line(number):
                    self.play_step(step)
            with in_line(number):
                self.expect_quiet("the end")
        finally:
            self.hang_up()

    def play_step(self, step):
        match step:
            case ["open", name]:
                self.open(name)
            case ["send", name, data]:
                self.send(name, data)
            case ["expect", name, pattern, text]:
                self.expect(name, pattern, text)
            case ["closed", name]:
                self.expect_closed(name)
            case ["ends", name]:
                self.client(name).end()
            case ["leaves", name]:
                self.leave(name, "it left")
            case ["wait", milliseconds]:
                self.expect_quiet("this wait")
                self.server.pass_time(milliseconds * 1_000 + MOMENT_MICROSECONDS)
            case ["restart" | "crash" as event]:
                self.start_again(event)
            case ["drain"]:
                self.server.drain()

    def client(self, name):
        """Opened at its first use."""
        if name in self.gone:
            raise Wrong(f"{name} is not connected")
        if name not in self.clients:
            self.open(name)
        return self.clients[name]

    def open(self, name):
        if name in self.clients:
            raise Wrong(f"{name} is connected already")
        self.gone.discard(name)
        self.clients[name] = Client(self.server)

    def send(self, name, data):
        client = self.client(name)
        client.listen()
        if client.closed or client.ended:
            who = "it" if client.ended else "the server"
            raise Wrong(f"{name} cannot send: {who} has closed the connection")
        for piece in self.cut.pieces(data):
            client.send(piece)
        self.server.pass_time(MOMENT_MICROSECONDS)

    def expect(self, name, pattern, text):
        client = self.client(name)
        client.listen()
        found = pattern.match(client.heard)
        if not found:
            raise Wrong(f"{name} expected\n    {text}\n  and heard\n    {shown(client.heard)}")
        client.heard = client.heard[found.end() :]

    def expect_closed(self, name):
        client = self.client(name)
        client.listen()
        if not client.closed:
            raise Wrong(f"{name} should be closed, but is connected still, and heard\n    {shown(client.heard)}")
        self.leave(name, "its end")

    def leave(self, name, before):
        client = self.client(name)
        expect_nothing(name, client, before)
        del self.clients[name]
        self.gone.add(name)
        client.leave()

    def start_again(self, event):
        self.expect_quiet(f"this {event}")
        self.server.kill()
        self.hang_up()
        self.gone.clear()
        self.server.start()

    def expect_quiet(self, before):
        """Nobody may have heard what was not expected, or been cut off without a word about it."""
        for name, client in self.clients.items():
            expect_nothing(name, client, before)
            if client.closed and not client.ended:
                raise Wrong(f"{name} was closed before {before}, and nobody expected that")

    def hang_up(self):
        for client in self.clients.values():
            client.socket.close()
        self.clients.clear()


def expect_nothing(name, client, before):
    client.listen()
    if client.heard:
        raise Wrong(f"{name} heard before {before} what nobody expected:\n    {shown(client.heard)}")


def shown(heard):
    """Bytes as a transcript writes them, and not for pages."""
    text = heard.decode("latin-1").encode("unicode_escape").decode() or "(nothing)"
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}… ({len(heard)} bytes in all)"
