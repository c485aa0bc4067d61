"""greenstalk, aiostalk and pystalk, each through its own calls, for beanstalkd_clients.py to ask the same of all.

Bodies are bytes.
"""

import asyncio
from collections import namedtuple

import aiostalk
import greenstalk
import pystalk

Job = namedtuple("Job", "id body")


class Greenstalk:
    package = "greenstalk"
    lacks = ()
    lost = ConnectionError
    words = {
        greenstalk.BadFormatError: "BAD_FORMAT",
        greenstalk.DeadlineSoonError: "DEADLINE_SOON",
        greenstalk.JobTooBigError: "JOB_TOO_BIG",
        greenstalk.NotFoundError: "NOT_FOUND",
        greenstalk.NotIgnoredError: "NOT_IGNORED",
        greenstalk.TimedOutError: "TIMED_OUT",
    }

    def __init__(self, address, use, watch):
        self.settings = (address, use, watch)
        self.client = self.connect(address, use, watch)
        # These need nothing more.
        for name in """put delete kick kick_job use watch ignore stats stats_job stats_tube tubes using watching
                pause_tube close""".split():
            setattr(self, name, getattr(self.client, name))

    def connect(self, address, use, watch):
        return greenstalk.Client(address, encoding=None, use=use, watch=watch)

    def reconnect(self):
        """A client is for one connection only."""
        self.close()
        return type(self)(*self.settings)

    @classmethod
    def word(cls, error):
        return cls.words.get(type(error))

    def reserve(self, timeout=None):
        return self.job(self.client.reserve(timeout=timeout))

    def reserve_job(self, id):
        return self.job(self.client.reserve_job(id))

    def peek(self, id):
        return self.job(self.client.peek(id))

    def peek_ready(self):
        return self.job(self.client.peek_ready())

    def peek_delayed(self):
        return self.job(self.client.peek_delayed())

    def peek_buried(self):
        return self.job(self.client.peek_buried())

    def release(self, job, **options):
        self.client.release(greenstalk.Job(*job), **options)

    def bury(self, job, **options):
        self.client.bury(greenstalk.Job(*job), **options)

    def touch(self, job):
        self.client.touch(greenstalk.Job(*job))

    def job(self, found):
        return Job(found.id, found.body)


class Aiostalk(Greenstalk):
    """greenstalk's calls as coroutines, here run one by one."""

    package = "aiostalk"
    # Version 1.3.1 has a kick_job, but never awaits what it makes there: nothing is sent.
    lacks = ("kick_job",)

    def connect(self, address, use, watch):
        return OneByOne(aiostalk.Client(address, encoding=None, use=use, watch=watch))


class OneByOne:
    """Runs the coroutines of a client to their end, in an event loop of its own."""

    def __init__(self, client):
        self.client = client
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(client.connect())

    def __getattr__(self, name):
        return lambda *words, **options: self.loop.run_until_complete(getattr(self.client, name)(*words, **options))

    def close(self):
        try:
            self.loop.run_until_complete(self.client.close())
        except ConnectionError:
            # The other end was first.
            pass
        self.loop.close()


class Pystalk:
    package = "pystalk"
    lacks = ("touch", "peek", "reserve_job", "using", "watching")
    lost = (pystalk.BeanstalkConnectionError, ConnectionError)

    def __init__(self, address, use, watch):
        self.client = pystalk.BeanstalkClient(*address)
        self.client.use(use)
        self.client.watchlist = watch
        self.use, self.watch, self.ignore = self.client.use, self.client.watch, self.client.ignore
        self.stats, self.stats_job, self.stats_tube = self.client.stats, self.client.stats_job, self.client.stats_tube
        self.delete, self.kick_job, self.tubes = self.client.delete_job, self.client.kick_job, self.client.list_tubes
        self.pause_tube, self.close = self.client.pause_tube, self.client.close

    def reconnect(self):
        """After a close it connects by itself, with the same tubes."""
        self.client.close()
        return self

    @classmethod
    def word(cls, error):
        return error.message if type(error) is pystalk.BeanstalkError else None

    def put(self, body, priority=65536, delay=0, ttr=120):
        status, id = self.client.put_job(body, pri=priority, delay=delay, ttr=ttr)
        assert status == b"INSERTED", f"put: expected INSERTED, got {status}"
        return id

    def reserve(self, timeout=60):
        return self.job(self.client.reserve_job(timeout))

    def peek_ready(self):
        return self.job(self.client.peek_ready())

    def peek_delayed(self):
        return self.job(self.client.peek_delayed())

    def peek_buried(self):
        return self.job(self.client.peek_buried())

    def release(self, job, priority=65536, delay=0):
        self.client.release_job(job.id, pri=priority, delay=delay)

    def bury(self, job, priority=65536):
        self.client.bury_job(job.id, pri=priority)

    def kick(self, bound):
        status, count = self.client.kick_jobs(bound)
        assert status == b"KICKED", f"kick: expected KICKED, got {status}"
        return count

    def job(self, found):
        return Job(found.job_id, found.job_data)
