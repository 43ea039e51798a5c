"""Make shared libraries with the C compiler.

`module.export_library("f.so", fcompile=cc.create_shared)`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from compiler.runtime.files.export import missing_support
from compiler.runtime.files.linker import LinkError, get_cc
from compiler.runtime.files.linker import create_shared as _link

__all__ = [
    "LinkError", "create_executable", "create_shared", "create_staticlib", "cross_compiler", "get_cc",
    "get_target_by_dump_machine",
]  # fmt: skip

Objects = str | Sequence[str]


def create_shared(output: str, objects: Objects, options: Sequence[str] | None = None, cc: str | None = None) -> None:
    """Link objects (or C files) into a shared library with `cc`, or the compiler or linker found.

    Raises LinkError. Modules saved as objects get the part of the runtime that they need.
    """
    inputs = _listed(objects)
    try:
        support = missing_support(inputs)
    except OSError as error:
        raise LinkError(f"cannot read {error.filename}: {error.strerror}") from None
    if support is None:
        _link(output, inputs, options, cc)
        return
    with tempfile.TemporaryDirectory(prefix="tunefarm-") as folder:
        more = os.path.join(folder, "support.o")
        with open(more, "wb") as file:
            file.write(support)
        _link(output, [*inputs, more], options, cc)


def create_executable(
    output: str, objects: Objects, options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """Link objects (or C files) into a program with `cc`, or the C compiler found. Raises LinkError."""
    _run([_compiler(cc), "-o", output, *_listed(objects), *(options or ()), "-lm", "-lpthread"], output)


def create_staticlib(output: str, inputs: Objects, ar: str | None = None) -> None:
    """Put objects into a static library with `ar`. Raises LinkError."""
    _run([ar or "ar", "-crs", output, *_listed(inputs)], output)


def get_target_by_dump_machine(compiler: str | None) -> Callable[[], str | None]:
    """Return a function that asks a compiler for its triple.
    It gives None where that fails."""

    def triple() -> str | None:
        if not compiler:
            return None
        try:
            done = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() or None if done.returncode == 0 else None

    return triple


def cross_compiler(
    compile_func: str | Callable[..., Any],
    options: Sequence[str] | None = None,
    output_format: str | None = None,
    get_target_triple: Callable[[], str | None] | None = None,
    add_files: Sequence[str] | None = None,
) -> Callable[..., None]:
    """Return a function for `export_library(fcompile=)` that links with a compiler for another machine.

    `compile_func` names that compiler, or is a function such as `create_shared`. It is given `options` first, and
    `add_files` beside the objects. The function's `get_target_triple` asks the compiler what it makes code for.
    """
    link = _linking(compile_func) if isinstance(compile_func, str) else compile_func
    first, more = list(options or ()), list(add_files or ())

    def fcompile(outputs: str, objects: Objects, options: Sequence[str] | None = None) -> None:
        """Link `objects` into `outputs`."""
        link(outputs, [*_listed(objects), *more], options=[*first, *(options or ())])

    if get_target_triple is None and isinstance(compile_func, str):
        get_target_triple = get_target_by_dump_machine(compile_func)
    known: dict[str, Any] = vars(fcompile)
    known["output_format"] = output_format or getattr(compile_func, "output_format", "so")
    known["get_target_triple"] = get_target_triple or getattr(compile_func, "get_target_triple", lambda: None)
    return fcompile


def _linking(compiler: str) -> Callable[..., None]:
    def link(output: str, objects: Objects, options: Sequence[str] | None = None) -> None:
        create_shared(output, objects, options, cc=compiler)

    return link


def _listed(objects: Objects) -> list[str]:
    return [objects] if isinstance(objects, str) else [os.fspath(name) for name in objects]


def _compiler(cc: str | None) -> str:
    found = cc or get_cc()
    if found is None:
        raise LinkError("no C compiler was found", hint="install gcc or clang, or name yours with cc=...")
    return found


def _run(command: Sequence[str], output: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise LinkError(f"cannot start {command[0]!r}: {error.strerror}") from None
    if done.returncode:
        raise LinkError(
            f"{command[0]} could not make {output}:\n{done.stderr.strip()[-4000:]}",
            hint="the command was: " + " ".join(command),
        )


vars(create_shared)["output_format"] = "so"
vars(create_shared)["get_target_triple"] = get_target_by_dump_machine(get_cc())
