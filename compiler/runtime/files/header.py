"""A C header for exported kernels."""

from __future__ import annotations

import re

from compiler.artifact import FIRST_CHECK, ArgSpec, Artifact, EntryPoint, ImplicitArg
from compiler.dtype import parse_dtype
from compiler.errors import ArtifactError

LIBRARY_VERSION = 1  # of what a header promises about the library beside it

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_PREAMBLE = f"""\
/* Kernels compiled by tunefarm for: {{target}}
 *
 * Arrays are C-contiguous and start at a multiple of 64 bytes (aligned_alloc(64, ...)); no output may overlap another
 * argument. `name(...)` runs the kernel; `name_packed(slots)` does the same from 8-byte slots (a pointer, an int64_t
 * or a double each). It returns 0, or -1 when there was no memory for a temporary, -2 when the system forbids the
 * matrix unit (AMX) that it uses, -3 when it calls a registered Python function in a program without Python, -4 when it
 * has no kernel for the sizes of the call and so wrote nothing, 1 for a failed assertion. The function of a whole model
 * returns such a code itself; codes from {FIRST_CHECK} on are checks that failed, listed with the function.
 *
 * Threads: a shared library carries its own pool and starts with one thread. tunefarm_set_threads(n) sets how many a
 * parallel loop uses from then on, the calling thread included. Link a program with -lm -lpthread.
 * Kernels may be called from several threads; a parallel loop that finds the pool busy runs on its caller's thread.
 * In a forked child, call tunefarm_after_fork() before the first kernel.
 *
 * A result whose shape the function finds out while it runs is an array of int64_t: the address of the result, how many
 * bytes are there, and its extents. Pass zeros, or what a call before left there: its memory is used again where it is
 * large enough. tunefarm_free(address) gives the memory back, also after a call that failed.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define TUNEFARM_LIBRARY_VERSION {LIBRARY_VERSION}

#ifdef __cplusplus
extern "C" {{{{
#endif

void tunefarm_set_threads(int32_t count);
int32_t tunefarm_get_threads(void);
void tunefarm_after_fork(void);
void tunefarm_free(void *address);
"""

_END = """
#ifdef __cplusplus
}
#endif
"""


def header(artifact: Artifact) -> str:
    """C declarations of an artifact's kernels, each with its arguments' shapes in a comment.

    Raises ArtifactError for a kernel that C cannot call by its name, such as `main`.
    """
    for entry in artifact.entries:
        if problem := c_name_problem(entry.symbol):
            raise ArtifactError(
                f"a header cannot declare the kernel {entry.symbol!r}: {problem}",
                hint="build it under another name: tvm.build(..., name=NAME), tunefarm build --name NAME",
            )
    target = artifact.target.replace("*/", "* /")
    return _PREAMBLE.format(target=target) + "".join(map(_declaration, artifact.entries)) + _END


def c_name_problem(name: str) -> str | None:
    """Return why a C or C++ program cannot call a kernel of this name; None when it can."""
    if name == "main":
        return "it is the function that a C program starts with"
    if name in _KEYWORDS:
        return "it is a keyword of C or C++"
    if name.startswith("tunefarm_"):
        return "names that start with tunefarm_ belong to the library"
    return None


def _declaration(entry: EntryPoint) -> str:
    arguments: list[ArgSpec | ImplicitArg] = [*entry.args, *entry.implicit]
    names = [_identifier(arg.name, index) for index, arg in enumerate(arguments)]
    if len(set(names)) != len(names):
        names = [f"arg{index}" for index in range(len(names))]
    if not _IDENTIFIER.fullmatch(entry.symbol):
        return f"\n/* {entry.symbol} has no name in C */\n"
    made = {result.index: f"{result.dtype} of {result.ndim} dimensions" for result in entry.made}
    lines, parameters = [], []
    for index, (arg, name) in enumerate(zip(entry.args, names)):
        written = index in entry.outputs
        described = _described(arg) if index not in made else f"{made[index]}, as address, bytes and extents"
        lines.append(f" * {name}: {described}{' (written)' if written else ''}")
        if arg.shape is None:
            parameters.append(f"{_c_type(arg.dtype)} {name}")
        else:
            parameters.append(f"{'' if written else 'const '}{_c_type(arg.dtype)} *{name}")
    for implicit, name in zip(entry.implicit, names[len(entry.args) :]):
        lines.append(f" * {name}: {implicit.value}, from the shapes".replace("*/", "* /"))
        parameters.append(f"{_c_type(implicit.dtype)} {name}")
    lines += [f" * {FIRST_CHECK + i}: {check}".replace("*/", "* /") for i, check in enumerate(entry.checks)]
    returns = "int32_t" if entry.is_graph else "void"
    signature = f"{returns} {entry.symbol}({', '.join(parameters) or 'void'});"
    return "\n".join(["", "/*", *lines, " */", signature, f"int32_t {entry.symbol}_packed(const void *slots);", ""])


def _described(arg: ArgSpec) -> str:
    if arg.shape is None:
        return arg.dtype
    strides = f", strides {', '.join(map(str, arg.strides))}" if isinstance(arg, ArgSpec) and arg.strides else ""
    return f"{arg.dtype}[{', '.join(map(str, arg.shape))}]{strides}".replace("*/", "* /")


def _identifier(name: str, index: int) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return cleaned if _IDENTIFIER.fullmatch(cleaned) and cleaned not in _KEYWORDS else f"arg{index}"


_KEYWORDS = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true
    false class new delete this template typename namespace operator private public protected
    """.split()  # noqa: SIM905
)


def _c_type(dtype: str) -> str:
    parsed = parse_dtype(dtype)
    if parsed.code == "bool":
        return "bool"
    if parsed.code == "handle":
        return "void *"
    if parsed.is_float:  # C has no portable halves: their bits
        return {64: "double", 32: "float"}.get(parsed.bits, "uint16_t")
    return f"{'' if parsed.is_signed else 'u'}int{max(8, parsed.bits)}_t"
