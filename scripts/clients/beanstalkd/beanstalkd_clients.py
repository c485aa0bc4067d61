#!/usr/bin/env python3
"""Drives a running server's beanstalkd port with greenstalk, aiostalk and pystalk, as their users get them.

Needs: Python 3.10 or later and the three packages (`pip install -r requirements.txt`).
Usage: beanstalkd_clients.py HOST PORT
"""

import asyncio
import faulthandler
import importlib.metadata
import logging
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import aiostalk
import greenstalk
import pystalk
from beanstalkd_libraries import Aiostalk, Greenstalk, Job, Pystalk
from beanstalkd_trial import LARGE, PATIENCE_S, Relay, Trial, large_bodies

# Longer than anything here takes, so that what comes sooner has not just timed out.
LONG_S = 10
UINT32_MAX = 2**32 - 1
STATS_JOB = "id tube state pri age delay ttr time-left file reserves timeouts releases buries kicks".split()
STATS_TUBE = """name current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed
    current-jobs-buried total-jobs current-using current-watching current-waiting cmd-delete cmd-pause-tube pause
    pause-time-left""".split()
STATS_NUMBERS = """current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed current-jobs-buried
    cmd-put cmd-peek cmd-peek-ready cmd-peek-delayed cmd-peek-buried cmd-reserve cmd-reserve-with-timeout cmd-delete
    cmd-release cmd-use cmd-watch cmd-ignore cmd-bury cmd-kick cmd-touch cmd-stats cmd-stats-job cmd-stats-tube
    cmd-list-tubes cmd-list-tube-used cmd-list-tubes-watched cmd-pause-tube job-timeouts total-jobs max-job-size
    current-tubes current-connections current-producers current-workers current-waiting total-connections pid uptime
    binlog-oldest-index binlog-current-index binlog-records-migrated binlog-records-written binlog-max-size""".split()
STATS_OTHERS = "version rusage-utime rusage-stime draining id hostname os platform".split()


# --- what is asked of each -------------------------------------------------------------------------------------------


def put_takes_priority_delay_and_ttr(trial):
    client = trial.client()
    ready = client.put(b"ready", priority=7, ttr=90)
    trial.stats_job(client, ready, state="ready", pri=7, delay=0, ttr=90)
    late = client.put(b"late", priority=UINT32_MAX, delay=100, ttr=UINT32_MAX)
    trial.stats_job(client, late, state="delayed", pri=UINT32_MAX, delay=100, ttr=UINT32_MAX)
    least = client.put(b"least", ttr=0)
    trial.stats_job(client, least, state="ready", ttr=1)
    trial.delete(client, ready, late, least)


def jobs_come_by_priority_then_by_age_from_all_watched_tubes(trial):
    first, second, third = (trial.tube(name) for name in ("first", "second", "third"))
    producer = trial.client(use=first)
    worker = trial.client(watch=[first, second])
    wanted = []
    for tube, priority in [(first, 9), (second, 3), (third, 0), (second, 9), (first, 3), (first, 0)]:
        producer.use(tube)
        wanted.append((priority, producer.put(f"{tube} {priority}".encode(), priority=priority), tube))
    unwatched = wanted.pop(2)
    for priority, id, tube in sorted(wanted):
        trial.expect_job("in order", worker.reserve(timeout=PATIENCE_S), id, f"{tube} {priority}".encode())
    trial.expect_word("no other is ready", "TIMED_OUT", lambda: worker.reserve(timeout=0))
    trial.delete(worker, unwatched[1], *(id for _, id, _ in wanted))


def reserve_times_out(trial):
    client = trial.client()
    trial.expect_word("at once", "TIMED_OUT", lambda: client.reserve(timeout=0))
    with trial.takes("with a time-out of one second", 1):
        trial.expect_word("after a second", "TIMED_OUT", lambda: client.reserve(timeout=1))


