"""Tests in processes that are forked from the one that collected them: what is told of those that fail or die."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import forked

KILLS = """
import os

import pytest

@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")

def test_one(shared, tmp_path):
    assert shared.parent == tmp_path.parent

def test_killed():
    os.kill(os.getpid(), 9)

def test_after_it(shared):
    assert shared.is_dir()

def test_wrong():
    print("said before")
    assert 1 + 1 == 3
"""
WELL = """
def test_captured(capfd):
    print("heard")
    assert capfd.readouterr().out == "heard\\n"
"""
LATE = """
import pytest

@pytest.fixture(scope="session")
def broken():
    yield
    raise OSError("not to be ended")

def test_with_it(broken):
    pass
"""


def run_forked(folder: Path, *flags: str, **files: str) -> tuple[int, str]:
    """Exit status and output of pytest on such test files."""
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    path = [str(Path(forked.__file__).parent), *sys.path]
    code = f"import sys; sys.path[:] = {path!r}; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    words = ["-p", "forked", "-p", "no:hypothesispytest", "-p", "no:xdist", "--basetemp", str(folder / "temporary")]
    command = [sys.executable, "-c", code, *words, "--rootdir", str(folder), "-q", "-rf", *flags, str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_a_worker_that_dies_fails_its_test_and_the_others_run(tmp_path):
    status, said = run_forked(tmp_path, "--forks", "2", kills=KILLS, well=WELL)
    assert status == 1
    assert "2 failed, 3 passed" in said
    assert "FAILED test_kills.py::test_killed" in said
    assert "the process that ran the tests was killed by SIGKILL" in said
    assert "assert (1 + 1) == 3" in said
    assert "said before" in said


def test_what_a_session_has_in_common_and_fails_to_end_fails_the_run(tmp_path):
    status, said = run_forked(tmp_path, "--forks", "1", late=LATE, well=WELL)
    assert status == 1
    assert "1 failed, 2 passed" in said
    assert "OSError: not to be ended" in said


def test_no_file_is_begun_after_the_most_failures(tmp_path):
    wrong = "def test_it():\n    assert False\n"
    status, said = run_forked(tmp_path, "--forks", "1", "-x", a=wrong, b=wrong, c=wrong)
    assert status == 1
    assert "1 failed in" in said
    assert "stopping after 1 failures" in said
