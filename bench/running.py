"""What the benchmarks of the log share: a server on a real file system that can be killed, and a few words with it."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_SECONDS = 60


def build():
    """Builds the server. Returns the binary and the directory in which it is built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or "target")
    target = target if target.is_absolute() else ROOT / target
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--release", "-p", "jobyard"], cwd=ROOT, check=True)
    return str(target / "release" / "jobyard"), target


@contextlib.contextmanager
def fresh_directory(prefix, parent):
    """A directory where a sync means something. It is removed at the end."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as directory:
        command = ["stat", "--file-system", "--format", "%T", directory]
        kind = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        if kind in ["tmpfs", "ramfs"]:
            sys.exit(f"{directory} is on {kind}, where a sync does nothing: set CARGO_TARGET_DIR to another")
        yield Path(directory)


def processor_seconds(pid):
    """What all threads of a process together took of a processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


class Server:
    """A server that can be killed and started again, in the same places with the same jobs."""

    def __init__(self, jobyard, directory, protocols, options=()):
        self.command = [jobyard, "serve", "--data", str(directory / "data"), *options]
        self.data, self.said, self.log = directory / "data", directory / "said", directory / "log"
        self.listen = {protocol: f"{protocol}://127.0.0.1:0" for protocol in protocols}
        self.process, self.started = None, 0.0

    def __enter__(self):
        self.start()
        self.await_words()
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        self.kill()

    def start(self, stderr=None):
        """Starts it. What it logs goes to a file unless said otherwise."""
        command = list(self.command)
        for address in self.listen.values():
            command += ["--listen", address]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JOBYARD_")}
        with self.said.open("w") as said, self.log.open("w") as log:
            self.started = time.monotonic()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=stderr or log, env=environment
            )

    def await_words(self):
        """Waits until it has said where it listens. It will do so there again."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "storing in " not in (said := self.said.read_text()):
            self.check(deadline)
            time.sleep(0.01)
        for url in re.findall(r"listening on (\S+)", said):
            self.listen[url.split(":")[0]] = url

    def kill(self):
        """Ends it as a crash would."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def check(self, deadline):
        """It still runs, and the deadline has not passed."""
        if self.process.poll() is not None:
            sys.exit(f"the server ended by itself: {self.log.read_text().strip()}")
        if time.monotonic() > deadline:
            sys.exit(f"the server does not get ready: {self.log.read_text().strip()}")

    def place(self, protocol="any"):
        host, _, port = self.listen[protocol].split("://")[1].rpartition(":")
        return host, int(port)

    def health(self):
        """What it says of itself; nothing if nobody answers."""
        with contextlib.suppress(ConnectionError):
            with socket.create_connection(self.place(), PATIENCE_SECONDS) as client:
                client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda: client.recv(4096), b""))
                return answer.partition(b"\r\n\r\n")[2].decode().strip()

    def await_health(self, patience=PATIENCE_SECONDS):
        """Asks it for its health until that is good. Returns all that it said before, and how long an answer took."""
        answers, slowest = [], 0.0
        while True:
            asked = time.monotonic()
            health = self.health()
            slowest = max(slowest, time.monotonic() - asked)
            if health == "ok":
                return answers, slowest
            if health:
                answers.append(health)
            self.check(self.started + patience)
            time.sleep(0.005)

    def counts(self):
        """How many jobs each queue holds, in whatever state."""
        with Lines(self.place()) as masenko:
            word, _, info = masenko.ask("INFO").partition(" ")
        if word != "OK":
            sys.exit(f"the server's answer to INFO was {word} {info}")
        queues = json.loads(info)["queues"]
        return {queue["name"]: queue["ready"] + queue["delayed"] + queue["to_ack"] for queue in queues}

    def memory_bytes(self):
        found = re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        return int(found[1]) * 1024

    def processor_seconds(self):
        """What all its threads together took of a processor."""
        return processor_seconds(self.process.pid)

    def waited_seconds(self):
        """How long its main thread could have run and did not, because others did."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[1]) / 1e9

    def segment_bytes(self):
        """How long all segments' files are together; spares are none."""
        total = 0
        for file in self.data.glob("[0-9]*.log"):
            with contextlib.suppress(FileNotFoundError):
                total += file.stat().st_size
        return total


class Lines:
    """A client of a protocol of lines."""

    def __init__(self, place):
        self.socket = socket.create_connection(place, PATIENCE_SECONDS)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def ask(self, line):
        self.socket.sendall(line.encode() + b"\n")
        return self.file.readline().decode().rstrip("\r\n")

    def job_centre(self, **request):
        return json.loads(self.ask(json.dumps(request)))


KEPT_QUEUE = "kept"


def put_kept(server, count):
    """Puts so many jobs of all sizes, which nobody will take. Returns their bodies by id."""
    draw, kept = random.Random(1), {}
    with Lines(server.place()) as client:
        for number in range(count):
            body = {"number": number, "fill": "x" * int(2 ** draw.uniform(0, 16))}
            answer = client.job_centre(request="put", queue=KEPT_QUEUE, job=body, pri=0)
            if answer["status"] != "ok":
                sys.exit(f"the server's answer to a put was {answer}")
            kept[answer["id"]] = body
    return kept


def check_kept(server, kept):
    """They are there with their bodies, and nothing else is."""
    counts = {queue: count for queue, count in server.counts().items() if count}
    if counts != {KEPT_QUEUE: len(kept)}:
        sys.exit(f"FAILED: after the start there should be {len(kept)} kept jobs and nothing else, not {counts}")
    # What a connection has taken is given back when it ends.
    with Lines(server.place()) as client:
        found = {}
        while (answer := client.job_centre(request="get", queues=[KEPT_QUEUE]))["status"] == "ok":
            found[answer["id"]] = answer["job"]
    if found != kept:
        wrong = [id for id in kept if found.get(id) != kept[id]]
        sys.exit(f"FAILED: {len(wrong)} of the {len(kept)} kept jobs are not as they were: {wrong}")


def bench(jobyard, url, *options):
    """Starts the load generator."""
    command = [jobyard, "bench", url, *map(str, options), "--json", "--timeout", str(PATIENCE_SECONDS)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def bench_result(process):
    """Waits for its end. Returns its figures."""
    out, errors = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(process.args)}: {errors.strip()}")
    return json.loads(out)


def run(main):
    """Runs a benchmark's main function; its result is the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.CalledProcessError as error:
        sys.exit(str(error))


def mib(size):
    return f"{size / (1 << 20):,.2f} MiB"


def say(text):
    """Shows what is being done, to whoever watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