def a_waiting_worker_gets_the_next_job(trial):
    producer, worker = trial.client(), trial.client()
    reserved = trial.meanwhile(worker.reserve)
    trial.until("the worker waits", lambda: producer.stats_tube(trial.tube())["current-waiting"] == 1)
    id = producer.put(b"at last")
    trial.expect_job("the job", reserved.result(PATIENCE_S), id, b"at last")
    worker.delete(id)


def deadline_soon_is_told_while_waiting_and_at_once(trial):
    client = trial.client()
    id = client.put(b"short", ttr=2)
    with trial.takes("with a ttr of two seconds", 1):
        client.reserve(timeout=PATIENCE_S)
        trial.expect_word("while waiting", "DEADLINE_SOON", lambda: client.reserve(timeout=LONG_S))
    trial.expect_word("at once", "DEADLINE_SOON", lambda: client.reserve(timeout=0))
    client.delete(id)


def a_delayed_job_comes_when_its_time_has_come(trial):
    client = trial.client()
    with trial.takes("with a delay of one second", 1):
        id = client.put(b"later", delay=1)
        trial.expect_word("it is not ready", "TIMED_OUT", lambda: client.reserve(timeout=0))
        trial.expect_job("the job", client.reserve(timeout=LONG_S), id, b"later")
    client.delete(id)


def release_takes_priority_and_delay(trial):
    client = trial.client()
    id = client.put(b"again", priority=5)
    job = client.reserve(timeout=PATIENCE_S)
    client.release(job, priority=3)
    trial.stats_job(client, id, state="ready", pri=3, releases=1, reserves=1)
    with trial.takes("with a delay of one second", 1):
        client.release(client.reserve(timeout=PATIENCE_S), priority=UINT32_MAX, delay=1)
        trial.stats_job(client, id, state="delayed", pri=UINT32_MAX, delay=1, releases=2, reserves=2)
        trial.expect_job("the job", client.reserve(timeout=LONG_S), id, b"again")
    client.delete(id)


def bury_takes_a_priority_and_kick_a_bound(trial):
    client = trial.client()
    ids = [client.put(b"bury me %d" % number) for number in range(3)]
    for priority, id in enumerate(ids):
        client.bury(client.reserve(timeout=PATIENCE_S), priority=priority)
        trial.stats_job(client, id, state="buried", pri=priority, buries=1)
    delayed = client.put(b"kick me", delay=100)
    trial.expect("two of three are kicked", client.kick(2), 2)
    trial.stats_job(client, ids[1], state="ready", kicks=1)
    trial.expect("then the third, and no delayed one", client.kick(10), 1)
    trial.stats_job(client, delayed, state="delayed", kicks=0)
    trial.expect("then the delayed one", client.kick(10), 1)
    trial.stats_job(client, delayed, state="ready", kicks=1)
    trial.expect("then none", client.kick(10), 0)
    trial.delete(client, delayed, *ids)


def kick_job_takes_buried_and_delayed_ones(trial):
    client = trial.client()
    buried = client.put(b"buried")
    client.bury(client.reserve(timeout=PATIENCE_S))
    delayed = client.put(b"delayed", delay=100)
    for id in (buried, delayed):
        client.kick_job(id)
        trial.stats_job(client, id, state="ready", kicks=1)
        trial.expect_word("a ready one is not kicked", "NOT_FOUND", lambda: client.kick_job(id))
    trial.delete(client, buried, delayed)


def a_job_comes_back_when_its_ttr_is_over(trial):
    worker, other = trial.client(), trial.client()
    id = worker.put(b"slow", ttr=1)
    with trial.takes("with a ttr of one second", 1):
        job = worker.reserve(timeout=PATIENCE_S)
        trial.expect_job("another gets it", timed_out(trial, worker, other, id), id, b"slow")
    trial.stats_job(other, id, state="reserved", timeouts=1, reserves=2)
    trial.expect_word("the first has lost it", "NOT_FOUND", lambda: worker.release(job))
    other.delete(id)


