"""The protocols, as their clients speak them. Python's standard library only.

Every client can put a job, take one, end it and give it back. A job that was taken is a Taken; what the server answers
to anything else than expected raises Unexpected.
"""

import json
import math
import socket
import struct
import time
from datetime import datetime

PATIENCE = 30  # seconds that any answer may take


class Unexpected(Exception):
    """An answer that the protocol does not have here."""


class Refused(Unexpected):
    """The protocol's own words for: the disk is full."""


class Gone(Exception):
    """The connection ended."""


class Unread(Exception):
    """The answer is not read."""


class Taken:
    """A job that was taken: what it is called by its taker, and its body."""

    def __init__(self, reference, number, uuid, body):
        self.reference, self.number, self.uuid, self.body = reference, number, uuid, body


TAG = 0x6A6F6279617246408000000000000000
LOW_BITS = 62


def uuid_of_number(number):
    """The UUID of a job that brought none."""
    value = TAG | (number >> LOW_BITS) << 64 | number & (1 << LOW_BITS) - 1
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def number_of_uuid(uuid):
    """The number in such a UUID; None if the job brought its own."""
    number = int(uuid.replace("-", "")[16:], 16) & (1 << LOW_BITS) - 1
    return number if uuid_of_number(number) == uuid else None


def compact(value):
    """JSON without blanks: the server keeps bodies as they come."""
    return json.dumps(value, separators=(",", ":")).encode()


