"""A recorded run as a notebook shows it."""

from __future__ import annotations

import importlib.util

import pytest

import tunefarm
from tests.kit.records.runs import Lab
from tunefarm.notebook import MissingExtraError
from tuner.records.errors import RecordNotFound, StoreMissing
from tuner.records.model import NewTrial, TrialPurpose
from tuner.records.store import RecordStore


@pytest.fixture
def db(tmp_path):
    """A store with an empty run and one of twelve trials and two finals, the slower of which won the search."""
    path = tmp_path / "records.db"
    with RecordStore.open(path, create=True) as store:
        lab = Lab(store)
        lab.start("empty")
        run = lab.start("<second>")
        lab.trials(run, range(13))
        search = [t for t in store.trials.all(run.id) if t.purpose is TrialPurpose.SEARCH and t.cost is not None]
        ranked = sorted(search, key=lambda t: t.cost)
        for trial, samples in zip(ranked, [(2e-3, 3e-3, 4e-3), (1e-3, 1e-3, 9e-3)]):
            store.trials.add(
                NewTrial(
                    task_id=trial.task_id, device_id=trial.device_id, digest=trial.digest, trace=trial.trace,
                    purpose=TrialPurpose.FINAL, samples=samples, verified=True,
                )
            )  # fmt: skip
    return path


def test_the_newest_run_and_one_by_its_number(db):
    assert tunefarm.load_run(db).record.name == "<second>"
    first = tunefarm.load_run(db, 1)
    assert first.trials() == ()
    assert first.best() == (None,)
    with pytest.raises(RecordNotFound):
        tunefarm.load_run(db, 9)


def test_no_store_and_no_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNEFARM_DB", f"sqlite:///{tmp_path / 'none.db'}")
    with pytest.raises(StoreMissing):
        tunefarm.load_run()
    with RecordStore.open(tmp_path / "none.db", create=True), pytest.raises(RecordNotFound, match="has no run"):
        tunefarm.load_run()


def test_the_best_is_who_won_the_finals(db):
    run = tunefarm.load_run(db)
    (best,) = run.best()
    assert best.cost == 1e-3
    assert best.speedup == pytest.approx(900)
    assert best.gflops == pytest.approx(2 * 32**3 / 1e-3 / 1e9)
    assert best.trial.purpose is TrialPurpose.FINAL
    assert best.config["steps"]


def test_as_html(db):
    text = tunefarm.load_run(db)._repr_html_()
    assert text.startswith("<table>")
    assert "<td>matmul:32,32,32:float32</td>" in text
    assert "<td>1,000.0 µs</td><td>900.0x</td>" in text
    assert "–" in tunefarm.load_run(db, 1)._repr_html_()


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("matplotlib", "plot")])
def test_without_the_extra_its_name_is_said(db, package, method):
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(MissingExtraError, match=f"{package} is not installed") as raised:
        getattr(tunefarm.load_run(db), method)()
    assert "tunefarm[notebook]" in raised.value.hint


def test_as_a_data_frame(db):
    pytest.importorskip("pandas")
    frame = tunefarm.load_run(db).to_pandas()
    assert len(frame) == 15
    assert list(frame.purpose.unique()) == ["baseline", "search", "final"]
    searched = frame[frame.purpose == "search"]
    assert (searched.failure.dropna() == "crash").all()
    assert list(searched.best_s) == list(searched.cost_s.cummin().ffill())
    assert len(tunefarm.load_run(db, 1).to_pandas()) == 0


def test_as_a_curve(db):
    pytest.importorskip("matplotlib").use("agg")
    axes = tunefarm.load_run(db).plot()
    curve = list(axes.get_lines()[0].get_ydata())
    assert curve == sorted(curve, reverse=True)
    assert axes.get_legend().get_texts()[0].get_text() == "matmul:32,32,32:float32"
    assert tunefarm.load_run(db, 1).plot(ax=axes) is axes