def touch_postpones_the_end_of_the_ttr(trial):
    worker, other = trial.client(), trial.client()
    id = worker.put(b"slow", ttr=2)
    job = worker.reserve(timeout=PATIENCE_S)
    trial.until("half of it is over", lambda: worker.stats_job(id)["time-left"] == 0)
    with trial.takes("with a ttr of two seconds from the touch on", 2):
        worker.touch(job)
        trial.expect_job("another gets it", timed_out(trial, worker, other, id), id, b"slow")
    trial.expect_word("the first has lost it", "NOT_FOUND", lambda: worker.touch(job))
    other.delete(id)


def timed_out(trial, worker, other, id):
    """What the other gets, who waits while the worker lets its time pass."""
    reserved = trial.meanwhile(lambda: other.reserve(timeout=LONG_S))
    # beanstalkd 1.12 can miss the end of a ttr if the connection that has the job says nothing.
    trial.until("it has timed out", lambda: worker.stats_job(id)["timeouts"] == 1)
    return reserved.result(PATIENCE_S)


def peek_shows_the_first_of_each_state(trial):
    client = trial.client()
    for state in ("ready", "delayed", "buried"):
        trial.expect_word(f"none is {state}", "NOT_FOUND", getattr(client, f"peek_{state}"))
    buried = [client.put(b"buried 0"), client.put(b"buried 1")]
    for _ in buried:
        client.bury(client.reserve(timeout=PATIENCE_S))
    delayed = [client.put(b"in 200 s", delay=200), client.put(b"in 100 s", delay=100)]
    ready = [client.put(b"less urgent", priority=2), client.put(b"urgent", priority=1)]
    trial.expect_job("the most urgent", client.peek_ready(), ready[1], b"urgent")
    trial.expect_job("the soonest", client.peek_delayed(), delayed[1], b"in 100 s")
    trial.expect_job("the first buried", client.peek_buried(), buried[0], b"buried 0")
    if "peek" not in client.lacks:
        trial.expect_job("by id", client.peek(delayed[0]), delayed[0], b"in 200 s")
    trial.delete(client, *buried, *delayed, *ready)


def delete_takes_any_job_that_no_other_has_reserved(trial):
    worker, other = trial.client(), trial.client()
    buried, mine = worker.put(b"buried", priority=0), worker.put(b"mine", priority=1)
    delayed, ready = worker.put(b"delayed", delay=100), worker.put(b"ready", priority=2)
    worker.bury(worker.reserve(timeout=PATIENCE_S))
    worker.reserve(timeout=PATIENCE_S)
    trial.delete(other, buried, delayed, ready)
    trial.expect_word("another's", "NOT_FOUND", lambda: other.delete(mine))
    worker.delete(mine)


def a_paused_tube_gives_nothing(trial):
    client = trial.client()
    id = client.put(b"wait")
    with trial.takes("with a pause of one second", 1):
        client.pause_tube(trial.tube(), 1)
        trial.expect_word("it gives nothing", "TIMED_OUT", lambda: client.reserve(timeout=0))
        trial.expect_in(client.stats_tube(trial.tube()), {"pause": 1, "pause-time-left": (0, 1), "cmd-pause-tube": 1})
        trial.expect_job("then it does", client.reserve(timeout=LONG_S), id, b"wait")
    trial.expect_in(client.stats_tube(trial.tube()), {"pause": 0, "pause-time-left": 0})
    client.delete(id)


def stats_tell_of_a_job(trial):
    client = trial.client()
    id = client.put(b"job", priority=11, ttr=60)
    expected = dict.fromkeys(STATS_JOB, 0) | {"id": id, "tube": trial.tube(), "state": "ready", "pri": 11, "ttr": 60}
    expected["age"] = (0, PATIENCE_S)
    stats = client.stats_job(id)
    trial.expect("its keys", sorted(stats), sorted(STATS_JOB))
    trial.expect_in(stats, expected)
    client.reserve(timeout=PATIENCE_S)
    trial.expect_in(client.stats_job(id), expected | {"state": "reserved", "reserves": 1, "time-left": (50, 60)})
    client.delete(id)


