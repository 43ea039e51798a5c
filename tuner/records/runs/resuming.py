"""Resuming a run that did not finish, on the devices that it began with."""

from __future__ import annotations

import shlex

from tuner.records.db.passwords import shown_command
from tuner.records.model import IMPORTED, Run, RunState

_DEVICES = ("tracker", "key", "device")
"""Flags of `tunefarm tune` that say where a run measures: a resumed run is given them again."""


def values_of(command: str, flag: str) -> list[str]:
    """Return the values that a command line gives a flag, in their order.
    There are none for one that is not recorded."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    found = []
    for word, following in zip(words, [*words[1:], ""]):
        if word == f"--{flag}":
            found.append(following)
        elif word.startswith(f"--{flag}="):
            found.append(word.partition("=")[2])
    return found


def resume_command(run: Run, db: str | None = None) -> str:
    """Return the command that resumes a run, in the record store `db` if that is not the setting's."""
    words = ["tunefarm", "tune", "--resume", str(run.id), *(["--db", db] if db else [])]
    for flag in _DEVICES:
        words += [word for value in values_of(run.command, flag) for word in (f"--{flag}", value)]
    return shown_command(words)


def may_resume(run: Run) -> bool:
    """Tell whether a run ended before it was finished, and can be resumed here."""
    return run.state.ended and run.state is not RunState.FINISHED and IMPORTED not in run.options
