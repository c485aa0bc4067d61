"""What bench/compare found, as text for who watches, and as bench/RESULTS.md."""

import os
import platform
import re
import statistics
import time
from pathlib import Path

import judged
import plots
from rivals import BEANSTALKD, ECHO, JOBYARD, REDIS

HERE = Path(__file__).resolve().parent
PAGE, PLOTS = HERE / "RESULTS.md", HERE / "plots"


def shown(load):
    """What a load is called."""
    return f"{load.connections:,} × {load.depth}" + (", one processor" if load.one_processor else "")


def spread(values, form="{:,.2f}"):
    least, middle, most = (form.format(value) for value in [min(values), statistics.median(values), max(values)])
    return f"{middle} ({least}–{most})"


def ratios(ours, theirs, key):
    return [our[key] / their[key] for our, their in zip(ours, theirs)]


# --- tables ----------------------------------------------------------------------------------------------------------


def of_loads(figures):
    """A row for each load and server."""
    rows = [["connections × depth", "server", "requests/s", "to beanstalkd", "to the echo server", "server µs/request", "p50 µs", "p99 µs"]]
    for load, of_load in figures.items():
        for name, ours in sorted(of_load.items(), key=lambda item: [JOBYARD, BEANSTALKD, REDIS, ECHO].index(item[0])):
            to = lambda other: spread(ratios(ours, of_load[other], "requests_per_second")) if other in of_load and other != name else ""
            middle = lambda key, form: form.format(statistics.median(one[key] for one in ours))
            rows.append([
                shown(load), name, middle("requests_per_second", "{:,.0f}"), to(BEANSTALKD), to(ECHO),
                middle("server_us", "{:.2f}"), middle("p50_us", "{:,.0f}"), middle("p99_us", "{:,.0f}"),
            ])  # fmt: skip
    return rows


def of_handovers(figures):
    rows = [["server", "p50 µs", "p99 µs", "p50 to beanstalkd"]]
    for of_load in figures.values():
        for name, ours in of_load.items():
            to = spread(ratios(ours, of_load[BEANSTALKD], "p50_us")) if name != BEANSTALKD else ""
            rows.append([name, spread([one["p50_us"] for one in ours], "{:.1f}"), spread([one["p99_us"] for one in ours], "{:.1f}"), to])
    return rows


def of_counts(figures):
    rows = [["kept", "connections × depth", "server", "calls/request", "switches/request", "syncs/request"]]
    for (durability, load), of_load in figures.items():
        for name, ours in of_load.items():
            rows.append([durability, shown(load), name, *(f"{ours[key]:.4f}" for key in ["calls", "switches", "syncs"])])
    return rows


def of_protocols(figures):
    rows = [["connections × depth", "protocol", "requests/s", "server µs/request", "to beanstalkd's protocol"]]
    for load, of_load in figures.items():
        for name, ours in of_load.items():
            rate, cost = (statistics.median(one[key] for one in ours) for key in ["requests_per_second", "server_us"])
            rows.append([shown(load), name, f"{rate:,.0f}", f"{cost:.2f}", spread(ratios(ours, of_load[BEANSTALKD], "server_us"))])
    return rows


def of_idle(figures):
    return [["server", "bytes for an idle connection"], *([name, f"{size:,.0f}"] for name, size in figures.items())]


def of_jobs(figures):
    rows = [["jobs", "server", "bytes of memory for each", "to beanstalkd"]]
    for number, of_number in figures.items():
        for name, size in of_number.items():
            rows.append([f"{number:,}", name, f"{size:,.0f}", f"{size / of_number[BEANSTALKD]:.2f}"])
    return rows


def of_growth(figures):
    few, many = figures
    rows = [["server", f"µs/request with {few:,}", f"with {many:,}", "growth"]]
    for name in figures[few]:
        costs = [statistics.median(one["server_us"] for one in figures[number][name]) for number in [few, many]]
        rows.append([name, *(f"{cost:.2f}" for cost in costs), spread(ratios(figures[many][name], figures[few][name], "server_us"))])
    return rows


def of_recovery(figures):
    rows = [["server", "seconds", "to beanstalkd"]]
    for name, ours in figures.items():
        rows.append([name, spread(ours), spread([our / their for our, their in zip(ours, figures[BEANSTALKD])])])
    return rows


TABLES = {
    "memory": of_loads, "synced": of_loads, "handover": of_handovers, "counts": of_counts, "protocols": of_protocols,
    "idle": of_idle, "jobs": of_jobs, "growth": of_growth, "recovery": of_recovery,
}  # fmt: skip


def text(part, figures):
    """A table for who watches."""
    rows = TABLES[part](figures)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths)) for row in rows) + "\n"


# --- the page --------------------------------------------------------------------------------------------------------

HEADINGS = {
    "memory": "Put, take and finish, nothing kept on disk",
    "synced": "Put, take and finish, every answer synced",
    "handover": "From a put to the one who waits, nothing kept, one processor for all",
    "counts": "Calls of the system, switches and syncs",
    "protocols": "The other protocols, nothing kept",
    "idle": "Idle connections",
    "jobs": "Memory of a waiting job of 100 bytes",
    "growth": "A request while few and many jobs wait in the same queue, 10 × 16, nothing kept",
    "recovery": "From a start to the first answer, with a million jobs to be read back",
}


def write(figures, verdicts, versions, arguments):
    """Writes the page and its plots."""
    PLOTS.mkdir(exist_ok=True)
    lines = [
        "# Jobyard beside others",
        "",
        "What `bench/compare` wrote: it starts all servers on one machine, with the same durability, and measures them by turns.",
        "Ratios are of the same repetition; figures are medians, with the least and the most. Bodies have 100 bytes. Each server has a",
        "processor, and the load another, but where it says \"one processor\". An echo server, which only says again what it hears, shows",
        "what the machine and the load allow: where Jobyard comes near it, one cannot see how much faster it could be, and what it takes",
        "of its processor (µs/request) says more. Redis keeps a reliable queue with LPUSH, LMOVE and LREM; its job is known by its body.",
        "",
        f"{', '.join(versions.values())}; {machine()}; {arguments.repetitions} repetitions of {arguments.seconds:g} s;",
        f"{time.strftime('%Y-%m-%d')}.",
        "",
        "## What it must reach, and aims at",
        "",
        *table([["", "is", "must be", "aim", ""], *map(judged_row, verdicts)]),
    ]
    for part, found in figures.items():
        lines += ["", f"## {HEADINGS[part]}", ""]
        if plot := plots.plot(part, found):
            (PLOTS / f"{part}.svg").write_text(plot)
            lines += [f"![{HEADINGS[part]}](plots/{part}.svg)", ""]
        lines += table(TABLES[part](found))
    PAGE.write_text("\n".join(lines) + "\n")
    (PLOTS / "overview.svg").write_text(plots.overview(figures))
    print(f"written: {PAGE.relative_to(HERE.parent)}")


def judged_row(verdict):
    sign = "≤" if verdict.at_most else "≥"
    aim = "" if verdict.aim is None else f"{sign} {verdict.aim:g}"
    return [verdict.what, f"{verdict.value:.3g}", f"{sign} {verdict.must:g}", aim, verdict.word()]


def table(rows):
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return [head, "|" + "---|" * len(rows[0]), *body]


def machine():
    cpu = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} × {cpu[1] if cpu else platform.machine()}, Linux {platform.release().split('-')[0]}"