def stats_tell_of_a_tube(trial):
    client = trial.client()
    reserved, buried = client.put(b"reserved", priority=0), client.put(b"buried", priority=1)
    jobs = [client.reserve(timeout=PATIENCE_S), client.reserve(timeout=PATIENCE_S)]
    client.bury(jobs[1], priority=1)
    urgent, ready = client.put(b"urgent", priority=1023), client.put(b"ready", priority=1024)
    delayed = client.put(b"delayed", delay=100)
    trial.delete(client, client.put(b"gone"))
    stats = client.stats_tube(trial.tube())
    trial.expect("its keys", sorted(stats), sorted(STATS_TUBE))
    trial.expect_in(stats, dict.fromkeys(STATS_TUBE, 1) | {
        "name": trial.tube(), "current-jobs-ready": 2, "total-jobs": 6, "current-waiting": 0, "cmd-pause-tube": 0,
        "pause": 0, "pause-time-left": 0})
    trial.delete(client, reserved, buried, urgent, ready, delayed)


def stats_tell_of_the_server(trial):
    client = trial.client()
    before = client.stats()
    trial.expect("keys that are missing", sorted(set(STATS_NUMBERS + STATS_OTHERS) - set(before)), [])
    for key in STATS_NUMBERS:
        trial.expect(f"{key} is a number", type(before[key]), int)
    for key in ("version", "id", "hostname"):
        trial.expect(f"there is a {key}", before[key] not in ("", None), True)
    trial.expect("it is not draining", before["draining"] in ("false", False), True)
    for key in ("rusage-utime", "rusage-stime"):
        trial.expect(f"{key} is not negative", float(before[key]) >= 0, True)
    id = client.put(b"counted", delay=100)
    after = client.stats()
    for key in ("cmd-put", "total-jobs", "cmd-stats"):
        trial.expect(f"{key} has grown", after[key] > before[key], True)
    for key in ("current-jobs-delayed", "current-connections", "current-producers", "pid"):
        trial.expect(f"{key} is positive", after[key] > 0, True)
    client.delete(id)


def lists_tell_of_tubes(trial):
    first, second = trial.tube("first"), trial.tube("second")
    client = trial.client(use=first, watch=[first])
    client.watch(second)
    mine = [tube for tube in client.tubes() if tube in (first, second)]
    trial.expect("both are there", sorted(mine), [first, second])
    trial.expect("so is the default one", "default" in client.tubes(), True)
    if "using" not in client.lacks:
        trial.expect("one is used", client.using(), first)
        trial.expect("both are watched", sorted(client.watching()), [first, second])
        trial.expect("watched twice is watched once", client.watch(second), 2)
        trial.expect("one is left", client.ignore(first), 1)
        trial.expect("the other is watched", client.watching(), [second])


def the_last_watched_tube_cannot_be_ignored(trial):
    client = trial.client()
    trial.expect_word("the last", "NOT_IGNORED", lambda: client.ignore(trial.tube()))


def what_is_not_there_is_not_found(trial):
    client = trial.client()
    id = client.put(b"gone")
    client.delete(id)
    gone, nobody = Job(id, b"gone"), trial.tube("nobody")
    for name, call in {
        "delete": lambda: client.delete(id),
        "release": lambda: client.release(gone),
        "bury": lambda: client.bury(gone),
        "touch": lambda: client.touch(gone),
        "kick_job": lambda: client.kick_job(id),
        "peek": lambda: client.peek(id),
        "reserve_job": lambda: client.reserve_job(id),
        "stats_job": lambda: client.stats_job(id),
        "stats_tube": lambda: client.stats_tube(nobody),
        "pause_tube": lambda: client.pause_tube(nobody, 1),
    }.items():
        if name not in client.lacks:
            trial.expect_word(name, "NOT_FOUND", call)


