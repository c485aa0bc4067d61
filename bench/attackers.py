#!/usr/bin/env python3
"""Clients that behave badly, for bench/overload: one process each, so that what they cost can be told.

Usage: attackers.py KIND JSON, where the JSON says where the server's protocols are, and what else the kind needs. Says
"ready" when the attack stands, goes on until its standard input ends, and says a line of JSON with what it did.
       attackers.py protocols: says of each attack which protocols take part in it, and why others do not.
"""

import errno
import json
import os
import pathlib
import re
import resource
import select
import socket
import struct
import sys
import threading
import time
import uuid

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts" / "crash"))

import clients  # noqa: E402

SLICES = 50  # in which the slow ones send, a second
CONNECTS_AT_ONCE = 500

# The beginnings of requests that go on for ever, byte by byte.
UNFINISHED = {
    "goqueue": b"ADD\0slow\0" + struct.pack("<III", 0, 60, 1 << 20),
    "takeanumber": b"ADD slow 0 ",
    "masenko": b'PUSH {"name":"slow","payload":"',
    "jobcentre": b'{"request":"put","queue":"slow","pri":0,"job":"',
    "workq": b"add 6ba7b810-9dad-41d1-80b4-00c04fd43001 slow 1000 60000 1000000\r\n",
    "beanstalkd": b"put 0 0 60 1000000\r\n",
}
# Requests for a job that never comes. takeanumber has none that waits.
WAITING = {
    "goqueue": b"RESERVE\0nothing\0" + struct.pack("<I", 3600),
    "masenko": b'FETCH {"queues":["nothing","never"],"timeout":"40s"}\n',
    "jobcentre": b'{"request":"get","queues":["nothing","never"],"wait":true}\n',
    "workq": b"lease nothing never 86400000\r\n",
    "beanstalkd": b"watch nothing\r\nignore default\r\nreserve\r\n",
}
# What is answered to them at once.
WAITING_ANSWERED = {"beanstalkd": b"WATCHING 2\r\nWATCHING 1\r\n"}
# A whole request of some thousand bytes, whose answer may be as long, and a short one.
SPOKEN = {
    "goqueue": b"%s\0CONNECT\0" % (b"X" * 4000),
    "takeanumber": b"LEN %s\r\nLEN spoken\r\n" % (b"q" * 4000),
    "jobcentre": b'{"request":"get","queues":["%s"]}\n{"request":"get","queues":["q"]}\n' % (b"q" * 4000),
    "masenko": b"%s\nPING {}\n" % (b"x" * 4000),
    "workq": b"inspect nothing %s\r\ninspect nothing\r\n" % (b"x" * 4000),
    "beanstalkd": b"%s\r\nlist-tube-used\r\n" % (b"x" * 4000),
}
# What the answer to the short one ends with.
ANSWERED = {
    "goqueue": b"\0OK\0",
    "takeanumber": b"\n:0\r\n",
    "jobcentre": b'\n{"status":"no-job"}\n',
    "masenko": b"\nPONG {}\n",
    "workq": b"\n-CLIENT-ERROR Unknown command\r\n",
    "beanstalkd": b"\nUSING default\r\n",
}
# What is said to a put when there is no memory.
REFUSALS = {
    "goqueue": "The server is out of memory",
    "takeanumber": "-ERR Out of memory.",
    "masenko": "no room for another task",
    "jobcentre": "There is no room for another job.",
    "workq": "-SERVER-ERROR Out of memory",
    "beanstalkd": "OUT_OF_MEMORY",
}


# --- requests with long answers --------------------------------------------------------------------------------------

SHOWN_JOBS, SHOWN_BYTES = 100, 1000
ANSWER_BYTES = 120_000
ECHOED = b"X" * 60_000


class Shown:
    """What one protocol's clients ask for over and over: requests in turn, how long the answer to one is at most, and what
    removes the jobs that it needs."""

    def __init__(self, requests, answer_bytes, remove=lambda: None):
        self.requests, self.answer_bytes, self.remove = requests, answer_bytes, remove

    def bytes_max(self, output_bytes_max, share_bytes):
        """What one of them may take of the server's memory: its output, of which an eighth may have been sent; what was
        read of it in a turn, and a request that is not whole, in a buffer that doubles when it grows."""
        return (output_bytes_max + self.answer_bytes) * 8 / 7 + 2 * (share_bytes + max(map(len, self.requests)))

    def check_length(self, place):
        """The answers are as long as they are meant to be."""
        with socket.create_connection(place, 30) as client:
            client.sendall(self.requests[0])
            heard = 0
            while heard < 0.75 * self.answer_bytes:
                heard += len(client.recv(1 << 16)) or sys.exit(f"closed after {heard} of {self.answer_bytes} bytes")


