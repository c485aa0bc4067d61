"""System calls that fail as they are told to: the server under strace, and what its trace says."""

import contextlib
import pathlib
import re
import shutil

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
ANSWERS = {"sendto", "sendmsg", "writev"}
# After these the server may not go on, if it was a segment that was written. For a manifest it may find room on a full
# disk by giving up a spare; files that a thread makes ahead of need can wait; who uses the directory is not needed.
FATAL = {"pwrite64", "fdatasync"}


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
        answers = ",".join(sorted(ANSWERS))
        # -D keeps the server our own child; -y tells files by their names.
        self.before = ["strace", "-D", "-f", "-y", "-s", "8", "-o", trace]
        self.before += ["-e", f"trace={calls},{answers}", "-e", self.text]

    def calls(self):
        """Thread, name, file, whether it was made to fail, and whether it did anything, of each finished call."""
        begun = {}
        for line in self.lines():
            thread, _, rest = line.strip().partition(" ")
            found = re.match(r"\s*(<\.\.\. )?(\w+)[( ]", rest)
            if not found:
                continue
            name = found[2]
            target = begun.pop(thread, "") if found[1] else (re.search(r"<([^>]*)>", rest) or ["", ""])[1]
            if rest.endswith("<unfinished ...>"):
                begun[thread] = target
            else:
                yield thread, name, target, rest.endswith("(INJECTED)"), " = -1 " not in rest

    def lines(self):
        """The lines of the trace that are whole."""
        try:
            text = pathlib.Path(self.trace).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        return text.split("\n")[:-1]

    def hits(self):
        """What was made to fail, in words."""
        return [f"{name} of {target or 'a file'}" for _, name, target, injected, _ in self.calls() if injected]

    def is_fatal(self, pid):
        """Whether one of them is such that the server must end."""
        return any(injected and fatal(pid, *call) for *call, injected, _ in self.calls())

    def said_after(self, pid):
        """How many answers left after a failure that is fatal."""
        failed, count = False, 0
        for thread, name, target, injected, done in self.calls():
            failed = failed or injected and fatal(pid, thread, name, target)
            count += failed and done and thread == str(pid) and name in ANSWERS
        return count

    def is_over(self, pid):
        """Whether the trace is whole."""
        return any(line.split()[:2] == [str(pid), "+++"] for line in self.lines())


def fatal(pid, thread, name, target):
    return thread == str(pid) and name in FATAL and target.endswith(".log")
