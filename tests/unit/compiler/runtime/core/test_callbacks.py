"""Kernels that call functions which the program registered."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.driver.build import build, lower
from compiler.errors import CodegenError, DeviceError
from compiler.ir.structural import structural_equal
from compiler.runtime.core import native
from compiler.runtime.core.ndarray import NDArray, array, empty
from compiler.runtime.core.registry import register_func, remove_global_func
from compiler.runtime.load import load_module
from compiler.script.entry import from_source
from compiler.te.extern import extern
from compiler.te.operation import compute, placeholder
from compiler.te.schedule.schedule import create_schedule
from compiler.tir import nodes as n
from compiler.tir.intrin.intrin import call_packed

Register = Callable[[str, Callable[..., Any]], None]


@pytest.fixture
def register() -> Iterator[Register]:
    names: list[str] = []

    def add(name: str, function: Callable[..., Any]) -> None:
        names.append(name)
        register_func(name, function)

    yield add
    for name in names:
        remove_global_func(name)


def doubled_after_a_call() -> Any:
    a = placeholder((8,), name="A")
    g = extern((8,), [a], lambda ins, outs: call_packed("test.add_one", ins[0], outs[0]), "G", "float32")
    h = compute((8,), lambda i: g[i] * 2, name="H")
    return create_schedule(h.op), [a, h]


def add_one(x: NDArray, y: NDArray) -> None:
    y.copyfrom(x.numpy() + 1)


VALUES = np.arange(8, dtype=np.float32)


def test_an_extern_stage_calls_python(register: Register, tmp_path: Path) -> None:
    register("test.add_one", add_one)
    module = build(*doubled_after_a_call(), target="llvm")
    out = empty((8,))
    module(array(VALUES), out)
    assert (out.numpy() == (VALUES + 1) * 2).all()
    lowered = lower(*doubled_after_a_call())
    assert structural_equal(from_source(lowered.script()), lowered)
    for suffix in ("so", "tunefarm"):
        module.export_library(str(tmp_path / f"m.{suffix}"))
        out.copyfrom(np.zeros(8, np.float32))
        load_module(str(tmp_path / f"m.{suffix}"))(array(VALUES), out)
        assert (out.numpy() == (VALUES + 1) * 2).all()


SCRIPT = """
@T.prim_func
def f(A: T.Buffer((4, 3), "float64"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "float32"), n: T.int32):
    for i in T.parallel(4):
        B[i] = T.call_packed("test.count", i, n, "hello", A[i, 0], A)
        C[i] = T.Call("float32", "tir.tvm_call_packed", "test.half", A[i, 1], n > 3)
"""


def test_numbers_texts_and_results_from_parallel_loops(register: Register) -> None:
    register("test.count", lambda i, n, text, x, whole: i * n + len(text) + int(x) + int(whole.numpy().sum()))
    register("test.half", lambda x, flag: x / 2 + int(flag))
    a = np.arange(12, dtype=np.float64).reshape(4, 3)
    text = SCRIPT.replace('"hello", A[i, 0], A)', '"hello", A[i, 0], ' + WHOLE + ")")
    module = build(from_source(text), target="llvm")
    b, c = empty((4,), "int32"), empty((4,))
    module(array(a), b, c, 10)
    assert b.numpy().tolist() == [i * 10 + 5 + int(a[i, 0]) + int(a.sum()) for i in range(4)]
    assert c.numpy().tolist() == [a[i, 1] / 2 + 1 for i in range(4)]


WHOLE = "T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(4, 3), 0, 2, T.float64(0), 0)"


def test_an_array_that_the_function_keeps_outlives_the_kernel(register: Register) -> None:
    kept: list[NDArray] = []
    register("test.add_one", lambda x, y: (kept.extend((x, y)), add_one(x, y))[1])
    source, out = array(VALUES), empty((8,))
    build(*doubled_after_a_call(), target="llvm")(source, out)
    source.copyfrom(np.zeros(8, np.float32))
    assert (kept[0].numpy() == VALUES).all()
    assert (kept[1].numpy() == VALUES + 1).all()


def test_a_function_may_give_back_the_array_that_it_filled(register: Register) -> None:
    register("test.add_one", lambda x, y: array(x.numpy() + 1).copyto(y))
    out = empty((8,))
    build(*doubled_after_a_call(), target="llvm")(array(VALUES), out)
    assert (out.numpy() == (VALUES + 1) * 2).all()


def test_what_a_function_raises_is_raised_at_the_kernels_call(register: Register) -> None:
    def refuse(x: NDArray, y: NDArray) -> None:
        raise KeyError("not today")

    module = build(*doubled_after_a_call(), target="llvm")
    arguments = array(VALUES), empty((8,))
    with pytest.raises(DeviceError, match="no function of that name is registered in this process"):
        module(*arguments)
    register("test.add_one", refuse)
    with pytest.raises(KeyError, match="not today"):
        module(*arguments)
    register_func("test.add_one", lambda x, y: "words", override=True)
    with pytest.raises(DeviceError, match="returned str, not a number"):
        module(*arguments)


def test_code_reaches_only_what_the_program_registered() -> None:
    func = n.PrimFunc((), n.Evaluate(call_packed("cache_flush_cpu", 1)))
    with pytest.raises(DeviceError, match="a function of tunefarm's own"):
        build(func, target="llvm")()


def test_a_process_without_python_gets_a_code(tmp_path: Path, register: Register) -> None:
    register("test.add_one", add_one)
    path = str(tmp_path / "m.so")
    build(*doubled_after_a_call(), target="llvm", name="f").export_library(path)
    library = ctypes.CDLL(path)  # which nobody told of Python
    out = empty((8,))
    slots = (ctypes.c_uint64 * 2)(array(VALUES).data_ptr, out.data_ptr)
    assert library.f_packed(slots) == -3
    assert "tunefarm_call_packed" in native.EXPORTS


def test_what_cannot_be_passed() -> None:
    half = n.PrimFunc((), n.Evaluate(call_packed("test.f", n.Cast("float16", n.FloatImm("float32", 1.0)))))
    with pytest.raises(CodegenError, match="can take and return no float16"):
        build(half, target="llvm")
