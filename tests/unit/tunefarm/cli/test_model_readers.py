"""`tunefarm models readers`: to ask for the readers changes nothing."""

from pathlib import Path

import pytest

from tests.kit.cli.run import Outcome, run_cli
from tuner.records.model_store.facts import NewModelVersion
from tuner.records.store import RecordStore


def test_readers_are_shown_and_set(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    db = f"sqlite:///{tmp_path / 'records.db'}"
    digest = "d" * 64
    with RecordStore.open(db, create=True) as store:
        store.models.register(
            NewModelVersion(name="net", digest=digest, file_digest=digest, form="onnx", kind="llvm", tasks=())
        )

    def said(*words: str) -> Outcome:
        return run_cli(capfd, "models", "readers", "net", *words, "--db", db)

    assert said("ada", "bob").out == "net is read by ada, bob\n"
    assert said().out == "net is read by ada, bob\n"
    assert said("--nobody").out == "net is read by its owner alone\n"
    assert said().out == "net is read by its owner alone\n"
    assert said("ada", "--nobody").code == 2