def show_jobs(place, _count):
    """A listing of jobs."""
    client = clients.Workq(place)
    ids = [f"6ba7b810-9dad-41d1-80b4-{number:012x}" for number in range(SHOWN_JOBS)]
    for id in ids:
        client.put("shown", b"x" * SHOWN_BYTES, id)
    request = b"inspect jobs shown 0 %d\r\n" % SHOWN_JOBS
    return Shown([request], SHOWN_JOBS * (SHOWN_BYTES + 300), lambda: [client.remove(id) for id in ids])


def show_body(place, _count):
    """A job with a long body, which nobody takes."""
    client = clients.Beanstalkd(place)
    number = client.put("shown", b"x" * ANSWER_BYTES)
    return Shown([b"peek %d\r\n" % number], ANSWER_BYTES + 100, lambda: client.end("shown", number))


def show_queues(place, _count):
    """A listing of queues, whose names are long."""
    client = clients.Masenko(place)
    for number in range(ANSWER_BYTES // 300):
        queue = f"{number:a<240}"
        client.put(queue, b"1")
        client.end(queue, client.take(queue).reference)
    # Those of the load are in it too.
    return Shown([b"INFO {}\n"], ANSWER_BYTES + 10_000)


def show_taken(place, count):
    """A job with a long body for each client, which takes it and gives it back."""
    client, body = clients.Jobcentre(place), body_of("jobcentre", ANSWER_BYTES)
    numbers = [client.put(f"shown-{index}", body) for index in range(count)]
    requests = [
        b'{"request":"get","queues":["shown-%d"]}\n{"request":"abort","id":%d}\n' % shown for shown in enumerate(numbers)
    ]
    return Shown(requests, ANSWER_BYTES + 200, lambda: [client.end("", number) for number in numbers])


def echo(request):
    """A request whose answer says its text again."""
    return lambda _place, _count: Shown([request], len(ECHOED) + 100)


DEAF = {
    "goqueue": echo(ECHOED + b"\0"),
    "takeanumber": echo(b"*2\r\n$4\r\nPING\r\n$%d\r\n%s\r\n" % (len(ECHOED), ECHOED)),
    "masenko": show_queues,
    "jobcentre": show_taken,
    "workq": show_jobs,
    "beanstalkd": show_body,
}

# --- who takes part --------------------------------------------------------------------------------------------------

# By attack, a table with a row for each protocol that takes part in it.
ROWS = {
    "load": clients.PROTOCOLS,
    "idle silent": clients.PROTOCOLS,
    "idle spoke": SPOKEN,
    "idle waits": WAITING,
    "slow": UNFINISHED,
    "deaf": DEAF,
    "flood": REFUSALS,
    "waiters": WAITING,
    "stream": clients.PROTOCOLS,
}
# Why the others do not.
LEFT_OUT = {
    "idle waits": {"takeanumber": "RESERVE is answered at once"},
    "waiters": {"takeanumber": "RESERVE is answered at once"},
}


def say_protocols():
    for attack, rows in ROWS.items():
        for name in rows:
            print(f"{attack}: {name} takes part")
        for name, why in LEFT_OUT.get(attack, {}).items():
            print(f"{attack}: {name} is left out: {why}")


class Over:
    """Whether the attack is over: its standard input has ended."""

    def __init__(self):
        self.event = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        sys.stdin.read()
        self.event.set()

    def __bool__(self):
        return self.event.is_set()

    def wait(self, seconds):
        return self.event.wait(max(0, seconds))


def connect_all(places, count, receive_bytes=None):
    """Connects so often, to all protocols in turn. Returns pairs of protocol and socket."""
    names, found = list(places), []
    while len(found) < count:
        opening = {}
        with select.epoll() as poll:
            for index in range(len(found), min(count, len(found) + CONNECTS_AT_ONCE)):
                name = names[index % len(names)]
                client = socket.socket()
                client.setblocking(False)
                if receive_bytes:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
                error = client.connect_ex(tuple(places[name]))
                if error not in (0, errno.EINPROGRESS):
                    sys.exit(f"cannot connect: {os.strerror(error)}")
                poll.register(client, select.EPOLLOUT)
                opening[client.fileno()] = name, client
            while opening:
                events = poll.poll(30)
                if not events:
                    sys.exit("connections are not accepted")
                for number, _ in events:
                    name, client = opening.pop(number)
                    poll.unregister(number)
                    error = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if error:
                        sys.exit(f"cannot connect: {os.strerror(error)}")
                    found.append((name, client))
    return found


def is_lost(client):
    """Whether the server has closed this connection."""
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def hears(client):
    """Whether the server has said something that was not read."""
    try:
        return client.recv(1, socket.MSG_PEEK) != b""
    except OSError:
        return False


def close_rudely(client):
    """Closes it with a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


# --- the kinds -------------------------------------------------------------------------------------------------------


def idle(over, places, count, manner):
    """So many connections that are silent, have spoken once and heard all answers, or wait for a job."""
    os.nice(19)
    found = connect_all(places, count)
    for name, client in found:
        client.settimeout(30)
        if manner == "spoke":
            client.sendall(SPOKEN[name])
        elif manner == "waits":
            client.sendall(WAITING[name])
    answers = {"spoke": ANSWERED, "waits": WAITING_ANSWERED}.get(manner, {})
    for name, client in found:
        heard = b""
        while not heard.endswith(answers.get(name, b"")):
            some = client.recv(1 << 16)
            if not some:
                sys.exit(f"{name}: closed after {heard[-100:]!r}")
            heard += some
    for _, client in found:
        client.setblocking(False)
    ready()
    over.wait(3600)
    return {"lost": sum(is_lost(client) for _, client in found), "heard": sum(hears(client) for _, client in found)}


def slow(over, places, count, silent):
    """So many connections that begin a request and go on a byte a second; some only begin."""
    found = connect_all(places, count)
    for name, client in found:
        client.send(UNFINISHED[name])
    ready()
    senders, sent, refused, begun = [client for _, client in found[silent:]], 0, 0, time.monotonic()
    moment, part = begun, 0
    while not over:
        for client in senders[part::SLICES]:
            try:
                sent += client.send(b"x")
            except OSError:
                refused += 1
        part = (part + 1) % SLICES
        moment += 1 / SLICES
        over.wait(moment - time.monotonic())
    seconds = time.monotonic() - begun
    return {"bytes_per_second": sent / seconds, "lost": refused + sum(is_lost(client) for _, client in found)}


def deaf(over, places, count, requests, renewed):
    """So many clients that send requests without end and never read. Some of them, a second, leave and others come."""
    requests = {name: [text.encode() for text in texts] for name, texts in requests.items()}
    poll, deafs, sent, lost = select.epoll(), {}, dict.fromkeys(places, 0), 0
    joined = dict.fromkeys(places, 0)

    def join(places, count):
        for name, client in connect_all(places, count, receive_bytes=4096):
            # Who comes for another gets the requests of who left.
            request = requests[name][joined[name] % len(requests[name])]
            joined[name] += 1
            deafs[client.fileno()] = Deaf(name, client, request)
            poll.register(client, select.EPOLLOUT | select.EPOLLET)

    def push(patience):
        nonlocal lost
        events = poll.poll(patience)
        for number, _ in events:
            one = deafs[number]
            try:
                while True:
                    sent[one.name] += one.send()
            except BlockingIOError:
                pass
            except OSError:
                lost += 1
                poll.unregister(number)
                deafs.pop(number).client.close()
        return events

    join(places, count)
    while push(0.5):
        pass
    ready()
    begun, others = time.monotonic(), 0
    while not over:
        for number in list(deafs)[: renewed // 5]:
            poll.unregister(number)
            gone = deafs.pop(number)
            close_rudely(gone.client)
            join({gone.name: places[gone.name]}, 1)
            others += 1
        until = time.monotonic() + 0.2
        while (left := until - time.monotonic()) > 0 and not over:
            push(left)
    return {"sent_bytes": sent, "renewed_per_second": others / (time.monotonic() - begun), "lost": lost}


class Deaf:
    """One that never reads, and what it sends without end."""

    def __init__(self, name, client, request):
        self.name, self.client, self.at = name, client, 0
        self.requests = memoryview(request * max(1, (1 << 14) // len(request)))

    def send(self):
        count = self.client.send(self.requests[self.at :])
        self.at = (self.at + count) % len(self.requests)
        return count


def flood(over, places, body_bytes, connections):
    """Puts jobs in every protocol as fast as they are taken, and goes on when they are refused."""
    counts, wrong, full = [], [], threading.Semaphore(0)

    def produce(name, count):
        client, queue, body = clients.PROTOCOLS[name](tuple(places[name])), f"flood-{name}", body_of(name, body_bytes)
        while not over:
            own_id = [str(uuid.uuid4())] if name == "workq" else []
            try:
                client.put(queue, body, *own_id)
                count["put"] += 1
            except clients.Unexpected as error:
                if REFUSALS[name] not in str(error):
                    wrong.append(str(error))
                    return
                count["refused"] += 1
                if count["refused"] == 1:
                    full.release()
            except clients.Gone as gone:
                wrong.append(f"{name}: its connection ended: {gone.__cause__}")
                return

    threads = []
    for name in places:
        for _ in range(connections):
            counts.append({"name": name, "put": 0, "refused": 0})
            threads.append(threading.Thread(target=produce, args=[name, counts[-1]]))
    for thread in threads:
        thread.start()
    for _ in threads:
        if not full.acquire(timeout=60):
            sys.exit(f"nothing is refused: {counts}; {wrong}")
    ready()
    begun, before = time.monotonic(), sum(count["refused"] for count in counts)
    for thread in threads:
        thread.join()
    rate = (sum(count["refused"] for count in counts) - before) / (time.monotonic() - begun)
    put = {name: sum(count["put"] for count in counts if count["name"] == name) for name in places}
    return {"put": put, "refused_per_second": rate, "wrong": wrong}


def body_of(name, count):
    """A body of so many bytes that the protocol can carry."""
    around = {"masenko": (b'"', b'"'), "jobcentre": (b'{"fill":"', b'"}')}.get(name, (b"", b""))
    return around[0] + b"x" * (count - len(b"".join(around))) + around[1]


def waiters(over, places, count):
    """So many clients that wait for a job and are gone at once, half of them with a reset; then others, each second."""
    rounds, begun = 0, time.monotonic()
    ready()
    while not over:
        found = connect_all(places, count)
        for name, client in found:
            client.send(WAITING[name])
        rounds += 1
        over.wait(begun + rounds - time.monotonic())
        for index, (_, client) in enumerate(found):
            close_rudely(client) if index % 2 else client.close()
    return {"rounds_per_second": rounds / (time.monotonic() - begun)}


def stream(over, places, body_bytes, first):
    """One client after the other puts, takes and finishes a job as long as it can be: each once before the attack begins,
    then in turn from this one on."""
    streams = {name: Stream(name, tuple(place), body_bytes[name]) for name, place in places.items()}
    for one in streams.values():
        one.move()
    ready()
    begun, counts, names = time.monotonic(), dict.fromkeys(streams, 0), list(streams)
    while not over:
        name = names[(first + sum(counts.values())) % len(names)]
        streams[name].move()
        counts[name] += 1
    seconds = time.monotonic() - begun
    return {"counts": counts, "bytes_per_second": sum(counts[name] * body_bytes[name] for name in names) / seconds}


class Stream:
    """A client that moves long bodies, without making more of them than bytes."""

    QUEUE = "streamed"

    def __init__(self, name, place, body_bytes):
        self.name, self.client, self.body = name, clients.PROTOCOLS[name](place), body_of(name, body_bytes)

    def move(self):
        self.put()
        reference, body = self.take()
        if body != self.body:
            sys.exit(f"{self.name}: a body came back that is not what was put")
        self.client.end(self.QUEUE, reference)

    def put(self):
        match self.name:
            case "masenko":
                self.client.send(b'PUSH {"name":"n","queue":"streamed","payload":%s}\n' % self.body)
                self.client.checked(*self.client.answer())
            case "jobcentre":
                self.client.put(self.QUEUE, self.body)
            case "workq":
                self.client.put(self.QUEUE, self.body, str(uuid.uuid4()))
            case _:
                self.client.put(self.QUEUE, self.body)

    def take(self):
        """What a job is called, and its body."""
        match self.name:
            case "masenko":
                return self.raw(b'FETCH {"queues":["streamed"],"timeout":"1s"}\n', b'"payload":')
            case "jobcentre":
                return self.raw(b'{"request":"get","queues":["streamed"]}\n', b'"job":')
        taken = self.client.take(self.QUEUE)
        return taken.reference, taken.body

    def raw(self, request, before):
        """From an answer in JSON."""
        self.client.send(request)
        line = self.client.line()
        start = line.index(before) + len(before)
        return int(re.search(rb'"id":(\d+)', line[:start])[1]), line[start : start + len(self.body)]


KINDS = {function.__name__: function for function in [idle, slow, deaf, flood, waiters, stream]}


def ready():
    print("ready", flush=True)


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if sys.argv[1:] == ["protocols"]:
        return say_protocols()
    kind, options = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps(KINDS[kind](Over(), **options)), flush=True)
    # Connections are not closed one by one.
    os._exit(0)


if __name__ == "__main__":
    main()
