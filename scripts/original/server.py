"""The beanstalkd that is installed, on a clock that stands still until it is told to go on, and its clients."""

import pathlib
import shutil
import signal
import socket
import struct
import subprocess

from transcript import Wrong

CLOCK = pathlib.Path(__file__).resolve().with_name("clock.c")
PATIENCE = 30  # seconds after which a server that is busy still is taken to hang
START = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z, in microseconds
MALLOC_BYTES_MAX = 1 << 62
# Of a machine without memory: enough for the server itself, and for no body of this size.
SCARCE_MALLOC_BYTES_MAX = 4096


def find(program, package):
    path = shutil.which(program)
    if path is None:
        raise SystemExit(f"{program} is not there (Debian: {package})")
    return path


def compile_clock(directory):
    """Builds the library that replaces the server's clock. Returns where it is."""
    library = directory / "clock.so"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([find("cc", "gcc"), *flags, "-o", library, CLOCK], check=True)
    return library


class Server:
    """A server in an empty directory, where it keeps its log if it shall have one."""

    def __init__(self, library, directory, limits, keeps_log):
        self.library, self.directory = library, directory
        # On a Unix socket, what one end has sent is there for the other as soon as it is sent.
        self.address = directory / "socket"
        self.command = [find("beanstalkd", "beanstalkd"), "-l", f"unix:{self.address}"]
        if "body_bytes_max" in limits:
            self.command += ["-z", str(limits["body_bytes_max"])]
        if keeps_log:
            self.command += ["-b", str(directory), "-f", "0"]
        self.malloc_bytes_max = SCARCE_MALLOC_BYTES_MAX if "memory_bytes_max" in limits else MALLOC_BYTES_MAX
        self.now = START
        self.process = self.clock = None

    def start(self):
        self.clock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.clock.settimeout(PATIENCE)
        with theirs, self.log().open("ab") as log:
            environment = {"LD_PRELOAD": str(self.library)}
            streams = {"stdin": theirs, "stdout": log, "stderr": log}
            self.process = subprocess.Popen(self.command, env=environment, **streams)
        self.tell_clock(self.now)
        self.tell_clock(self.malloc_bytes_max)
        self.settle()

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        if self.clock:
            self.clock.close()

    def drain(self):
        self.process.send_signal(signal.SIGUSR1)
        self.settle()

    def pass_time(self, microseconds):
        self.now += microseconds
        self.settle()

    def settle(self):
        """Waits until the server has done all that there is to do by now."""
        self.tell_clock(self.now)
        try:
            answer = self.clock.recv(1)
        except TimeoutError:
            raise Wrong(f"the server is busy for more than {PATIENCE} s") from None
        except ConnectionError:
            answer = b""
        if not answer:
            raise self.died()

    def tell_clock(self, number):
        try:
            self.clock.send(struct.pack("=q", number))
        except ConnectionError:
            raise self.died() from None

    def died(self):
        return Wrong(f"the server has ended with {self.process.wait(PATIENCE)}: {self.log().read_text().strip()}")

    def log(self):
        return self.directory / "output"


class Client:
    """A connection; what it heard and nobody expected yet."""

    def __init__(self, server):
        self.server = server
        self.heard, self.ended, self.closed = b"", False, False
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(server.address))
        self.socket.setblocking(False)
        server.settle()

    def send(self, data):
        """Listens while it sends: the server reads no more while there is no room for its answers. What is sent to a
        server that has hung up is lost."""
        while data:
            try:
                data = data[self.socket.send(data) :]
            except BlockingIOError:
                if not self.take():
                    raise Wrong(f"the server does not read the last {len(data)} bytes") from None
            except ConnectionError:
                return
            self.server.settle()

    def listen(self):
        """Takes what has come, and what the server says once there is room for it."""
        while self.take():
            self.server.settle()

    def take(self):
        """Returns whether something had come."""
        before = len(self.heard)
        while not self.closed:
            try:
                part = self.socket.recv(1 << 16)
            except BlockingIOError:
                break
            except ConnectionError:
                part = b""
            self.heard += part
            self.closed = not part
        return len(self.heard) > before

    def end(self):
        self.ended = True
        self.socket.shutdown(socket.SHUT_WR)
        self.server.settle()

    def leave(self):
        self.socket.close()
        self.server.settle()
