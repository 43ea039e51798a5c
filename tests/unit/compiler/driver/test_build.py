"""lower, build and compile_artifact: inputs they take, names, targets, texts, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.codegen.llvm.effort import Effort, effort_for, effort_of
from compiler.driver.build import build, compile_artifact, lower
from compiler.driver.pipeline import lower_func
from compiler.errors import CodegenError, TargetError
from compiler.ir.module import IRModule
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import Schedule as TirSchedule
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.tir import ops
from tests.kit.compiler.lowering import HOST, conv2d, matmul


def add(size: int = 20) -> tuple[Schedule, list[Tensor]]:
    a, b = placeholder((size,), name="A"), placeholder((size,), name="B")
    c = compute((size,), lambda i: a[i] + b[i], name="C")
    schedule = create_schedule(c.op)
    outer, inner = schedule[c].split(c.op.axis[0], factor=8)
    schedule[c].vectorize(inner)
    schedule[c].parallel(outer)
    return schedule, [a, b, c]


def check_add(module: Any, name: str | None = None, size: int = 20) -> None:
    a, b = np.arange(size, dtype="float32"), np.ones(size, "float32")
    out = array(np.zeros(size, "float32"))
    (module if name is None else module[name])(array(a), array(b), out)
    np.testing.assert_array_equal(out.numpy(), a + b)


# ------------------------------------------------------------------------------------- lower


def test_lower_makes_a_module_of_one_named_function() -> None:
    schedule, args = add()
    module = lower(schedule, args, name="test_add")
    assert [g.name_hint for g in module] == ["test_add"]
    func = module["test_add"]
    assert func.attrs["global_symbol"] == "test_add"
    assert not isinstance(func.body, n.BlockRealize)
    assert "T.Ramp" in module.script()


def test_lower_takes_functions_and_modules_too() -> None:
    func = matmul(3, 4, 5)
    assert [g.name_hint for g in lower(func, name="mm")] == ["mm"]
    module = lower(IRModule({"one": func, "two": matmul(2, 2, 2)}))
    assert [g.name_hint for g in module] == ["one", "two"]


def test_simple_mode_leaves_the_loops_as_scheduled() -> None:
    schedule, args = add(21)
    plain, simple = lower(schedule, args), lower(schedule, args, simple_mode=True)
    assert plain.script() != simple.script()
    assert simple.script().count("for ") == 1
    check_add(build(simple), size=21)


def test_binds_choose_the_buffer() -> None:
    schedule, args = add()
    mine = n.decl_buffer((20,), "float32", "mine")
    func = lower(schedule, args, binds={args[0]: mine})["main"]
    assert mine in func.buffer_map.values()


def test_the_current_target_sets_the_vector_width() -> None:
    a = placeholder((4096,), name="A")
    c = compute((4096,), lambda i: a[i] * 2.0, name="C")
    schedule = create_schedule(c.op)
    schedule[c].vectorize(c.op.axis[0])
    lanes = {}
    for cpu in ("skylake-avx512", "haswell", "nehalem"):
        with Target(f"llvm -mcpu={cpu} -mtriple=x86_64-unknown-linux-gnu"):
            text = lower(schedule, [a, c]).script()
        lanes[cpu] = int(text.split("1, ")[1].split(")")[0])
    assert lanes == {"skylake-avx512": 128, "haswell": 64, "nehalem": 32}


def test_lower_for_a_gpu_keeps_bound_loops() -> None:
    schedule, args = add()
    with Target("cuda"):
        module = lower(schedule, args)
    assert "T.parallel" in module.script()


# ------------------------------------------------------------------------------------- build


def test_build_from_every_kind_of_input() -> None:
    schedule, args = add()
    check_add(build(schedule, args))
    check_add(build(schedule, args, "llvm", name="plus"), "plus")
    check_add(build(lower(schedule, args), target="llvm"), "main")
    check_add(build({"llvm": lower(schedule, args)}))
    check_add(build({HOST: lower(schedule, args, name="f")}, target_host="llvm"), "f")
    with Target("llvm"):
        check_add(build(schedule, args))


def test_a_function_gets_the_given_name() -> None:
    assert build(matmul(2, 3, 4)).get_function_list() == ["default_function"]
    assert build(matmul(2, 3, 4), name="my.mm/0").get_function_list() == ["my.mm/0"]
    assert compile_artifact(matmul(2, 3, 4), HOST, name="0 mm").entries[0].symbol == "_0_mm"


def test_other_targets_of_a_dict_are_imported() -> None:
    schedule, args = add()
    one, two = lower(schedule, args, name="one"), lower(schedule, args, name="two")
    module = build({"llvm": one, f"llvm -mcpu={HOST.mcpu}": two})
    assert module.get_function_list() == ["one"]
    assert [m.get_function_list() for m in module.imported_modules] == [["two"]]
    check_add(module.get_function("two", query_imports=True))


def test_a_module_with_several_functions() -> None:
    module = build(IRModule({"small": matmul(2, 3, 4), "large": matmul(8, 9, 10)}))
    a, b = np.ones((8, 10), "float32"), np.ones((10, 9), "float32")
    out = array(np.zeros((8, 9), "float32"))
    module["large"](array(a), array(b), out)
    np.testing.assert_array_equal(out.numpy(), a @ b)


def test_sources_are_kept() -> None:
    schedule, args = add()
    module = build(schedule, args)
    assert 'define void @"default_function"' in module.get_source("ll")
    assert module.get_ir() == module.get_source("ll")
    assert "default_function:" in module.get_source("asm")
    assert "T.Ramp" in module.get_source("tir")
    artifact = compile_artifact(matmul(2, 3, 4), HOST, keep=())
    assert set(artifact.blobs) == {"object"}


def test_an_artifact_says_what_it_is() -> None:
    artifact = compile_artifact(conv2d(8, 3, 4), "llvm", name="conv")
    (entry,) = artifact.entries
    assert (entry.name, entry.symbol, entry.outputs) == ("conv", "conv", (2,))
    assert [(a.name, a.dtype, a.shape) for a in entry.args] == [
        ("data", "float32", (1, 3, 8, 8)),
        ("weight", "float32", (4, 3, 3, 3)),
        ("conv", "float32", (1, 4, 8, 8)),
    ]
    assert Target(artifact.target) == HOST
    assert artifact.cpu_features == tuple(sorted(HOST.features))
    assert artifact.meta["llvm"].split(".")[0].isdigit()
    assert set(artifact.blobs) == {"object", "ll", "tir"}


def test_the_same_input_gives_the_same_artifact() -> None:
    digests = {compile_artifact(conv2d(8, 3, 4), HOST, name="conv").digest for _ in range(3)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("triple", "mcpu", "machine"),
    [
        ("aarch64-unknown-linux-gnu", "neoverse-n1", 183),
        ("riscv64-unknown-linux-gnu", "generic-rv64", 243),
        ("armv7-unknown-linux-gnueabihf", "cortex-a9", 40),
        ("x86_64-unknown-linux-gnu", "skylake-avx512", 62),
    ],
)
def test_objects_for_other_machines(triple: str, mcpu: str, machine: int) -> None:
    """The ELF header names the machine."""
    target = Target(f"llvm -mtriple={triple} -mcpu={mcpu}")
    data = compile_artifact(matmul(16, 32, 8), target, name="mm").blobs["object"]
    assert data[:4] == b"\x7fELF"
    assert int.from_bytes(data[18:20], "little") == machine


def test_wide_vectors_are_used_where_the_target_has_them() -> None:
    sch = TirSchedule(matmul(16, 32, 8))
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, k, j)
    sch.vectorize(j)
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512")
    text = compile_artifact(sch.func, target, keep=("asm",)).blobs["asm"].decode()
    assert "%zmm" in text


def test_multiply_and_add_are_fused() -> None:
    if "fma" not in HOST.features:
        pytest.skip("this CPU has no fused multiply-add")
    sch = TirSchedule(matmul(16, 32, 8))
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, k, j)
    sch.vectorize(j)
    assert "vfmadd" in compile_artifact(sch.func, HOST, keep=("asm",)).blobs["asm"].decode()


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ("", "fadd contract float"),
        (" -fast-math=true", "fadd fast float"),
        (" -fast-math-reassoc=true -fast-math-nsz=true", "fadd nsz contract reassoc float"),
        (" -fast-math-contract=false", "fadd  float"),
    ],
)
def test_fast_math_only_where_the_target_asks(options: str, flags: str) -> None:
    artifact = compile_artifact(matmul(2, 3, 4), f"llvm{options}")
    assert flags in artifact.blobs["ll"].decode()


def test_float_passing_on_arm_follows_the_target() -> None:
    for abi, expected in (("soft", 0), ("hard", 1)):
        target = f"llvm -mtriple=armv7-unknown-linux-gnueabi -mcpu=cortex-a9 -mfloat-abi={abi}"
        assert compile_artifact(matmul(2, 3, 4), target).blobs["object"]
        scale, a, zero = n.Var("scale", "float32"), n.decl_buffer((1,), "float32", "a"), ops.const(0)
        handle = n.Var("p", "handle")
        func = n.PrimFunc((handle, scale), n.BufferStore(a, scale, (zero,)), None, {handle: a})
        text = compile_artifact(func, target, name="put", keep=("asm",)).blobs["asm"].decode()
        assert text.count("vstr\ts0") >= expected


def test_llvm_does_no_more_than_needed() -> None:
    """A register tile with explicit vectors needs little; scalar loops get LLVM's vectorizer."""
    assert effort_for(lower_func(matmul(16, 32, 8))) is Effort.FULL
    sch = TirSchedule(matmul(16, 32, 8))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (i0, i1), (j0, j1) = sch.split(i, [None, 4]), sch.split(j, [None, 16])
    sch.reorder(i0, j0, k, i1, j1)
    cache = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(cache, j0)
    sch.vectorize(j1)
    sch.vectorize(sch.get_loops(cache)[-1])
    light, full = lower_func(sch.func), lower_func(matmul(16, 32, 8))
    assert effort_for(light) is Effort.LIGHT
    assert effort_of({"main_prepacked": light, "main_weight_prepack": full}) is Effort.LIGHT
    assert effort_of({"main": light, "other": full}) is Effort.FULL


