"""Executables kept on disk, by the digest of what they were made of."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from compiler.errors import ArtifactError
from compiler.ir.module import IRModule
from compiler.relax.expr_functor import PyExprVisitor
from compiler.relax.nodes import Constant, Function
from compiler.runtime.load import load_module
from compiler.runtime.vm.vm_executable import VMExecutable
from compiler.target.target import Target

VARIABLE = "TUNEFARM_TORCH_CACHE"
"""The environment variable that names the folder; empty: nothing is kept."""
MOST_FILES = 1000
"""The files that were not used for the longest time go when there are more."""


def default_folder() -> Path | None:
    """Return where executables are kept.
    That is $TUNEFARM_TORCH_CACHE, or tunefarm/torch in the user's folder for caches."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named).expanduser() if named else None
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tunefarm" / "torch"


def digest(module: IRModule, target: Target, extra: Sequence[str] = ()) -> str:
    """Return the key of an executable.
    It is a digest of the graph with its constants, the target, the compiler, and `extra`."""
    found = hashlib.sha256()
    for text in (module.script(), str(target), _compiler(), *extra):
        found.update(f"{len(text)}:{text}".encode())
    for func in module.values():
        if isinstance(func, Function):
            constants = _Constants()
            constants.visit_expr(func)
            for constant in constants.found:
                found.update(f"{constant.data.shape}:{constant.data.dtype}".encode())
                found.update(constant.data.as_bytes())
    return found.hexdigest()


class _Constants(PyExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Constant] = []

    def visit_constant_(self, op: Constant) -> None:
        self.found.append(op)


def _compiler() -> str:
    """The versions that decide what code a graph becomes."""
    import llvmlite

    try:
        ours = version("tunefarm")
    except PackageNotFoundError:
        ours = "0+unknown"
    return f"tunefarm {ours}, llvmlite {llvmlite.__version__}"


class Store:
    """A folder of executables. Several processes may use it at once. None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def find_or_build(self, name: str, build: Callable[[], VMExecutable]) -> tuple[VMExecutable, bool]:
        """The executable of this name, and whether it was there. A damaged file is built anew."""
        if self._folder is None:
            return build(), False
        path = self._folder / f"{name}.tunefarm"
        if path.exists():
            with suppress(ArtifactError, OSError):
                found = VMExecutable(load_module(str(path)))
                os.utime(path)
                return found, True
        made = build()
        with suppress(OSError):  # a full or read-only disk costs only the next process's time
            self._keep(made, path)
        return made, False

    def _keep(self, executable: VMExecutable, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            written = Path(folder) / path.name
            executable.save(str(written))
            os.replace(written, path)
        files = sorted(path.parent.glob("*.tunefarm"), key=lambda file: file.stat().st_mtime)
        for old in files[: max(0, len(files) - MOST_FILES)]:
            old.unlink(missing_ok=True)
