"""Features from decision vectors agree with what the schedules of those vectors are."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.ir.visit import walk
from compiler.lower.blocks.split_preproc import LAYOUT_FREE
from compiler.schedule.core.schedule import apply_trace
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from tests.kit.tuner.models import candidates, task
from tuner.kernels.space import KernelSpace
from tuner.model.errors import FeatureError
from tuner.model.features import NAMES, SketchFeatures
from tuner.model.guide import Guide
from tuner.model.library import newest
from tuner.model.machine import MachineModel, target_family
from tuner.model.read_nest import nest_of
from tuner.space.generate import generate
from tuner.task import TuningTask

WIDE = "llvm -mcpu=sapphirerapids -mtriple=x86_64-unknown-linux-gnu -num-cores=1"
SPECS = ["matmul:64,64,64", "matmul:37,61,29", "dense:16,48,40", "batch_matmul:3,16,40,24", "conv2d:1,8,14,14,16,3,3"]


def columns(spec: str, count: int = 12):
    of = task(spec)
    for sketch in generate(of.func, of.target)[:2]:
        points = [c.decisions for c in candidates(of, 2 * count) if c.sketch.name == sketch.name]
        matrix = SketchFeatures.of(sketch, of.func, of.target).matrix(points)
        yield of, sketch, points, dict(zip(NAMES, matrix.T))


@pytest.mark.parametrize("spec", SPECS)
def test_every_point_has_every_feature(spec):
    for _, _, points, found in columns(spec):
        assert len(found) == len(NAMES) == len(set(NAMES))
        for name, column in found.items():
            assert column.shape == (len(points),)
            assert np.isfinite(column).all(), name


@pytest.mark.parametrize("spec", SPECS)
def test_loops_are_as_long_as_in_the_schedule(spec):
    of = task(spec)
    for sketch in generate(of.func, of.target)[:2]:
        nest = nest_of(sketch, of.func)
        points = [c.decisions for c in candidates(of, 6, seed=1) if c.sketch.name == sketch.name]
        extents = nest.extents(np.array(points))
        for at, point in enumerate(points):
            scheduled = apply_trace(of.func, sketch.trace.with_decisions(point)).func
            lengths = [as_int(node.extent) for node in walk(scheduled.body) if isinstance(node, n.For)]
            mine = [int(np.prod([extents[p.var][at] for p in loop.parts])) for loop in nest.loops]
            for length in mine:
                assert length in lengths, (sketch.name, point)


def test_a_packed_operand_is_read_straight_on_and_takes_no_more_room_than_its_tile():
    of = task("matmul:64,64,64")
    found = {}
    for sketch in generate(of.func, of.target):
        if sketch.name in ("panels", "panels+pack"):
            values = {"rows": 4, "vectors": 2, "panel": 1, "bands": 1, "unroll": 1}
            point = [d.values.index(values[d.name]) for d in sketch.decisions]
            features = SketchFeatures.of(sketch, of.func, of.target)
            found[sketch.name] = dict(zip(NAMES, features.matrix([point])[0]))
    plain, packed = found["panels"], found["panels+pack"]
    for name in ("contiguous", "broadcast", "strided", "task_bytes", "loads_per_op"):
        assert packed[name] == plain[name], name
    assert (plain["runs"], packed["runs"]) == (6.0, 0.0)  # each of 64 steps reads a row elsewhere, or all are one piece


def test_a_convolution_of_1x1_is_the_product_that_it_is():
    """Its filters lie in one piece, and so do the pixels of its image."""
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=1")
    values = {"rows": 5, "vectors": 4, "panel": 2, "unroll": 4}
    found = []
    for spec, name in (("conv2d:1,64,28,28,32,1,1,1,0", "panels+flat"), ("matmul:32,784,64", "panels")):
        of = TuningTask.from_spec(spec, target)
        sketch = next(s for s in generate(of.func, of.target) if s.name == name)
        point = [d.values.index(values[d.name]) for d in sketch.decisions]
        row = SketchFeatures.of(sketch, of.func, of.target).matrix([point])[0]
        found.append(dict(zip(NAMES, row)))
    convolution, product = found
    for each in ("l1_traffic", "l2_traffic", "l3_traffic", "task_bytes", "runs", "loads_per_op", "draft"):
        assert convolution[each] == pytest.approx(product[each], abs=0.02), each


def test_what_is_copied_element_by_element_is_told_from_what_is_copied_in_vectors():
    for _, sketch, _, found in columns("matmul:64,64,64"):
        if sketch.name == "panels+pack2":
            assert (found["copied_singly"] > 0).all()
            assert (found["copied_singly"] < found["copied"]).all()
        else:
            assert not found["copied_singly"].any()


def test_what_is_packed_ahead_of_all_calls_is_no_copy():
    of = task("matmul:64,64,64")
    found = {}
    for func in (of.func, of.func.with_attr(LAYOUT_FREE, (1,))):
        sketch = next(s for s in generate(func, of.target) if s.name.startswith("panels+pack") and "2" not in s.name)
        points = [sketch.random(np.random.default_rng(0))]
        row = SketchFeatures.of(sketch, func, of.target).matrix(points)[0]
        found[sketch.name] = dict(zip(NAMES, row))
    assert found["panels+pack"]["copied"] > 0
    assert found["panels+pack+ahead"]["copied"] == found["panels+pack+ahead"]["copied_bytes"] == 0


def test_a_matrix_that_is_turned_while_it_is_packed_takes_longer():
    """It does not if that is done ahead of all calls."""
    drafts = {}
    for text in ("dense:64,64,64", "matmul:64,64,64", "ahead"):
        of = task("dense:64,64,64" if text == "ahead" else text)
        func = of.func.with_attr("layout_free_buffers", [1]) if text == "ahead" else of.func
        sketch = next(s for s in generate(func, of.target) if s.name.startswith("panels+pack"))
        values = {"rows": 4, "vectors": 2, "panel": 1, "bands": 1, "unroll": 1}
        point = [d.values.index(values[d.name]) for d in sketch.decisions]
        drafts[text] = SketchFeatures.of(sketch, func, of.target).matrix([point])[0, NAMES.index("draft")]
    assert min(drafts["ahead"], drafts["matmul:64,64,64"]) > drafts["dense:64,64,64"]


def test_partial_sums_that_are_added_up_in_the_tile_move_no_memory():
    of = TuningTask.from_spec("dense:16,3072,768", Target(WIDE))
    sketch = next(s for s in generate(of.func, of.target) if s.name == "rows+few")
    point = sketch.random(np.random.default_rng(0))
    found, late = SketchFeatures.of(sketch, of.func, of.target).described([point])
    bytes_each = 4 * (16 * 768 + 3072 * 768 + 2 * 16 * 3072) / (2 * 16 * 3072 * 768)
    assert 2.0 ** found[0, NAMES.index("l3_traffic")] == pytest.approx(bytes_each, rel=0.01)
    assert late[0] == pytest.approx(0.0)


@pytest.mark.parametrize("spec", ["matmul:512,512,512", "matmul:1024,1024,1024", "matmul:509,1021,257"])
def test_of_a_large_product_the_draft_tries_packed_columns_and_many_accumulators_first(spec):
    of = task(spec)
    rng = np.random.default_rng(0)
    scored = []
    for sketch in generate(of.func, of.target):
        points = [point for point in (sketch.random(rng) for _ in range(300)) if point is not None]
        scores = SketchFeatures.of(sketch, of.func, of.target).matrix(points)[:, NAMES.index("draft")]
        scored += [(score, sketch.name, sketch.values(point)) for score, point in zip(scores.tolist(), points)]
    for _, name, values in sorted(scored, key=lambda found: -found[0])[:8]:
        assert "pack" in name
        assert 10 <= values["rows"] * values["vectors"] < of.target.vector_registers


@pytest.mark.parametrize("spec", ["matmul:512,512,512", "matmul:1024,1024,1024", "conv2d:1,512,28,28,128,1,1,1,0"])
def test_where_vectors_are_lines_the_draft_tries_tiles_that_nearly_fill_32_registers_first(spec):
    of = TuningTask.from_spec(spec, Target(WIDE))
    rng = np.random.default_rng(0)
    scored = []
    for sketch in generate(of.func, of.target):
        points = [point for point in (sketch.random(rng) for _ in range(600)) if point is not None]
        scores = SketchFeatures.of(sketch, of.func, of.target).matrix(points)[:, NAMES.index("draft")]
        scored += [(score, sketch.values(point)) for score, point in zip(scores.tolist(), points)]
    first = [values for _, values in sorted(scored, key=lambda found: -found[0])[:8]]
    assert all(values["rows"] * values["vectors"] >= 20 for values in first), first
    assert any(values["unroll"] >= 4 for values in first)  # there is room for code


def test_rows_read_in_place_are_drafted_by_their_sets_and_lines():
    """Each of 512 rows 2 KiB apart finds a place in the second-level cache, and half of 1024 rows 4 KiB apart do. Among
    rows of 1021 elements, none but the first begins with a line."""

    def lost(spec):  # by not packing
        of = TuningTask.from_spec(spec, Target(WIDE))
        found = {}
        for sketch in generate(of.func, of.target):
            if sketch.name in ("panels", "panels+pack"):
                values = {"rows": 6, "vectors": 4, "panel": 4, "unroll": 4}
                point = [d.values.index(values[d.name]) for d in sketch.decisions]
                matrix = SketchFeatures.of(sketch, of.func, of.target).matrix([point])
                found[sketch.name] = matrix[0, NAMES.index("draft")]
        return found["panels+pack"] - found["panels"]

    assert lost("matmul:512,512,512") < 0.1
    assert lost("matmul:512,1024,1024") > 1.0
    assert lost("matmul:512,1021,256") > 0.3


def test_tiles_of_a_panel_that_lie_beyond_the_edge_cost_nothing_where_vectors_are_lines():
    of = TuningTask.from_spec("conv2d:1,256,14,14,512,1,1,1,0", Target(WIDE))
    [sketch] = [s for s in generate(of.func, of.target) if s.name == "panels+pack+flat"]
    drafted = []
    for panel in (4, 8):  # tiles of 32 pixels: 196 are 7 of them, all in a panel of 8
        values = {"rows": 14, "vectors": 2, "panel": panel, "unroll": 4}
        point = [d.values.index(values[d.name]) for d in sketch.decisions]
        drafted.append(SketchFeatures.of(sketch, of.func, of.target).matrix([point])[0, NAMES.index("draft")])
    assert drafted[1] > drafted[0] - 0.03


@pytest.mark.parametrize("target", [str(task("matmul:8,8,8").target), WIDE])
@pytest.mark.parametrize("spec", ["matmul:16,1024,1024", "dense:16,1024,1024"])
def test_sketches_whose_middle_no_cache_holds_have_features_too(spec, target):
    of = TuningTask.from_spec(spec, Target(target))
    sketches = generate(of.func, of.target)
    assert Guide.of(sketches, of.func, of.target).says == "the analytic draft"


def test_tails_show_in_the_fill():
    for _, sketch, points, found in columns("matmul:64,64,64"):
        for point, fill in zip(points, found["fill"]):
            rows = sketch.values(point).get("rows", 1)
            assert fill <= 64 / (-(-64 // rows) * rows) + 1e-9


def test_more_threads_change_how_evenly_they_are_loaded():
    of = task("matmul:64,64,64")
    sketch = generate(of.func, of.target)[0]
    point = candidates(of, 4)[0].decisions
    balance = {}
    for cores in (1, 64):
        target = Target(f"{of.target}".replace("-num-cores=2", f"-num-cores={cores}"))
        features = SketchFeatures.of(sketch, of.func, target)
        balance[cores] = features.matrix([point])[0, NAMES.index("balance")]
    assert balance[1] == 1.0
    assert balance[64] <= 1.0


def test_features_of_many_points_are_those_of_each():
    of, sketch, points, _ = next(columns("conv2d:1,8,14,14,16,3,3"))
    features = SketchFeatures.of(sketch, of.func, of.target)
    together = features.matrix(points)
    alone = np.concatenate([features.matrix([point]) for point in points])
    np.testing.assert_array_equal(together, alone)


def test_the_draft_prefers_vectors_that_are_full_and_registers_that_do_not_spill():
    for _, _, _, found in columns("matmul:64,64,64", 40):
        best, worst = np.argmax(found["draft"]), np.argmin(found["draft"])
        assert found["tile_vectors"][best] > found["tile_vectors"][worst]


def test_a_space_of_no_schedules_has_no_features():
    sketch = KernelSpace({"TILE": [1, 2, 4]}).sketch("mine")
    of = task("matmul:16,16,16")
    with pytest.raises(FeatureError):
        SketchFeatures.of(sketch, of.func, of.target)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_instructions_for_groups_of_narrow_numbers_are_left_to_their_own_drafts(dtype):
    of = TuningTask.from_spec(f"matmul:64,64,64:{dtype}", Target(WIDE))
    sketches = generate(of.func, of.target)
    guide = Guide.of(sketches, of.func, of.target)
    assert "there are no features" in guide.says
    point = sketches[0].random(np.random.default_rng(0))
    assert point is not None
    assert guide.describe(sketches[0], [point])[1][0] == sketches[0].score(point)


def test_families_are_by_architecture_and_width_of_vectors():
    assert target_family(task("matmul:8,8,8").target) == "llvm-x86_64-256"
    wide = Target("llvm -mcpu=skylake-avx512 -mtriple=x86_64-unknown-linux-gnu")
    assert target_family(wide) == "llvm-x86_64-512"
    assert MachineModel.of(wide, "float32").lanes == 2 * MachineModel.of(task("matmul:8,8,8").target, "float32").lanes


def test_a_guide_with_a_model_listens_to_the_draft_as_well():
    of = task("matmul:64,64,64")
    sketches = generate(of.func, of.target)
    model = newest(None, target_family(of.target))
    assert model is not None
    assert model.serial
    points = [c.decisions for c in candidates(of, 20) if c.sketch.name == "panels+pack"]
    sketch = next(s for s in sketches if s.name == "panels+pack")
    matrix = SketchFeatures.of(sketch, of.func, of.target).matrix(points)
    learnt = model.scale * model.forest.predict(matrix) + np.log2(matrix[:, NAMES.index("balance")])
    _, drafted = Guide.of(sketches, of.func, of.target).describe(sketch, points)
    _, scores = Guide.of(sketches, of.func, of.target, lambda: model).describe(sketch, points)
    np.testing.assert_allclose(scores, (learnt + drafted) / 2)


def test_a_result_beyond_the_caches_is_better_written_in_long_pieces():
    """A tile's row is as many pixels as a panel has. The fewer there are, the more often memory is late."""
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -num-cores=1")
    large, small = (TuningTask.from_spec(f"conv2d:1,3,{size},{size},64,3,3,2,0", target) for size in (223, 35))
    for of, panels in ((large, (1, 4, 32)), (small, (1,))):
        sketch = next(s for s in generate(of.func, target) if s.name == "panels+flat")
        points = [
            [d.values.index({"rows": 6, "vectors": 2}.get(d.name, panel)) for d in sketch.decisions] for panel in panels
        ]
        _, late = SketchFeatures.of(sketch, of.func, target).described(points)
        assert (np.diff(late) > 0).all()
        assert (late < 0).all() if of is large else (late == 0).all()