class Client:
    """One connection."""

    # Whether what it takes stays taken when its connection ends.
    durable_leases = False
    # What `end` makes of a job.
    ENDS = "completed"
    # What is said when there is no room on the disk.
    FULL = b""
    # If it is deaf it reads no answers: each raises Unread. What it sends last ends its half of the connection.
    deaf, last = False, False

    def __init__(self, place):
        try:
            self.socket = socket.create_connection(place, PATIENCE)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise Gone from error
        self.input = self.socket.makefile("rb")

    def close(self):
        self.input.close()
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
            if self.last:
                self.socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise Gone from error

    def reset(self):
        """Ends the connection at once, whatever is unread or unsent."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def read(self, count):
        if self.deaf:
            raise Unread
        try:
            data = self.input.read(count)
        except OSError as error:
            raise Gone from error
        if len(data) < count:
            raise Gone
        return data

    def line(self):
        if self.deaf:
            raise Unread
        try:
            line = self.input.readline()
        except OSError as error:
            raise Gone from error
        if not line.endswith(b"\n"):
            raise Gone
        return line.rstrip(b"\r\n")

    def expect(self, expected, heard):
        if heard == self.FULL:
            raise Refused(f"{type(self).__name__}: {heard.decode()}")
        if heard != expected:
            raise Unexpected(f"{type(self).__name__}: expected {expected!r}, heard {heard[:200]!r}")


class Goqueue(Client):
    ENDS = "removed"
    durable_leases = True
    FULL = b"ERROR The server's disk is full"
    TTP_SECONDS = 600

    def expect(self, expected, heard):
        super().expect(expected, b"ERROR " + self.word() if heard == b"ERROR" else heard)

    def word(self):
        word = b""
        while not word.endswith(b"\0"):
            word += self.read(1)
        return word[:-1]

    def put(self, queue, body):
        self.send(b"ADD\0%s\0" % queue.encode() + struct.pack("<III", 0, self.TTP_SECONDS, len(body)) + body)
        self.expect(b"ADDED", self.word())
        return struct.unpack("<Q", self.read(8))[0]

    def take(self, queue):
        self.ask_for_one(queue, 1)
        return self.taken()

    def ask_for_one(self, queue, seconds):
        self.send(b"RESERVE\0%s\0" % queue.encode() + struct.pack("<I", seconds))

    def taken(self):
        word = self.word()
        if word == b"TIMEOUT":
            return None
        self.expect(b"RESERVED", word)
        number, _priority, _ttp = struct.unpack("<QII", self.read(16))
        self.expect(b"reserved", self.word())
        return Taken(number, number, None, self.read(struct.unpack("<I", self.read(4))[0]))

    def end(self, _queue, number):
        self.send(b"DELETE\0" + struct.pack("<Q", number))
        self.expect(b"OK", self.word())


class Takeanumber(Client):
    durable_leases = True
    FULL = b"-ERR Disk full."

    def put(self, queue, body):
        self.send(b"ADD %s 1000000 %s\r\n" % (queue.encode(), body))
        line = self.line()
        if not line.startswith(b"+"):
            self.expect(b"+<uuid>", line)
        return number_of_uuid(line[1:].decode())

    def take(self, queue):
        self.send(b"RESERVE %s\r\n" % queue.encode())
        line = self.line()
        if line == b":-1":
            return None
        if not line.startswith(b"+"):
            self.expect(b"+<uuid> <body>", line)
        uuid, body = line[1:].split(b" ", 1)
        uuid = uuid.decode()
        return Taken(uuid, number_of_uuid(uuid), uuid, body)

    def end(self, queue, uuid):
        self.send(b"DONE %s %s\r\n" % (queue.encode(), uuid.encode()))
        self.expect(b"+OK", self.line())

    def length(self, queue):
        """How many jobs nobody has reserved."""
        self.send(b"LEN %s\r\n" % queue.encode())
        return int(self.line().removeprefix(b":"))

    def give_back(self, queue, uuid):
        self.send(b"RETRY %s %s\r\n" % (queue.encode(), uuid.encode()))
        self.expect(b"+OK", self.line())


class Masenko(Client):
    FULL = b'ERR {"msg": "no room on the disk"}'

    def ask(self, verb, what):
        self.send(b"%s %s\n" % (verb.encode(), compact(what)))
        return self.answer()

    def answer(self):
        verb, _, rest = self.line().partition(b" ")
        return verb, json.loads(rest)

    def okay(self, verb, what):
        return self.checked(*self.ask(verb, what))

    def checked(self, verb, answer):
        self.expect(b"OK", verb + (b" " + json.dumps(answer).encode() if verb != b"OK" else b""))
        return answer

    @staticmethod
    def task(queue, body, **more):
        return {"name": "crash", "queue": queue, "payload": json.loads(body), "retry": 250, **more}

    def put(self, queue, body):
        return self.okay("PUSH", self.task(queue, body))["id"]

    def put_dated(self, queue, body, date):
        return self.okay("PUSH", self.task(queue, body, execute_at=date))["id"]

    def put_blocked(self, queue, first, second):
        """Two jobs at once, the second of which is blocked by the first."""
        lines = [self.task(queue, first), self.task(queue, second, blocked_by=[-1])]
        self.send(b"ATOMIC\n%sDONE\n" % b"".join(b"PUSH %s\n" % compact(line) for line in lines))
        return self.checked(*self.answer())["ids"]

    def take(self, queue):
        verb, answer = self.ask("FETCH", {"queues": [queue], "timeout": "1ms"})
        if verb == b"EMPTY":
            return None
        body = compact(self.checked(verb, answer)["payload"])
        return Taken(answer["id"], answer["id"], None, body)

    def end(self, _queue, number):
        self.okay("ACK", {"id": number})


class Jobcentre(Client):
    ENDS = "removed"
    FULL = "There is no room on the disk."

    def ask(self, **what):
        self.send(json.dumps(what).encode() + b"\n")
        return json.loads(self.line())

    def okay(self, **what):
        return self.checked(what["request"], self.ask(**what))

    def checked(self, request, answer):
        if answer.get("error") == self.FULL:
            raise Refused(f"Job Centre: {self.FULL}")
        if answer["status"] != "ok":
            raise Unexpected(f"Job Centre: {request} was answered {answer}")
        return answer

    def put(self, queue, body):
        line = b'{"request":"put","queue":%s,"job":%s,"pri":0}\n' % (json.dumps(queue).encode(), body)
        self.send(line)
        return self.checked("put", json.loads(self.line()))["id"]

    def take(self, queue):
        answer = self.ask(request="get", queues=[queue])
        if answer["status"] == "no-job":
            return None
        body = compact(self.checked("get", answer)["job"])
        return Taken(answer["id"], answer["id"], None, body)

    def end(self, _queue, number):
        self.okay(request="delete", id=number)

    def give_back(self, _queue, number):
        self.okay(request="abort", id=number)


class Workq(Client):
    durable_leases = True
    FULL = b"-SERVER-ERROR Disk full"
    TTR_MS = 600_000
    TTL_MS = 3_600_000

    def put(self, queue, body, uuid):
        words = (uuid.encode(), queue.encode(), self.TTR_MS, self.TTL_MS, len(body), body)
        self.send(b"add %s %s %d %d %d -max-fails=255\r\n%s\r\n" % words)
        self.expect(b"+OK", self.line())

    def put_dated(self, queue, body, date, uuid):
        words = (uuid.encode(), queue.encode(), self.TTR_MS, self.TTL_MS, date.encode(), len(body), body)
        self.send(b"schedule %s %s %d %d %s %d -max-fails=255\r\n%s\r\n" % words)
        self.expect(b"+OK", self.line())

    def take(self, queue):
        self.ask_for_one(queue, 0)
        return self.taken()

    def ask_for_one(self, queue, seconds):
        self.send(b"lease %s %d\r\n" % (queue.encode(), 1000 * seconds))

    def taken(self):
        line = self.line()
        if line == b"-TIMEOUT":
            return None
        self.expect(b"+OK 1", line)
        uuid, _name, size = self.line().decode().split(" ")
        body = self.read(int(size))
        self.expect(b"\r\n", self.read(2))
        return Taken(uuid, number_of_uuid(uuid), uuid, body)

    def end(self, _queue, uuid, result=b""):
        self.send(b"complete %s %d\r\n%s\r\n" % (uuid.encode(), len(result), result))
        self.expect(b"+OK", self.line())

    def give_back(self, _queue, uuid):
        self.send(b"fail %s 0\r\n\r\n" % uuid.encode())
        self.expect(b"+OK", self.line())

    def remove(self, uuid):
        self.send(b"delete %s\r\n" % uuid.encode())
        self.expect(b"+OK", self.line())

    def result(self, uuid):
        """What came of a job; None if there is nothing to know of it."""
        self.send(b"result %s 0\r\n" % uuid.encode())
        line = self.line()
        if line in (b"-NOT-FOUND", b"-TIMEOUT"):
            return None
        self.expect(b"+OK 1", line)
        _uuid, _success, size = self.line().decode().split(" ")
        result = self.read(int(size))
        self.expect(b"\r\n", self.read(2))
        return result

    def inspect(self, uuids):
        """The jobs of these UUIDs, one answer each: what the server knows of it, or None."""
        at_once, jobs = 200, []
        for start in range(0, len(uuids), at_once):
            portion = uuids[start : start + at_once]
            self.send(b"".join(b"inspect job %s\r\n" % uuid.encode() for uuid in portion))
            jobs += [self.inspected() for _ in portion]
        return jobs

    def inspected(self):
        line = self.line()
        if line == b"-NOT-FOUND":
            return None
        self.expect(b"+OK 1", line)
        count = int(self.line().split(b" ")[1])
        job = {}
        for _ in range(count):
            name, _, value = self.line().partition(b" ")
            job[name.decode()] = value
        return job


class Beanstalkd(Client):
    ENDS = "removed"
    # The document has no other words for it.
    FULL = b"OUT_OF_MEMORY"
    TTR_SECONDS = 600

    def __init__(self, place):
        super().__init__(place)
        self.used = self.watched = "default"

    def ask_in(self, queue, request):
        """Sends a request about the tube that is used."""
        switched, self.used = self.used != queue, queue
        self.send((b"use %s\r\n" % queue.encode() if switched else b"") + request)
        if switched:
            self.expect(b"USING %s" % queue.encode(), self.line())

    def put(self, queue, body, delay=0, priority=0):
        words = (priority, delay, self.TTR_SECONDS, len(body), body)
        self.ask_in(queue, b"put %d %d %d %d\r\n%s\r\n" % words)
        return int(self.after(b"INSERTED", self.line()))

    def after(self, word, line):
        """What an answer says behind this word."""
        if not line.startswith(word + b" "):
            self.expect(word, line)
        return line[len(word) + 1 :]

    def put_dated(self, queue, body, date):
        """With a delay that ends at that moment, or within a second after it."""
        left = datetime.fromisoformat(date).timestamp() - time.time()
        return self.put(queue, body, max(0, math.ceil(left)))

    def take(self, queue):
        self.ask_for_one(queue, 0)
        return self.taken()

    def ask_for_one(self, queue, seconds):
        """It watches one tube at a time."""
        left, self.watched = self.watched, queue
        switch = b"watch %s\r\nignore %s\r\n" % (queue.encode(), left.encode()) if left != queue else b""
        self.send(switch + b"reserve-with-timeout %d\r\n" % seconds)
        if switch:
            self.expect(b"WATCHING 2", self.line())
            self.expect(b"WATCHING 1", self.line())

    def taken(self, none=b"TIMED_OUT"):
        line = self.line()
        if line == none:
            return None
        number, size = map(int, self.after(b"RESERVED", line).split(b" "))
        body = self.read(size)
        self.expect(b"\r\n", self.read(2))
        return Taken(number, number, None, body)

    def take_this(self, number):
        """Takes this job, whatever queue it is in, if it is ready, delayed or buried."""
        self.send(b"reserve-job %d\r\n" % number)
        return self.taken(b"NOT_FOUND")

    def end(self, _queue, number):
        self.send(b"delete %d\r\n" % number)
        self.expect(b"DELETED", self.line())

    def give_back(self, queue, number):
        self.release(number, 0, 0)

    def release(self, number, priority, delay):
        self.send(b"release %d %d %d\r\n" % (number, priority, delay))
        self.expect(b"RELEASED", self.line())

    def bury(self, number, priority):
        self.send(b"bury %d %d\r\n" % (number, priority))
        self.expect(b"BURIED", self.line())

    def touch(self, number):
        self.send(b"touch %d\r\n" % number)
        self.expect(b"TOUCHED", self.line())

    def kick(self, queue, count):
        """How many were kicked: the buried ones, or if there are none the delayed ones."""
        self.ask_in(queue, b"kick %d\r\n" % count)
        return int(self.after(b"KICKED", self.line()))

    def kick_job(self, number):
        """Whether it was buried or delayed."""
        self.send(b"kick-job %d\r\n" % number)
        line = self.line()
        if line != b"NOT_FOUND":
            self.expect(b"KICKED", line)
        return line == b"KICKED"

    def pause(self, queue, seconds):
        """Whether there is this tube."""
        self.send(b"pause-tube %s %d\r\n" % (queue.encode(), seconds))
        line = self.line()
        if line != b"NOT_FOUND":
            self.expect(b"PAUSED", line)
        return line == b"PAUSED"

    def first_buried(self, queue):
        """The number of the job that was buried first, of those that are."""
        self.ask_in(queue, b"peek-buried\r\n")
        line = self.line()
        if line == b"NOT_FOUND":
            return None
        number, size = map(int, self.after(b"FOUND", line).split(b" "))
        self.read(size + 2)
        return number

    def about_tube(self, queue):
        """What stats-tube says of it; None if there is none."""
        self.send(b"stats-tube %s\r\n" % queue.encode())
        return self.statistics()

    def about_jobs(self, numbers):
        """What stats-job says of these jobs, one answer each; None for one that is not there."""
        at_once, jobs = 200, []
        for start in range(0, len(numbers), at_once):
            portion = numbers[start : start + at_once]
            self.send(b"".join(b"stats-job %d\r\n" % number for number in portion))
            jobs += [self.statistics() for _ in portion]
        return jobs

    def statistics(self):
        line = self.line()
        if line == b"NOT_FOUND":
            return None
        lines = self.read(int(self.after(b"OK", line)) + 2).decode().splitlines()
        return {name: value.strip('"') for name, value in (line.split(": ", 1) for line in lines[1:] if line)}


PROTOCOLS = {"goqueue": Goqueue, "takeanumber": Takeanumber, "masenko": Masenko, "jobcentre": Jobcentre, "workq": Workq}
PROTOCOLS |= {"beanstalkd": Beanstalkd}