def a_job_can_be_reserved_by_its_id(trial):
    client = trial.client()
    stranger = trial.client(use="default", watch="default")
    buried, ready = client.put(b"buried", priority=0), client.put(b"ready")
    client.bury(client.reserve(timeout=PATIENCE_S))
    delayed = client.put(b"delayed", delay=100)
    for id, body in [(ready, b"ready"), (delayed, b"delayed"), (buried, b"buried")]:
        trial.expect_job("whatever its state and its tube", stranger.reserve_job(id), id, body)
        trial.stats_job(client, id, state="reserved")
        trial.expect_word("reserved already", "NOT_FOUND", lambda: client.reserve_job(id))
    trial.delete(stranger, ready, delayed, buried)


def bodies_come_back_as_they_were(trial):
    client = trial.client()
    for what, body in {
        "empty": b"",
        "every byte": bytes(range(256)),
        "unicode": "Grüße, 世界 🌱".encode(),
        "a line end": b"\r\n",
        "line ends": b"\r\none\r\n\r\ntwo\r\n",
        "an answer": b"RESERVED 1 5\r\nhello\r\nDELETED\r\n",
        "64 KiB less one": (bytes(range(256)) * 256)[1:],
    }.items():
        id = client.put(body)
        trial.expect_job(f"{what}, peeked at", client.peek_ready(), id, body)
        trial.expect_job(what, client.reserve(timeout=PATIENCE_S), id, body)
        client.delete(id)


def bodies_may_be_as_large_as_the_limit(trial):
    client = trial.client()
    limit = client.stats()["max-job-size"]
    assert limit >= max(LARGE), f"expected a limit of {max(LARGE)} bytes at least, got {limit}"
    for size in (*LARGE, limit):
        for kind, body in large_bodies(size).items():
            what, id = f"{size} bytes, {kind}", client.put(body)
            trial.expect_job(f"{what}, peeked at", client.peek_ready(), id, body)
            trial.expect_job(what, client.reserve(timeout=PATIENCE_S), id, body)
            client.delete(id)


def a_body_over_the_limit_is_refused(trial):
    client = trial.client()
    held = client.put(b"held")
    client.reserve(timeout=PATIENCE_S)
    for kind, body in large_bodies(client.stats()["max-job-size"] + 1).items():
        trial.expect_word(f"one byte more, {kind}", "JOB_TOO_BIG", lambda: client.put(body))
    trial.stats_job(client, held, state="reserved")
    client.delete(held)


def many_jobs_keep_their_order(trial):
    client = trial.client()
    ids = [client.put(b"job %d" % number) for number in range(300)]
    for number, id in enumerate(ids):
        trial.expect_job("in order", client.reserve(timeout=PATIENCE_S), id, b"job %d" % number)
        client.delete(id)


def a_closed_connection_gives_its_jobs_back(trial):
    worker, other = trial.client(), trial.client()
    id = worker.put(b"orphan")
    worker.reserve(timeout=PATIENCE_S)
    trial.close(worker)
    trial.expect_job("another gets it", other.reserve(timeout=PATIENCE_S), id, b"orphan")
    trial.stats_job(other, id, reserves=2, timeouts=0, releases=0)
    other.delete(id)


def a_cut_connection_gives_its_jobs_back(trial):
    relay = Relay(trial.address)
    worker, other = trial.client(address=relay.address), trial.client()
    id = worker.put(b"orphan")
    worker.reserve(timeout=PATIENCE_S)
    relay.cut()
    trial.expect_job("another gets it", other.reserve(timeout=PATIENCE_S), id, b"orphan")
    trial.expect_lost(worker, lambda: worker.put(b"lost"))
    worker = trial.reconnect(worker)
    trial.expect_word("the first has lost it", "NOT_FOUND", lambda: worker.delete(id))
    other.delete(id)
    again = worker.put(b"again")
    trial.expect_job("it works on", worker.reserve(timeout=PATIENCE_S), again, b"again")
    worker.delete(again)


