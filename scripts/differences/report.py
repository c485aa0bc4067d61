"""Shows a difference so that somebody can understand it, and see it again."""

from conversation import Differs
from instants import PITCH

LINES_MAX = 40
TEXT_MAX = 150


def show_difference(played, arguments):
    """Whole, if it was asked for or shrunk; else its last lines."""
    differs, lines = played.why, played.talk.lines
    whole = arguments.shrink or arguments.round is not None
    print(f"--- round {played.tale.number}: {differs}")
    for line in lines if whole else lines[-LINES_MAX:]:
        print(show_line(*line))
    if isinstance(differs, Differs):
        print(f"the request was: {readable(differs.request.data) if differs.request else '(none)'}")
        for name, reply in zip(("beanstalkd", "the other"), differs.replies, strict=True):
            print(f"{name} said: {reply.decode('latin-1') if reply.startswith(b'OK ') else readable(reply)}")
    server = f" --server {arguments.server}" if arguments.server else ""
    again = f"--seed {arguments.seed} --steps {arguments.steps} --round {played.tale.number}{server}"
    print(f"to see it again: scripts/beanstalkd-differences {again}")


def show_line(instant, client, direction, said):
    return f"{instant * PITCH:7.3f} {client:>2}{direction} {said if isinstance(said, str) else readable(said)}"


def readable(data):
    text = data.decode("latin-1").encode("unicode_escape").decode()
    if len(text) > TEXT_MAX:
        return f"{text[:TEXT_MAX]}... ({len(data)} bytes)"
    return text or "(nothing)"
