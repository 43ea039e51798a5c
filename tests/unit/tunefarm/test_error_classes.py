"""A wrong use raises an instance of the built-in exception that Apache TVM 0.17 was seen to raise for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import te, tir

_TEXT = """
@T.prim_func
def plus(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
"""


@cache
def _plus() -> Any:
    return tvm.script.from_source(_TEXT)


@cache
def _built() -> Any:
    return tvm.build(_plus(), target="llvm")


def _array(*shape: int, dtype: str = "float32") -> Any:
    return tvm.nd.array(np.zeros(shape, dtype))


def _configured(config: dict[str, Any]) -> None:
    with tvm.transform.PassContext(config=config):
        pass


def _scheduled() -> tuple[Any, Any, Any, Any]:
    sch = tir.Schedule(_plus())
    block = sch.get_block("B")
    return sch, block, *sch.get_loops(block)


def _lost_loop() -> None:
    sch, _, i, j = _scheduled()
    sch.fuse(i, j)
    sch.vectorize(i)


def _lost_loop_unrendered() -> None:
    sch = tir.Schedule(_plus(), error_render_level="none")
    i, j = sch.get_loops(sch.get_block("B"))
    sch.fuse(i, j)
    sch.vectorize(i)


def _split_of_a_block() -> None:
    sch, block, _, _ = _scheduled()
    sch.split(block, [2, 8])


def _reordered_twice() -> None:
    sch, _, i, _ = _scheduled()
    sch.reorder(i, i)


def _small_factors() -> None:
    sch, _, i, _ = _scheduled()
    sch.split(i, [2, 2])


def _inlined_output() -> None:
    sch, block, _, _ = _scheduled()
    sch.compute_inline(block)


def _absent_buffer() -> None:
    sch, block, _, _ = _scheduled()
    sch.cache_read(block, 7, "shared")


def _stage_of_another_schedule() -> None:
    a = te.placeholder((4,))
    b, c = te.compute((4,), lambda i: a[i]), te.compute((4,), lambda i: a[i])
    te.create_schedule(b.op)[c]


def _split_without_a_factor() -> None:
    a = te.placeholder((4,))
    b = te.compute((4,), lambda i: a[i])
    te.create_schedule(b.op)[b].split(b.op.axis[0])


def _reduction_inside() -> None:
    k, a = te.reduce_axis((0, 4), "k"), te.placeholder((4,))
    te.compute((1,), lambda i: te.sum(a[k], axis=k) + 1)


def _raising() -> None:
    def fail(_: int) -> None:
        raise KeyError("no")

    tvm.runtime.convert(fail)(1)


_TABLE: list[tuple[str, type[Exception], Callable[[], Any]]] = [
    ("a function that the module has not", AttributeError, lambda: _built()["nope"]),
    ("a function that the module has not, by get_function", AttributeError, lambda: _built().get_function("nope")),
    ("an unknown pass option", AttributeError, lambda: _configured({"tir.no_such": 1})),
    ("a pass option of the wrong type", AttributeError, lambda: _configured({"tir.disable_vectorize": "x"})),
    ("an unknown field of a pass option", AttributeError, lambda: _configured({"tir.UnrollLoop": {"no_such": 1}})),
    ("a wrong field of a pass option", RuntimeError, lambda: _configured({"tir.UnrollLoop": {"auto_max_step": "x"}})),
    ("an argument's dtype", RuntimeError, lambda: _built()(_array(16, 16, dtype="int32"), _array(16, 16))),
    ("an argument's shape", RuntimeError, lambda: _built()(_array(16, 8), _array(16, 16))),
    ("an argument's dimensions", RuntimeError, lambda: _built()(_array(16), _array(16, 16))),
    ("too few arguments", RuntimeError, lambda: _built()(_array(16, 16))),
    ("a number for an array", RuntimeError, lambda: _built()(1, _array(16, 16))),
    ("an unknown kind of target", ValueError, lambda: tvm.target.Target("no_such_kind")),
    ("an unknown option of a target", ValueError, lambda: tvm.target.Target("llvm -no-such=1")),
    ("an option's wrong value", ValueError, lambda: tvm.target.Target("cuda -max_num_threads=x")),
    ("a target without a kind", ValueError, lambda: tvm.target.Target({"arch": "x"})),
    ("a number as target", ValueError, lambda: tvm.target.Target(3)),
    ("an unknown tag", ValueError, lambda: tvm.target.Target("nvidia/no-such")),
    ("no current target", RuntimeError, lambda: tvm.target.Target.current(allow_none=False)),
    ("an unknown attribute of a target", AttributeError, lambda: tvm.target.Target("llvm").no_such),
    ("an unknown global function", ValueError, lambda: tvm.get_global_func("no.such.func")),
    ("an unknown device", ValueError, lambda: tvm.device("no_such", 0)),
    ("an index past a tuple", IndexError, lambda: tvm.runtime.ShapeTuple([1, 2])[5]),
    ("a block of no such name", tir.ScheduleError, lambda: tir.Schedule(_plus()).get_block("nope")),
    ("a loop that is gone", ValueError, _lost_loop),
    ("a loop that is gone, not rendered", ValueError, _lost_loop_unrendered),
    ("a block in place of a loop", TypeError, _split_of_a_block),
    ("a loop given twice", tir.ScheduleError, _reordered_twice),
    ("factors below the extent", tir.ScheduleError, _small_factors),
    ("an output block inlined", tir.ScheduleError, _inlined_output),
    ("a buffer that the block does not read", tir.ScheduleError, _absent_buffer),
    ("a number to schedule", TypeError, lambda: tir.Schedule(3)),
    ("an unknown dtype", ValueError, lambda: tvm.nd.empty((2,), "nofloat")),
    ("an array of another shape", ValueError, lambda: _array(4).copyfrom(np.zeros((5,), "float32"))),
    ("an index too many", ValueError, lambda: te.placeholder((4, 4))[0, 0, 0].astype("int32")),
    ("a stage of another schedule", ValueError, _stage_of_another_schedule),
    ("a split without a factor", ValueError, _split_without_a_factor),
    ("a reduction inside an expression", RuntimeError, _reduction_inside),
    ("an expression as truth", ValueError, lambda: bool(te.var("x") > 3)),
    ("a float shifted", RuntimeError, lambda: te.var("x", "float32") << 2),
    ("a text as a number", RuntimeError, lambda: tir.const("a", "float32")),
    ("a text that is no Python", SyntaxError, lambda: tvm.script.from_source("def f(:\n  return +\n")),
    ("a file that is not there", ValueError, lambda: tvm.runtime.load_module("/no/such/file.so")),
    ("a function that a module has not", ValueError, lambda: tvm.IRModule({"main": _plus()})["no"]),
    ("JSON that is none", ValueError, lambda: tvm.ir.load_json("{")),
    ("a number to build", ValueError, lambda: tvm.build(3)),
    ("an error of a Python callback", KeyError, _raising),
    ("an unknown tensor intrinsic", ValueError, lambda: tir.TensorIntrin.get("no.such")),
    ("an unknown kind of instruction", RuntimeError, lambda: tir.schedule.InstructionKind.get("Nope")),
    ("an unknown kind of database", ValueError, lambda: tvm.meta_schedule.database.create("nope")),
    ("an unknown task", RuntimeError, lambda: tvm.autotvm.task.create("no.such", args=(), target="llvm")),
]


@pytest.mark.parametrize(("error", "use"), [row[1:] for row in _TABLE], ids=[row[0] for row in _TABLE])
def test_the_error_is_the_built_in(error: type[Exception], use: Callable[[], Any]) -> None:
    with pytest.raises(error):
        use()
