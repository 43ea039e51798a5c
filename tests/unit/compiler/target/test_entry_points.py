"""Rows that installed distributions add: found on the path, imported when used, told apart, told when broken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tunefarm as tvm
from compiler.errors import TargetError
from compiler.runtime.core.backends import DEVICE_BACKENDS
from compiler.target import entry_points
from compiler.target.entry_points import DEVICE_GROUP, KIND_GROUP
from compiler.target.options import KINDS
from compiler.target.target import Target

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution with these entry points on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(name: str, text: str) -> None:
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(text)
        entry_points.use_rows(None)

    (tmp_path / "few_kinds.py").write_text(
        "from compiler.target.options import Kind\nclass Kinds:\n    FEW = Kind((), 'vpi', {'cores': int})\n"
    )
    yield put
    entry_points.use_rows(None)
    KINDS.pop("few", None)
    sys.modules.pop("few_kinds", None)


def test_a_kind_is_imported_when_it_is_asked_for(install: Install) -> None:
    install("few", f"[{KIND_GROUP}]\nfew = few_kinds:Kinds.FEW\n[console_scripts]\nfew = few:main\n")
    assert "few" in Target.list_kinds()
    assert "few_kinds" not in sys.modules
    assert Target("few -cores=3").device_type == "vpi"
    assert "few_kinds" in sys.modules
    with pytest.raises(TargetError, match="'few' has no option 'core'"):
        Target("few -core=3")


def test_what_cannot_be_imported_is_told_with_its_distribution(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install("broken", f"[{DEVICE_GROUP}]\nvpi = few_kinds:NOTHING\n[{KIND_GROUP}]\nother = no_such_module:KIND\n")
    for _ in range(2):  # the same each time
        with pytest.raises(TargetError, match=r"'vpi' of tunefarm.device_backends(?s:.*)AttributeError(?s:.*)'broken'"):
            DEVICE_BACKENDS.find("vpi")
    with pytest.raises(TargetError, match="No module named 'no_such_module'"):
        Target("other")
    assert not tvm.device("vulkan", 0).exist  # all else works on
    assert "no_such_module" in caplog.text


def test_names_of_ours_and_of_the_first_are_kept(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install("first", f"[{DEVICE_GROUP}]\nllvm = few_kinds:FEW\nmine = few_kinds:Kinds\n")
    assert DEVICE_BACKENDS.find("llvm") is not None
    assert "few_kinds" not in sys.modules
    install("second", f"[{DEVICE_GROUP}]\nmine = few_kinds:OTHER\n")
    assert DEVICE_BACKENDS.kinds.count("mine") == 1
    assert "'mine' of tunefarm.device_backends is in" in caplog.text


def test_rows_of_a_parent_are_used(install: Install) -> None:
    install("few", f"[{KIND_GROUP}]\nfew = few_kinds:Kinds.FEW\n")
    entry_points.use_rows({})
    with pytest.raises(TargetError, match="'few' is unknown"):
        Target("few")


def test_a_kind_is_a_kind(install: Install) -> None:
    install("few", f"[{KIND_GROUP}]\nfew = few_kinds:Kinds\n")
    with pytest.raises(TargetError, match="is no Kind"):
        Target("few")
