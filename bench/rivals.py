"""The servers that are compared, and what the kernel knows of them: each on a processor of its own choice, with its data in a
directory of a real file system, killed when it is not needed any more."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from running import PATIENCE_SECONDS

# Jobyard speaks beanstalkd's protocol to be compared with it: the same bytes.
JOBYARD, BEANSTALKD, REDIS, ECHO = "jobyard", "beanstalkd", "redis", "echo"
PROTOCOLS = ["goqueue", "takeanumber", "masenko", "jobcentre", "workq", "beanstalkd"]
MEMORY, SYNCED = "memory", "synced"


class Rival:
    """A server that runs, or will."""

    def __init__(self, name, programs, directory, durability, cpu):
        self.name, self.directory, self.cpu = name, directory / f"{name}-{durability}", cpu
        self.program, self.durability = programs[name], durability
        self.urls, self.process = {}, None

    def __enter__(self):
        self.directory.mkdir(parents=True)
        self.start()
        return self

    def __exit__(self, *_):
        self.end(signal.SIGTERM)
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self):
        """Starts it, again in the same place if it ran before. Returns when it answers."""
        command, said = self.command(), self.directory / "said"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JOBYARD_")}
        with said.open("w") as out, (self.directory / "log").open("w") as log:
            self.process = subprocess.Popen(
                ["taskset", "--cpu-list", str(self.cpu), *command],
                stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=environment, cwd=self.directory,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.is_ready(said.read_text()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{' '.join(command)} did not start: {(self.directory / 'log').read_text().strip()}")
            time.sleep(0.002)

    def command(self):
        synced = self.durability == SYNCED
        if self.name == JOBYARD:
            listen = [word for protocol in PROTOCOLS for word in ["--listen", f"{protocol}://127.0.0.1:0"]]
            return [self.program, "serve", *(["--data", "data"] if synced else ["--memory"]), *listen]
        if self.name == ECHO:
            return [self.program]
        port = str(free_port())
        self.urls[self.name] = f"{self.name}://127.0.0.1:{port}"
        if self.name == BEANSTALKD:
            kept = ["-b", str(self.directory), "-f", "0"] if synced else []
            # A segment of its binlog as long as Jobyard's.
            return [self.program, "-l", "127.0.0.1", "-p", port, *kept, "-s", str(32 << 20)]
        kept = ["yes", "--appendfsync", "always"] if synced else ["no"]
        options = ["--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", *kept, "--auto-aof-rewrite-percentage", "0"]
        return [self.program, *options]

    def is_ready(self, said):
        """Whether it answers; what it says of its addresses is taken note of."""
        if self.name in [JOBYARD, ECHO]:
            self.urls.update({url.split(":")[0]: url for url in re.findall(r"listening on (\S+)", said)})
            return "storing " in said if self.name == JOBYARD else bool(self.urls)
        return self.answers()

    def answers(self, patience=1.0):
        """Whether it carries out requests."""
        request, reply = (b"PING\r\n", b"+PONG") if self.name == REDIS else (b"list-tube-used\r\n", b"USING")
        with contextlib.suppress(OSError):
            with socket.create_connection(self.place(), patience) as client:
                client.sendall(request)
                client.settimeout(patience)
                return client.recv(100).startswith(reply)
        return False

    def url(self, protocol=None):
        default = {JOBYARD: "beanstalkd"}.get(self.name, self.name)
        return self.urls[protocol or default]

    def place(self):
        host, _, port = self.url().split("://")[1].rpartition(":")
        return host, int(port)

    def end(self, number):
        if not self.process or self.process.poll() is not None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    # --- what the kernel knows ---

    def processor_seconds(self):
        """What its threads took of a processor."""
        return sum(int(text.split()[0]) for text in self.of_threads("schedstat")) / 1e9

    def switches(self):
        """How often its threads gave a processor back, or had to."""
        return sum(int(count) for text in self.of_threads("status") for count in re.findall(r"ctxt_switches:\s*(\d+)", text))

    def of_threads(self, file):
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                yield (thread / file).read_text()

    def memory_bytes(self):
        found = re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        return int(found[1]) * 1024


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def programs(jobyard):
    """Where each server is."""
    build = ["cargo", "build", "--quiet", "--locked", "--release", "-p", "jobyard", "--example", "echo_server"]
    subprocess.run(build, cwd=Path(__file__).resolve().parent.parent, check=True)
    found = {JOBYARD: jobyard, ECHO: str(Path(jobyard).with_name("examples") / "echo_server")}
    for name, program in [(BEANSTALKD, "beanstalkd"), (REDIS, "redis-server")]:
        found[name] = shutil.which(program)
        if not found[name]:
            sys.exit(f"missing: {program}; on Debian: apt-get install {program}")
    return found


def versions(of):
    """What is compared, in words."""
    said = {
        name: subprocess.run([of[name], option], capture_output=True, text=True).stdout.strip()
        for name, option in [(JOBYARD, "--version"), (BEANSTALKD, "-v"), (REDIS, "--version")]
    }
    redis = re.search(r"v=(\S+)", said[REDIS])
    return {**said, REDIS: f"redis {redis[1]}" if redis else said[REDIS]}
