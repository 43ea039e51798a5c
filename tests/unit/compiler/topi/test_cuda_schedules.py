"""topi.cuda's schedules: each runs in lock step without a race, gives what numpy gives, and is taken by ptxas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact, lower
from compiler.driver.tir_passes import DefaultGPUSchedule
from compiler.errors import CodegenError
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, thread_axis
from compiler.te.prim_func import create_prim_func
from compiler.te.schedule.schedule import create_schedule
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.tir.intrin import intrin
from compiler.topi.schedules import cuda, generic
from tests.kit.gpu.checks import PTXAS, assemble, check, run_threads

SM80 = Target("cuda -arch=sm_80")
Case = tuple[Callable[..., Tensor], list[tuple[int, ...]], Callable, Callable[..., np.ndarray]]


def softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(a: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    centred = a - a.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def conv(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((x.shape[0], w.shape[0], *x.shape[2:]))
    for i in range(3):
        for j in range(3):
            window = padded[:, :, i : i + x.shape[2], j : j + x.shape[3]]
            out += np.einsum("nchw,oc->nohw", window, w[:, :, i, j])
    return out


CASES: dict[str, Case] = {
    "exp": (topi.exp, [(3, 50)], cuda.schedule_injective, np.exp),
    "relu, four at once": (topi.nn.relu, [(64, 512)], cuda.schedule_injective, lambda a: np.maximum(a, 0)),
    "sum of rows": (lambda x: topi.sum(x, axis=1), [(3, 70)], cuda.schedule_reduce, lambda a: a.sum(1)),
    "sum of columns": (lambda x: topi.sum(x, axis=0), [(20, 9)], cuda.schedule_reduce, lambda a: a.sum(0)),
    "sum of all": (topi.sum, [(9, 30)], cuda.schedule_reduce, lambda a: a.sum()),
    "two kernels": (
        lambda x: topi.exp(topi.max(x, axis=-1)), [(4, 33)], cuda.schedule_reduce, lambda a: np.exp(a.max(-1)),
    ),
    "softmax": (topi.nn.softmax, [(2, 3, 40)], cuda.schedule_softmax, softmax),
    "log_softmax": (topi.nn.log_softmax, [(3, 33)], cuda.schedule_softmax, lambda a: np.log(softmax(a))),
    "layer_norm": (
        lambda x, g, b: topi.nn.layer_norm(x, g, b, axis=-1), [(3, 40), (40,), (40,)],
        cuda.schedule_layer_norm, layer_norm,
    ),
    "matmul": (topi.matmul, [(33, 20), (20, 35)], cuda.schedule_matmul, lambda a, b: a @ b),
    "dense and relu": (
        lambda x, w: topi.nn.relu(topi.nn.dense(x, w)), [(32, 16), (32, 16)],
        cuda.schedule_dense, lambda a, b: np.maximum(a @ b.T, 0),
    ),
    "batch_matmul": (
        topi.nn.batch_matmul, [(2, 17, 10), (2, 9, 10)],
        cuda.schedule_batch_matmul, lambda a, b: a @ b.transpose(0, 2, 1),
    ),
    "conv2d": (
        lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 1, 1), [(1, 2, 14, 22), (3, 2, 3, 3)],
        cuda.schedule_conv2d_nchw, conv,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str) -> None:
    make, shapes, schedule, reference = CASES[name]
    inputs = [placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    out = make(*inputs)
    rng = np.random.default_rng(len(name))
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    found = np.zeros([int(extent) for extent in out.shape], np.float32)
    with SM80:
        check(schedule([out]), [*inputs, out], [*arrays, found])
    np.testing.assert_allclose(found, reference(*(a.astype(np.float64) for a in arrays)), rtol=2e-4, atol=2e-5)


def test_generic_schedules_bind_threads_for_a_gpu() -> None:
    x = placeholder((4, 8), name="x")
    for name in (x for x in dir(generic) if x.startswith("schedule_") and x != "schedule_extern"):
        if hasattr(cuda, name):
            out = topi.exp(x)
            assert "threadIdx.x" in str(lower(getattr(generic, name)(SM80, [out]), [x, out])), name


@pytest.mark.skipif(PTXAS is None, reason="there is no ptxas on this machine")
@pytest.mark.parametrize("arch", ["sm_86", "sm_90a", "sm_100a"])
def test_ptxas_takes_a_large_product_without_spills(arch: str) -> None:
    a, b = placeholder((4096, 4096), name="a"), placeholder((4096, 4096), name="b")
    out = topi.matmul(a, b)
    target = Target(f"cuda -arch={arch}")
    with target:
        module = lower(cuda.schedule_matmul([out]), [a, b, out])
    said = assemble(compile_artifact(module, target).blobs["ptx"], arch)
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in said


NAMES = ("exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "sqrt", "rsqrt", "log1p", "exp2", "atan", "floor")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_math_without_a_library(dtype: str) -> None:
    """PTX of every function, one kernel: nothing is called that is not in the module."""
    x = placeholder((256,), dtype, name="x")
    names = [name for name in NAMES if dtype != "float64" or name not in ("atan", "sin", "cos")]
    outs = [compute((256,), lambda i, name=name: getattr(intrin, name)(x[i]), name=name) for name in names]
    s = create_schedule([out.op for out in outs])
    for out in outs:
        block, thread = s[out].split(out.op.axis[0], factor=64)
        s[out].bind(block, thread_axis("blockIdx.x"))
        s[out].bind(thread, thread_axis("threadIdx.x"))
    ptx = compile_artifact(lower(s, [x, *outs]), SM80).blobs["ptx"]
    assert b"call" not in ptx
    assemble(ptx, "sm_80")


def test_what_has_no_kernel_is_refused() -> None:
    x = placeholder((64,), name="x")
    y = compute((64,), lambda i: x[i] + 1.0, name="y")
    unbound = lower(create_schedule(y.op), [x, y])
    with pytest.raises(CodegenError, match="main computes outside of any loop bound to threads"):
        compile_artifact(unbound, "cuda")
    with pytest.raises(CodegenError, match="no code generator for 'sm_35'"):
        compile_artifact(unbound, "cuda -arch=sm_35")
    z = compute((64,), lambda i: intrin.call_extern("float32", "expf", x[i]), name="z")
    s = create_schedule(z.op)
    s[z].bind(z.op.axis[0], thread_axis("threadIdx.x"))
    with pytest.raises(CodegenError, match=r"calls .*expf.*, a C function; a GPU has none"):
        compile_artifact(lower(s, [x, z]), "cuda")
    far = placeholder((64,), "float64", name="far")
    s = create_schedule((sine := compute((64,), lambda i: intrin.sin(far[i]), name="sine")).op)
    s[sine].bind(sine.op.axis[0], thread_axis("threadIdx.x"))
    with pytest.raises(CodegenError, match="the kernels call sin, which a GPU does not have"):
        compile_artifact(lower(s, [far, sine]), "cuda")
    wide = placeholder((4096,), name="w")
    s = create_schedule((big := compute((4096,), lambda i: wide[i], name="big")).op)
    s[big].bind(big.op.axis[0], thread_axis("threadIdx.x"))
    with pytest.raises(CodegenError, match="is 4096, more than 1024"):
        compile_artifact(lower(s, [wide, big]), "cuda")


@pytest.mark.parametrize("name", ["matmul", "softmax", "sum of all"])
def test_functions_that_nobody_scheduled_get_threads(name: str) -> None:
    make, shapes, _, reference = CASES[name]
    inputs = [placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    out = make(*inputs)
    module = DefaultGPUSchedule()(IRModule({"main": create_prim_func([*inputs, out])}))
    arrays = [np.random.default_rng(3).standard_normal(shape).astype(np.float32) for shape in shapes]
    found = np.zeros([int(extent) for extent in out.shape], np.float32)
    lowered = lower(module)
    run_threads(lowered, *arrays, found)
    np.testing.assert_allclose(found, reference(*(a.astype(np.float64) for a in arrays)), rtol=2e-4, atol=1e-4)
    assemble(compile_artifact(lowered, SM80).blobs["ptx"], "sm_80")
    assert structural_equal(DefaultGPUSchedule()(lowered)["main"], lowered["main"])


def test_one_build_serves_every_size() -> None:
    """A matrix product of a size that the call tells, of tiles that do not fill it."""
    rows = n.Var("rows", "int32")
    a, b = placeholder((rows, 20), name="a"), placeholder((20, 24), name="b")
    out = topi.matmul(a, b)
    with SM80:
        module = lower(cuda.schedule_matmul([out]), [a, b, out])
    [entry] = compile_artifact(module, SM80).entries
    assert entry.launches[0].grid == ("1", "(rows + 63)//64", "1")
    x, w = np.random.default_rng(0).standard_normal((5, 20)), np.random.default_rng(1).standard_normal((20, 24))
    found = np.zeros((5, 24), np.float32)
    run_threads(module, x.astype(np.float32), w.astype(np.float32), found)
    np.testing.assert_allclose(found, x @ w, rtol=1e-3, atol=1e-4)


def test_pairs_are_reduced_by_one_thread() -> None:
    x = placeholder((5, 33), name="x")
    out = topi.argmax(x, axis=1)
    data = np.random.default_rng(0).standard_normal((5, 33)).astype(np.float32)
    found = np.zeros(5, np.int32)
    with SM80:
        check(cuda.schedule_reduce([out]), [x, out], [data, found])
    np.testing.assert_array_equal(found, data.argmax(1))


def test_memory_of_threads_does_not_go_from_kernel_to_kernel() -> None:
    x = placeholder((64,), name="x")
    y = compute((64,), lambda i: x[i] + 1.0, name="y")
    z = compute((64,), lambda i: y[i] * 2.0, name="z")
    s = create_schedule(z.op)
    s[y].set_scope("local")
    for stage in (y, z):
        s[stage].bind(stage.op.axis[0], thread_axis("threadIdx.x"))
    with pytest.raises(CodegenError, match="y is memory of a thread or a block, and 2 kernels use it"):
        compile_artifact(lower(s, [x, z]), "cuda")
