"""The faults of scripts/chaos, one function each, and the lives of the server in between."""

import contextlib
import hashlib
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import threading
import time

import probes
import rough
from clients import Gone
from drain import Drain
from injection import COMMITTING, FATAL, INJECTIONS, Injection
from server import PATIENCE, SEGMENT_SIZES, NotStarted, Server, look, verify

COMMITS = ["loop", "thread"]
FAULTS = ["SIGKILL", "SIGKILL while starting", "SIGTERM", "second server", "SIGSTOP", "disk filled"]
DRAIN_SECONDS = 1
# What a busy machine may add to any time that the server has for something.
SLACK_SECONDS = 3
# Servers that a failing call had to end, and that did, by whose call it was.
HAD_TO_END = ["had to end: loop's call", "had to end: thread's call"]
LOAD_SECONDS = 0.8  # at most, before each fault
START_SECONDS = 0.05  # at most, before a start is killed
INJECTION_SECONDS = 4  # in which the call that is to fail should be made
INJECTION_TRIES = 3
END_SECONDS = 10  # in which a server must end whose disk has failed
RESUME_SECONDS = 5  # in which jobs are taken again once there is room
HALT_TRIES = 4
# How long it is stopped: every other time for longer than the shortest lease in whole seconds.
STOPS_SECONDS = [(1.5, 3.0), (0.2, 3.0)]
REST_SECONDS = 10  # in which the log gets short when nothing happens


