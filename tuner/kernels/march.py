"""The CPU names that a C compiler takes: the target's own, or the nearest one that the compiler knows."""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache

from compiler.target.cpu_features import architecture
from compiler.target.target import Target

_log = logging.getLogger(__name__)

_LEVELS = (
    (("x86-64-v4", "skylake-avx512"), {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    (("x86-64-v3", "haswell"), {"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}),
    (("x86-64-v2", "nehalem"), {"popcnt", "ssse3", "sse4.1", "sse4.2"}),
    (("x86-64",), set[str]()),
)
"""Names of sets of x86 features with what the target must have for each, the largest set first. gcc knows the first
name of a pair from version 11 on, the second long since."""
_PROBE_S = 20.0


def march_for(compiler: tuple[str, ...], target: Target) -> str | None:
    """Return what stands for `{mcpu}` in the command.

    It is the first name that the compiler takes, None when it takes none. Raises OSError when the compiler can't be
    run.
    """
    names = tuple(_names(target))
    return _first_taken(compiler, names)


def substitute_text(compiler: tuple[str, ...], target: Target) -> str:
    """Say that the compiler does not know the target's CPU and which one it compiles for.

    "" where it knows it.

    Raises OSError when the compiler can't be run.
    """
    wanted, found = next(_names(target)), march_for(compiler, target)
    if found is None or found == wanted:
        return ""
    return f"{compiler[0]} does not know the CPU {wanted}; kernels are compiled for {found}"


def _names(target: Target) -> Iterator[str]:
    """The target's CPU, then sets of features that it has, the largest first."""
    yield target.mcpu or "native"
    match architecture(target.triple):
        case "x86_64":
            for names, features in _LEVELS:
                if features <= set(target.features):
                    yield from names
        case "aarch64":  # in -march=, gcc takes no CPU there
            yield "armv8.2-a" if "dotprod" in target.features else "armv8-a"


@cache
def compiler_version(compiler: str) -> str:
    """The first line of `compiler --version`, "" where it has none. Raises OSError when it can't be run."""
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, timeout=_PROBE_S, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.decode(errors="replace").partition("\n")[0][:400]


@cache
def _first_taken(compiler: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if _takes(compiler, name)), None)


def _takes(compiler: tuple[str, ...], name: str) -> bool:
    """Whether the command compiles an empty file for the CPU."""
    command = [part.replace("{mcpu}", name) for part in compiler]
    try:
        done = subprocess.run(
            [*command, "-fsyntax-only", "-x", "c", "/dev/null"], capture_output=True, timeout=_PROBE_S, check=False
        )
    except subprocess.TimeoutExpired:
        _log.warning("%s took more than %g s for an empty file", shlex.join(command), _PROBE_S)
        return False
    return done.returncode == 0
