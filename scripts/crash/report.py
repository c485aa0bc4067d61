"""What a run prints of its counts, and what it has left out. A check that is asked of every protocol is counted for each."""

from clients import PROTOCOLS

DURABLE = [name for name, client in PROTOCOLS.items() if client.durable_leases]
# Whom each count is of, of those that are of somebody.
OF_EACH = {
    **dict.fromkeys(["acknowledged puts", "leases", "completed", "recovered"], list(PROTOCOLS)),
    "leases kept": DURABLE,
}
PUT_ASIDE = ["bury", "release", "release for later", "put for later", "kick", "kick-job"]
# What is answered to beanstalkd's clients alone, and what of it is looked up after a start.
OF_EACH |= {"answered": [*PUT_ASIDE, "reserve-job", "touch", "pause-tube"], "kept": PUT_ASIDE}
ASIDE = ["first buried", "pauses over"]


def show(counts, of_each):
    """Prints who had which part of the counts."""
    for what, whom in of_each.items():
        print(f"{what + ':':<24} {', '.join(f'{one} {counts[what, one]}' for one in whom)}")


def missed(counts, whole, of_each):
    """What never happened, at all or to one of those it should have happened to."""
    never = [what for what in whole if counts[what] == 0]
    return never + [f"{what} of {one}" for what, whom in of_each.items() for one in whom if counts[what, one] == 0]
