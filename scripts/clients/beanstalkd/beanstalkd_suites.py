#!/usr/bin/env python3
"""Runs the tests that pystalkd's source archive brings along against a running server's beanstalkd port.

The archive is fetched from the registry into a temporary folder. Its tests use the default tube, which has to be empty.
Needs: Python 3.10 or later, pip and PyYAML (`pip install -r requirements.txt`).
Usage: beanstalkd_suites.py HOST PORT
"""

import importlib.util
import random
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ARCHIVE = "pystalkd==1.3.0"
# It waits for a job in a tube that it does not watch; the archive's own list of tests leaves it out as well.
BROKEN = {"test_timedelta"}
# They put a body of the greatest size. The larger it is, the more often the library takes a line end in it for its end.
BIG = {"test_big", "test_big_bytes"}
BIG_BYTES_MAX = 1 << 20


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    host, port = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        tests = load(fetch(Path(folder)))
        # The library strips white space off a body, so that one random body in twenty would not come back.
        tests.urandom = random.Random(1).randbytes
        names = [name for name in unittest.TestLoader().getTestCaseNames(tests.TestBeanstalkd) if name not in BROKEN]
        if greatest(tests, host, port) > BIG_BYTES_MAX:
            names = [name for name in names if name not in BIG]
        suite = unittest.TestSuite(tests.TestBeanstalkd(name, host, port) for name in names)
        result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)
    if not result.wasSuccessful() or result.skipped:
        sys.exit(f"{ARCHIVE}: expected that all of its tests pass")
    print(f"{ARCHIVE}: {result.testsRun} of its own tests passed")


def fetch(folder):
    """The folder with the archive's content."""
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--no-binary", ":all:", "--dest", folder, ARCHIVE], check=True)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(folder)
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


def load(folder):
    # Its tests are to use the library they came with.
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("pystalkd_tests", folder / "test.py")
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    return tests


def greatest(tests, host, port):
    connection = tests.Beanstalkd.Connection(host, port)
    size = connection.stats()["max-job-size"]
    connection.close()
    return size


if __name__ == "__main__":
    main()
