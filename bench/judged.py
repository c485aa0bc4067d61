"""What the figures of bench/compare must reach, and what they aim at."""

import statistics

from rivals import BEANSTALKD, ECHO, JOBYARD, MEMORY, SYNCED


def median_ratio(ours, theirs, key):
    """The median of the ratios within each repetition."""
    return statistics.median(our[key] / their[key] for our, their in zip(ours, theirs))


class Verdict:
    """A figure, and what it must be: at most so much, or at least."""

    def __init__(self, what, value, must, aim=None, at_most=False):
        self.what, self.value, self.must, self.aim, self.at_most = what, value, must, aim, at_most

    def reaches(self, bound):
        return self.value <= bound if self.at_most else self.value >= bound

    def word(self):
        if not self.reaches(self.must):
            return "FAILED"
        return "below its aim" if self.aim is not None and not self.reaches(self.aim) else "holds"


def verdicts(figures):
    """All that can be judged of these figures."""
    found = []
    for part, judge in JUDGES.items():
        if part in figures:
            found += judge(figures[part])
    return found


def holds(found):
    return all(verdict.word() != "FAILED" for verdict in found)


def text(found):
    lines = [f"{'':<72} {'':>9} {'must be':>10} {'aim':>10}"]
    for verdict in found:
        sign = "≤" if verdict.at_most else "≥"
        aim = "" if verdict.aim is None else f"{sign} {verdict.aim:g}"
        lines.append(f"{verdict.what:<72} {verdict.value:>9.3f} {f'{sign} {verdict.must:g}':>10} {aim:>10}  {verdict.word()}")
    return "\n".join(lines)


# --- the parts -------------------------------------------------------------------------------------------------------


def memory(figures):
    found = []
    for load, of_load in figures.items():
        ours, theirs, echo = of_load[JOBYARD], of_load[BEANSTALKD], of_load[ECHO]
        name = f"{load.connections:,} × {load.depth}"
        if load[:2] == (50, 1):
            ratio = median_ratio(ours, theirs, "server_us")
            found.append(Verdict(f"in memory, {name}: processor time of a request, to beanstalkd's", ratio, 0.75, 0.55, True))
        if load.depth == 1:
            share = median_ratio(ours, echo, "requests_per_second")
            found.append(Verdict(f"in memory, {name}: throughput, to the echo server's", share, 0.85, 0.95))
        elif load.depth in PIPELINED:
            ratio = median_ratio(ours, theirs, "requests_per_second")
            found.append(Verdict(f"in memory, {name}: throughput, to beanstalkd's", ratio, *PIPELINED[load.depth]))
    return found


PIPELINED = {16: (10, 15), 64: (20, 40)}


def synced(figures):
    bounds = {(1, 1): (0.9, 1.1), (10, 1): (2.5, 4), (50, 1): (6.5, 11), (1000, 1): (9.5, 16), (10, 64): (100, 160)}
    found = []
    for load, of_load in figures.items():
        ratio = median_ratio(of_load[JOBYARD], of_load[BEANSTALKD], "requests_per_second")
        name = f"{load.connections:,} × {load.depth}"
        found.append(Verdict(f"synced, {name}: throughput, to beanstalkd's with -f0", ratio, *bounds[load[:2]]))
    return found


def handover(figures):
    return [
        Verdict("hand-over: time of a job under way, to beanstalkd's",
                median_ratio(of_load[JOBYARD], of_load[BEANSTALKD], "p50_us"), 0.8, 0.5, True)
        for of_load in figures.values()
    ]  # fmt: skip


def counts(figures):
    found = []
    for (durability, load), of_load in figures.items():
        ours, name = of_load[JOBYARD], f"{load.connections:,} × {load.depth}"
        if durability == MEMORY:
            calls = {(50, 1): 3.1, (10, 64): 0.05}[load[:2]]
            found.append(Verdict(f"in memory, {name}: calls of the system for a request", ours["calls"], calls, None, True))
        if load[:2] == (50, 1):
            if durability == MEMORY:
                found.append(Verdict(f"in memory, {name}: switches for a request", ours["switches"], 0.02, None, True))
            if durability == SYNCED:
                found.append(Verdict(f"synced, {name}: syncs for a request", ours["syncs"], 0.1, 0.04, True))
    return found


def protocols(figures):
    found = []
    for load, of_load in figures.items():
        for protocol, ours in of_load.items():
            if protocol != BEANSTALKD:
                ratio = median_ratio(ours, of_load[BEANSTALKD], "server_us")
                name = f"in memory, {load.connections:,} × {load.depth}: processor time of a request of {protocol}, to beanstalkd's here"
                found.append(Verdict(name, ratio, 2 if protocol in ["jobcentre", "masenko"] else 1.3, None, True))
    return found


def idle(figures):
    return [Verdict("bytes of memory for an idle connection", figures[JOBYARD], 4_000, None, True)]


def jobs(figures):
    worst = max(of_number[JOBYARD] / of_number[BEANSTALKD] for of_number in figures.values())
    return [Verdict("memory of a waiting job, to beanstalkd's", worst, 0.8, 0.55, True)]


def recovery(figures):
    ratio = statistics.median(ours / theirs for ours, theirs in zip(figures[JOBYARD], figures[BEANSTALKD]))
    return [Verdict("recovery of a million jobs, to beanstalkd's", ratio, 0.65, 0.4, True)]


JUDGES = {
    "memory": memory, "synced": synced, "handover": handover, "counts": counts, "protocols": protocols, "idle": idle,
    "jobs": jobs, "recovery": recovery,
}  # fmt: skip
