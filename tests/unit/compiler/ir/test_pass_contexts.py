"""Pass contexts: which passes run, the options they see, and the instruments that watch."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver.build import build, lower
from compiler.driver.pipeline import steps
from compiler.errors import CodegenError
from compiler.ir.module import IRModule
from compiler.ir.transform.config import TransformError
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.instrument import (
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)
from compiler.ir.transform.passes import PassInfo
from compiler.ir.visit import map_children, walk
from compiler.runtime.core.ndarray import array
from compiler.schedule.core.schedule import Schedule
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.transform import prim_func_pass
from tests.kit.compiler.lowering import matmul


def vector_add(size: int = 32) -> n.PrimFunc:
    a = placeholder((size,), name="A")
    sch = Schedule(create_prim_func([a, compute((size,), lambda i: a[i] + 1.0, name="B")]))
    sch.vectorize(sch.get_loops(sch.get_block("B"))[0])
    return sch.func


class Recorder(PassInstrument):
    def __init__(self, skip: tuple[str, ...] = ()) -> None:
        self.seen: list[str] = []
        self._skip = skip

    def enter_pass_ctx(self) -> None:
        self.seen.append("enter")

    def exit_pass_ctx(self) -> None:
        self.seen.append("exit")

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return info.name not in self._skip

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.seen.append(f"before {info.name}")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.seen.append(f"after {info.name}")


# --------------------------------------------------------------------------------- contexts


def test_contexts_nest_and_there_is_a_default() -> None:
    assert PassContext.active() is None
    assert (PassContext.current().opt_level, PassContext.current().config) == (2, {})
    with PassContext(opt_level=3) as outer:
        assert PassContext.current() is outer
        with PassContext(opt_level=0) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.active() is None


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"config": {"tir.disable_vectorise": True}}, "did you mean 'tir.disable_vectorize'.*known: .*tir.UnrollLoop"),
        ({"config": {"tir.disable_vectorize": "yes"}}, "'tir.disable_vectorize' is a truth value, not 'yes'"),
        ({"config": {"tir.UnrollLoop": {"auto_max_steps": 3}}}, "no field 'auto_max_steps'; did you mean"),
        ({"config": {"tir.UnrollLoop": {"auto_max_step": -1}}}, "auto_max_step is a non-negative integer"),
        ({"config": {"tir.add_lower_pass": [(7, print)]}}, "phase 7 is none of 0, 1, 2, 3"),
        ({"opt_level": "3"}, "opt_level is a non-negative integer"),
        ({"disabled_pass": "tir.Simplify"}, "disabled_pass is a list of pass names"),
        ({"instruments": [object()]}, "no pass instrument: it has no enter_pass_ctx"),
    ],
)
def test_wrong_contexts(arguments: dict[str, object], match: str) -> None:
    with pytest.raises(TransformError, match=f"(?s){match}") as caught:
        PassContext(**arguments)  # type: ignore[arg-type]
    assert isinstance(caught.value, ValueError)


def test_the_options_are_listed() -> None:
    listed = PassContext.list_configs()
    assert {"tir.disable_vectorize", "tir.disable_assert", "tir.UnrollLoop", "tir.add_lower_pass"} <= set(listed)
    assert all(entry["type"] and entry["help"] for entry in listed.values())


# ---------------------------------------------------------------------------------- lowering


def test_a_context_with_defaults_changes_nothing() -> None:
    func = matmul(5, 6, 7)
    plain = lower(func).script()
    with PassContext():
        assert lower(func).script() == plain
    with PassContext(opt_level=3):
        assert lower(func).script() == plain


def test_instruments_see_every_pass_in_order() -> None:
    recorder = Recorder()
    with PassContext(instruments=[recorder]):
        lower(matmul(2, 3, 4))
    told = [f"{when} tir.{step.title}" for step in steps() for when in ("before", "after")]
    assert recorder.seen == ["enter", "before sequential", *told, "after sequential", "exit"]


def test_level_zero_leaves_out_what_only_makes_code_faster() -> None:
    recorder = Recorder()
    with PassContext(opt_level=0, required_pass=["tir.HoistGuards"], instruments=[recorder]):
        module = build(matmul(5, 6, 7))
    assert "before tir.HoistGuards" in recorder.seen
    assert not {"before tir.SplitTails", "before tir.LoopPartition"} & set(recorder.seen)
    a, b, out = np.ones((5, 7), "float32"), np.ones((7, 6), "float32"), array(np.zeros((5, 6), "float32"))
    module(array(a), array(b), out)
    np.testing.assert_array_equal(out.numpy(), a @ b)


def test_a_pass_that_code_needs_is_missed() -> None:
    func = vector_add()
    with PassContext(disabled_pass=["tir.VectorizeLoop"]):
        assert "T.vectorized" in lower(func).script()
        with pytest.raises(CodegenError, match=r"not lowered all the way.*skipped"):
            build(func)
    with PassContext(instruments=[Recorder(skip=("tir.VectorizeLoop",))]):
        assert "T.vectorized" in lower(func).script()
    with PassContext(required_pass=["tir.VectorizeLoop"], instruments=[Recorder(skip=("tir.VectorizeLoop",))]):
        assert "T.Ramp" in lower(func).script()


def test_vectors_can_be_turned_off() -> None:
    func = vector_add()
    assert "T.Ramp" in lower(func).script()
    with PassContext(config={"tir.disable_vectorize": True}):
        text = lower(func).script()
        module = build(func)
    assert "T.Ramp" not in text
    assert "T.vectorized" not in text
    out = array(np.zeros(32, "float32"))
    module(array(np.arange(32, dtype="float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.arange(32, dtype="float32") + 1)


@pytest.mark.parametrize(
    ("config", "unrolled"), [({}, 0), ({"auto_max_step": 7}, 1), ({"auto_max_step": 6}, 0), ({"auto_max_extent": 7}, 1)]
)
def test_unrolling_by_option(config: dict[str, int], unrolled: int) -> None:
    with PassContext(config={"tir.UnrollLoop": config}):
        func = lower(matmul(40, 30, 7))["main"]
    kinds = [node.kind for node in walk(func.body) if isinstance(node, n.For)]
    assert kinds.count(n.ForKind.UNROLLED) == unrolled


def test_assertions_can_be_left_out() -> None:
    param, held = n.Var("p", "handle"), n.decl_buffer((2, 2), "float32", "held")
    store = n.BufferStore(held, ops.const(1.0), (ops.const(0), ops.const(1)))
    body = n.AssertStmt(ops.const(False, "bool"), n.StringImm("no"), store)
    asserting = n.PrimFunc((param,), body, None, {param: held})
    with pytest.raises(Exception, match="failed with code 1"):
        build(asserting)(array(np.zeros((2, 2), "float32")))
    with PassContext(config={"tir.disable_assert": True}):
        module = build(asserting)
    module(array(np.zeros((2, 2), "float32")))
    assert "assert" not in module.get_source("tir")


def test_passes_are_added_at_their_phases() -> None:
    seen: list[tuple[int, bool, bool]] = []

    def at(phase: int):
        @prim_func_pass(opt_level=0, name=f"look{phase}")
        def look(func: n.PrimFunc, mod: IRModule, ctx: PassContext) -> n.PrimFunc:
            text = func.script()
            seen.append((phase, "T.block" in text or "T.sblock" in text, "T.Ramp" in text))
            return func

        return look

    with PassContext(config={"tir.add_lower_pass": [(3, at(3)), (0, at(0)), (2, at(2)), (1, at(1))]}):
        lower(vector_add())
    assert seen == [(0, True, False), (1, False, False), (2, False, True), (3, False, True)]


def test_an_added_pass_changes_the_code() -> None:
    @prim_func_pass(opt_level=0)
    def two_for_one(func: n.PrimFunc, mod: IRModule, ctx: PassContext) -> n.PrimFunc:
        def go(node):
            return ops.const(2.0) if isinstance(node, n.FloatImm) and node.value == 1.0 else map_children(node, go)

        return func.with_body(go(func.body))

    with PassContext(config={"tir.add_lower_pass": [(1, two_for_one)]}):
        module = build(vector_add())
    out = array(np.zeros(32, "float32"))
    module(array(np.zeros(32, "float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.full(32, 2, "float32"))


# ------------------------------------------------------------------------------- instruments


def test_timing_is_a_tree() -> None:
    ticks = iter(range(1000))
    timing = PassTimingInstrument(clock=lambda: next(ticks) * 1e-6)
    with PassContext(instruments=[timing]):
        lower(matmul(2, 3, 4))
        lines = timing.render().splitlines()
    count = len(steps())
    assert lines[0] == f"sequential: {2 * count + 1} us [{count + 1} us] (100.0%)"
    assert lines[1].startswith("  tir.LowerWarpProducts: 1 us [1 us] (")
    assert len(lines) == count + 2
    assert timing.render() == "total: 0 us\n"


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    with PassContext(instruments=[PrintBeforeAll(), PrintAfterAll()]):
        lower(matmul(2, 3, 4))
    out = capsys.readouterr().out
    assert out.index("# before tir.FlattenBuffer") < out.index("# after tir.FlattenBuffer")
    assert out.count("# after") == len(steps()) + 1
    with PassContext(instruments=[PassPrintingInstrument(["tir.FlattenBuffer"], {"tir.VectorizeLoop"})]):
        lower(matmul(2, 3, 4))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("# before", "# after"))]
    assert lines == ["# before tir.FlattenBuffer", "# after tir.VectorizeLoop"]


def test_a_decorated_class_is_an_instrument() -> None:
    @pass_instrument
    class Counter:
        """Counts."""

        def __init__(self, start: int) -> None:
            self.count = start

        def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
            self.count += 1

    counter = Counter(100)
    assert isinstance(counter, PassInstrument)
    with PassContext(instruments=[counter]):
        lower(matmul(2, 3, 4))
    assert counter.count == 100 + len(steps()) + 1
    with pytest.raises(TransformError, match="decorates a class"):
        pass_instrument(3)


def test_an_instrument_that_fails_to_enter_lets_the_others_leave() -> None:
    class Failing(PassInstrument):
        def enter_pass_ctx(self) -> None:
            raise OSError("no disk")

    first, last = Recorder(), Recorder()
    context = PassContext(instruments=[first, Failing(), last])
    with pytest.raises(OSError, match="no disk"), context:
        pass
    assert (first.seen, last.seen, context.instruments) == (["enter", "exit"], [], ())
    assert PassContext.active() is None


def test_instruments_leave_when_the_body_fails() -> None:
    recorder = Recorder()
    with pytest.raises(KeyError), PassContext(instruments=[recorder]):
        raise KeyError("x")
    assert recorder.seen == ["enter", "exit"]
    assert PassContext.active() is None


def test_overriding_instruments() -> None:
    one, two = Recorder(), Recorder()
    with PassContext(instruments=[one]) as context:
        context.override_instruments([two])
        lower(matmul(2, 3, 4))
    assert one.seen == ["enter", "exit"]
    assert two.seen[0] == "enter"
    assert "after tir.Simplify" in two.seen
