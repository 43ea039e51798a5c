"""Help for tests: comparing arrays, tests for many targets and parameters.

What needs pytest imports it when it is used.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, NoReturn

import numpy as np

from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal
from compiler.runtime.core.device import Device, device, enabled
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tunefarm.compatibility import refuse_other_names
from tunefarm.testing.functions import (
    IS_IN_CI,
    ErrorTest,
    assert_prim_expr_equal,
    check_bool_expr_is_true,
    check_numerical_grads,
    device_test,
    identity_cpp,
    nop,
    object_use_count,
    test_check_eq_callback,
    test_raise_error_callback,
    test_wrap_callback,
)
from tunefarm.testing.popen_pool import (
    after_initializer,
    call_cpp_ffi,
    call_cpp_py_ffi,
    call_py_ffi,
    fast_summation,
    initializer,
    register_ffi,
    slow_summation,
    timeout_job,
)

__all__ = [
    "IS_IN_CI", "CompareBeforeAfter", "ErrorTest", "after_initializer", "assert_allclose", "assert_prim_expr_equal",
    "call_cpp_ffi", "call_cpp_py_ffi", "call_py_ffi", "check_bool_expr_is_true", "check_numerical_grads",
    "device_enabled", "device_test", "echo", "enabled_targets", "exclude_targets", "fast_summation", "fixture",
    "identity_after", "identity_cpp", "initializer", "known_failing_targets", "main", "nop", "object_use_count",
    "parameter", "parameters", "parametrize_targets", "register_ffi", "requires_aarch64", "requires_aarch64_sve",
    "requires_arm_dot", "requires_cublas", "requires_cuda", "requires_cuda_compute_version", "requires_cudagraph",
    "requires_cudnn", "requires_cutlass", "requires_gpu", "requires_hexagon", "requires_llvm", "requires_matrixcore",
    "requires_metal", "requires_micro", "requires_nvcc_version", "requires_opencl", "requires_package", "requires_rocm",
    "requires_rpc", "requires_tensorcore", "requires_vulkan", "requires_x86", "requires_x86_amx", "requires_x86_avx512",
    "requires_x86_vnni", "skip_if_32bit", "slow", "slow_summation", "terminate_self", "test_check_eq_callback",
    "test_raise_error_callback", "test_wrap_callback", "timeout_job", "uses_gpu",
]  # fmt: skip

refuse_other_names(__name__)

DEFAULT_TARGETS = ("llvm", "cuda")


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True) -> None:
    """Compare shapes and values, of arrays of ours too. Raises AssertionError when they differ."""
    left, right = (np.asanyarray(x.numpy() if hasattr(x, "numpy") else x) for x in (actual, desired))
    np.testing.assert_equal(left.shape, right.shape)
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=verbose)


# -------------------------------------------------------------------------------- targets


def device_enabled(target: str | Target) -> bool:
    """Whether code for a target can be made and run on this machine."""
    kind = Target(target).kind.name
    return enabled(kind) and device(kind, 0).exist


def enabled_targets() -> list[tuple[str, Device]]:
    """Targets of "llvm" and "cuda" that this machine runs, with their devices."""
    return [(target, device(target, 0)) for target in DEFAULT_TARGETS if device_enabled(target)]


def parametrize_targets(*args: Any) -> Any:
    """Run a test once for each target that this machine runs, as `target` and `dev`.

    Used bare (`@parametrize_targets`) the targets are "llvm" and "cuda"; otherwise those that are given.
    """
    import pytest

    if len(args) == 1 and callable(args[0]):
        return parametrize_targets(*DEFAULT_TARGETS)(args[0])
    cases = [
        pytest.param(
            target,
            device(Target(target).kind.name, 0),
            id=str(target),
            marks=() if device_enabled(target) else pytest.mark.skip(reason=f"no {target} here"),
        )
        for target in args
    ]
    return pytest.mark.parametrize(("target", "dev"), cases)


def _requires(condition: Callable[[], bool], what: str) -> Callable[..., Any]:
    def mark(func: Any = None) -> Any:
        """Skip a test where something is missing. Without a test: the list of marks."""
        import pytest

        skip = pytest.mark.skipif(not condition(), reason=f"needs {what}")
        return [skip] if func is None else skip(func)

    return mark


requires_llvm = _requires(lambda: True, "LLVM")
requires_rpc = _requires(lambda: True, "RPC")
requires_cuda = _requires(lambda: device_enabled("cuda"), "an NVIDIA GPU")
requires_gpu = requires_cuda
uses_gpu = requires_cuda


def _on(architecture: str, *features: str) -> Callable[[], bool]:
    """Whether this machine is of an architecture and its CPU has some features."""

    def met() -> bool:
        here = Target("llvm").resolved()
        return here.architecture == architecture and set(features) <= here.features

    return met


def _never() -> bool:
    return False


requires_x86 = _requires(_on("x86_64"), "an x86 CPU")
requires_x86_avx512 = _requires(_on("x86_64", "avx512f", "avx512bw", "avx512dq"), "AVX-512")
requires_x86_vnni = _requires(_on("x86_64", "avx512vnni"), "VNNI")
requires_x86_amx = _requires(_on("x86_64", "amx-int8"), "AMX")
requires_arm_dot = _requires(_on("aarch64", "dotprod"), "an Arm CPU with sums of products")
requires_aarch64 = _requires(_on("aarch64"), "a 64-bit Arm CPU")
requires_aarch64_sve = _requires(_on("aarch64", "sve"), "an Arm CPU with SVE")
requires_nvcc_version = requires_cuda_compute_version = lambda *_args, **_kwargs: requires_cuda
requires_cudagraph = requires_cudnn = requires_cublas = requires_tensorcore = requires_nvptx = requires_cuda
requires_metal = _requires(_never, "an Apple GPU")
requires_opencl = _requires(_never, "OpenCL")
requires_vulkan = _requires(_never, "Vulkan")
requires_rocm = requires_matrixcore = _requires(_never, "an AMD GPU")
requires_hexagon = _requires(_never, "a Hexagon DSP")
requires_micro = requires_cmsisnn = requires_corstone300 = _requires(_never, "a microcontroller")
requires_cutlass = _requires(_never, "CUTLASS")


def slow(func: Any) -> Any:
    """Mark a test as slow: it runs here all the same."""
    return func


def skip_if_32bit(reason: str) -> Callable[[Any], Any]:
    """Skip a test on machines with addresses of 32 bits."""
    import pytest

    return pytest.mark.skipif(sys.maxsize < 1 << 32, reason=reason)


def exclude_targets(*_args: Any) -> Callable[[Any], Any]:
    """Leave targets out of a test that runs once for each.
    Only those of `parametrize_targets` are used here."""
    return slow


def known_failing_targets(*_args: Any) -> Callable[[Any], Any]:
    """Name targets that a test fails on: only those of `parametrize_targets` are used here."""
    return slow


def identity_after(x: Any, sleep: float) -> Any:
    """`x`, after some seconds."""
    time.sleep(sleep)
    return x


def terminate_self() -> NoReturn:
    """End this process."""
    sys.exit(-1)


def echo(x: Any) -> Any:
    """Return `x` as a function of the registry gets it."""
    return identity_cpp(x)


class CompareBeforeAfter:
    """A test class of a pass.
    `before` and `expected` are functions of the IR, or functions that give one; `transform` is the pass. `expected`
    may be an error, which the pass raises then."""

    before: Any
    expected: Any
    transform: Any

    def test_compare(self) -> None:
        """Run the pass on `before` and compare with `expected`."""
        import pytest

        given, wanted = (_module_of(self, part) for part in ("before", "expected"))
        if isinstance(wanted, type) and issubclass(wanted, Exception):
            with pytest.raises(wanted):
                self._pass()(given)
        else:
            assert_structural_equal(self._pass()(given), wanted)

    def _pass(self) -> Callable[[IRModule], IRModule]:
        found = self.transform
        if isinstance(found, Callable) and not hasattr(found, "info"):  # type: ignore[arg-type]
            found = found()
        run: Callable[[IRModule], IRModule] = found
        return run


def _module_of(test: Any, part: str) -> Any:
    """A module of what stands under a name of a test class."""
    found = getattr(test, part)
    if not isinstance(found, IRModule | PrimFunc) and not isinstance(found, type) and callable(found):
        found = found()
    return IRModule({"main": found}) if isinstance(found, PrimFunc) else found


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Skip a test unless these packages can be imported."""
    from importlib.util import find_spec

    import pytest

    missing = [name for name in packages if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


# ----------------------------------------------------------------------------- parameters


def parameter(
    *values: Any, ids: Sequence[str] | Callable[[Any], str] | None = None, by_dict: Mapping[str, Any] | None = None
) -> Any:
    """A fixture with each of the values in turn: `size = testing.parameter(1, 16)` at module level.

    `by_dict` gives names and values together. Raises TypeError for both kinds of values.
    """
    import pytest

    if by_dict is not None:
        if values or ids is not None:
            raise TypeError("parameter takes values, or by_dict, not both")
        ids, values = tuple(by_dict), tuple(by_dict.values())

    @pytest.fixture(params=values, ids=ids)
    def chosen(request: Any) -> Any:
        return request.param

    return chosen


def parameters(*value_sets: Iterable[Any], ids: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Make fixtures that vary together.

    `x, y = testing.parameters((1, 2), (3, 4))` runs a test with 1, 2 and with 3, 4. The fixtures have to be names of
    the test's module. Raises ValueError for sets of different sizes.
    """
    import pytest

    rows = [tuple(row) for row in value_sets]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("the sets of parameters have different sizes")
    numbers = tuple(range(len(rows)))

    @pytest.fixture(params=numbers, ids=ids, scope="module")
    def row_number(request: Any) -> Any:
        return request.param

    frame = sys._getframe(1).f_globals
    name = next(name for name in (f"_parameters_{i}" for i in itertools.count()) if name not in frame)
    frame[name] = row_number

    def column(position: int) -> Any:
        def chosen(**given: int) -> Any:
            return rows[given[name]][position]

        # pytest reads the signature: the column depends on the fixture of that name.
        chosen.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY)])  # type: ignore[attr-defined]
        return pytest.fixture(chosen)

    return tuple(column(position) for position in range(len(rows[0]) if rows else 0))


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """`pytest.fixture`.
    With `cache_return_value` a value is made once for the values of the fixtures that it takes; it must not be
    changed."""
    import pytest

    def made(func: Callable[..., Any]) -> Any:
        return pytest.fixture(_cached(func) if cache_return_value else func)

    return made if func is None else made(func)


def _cached(func: Callable[..., Any]) -> Callable[..., Any]:
    values: dict[Any, Any] = {}

    @wraps(func)  # pytest reads the signature
    def value(**given: Any) -> Any:
        key = tuple(sorted(given.items()))
        if key not in values:
            values[key] = func(**given)
        return values[key]

    return value


def main() -> NoReturn:
    """Run the tests of the file this is called in, and exit with pytest's status."""
    import pytest

    sys.exit(pytest.main([str(sys._getframe(1).f_globals["__file__"]), *sys.argv[1:]]))
