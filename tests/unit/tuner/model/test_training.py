"""Models learn an order, are judged on workloads they have not seen, and are read only when they are whole."""

from __future__ import annotations

import gzip
import json
import sys

import numpy as np
import pytest

from tuner.model.errors import ModelError
from tuner.model.features import FEATURE_VERSION, NAMES
from tuner.model.forest import Forest
from tuner.model.library import from_file, newest, pack, read, shipped, shipped_families, to_file
from tuner.model.quality import Quality, rank_quality
from tuner.model.training import Group, TrainingOptions, train

QUICK = TrainingOptions(trees=20, leaves=8, folds=2)


def group(seed: int, count: int = 60) -> Group:
    """The cost grows with feature 3 and, less so, falls with feature 5."""
    matrix = np.random.default_rng(seed).random((count, len(NAMES)))
    return Group(f"w{seed}", matrix, 1e-3 * np.exp2(2 * matrix[:, 3] - matrix[:, 5]))


@pytest.fixture(scope="module")
def trained():
    pytest.importorskip("lightgbm", exc_type=ImportError)
    return train([group(seed) for seed in range(4)], QUICK)


def test_a_model_ranks_workloads_it_has_not_seen(trained):
    unseen = group(9)
    assert rank_quality(trained.forest.predict(unseen.matrix), unseen.costs).spearman > 0.8
    assert set(trained.by_workload) == {"w0", "w1", "w2", "w3"}
    assert trained.held_out.spearman > 0.8


def test_scores_times_the_scale_are_logarithms_of_speed(trained):
    of = group(0)
    score = trained.scale * trained.forest.predict(of.matrix)
    speed = -np.log2(of.costs)
    assert np.std(score) == pytest.approx(np.std(speed), rel=0.5)


def test_a_forest_is_evaluated_as_lightgbm_does(trained):
    lightgbm = pytest.importorskip("lightgbm")
    matrix = group(5).matrix
    theirs = lightgbm.Booster(model_str=trained.forest.text).predict(matrix, raw_score=True, num_threads=1)
    np.testing.assert_allclose(trained.forest.predict(matrix), theirs, atol=1e-12)
    assert trained.forest.predict(matrix[:0]).shape == (0,)


def test_training_twice_makes_the_same_model(trained):
    assert train([group(seed) for seed in range(4)], QUICK).forest.text == trained.forest.text


def test_one_workload_trains_a_model_that_nothing_judges():
    pytest.importorskip("lightgbm", exc_type=ImportError)
    alone = train([group(0)], QUICK)
    assert alone.held_out is None
    assert alone.by_workload == {}


def test_nothing_measured_is_said_so():
    with pytest.raises(ModelError, match="no two measured"):
        train([])


def test_without_lightgbm_training_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ModelError) as caught:
        train([group(0)], QUICK)
    assert "tunefarm[model]" in caught.value.hint


# ------------------------------------------------------------------------------------ quality


def test_a_perfect_order_has_perfect_quality():
    costs = np.linspace(1, 2, 64)
    assert rank_quality(-costs, costs) == Quality(1.0, 1.0, 1.0, 1.0)
    assert rank_quality(costs, costs).spearman == pytest.approx(-1.0)
    assert rank_quality(costs, costs).recall == 0.0


def test_scores_that_are_all_equal_say_nothing():
    assert rank_quality(np.zeros(10), np.arange(1.0, 11.0)).spearman == 0.0


# -------------------------------------------------------------------------------------- texts


def changed(text: str, name: str, new) -> str:
    """The text with the numbers of `name` in its first tree changed."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{name}="))
    values = lines[at].split("=")[1].split()
    lines[at] = f"{name}=" + " ".join(new(values))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("split_feature", lambda v: ["999", *v[1:]]),
        ("split_feature", lambda v: ["-1", *v[1:]]),
        ("left_child", lambda v: ["0", *v[1:]]),  # its own child
        ("left_child", lambda v: ["99", *v[1:]]),
        ("right_child", lambda v: ["-99", *v[1:]]),
        ("threshold", lambda v: ["nan", *v[1:]]),
        ("threshold", lambda v: v[1:]),
        ("leaf_value", lambda v: ["inf", *v[1:]]),
        ("leaf_value", lambda v: ["x", *v[1:]]),
        ("decision_type", lambda v: ["1", *v[1:]]),  # a categorical split
        ("num_cat", lambda v: ["1"]),
        ("num_leaves", lambda v: ["1000000"]),
        ("num_leaves", lambda v: []),
    ],
)
def test_a_damaged_tree_is_refused(trained, name, new):
    with pytest.raises(ModelError, match="tree 0"):
        Forest.parse(changed(trained.forest.text, name, new))


@pytest.mark.parametrize("text", ["", "tree\n", "tree\nversion=v4\n", "import os\n", "tree\nversion=v9\nnum_class=1\n"])
def test_other_texts_are_refused(text):
    with pytest.raises(ModelError):
        Forest.parse(text)


def test_a_model_of_other_features_is_refused(trained):
    with pytest.raises(ModelError, match="other features"):
        Forest.parse(trained.forest.text.replace("feature_names=ops ", "feature_names=opera "))


def test_a_text_that_is_too_long_is_refused_unread(trained):
    with pytest.raises(ModelError, match="longer"):
        Forest.parse(trained.forest.text + " " * (8 << 20))


# -------------------------------------------------------------------------------------- files


def test_a_file_holds_the_model_and_what_is_known_of_it(trained):
    model = pack("llvm-test-256", [group(seed) for seed in range(4)], trained)
    again = from_file(to_file(model))
    assert again == model
    assert to_file(again) == to_file(model)
    assert again.trained_on["candidates"] == 240
    assert again.rank_accuracy["spearman"] == round(trained.held_out.spearman, 4)
    assert read(again).trees == trained.forest.trees


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not gzip",
        gzip.compress(b"{}"),
        gzip.compress(b"[1, 2"),
        gzip.compress(b"[" * 100_000),
        gzip.compress(json.dumps({"format": "tunefarm.model", "version": 1}).encode()),
        gzip.compress(json.dumps({"format": "tunefarm.model", "version": 2}).encode()),
        gzip.compress(b" " * (9 << 20)),  # small here, large unpacked
    ],
    ids=["empty", "plain", "object", "cut", "deep", "old", "hollow", "huge"],
)
def test_files_that_hold_no_model_are_refused(data):
    with pytest.raises(ModelError):
        from_file(data)


@pytest.mark.parametrize("family", shipped_families())
def test_shipped_models_can_be_used(family):
    model = shipped(family)
    assert model.target_family == family
    assert model.feature_version == FEATURE_VERSION
    assert model.rank_accuracy["spearman"] > 0.5
    assert newest(None, family).forest.trees == read(model).trees


def test_a_family_without_a_model_has_none():
    assert newest(None, "llvm-none-1") is None
