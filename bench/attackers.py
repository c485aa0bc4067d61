#!/usr/bin/env python3
"""Clients that behave badly, for bench/overload: one process each, so that what they cost can be told.

Usage: attackers.py KIND JSON, where the JSON says where the server's protocols are, and what else the kind needs. Says
"ready" when the attack stands, goes on until its standard input ends, and says a line of JSON with what it did.
"""

import errno
import json
import os
import pathlib
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
# Requests for a job that never comes.
WAITING = {
    "goqueue": b"RESERVE\0nothing\0" + struct.pack("<I", 3600),
    "masenko": b'FETCH {"queues":["nothing","never"],"timeout":"40s"}\n',
    "jobcentre": b'{"request":"get","queues":["nothing","never"],"wait":true}\n',
    "workq": b"lease nothing never 86400000\r\n",
    "beanstalkd": b"reserve-with-timeout 86400\r\n",
}
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
    if manner == "spoke":
        for name, client in found:
            heard = b""
            while not heard.endswith(ANSWERED[name]):
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


def deaf(over, places, count, request, renewed):
    """So many clients that send requests without end and never read. Some of them, a second, leave and others come."""
    request, place = request.encode() * 16, {"workq": places["workq"]}
    poll, deafs, sent, lost = select.epoll(), {}, 0, 0

    def join(count):
        for _, client in connect_all(place, count, receive_bytes=4096):
            deafs[client.fileno()] = client
            poll.register(client, select.EPOLLOUT | select.EPOLLET)

    def push(patience):
        nonlocal sent, lost
        events = poll.poll(patience)
        for number, _ in events:
            try:
                while True:
                    sent += deafs[number].send(request)
            except BlockingIOError:
                pass
            except OSError:
                lost += 1
                poll.unregister(number)
                deafs.pop(number).close()
        return events

    join(count)
    while push(0.5):
        pass
    ready()
    begun, others = time.monotonic(), 0
    while not over:
        for number in list(deafs)[:renewed // 5]:
            poll.unregister(number)
            close_rudely(deafs.pop(number))
            others += 1
        join(count - len(deafs))
        until = time.monotonic() + 0.2
        while (left := until - time.monotonic()) > 0 and not over:
            push(left)
    return {"sent_bytes": sent, "renewed_per_second": others / (time.monotonic() - begun), "lost": lost}


def flood(over, places, refusals, body_bytes, connections):
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
                if refusals[name] not in str(error):
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
    text = "x" * count
    return {"masenko": clients.compact(text), "jobcentre": clients.compact({"fill": text})}.get(name, text.encode())


def waiters(over, places, count):
    """So many clients that wait for a job and are gone at once, half of them with a reset; then others, each second."""
    rounds, begun = 0, time.monotonic()
    places = {name: places[name] for name in WAITING}
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


def stream(over, places, body_bytes):
    """One client that puts, takes and finishes jobs as long as they can be, one after the other."""
    client, body, count = clients.Goqueue(tuple(places["goqueue"])), b"x" * body_bytes, 0
    ready()
    begun = time.monotonic()
    while not over:
        client.put("streamed", body)
        taken = client.take("streamed")
        if taken.body != body:
            sys.exit("a body came back that is not what was put")
        client.end("streamed", taken.reference)
        count += 1
    return {"bodies_per_second": count / (time.monotonic() - begun)}


KINDS = {function.__name__: function for function in [idle, slow, deaf, flood, waiters, stream]}


def ready():
    print("ready", flush=True)


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kind, options = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps(KINDS[kind](Over(), **options)), flush=True)
    # Connections are not closed one by one.
    os._exit(0)


if __name__ == "__main__":
    main()
