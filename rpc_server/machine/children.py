"""Python processes that this one starts.

How they find our packages, and one that is asked a single question.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import msgspec

from rpc_server.machine.crash import signal_name

T = TypeVar("T")

PYTHON = (sys.executable, "-P")
"""How one begins: -P, because a folder it works in may have the name of one of our packages."""
_DIES_S = 1.0


def search_path() -> str:
    """Return PYTHONPATH with our packages first, also where they are not installed.
    It is the same in any working folder."""
    root = str(Path(__file__).resolve().parents[2])
    others = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join([root, *map(os.path.abspath, others)])


def environment(**added: str) -> dict[str, str]:
    """Return this process's environment, with a path on which children find our packages, and `added`."""
    return {**os.environ, "PYTHONPATH": search_path(), **added}


_PASSED_ON = ("PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "CUDA_HOME",
              "CUDA_PATH", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "OMP_NUM_THREADS", "OMP_PLACES",
              "OMP_PROC_BIND")  # fmt: skip
"""All of this process's environment that an executor gets: a client's code reads it, and may tell the client."""


def executor_environment(**added: str) -> dict[str, str]:
    """The environment of a process that runs clients' code: only what is listed here, and what is `added`."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    passed |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    return {**passed, "PYTHONPATH": search_path(), **added}


def answer_of(module: str, settings: msgspec.Struct, kind: type[T], timeout_s: float, **added: str) -> T | str:
    """Return what `python -m module SETTINGS` prints as JSON, or how it ended without an answer.

    That is in words, such as "did not end within 5 s". `added` comes to its environment. A process that does not die,
    because its driver hangs, is left behind.
    """
    child = subprocess.Popen(
        [*PYTHON, "-m", module, msgspec.json.encode(settings).decode()],
        env=environment(**added),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"did not end within {timeout_s:g} s"
    finally:
        _end(child)
    if child.returncode < 0:
        return f"was killed by {signal_name(-child.returncode)}"
    try:
        return msgspec.json.decode(out, type=kind)
    except msgspec.DecodeError:
        last = err.decode(errors="replace").strip().splitlines()[-1:]
        return f"ended with {child.returncode}: {' '.join(last)}"


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    try:
        child.wait(_DIES_S)
    except subprocess.TimeoutExpired:
        return
