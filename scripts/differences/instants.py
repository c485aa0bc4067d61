"""When something is asked, so that no timer of a server runs out while anybody could notice which came first.

A round's time is cut into instants, EACH_SECOND of them a second. What is asked at one is answered by ASKED_BY, and the
last third of it is silence. Timers are whole seconds, so one that was started at an instant runs out at another whose
number differs by a multiple of EACH_SECOND; until then nothing is asked at those.

But beanstalkd 1.12 forgets that a lease runs out, if it looks in the very microsecond in which it does, until the
holder of the lease says something. So at the instant at which one runs out its holder does, at NUDGED_AT.
"""

import asyncio

EACH_SECOND = 6
PITCH = 1 / EACH_SECOND
# No round lasts longer. What would run out later is no timer.
ROUND_SECONDS_MAX = 120
# Seconds after an instant begins.
ASKED_BY, NUDGED_AT, HEARD_BY = 0.05, 0.065, 0.105


class Void(Exception):
    """The machine was too busy: what was heard says nothing about the servers."""


class Clock:
    """A round's time, which all its connections share; and whether anything came too late to be worth comparing."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.began, self.late, self.heard = None, False, 0

    def begin(self, delay):
        self.began = self.loop.time() + delay

    def elapsed(self):
        return self.loop.time() - self.began

    async def wait_for(self, instant, seconds=0.001):
        """A little later, so that it has come by any reckoning."""
        await asyncio.sleep(self.began + instant * PITCH + seconds - self.loop.time())

    def check(self, instant, seconds=ASKED_BY):
        if self.late or self.elapsed() - instant * PITCH > seconds:
            raise Void

    def note(self):
        """Something was heard. Returns the instant to which it belongs."""
        self.heard += 1
        if self.began is None:
            return 0
        instant, over = divmod(self.elapsed(), PITCH)
        self.late = self.late or over > HEARD_BY
        return int(instant)


class Timers:
    """Which instants are kept free for timers that run out."""

    def __init__(self):
        self.until = [-1] * EACH_SECOND

    def start(self, instant, seconds):
        if seconds > ROUND_SECONDS_MAX:
            return
        place = phase(instant)
        self.until[place] = max(self.until[place], instant + seconds * EACH_SECOND)

    def allow(self, instant):
        return self.until[phase(instant)] < instant


def phase(instant):
    """Where in its second it lies."""
    return instant % EACH_SECOND
