"""The values that requests are made of: a few good ones, so that they meet, and all the bad ones we could think of."""

TUBES = ("default", "default", "a", "a", "b", "t.3")
LONGEST = "n" * 200
STRANGE_TUBES = ("$+/;.-_()", "0", "aA-", LONGEST)
BAD_TUBES = ("", "-a", "a b", "a ", " a", "a*", "a,b", "a:b", "a=b", "a\0b", "\xe4", "a\tb", "n" * 201, "n" * 210)

PRIORITIES = (0, 1, 1, 2, 1023, 1024, 4294967295)
DELAYS = (0, 0, 0, 0, 0, 1, 2, 3, 1000, 4294967295)
TTRS = (0, 1, 1, 2, 2, 3, 3, 60, 120, 4294967295)
TIMEOUTS = (0, 0, 1, 1, 2, 3)
PAUSES = (0, 1, 1, 2, 3, 1000, 4294967295)
KICKS = (0, 1, 1, 2, 3, 10, 4294967295)

# Where a number should be. Those that are taken for one all the same are short as times.
BAD_NUMBERS = ("", "x", "-1", "+1", "1x", "1.5", "0x1", "\t1", "01", "002", " 1", "4294967296", "18446744073709551616")
# Those of them that are never taken for one.
NO_NUMBERS = tuple(bad for bad in BAD_NUMBERS if not bad.strip(" ").isdigit() or int(bad) > 4294967295)
BAD_TIMEOUTS = (*BAD_NUMBERS, "-2", "2 ", "1 2", "2147483648", "4294967295")
BAD_TIMEOUTS += ("9223372036854775807", "9223372036854775808")
BAD_KICKS = (*BAD_NUMBERS, "2 ", "1 2", "9223372036854775808", "18446744073709551615", "99999999999999999999")
STRANGE_IDS = ("0", "18446744073709551615", "18446744073709551616", "99999999999999999999", "", "x", "-1", "\t1")
# Of an id that exists.
BENT_IDS = ("0{}", " {}", "{} ", "{}x", "+{}", "-{}", "{} 1", "{}\0")

BODIES = (b"", b"x", b"hello", b"\r\n", b"a\r\nb", b"\0\xff\r", b"y" * 300)
BODIES += (b"peek-ready", b"list-tubes", b"delete 1\r\nuse a")
# Those that can be taken for commands, and have no CR alone.
PLAIN_BODIES = tuple(body for body in BODIES if not body.endswith(b"\r"))
TOO_LARGE = 65536
LARGE = (TOO_LARGE - 2, TOO_LARGE - 1, TOO_LARGE, TOO_LARGE + 1, 70000)

UNKNOWN = ("", " ", "hello", "PUT 0 0 1 1", "Stats", "stat", " stats", "stats-", "reserv", "list-tube", "\0", "\xff")
UNKNOWN += ("put", "use", "watch", "ignore", "delete", "release", "bury", "touch", "peek", "peek-", "kick", "kick-job")
UNKNOWN += ("pause-tube",)
# Words that begin as a verb does that takes nothing more.
TRAILED = ("stats", "stats ", "reserve", "peek-ready", "peek-delayed", "peek-buried", "list-tubes", "list-tube-used")
TRAILED += ("list-tubes-watched",)
TRAILS = (" ", "x", " 1", "\0", "\n", "-job", "-tube", "-with-timeout", "-watched")
# As long as a line may be, with its end, and nearly so; one more than a multiple of that, its end is cut in two.
LINE_MAX = 224
LINES = (222, 223, 224, 225, 226, 300, 447, 448, 449, 450, 1000)
PLAIN_LINES = (222, 223, 224, 226, 300, 447, 448, 450, 1000)
PLAIN_ENDLESS = (b"stats\n", b"use ", b"\n")
ENDLESS = (*PLAIN_ENDLESS, b"stats\r", b"peek-ready\rx\r\n", b"list-tubes\r\r\n", b"\r")