# ----------------------------------------------------------------------------------- refusals


def _schedule() -> Schedule:
    return add()[0]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: lower(3), "expected a Schedule, PrimFunc or IRModule, got int 3"),
        (lambda: lower("matmul"), "expected a Schedule, PrimFunc or IRModule, got str 'matmul'"),
        (lambda: lower(_schedule()), "a schedule needs args"),
        (lambda: lower(matmul(2, 2, 2), [1]), "args go with a schedule"),
        (lambda: build(None), "expected a Schedule, PrimFunc or IRModule, got NoneType None"),
        (lambda: build(_schedule()), "a schedule needs args"),
        (lambda: build({}), "empty"),
        (lambda: build({"llvm": matmul(2, 2, 2)}), "must be an IRModule, not a PrimFunc"),
        (lambda: build({7: IRModule({})}), "must be a target or its name, not a int"),
        (lambda: build({"llvm": IRModule({})}, target="llvm"), "the targets are its keys"),
        (lambda: build({"llvm": IRModule({})}, [1]), "args go with a schedule"),
        (lambda: build(IRModule({})), "has no functions"),
        (lambda: build({"no_such": IRModule({})}), "target kind 'no_such' is unknown"),
        (lambda: build(matmul(2, 2, 2), target="llvm -mcpux=1"), "mcpux"),
        (lambda: build(matmul(2, 2, 2), target=3), "a target is a string"),
        (lambda: compile_artifact("x", HOST), "got str 'x'"),
        (lambda: compile_artifact(matmul(2, 2, 2), HOST, keep=("ptx",)), "keep names ptx"),
        (lambda: build(IRModule({"a b": matmul(2, 2, 2), "a_b": matmul(2, 2, 2)})), "the symbol 'a_b'"),
    ],
)
def test_wrong_inputs_are_value_errors(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_targets_without_a_code_generator() -> None:
    module = IRModule({"f": matmul(2, 2, 2)})
    with pytest.raises(CodegenError, match="outside of any loop bound to threads"):
        build({"cuda": module, "llvm": module})
    with pytest.raises(CodegenError, match="no code generator for target 'opencl'"):
        build(module, target="opencl")
    with pytest.raises(CodegenError, match="LLVM has no code generator for 'nonsense-unknown-linux'"):
        build(module, target="llvm -mtriple=nonsense-unknown-linux")
    with pytest.raises(TargetError):
        build(module, target="llvm", target_host="no_such")


def test_a_kernel_for_other_arguments_says_so() -> None:
    module = load_artifact(compile_artifact(matmul(2, 3, 4), HOST, name="mm"))
    with pytest.raises(ValueError, match=r"mm: argument 1 \(B\) has shape \(3, 4\)"):
        module(*(array(np.zeros(s, "float32")) for s in ((2, 4), (3, 4), (2, 3))))


def test_extents_that_the_call_tells_are_named_in_the_manifest() -> None:
    size = n.SizeVar("size")
    held = n.decl_buffer((size, 4), "float32", "held")
    handle, i = n.Var("p", "handle"), n.Var("i")
    body = n.For(i, ops.const(0), size, n.ForKind.SERIAL, n.BufferStore(held, ops.const(1.0), (i, ops.const(2))))
    func = n.PrimFunc((handle, size), body, None, {handle: held})
    (entry,) = compile_artifact(func, HOST).entries
    assert [(a.name, a.shape) for a in entry.args] == [("held", ("size", 4)), ("size", None)]


def test_a_tensorir_schedule_is_lowered_and_built():
    a = placeholder((8,), name="A")
    b = compute((8,), lambda i: a[i] * 2.0, name="B")
    schedule = TirSchedule(create_prim_func([a, b]))
    assert [name.name_hint for name, _ in lower(schedule, [a, b], name="double").items()] == ["double"]
    out = array(np.zeros(8, "float32"))
    build(schedule, [a, b], name="double")["double"](array(np.ones(8, "float32")), out)
    np.testing.assert_array_equal(out.numpy(), 2.0)
    build(schedule)
    with pytest.raises(ValueError, match="args do not fit"):
        build(schedule, [b])