def size_of(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


class Life:
    """One life of the server, and its load."""

    def __init__(self, server, places):
        self.server, self.places, self.threads = server, places, []
        # Set before anything is done of which the server may end.
        self.ending = threading.Event()

    def pid(self):
        return self.server.process.pid

    def signal(self, number):
        os.kill(self.pid(), number)

    def join(self):
        for thread in self.threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                raise SystemExit(f"the client {thread.name} hangs")
        self.threads = []


class Chaos:
    """The server's directory, and whoever uses it."""

    def __init__(self, binary, disk, work, ledger, seed, broken):
        self.binary, self.disk, self.work, self.ledger = binary, disk, pathlib.Path(work), ledger
        self.seed, self.broken = seed, broken
        self.data = disk.path / "data"
        self.life, self.lives, self.processes = None, 0, []
        self.fatal_plays, self.stops = 0, 0
        self.segment_size = random.Random(seed).choice(SEGMENT_SIZES)
        # The faults played, each with the number of the life that was there before.
        self.played = []

    def play(self, number, kind):
        """Plays one fault. All that is random in it follows from the seed and its number."""
        self.played.append(f"{kind} (after life {self.lives})")
        draw = random.Random(f"{self.seed} {number} {kind}")
        self.run(draw)
        if kind in INJECTIONS:
            return self.inject(kind, draw)
        {
            "SIGKILL": self.kill,
            "SIGKILL while starting": self.kill_while_starting,
            "SIGTERM": self.terminate,
            "second server": self.second_server,
            "SIGSTOP": self.stop,
            "disk filled": self.fill,
        }[kind](draw)
        self.ledger.count(kind)

    def close(self):
        """Ends every process that may still be there."""
        if self.life is not None:
            self.life.ending.set()
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(PATIENCE)

    # --- lives

    def options(self, draw, injected, commit):
        # On this disk a sync does nothing; how often it is done changes what is written when. What is to fail is done.
        fsync = "always" if injected else draw.choice(["always", "always", "always", "interval=20ms", "never"])
        # Now and then the log is written anew, in longer segments, for which there must be room beside it. In shorter ones,
        # batches of before might have to be longer than a segment.
        usage = shutil.disk_usage(self.disk.path)
        if draw.random() < 0.2 and usage.free > usage.used + (8 << 20):
            self.segment_size = draw.choice(SEGMENT_SIZES[SEGMENT_SIZES.index(self.segment_size) :])
        commit = commit or draw.choice(COMMITS)
        options = ["--data", str(self.data), "--fsync", fsync, "--commit", commit, "--segment-size", self.segment_size]
        # What the ledger takes for granted of leases.
        return [*options, "--drain-timeout", f"{DRAIN_SECONDS}s", "--default-lease", "10m"]

    def start_server(self, draw, before=(), commit=None):
        if self.broken:
            self.put_back()
        options = self.options(draw, bool(before), commit)
        self.server = server = Server(self.binary, options, [rough.HEARTBEAT_LISTENER], before, apart=True)
        self.processes = [process for process in self.processes if process.poll() is None]
        self.processes.append(server.process)
        self.ledger.count("starts")
        return server

    def put_back(self):
        """Puts the directory back to what it was a life ago, if the disk is not too full for that."""
        before, now = self.work / "before", self.work / "now"
        if now.exists():
            shutil.rmtree(before, ignore_errors=True)
            now.rename(before)
        if self.data.exists():
            shutil.copytree(self.data, now)
        if before.exists() and size_of(before) <= shutil.disk_usage(self.disk.path).free + size_of(self.data):
            shutil.rmtree(self.data)
            shutil.copytree(before, self.data)

    def begin(self, draw):
        """Starts the server and looks whether everything is there, before anything else happens."""
        server = self.start_server(draw)
        life = Life(server, server.places())
        try:
            look(life.places, self.ledger, draw)
        except Gone as gone:
            raise SystemExit(f"the server went away while everything was looked at:\n{server.said()}") from gone
        self.load(life)

    def load(self, life, has_reserve=True):
        self.lives += 1
        self.life = life

        def draw_for(worker):
            return random.Random(f"{self.seed} {worker}")

        life.threads = rough.start(self.lives, life.places, self.ledger, draw_for, life.ending, has_reserve)

    def run(self, draw):
        """Sees to it that the server runs, and lets the load go on for a while."""
        if self.life is None:
            self.begin(draw)
        if self.exited(draw.random() * LOAD_SECONDS):
            self.unexpected_end()

    def exited(self, seconds):
        """Whether the server ends within this time."""
        pidfd = os.pidfd_open(self.life.pid())
        try:
            return bool(select.select([pidfd], [], [], seconds)[0])
        finally:
            os.close(pidfd)

    def unexpected_end(self):
        life, self.life = self.life, None
        life.ending.set()
        code = life.server.wait()
        raise SystemExit(f"the server ended by itself with {code}:\n{life.server.said()}")

    def end(self, number, seconds=PATIENCE):
        """Ends the server with a signal. Returns it, its exit code and how long that took."""
        life, self.life = self.life, None
        life.ending.set()
        begun = time.monotonic()
        life.signal(number)
        try:
            code = life.server.wait(seconds)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"the server does not end {seconds} s after {signal.Signals(number).name}") from None
        took = time.monotonic() - begun
        life.join()
        return life.server, code, took

    def killed(self):
        server, code, _ = self.end(signal.SIGKILL)
        if code != -signal.SIGKILL:
            raise SystemExit(f"the server ended by itself with {code}:\n{server.said()}")
        self.ledger.count("ended by SIGKILL")
        return verify(self.binary, str(self.data), self.ledger)

    # --- the faults

    def kill(self, _draw):
        self.killed()

    def kill_while_starting(self, draw):
        self.killed()
        server = self.start_server(draw)
        with contextlib.suppress(subprocess.TimeoutExpired):
            # It should not end by itself.
            server.wait(draw.random() * START_SECONDS)
            raise SystemExit(f"the server did not start:\n{server.said()}")
        server.kill()
        self.ledger.count("ended by SIGKILL")
        verify(self.binary, str(self.data), self.ledger)

    def terminate(self, _draw):
        server, code, took = self.end(signal.SIGTERM, DRAIN_SECONDS + PATIENCE)
        if code != 0:
            raise SystemExit(f"told to stop, the server ended with {code}:\n{server.said()}")
        if took > DRAIN_SECONDS + SLACK_SECONDS:
            raise SystemExit(f"told to stop, the server took {took:.1f} s; its drain timeout is {DRAIN_SECONDS} s")
        self.ledger.count("ended by SIGTERM with 0")
        if "it was closed" not in verify(self.binary, str(self.data), self.ledger):
            self.ledger.say_wrong("unexpected", "a server that was told to stop has not closed its log")

    def second_server(self, draw):
        """The first may go on, or stand still so that the second one's changes would be seen."""
        still = draw.random() < 0.5
        if still:
            self.halt()
        try:
            before = fingerprints(self.data) if still else None
            second = Server(self.binary, ["--data", str(self.data)], apart=True)
            self.processes.append(second.process)
            with contextlib.suppress(NotStarted):
                second.places()
                raise SystemExit("a second server has started in the same directory")
            code = second.wait()
            if code <= 0 or "another server is using it" not in second.said():
                raise SystemExit(f"a second server ended with {code}:\n{second.said()}")
            if still and fingerprints(self.data) != before:
                self.ledger.say_wrong("unexpected", "a second server has changed the directory")
        finally:
            if still:
                self.life.signal(signal.SIGCONT)

    def halt(self):
        """Stops the server with SIGSTOP, and waits until it stands still."""
        self.life.signal(signal.SIGSTOP)
        deadline = time.monotonic() + PATIENCE
        tasks = pathlib.Path(f"/proc/{self.life.pid()}/task")
        while any(state(task) not in "TZX" for task in tasks.iterdir()):
            if time.monotonic() > deadline:
                raise SystemExit(f"the server runs {PATIENCE} s after SIGSTOP")
            time.sleep(0.001)

    def halt_with(self, leases):
        """Stops the server while all these leases run, if the machine is not too busy for that; when that was."""
        for tries_left in reversed(range(HALT_TRIES)):
            leases.take()
            self.halt()
            stopped = time.monotonic()
            if leases.run_at(stopped) or not tries_left:
                return stopped
            self.life.signal(signal.SIGCONT)

    def stop(self, draw):
        """While it stands still, leases would run out whose holders answer meanwhile."""
        seconds = draw.uniform(*STOPS_SECONDS[self.stops % len(STOPS_SECONDS)])
        self.stops += 1
        with probes.Leases(self.life, self.ledger, draw, seconds) as leases:
            stopped = self.halt_with(leases)
            try:
                time.sleep(draw.random() * seconds)
                leases.answer(stopped)
                time.sleep(max(0, stopped + seconds - time.monotonic()))
            finally:
                self.life.signal(signal.SIGCONT)
            leases.check()

    def fill(self, draw):
        """Fills the disk; perhaps kills the server, which must start again all the same; and frees the disk."""
        probe = probes.Room(self.life, self.ledger, draw)
        with probe:
            probe.take()
            self.disk.fill()
            probe.until_refused()
            probe.finish()
        if draw.random() < 0.4:
            self.killed()
            self.begin(draw)
        if self.exited(draw.random() * LOAD_SECONDS):
            self.unexpected_end()
        with probes.Room(self.life, self.ledger, draw) as probe:
            self.disk.free()
            probe.until_accepted(RESUME_SECONDS)

    def inject(self, kind, draw):
        """Has a call fail. Whether and when it is made is a matter of luck: then it is tried again."""
        draw.choice([self.kill, self.terminate])(draw)
        commit, was_made = self.commit_for(kind), False
        for _ in range(INJECTION_TRIES):
            failed = self.inject_once(kind, draw, commit).failed()
            if not failed:
                self.ledger.count("calls never made")
                continue
            was_made = True
            # During a start it is the main thread that writes.
            if commit != "thread" or any(call.name_of_thread == COMMITTING for call in failed):
                break
        if was_made:
            self.ledger.count(kind)

    def commit_for(self, kind):
        """Who appends to the log while calls fail, if that is not drawn. What must end the server is tried with each in
        turn, so that even a short run has both."""
        if kind not in FATAL:
            return None
        self.fatal_plays += 1
        return COMMITS[(self.seed + self.fatal_plays) % len(COMMITS)]

    def inject_once(self, kind, draw, commit):
        """Runs the server until the call fails, and as long as it can go on after that. Returns what was to fail."""
        # So that files are made ahead of need from the start, which is a part of what may fail.
        for spare in self.data.glob("spare-*.log"):
            spare.unlink()
        injection = Injection(kind, draw, str(self.work / "trace"))
        self.played[-1] += f", {injection.text}"
        server = self.start_server(draw, injection.before, commit)
        try:
            life = Life(server, server.places())
        except NotStarted:
            self.check_injected(injection, server, server.wait(), "did not start")
            return injection
        life.ending.set()
        self.load(life, has_reserve=False)
        deadline = time.monotonic() + INJECTION_SECONDS
        while not self.exited(0.05) and not injection.hits() and time.monotonic() < deadline:
            pass
        ended = self.exited(0 if injection.fatal() else draw.random() * LOAD_SECONDS)
        if not ended and injection.fatal() and not self.exited(END_SECONDS):
            raise SystemExit(f"{injection.text}: the server goes on after {injection.hits()}")
        # One that has not ended so far may do so before it is killed.
        _, code, _ = self.end(signal.SIGKILL)
        if code == -signal.SIGKILL:
            self.ledger.count("ended by SIGKILL")
            verify(self.binary, str(self.data), self.ledger)
        else:
            self.check_injected(injection, server, code, "ended by themselves")
        return injection

    def check_injected(self, injection, server, code, how):
        """A server that ended by itself says why, and said nothing else once it could not keep its word."""
        self.ledger.count(how)
        deadline = time.monotonic() + PATIENCE
        while not injection.is_over(server.process.pid):
            if time.monotonic() > deadline:
                raise SystemExit(f"the trace of a server that has ended is not whole:\n{server.said()}")
            time.sleep(0.005)
        hits = injection.hits()
        if not hits or code <= 0 or code == 101 or "error" not in server.said():
            raise SystemExit(f"{injection.text}: after {hits} the server ended with {code}:\n{server.said()}")
        if fatal := injection.fatal():
            self.ledger.count(HAD_TO_END[fatal.name_of_thread == COMMITTING])
        if said := injection.said_after(server.process.pid):
            self.ledger.say_wrong("said too much", f"{injection.text}: {said} answers after {hits}")
        verify(self.binary, str(self.data), self.ledger)

    # --- the end

    def last_look(self):
        """Everything once more, with nobody else there; and the log must get as short as it should be."""
        if self.life is not None:
            self.killed()
        if self.ledger.wrong and not self.broken:
            return
        draw = random.Random(f"{self.seed} last")
        server = self.start_server(draw)
        self.life = Life(server, server.places())
        look(self.life.places, self.ledger, draw, ended_max=None)
        deadline = time.monotonic() + REST_SECONDS
        while "the log is as short as it should be" not in (stats := self.stats()):
            if time.monotonic() > deadline:
                self.ledger.say_wrong("unexpected", f"the log is too long after {REST_SECONDS} s of rest:\n{stats}")
                break
            time.sleep(0.1)
        Drain(self.life.places, self.ledger).run()
        self.terminate(draw)

    def stats(self):
        command = [self.binary, "log", "stats", str(self.data)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        return ended.stdout + ended.stderr


def state(task):
    """What a thread does, in a letter; X if it is gone."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def fingerprints(directory):
    """What tells whether anything in a directory was changed."""
    found = {}
    for path in directory.iterdir():
        about = path.stat()
        digest = hashlib.blake2b(path.read_bytes()).hexdigest()
        found[path.name] = (about.st_ino, about.st_size, about.st_mtime_ns, digest)
    return found
