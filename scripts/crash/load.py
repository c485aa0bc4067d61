"""The load: clients of all protocols that put, take, end and give back jobs until their connection ends."""

import json
import threading
import time
import uuid
from datetime import datetime, timezone

from clients import PROTOCOLS, Gone, Unexpected
from ledger import Job
from tubes import Tubes

QUEUES = ["a", "b", "c"]
CLIENTS_PER_PROTOCOL = 3
# What a beanstalkd client has to do with its own tube, and of what it takes elsewhere, puts aside.
TUBES_SHARE, ASIDE_SHARE = 0.4, 0.3


class Worker:
    """One client with a mind of its own."""

    def __init__(self, name, protocol, place, ledger, draw):
        self.name, self.protocol, self.place, self.ledger, self.draw = name, protocol, place, ledger, draw
        self.count = 0
        self.client = None
        # What tells its connection from others, if it is to be checked that what it holds is given to no other.
        self.holder = None
        self.tubes = Tubes(self, QUEUES) if protocol == "beanstalkd" else None

    def run(self):
        try:
            self.client = PROTOCOLS[self.protocol](self.place)
            while True:
                self.step()
        except Gone:
            pass
        except Unexpected as error:
            with self.ledger.lock:
                self.ledger.say_wrong("unexpected", str(error))
        finally:
            if self.client is not None:
                self.client.close()

    def step(self):
        if self.tubes is not None and self.draw.random() < TUBES_SHARE:
            return self.tubes.step()
        chance = self.draw.random()
        if chance < 0.40:
            self.put()
        elif chance < 0.45:
            self.put_dated()
        elif chance < 0.50 and self.protocol == "masenko":
            self.put_blocked()
        elif chance < 0.55:
            self.end_left()
        else:
            self.work()

    def new_job(self, **more):
        self.count += 1
        key = f"{self.name}-{self.count}"
        # Most are small; now and then a segment is full with a few.
        size = self.draw.choice([10, 100, 1000]) if self.draw.random() < 0.99 else 16_000
        body = json.dumps({"k": key, "pad": "x" * size}, separators=(",", ":")).encode()
        own = str(uuid.UUID(int=self.draw.getrandbits(128), version=4)) if self.protocol == "workq" else None
        job = Job(key, self.draw.choice(QUEUES), body, self.protocol, uuid=own, **more)
        self.ledger.asked(job)
        return job

    def put(self):
        job = self.new_job()
        if self.protocol == "workq":
            self.ledger.acknowledged(job, self.client.put(job.queue, job.body, job.uuid))
        else:
            self.ledger.acknowledged(job, self.client.put(job.queue, job.body))

    def put_dated(self):
        if not hasattr(self.client, "put_dated"):
            return
        # A few seconds, so that some come due in a later life, or long.
        date = int(time.time()) + (self.draw.randrange(1, 5) if self.draw.random() < 0.8 else 3_000)
        text = datetime.fromtimestamp(date, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        job = self.new_job(not_before=date)
        own = (job.uuid,) if self.protocol == "workq" else ()
        self.ledger.acknowledged(job, self.client.put_dated(job.queue, job.body, text, *own))

    def put_blocked(self):
        first = self.new_job()
        second = self.new_job(blocker=first.key)
        second.queue = first.queue
        numbers = self.client.put_blocked(first.queue, first.body, second.body)
        for job, number in zip((first, second), numbers):
            self.ledger.acknowledged(job, number)

    def work(self):
        taken = self.client.take(self.draw.choice(QUEUES))
        if taken is None:
            return
        job = self.given(taken)
        if job is None or self.tubes is not None and self.tubes.put_aside(job, ASIDE_SHARE):
            return
        chance = self.draw.random()
        if chance < 0.1 and hasattr(self.client, "give_back"):
            self.ledger.giving_back(job)
            self.client.give_back(job.queue, taken.reference)
        elif chance < 0.2:
            if self.client.durable_leases:
                self.ledger.leave(job, self.protocol, taken.reference)
        else:
            self.end(job, taken.reference)

    def given(self, taken):
        """The job that it was given, if it could be."""
        return self.ledger.taken(taken, self.protocol, self.client.durable_leases, self.holder)

    def end_left(self):
        left = self.ledger.take_left(self.protocol, self.draw)
        if left is not None:
            self.end(*left)

    def end(self, job, reference):
        if self.protocol == "workq" and self.draw.random() < 0.3:
            self.ledger.ending(job, "removed")
            self.client.remove(reference)
        elif self.protocol == "workq" and job.uuid is not None:
            result = b"result of " + job.key.encode()
            self.ledger.ending(job, "completed", result)
            self.client.end(job.queue, reference, result)
        else:
            self.ledger.ending(job, self.client.ENDS)
            self.client.end(job.queue, reference)
        self.ledger.acknowledged_end(job, self.protocol)


def start(life, places, ledger, draw_for, kind=Worker):
    """Starts the clients of one of the server's lives; their threads."""
    threads = []
    for protocol in PROTOCOLS:
        for index in range(CLIENTS_PER_PROTOCOL):
            name = f"{life}-{protocol}-{index}"
            worker = kind(name, protocol, places[protocol], ledger, draw_for(name))
            thread = threading.Thread(target=worker.run, name=name, daemon=True)
            thread.start()
            threads.append(thread)
    return threads
