"""Starting tuning runs and profiles that were asked for over the API.

A run is a `tunefarm tune --resume` in a process of its own, which outlives the web app and is told to stop through
the store. `LeftRuns` finds runs whose process died meanwhile. A profile is a `tunefarm models profile` in a process
of its own.
"""

from __future__ import annotations

import logging
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from compiler.errors import TunefarmError
from rpc_server.machine.children import environment
from rpc_server.machine.crash import signal_name
from tuner.process_identity import is_gone
from tuner.records.model import RunState
from tuner.records.model_store.facts import ProfileJob
from tuner.records.store import RecordStore

_log = logging.getLogger(__name__)

_LAST = 4000  # characters of what a failed process said that are kept


class Launcher(Protocol):
    """The starter of runs for the web app."""

    @property
    def has_tracker(self) -> bool:
        """Whether devices are leased from a tracker; else they are this machine's."""

    def start(self, run_id: int, key: str, trials: int | None = None) -> None:
        """Have a queued run of the store tuned, on devices that match `key`; `trials` changes its budget."""

    def profile(self, job: ProfileJob, model_id: int, digest: str) -> None:
        """Have a version of a model profiled on a device of the job's key, and end the job with what comes."""


@dataclass(frozen=True)
class ProcessLauncher:
    """Starts `command` (how the `tunefarm` command is run here).
    `db` is the store's URL as the command takes it, `tracker` HOST:PORT, or "" for this machine's own device."""

    store: RecordStore
    command: Sequence[str]
    db: str
    tracker: str = ""

    @property
    def has_tracker(self) -> bool:
        return bool(self.tracker)

    def start(self, run_id: int, key: str, trials: int | None = None) -> None:
        words = [*self.command, "tune", "--resume", str(run_id), "--if-queued", "--quiet"]
        if trials is not None:
            words.append(f"--trials={trials}")
        queued_at = self.store.runs.get(run_id).updated_at

        def failed(status: int, said: str) -> None:
            self._failed(run_id, queued_at, status, said)

        self._spawn(words, key, ("tuning", f"run-{run_id}"), failed)

    def profile(self, job: ProfileJob, model_id: int, digest: str) -> None:
        words = [*self.command, "models", "profile", str(model_id), f"--version={digest}", f"--job={job.id}", "--json"]

        def failed(status: int, said: str) -> None:
            how = f"its process was killed by {signal_name(-status)}" if status < 0 else said.removeprefix("error: ")
            try:
                self.store.models.end_job(job.id, message=how or "its process ended at once")
            except TunefarmError as error:
                _log.warning("profile %d ended, and the store could not be told why: %s", job.id, error.message)

        self._spawn(words, job.key, ("profiling", f"profile-{job.id}"), failed)

    def _spawn(self, words: list[str], key: str, names: tuple[str, str], failed: Callable[[int, str], None]) -> None:
        """Start a process of these words, on devices of a key if there is a tracker.
        `names` say what it is for, and name the thread that waits for it. `failed` gets its exit status and its last
        words, unless it ends well."""
        doing, name = names
        if self.tracker:
            words += [f"--tracker={self.tracker}", f"--key={key or '*'}"]
        said = tempfile.TemporaryFile()  # noqa: SIM115 (the thread below closes it)
        nothing = subprocess.DEVNULL
        try:
            process = subprocess.Popen(
                words,
                stdin=nothing,
                stdout=nothing,
                stderr=said,
                start_new_session=True,
                env=environment(TUNEFARM_DB=self.db),  # not for everyone to see: it may hold a password
            )
        except OSError as error:
            said.close()
            failed(1, f"the {doing} process could not be started: {error.strerror}")
            return

        def watch() -> None:
            with said:
                if (status := process.wait()) != 0:
                    said.seek(0)
                    failed(status, said.read().decode(errors="replace")[-_LAST:].strip())

        threading.Thread(target=watch, name=name, daemon=True).start()

    def _failed(self, run_id: int, queued_at: datetime, status: int, said: str) -> None:
        """Record the reason of a process that ended before it took the run.
        A process that had it has recorded one itself, unless it was killed. A run that was queued again meanwhile
        waits for another process."""
        told = said.removeprefix("error: ")
        how = f"the tuning process was killed by {signal_name(-status)}" if status < 0 else told
        try:
            if self.store.runs.end_left(run_id, is_gone, how or "the tuning process ended at once"):
                return
            run = self.store.runs.get(run_id)
            if run.state is RunState.QUEUED and run.updated_at == queued_at:
                self.store.runs.set_state(run_id, RunState.FAILED, how or "the tuning process ended at once")
        except TunefarmError as error:
            _log.warning("run %d ended, and the store could not be told why: %s", run_id, error.message)


EVERY_S = 10.0
MESSAGE = "its process is gone, without a word"


class LeftRuns(threading.Thread):
    """Finds runs that nobody tunes any more, at once and then every `every_s` seconds until `stop`.

    Their records say that they run, but their process was killed, perhaps with the web app. They are interrupted, so
    that pages show it and they can be resumed. Abandoned profiles become failed. Several web apps on one store may
    do this.
    """

    def __init__(self, store: RecordStore, every_s: float = EVERY_S) -> None:
        super().__init__(name="left-runs", daemon=True)
        self._store = store
        self._every_s = every_s
        self._stopping = threading.Event()

    def run(self) -> None:
        while True:
            try:
                self.look()
            except TunefarmError as error:
                _log.debug("left runs were not looked for: %s", error)
            if self._stopping.wait(self._every_s):
                return

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def look(self) -> None:
        """Interrupt the runs there are, and end the profiles. Raises StoreUnavailable."""
        for run_id in self._store.runs.left(is_gone):
            if self._store.runs.end_left(run_id, is_gone, MESSAGE):
                _log.warning("run %d was left by its process; it can be resumed", run_id)
        for job_id in self._store.models.left_jobs(is_gone):
            self._store.models.end_job(job_id, message=MESSAGE)
            _log.warning("profile %d was left by its process", job_id)
