"""Write the public names of an installed Apache TVM as JSON: `python collect.py > names.json` in its environment.

Run by Apache TVM's Python, not by ours, so it imports nothing of this tree. `python -m tests.kit.tvm_names.merge`
makes the data file of the results of two versions.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import sys
from types import ModuleType
from typing import Any

SPACES = [
    "te",
    "tir",
    "tirx",
    "s_tir",
    "script",
    "target",
    "runtime",
    "rpc",
    "autotvm",
    "auto_scheduler",
    "meta_schedule",
    "dlight",
]
SHOWS_OTHERS = {"tvm.script.tir", "tvm.script.ir"}
"""Modules that, like packages, show names defined elsewhere."""
APART = {"testing", "relax", "benchmark", "relax_integration", "relay_integration"}
"""Parts of a path that this list leaves out: tests, and the graphs, which have lists of their own."""

BASES = {"Object", "ObjectBase", "PyNativeObject", "Node", "Scriptable", "PackedFuncBase", "ExprOp"}
"""Classes whose members are operators, or every object has."""


def modules(name: str) -> dict[str, ModuleType]:
    """A namespace and the modules in it that can be imported."""
    try:
        top = importlib.import_module(f"tvm.{name}")
    except ImportError:
        return {}
    found = {top.__name__: top}
    for info in pkgutil.walk_packages(getattr(top, "__path__", []), top.__name__ + ".", onerror=lambda _name: None):
        parts = info.name.split(".")
        if not APART.intersection(parts) and not any(part.startswith("_") for part in parts):
            try:
                found[info.name] = importlib.import_module(info.name)
            except Exception as error:  # needs what is not installed
                print(f"{info.name}: {error}", file=sys.stderr)
    return found


def files() -> list[str]:
    """The paths of all modules of these namespaces, also of those that `modules` leaves out, by their files."""
    top = importlib.import_module("tvm").__path__[0]
    found = []
    for space in [*SPACES, "contrib", "exec"]:
        for folder, _, names in os.walk(os.path.join(top, space)):
            path = os.path.relpath(folder, top).replace(os.sep, ".")
            if "__init__.py" in names:
                found.append(path)
            found += [f"{path}.{name[:-3]}" for name in names if name.endswith(".py") and name != "__init__.py"]
    return [path for path in found if "._ffi" not in path]


def is_public(module: ModuleType, name: str, value: Any) -> bool:
    """Whether a name is the module's own; a package also shows what it imports from TVM."""
    if name.startswith("_") or inspect.ismodule(value) or name == "annotations":
        return False
    if not (inspect.isclass(value) or callable(value)):
        return type(value).__module__.startswith("tvm")
    home = getattr(value, "__module__", None) or ""
    shows = hasattr(module, "__path__") or module.__name__ in SHOWS_OTHERS
    return home == module.__name__ or (shows and home.startswith("tvm"))


def parameters(value: Any) -> str | None:
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return " ".join(stars.get(p.kind, "") + p.name for p in found if p.name != "self")


def members(value: type) -> dict[str, str | None]:
    """The public methods with their parameters, and the properties."""
    found: dict[str, str | None] = {}
    for base in reversed(value.__mro__):
        if base.__module__.startswith("tvm") and base.__name__ not in BASES:
            for name, member in vars(base).items():
                if not name.startswith("_") and name not in ("handle", "same_as", "asobject"):
                    function = getattr(member, "__func__", member)
                    found[name] = parameters(function) if inspect.isfunction(function) else None
    return found


def main() -> None:
    objects: dict[str, Any] = {}
    shown: dict[str, list[str]] = {}
    first: dict[int, str] = {}
    kept = []  # so that no two have one id
    for space in SPACES:
        for path, module in sorted(modules(space).items(), key=lambda item: (item[0].count("."), item[0])):
            inside = shown.setdefault(path.removeprefix("tvm."), [])
            for name in sorted(vars(module)):
                value = vars(module)[name]
                if is_public(module, name, value):
                    kept.append(value)
                    inside.append(name)
                    here = f"{path}.{name}".removeprefix("tvm.")
                    if first.setdefault(id(value), here) == here:
                        entry: dict[str, Any] = {"params": parameters(value) if callable(value) else None}
                        if inspect.isclass(value):
                            entry["members"] = members(value)
                        objects[here] = entry
    version = importlib.import_module("tvm").__version__
    json.dump({"version": version, "objects": objects, "modules": shown, "files": files()}, sys.stdout)


if __name__ == "__main__":
    main()
