"""What beanstalkd_clients.py needs around a behaviour: tubes and clients of its own, expectations, and a line that can
be cut.
"""

import contextlib
import random
import socket
import threading
import time
import uuid
from concurrent.futures import Future

from beanstalkd_libraries import Greenstalk

# How long the server may take beyond the time that is the subject.
PATIENCE_S = 5
# How early the end of a wait may be seen: clocks and whole seconds are compared.
EARLY_S = 0.1
# What comes in several pieces; the server's limit must not be less.
LARGE = (64 << 10, 1 << 20)


def large_bodies(size):
    """No piece of them is like another, so that none can be lost, doubled or put elsewhere. The text is whole."""
    lines = "".join(f"{number}: Grüße, 世界 🌱\r\n" for number in range(size // 30)).encode()
    text = lines[:size].decode(errors="ignore").encode()
    return {"bytes": random.Random(size).randbytes(size), "text": text + b"x" * (size - len(text))}


class Trial:
    """One behaviour of one library: its tubes, its clients and what it expects."""

    def __init__(self, library, address):
        self.library, self.address = library, address
        self.prefix = f"{library.package}-{uuid.uuid4()}"
        self.clients, self.tubes = [], set()

    def tube(self, name="tube"):
        self.tubes.add(f"{self.prefix}-{name}")
        return f"{self.prefix}-{name}"

    def client(self, use=None, watch=None, address=None):
        self.clients.append(self.library(address or self.address, use or self.tube(), watch or [self.tube()]))
        return self.clients[-1]

    def reconnect(self, client):
        self.clients.remove(client)
        self.clients.append(client.reconnect())
        return self.clients[-1]

    def close(self, client):
        self.clients.remove(client)
        client.close()

    def end(self):
        """A tube that holds no job and that no client refers to is no more."""
        for client in self.clients:
            client.close()
        with contextlib.closing(Greenstalk(self.address, "default", "default")) as monitor:
            self.until("nothing is left behind", lambda: not self.tubes & set(monitor.tubes()))

    def expect(self, what, actual, expected):
        assert actual == expected, f"{what}: expected {expected!r:.300}, got {actual!r:.300}"

    def expect_in(self, stats, expected):
        """Pairs are the least and the most that may be."""
        for key, value in expected.items():
            least, most = value if isinstance(value, tuple) else (value, value)
            assert least <= stats[key] <= most, f"{key}: expected {value!r}, got {stats[key]!r} in {stats}"

    def stats_job(self, client, id, **expected):
        self.expect_in(client.stats_job(id), expected | {"id": id, "tube": self.tube()})

    def expect_job(self, what, job, id, body):
        self.expect(what, tuple(job), (id, body))

    def expect_word(self, what, word, call):
        try:
            result = call()
        except Exception as error:
            assert word == self.library.word(error), f"{what}: expected {word}, got {error!r}"
        else:
            raise AssertionError(f"{what}: expected {word}, got {result!r}")

    def expect_lost(self, client, call):
        try:
            result = call()
        except client.lost:
            return
        raise AssertionError(f"expected that the connection is lost, got {result!r}")

    def meanwhile(self, call):
        """Its future result; unlike an executor's, the thread keeps nobody from ending."""
        future = Future()

        def work():
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return future

    def delete(self, client, *ids):
        for id in ids:
            client.delete(id)

    @contextlib.contextmanager
    def takes(self, what, seconds):
        start = time.monotonic()
        yield
        taken = time.monotonic() - start
        assert seconds - EARLY_S <= taken <= seconds + PATIENCE_S, f"{what}: expected {seconds} s, took {taken:.2f} s"

    def until(self, what, holds):
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"expected within {PATIENCE_S} s: {what}"
            time.sleep(0.01)


class Relay:
    """Passes everything on to the server, until it is cut."""

    def __init__(self, server):
        self.server, self.ends = server, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.start(self.accept)

    def accept(self):
        while True:
            near, far = self.listener.accept()[0], socket.create_connection(self.server)
            self.ends += [near, far]
            self.start(self.carry, near, far)
            self.start(self.carry, far, near)

    def carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def cut(self):
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def start(self, *work):
        threading.Thread(target=work[0], args=work[1:], daemon=True).start()
