"""The two servers of a round: beanstalkd, and another one."""

import pathlib
import socket
import subprocess
import sys

HOST = "127.0.0.1"
BEANSTALKD = "beanstalkd"
ADDRESS = f"beanstalkd://{HOST}:0"
HERE = pathlib.Path(__file__).resolve().parent
CRASH = HERE.parent / "crash"
# In which Jobyard is told to have the limits of beanstalkd.
SETTINGS = HERE / "jobyard.toml"


class Beanstalkd:
    """It, or another program with its arguments, on a port that was free a moment ago."""

    def __init__(self, program):
        with socket.socket() as found:
            found.bind((HOST, 0))
            self.place = found.getsockname()
        command = [program, "-l", HOST, "-p", str(self.place[1])]
        # What it says about bad requests is not of interest.
        silence = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        self.process = subprocess.Popen(command, **silence)

    def kill(self):
        self.process.terminate()
        self.process.wait()


def start_jobyard():
    sys.path.insert(0, str(CRASH))
    from server import LISTEN, Server, find_binary

    server = Server(find_binary(), ["--memory", "--config", str(SETTINGS)], listen={ADDRESS} - set(LISTEN))
    try:
        server.place = server.places()["beanstalkd"]
    except BaseException:
        server.kill()
        raise
    return server


class Pairs:
    """So many of them, to be used in a `with`."""

    def __init__(self, count, other):
        self.count, self.other, self.servers = count, other, []

    def __enter__(self):
        try:
            both = [[self.start(program) for _ in range(self.count)] for program in (BEANSTALKD, self.other)]
            return list(zip(*both, strict=True))
        except BaseException:
            self.__exit__()
            raise

    def start(self, program):
        server = Beanstalkd(program) if program else start_jobyard()
        self.servers.append(server)
        return server.place

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()
