"""The differences that are known: differences.txt, one paragraph each, as it says itself."""

import re
from dataclasses import dataclass

NAMES = ("name", "reason", "request", "beanstalkd", "other", "within", "same", "whole", "shuffled", "ends")
# What must have been the case.
CASES = ("murky", "unfinished", "elsewhere", "waiting", "better")
NAMES += (*CASES, "after")


@dataclass
class Entry:
    name: str
    reason: str
    request: str
    beanstalkd: str
    other: str
    within: str = ""
    same: str = ""
    whole: str = ""
    shuffled: str = ""
    ends: str = ""
    murky: str = ""
    unfinished: str = ""
    elsewhere: str = ""
    waiting: str = ""
    better: str = ""
    after: str = ""

    def covers(self, asked, ours, theirs):
        """Is this what beanstalkd and the other server may say?"""
        first, second = re.fullmatch(self.beanstalkd, ours), re.fullmatch(self.other, theirs)
        if not (re.fullmatch(self.request, asked.request) and first and second):
            return False
        if self.within and abs(int(first[1]) - int(second[1])) > int(self.within):
            return False
        if self.same and "".join(first.groups()) != "".join(second.groups()):
            return False
        if self.shuffled and sorted(ours.split("\n")) != sorted(theirs.split("\n")):
            return False
        if any(getattr(self, case) and not getattr(asked, case) for case in CASES):
            return False
        return not self.after or any(re.fullmatch(self.after, done) for done in asked.after)


@dataclass
class Asked:
    """What two replies answer, and what was the case then; differences.txt has the words."""

    request: str
    after: list[str]
    murky: bool
    unfinished: bool
    elsewhere: bool
    waiting: bool
    better: bool


class Known:
    def __init__(self, path):
        text = re.sub(r"(?m)^#.*\n", "", path.read_text())
        self.entries = [read_entry(paragraph) for paragraph in re.split(r"\n{2,}", text.strip("\n"))]

    def explain(self, asked, ours, theirs):
        """The entries that explain why two replies differ, as a whole or line by line; none if they do not."""
        found = [self.find(asked, True, ours, theirs)]
        if None in found and ours.count("\n") == theirs.count("\n"):
            pairs = zip(ours.split("\n"), theirs.split("\n"), strict=True)
            found = [self.find(asked, False, *pair) for pair in pairs if pair[0] != pair[1]]
        return [] if None in found else found

    def find(self, asked, whole, ours, theirs):
        fit = (entry for entry in self.entries if bool(entry.whole) == whole and entry.covers(asked, ours, theirs))
        return next(fit, None)


def read_entry(paragraph):
    values = dict(re.split(": ?", line, maxsplit=1) for line in paragraph.splitlines())
    if unknown := set(values) - set(NAMES):
        raise SystemExit(f"differences.txt: there is no {', '.join(unknown)}: {paragraph}")
    return Entry(**values)
