"""What happens in a round: it is made up as it goes, or repeats what was done once."""

from author import KICKS, KINDS, ODD, Author
from conversation import Conversation, Differs, Ended, Gone
from instants import EACH_SECOND, ROUND_SECONDS_MAX, Void

FIRST_INSTANT = 2


class MadeUp:
    """From a seed."""

    def __init__(self, seed, number, steps):
        self.seed, self.number, self.steps = seed, number, steps

    async def play(self, talk):
        kind = list(KINDS)[self.number % len(KINDS)]
        author = Author(f"{self.seed} {self.number}", talk.state, kind)
        # What is seldom else: at the beginning of every other round, for many do not come to their end.
        begins = kind == ODD and self.number // len(KINDS) % 2 == 0
        instant, left = await next_instant(talk, FIRST_INSTANT), self.steps
        author.begin(instant)
        instant = await play_scene(talk, author, author.begin_put() if begins else (), instant)
        while left > 0:
            instant = await next_instant(talk, instant)
            author.begin(instant)
            for _ in range(author.count()):
                step = author.next()
                if step is not None:
                    await talk.do(step)
                    left -= 1
        instant = await play_scene(talk, author, author.hand_out() if kind == KICKS else (), instant)
        instant = await next_instant(talk, instant)
        author.begin(instant)
        for step in author.look():
            await talk.do(step)


async def play_scene(talk, author, steps, instant):
    """Each step at an instant of its own. Returns the last."""
    for step in steps:
        await talk.do(step)
        instant = await next_instant(talk, instant)
        author.begin(instant)
    return instant


async def next_instant(talk, instant):
    """Waits for the next one at which something may be asked."""
    last = instant
    instant += 1
    while True:
        while not talk.state.timers.allow(instant):
            instant += 1
        if instant > ROUND_SECONDS_MAX * EACH_SECOND:
            raise Ended
        await talk.advance(last, instant)
        if talk.state.timers.allow(instant):
            return instant
        # What was handed out on the way runs out just then: it is one more that passes.
        last = instant - 1


class Written:
    """Steps as they were done, or some of them."""

    def __init__(self, script):
        self.script = script

    async def play(self, talk):
        instant = 0
        for step in self.script:
            if step.instant != instant:
                await talk.advance(instant, step.instant)
                instant = step.instant
                if not talk.state.timers.allow(instant):
                    raise Void
            await talk.do(step)


class Played:
    """What came of a tale: it was void, or told to its end, or cut short; or the servers differ, or one is gone."""

    def __init__(self, tale, talk):
        self.tale, self.talk, self.why = tale, talk, None

    def ended_by(self, kind):
        return isinstance(self.why, kind)

    @staticmethod
    async def play(tale, places, known, delay):
        played = Played(tale, Conversation(places, known))
        try:
            await played.talk.begin(delay)
            await tale.play(played.talk)
        except (Void, Differs, Gone, Ended) as why:
            played.why = why
        finally:
            played.talk.close()
        return played
