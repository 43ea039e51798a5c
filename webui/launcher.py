"""Starting tuning runs that were asked for over the API: each is a `tunefarm tune --resume` of its own process, which
outlives the web app and is told to stop through the store."""

from __future__ import annotations

import logging
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from compiler.errors import TunefarmError
from tuner.records.model import RunState
from tuner.records.store import RecordStore

_log = logging.getLogger(__name__)

_LAST = 4000  # characters of what a failed process said that are kept


class Launcher(Protocol):
    """What starts runs for the web app."""

    @property
    def has_tracker(self) -> bool:
        """Whether devices are leased from a tracker; else they are this machine's."""

    def start(self, run_id: int, key: str) -> None:
        """Have a run that is in the store tuned, on devices that match `key`."""


@dataclass(frozen=True)
class ProcessLauncher:
    """Starts `command` (how the `tunefarm` command is run here). `db` is the store's address as the command takes it,
    `tracker` HOST:PORT, or "" for this machine's own device."""

    store: RecordStore
    command: Sequence[str]
    db: str
    tracker: str = ""

    @property
    def has_tracker(self) -> bool:
        return bool(self.tracker)

    def start(self, run_id: int, key: str) -> None:
        words = [*self.command, "tune", "--resume", str(run_id), "--quiet", f"--db={self.db}"]
        if self.tracker:
            words += [f"--tracker={self.tracker}", f"--key={key or '*'}"]
        said = tempfile.TemporaryFile()  # noqa: SIM115 (the thread below closes it)
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=said, start_new_session=True)

        def watch() -> None:
            with said:
                if process.wait() != 0:
                    said.seek(0)
                    self._failed(run_id, said.read().decode(errors="replace")[-_LAST:].strip())

        threading.Thread(target=watch, name=f"run-{run_id}", daemon=True).start()

    def _failed(self, run_id: int, said: str) -> None:
        """A process that ended before it took the run leaves its reason; one that had it has said so itself."""
        try:
            if self.store.run(run_id).state is RunState.QUEUED:
                self.store.set_run_state(run_id, RunState.FAILED, said or "the tuning process ended at once")
        except TunefarmError as error:
            _log.warning("run %d ended, and the store could not be told why: %s", run_id, error.message)
