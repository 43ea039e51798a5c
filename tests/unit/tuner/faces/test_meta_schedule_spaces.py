"""Spaces made by rules: every point that is allowed computes what the function did."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.errors import ScheduleError
from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.runtime.core.registry import register_func
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir import nodes as n
from tests.kit.compiler.schedules import workloads as w
from tests.kit.tuner.sketch_points import at_point
from tuner.errors import TuningError
from tuner.faces.meta_schedule.runner import RPCConfig, RPCRunner, Runner
from tuner.faces.meta_schedule.search_strategy import EvolutionarySearch, ReplayFunc, ReplayTrace, SearchStrategy
from tuner.faces.meta_schedule.spaces.mutator import (
    MutateComputeLocation,
    MutateParallel,
    MutateTileSize,
    MutateUnroll,
    Mutator,
)
from tuner.faces.meta_schedule.spaces.postproc import DisallowDynamicLoop, Postproc
from tuner.faces.meta_schedule.spaces.schedule_rule import (
    AddRFactor,
    ApplyCustomRule,
    AutoInline,
    InlineConstantScalars,
    MultiLevelTiling,
    ParallelizeVectorizeUnroll,
    RandomComputeLocation,
    ReuseType,
    ScheduleRule,
)
from tuner.faces.meta_schedule.spaces.space_generator import (
    PostOrderApply,
    ScheduleFn,
    SpaceGenerator,
    SpaceGeneratorUnion,
)
from tuner.faces.meta_schedule.tasks_run import guide_of
from tuner.faces.meta_schedule.tune_context import TuneContext
from tuner.space.traced import TracedSketch, traced

TARGET = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu -num-cores=2"


def context(func: n.PrimFunc, **options) -> TuneContext:
    return TuneContext(func, target=TARGET, **options)


def with_rules(func: n.PrimFunc, *rules: ScheduleRule, postprocs="llvm") -> TuneContext:
    return context(func, space_generator=PostOrderApply(sch_rules=list(rules), postprocs=postprocs))


def check_points(func: n.PrimFunc, sketch: TracedSketch, count: int = 2) -> int:
    """Random points of the space agree with the function in machine code; how many there were."""
    rng, done = np.random.default_rng(3), 0
    wanted = w.outputs(func)
    for _ in range(count):
        point = sketch.random(rng)
        if point is not None:
            made = at_point(func, sketch, point)
            np.testing.assert_allclose(w.native_outputs(made), wanted, rtol=1e-4, atol=1e-5)
            done += 1
    return done


FUNCTIONS = {
    "matmul": w.matmul(13, 9, 7),
    "matmul_relu": w.matmul_relu(12, 10, 8),
    "conv": w.conv(2, 3, 7, 4, 3),
    "chain": w.chain(9, 11),
    "row_sum": w.row_sum(3, 40),
    "softmax": w.softmax(5, 12),
    "stencils": w.stencils(13),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_default_rules_keep_the_meaning(name):
    func = FUNCTIONS[name]
    ctx = context(func, space_generator=PostOrderApply(sch_rules="llvm", postprocs="llvm"))
    sketches = ctx.sketches()
    assert sketches
    assert all(check_points(func, sketch) for sketch in sketches)


def test_the_targets_own_space_is_the_tuners():
    func = w.matmul(16, 16, 16)
    assert [s.name for s in context(func).sketches()] == [
        s.name for s in context(func, space_generator="post-order-apply").sketches()
    ]
    assert not any(isinstance(s, TracedSketch) for s in context(func).sketches())


# -------------------------------------------------------------------------------------- rules


def blocks(sch: Schedule) -> list[str]:
    return [node.name_hint for node in walk(sch.func.body) if isinstance(node, n.Block)][1:]


def test_inlining_goes_into_what_reads():
    rule = AutoInline(
        into_producer=False, into_consumer=True, inline_const_tensor=True, disallow_if_then_else=True,
        require_injective=True, require_ordered=True,
    )  # fmt: skip
    (space,) = with_rules(w.chain(6, 6), rule, postprocs=None).generate_design_space()
    assert len(blocks(space)) == 1


def test_inlining_goes_back_into_what_is_read():
    rule = AutoInline(
        into_producer=True, into_consumer=False, inline_const_tensor=True, disallow_if_then_else=True,
        require_injective=True, require_ordered=True,
    )  # fmt: skip
    (space,) = with_rules(w.chain(6, 6), rule, postprocs=None).generate_design_space()
    assert len(blocks(space)) == 1


def test_a_block_with_a_refused_operation_stays():
    rule = AutoInline(
        into_producer=False, into_consumer=True, inline_const_tensor=True, disallow_if_then_else=True,
        require_injective=True, require_ordered=True, disallow_op=["tir.exp"],
    )  # fmt: skip
    func = w.softmax(4, 6)
    (space,) = with_rules(func, rule, postprocs=None).generate_design_space()
    assert blocks(space) == blocks(Schedule(func))


def test_tiling_follows_the_structure():
    rule = MultiLevelTiling(structure="SRS", max_innermost_factor=8)
    (space,) = with_rules(w.matmul(16, 16, 16), rule, postprocs=None).generate_design_space()
    assert len(space.get_loops(space.get_block("C"))) == 5
    assert [s.prim for s in space.trace.sampling_steps] == ["sample_perfect_tile"] * 3
    assert dict(space.trace.sampling_steps[0].attrs) == {"n": 2, "max_innermost_factor": 8}


@pytest.mark.parametrize(("req", "count"), [("no", 1), ("may", 3), ("must", 2)])
def test_a_write_cache_is_tried_at_each_level(req, count):
    rule = MultiLevelTiling(structure="SSRSRS", reuse_write=ReuseType(req=req, levels=[1, 2], scope="local"))
    func = w.matmul(16, 16, 16)
    ctx = with_rules(func, rule)
    spaces = ctx.generate_design_space()
    assert len(spaces) == count
    assert sum("C_local" in blocks(s) for s in spaces) == (0 if req == "no" else 2)
    assert all(check_points(func, sketch) for sketch in ctx.sketches())


def test_a_read_cache_is_a_copy_at_its_level():
    func = w.matmul(16, 16, 16)
    rule = MultiLevelTiling(structure="SSRSRS", reuse_read=ReuseType(req="must", levels=[3], scope="global"))
    ctx = with_rules(func, rule)
    (space,) = ctx.generate_design_space()
    assert {"A_global", "B_global"} <= set(blocks(space))
    assert all(check_points(func, sketch) for sketch in ctx.sketches())


def test_a_wrong_structure_is_refused():
    with pytest.raises(TuningError, match="'SXR' is no tile structure"):
        MultiLevelTiling(structure="SXR")
    with pytest.raises(TuningError, match="for GPUs"):
        MultiLevelTiling(structure="SR", tile_binds=["blockIdx.x"])


def test_a_tall_reduction_is_split_both_ways():
    func = w.row_sum(2, 64)
    ctx = with_rules(func, AddRFactor(max_jobs_per_core=16, max_innermost_factor=64))
    spaces = ctx.generate_design_space()
    assert len(spaces) == 3
    assert sum("S_rf" in blocks(s) for s in spaces) == 2
    assert all(check_points(func, sketch) for sketch in ctx.sketches())


def test_a_wide_reduction_is_left_alone():
    func = w.row_sum(64, 4)
    assert len(with_rules(func, AddRFactor()).generate_design_space()) == 1


def test_constant_scalars_are_inlined():
    assert blocks(with_rules(w.matmul(4, 4, 4), InlineConstantScalars()).generate_design_space()[0]) == ["C"]


def test_a_location_is_left_open():
    func = w.stencils(13)
    ctx = with_rules(func, RandomComputeLocation())
    (space,) = ctx.generate_design_space()
    assert "sample_compute_location" in [s.prim for s in space.trace.sampling_steps]
    assert all(check_points(func, sketch, 8) for sketch in ctx.sketches())


def test_what_runs_in_parallel_and_in_vectors():
    func = w.chain(16, 32)
    rule = ParallelizeVectorizeUnroll(max_jobs_per_core=16, max_vectorize_extent=64, unroll_max_steps=[16])
    ctx = with_rules(func, rule)
    (sketch,) = ctx.sketches()
    made = at_point(func, sketch, (0,))
    kinds = [node.kind for node in walk(made.body) if isinstance(node, n.For)]
    assert kinds == [n.ForKind.PARALLEL, n.ForKind.VECTORIZED] * (len(kinds) // 2)
    root = made.body
    assert isinstance(root, n.BlockRealize)
    assert not any(key.startswith("meta_schedule") for key in root.block.annotations)


# ------------------------------------------------------------------------------ custom spaces


class Halve(ScheduleRule):
    """A rule as users write them."""

    def apply(self, sch, block):
        loops = sch.get_loops(block)
        if not loops:
            return [sch]
        other = sch.copy()
        other.split(loops[0], [None, 2])
        return [sch, other]


def test_a_rule_of_ones_own():
    spaces = with_rules(w.matmul(8, 8, 8), Halve(), postprocs=None).generate_design_space()
    assert sorted(len(s.get_loops(s.get_block("C"))) for s in spaces) == [3, 4]


def test_a_registered_rule_is_found_by_the_annotation():
    @register_func("meta_schedule.cpu.test_split_by_four", override=True)
    def split(sch, block):
        sch.split(sch.get_loops(block)[0], [None, 4])
        return [sch]

    sch = Schedule(w.matmul(8, 8, 8))
    sch.annotate(sch.get_block("C"), "schedule_rule", "test_split_by_four")
    (space,) = with_rules(sch.func, ApplyCustomRule(), postprocs=None).generate_design_space()
    assert len(space.get_loops(space.get_block("C"))) == 4


def test_a_rule_nobody_registered_is_named():
    sch = Schedule(w.matmul(8, 8, 8))
    sch.annotate(sch.get_block("C"), "schedule_rule", "nobody")
    with pytest.raises(TuningError, match="block 'C' asks for the schedule rule 'nobody'"):
        with_rules(sch.func, ApplyCustomRule()).generate_design_space()


def test_a_function_makes_a_space():
    def tile(sch: Schedule) -> None:
        i, *_ = sch.get_loops(sch.get_block("C"))
        sch.split(i, sch.sample_perfect_tile(i, 2))

    func = w.matmul(12, 8, 4)
    (sketch,) = context(func, space_generator=tile).sketches()
    assert isinstance(sketch, TracedSketch)
    assert sketch.domains == (tuple((12 // d, d) for d in (1, 2, 3, 4, 6, 12)),)
    assert check_points(func, sketch)


def test_a_function_that_returns_something_else_is_refused():
    with pytest.raises(TuningError, match="returns None, a schedule or a list"):
        ScheduleFn(lambda sch: "done").generate_design_space(IRModule({"main": w.matmul(4, 4, 4)}))  # type: ignore[arg-type,return-value]


def test_a_union_has_the_spaces_of_all():
    ctx = context(
        w.matmul(8, 8, 8), space_generator=SpaceGeneratorUnion([ScheduleFn(lambda s: None), ScheduleFn(lambda s: None)])
    )
    assert len(ctx.sketches()) == 2


def test_a_postprocessor_refuses_points():
    class OnlyWide(Postproc):
        def apply(self, sch):
            return bool(sch.get(sch.get_loops(sch.get_block("C"))[1]).extent.value > 3)

    def tile(sch: Schedule) -> None:
        i, *_ = sch.get_loops(sch.get_block("C"))
        sch.split(i, sch.sample_perfect_tile(i, 2))

    func = w.matmul(12, 8, 4)
    (sketch,) = context(func, space_generator=ScheduleFn(tile, postprocs=[OnlyWide()])).sketches()
    allowed = [sketch.domains[0][at] for at in range(6) if sketch.is_allowed((at,))]
    assert allowed == [(3, 4), (2, 6), (1, 12)]
    with pytest.raises(TuningError, match="not in the space"):
        sketch.trace_json((0,))


def test_decisions_that_do_not_go_together_are_no_points():
    def nested(sch: Schedule) -> None:
        i, *_ = sch.get_loops(sch.get_block("C"))
        _, inner = sch.split(i, sch.sample_perfect_tile(i, 2, decision=[2, 6]))
        sch.split(inner, sch.sample_perfect_tile(inner, 2))

    func = w.matmul(12, 8, 4)
    (sketch,) = context(func, space_generator=nested).sketches()
    allowed = [(a, b) for a in range(6) for b in range(len(sketch.domains[1])) if sketch.is_allowed((a, b))]
    assert 0 < len(allowed) < 6 * len(sketch.domains[1])
    assert check_points(func, sketch)


def test_dynamic_loops_are_given_up():
    assert DisallowDynamicLoop().apply(Schedule(w.matmul(4, 4, 4)))


def test_a_trace_that_does_not_apply_is_an_error():
    sch = Schedule(w.matmul(8, 8, 8))
    sch.get_block("C")
    with pytest.raises(ScheduleError, match="no block 'C'"):
        traced("space", w.row_sum(8, 8), sch.trace)


# ----------------------------------------------------------------------- mutators, strategies


def tiled_trace() -> Trace:
    tiling = MultiLevelTiling(structure="SSRSRS", max_innermost_factor=64)
    rules = [tiling, ParallelizeVectorizeUnroll(unroll_max_steps=[0, 16, 64])]
    (space,) = with_rules(w.matmul(16, 16, 16), *rules, postprocs=None).generate_design_space()
    return space.trace


def test_a_tile_is_varied_and_stays_one():
    trace = tiled_trace()
    varied = [MutateTileSize().apply(trace, seed) for seed in range(20)]
    assert all(v is not None and v.decisions != trace.decisions for v in varied)
    for trace_varied in varied:
        apply_trace(w.matmul(16, 16, 16), trace_varied)


def test_unrolling_is_decided_anew():
    trace = tiled_trace()
    varied = MutateUnroll().apply(trace, 1)
    assert varied is not None
    changed = [at for at, (a, b) in enumerate(zip(trace.decisions, varied.decisions)) if a != b]
    assert changed == [len(trace.decisions) - 1]


def test_what_is_not_there_is_not_varied():
    trace = Schedule(w.matmul(4, 4, 4)).trace
    for mutator in (MutateTileSize(), MutateUnroll(), MutateParallel(16), MutateComputeLocation()):
        assert mutator.apply(trace, 1) is None


def test_strategies_by_name():
    assert isinstance(SearchStrategy.create("evolutionary", eps_greedy=0.1), EvolutionarySearch)
    assert isinstance(SearchStrategy.create("replay-trace"), ReplayTrace)
    assert isinstance(SearchStrategy.create("replay-func"), ReplayFunc)
    with pytest.raises(TuningError, match="no search strategy 'luck'"):
        SearchStrategy.create("luck")
    with pytest.raises(TuningError, match="eps_greedy is a probability"):
        EvolutionarySearch(eps_greedy=2.0)


def test_generators_by_name():
    assert isinstance(SpaceGenerator.create(), PostOrderApply)
    with pytest.raises(TuningError, match="no kind of space generator 'magic'"):
        SpaceGenerator.create("magic")
    with pytest.raises(TuningError, match="no default schedule rules for 'cuda'"):
        ScheduleRule.create("cuda")


def test_a_context_needs_a_target_and_a_module():
    with pytest.raises(TuningError, match="needs a target"):
        TuneContext(w.matmul(4, 4, 4))
    with Target(TARGET):
        assert TuneContext(w.matmul(4, 4, 4)).target.num_cores == 2
    with pytest.raises(TuningError, match="has no module"):
        TuneContext(target=TARGET).sketches()


def test_the_shipped_model_says_where_the_search_of_a_default_space_begins():
    default = context(w.matmul(64, 64, 64))
    guide = guide_of(default.task, default.sketches(), "xgb")
    assert guide is not None
    assert guide.says == "the shipped model of llvm-x86_64-256"
    assert guide_of(default.task, default.sketches(), "random") is None
    by_rules = with_rules(w.matmul(64, 64, 64), ParallelizeVectorizeUnroll(max_jobs_per_core=4))
    assert guide_of(by_rules.task, by_rules.sketches(), "xgb") is None


def test_mutators_of_a_program_take_the_seed_or_not():
    trace = traced("space", w.matmul(16, 16, 16), tiled_trace()).trace

    class Seeded(Mutator):
        def apply(self, trace, seed):
            return (trace, seed)

    class Plain(Mutator):
        def apply(self, trace):
            return trace

    assert Seeded().apply(trace) == (trace, 0)
    assert Seeded().apply(trace, 3) == (trace, 3)
    assert Plain().apply(trace) is Plain().apply(trace, 3) is trace


def test_runners_by_name_take_what_their_classes_take():
    config = RPCConfig(tracker_host="127.0.0.1", tracker_port=1, tracker_key="key")
    assert isinstance(Runner.create("rpc", config), RPCRunner)
