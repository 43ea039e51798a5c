"""C kernels are compiled for the target's CPU, or for the nearest one that the compiler knows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compiler.target.target import Target
from tuner.errors import TuningError
from tuner.kernels.csource import Argument, CSource, KernelCompileError
from tuner.kernels.march import march_for

ARGUMENTS = (Argument("x", "float32", (16,)), Argument("y", "float32", (16,), output=True))
SOURCE = "void twice(const float* x, float* y) { for (int i = 0; i < 16; ++i) y[i] = STEP * x[i]; }"


def target(mcpu: str, triple: str = "x86_64-unknown-linux-gnu") -> Target:
    return Target(f"llvm -mcpu={mcpu} -mtriple={triple}").resolved()


def compiler_that_knows(folder: Path, *names: str) -> tuple[str, ...]:
    """A command that does what gcc does for a CPU's name, for these names."""
    made = folder / f"cc-{'-'.join(names)}"
    taken = "|".join(f"-march={name}" for name in names) or "no"
    made.write_text(f'#!/bin/sh\necho "$1" >> "$0.log"\ncase "$1" in {taken}) exit 0;; esac\nexit 1\n')
    made.chmod(0o755)
    return (str(made), "-march={mcpu}")


@pytest.mark.parametrize(
    ("mcpu", "known", "expected"),
    [
        ("znver4", ("znver4", "x86-64-v4"), "znver4"),
        ("znver4", ("znver3", "x86-64-v4", "x86-64-v3"), "x86-64-v4"),
        ("znver4", ("skylake-avx512", "haswell", "x86-64"), "skylake-avx512"),
        ("znver3", ("x86-64-v4", "skylake-avx512", "x86-64-v3"), "x86-64-v3"),
        ("znver3", ("haswell", "x86-64"), "haswell"),
        ("nehalem", ("x86-64-v3", "x86-64-v2"), "x86-64-v2"),
        ("x86-64", ("x86-64-v2",), None),
    ],
)
def test_the_nearest_name(tmp_path: Path, mcpu: str, known: tuple[str, ...], expected: str | None) -> None:
    assert march_for(compiler_that_knows(tmp_path, *known), target(mcpu)) == expected


def test_the_nearest_name_on_arm(tmp_path: Path) -> None:
    arm = target("neoverse-n1", "aarch64-linux-gnu")
    assert march_for(compiler_that_knows(tmp_path, "armv8-a", "armv8.2-a"), arm) == "armv8.2-a"


def test_a_compiler_is_asked_once(tmp_path: Path) -> None:
    command = compiler_that_knows(tmp_path, "x86-64-v3")
    for _ in range(3):
        march_for(command, target("znver3"))
    assert Path(f"{command[0]}.log").read_text().split() == ["-march=znver3", "-march=x86-64-v3"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("mcpu", ["znver5", "znver4", "haswell"])
def test_the_default_command_compiles_for_new_cpus(mcpu: str) -> None:
    made = CSource(SOURCE, "twice", ARGUMENTS).compile({"STEP": 2}, str(target(mcpu)))
    assert "{mcpu}" not in made.meta["compiler"]
    assert made.blobs["object"]


def test_a_compiler_that_takes_no_name_is_an_error_with_a_hint(tmp_path: Path) -> None:
    source = CSource(SOURCE, "twice", ARGUMENTS, " ".join(compiler_that_knows(tmp_path)))
    with pytest.raises(KernelCompileError, match="takes no name for the CPU znver3") as raised:
        source.compile({"STEP": 2}, str(target("znver3")))
    assert "compiler =" in str(raised.value.hint)


def test_a_compiler_that_is_not_there_is_named_before_it_is_asked() -> None:
    with pytest.raises(TuningError, match="'no-such-cc' can't be run"):
        CSource(SOURCE, "twice", ARGUMENTS, "no-such-cc -march={mcpu}").compile({"STEP": 1}, str(target("znver3")))
