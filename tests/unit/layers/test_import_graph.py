"""No circle of files, also none hidden by an import inside a function; the device side's contract is whole."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import grimp

from tests.kit.places import ROOT

PACKAGES = ("compiler", "rpc_server", "tracker", "tuner", "webui", "tunefarm")
RUNTIME_HALF = {
    "runtime",
    "artifact",
    "launches",
    "size_rule",
    "extents",
    "framed_manifest",
    "target",
    "dtype",
    "python_text",
    "suggest",
    "errors",
}


def modules() -> dict[str, Path]:
    """The product's modules by name."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            found[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in graph[module]:
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in graph:
        if module not in order:
            visit(module)
    return found


def test_no_two_files_import_each_other() -> None:
    """Imports that only type checkers read do not count."""
    imports = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    graph = {name: imports.find_modules_directly_imported_by(name) for name in imports.modules}
    assert len(graph) > 500
    assert circles(graph) == []


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]


def test_the_device_side_is_forbidden_every_other_part_of_the_compiler() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [device_side] = [c for c in contracts if c.get("source_modules") == ["rpc_server", "tracker"]]
    parts = {
        path.stem for path in (ROOT / "compiler").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert {name.removeprefix("compiler.") for name in device_side["forbidden_modules"]} == parts - RUNTIME_HALF - {
        "__init__"
    }


def test_no_name_of_a_package_hides_behind_a_file_of_that_name() -> None:
    """Importing a package's file binds the file's name in the package, over what another file gave it under that name.

    What the file itself gave stays, since the package imported the file before it took the name.
    """
    known = modules()
    replaced = []
    for package, path in known.items():
        if path.name != "__init__.py":
            continue
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            for alias in node.names:
                name = f"{package}.{alias.asname or alias.name}"
                own = node.module == name or f"{node.module}.{alias.name}" == name or node.module.startswith(f"{name}.")
                if name in known and not own:
                    replaced.append(f"{name} is {node.module}.{alias.name} until its file is imported")
    assert replaced == []
