"""What tests of several kinds share.

It also decides in which order pytest-xdist hands out the files (`--no-loadscope-reorder` keeps it to that order).
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy starts threads, which spin while others want the core

import pytest

from tests.kit import fuzzing
from tests.kit.places import TESTS

if TYPE_CHECKING:  # most tests have no database
    from tests.kit.records.seed import Seeded
    from tuner.records.store import RecordStore

fuzzing.load_profile()

WAITING = ("e2e", "browser", "contract")
"""Folders whose tests mostly wait, for processes, for databases and for faults to be noticed."""

LONGEST = (
    "e2e/faults/test_farm.py",
    "e2e/cli/test_cold.py",
    "e2e/cli/test_farm.py",
    "unit/docs/test_examples.py",
    "e2e/webui/test_runs.py",
    "e2e/tracker/test_deaths.py",
    "e2e/cli/test_resume.py",
    "e2e/cli/test_killed.py",
    "e2e/tuning/test_autotvm.py",
    "e2e/cli/test_farm_cli.py",
    "e2e/faults/test_soak.py",
    "e2e/cli/test_bench.py",
    "e2e/faults/test_box.py",
    "e2e/tuning/test_auto_scheduler.py",
    "browser/test_live_run.py",
    "browser/test_accessibility.py",
    "contract/webui/test_workers.py",
    "e2e/cli/test_own_kernels.py",
    "e2e/relay/test_cli.py",
    "e2e/tuning/test_failures.py",
    "e2e/rpc/test_server.py",
    "e2e/tuning/test_dask_builder.py",
    "e2e/tracker/test_farm.py",
    "e2e/tuning/test_meta_schedule.py",
    "unit/compiler/codegen/test_arithmetic.py",
    "unit/compiler/codegen/test_math.py",
    "property/test_schedule_random.py",
    "e2e/rpc/test_wire_fuzz.py",
)
"""They begin first, so that none of them is left running alone in the end."""


def pytest_configure() -> None:
    """Started in the background by a script, this process ignores SIGINT, and so would all that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected, thousands of tests, stays to the end: the garbage collector need not look at it ever again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files: the longest, then those that wait by turns with those that compute, so that they overlap."""
    files = sorted({item.path for item in items})
    longest = [TESTS / name for name in LONGEST]
    first = [path for path in longest if path in files]
    rest = [path for path in files if path not in longest]
    waiting = [path for path in rest if path.relative_to(TESTS).parts[0] in WAITING]
    computing = [path for path in rest if path not in waiting]
    turns = [(at / len(part), path) for part in (waiting, computing) for at, path in enumerate(part)]
    order = {path: at for at, path in enumerate([*first, *(path for _, path in sorted(turns))])}
    items.sort(key=lambda item: order[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a failure goes what the processes of the test's farms said: it is often there that it began."""
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
    from tuner.records.store import RecordStore

    shutil.copyfile(seeded_template[0], tmp_path / "records.db")
    with RecordStore.open(tmp_path / "records.db") as store:
        yield store


@pytest.fixture
def ids(seeded_template: tuple[Path, Seeded]) -> Seeded:
    """What is in the seeded store."""
    return seeded_template[1]
