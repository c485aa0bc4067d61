"""Reads a transcript of beanstalkd (docs/transcripts.md) into steps, as beanstalkd 1.12 would have said it.

Transcripts are written in the form of 1.13, which quotes what is text in statistics; 1.12 does not.
"""

import contextlib
import re

LINE_END = "\\r\\n"
SAYS = re.compile(r"([a-z0-9_-]+)(<<|<|>>|>)(?: (.*))?")
ESCAPES = [r"(?P<letter>[nrt0\\])", r"x(?P<byte>[0-9a-fA-F]{2})", r"(?P<any>\?)"]
ESCAPES += [r"\*(?P<count>\d+)\((?P<text>[^)]*)\)"]
ESCAPE = re.compile(rf"\\(?:{'|'.join(ESCAPES)})")
LETTERS = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# What Jobyard can do and beanstalkd cannot.
JOBYARD_ONLY = ["clock", "disk", "stop"]
LIMITS = ["body_bytes_max", "memory_bytes_max"]
JOBYARD_ALONE = "# Not so in the original: "
# A line of statistics with a text that 1.12 does not quote, and the line before them, which has their size.
QUOTED = re.compile(r'(?:^|(?<=\\n)|(?<=\\\?))((?:name|tube|hostname|os|platform): )"([^"]*)"(?=\\n)')
PAGE = re.compile(r"OK (\d+|\\\?)(?=\\r\\n)")
QUOTES_BYTES = 2


class Wrong(Exception):
    """A transcript does not hold: a line makes no sense, what came is not what was expected, or the server is stuck."""


class NotForOriginal(Exception):
    """The transcript holds for Jobyard only, or a line needs what only Jobyard has. Says why."""


@contextlib.contextmanager
def in_line(number):
    """What goes wrong here is said with the number of the line."""
    try:
        yield
    except Wrong as wrong:
        raise Wrong(f"{number}: {wrong}") from None


class Transcript:
    """Its limits by name, and its steps: the number of the line, and what it says as a tuple."""

    def __init__(self, path):
        self.limits, self.steps = {}, []
        # By client: the step with the size of the statistics that are being expected.
        self.pages = {}
        self.number = 0
        for self.number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            with in_line(self.number):
                self.read_line(line)
        if not self.steps:
            raise Wrong("1: nothing happens in this transcript")
        self.steps = [(number, compiled(number, step)) for number, step in self.steps]

    def read_line(self, line):
        if line.startswith(JOBYARD_ALONE):
            raise NotForOriginal(line.removeprefix(JOBYARD_ALONE))
        if not line or line.startswith("#"):
            return
        if line[-1] in " \t":
            raise Wrong("a blank at the end of the line cannot be seen: write it as '\\x20' or '\\t'")
        if says := SAYS.fullmatch(line):
            self.read_says(*says.groups(default=""))
        else:
            self.read_directive(line.partition(" #")[0].split())

    def read_says(self, client, arrow, text):
        """`alice> text` and its kin."""
        if len(arrow) == 1:
            text += LINE_END
        if arrow[0] == ">":
            self.add("send", client, text)
            return
        if PAGE.match(text):
            self.pages[client] = len(self.steps)
        self.add("expect", client, text)
        self.remove_quotes(client, text)

    def remove_quotes(self, client, text):
        """Of the step that was added last. The size that was said before becomes smaller by them."""
        bare, count = QUOTED.subn(r"\1\2", text)
        if not count:
            return
        if client not in self.pages:
            raise Wrong("no 'OK <size>' comes before these statistics")
        self.steps[-1] = (self.number, ("expect", client, bare))
        at = self.pages[client]
        number, (_, _, page) = self.steps[at]
        self.steps[at] = (number, ("expect", client, PAGE.sub(lambda size: smaller(size, count), page, count=1)))

    def read_directive(self, words):
        match words:
            case ["limits", *limits]:
                self.limits.update(map(read_limit, limits))
            case ["open", client, "beanstalkd"]:
                self.add("open", client)
            case ["wait", duration]:
                self.add("wait", read_duration(duration))
            case ["restart" | "crash" | "drain" as event]:
                self.add(event)
            case [client, "closed" | "ends" | "leaves" as event]:
                self.add(event, client)
            case ["open", _, listener]:
                raise NotForOriginal(f"beanstalkd does not have a listener '{listener}'")
            case [word, *_] if word in JOBYARD_ONLY:
                raise NotForOriginal(f"beanstalkd does not have '{word}'")
            case _:
                raise Wrong(f"unknown directive '{' '.join(words)}'")

    def add(self, *step):
        self.steps.append((self.number, step))

    def needs_log(self):
        return any(step[0] in ["restart", "crash"] for _, step in self.steps)


def smaller(size, quoted):
    return size[0] if size[1] == "\\?" else f"OK {int(size[1]) - QUOTES_BYTES * quoted}"


def compiled(number, step):
    """What is sent as bytes, what is expected as a pattern, and the text of it; all else as it is."""
    with in_line(number):
        match step:
            case ["expect", client, text]:
                # As few bytes as will do between the parts.
                return "expect", client, re.compile(b".*?".join(map(re.escape, unescape(text))), re.DOTALL), text
            case ["send", client, text]:
                parts = unescape(text)
                if len(parts) > 1:
                    raise Wrong("only expectations may hold '\\?'")
                return "send", client, parts[0]
    return step


def unescape(text):
    """The bytes that a text stands for. At each `\\?` a new part begins."""
    parts = [b""]
    while text:
        plain, backslash, rest = text.partition("\\")
        parts[-1] += plain.encode()
        escape = ESCAPE.match(backslash + rest)
        if backslash and not escape:
            raise Wrong(f"unknown escape '{backslash}{rest[:1]}'")
        if escape and escape["any"]:
            parts.append(b"")
        elif escape:
            parts[-1] += escaped_bytes(escape)
        text = escape.string[escape.end() :] if escape else ""
    return parts


def escaped_bytes(escape):
    if escape["letter"]:
        return LETTERS[escape["letter"]]
    if escape["byte"]:
        return bytes.fromhex(escape["byte"])
    repeated = unescape(escape["text"])
    if len(repeated) > 1:
        raise Wrong("a repetition cannot hold '\\?'")
    return repeated[0] * int(escape["count"])


def read_limit(limit):
    name, _, number = limit.partition("=")
    if name not in LIMITS:
        raise NotForOriginal(f"beanstalkd does not have the limit '{name}'")
    return name, int(number)


def read_duration(duration):
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", duration)
    if not found:
        raise Wrong(f"'{duration}' is no duration")
    return int(found[1]) * MILLISECONDS[found[2]]
