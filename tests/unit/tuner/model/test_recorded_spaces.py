"""Recorded spaces of every family can be read, described, played and learned from on any machine."""

from __future__ import annotations

import pytest

from compiler.target.target import Target
from tests.kit.benchmark_scripts import benchmark_script
from tuner.model.features import NAMES, SketchFeatures
from tuner.model.library import from_file
from tuner.model.machine import target_family

recorded_spaces = benchmark_script("recorded_spaces")
shipped_model = benchmark_script("shipped_model")
strategies = benchmark_script("strategies")

AVX2, AVX512 = "llvm-x86_64-256", "llvm-x86_64-512"
FAMILIES = recorded_spaces.families()
LINUX = "-mtriple=x86_64-unknown-linux-gnu -num-cores=1"


def some(family: str) -> list[recorded_spaces.RecordedSpace]:
    """A matrix product, and a space of another kind."""
    found = list(recorded_spaces.spaces(family))
    return [next(s for s in found if s.workload.startswith(kind)) for kind in ("matmul", "conv2d")]


def test_avx2_is_among_the_families():
    assert AVX2 in FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_every_recording_is_of_its_folder_s_family_and_whole(family):
    found = list(recorded_spaces.spaces(family, drawn=True))
    assert len(found) >= 15
    for space in found:
        target = Target(space.target)
        assert target_family(target) == family
        assert any(recorded_spaces.path_of(space.workload, target, drawn=drawn).exists() for drawn in (False, True))
        measured = [cost for cost in space.costs.values() if cost is not None]
        assert len(measured) >= 20, space.workload
        assert space.best == min(measured) > 0
        assert {name for name, _ in space.costs} <= {sketch.name for sketch in space.sketches}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_recorded_sketch_has_features(family):
    for space in recorded_spaces.spaces(family, drawn=True):
        for sketch in space.sketches:
            points = [point for name, point in space.costs if name == sketch.name]
            if points:
                features = SketchFeatures.of(sketch, space.task.func, space.task.target, points[0])
                assert features.matrix(points).shape == (len(points), len(NAMES))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_engine_plays_recordings(family):
    comparison = strategies.Comparison(some(family))
    for space in comparison.spaces:
        curve = strategies.play(comparison.strategy("evolutionary", space, 0), space, 24)
        assert len(curve.shares) == 24
        assert curve.at(24) > 0.5
        assert curve.at(1) <= curve.at(24)


def test_families_are_kept_apart(tmp_path):
    space = some(AVX2)[0]
    wide = Target(f"llvm -mcpu=sapphirerapids {LINUX}")
    here = recorded_spaces.path_of(space.workload, Target(space.target), tmp_path)
    there = recorded_spaces.path_of(space.workload, wide, tmp_path)
    assert (here.parent.name, there.parent.name) == (AVX2, AVX512)
    recorded_spaces.write(space, here)
    before = here.read_bytes()
    assert recorded_spaces.families(tmp_path) == (AVX2,)
    recorded_spaces.write(space, there)
    assert here.read_bytes() == before
    assert recorded_spaces.families(tmp_path) == (AVX2, AVX512)
    again = recorded_spaces.read(here)
    assert again.costs == space.costs
    assert [s.workload for s in recorded_spaces.spaces(AVX2, tmp_path)] == [space.workload]


def test_only_the_family_asked_for_is_trained(tmp_path, monkeypatch, capsys):
    pytest.importorskip("lightgbm", exc_type=ImportError)
    for space in some(AVX2):
        recorded_spaces.write(space, recorded_spaces.path_of(space.workload, Target(space.target), tmp_path))
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / f"{AVX512}.json.gz").write_bytes(b"another")
    (shipped / "README.md").write_text(f"# Models\n<!-- {AVX2}: begin -->\nnone yet\n<!-- {AVX2}: end -->\nthe end\n")
    words = ["--family", AVX2, "--data", str(tmp_path), "--folder", str(shipped), "--trees", "5"]
    monkeypatch.setattr("sys.argv", ["shipped_model.py", *words])
    shipped_model.main()
    assert "model: spearman" in capsys.readouterr().out
    made = from_file((shipped / f"{AVX2}.json.gz").read_bytes())
    assert made.target_family == AVX2
    assert (shipped / f"{AVX512}.json.gz").read_bytes() == b"another"
    page = (shipped / "README.md").read_text()
    assert f"{made.trained_on['candidates']} candidates of 2 kernels" in page
    assert "none yet" not in page
    assert page.endswith("the end\n")


def test_a_family_that_was_not_recorded_is_told_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["shipped_model.py", "--family", "llvm-none-1"])
    with pytest.raises(SystemExit):
        shipped_model.main()
    assert "no space of llvm-none-1 was recorded; llvm-x86_64-256" in capsys.readouterr().err


def test_strategies_write_a_table_for_each_family(tmp_path, monkeypatch, capsys):
    space = next(s for s in recorded_spaces.spaces(AVX2) if s.workload == "matmul:64,64,64")
    for target in (space.target, f"llvm -mcpu=sapphirerapids {LINUX}"):
        recorded_spaces.write(space, recorded_spaces.path_of(space.workload, Target(target), tmp_path))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- strategies: begin -->\nold\n<!-- strategies: end -->\nafter\n")
    words = ["--data", str(tmp_path), "--seeds", "1", "--trials", "4", "--only", "random", "--write", str(page)]
    monkeypatch.setattr("sys.argv", ["strategies.py", *words, "--by-workload"])
    strategies.main()
    out, text = capsys.readouterr().out, page.read_text()
    for family in (AVX2, AVX512):
        assert f"{family}: 1 workloads" in out
        assert f"`{family}` (AMD Zen 3" in text
    assert text.count("| `random` | ") == 2
    assert "old" not in text
    assert text.startswith("before\n<!-- strategies: begin -->\nOf 1 seeds, 4 trials at most.")
    assert text.endswith("|\n<!-- strategies: end -->\nafter\n")


def test_a_page_without_marks_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing here\n")
    with pytest.raises(ValueError, match="no marks"):
        recorded_spaces.put(page, "strategies", "text")
    assert page.read_text() == "nothing here\n"
