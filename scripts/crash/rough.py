"""A load of clients that also vanish in every way, on a server that may run out of room and may drop nobody."""

import socket
import threading
import time

import load
from clients import PROTOCOLS, Gone, Refused, Unexpected, Unread

# How often a client vanishes instead of asking for something; how many answers it leaves unread; how long it stalls.
VANISH = 0.005
UNREAD_MAX = {"reset": 8, "half-closed": 1, "stalled": 60}
STALL_SECONDS = 0.5
# With more jobs than this, fewer are put.
BACKLOG = 3000

HEARTBEAT_SECONDS = 1.0
HEARTBEAT_LISTENER = f"masenko://127.0.0.1:0?heartbeat={HEARTBEAT_SECONDS:.0f}s"
HEARTBEAT_PLACE = f"masenko?heartbeat={HEARTBEAT_SECONDS:.0f}s"
PING_SECONDS = HEARTBEAT_SECONDS / 4
HEARTS = 3


class Rough(load.Worker):
    """A client that vanishes now and then, and comes back. `ending` is set before the server may go. If it has a
    reserve, as always unless system calls fail, finishing what is there must be possible on a full disk."""

    ending, has_reserve = None, True

    def run(self):
        try:
            while self.one_connection():
                pass
        except Unexpected as error:
            self.wrong("unexpected", str(error))

    def wrong(self, what, text):
        with self.ledger.lock:
            self.ledger.say_wrong(what, f"{self.name}: {text}")

    def one_connection(self):
        """From its start to its end; whether another may follow."""
        self.holder = object()
        try:
            self.client = PROTOCOLS[self.protocol](self.place)
            while self.draw.random() >= VANISH:
                self.step()
            self.vanish(self.draw.choice(list(UNREAD_MAX)))
            return True
        except Gone as gone:
            if not self.ending.is_set():
                self.wrong("dropped", f"its connection ended: {gone.__cause__}")
            return False
        finally:
            self.ledger.let_go(self.holder)
            if self.client is not None:
                self.client.close()
            self.client = None

    # --- what a full disk refuses

    def step(self):
        self.made = []
        try:
            if self.ledger.backlog() > BACKLOG and self.draw.random() < 0.5:
                self.end_left() if self.draw.random() < 0.3 else self.work()
            else:
                super().step()
        except Refused:
            if not self.made:
                self.ledger.counts["leases refused for the disk"] += 1
            for job in self.made:
                self.ledger.refuse(job)

    made = ()

    def new_job(self, **more):
        job = super().new_job(**more)
        self.made = [*self.made, job]
        return job

    def end(self, job, reference):
        try:
            try:
                super().end(job, reference)
            except Refused:
                if job.result is None:
                    raise
                if self.client.last:
                    return
                # A result needs room; without one, what is there can be finished.
                self.ledger.ending(job, "completed")
                self.client.end(job.queue, reference)
                self.ledger.acknowledged_end(job, self.protocol)
        except Refused as refused:
            if self.has_reserve:
                self.wrong("finishing refused", f"{job.key} cannot be ended: {refused}")
            self.ledger.count("ends refused for the disk")

    # --- the ways to vanish

    def vanish(self, how):
        self.ledger.count_by(f"clients {how}", self.protocol)
        self.ledger.let_go(self.holder)
        if how == "half-closed":
            self.client.last = True
            # Its last request is answered all the same, and then the server closes too.
            self.put_or_end()
            try:
                self.client.read(1)
                self.wrong("unexpected", "more was said than was asked for")
            except Gone as gone:
                if gone.__cause__ is not None:
                    raise
            return
        self.client.deaf = True
        for _ in range(self.draw.randrange(1, UNREAD_MAX[how] + 1)):
            try:
                self.put_or_end() if self.draw.random() < 0.9 else self.client.take(self.draw.choice(load.QUEUES))
            except Unread:
                pass
        if how == "stalled":
            self.ending.wait(self.draw.random() * STALL_SECONDS)
        self.client.reset()

    def put_or_end(self):
        self.made = []
        left = self.ledger.take_left(self.protocol, self.draw) if self.draw.random() < 0.3 else None
        try:
            self.end(*left) if left is not None else self.put()
        except Refused:
            for job in self.made:
                self.ledger.refuse(job)


class Heart:
    """A masenko client that does nothing but keep its heartbeat, answered or not. It must not be dropped."""

    def __init__(self, name, place, ledger, ending):
        self.name, self.place, self.ledger, self.ending = name, place, ledger, ending

    def run(self):
        try:
            while not self.ending.is_set():
                with socket.create_connection(self.place, 30) as connection:
                    self.keep(connection)
        except OSError as error:
            self.dropped(str(error))

    def keep(self, connection):
        """Sends one PING after the other, without waiting for answers, until it is dropped or the server may go."""
        connection.setblocking(False)
        heard, sent, gap_max = b"", time.monotonic(), 0.0
        while not self.ending.wait(PING_SECONDS):
            connection.sendall(b"PING\n")
            now = time.monotonic()
            sent, gap_max = now, max(gap_max, now - sent)
            try:
                part = connection.recv(1 << 16)
            except BlockingIOError:
                continue
            heard += part
            pongs = heard.count(b"PONG {}\n")
            self.ledger.count("heartbeats", pongs)
            heard = heard.replace(b"PONG {}\n", b"")
            if part and b"PONG {}\n".startswith(heard):
                continue
            if gap_max > HEARTBEAT_SECONDS / 2:
                # This machine was too busy to keep it.
                self.ledger.count("heartbeats not kept")
                return
            return self.dropped(repr(heard))

    def dropped(self, why):
        if not self.ending.is_set():
            with self.ledger.lock:
                self.ledger.say_wrong("dropped", f"{self.name}, although it kept its heartbeat: {why}")


def start(life, places, ledger, draw_for, ending, has_reserve):
    """Starts all clients of one of the server's lives; their threads. They end when the server does."""
    def rough(*arguments):
        worker = Rough(*arguments)
        worker.ending, worker.has_reserve = ending, has_reserve
        return worker

    threads = load.start(life, places, ledger, draw_for, rough)
    for index in range(HEARTS):
        heart = Heart(f"{life}-heart-{index}", places[HEARTBEAT_PLACE], ledger, ending)
        threads.append(threading.Thread(target=heart.run, name=heart.name, daemon=True))
        threads[-1].start()
    return threads