def _late(panel: int, cpu: str) -> float:
    """Return the draft's addition for a group of so many panels of 240 KiB, 32 rows of which are read in turns."""
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=1")
    of = TuningTask.from_spec("matmul:128,3072,768", target)
    sketch = next(s for s in generate(of.func, of.target) if s.name == "panels+pack")
    values = {"rows": 4, "vectors": 5, "panel": panel, "bands": 1, "unroll": 1}
    point = [d.values.index(values[d.name]) for d in sketch.decisions]
    return float(SketchFeatures.of(sketch, of.func, target).described([point])[1][0])


def test_panels_that_nearly_fill_the_second_level_push_each_other_out():
    late = {panel: _late(panel, "sapphirerapids") for panel in (1, 3, 6, 8)}
    assert late[1] == pytest.approx(0.0, abs=0.01)
    assert late[3] == pytest.approx(0.0, abs=0.05)
    assert late[3] > late[6] > late[8]
    assert _late(3, "znver4") < late[3]  # its second level is half as large


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vectors_of_every_second_element_are_loaded_and_shuffled(dtype):
    """Elements of 32 bits are; smaller ones are gathered."""
    found = {}
    for stride in (1, 2):
        of = TuningTask.from_spec(f"conv2d:1,8,64,64,16,3,3,{stride},1:{dtype}", Target(WIDE))
        sketch = next(s for s in generate(of.func, of.target) if s.name == "panels")
        matrix = SketchFeatures.of(sketch, of.func, of.target).matrix([sketch.random(np.random.default_rng(0))])
        found[stride] = dict(zip(NAMES, matrix[0]))
    shuffled = dtype == "float32"
    assert found[2]["strided"] == found[1]["strided"] + (not shuffled)
    assert found[2]["contiguous"] == found[1]["contiguous"] - (not shuffled)
    assert found[2]["loads_per_op"] > found[1]["loads_per_op"]
