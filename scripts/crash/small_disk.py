"""A small file system in memory that can be filled to its last block. It is gone with the process that keeps it."""

import errno
import os
import pathlib
import selectors
import shutil
import subprocess
import tempfile
import threading

PATIENCE = 20
BLOCK = 4096


class SmallDisk:
    """It is mounted in a process that does nothing else, and seen only through it: nothing has to be unmounted."""

    def __init__(self, size):
        self.place = tempfile.mkdtemp(prefix="jobyard-chaos-disk-")
        # Who is not root is root in a namespace of its own.
        rights = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
        script = 'mount -t tmpfs -o "$0" jobyard "$1" && echo mounted && exec cat'
        command = ["unshare", *rights, "sh", "-c", script, f"size={size}", self.place]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.keeper = subprocess.Popen(command, **pipes, start_new_session=True)
        self.path = pathlib.Path(f"/proc/{self.keeper.pid}/root{self.place}")
        self.ballast = None
        with selectors.DefaultSelector() as selector:
            selector.register(self.keeper.stdout, selectors.EVENT_READ)
            if not selector.select(PATIENCE) or self.keeper.stdout.readline() != b"mounted\n":
                self.close()
                raise SystemExit("a tmpfs cannot be mounted: that needs the right to mount, or user namespaces")

    def close(self):
        if self.ballast is not None:
            self.ballast.remove()
        self.keeper.kill()
        self.keeper.wait(PATIENCE)
        for pipe in (self.keeper.stdin, self.keeper.stdout):
            pipe.close()
        os.rmdir(self.place)

    def fill(self):
        """Takes every block there is, and every one that is given back, until `free`."""
        self.ballast = Ballast(self.path / "ballast")

    def free(self):
        self.ballast.remove()
        self.ballast = None

    def keep_copy(self, name):
        """Copies a directory to where it stays. Returns that place."""
        kept = tempfile.mkdtemp(prefix="jobyard-chaos-kept-")
        shutil.copytree(self.path / name, f"{kept}/{name}")
        return f"{kept}/{name}"


class Ballast:
    def __init__(self, path):
        self.path = path
        self.full, self.over = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.grow, daemon=True)
        self.thread.start()
        if not self.full.wait(PATIENCE):
            raise SystemExit(f"the disk is not full after {PATIENCE} s")

    def grow(self):
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            size = BLOCK * 64
            while not self.over.is_set():
                try:
                    os.write(file, b"x" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    if size > BLOCK:
                        size = BLOCK
                        continue
                    self.full.set()
                    self.over.wait(0.002)
        finally:
            os.close(file)

    def remove(self):
        self.over.set()
        self.thread.join(PATIENCE)
        os.remove(self.path)
