"""System calls that fail as they are told to: the server under strace, and what its trace says."""

import contextlib
import pathlib
import re
import shutil
import typing

# The kind of fault; the calls; what becomes of them; the first and the last call of a thread that may fail. strace
# counts the calls of each thread for itself, and those before the program's own are not meant. A write of nothing is
# the one short write that strace can make: what it answers instead of the kernel is not done.
ERRORS = ["error=EIO", "error=ENOSPC"]
INJECTIONS = {
    "sync fails": ("fdatasync", ERRORS, 1, 60),
    "write fails": ("pwrite64", ERRORS, 2, 80),
    "write of nothing": ("pwrite64", ["retval=0"], 2, 80),
    "open fails": ("openat", ERRORS, 3, 40),
    "rename fails": ("?rename,?renameat,renameat2", ERRORS, 1, 3),
    "fallocate fails": ("fallocate", ERRORS, 1, 1),
    "fsync fails": ("fsync", ERRORS, 1, 4),
    "read fails": ("pread64", ["error=EIO"], 3, 12),
}
# Of these nearly every one hits whoever appends to the log, and must end the server.
FATAL = ["sync fails", "write fails", "write of nothing"]
ANSWERS = {"sendto", "sendmsg", "writev"}
# How who answers waits, and how another thread tells it that there is something to know.
WAITS, TELLS = {"epoll_wait", "epoll_pwait"}, {"write"}
# What the threads are called.
COMMITTING, PREPARING = "commit", "prepare"


class Call(typing.NamedTuple):
    """One line of the trace: a call that is over, or one that is not yet."""

    thread: str
    name_of_thread: str
    name: str
    target: str
    outcome: str  # nothing if it is not over

    def failed(self):
        return self.outcome.endswith("(INJECTED)")

    def must_end(self):
        """Whether it was made to fail, and the server may not go on after that, whichever thread it was."""
        if not self.failed() or self.name_of_thread == PREPARING:
            # Files that are made ahead of need can wait: another thread makes them part of the log.
            return False
        if self.name == "pwrite64":
            # For a manifest there may be room once a spare is given up. Who uses the directory is not needed.
            is_manifest = self.target.endswith("/manifest.new")
            return self.target.endswith(".log") or is_manifest and "ENOSPC" not in self.outcome
        # After a sync that failed, of a file or of the directory, nobody knows what is there.
        return self.name in ["fdatasync", "fsync"]


class Injection:
    """One fault of one life of the server."""

    def __init__(self, kind, draw, trace):
        if shutil.which("strace") is None:
            raise SystemExit("strace is missing: on Debian, apt-get install strace")
        calls, effects, first, last = INJECTIONS[kind]
        self.trace = trace
        # That of another life.
        with contextlib.suppress(FileNotFoundError):
            pathlib.Path(trace).unlink()
        self.text = f"inject={calls}:{draw.choice(effects)}:when={draw.randrange(first, last + 1)}"
        others = ",".join(sorted([*ANSWERS, *TELLS, *(f"?{name}" for name in WAITS)]))
        # -D keeps the server our own child; -y tells files by their names, -Y threads.
        self.before = ["strace", "-D", "-f", "-y", "-Y", "-s", "8", "-o", trace]
        self.before += ["-e", f"trace={calls},{others}", "-e", self.text]

    def calls(self):
        """The calls in the order in which strace saw them. One that another thread's call interrupts comes twice: when
        it begins and when it is over."""
        begun = {}
        for line in self.lines():
            found = re.match(r"(\d+)<([^>]*)>\s+(<\.\.\. )?(\w+)[( ]", line)
            if not found:
                continue
            thread, name_of_thread, resumed, name = found.groups()
            target = begun.pop(thread, "") if resumed else (re.search(r"<([^>]*)>", line[found.end() :]) or ["", ""])[1]
            outcome = ""
            if line.endswith("<unfinished ...>"):
                begun[thread] = target
            else:
                outcome = line.rpartition(" = ")[2]
            yield Call(thread, name_of_thread, name, target, outcome)

    def lines(self):
        """The lines of the trace that are whole."""
        try:
            text = pathlib.Path(self.trace).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        return text.split("\n")[:-1]

    def failed(self):
        """What was made to fail."""
        # It is asked for often, and there are many lines.
        if not any(line.endswith("(INJECTED)") for line in self.lines()):
            return []
        return [call for call in self.calls() if call.failed()]

    def hits(self):
        """What was made to fail, in words."""
        return [f"{call.name} of {call.target or 'a file'}, by {call.name_of_thread}" for call in self.failed()]

    def fatal(self):
        """Of what was made to fail, the first after which the server must end."""
        return next((call for call in self.failed() if call.must_end()), None)

    def said_after(self, pid):
        """How many answers left once who answers must have known of a fatal failure: of a call of its own at once, of
        another thread's when it has looked around after that was told."""
        failed, told, known, count = None, False, False, 0
        for call in self.calls():
            is_own, is_over = call.thread == str(pid), bool(call.outcome)
            if known:
                count += is_own and is_over and call.name in ANSWERS and not call.outcome.startswith("-1 ")
            elif failed is None:
                failed = call.thread if call.must_end() else None
                known = failed == str(pid)
            elif told:
                known = is_own and is_over and call.name in WAITS
            else:
                # It is told before the call that wakes has begun.
                told = call.thread == failed and call.name in TELLS and "eventfd" in call.target
        return count

    def is_over(self, pid):
        """Whether the trace is whole."""
        return any(re.match(rf"{pid}<[^>]*>\s+\+\+\+", line) for line in self.lines())
