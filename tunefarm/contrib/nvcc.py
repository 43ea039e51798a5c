"""Features of GPUs by compute capability. tunefarm makes PTX itself, so nothing here needs nvcc."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from compiler.errors import CodegenError, TargetError
from compiler.runtime.core.device import cuda
from compiler.target.target import Target

__all__ = [
    "callback_libdevice_path", "compile_cuda", "find_cuda_path", "find_libdevice_path", "get_cuda_version",
    "get_target_compute_version", "have_bf16", "have_cudagraph", "have_fp8", "have_fp16", "have_int8",
    "have_tensorcore", "parse_compute_version", "tvm_callback_cuda_compile",
]  # fmt: skip


class ComputeVersionError(TargetError, kind="compute_version"):
    """No GPU, target or text that says a compute capability."""


class NoToolkitError(CodegenError, RuntimeError, kind="no_cuda_toolkit"):
    """A question about a CUDA toolkit, which tunefarm has no use for."""


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """Major and minor number of a compute capability such as "8.6" or "9.0a". Raises ComputeVersionError."""
    found = re.fullmatch(r"(\d+)\.(\d+)[a-z]?", compute_version)
    if found is None:
        raise ComputeVersionError(f"{compute_version!r} is no compute capability", hint='for example "8.6"')
    return int(found[1]), int(found[2])


def get_target_compute_version(target: Any = None) -> str:
    """The compute capability of a target, else of the current one, else of the first GPU, as "8.6".

    Raises ComputeVersionError when none of them says one.
    """
    chosen = Target(target) if target is not None else Target.current(allow_none=True)
    arch = str(chosen.attrs.get("arch", "")) if chosen is not None else ""
    if found := re.fullmatch(r"sm_(\d+)(\d)([a-z]?)", arch):
        return f"{found[1]}.{found[2]}{found[3]}"
    if (version := cuda(0).compute_version) is not None:
        return version
    raise ComputeVersionError(
        "neither the target nor this machine has a compute capability", hint='say it: Target("cuda -arch=sm_86")'
    )


def have_fp16(compute_version: str) -> bool:
    """Whether there is half-precision arithmetic."""
    return parse_compute_version(compute_version) >= (5, 3)


def have_int8(compute_version: str) -> bool:
    """Whether there are 8-bit dot products."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Any = None) -> bool:
    """Whether there are tensor cores; by default of the target or this machine's GPU."""
    version = compute_version if compute_version is not None else get_target_compute_version(target)
    return parse_compute_version(version) >= (7, 0)


def have_bf16(compute_version: str) -> bool:
    """Whether there is bfloat16 arithmetic."""
    return parse_compute_version(compute_version) >= (8, 0)


def have_fp8(compute_version: str) -> bool:
    """Whether tensor cores take 8-bit floating-point numbers."""
    return parse_compute_version(compute_version) >= (8, 9)


def have_cudagraph() -> bool:
    """Whether launches can be recorded and repeated: wherever there is a GPU."""
    return cuda(0).exist


def find_cuda_path() -> NoReturn:
    """Always raises NoToolkitError: a toolkit is neither looked for nor needed."""
    raise _no_toolkit()


def get_cuda_version(cuda_path: str | None = None) -> NoReturn:
    """Always raises NoToolkitError: a toolkit is neither looked for nor needed."""
    raise _no_toolkit()


def find_libdevice_path(arch: str) -> NoReturn:
    """Always raises NoToolkitError: a toolkit is neither looked for nor needed."""
    raise _no_toolkit()


def callback_libdevice_path(arch: str) -> str:
    """Return "": no file of a toolkit is linked."""
    return ""


def _no_toolkit() -> NoToolkitError:
    return NoToolkitError(
        "tunefarm uses no CUDA toolkit", hint="GPUs are asked with `tvm.cuda(0).compute_version` and the like"
    )


def compile_cuda(code: str, *options: Any, **more: Any) -> NoReturn:
    """Always raises CodegenError: tunefarm compiles TensorIR to PTX without nvcc, and takes no CUDA C."""
    raise CodegenError("CUDA C is not compiled", hint="write the kernel in TVMScript and build it for target cuda")


def tvm_callback_cuda_compile(code: str, target: Any = None) -> NoReturn:
    """Always raises CodegenError, as `compile_cuda` does."""
    compile_cuda(code)
