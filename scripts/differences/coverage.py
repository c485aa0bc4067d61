"""Which replies each verb had, and which it must have had in a run of the usual length."""

LATER = ("RESERVED, later", "TIMED_OUT, later", "DEADLINE_SOON, later")
FINDS = ("FOUND", "NOT_FOUND")
BAD = "BAD_FORMAT"
EXPECTED = {
    "put": ("INSERTED", "INSERTED, later", "EXPECTED_CRLF", "JOB_TOO_BIG", BAD),
    "reserve": ("RESERVED", "DEADLINE_SOON", *LATER),
    "reserve-with-timeout": ("RESERVED", "TIMED_OUT", "DEADLINE_SOON", BAD, *LATER),
    "reserve-job": ("RESERVED", "NOT_FOUND", BAD),
    "delete": ("DELETED", "NOT_FOUND", BAD),
    "release": ("RELEASED", "NOT_FOUND", BAD),
    "bury": ("BURIED", "NOT_FOUND", BAD),
    "touch": ("TOUCHED", "NOT_FOUND", BAD),
    "kick": ("KICKED", BAD),
    "kick-job": ("KICKED", "NOT_FOUND", BAD),
    "use": ("USING", BAD),
    "watch": ("WATCHING", BAD),
    "ignore": ("WATCHING", "NOT_IGNORED", BAD),
    "peek": (*FINDS, BAD),
    "peek-ready": FINDS,
    "peek-delayed": FINDS,
    "peek-buried": FINDS,
    "stats": ("OK",),
    "stats-job": ("OK", "NOT_FOUND", BAD),
    "stats-tube": ("OK", "NOT_FOUND", BAD),
    "list-tubes": ("OK",),
    "list-tube-used": ("USING", "USING, later"),
    "list-tubes-watched": ("OK", "OK, later"),
    "pause-tube": ("PAUSED", "NOT_FOUND", BAD),
    "quit": ("(the end)",),
    "unknown": ("UNKNOWN_COMMAND", BAD),
    "trailed": (BAD,),
    "long": ("UNKNOWN_COMMAND", BAD),
    "filler": (BAD,),
}


def table(heard):
    """Lines that show how often each verb had each reply."""
    for verb in sorted({verb for verb, _ in heard}):
        words = sorted((word, times) for (other, word), times in heard.items() if other == verb)
        yield f"{verb:<21} " + "   ".join(f"{word} {times}" for word, times in words)


def missed(heard):
    return [f"{verb}: {word}" for verb, words in EXPECTED.items() for word in words if not heard[verb, word]]
