"""The documents of `tvm.lower` and `tvm.build`, sentence by sentence."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import te, tir, topi


def added(n: Any = 2) -> tuple[Any, list[Any]]:
    """The documents' example: a schedule of C = A + B, and its arguments."""
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute(a.shape, lambda *i: a(*i) + b(*i), name="C")
    return te.create_schedule(c.op), [a, b, c]


def sums(function: Any, n: int = 2) -> bool:
    """Whether the function adds two vectors."""
    given = [np.arange(n, dtype="float32"), np.full(n, 3, "float32")]
    arrays = [*map(tvm.nd.array, given), tvm.nd.empty((n,), "float32")]
    function(*arrays)
    return bool((arrays[2].numpy() == given[0] + given[1]).all())


def test_signatures() -> None:
    lower = inspect.signature(tvm.lower).parameters
    assert {name: p.default for name, p in lower.items() if name != "inp"} == {
        "args": None, "name": "main", "binds": None, "simple_mode": False,
    }  # fmt: skip
    build = list(inspect.signature(tvm.build).parameters)
    assert build[:7] == ["inputs", "args", "target", "target_host", "runtime", "name", "binds"]


def test_lower_takes_a_schedule_a_function_or_a_module() -> None:
    schedule, args = added()
    from_schedule = tvm.lower(schedule, args)
    function = te.create_prim_func(args)
    for module in (from_schedule, tvm.lower(function), tvm.lower(tvm.IRModule({"main": function}))):
        assert isinstance(module, tvm.IRModule)
        assert [var.name_hint for var in module.get_global_vars()] == ["main"]
        assert sums(tvm.build(module, target="llvm"))


def test_the_result_has_the_name() -> None:
    schedule, args = added()
    module = tvm.lower(schedule, args, name="test_add")
    assert module["test_add"].attrs["global_symbol"] == "test_add"
    assert sums(tvm.build(module, target="llvm")["test_add"])


def test_binds_say_how_an_argument_lies_in_memory() -> None:
    schedule, (a, b, c) = added(4)
    wide = tir.decl_buffer((4,), "float32", "wide", strides=[2])
    module = tvm.lower(schedule, [a, b, c], binds={a: wide})
    assert module["main"].buffer_map[module["main"].params[0]].strides[0] == 2
    by_buffer = tvm.lower(schedule, [wide, b, c], binds={a: wide})
    assert by_buffer["main"].script() == module["main"].script()
    compact = [tvm.nd.array(np.ones(4, "float32")) for _ in range(3)]
    with pytest.raises(tvm.TVMError):  # the array has to lie as the buffer says
        tvm.build(schedule, [wide, b, c], "llvm", binds={a: wide})(*compact)


def test_without_binds_buffers_are_compact() -> None:
    schedule, args = added()
    main = tvm.lower(schedule, args)["main"]
    assert all(not list(main.buffer_map[param].strides) for param in main.params)


def test_simple_mode_leaves_the_partition_of_loops_out() -> None:
    schedule, args = added(30)
    stage = schedule[args[2]]
    stage.vectorize(stage.split(args[2].op.axis[0], 8)[1])
    texts = [tvm.lower(schedule, args, simple_mode=simple).script() for simple in (True, False)]
    assert [text.count("for ") for text in texts] == [1, 1]
    assert ["range(4)" in text for text in texts] == [True, False]  # or three whole vectors, and the rest


def test_build_takes_what_lower_takes_and_a_module_a_target() -> None:
    schedule, args = added()
    assert sums(tvm.build(schedule, args, "llvm", name="mine")["mine"])
    assert sums(tvm.build(schedule, args, "llvm"))
    assert sums(tvm.build(te.create_prim_func(args), target=tvm.target.Target("llvm")))
    by_target = tvm.build({"llvm": tvm.lower(schedule, args, name="test_add1")}, target_host="llvm")
    assert sums(by_target["test_add1"])


def test_the_default_name_and_the_runtime() -> None:
    schedule, args = added()
    module = tvm.build(schedule, args, "llvm")
    assert sums(module["default_function"])
    runtime = tvm.relay.backend.runtime.Runtime("cpp")
    assert sums(tvm.build(schedule, args, "llvm", None, runtime, "named")["named"])
    assert sums(tvm.build(schedule, args, "llvm", None, "named")["named"])


def test_a_dict_of_targets_has_host_and_device_code() -> None:
    """The second example: it builds where no GPU is, and what runs on the host runs."""
    host, args = added()
    _, others = added()
    with tvm.target.cuda() as cuda:
        device = topi.cuda.schedule_injective(cuda, [others[2]])
    modules = {"llvm": tvm.lower(host, args, name="test_add1"), "cuda": tvm.lower(device, others, name="test_add2")}
    for options in ({}, {"target_host": "llvm"}):
        built = tvm.build(modules, **options)
        assert sums(built["test_add1"])
        assert "test_add2" in built.imported_modules[0].get_source()
        assert isinstance(built, tvm.runtime.Module)


def test_no_target_is_the_host() -> None:
    schedule, args = added()
    assert sums(tvm.build(schedule, args))
    with pytest.raises(tvm.TVMError):
        tvm.build(schedule, args, "no_such_kind")
