"""Run a program written for Apache TVM without editing it.

`python -m tunefarm.as_tvm program.py its arguments`.

`import tvm` then means `import tunefarm`, and so for every module: `tvm.te` is `tunefarm.te`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `tvm` and the modules in it under tunefarm's names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "tvm":
            return None
        if importlib.util.find_spec(_ours(fullname)) is None:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_ours(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which Python replaced; the import of it has run it."""
        if module.__spec__ is not None and module.__spec__.loader is self:
            module.__spec__ = module.__spec__.loader_state


_MOVED = [
    ("tvm.s_tir.meta_schedule", "tunefarm.meta_schedule"),
    ("tvm.s_tir.dlight", "tunefarm.dlight"),
    ("tvm.s_tir.", "tunefarm.tir."),
    ("tvm.tirx.script", "tunefarm.script.tirx"),
    ("tvm.tirx.", "tunefarm.tir."),
    ("tvm.support.", "tunefarm.contrib."),
    ("tvm.sym", "tunefarm.arith"),
]
"""Where newer versions keep modules that others keep elsewhere."""


def _ours(name: str) -> str:
    for there, here in _MOVED:
        if name.startswith(there):
            return here + name.removeprefix(there)
    return "tunefarm" + name.removeprefix("tvm")


def install() -> None:
    """Make `import tvm` mean `import tunefarm` in this process."""
    if "tvm" in sys.modules and sys.modules["tvm"] is not sys.modules["tunefarm"]:
        raise RuntimeError("Apache TVM has been imported in this process; tunefarm can stand for it only before that")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def uninstall() -> None:
    """Let `import tvm` mean what it meant before `install`; modules that were imported stay."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tunefarm.as_tvm PROGRAM [ARGUMENT ...]")
    install()
    program = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(program).resolve().parent)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
