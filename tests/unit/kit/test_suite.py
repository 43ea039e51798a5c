"""What the test suite does to its own processes."""

from __future__ import annotations

import importlib.util
import signal
from types import ModuleType

from tests.kit.places import TESTS


def conftest() -> ModuleType:
    """tests/conftest.py; several have the name."""
    spec = importlib.util.spec_from_file_location("the_conftest", TESTS / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sigint_reaches_what_a_background_job_starts() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        conftest().pytest_configure()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, ours := lambda *_: None)
        conftest().pytest_configure()
        assert signal.getsignal(signal.SIGINT) is ours
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_files_that_begin_first_are_there() -> None:
    assert not [name for name in conftest().LONGEST if not (TESTS / name).exists()]
