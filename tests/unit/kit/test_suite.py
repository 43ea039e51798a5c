"""The test suite's own processes and files."""

from __future__ import annotations

import signal

import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests import conftest
from tests.kit import fuzzing
from tests.kit.places import ROOT, TESTS

NOT_SOURCE = {"benchmarks", "docs", "kit", "layers"}
MOST_FILES = 25


def test_sigint_reaches_what_a_background_job_starts() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        conftest.do_not_ignore_sigint()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, ours := lambda *_: None)
        conftest.do_not_ignore_sigint()
        assert signal.getsignal(signal.SIGINT) is ours
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(bool(fuzzing.FUZZ_CASES), reason="make fuzz tries the source's constants, too")
def test_examples_do_not_depend_on_what_else_is_imported() -> None:
    assert vars(providers)["_get_local_constants"]() == Constants()


def test_unit_tests_lie_as_the_source_does() -> None:
    """Each folder of tests/unit is one of the source, so a package that moves takes its tests along."""
    unit = TESTS / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    strays = [f for f in folders if f.parts[:1] and f.parts[0] not in NOT_SOURCE and not (ROOT / f).is_dir()]
    assert not strays, f"tests/unit has folders that the source has not: {sorted(map(str, strays))}"
    assert not list(unit.glob("*.py")), "a test of a module lies in the folder of its package"


@pytest.mark.parametrize("folder", ["", "unit", "contract", "e2e"])
def test_what_tests_share_is_a_kit(folder: str) -> None:
    """Scripts that are run themselves are the exception."""
    assert {path.name for path in (TESTS / folder).glob("*.py")} <= {
        "__init__.py", "conftest.py", *({"soak.py", "soak_attack.py", "kill_writers.py"} if folder == "e2e" else ()),
    }  # fmt: skip


def test_no_folder_is_too_full() -> None:
    folders = {path.parent for path in TESTS.rglob("*.py")}
    assert not [str(folder) for folder in folders if len(list(folder.glob("*.py"))) > MOST_FILES]
