"""Plots as SVG: bars, a group for each load and one for each server, with their figures beside them."""

import math
import statistics

from rivals import BEANSTALKD, ECHO, JOBYARD, REDIS

COLOURS = {JOBYARD: "#1b7f5c", BEANSTALKD: "#b58a3c", REDIS: "#a8473f", ECHO: "#9aa3ab"}
ORDER = [JOBYARD, BEANSTALKD, REDIS, ECHO]
LEFT, BAR, GAP, WIDTH, RIGHT = 190, 15, 12, 380, 110
FONT = 'font-family="system-ui, sans-serif" font-size="12"'


def medians(of_load, key):
    return {name: statistics.median(one[key] for one in ours) for name, ours in of_load.items()}


def label(load):
    return f"{load.connections:,} × {load.depth}" + (" on one" if load.one_processor else "")


def groups_of(part, figures):
    """What is plotted: a title, groups of bars by server, how figures are written, and whether each doubling is as wide as the
    next."""
    if part in ["memory", "synced"]:
        groups = {label(load): medians(of_load, "requests_per_second") for load, of_load in figures.items()}
        kept = "nothing kept on disk" if part == "memory" else "every answer synced"
        return f"Requests a second, {kept} (connections × depth, logarithmic)", groups, thousands, True
    if part == "handover":
        return "From a put to the one who waits, µs (p50)", {"": medians(*figures.values(), "p50_us")}, "{:.1f}".format, False
    if part == "counts":
        groups = {
            f"{durability}, {label(load)}": {name: ours["calls"] for name, ours in of_load.items()}
            for (durability, load), of_load in figures.items()
        }
        return "Calls of the system for a request", groups, "{:.3f}".format, False
    if part == "protocols":
        groups = {f"{name}, {label(load)}": {JOBYARD: value} for load, of_load in figures.items() for name, value in medians(of_load, "server_us").items()}
        return "Processor time of a request in Jobyard, µs", groups, "{:.2f}".format, False
    if part == "idle":
        return "Bytes of memory for an idle connection", {"": figures}, "{:,.0f}".format, False
    if part == "jobs":
        return "Bytes of memory for a waiting job of 100 bytes", {f"{number:,} jobs": of for number, of in figures.items()}, "{:,.0f}".format, False
    if part == "growth":
        groups = {f"{number:,} jobs wait": medians(of_number, "server_us") for number, of_number in figures.items()}
        return "Processor time of a request in the server, µs", groups, "{:.2f}".format, False
    groups = {"": {name: statistics.median(ours) for name, ours in figures.items()}}
    return "Seconds from a start to the first answer, with a million jobs", groups, "{:.2f}".format, False


def thousands(value):
    return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:,.0f} k" if value >= 1e4 else f"{value / 1e3:.1f} k"


def plot(part, figures):
    body, height = bars(*groups_of(part, figures), 0)
    return document(body, height)


def overview(figures):
    """The plots that the README shows, in one."""
    body, height = [], 0
    for part in ["synced", "memory", "handover", "jobs", "recovery"]:
        if part in figures:
            more, height = bars(*groups_of(part, figures[part]), height)
            body += more
    return document(body, height)


def bars(title, groups, form, doublings, top):
    """Lines of SVG from this height on, and the height below them."""
    values = [value for of_group in groups.values() for value in of_group.values()]
    most, least = max(values), min(values) / 2
    length = lambda value: WIDTH * (math.log(value / least) / math.log(most / least) if doublings else value / most)
    lines = [f'<text x="12" y="{top + 24}" {FONT} font-weight="600">{title}</text>']
    y = top + 38
    for name, of_group in groups.items():
        servers = [server for server in ORDER if server in of_group]
        middle = y + len(servers) * BAR / 2 + 4
        lines.append(f'<text x="{LEFT - 90}" y="{middle}" {FONT} text-anchor="end">{name}</text>')
        for server in servers:
            value = of_group[server]
            lines += [
                f'<text x="{LEFT - 6}" y="{y + BAR - 4}" {FONT} fill="#666" text-anchor="end">{server}</text>',
                f'<rect x="{LEFT}" y="{y + 1}" width="{max(1, length(value)):.1f}" height="{BAR - 2}" fill="{COLOURS[server]}"/>',
                f'<text x="{LEFT + length(value) + 6:.1f}" y="{y + BAR - 4}" {FONT}>{form(value)}</text>',
            ]
            y += BAR
        y += GAP
    return lines, y + 4


def document(lines, height):
    width = LEFT + WIDTH + RIGHT
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    paper = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', paper, *lines, "</svg>", ""])
