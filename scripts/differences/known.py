"""The differences that are known: differences.txt, one paragraph each, as it says itself."""

import re
from dataclasses import dataclass

NAMES = ("name", "reason", "request", "beanstalkd", "other", "within", "ends")


@dataclass
class Entry:
    name: str
    reason: str
    request: str
    beanstalkd: str
    other: str
    within: str = ""
    ends: str = ""
    times: int = 0

    def covers(self, request, ours, theirs):
        """Is this what beanstalkd and the other server may say to the request?"""
        first, second = re.fullmatch(self.beanstalkd, ours), re.fullmatch(self.other, theirs)
        if not (re.fullmatch(self.request, request) and first and second):
            return False
        return not self.within or abs(int(first[1]) - int(second[1])) <= int(self.within)


class Known:
    def __init__(self, path):
        text = re.sub(r"(?m)^#.*\n", "", path.read_text())
        self.entries = [read_entry(paragraph) for paragraph in re.split(r"\n{2,}", text.strip("\n"))]

    def explain(self, request, ours, theirs):
        """The entries that explain why two replies differ, line by line or as a whole; none if they do not."""
        pairs = [(ours, theirs)]
        if ours.count("\n") == theirs.count("\n"):
            pairs = [pair for pair in zip(ours.split("\n"), theirs.split("\n"), strict=True) if pair[0] != pair[1]]
        found = [next((entry for entry in self.entries if entry.covers(request, *pair)), None) for pair in pairs]
        if None in found:
            return []
        for entry in found:
            entry.times += 1
        return found


def read_entry(paragraph):
    values = dict(line.split(": ", 1) for line in paragraph.splitlines())
    if unknown := set(values) - set(NAMES):
        raise SystemExit(f"differences.txt: there is no {', '.join(unknown)}: {paragraph}")
    return Entry(**values)
