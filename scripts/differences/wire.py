"""One connection to one server, and the replies that come on it."""

import asyncio
import socket
import struct

# Where in a reply's first line the size of its body is.
SIZE_AT = {b"OK": 1, b"FOUND": 2, b"RESERVED": 2}


class Wire(asyncio.Protocol):
    """`replies` are whole, `unread` is what is left; `instant` is when something came last."""

    def __init__(self, clock):
        self.clock, self.transport = clock, None
        self.replies, self.unread, self.instant, self.ended = [], b"", 0, False
        self.news = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.unread += data
        while length := reply_length(self.unread):
            self.replies.append(self.unread[:length])
            self.unread = self.unread[length:]
        self.note()

    def eof_received(self):
        self.end()

    def connection_lost(self, _why):
        self.end()

    def end(self):
        if not self.ended:
            self.ended = True
            self.note()

    def note(self):
        self.instant = self.clock.note()
        self.news.set()

    def take(self):
        """What came since the last time: whole replies, then what is unfinished."""
        taken = self.replies + ([self.unread] if self.unread else [])
        self.replies, self.unread = [], b""
        return taken

    async def ask(self, line):
        """Waits for the next reply, on a connection that has no other."""
        self.transport.write(line)
        while not self.replies and not self.ended:
            self.news.clear()
            await self.news.wait()
        self.replies.clear()

    def half_close(self):
        if not self.transport.is_closing():
            self.transport.write_eof()

    def close(self):
        self.transport.close()

    def reset(self):
        """Ends the connection with a RST."""
        if not self.transport.is_closing():
            linger = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.transport.abort()


def reply_length(data):
    """How long the first reply is; 0 if it is not whole."""
    line, end, _ = data.partition(b"\r\n")
    words = line.split(b" ")
    at = SIZE_AT.get(words[0], len(words))
    length = len(line) + len(end)
    if at < len(words) and words[at].isdigit():
        length += int(words[at]) + 2
    return length if end and len(data) >= length else 0
