"""Fixtures and settings that tests of several kinds share.

It also decides in which order pytest-xdist hands out the files (`--no-loadscope-reorder` keeps it to that order), by
how long they took before.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy starts threads, which spin while others want the core
os.environ.setdefault("TUNEFARM_DRAFT_CACHE", "")  # drafts of this run's code only, and none of it left behind

import pytest

from tests.kit import durations, fuzzing
from tests.kit.places import TESTS

if TYPE_CHECKING:  # most tests have no database
    from tests.kit.records.seed import Seeded
    from tuner.records.store import RecordStore

fuzzing.load_profile()

_SECONDS = pytest.StashKey[dict[str, float]]()
"""How long each file is expected to take."""


def pytest_configure(config: pytest.Config) -> None:
    do_not_ignore_sigint()
    if hasattr(config, "workerinput"):  # all workers must have one order, whatever else writes to the cache
        config.stash[_SECONDS] = config.workerinput["durations"]
        return
    config.stash[_SECONDS] = durations.known(config.cache.get(durations.CACHE_KEY, {}) if config.cache else {})
    config.pluginmanager.register(Measuring(config), "tunefarm-durations")


def do_not_ignore_sigint() -> None:
    """Started in the background by a script, this process ignores SIGINT, and so would all that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt the collected tests, thousands, from the garbage collector: they stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


class Measuring:
    """Keeps how long the files of a run took, for the next one. Not in the workers of pytest-xdist, which report to
    this process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["durations"] = self._config.stash[_SECONDS]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.split("::")[0].removeprefix("tests/")
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._config.cache is None or exitstatus or fuzzing.FUZZ_CASES or self._is_part():
            return
        before = self._config.cache.get(durations.CACHE_KEY, {})
        self._config.cache.set(durations.CACHE_KEY, durations.merged(before, self._seconds))

    def _is_part(self) -> bool:
        """Whether some tests of a file may have been left out."""
        option = self._config.option
        chosen = option.keyword or option.markexpr not in ("", "not slow") or option.lf
        return bool(chosen or any("::" in arg for arg in self._config.args))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    paths = {item.path for item in items}
    names = {path: path.relative_to(TESTS).as_posix() for path in paths if path.is_relative_to(TESTS)}
    order = {name: at for at, name in enumerate(durations.ordered(names.values(), config.stash[_SECONDS]))}
    items.sort(key=lambda item: order.get(names.get(item.path, ""), -1))


def pytest_runtest_setup() -> None:
    """Seed the random numbers of tests that have no seed of their own: they are the same each time."""
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what the processes of the test's farms said: it is often there that it began."""
    report = yield
    if report.failed and (kit := sys.modules.get("tests.kit.cli.farm")):  # most tests have no farm
        report.sections += [log for farm in kit.FARMS for log in farm.logs()]
    return report


def pytest_runtest_logfinish() -> None:
    if kit := sys.modules.get("tests.kit.cli.farm"):
        kit.forget_stopped_farms()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with today's schema, to be copied: the migrations take longer than most tests."""
    from tuner.records.db.migrate import upgrade

    file = tmp_path_factory.mktemp("records") / "template.db"
    upgrade(str(file))
    return whole(file)


@pytest.fixture(scope="module")
def seeded_template(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seeded]:
    """A database file with believable contents, to be copied, and what they are. One of its runs goes on, and would
    seem to have died in a file that is older than a module's tests."""
    from tests.kit.records.seed import seed
    from tuner.records.store import RecordStore

    file = tmp_path_factory.mktemp("seeded") / "template.db"
    shutil.copyfile(sqlite_template, file)
    with RecordStore.open(file) as store:
        seeded = seed(store)
    return whole(file), seeded


def whole(file: Path) -> Path:
    assert list(file.parent.iterdir()) == [file], "a journal is part of the database"
    return file


@pytest.fixture
def seeded_store(seeded_template: tuple[Path, Seeded], tmp_path: Path) -> Iterator[RecordStore]:
    with _copied(seeded_template[0], tmp_path) as store:
        yield store


@pytest.fixture(scope="module")
def seeded_store_of_module(
    seeded_template: tuple[Path, Seeded], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RecordStore]:
    """One for all tests of a module, which do not change what others look at."""
    with _copied(seeded_template[0], tmp_path_factory.mktemp("store")) as store:
        yield store


def _copied(template: Path, folder: Path) -> RecordStore:
    from tuner.records.store import RecordStore

    shutil.copyfile(template, folder / "records.db")
    return RecordStore.open(folder / "records.db")


@pytest.fixture(scope="module")
def ids(seeded_template: tuple[Path, Seeded]) -> Seeded:
    """The content of the seeded store."""
    return seeded_template[1]