# --- what only one of them has ---------------------------------------------------------------------------------------


def greenstalk_jobs_can_be_text(trial):
    with greenstalk.Client(trial.address, use=trial.tube(), watch=trial.tube()) as client:
        for text in ["Grüße, 世界 🌱", *(large_bodies(size)["text"].decode() for size in LARGE)]:
            id = client.put(text)
            job = client.reserve(timeout=PATIENCE_S)
            trial.expect("the text", (job.id, job.body), (id, text))
            client.delete(job)


def pystalk_jobs_can_be_gone_through(trial):
    client = pystalk.BeanstalkClient.from_uri("beanstalkd://{}:{}".format(*trial.address), auto_decode=True)
    client.watch(trial.tube())
    bodies = ["Grüße", "世界", "🌱"]
    with client.using(trial.tube()) as inserter:
        inserter.put_job(bodies[0])
    for body in bodies[1:]:
        client.put_job_into(trial.tube(), body)
    jobs = list(client.reserve_iter())
    trial.expect("all are reserved", [job.job_data for job in jobs], bodies)
    for job in jobs:
        client.release_job(job)
    client.use(trial.tube())
    peeked = []
    for job in client.peek_ready_iter():
        peeked.append(job.job_data)
        client.delete_job(job)
    trial.expect("all are peeked at", peeked, bodies)
    client.close()


def pystalk_pauses_end_early(trial):
    client = pystalk.BeanstalkClient(*trial.address)
    client.watch(trial.tube())
    client.pause_tube(trial.tube(), 100)
    client.put_job_into(trial.tube(), b"wait")
    trial.expect("while it is paused", list(client.reserve_iter()), [])
    client.unpause_tube(trial.tube())
    client.delete_job(client.reserve_job(PATIENCE_S))
    client.close()


def pystalk_pools_pass_by_a_server_that_is_down(trial):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = listener.getsockname()
    pool = pystalk.ProductionPool([pystalk.BeanstalkClient(*nobody), pystalk.BeanstalkClient(*trial.address)],
                                  initial_shuffle=False)
    pool.use(trial.tube())
    client = trial.client()
    ids = [pool.put_job(b"pooled %d" % number)[1] for number in range(3)]
    for number, id in enumerate(ids):
        trial.expect_job("from the pool", client.reserve(timeout=PATIENCE_S), id, b"pooled %d" % number)
        client.delete(id)


def aiostalk_serves_fifty_producers_and_fifty_workers(trial):
    async def produce(number):
        async with aiostalk.Client(trial.address, use=trial.tube()) as client:
            return [await client.put(f"{number} {count}") for count in range(10)]

    async def work():
        done = []
        async with aiostalk.Client(trial.address, watch=trial.tube()) as client:
            for _ in range(10):
                job = await client.reserve(timeout=PATIENCE_S)
                await client.delete(job)
                done.append((job.id, job.body))
        return done

    async def together():
        return await asyncio.gather(*(produce(number) for number in range(50)), *(work() for _ in range(50)))

    results = asyncio.run(together())
    produced = sorted((id, f"{number} {count}") for number in range(50) for count, id in enumerate(results[number]))
    trial.expect("every job once", sorted(job for jobs in results[50:] for job in jobs), produced)


