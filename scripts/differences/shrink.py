"""Leaves out of a round what its difference does not need."""

from conversation import Differs
from tale import Written

# Attempts that are made at the same time.
AT_ONCE = 40


def shrink(played, play_at_once):
    """The same difference in as few steps as we find: we look which parts can be left out, leave out as many of these
    as we can together, and go on with smaller parts."""
    size = 1 << 30
    while True:
        script = played.talk.script
        size = min(size, -(-len(script) // AT_ONCE))
        parts = [range(start, start + size) for start in range(0, len(script), size)]
        alone = attempt(played, [[part] for part in parts], play_at_once)
        useless = [part for (part,), again in alone if again]
        if useless:
            drops = [useless, useless[::2], useless[1::2], useless[: len(useless) // 2 + 1], useless[:1], useless[-1:]]
            shorter = [again for _, again in attempt(played, drops, play_at_once) if again]
            if shorter:
                number = played.tale.number
                played = min(shorter, key=lambda again: len(again.talk.script))
                played.tale.number = number
                print(f"{len(played.talk.script)} steps are left", flush=True)
                continue
        if size == 1:
            return played
        size //= 2


def attempt(played, drops, play_at_once):
    """Plays the round without these parts. Yields each with what came of it, or None if that is not the difference."""
    tales = [Written(without(played.talk.script, drop)) for drop in drops]
    for drop, again in zip(drops, play_at_once(tales), strict=True):
        yield drop, again if again.ended_by(Differs) and again.why.sign == played.why.sign else None


def without(script, parts):
    return [step for at, step in enumerate(script) if not any(at in part for part in parts)]
