"""Whether a process that owned something still lives."""

from __future__ import annotations

import re
import subprocess
import sys

from tuner.process_identity import is_gone, process_name

SAY = "from tuner.process_identity import process_name; print(process_name(), flush=True); input()"


def test_this_process_lives():
    assert not is_gone(process_name())


def test_another_process_lives_until_it_ends():
    child = subprocess.Popen([sys.executable, "-c", SAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    name = child.stdout.readline().strip()
    assert name != process_name()
    assert not is_gone(name)
    child.kill()
    while not is_gone(name):  # a zombie counts as gone
        pass
    child.wait()
    assert is_gone(name)


def test_another_process_of_the_same_number():
    assert is_gone(re.sub(r"begun (\d+)", "begun 1", process_name()))


def test_what_cannot_be_seen_from_here_may_live():
    assert not is_gone(re.sub(r"\[[0-9a-f]+-", "[abc-", process_name()))
    assert not is_gone("somebody else")
