#!/usr/bin/env python3
"""Drives a running server's takeanumber port with redis-py, as its users get it.

Needs: Python 3.10 or later and redis-py (`pip install -r requirements.txt`).
Usage: redis_clients.py HOST PORT
"""

import sys
import uuid

import redis


def check(what, actual, expected):
    if actual != expected:
        sys.exit(f"redis-py: {what}: expected {expected!r}, got {actual!r}")
    print(f"redis-py: {what}")


def check_error(what, message, call):
    try:
        result = call()
    except redis.ResponseError as error:
        check(what, str(error), message)
    else:
        sys.exit(f"redis-py: {what}: expected an error, got {result!r}")


def drive(label, client):
    queue = f"redis-py-{uuid.uuid4()}"
    run = client.execute_command

    check(f"{label}: ping", client.ping(), True)
    check(f"{label}: an unknown queue is empty", run("LEN", queue), 0)
    check(f"{label}: nothing to reserve", run("RESERVE", queue), -1)

    first = run("ADD", queue, 1, '{"thing": 1}')
    second = run("ADD", queue, 0, b"\x00\xff\xfe")
    check(f"{label}: an id is a UUID in lower case", str(uuid.UUID(first.decode())).encode(), first)
    check(f"{label}: two wait", run("LEN", queue), 2)
    check(f"{label}: the first is reserved", run("RESERVE", queue), first + b' {"thing": 1}')
    check(f"{label}: one waits", run("LEN", queue), 1)
    check(f"{label}: a retry", run("RETRY", queue, first), b"OK")
    check(f"{label}: it is back in its place", run("RESERVE", queue), first + b' {"thing": 1}')
    check_error(f"{label}: no retry left", "No retries remaining.", lambda: run("RETRY", queue, first))
    check_error(f"{label}: it is gone", "No such Id.", lambda: run("DONE", queue, first))
    check(f"{label}: a binary body", run("RESERVE", queue), second + b" \x00\xff\xfe")
    check(f"{label}: done", run("DONE", queue, second), b"OK")

    lines = run("ADD", queue, 0, "two\r\nlines")
    check(f"{label}: a body of lines", run("RESERVE", queue), lines + b" two\r\nlines")
    check(f"{label}: done", run("DONE", queue, lines), b"OK")

    large = bytes(range(256)) * 4096
    big = run("ADD", queue, 0, large)
    check(f"{label}: a body of 1 MiB", run("RESERVE", queue), big + b" " + large)
    check(f"{label}: done", run("DONE", queue, big), b"OK")

    check_error(f"{label}: no body", "No body provided.", lambda: run("ADD", queue, 0, ""))
    check_error(f"{label}: bad retries", "Invalid number of retries.", lambda: run("ADD", queue, "x", "body"))
    check_error(f"{label}: too few words", "Missing ADD parameters.", lambda: run("ADD", queue, 0))
    check_error(f"{label}: too many words", "Wrong number of parameters.", lambda: run("LEN", queue, "more"))
    check_error(f"{label}: no such command", "Unrecognized command.", lambda: run("LPUSH", queue, "body"))

    pipeline = client.pipeline(transaction=False)
    for number in range(500):
        pipeline.execute_command("ADD", queue, 0, f"job {number}")
    ids = pipeline.execute()
    for _ in ids:
        pipeline.execute_command("RESERVE", queue)
    expected = [id + f" job {number}".encode() for number, id in enumerate(ids)]
    check(f"{label}: 500 jobs through pipelines, in order", pipeline.execute(), expected)
    for id in ids:
        pipeline.execute_command("DONE", queue, id)
    check(f"{label}: 500 done", pipeline.execute(), [b"OK"] * 500)
    pipeline.execute_command("LEN", queue).execute_command("DONE", queue, "nobody").execute_command("LEN", queue)
    length, error, again = pipeline.execute(raise_on_error=False)
    check(f"{label}: an error inside a pipeline", (length, str(error), again), (0, "No such Id.", 0))
    client.close()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    host, port = sys.argv[1], int(sys.argv[2])
    drive("defaults", redis.Redis(host=host, port=port))
    drive("RESP2", redis.Redis(host=host, port=port, protocol=2))
    drive("RESP3", redis.Redis(host=host, port=port, protocol=3))
    named = redis.Redis(host=host, port=port, db=0, username="default", password="any", client_name="worker-1")
    drive("name and password", named)
    check("a database beside 0 is refused", other_database(host, port), True)
    text = redis.Redis(host=host, port=port, decode_responses=True)
    check("replies as text", text.execute_command("RESERVE", f"nobody-{uuid.uuid4()}"), -1)
    check("the connection's name", named.client_getname(), "worker-1")
    print(f"redis-py {redis.__version__}: all as expected")


def other_database(host, port):
    try:
        redis.Redis(host=host, port=port, db=1).ping()
    except redis.RedisError:
        return True
    return False


if __name__ == "__main__":
    main()
