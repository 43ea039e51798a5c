"""Finds runs that nobody tunes any more, though their records say otherwise: their process was killed, and perhaps the
web app with it. They are interrupted, so that the pages say so and they can be resumed. Profiles that nobody makes any
more have failed."""

from __future__ import annotations

import logging
import threading

from compiler.errors import TunefarmError
from tuner.process_identity import is_gone
from tuner.records.store import RecordStore

_log = logging.getLogger(__name__)

EVERY_S = 10.0
MESSAGE = "its process is gone, without a word"


class LeftRuns(threading.Thread):
    """Looks at once, and then every `every_s` seconds until `stop`. Several web apps on one store may do this."""

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
