#!/bin/sh
# Drives a running server's takeanumber port with redis-cli, as its users get it.
#
# Needs: redis-cli (Debian: redis-tools).
# Usage: redis_cli.sh HOST PORT

set -eu

if [ $# -ne 2 ]; then
    echo "Usage: $0 HOST PORT" >&2
    exit 2
fi
host=$1
port=$2
tab=$(printf '\t')

check() { # what, actual, expected
    if [ "$2" != "$3" ]; then
        printf 'redis-cli: %s: expected "%s", got "%s"\n' "$1" "$3" "$2" >&2
        exit 1
    fi
    echo "redis-cli: $1"
}

# Errors come out as text; redis-cli itself says no more than that.
drive() { # label, options
    label=$1
    shift
    queue="redis-cli-$$-$(date +%s%N)-$label"
    cli() {
        redis-cli -h "$host" -p "$port" "$@"
    }
    check "$label: ping" "$(cli "$@" PING)" "PONG"
    check "$label: an unknown queue is empty" "$(cli "$@" LEN "$queue")" "0"
    check "$label: nothing to reserve" "$(cli "$@" RESERVE "$queue")" "-1"
    id=$(cli "$@" ADD "$queue" 1 '{"thing": 1, "also": "abc"}')
    check "$label: an id has 36 characters" "${#id}" "36"
    check "$label: one waits" "$(cli "$@" LEN "$queue")" "1"
    check "$label: it is reserved" "$(cli "$@" RESERVE "$queue")" "$id {\"thing\": 1, \"also\": \"abc\"}"
    check "$label: a retry" "$(cli "$@" RETRY "$queue" "$id")" "OK"
    check "$label: it is back" "$(cli "$@" LEN "$queue")" "1"
    check "$label: no retry left" "$(cli "$@" RETRY "$queue" "$id")" "ERR No retries remaining."
    check "$label: it is gone" "$(cli "$@" DONE "$queue" "$id")" "ERR No such Id."
    check "$label: no body" "$(cli "$@" ADD "$queue" 1 '')" "ERR No body provided."
    check "$label: too few words" "$(cli "$@" ADD "$queue")" "ERR Missing ADD parameters."
    check "$label: an error can fail the call" "$(cli "$@" -e DONE "$queue" nobody 2>&1 || echo failed)" "ERR No such Id.
failed"

    id=$(printf 'from%sstandard\ninput' "$tab" | cli "$@" -x ADD "$queue" 0)
    check "$label: a body of lines from standard input" "$(cli "$@" RESERVE "$queue")" "$id from${tab}standard
input"
    check "$label: done" "$(cli "$@" DONE "$queue" "$id")" "OK"

    answers=$(printf 'ADD %s 0 a\nADD %s 0 b\nLEN %s\n' "$queue" "$queue" "$queue" | cli "$@")
    check "$label: several commands on one connection" "$(echo "$answers" | tail -n 1)" "2"
}

drive plain
drive resp3 -3
drive resp2 -2
drive database -n 0
check "a password is let pass" "$(redis-cli -h "$host" -p "$port" --no-auth-warning -a any PING)" "PONG"

queue="redis-cli-$$-$(date +%s%N)-pipe"
# redis-cli ends them with an empty line, which takeanumber answers as no command: the one error.
mass=$(i=0; while [ $i -lt 1000 ]; do printf 'ADD %s 0 job-%d\r\n' "$queue" $i; i=$((i + 1)); done |
    redis-cli -h "$host" -p "$port" --pipe 2>&1 | tail -n 1)
check "a thousand lines through --pipe" "$mass" "errors: 1, replies: 1001"
check "all of them are there" "$(redis-cli -h "$host" -p "$port" LEN "$queue")" "1000"

redis-cli --version | sed 's/$/: all as expected/'
