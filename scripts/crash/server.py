"""The real binary with all protocols, on free ports: started, waited for, ended; and what is asked after a start."""

import os
import pathlib
import selectors
import subprocess
import tempfile
import time

from clients import PROTOCOLS, Beanstalkd, Workq

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PATIENCE = 60  # seconds that a start, or an end, may take
SEGMENT_SIZES = ["64KiB", "256KiB", "1MiB"]  # small ones are changed often
LISTEN = [f"{protocol}://127.0.0.1:0" for protocol in PROTOCOLS]


def find_binary():
    """The release build."""
    binary = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "jobyard"
    if not binary.exists():
        raise SystemExit(f"{binary} is not there: cargo build --release -p jobyard")
    return str(binary)


class NotStarted(SystemExit):
    """It ended, or said nothing for too long, before it said where it listens. If not expected, the script ends."""


class Server:
    """One life of the server. `before` is a command that runs it, if it is not run directly; if it is `apart`, the
    terminal's Ctrl-C is not for it."""

    def __init__(self, binary, options, listen=(), before=(), apart=False):
        command = [*before, binary, "serve", "--log-level", "warn"]
        self.listen = [*LISTEN, *listen]
        for address in self.listen:
            command += ["--listen", address]
        self.log = tempfile.TemporaryFile()
        self.output = b""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": self.log}
        self.process = subprocess.Popen([*command, *options], **pipes, start_new_session=apart)

    def places(self):
        """Where each protocol is spoken, once the server says so. An address with options has them in its key."""
        deadline = time.monotonic() + PATIENCE
        places = {}
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while len(places) < len(self.listen):
                if not selector.select(deadline - time.monotonic()):
                    raise NotStarted(f"the server said nothing for {PATIENCE} s:\n{self.said()}")
                part = os.read(self.process.stdout.fileno(), 1 << 16)
                if not part:
                    raise NotStarted(f"the server did not start:\n{self.said()}")
                self.output += part
                places = self.heard()
        return places

    def heard(self):
        places = {}
        for line in self.output.decode().splitlines(keepends=True):
            word, _, address = line.strip().partition(" on ")
            if word == "listening" and line.endswith("\n"):
                protocol, _, place = address.partition("://")
                place, _, options = place.partition("?")
                host, _, port = place.rpartition(":")
                places[f"{protocol}?{options}" if options else protocol] = (host, int(port))
        return places

    def kill(self):
        self.process.kill()
        return self.wait()

    def wait(self, seconds=PATIENCE):
        """Its exit code, once it has ended."""
        self.process.wait(seconds)
        self.process.stdout.close()
        return self.process.returncode

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")


def verify(binary, data, ledger):
    """Whatever ended the server, the log is not damaged. Returns what `jobyard log verify` says."""
    command = [binary, "log", "verify", data]
    verified = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    ledger.counts["logs verified"] += 1
    if verified.returncode != 0:
        ledger.say_wrong("unexpected", f"the log is damaged:\n{verified.stdout}{verified.stderr}")
    return verified.stdout


def look(places, ledger, draw, ended_max=500):
    """After a start: is everything as it was promised? Of those that had ended before the last look, at most so many are
    looked up once more; all if that is None."""
    client, tubes = Workq(places["workq"]), Beanstalkd(places["beanstalkd"])
    ledger.look(client, tubes, draw, ended_max)
    client.close()
    tubes.close()
