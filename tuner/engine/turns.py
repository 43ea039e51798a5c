"""Turns of builds and measurements that want the same cores.

A kernel whose threads take every core of the machine loses one of them to a build beside it. Its other threads then
wait for the slowed one, so the time says more of the build than of the kernel. On such devices a batch of candidates
is built while nothing is measured. It is then measured while nothing is built and the search does not think.
"""

from __future__ import annotations

import socket

from compiler.target.target import Target
from rpc_server.machine.fingerprint import Fingerprint
from tuner.engine.jobs import Jobs
from tuner.records.model import TrialPurpose

BATCH = 7
"""Candidates built in one turn. One less than a search by population draws at a time: that one is known ahead of the
next turn, so that something is built already while the search thinks of more."""


def cores_shared(device: Fingerprint, builders: int) -> int:
    """Return how many of the builders' cores a device's kernels may take, too.
    It is all where the device is a CPU of the same machine."""
    is_here = Target(device.target).is_cpu and device.hostname == socket.gethostname()
    return builders if is_here else 0


def crowded(threads: int, builders: int, cores: int) -> bool:
    """Return whether a kernel's threads and so many builds overload the `cores` they share (0: none).
    A single thread keeps its core even so, because builds have the lowest priority, and no other thread waits for
    it."""
    return threads > 1 and threads + builders > cores > 0


class Turns:
    """Whether it is the measurements' turn. Asked and moved on only where turns are taken."""

    def __init__(self) -> None:
        self.measuring = False

    def may_ask(self, jobs: Jobs, at_once: int) -> bool:
        """Whether the search may be asked for one more, when `at_once` should be built or about to be.
        While nothing is built yet, it is asked for one only: its build goes on while the search thinks."""
        under_way = len(jobs.claiming) + len(jobs.building)
        begins = not jobs.building and jobs.claiming
        return not self.measuring and not begins and under_way < at_once and jobs.to_come < BATCH

    def may_think_ahead(self, jobs: Jobs) -> bool:
        """Return whether to ask the search for the next turn's candidates.
        That is when this turn's are all asked for and under way."""
        return not self.measuring and jobs.to_come >= BATCH and bool(jobs.building) and not jobs.claiming

    def may_measure(self, purpose: TrialPurpose) -> bool:
        """The untuned function has one thread: the first candidates are built beside it."""
        return self.measuring or purpose is TrialPurpose.BASELINE

    def after_measuring(self, jobs: Jobs, in_finals: bool) -> None:
        """Let builds follow once the batch is measured, before the search is asked.
        Finals are not interrupted."""
        waiting = any(ready.job.purpose is not TrialPurpose.BASELINE for ready in jobs.ready)
        measured = any(job.purpose is not TrialPurpose.BASELINE for job in jobs.slots.jobs())
        if not (waiting or measured or in_finals):
            self.measuring = False

    def after_building(self, jobs: Jobs) -> None:
        """Let measurements follow once everything asked of the search is built."""
        if not (jobs.claiming or jobs.building):
            self.measuring = True
