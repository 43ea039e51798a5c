"""`pytest --forks N`: N processes run the tests, forked from the one that collected them.

Thousands of tests take a core a quarter of a minute to collect; here that is done once and not by every worker. The
tests of a file run in one process, one after the other, and whoever is free takes the next file in the order of the
items. A worker that dies fails the test that it was at, and another one goes on after it. Besides, all workers have the
process that forks the tests' commands (warm_cli.py) in common.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, metavar="N", help="run the tests in N processes (forked.py)")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.forks:
        config.pluginmanager.register(ForkedRun(config.option.forks))


@dataclass(frozen=True)
class _Began:
    """The worker begins the item of that number."""

    number: int


@dataclass(frozen=True)
class _Ended:
    """Of that item the reports, as pytest makes them to be sent."""

    number: int
    reports: list[dict[str, Any]]


@dataclass(frozen=True)
class _Wants:
    """The worker has nothing to do; `problem` is what went wrong with what its tests had in common, if it did."""

    problem: str = ""


@dataclass
class _Worker:
    pid: int
    link: Connection
    left: range = range(0)
    """Numbers of the items that it has not finished."""
    ends: bool = False
    """It was told that there is nothing more."""


@dataclass(frozen=True)
class _Between:
    """In place of the test that comes next where that is not known: what a session's tests have in common stays."""

    session: pytest.Session

    def listchain(self) -> list[pytest.Session]:
        return [self.session]


@dataclass(eq=False)
class ForkedRun:
    """A plugin that runs a session's tests in `count` processes."""

    count: int
    _names: Iterator[int] = field(default_factory=itertools.count)
    _workers: dict[Connection, _Worker] = field(default_factory=dict)
    _todo: deque[range] = field(default_factory=deque)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest has its say
        self._todo.extend(files_of(session.items))
        _own_folder(session.config)  # made here, for all
        if "warm_cli" in sys.modules:  # some tests start commands
            sys.modules["warm_cli"].prepare()
        try:
            for _ in range(min(self.count, len(self._todo))):
                self._fork(session)
            while self._workers:
                for link in wait(list(self._workers)):
                    assert isinstance(link, Connection)
                    self._hear(session, self._workers[link])
        finally:
            self._end_workers()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _fork(self, session: pytest.Session) -> None:
        ours, theirs = Pipe()
        name = next(self._names)
        pid = os.fork()
        if pid == 0:
            for link in (ours, *self._workers):
                link.close()
            _work(session, theirs, name)
        theirs.close()
        self._workers[ours] = _Worker(pid, ours)

    def _hear(self, session: pytest.Session, worker: _Worker) -> None:
        said = None
        with contextlib.suppress(EOFError, ConnectionResetError):
            said = worker.link.recv()
        match said:
            case None:
                self._bury(session, worker)
            case _Began(number):
                item = session.items[number]
                session.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            case _Ended(number, reports):
                worker.left = range(number + 1, worker.left.stop)
                self._log(session, number, reports)
            case _Wants(problem):
                if problem:
                    _fail(session, "what a worker's tests had in common", problem)
                self._give(session, worker)

    def _log(self, session: pytest.Session, number: int, reports: list[dict[str, Any]]) -> None:
        hook = session.ihook
        for data in reports:
            report = session.config.hook.pytest_report_from_serializable(config=session.config, data=data)
            hook.pytest_runtest_logreport(report=report)
        item = session.items[number]
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _give(self, session: pytest.Session, worker: _Worker) -> None:
        """The next file, or word that there is none."""
        more = self._todo and not session.shouldfail and not session.shouldstop
        worker.left = self._todo.popleft() if more else range(0)
        worker.ends = not more
        with contextlib.suppress(BrokenPipeError):  # it has died, which comes up next
            worker.link.send(worker.left)

    def _bury(self, session: pytest.Session, worker: _Worker) -> None:
        """A worker has ended: as it should, or in the middle of a test, which then another one leaves out."""
        del self._workers[worker.link]
        worker.link.close()
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if worker.ends and status == 0:
            return
        how = (
            f"the process that ran the tests was killed by {signal.Signals(-status).name}"
            if status < 0
            else (f"the process that ran the tests ended with status {status}")
        )
        _fail(session, session.items[worker.left.start].nodeid if worker.left else "the end of a worker", how)
        if rest := worker.left[1:]:
            self._todo.appendleft(rest)
        if self._todo and not session.shouldfail and not session.shouldstop:
            self._fork(session)

    def _end_workers(self) -> None:
        """Those left when the run is interrupted."""
        for worker in self._workers.values():
            os.kill(worker.pid, signal.SIGTERM)
        for worker in self._workers.values():
            worker.link.close()
            os.waitpid(worker.pid, 0)
        self._workers.clear()


def files_of(items: list[pytest.Item]) -> Iterator[range]:
    """The numbers of each file's items, which follow each other."""
    for _, numbers in itertools.groupby(range(len(items)), lambda number: items[number].path):
        found = list(numbers)
        yield range(found[0], found[-1] + 1)


def _fail(session: pytest.Session, name: str, text: str) -> None:
    report = pytest.TestReport(name, (name, None, name), {}, "failed", text, "call")
    session.ihook.pytest_runtest_logreport(report=report)


# --- in a worker -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Collected:
    """A plugin that keeps the reports of a test."""

    config: pytest.Config
    reports: list[dict[str, Any]] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self.config.hook
        self.reports.append(hook.pytest_report_to_serializable(config=self.config, report=report))


def _work(session: pytest.Session, link: Connection, name: int) -> NoReturn:
    """Run what the other end of `link` names, and end this process."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, _stop)
        _run_files(session, link, name)
        status = 0
    except (EOFError, BrokenPipeError, KeyboardInterrupt):  # nobody wants to know any more
        with contextlib.suppress(BaseException):
            session._setupstate.teardown_exact(None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        os._exit(status)


def _stop(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run_files(session: pytest.Session, link: Connection, name: int) -> None:
    config = session.config
    config.pluginmanager.unregister(name="terminalreporter")
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    _own_folder(config, f"worker-{name}")
    kept = _Collected(config)
    config.pluginmanager.register(kept)
    between: Any = _Between(session)
    link.send(_Wants())
    while numbers := link.recv():
        for number in numbers:
            link.send(_Began(number))
            following = session.items[number + 1] if number + 1 in numbers else between
            config.hook.pytest_runtest_protocol(item=session.items[number], nextitem=following)
            link.send(_Ended(number, kept.reports))
            kept.reports = []
        link.send(_Wants())
    try:
        session._setupstate.teardown_exact(None)
    except Exception:
        link.send(_Wants(traceback.format_exc()))
        link.recv()


def _own_folder(config: pytest.Config, name: str = "") -> None:
    """From now on, temporary folders are made in that one."""
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    base = factory.getbasetemp()
    if name:
        factory._basetemp = base / name
        factory._basetemp.mkdir()
