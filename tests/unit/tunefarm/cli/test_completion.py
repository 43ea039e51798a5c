"""Shells complete files and names of the record store, and nothing where there is no store."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tunefarm.cli.commands import cli
from tuner.records.model_store.facts import NewModelVersion
from tuner.records.store import RecordStore


def completed(*words: str) -> list[tuple[str, str]]:
    *args, incomplete = words
    found = ShellComplete(cli, {}, "tunefarm", "_TUNEFARM_COMPLETE").get_completions(args, incomplete)
    return [(item.type, item.value) for item in found]


@pytest.mark.parametrize("command", [["run"], ["tune"], ["build"], ["models", "add"]])
def test_a_model_may_be_a_file(command: list[str]) -> None:
    assert completed(*command, "mod") == [("file", "mod")]


def test_models_of_the_store_are_completed(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'records.db'}"
    with RecordStore.open(db, create=True) as store:
        digest, name = "d" * 64, "resnet18"
        new = NewModelVersion(name=name, digest=digest, file_digest=digest, form="onnx", kind="llvm", tasks=())
        store.models.register(new)
    assert completed("models", "show", "--db", db, name[:2]) == [("plain", name)]
    assert completed("models", "tune", "--db", db, "none-of-them") == []
    assert completed("run", "x.onnx", "--db", db, "--release", "") == []


def test_without_a_store_or_a_web_app_nothing_is_completed(tmp_path: Path) -> None:
    nothing = f"sqlite:///{tmp_path / 'none.db'}"
    assert completed("models", "show", "--db", nothing, "") == []
    assert completed("run", "x.onnx", "--db", nothing, "--release", "") == []
    assert completed("build", "x.onnx", "--api", "http://127.0.0.1:9", "--release", "") == []
    assert not (tmp_path / "none.db").exists()
