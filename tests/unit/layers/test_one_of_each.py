"""Code that exists once is used by other files, and none does the same by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.kit.places import ROOT
from tests.kit.statements import inner

PACKAGES = ("compiler", "rpc_server", "tracker", "tuner", "tunefarm", "webui")
POLLERS = {
    "rpc_server/client/connection.py",
    "rpc_server/farm_link/registrar.py",
    "rpc_server/wire/polling.py",
    "tracker/server.py",
}
"""Where a few ZeroMQ sockets are waited for (docs/decisions/018-two-loops.md)."""
EPOLLS = {"rpc_server/wire/event_loop.py", "tracker/channel.py"}
"""The loop for thousands of descriptors, and the client of the tracker, two threads of which wait for one socket."""


def texts() -> dict[str, str]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def having(text: str) -> set[str]:
    return {place for place, source in texts().items() if text in source}


def test_loops_are_woken_by_one_class() -> None:
    assert having("os.eventfd(") == {"rpc_server/wire/waker.py"}


def test_there_are_two_loops() -> None:
    assert having("zmq.Poller()") == POLLERS
    assert having("select.epoll()") == EPOLLS


def test_waits_are_made_milliseconds_in_one_place() -> None:
    assert having("* 1000) + 1") == {"rpc_server/wire/polling.py"}


def test_the_main_module_is_swapped_in_one_place() -> None:
    assert having('sys.modules["__main__"] =') == {"tuner/build/spawning.py"}


def test_metrics_are_written_in_one_place() -> None:
    assert having("# TYPE {") == {"webui/metrics.py"}


def test_python_is_parsed_in_one_place() -> None:
    assert having("ast.parse(") == {"compiler/python_text.py"}


def loose_functions(node: ast.AST, in_class: bool = False) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions that take `self` and are no methods. Those that wrap a method are left out."""
    for child in inner(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            first = (child.args.posonlyargs + child.args.args)[:1]
            wraps = any("wraps" in ast.unparse(decorator) for decorator in child.decorator_list)
            if not in_class and not wraps and first and first[0].arg == "self":
                yield child
        yield from loose_functions(child, isinstance(child, ast.ClassDef) or (in_class and isinstance(child, ast.If)))


def test_functions_that_take_self_are_methods() -> None:
    found = [
        f"{place}:{function.lineno}: {function.name}"
        for place, source in texts().items()
        if "(self" in source
        for function in loose_functions(ast.parse(source))
    ]
    assert not found, "\n".join(found)


def test_objects_are_made_without_a_constructor_by_their_own_module_alone() -> None:
    found = []
    for place in having("object.__new__"):
        tree = ast.parse(Path(ROOT, place).read_text(encoding="utf-8"))
        classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        made = [
            ast.unparse(node.args[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "object.__new__"
        ]
        found += [f"{place}: {name}" for name in made if name not in classes and "cls" not in name]
    assert not found, "\n".join(found)
