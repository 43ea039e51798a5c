"""CPU and feature names that LLVM does not know are refused before LLVM sees them: it would abort."""

from __future__ import annotations

import pytest

import tunefarm as tvm
from compiler.codegen.llvm.cpu_names import check_names
from compiler.errors import TargetError
from compiler.target.target import Target
from tunefarm import te

X86 = "x86_64-unknown-linux-gnu"


def build(target: str):
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    return tvm.build(te.create_schedule(B.op), [A, B], target=target)


def test_an_unknown_cpu_is_an_error_that_names_close_ones():
    with pytest.raises(TargetError, match="LLVM knows no CPU 'znver33' for x86_64") as caught:
        build(f"llvm -mcpu=znver33 -mtriple={X86}")
    assert "znver3" in str(caught.value.hint)


def test_an_unknown_feature_is_an_error():
    with pytest.raises(TargetError, match="LLVM knows no CPU feature 'avx9' for x86_64"):
        build(f"llvm -mcpu=x86-64 -mattr=+avx9 -mtriple={X86}")
    with pytest.raises(TargetError, match="CPU feature 'simd'"):
        check_names(Target("llvm -mattr=-simd"), "aarch64-linux-gnu")


@pytest.mark.parametrize(
    ("target", "triple"),
    [
        ("llvm", X86),
        ("llvm -mcpu=generic", X86),
        ("llvm -mcpu=znver3 -mattr=+avx2,+fma", X86),
        ("llvm -mcpu=bdver2 -mattr=+fma4", X86),  # known to LLVM, not in our tables
        ("llvm -mcpu=cortex-a53", "aarch64-linux-gnu"),
        ("llvm -mcpu=anything", "no-such-machine"),  # the triple is the mistake
    ],
)
def test_what_llvm_knows_passes(target, triple):
    check_names(Target(target), triple)