def aiostalk_gives_fifty_waiting_workers_one_job_each(trial):
    async def work():
        async with aiostalk.Client(trial.address, watch=trial.tube()) as client:
            job = await client.reserve()
            await client.delete(job)
            return job.id

    async def together():
        async with aiostalk.Client(trial.address, use=trial.tube()) as producer:
            workers = [asyncio.create_task(work()) for _ in range(50)]
            deadline = time.monotonic() + PATIENCE_S
            while (await producer.stats_tube(trial.tube()))["current-waiting"] < 50:
                assert time.monotonic() < deadline, "expected that fifty wait"
                await asyncio.sleep(0.01)
            ids = [await producer.put("one") for _ in workers]
            return ids, await asyncio.wait_for(asyncio.gather(*workers), PATIENCE_S)

    ids, done = asyncio.run(together())
    trial.expect("every job once", sorted(done), ids)


BEHAVIOURS = [
    put_takes_priority_delay_and_ttr,
    jobs_come_by_priority_then_by_age_from_all_watched_tubes,
    reserve_times_out,
    a_waiting_worker_gets_the_next_job,
    deadline_soon_is_told_while_waiting_and_at_once,
    a_delayed_job_comes_when_its_time_has_come,
    release_takes_priority_and_delay,
    bury_takes_a_priority_and_kick_a_bound,
    kick_job_takes_buried_and_delayed_ones,
    a_job_comes_back_when_its_ttr_is_over,
    touch_postpones_the_end_of_the_ttr,
    peek_shows_the_first_of_each_state,
    delete_takes_any_job_that_no_other_has_reserved,
    a_paused_tube_gives_nothing,
    stats_tell_of_a_job,
    stats_tell_of_a_tube,
    stats_tell_of_the_server,
    lists_tell_of_tubes,
    the_last_watched_tube_cannot_be_ignored,
    what_is_not_there_is_not_found,
    a_job_can_be_reserved_by_its_id,
    bodies_come_back_as_they_were,
    bodies_may_be_as_large_as_the_limit,
    a_body_over_the_limit_is_refused,
    many_jobs_keep_their_order,
    a_closed_connection_gives_its_jobs_back,
    a_cut_connection_gives_its_jobs_back,
]
# What a library has no call for is not asked of it.
NEEDS = {
    kick_job_takes_buried_and_delayed_ones: "kick_job",
    touch_postpones_the_end_of_the_ttr: "touch",
    a_job_can_be_reserved_by_its_id: "reserve_job",
}
LIBRARIES = {
    Greenstalk: [greenstalk_jobs_can_be_text],
    Aiostalk: [aiostalk_serves_fifty_producers_and_fifty_workers, aiostalk_gives_fifty_waiting_workers_one_job_each],
    Pystalk: [pystalk_jobs_can_be_gone_through, pystalk_pauses_end_early, pystalk_pools_pass_by_a_server_that_is_down],
}


# --- running them ----------------------------------------------------------------------------------------------------


def drive(library, address):
    for behaviour in BEHAVIOURS + LIBRARIES[library]:
        label = f"{library.package}: {behaviour.__name__.replace('_', ' ')}"
        trial = Trial(library, address)
        try:
            missing = NEEDS.get(behaviour) in library.lacks
            if not missing:
                behaviour(trial)
            trial.end()
        except Exception as error:
            raise AssertionError(f"{label}: {error or repr(error)}") from error
        tell(f"{label}: it has no {NEEDS[behaviour]}" if missing else label)
    tell(f"{library.package} {importlib.metadata.version(library.package)}: all as expected")


def tell(line):
    # At once, so that no other thread's line comes between a line and its end.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    address = (sys.argv[1], int(sys.argv[2]))
    # A pool's warning that a server is down is expected.
    logging.disable()
    faulthandler.dump_traceback_later(60, exit=True)
    # Most of the time is waiting, so all wait at the same time.
    with ThreadPoolExecutor(len(LIBRARIES)) as threads:
        runs = [threads.submit(drive, library, address) for library in LIBRARIES]
    sys.exit("\n".join(str(run.exception()) for run in runs if run.exception()) or 0)


if __name__ == "__main__":
    main()
