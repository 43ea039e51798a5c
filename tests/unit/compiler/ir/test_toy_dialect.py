"""A second dialect in one file: two nodes, a class of functions, how they are printed and how they are read.

Nothing outside this file knows of it; all that works for TensorIR works for it.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from compiler.driver.build import InputError, build, lower
from compiler.errors import IRError
from compiler.ir.base import Node, Span, Symbol
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.structural import (
    assert_structural_equal,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
)
from compiler.ir.text import Lines, Names, keep, register_function, register_text, script, value_text
from compiler.ir.transform.passes import module_pass
from compiler.ir.visit import children, map_children, replace, transform, walk
from compiler.schedule.core.schedule import Schedule
from compiler.script import dialect
from compiler.script.dialect import Dialect
from compiler.script.entry import from_source, read_decorated
from compiler.script.parser import Parser
from compiler.script.saved import load_json, register_kept, save_json
from compiler.script.scope import Scope
from compiler.script.source import ScriptError, Source
from compiler.tir import nodes as n
from tests.kit.compiler.schedules import workloads as w
from tunefarm.script import ir as I
from tunefarm.script import tir as T

# ------------------------------------------------------------------------------------- nodes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Wire(Symbol):
    """A variable of the dialect."""

    name: str
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Join(Node):
    """Some wires, joins or numbers of TensorIR as one, `times` over."""

    CHILDREN = ("items",)

    items: tuple[Node, ...]
    times: int = 1
    span: Span | None = None


@dataclass(frozen=True)
class Film:
    """Many bytes: too many for a text."""

    data: bytes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Picture(Node):
    """A constant of the dialect."""

    film: Film


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Board(BaseFunc):
    """A function of the dialect."""

    CHILDREN = ("body",)
    DEFINES = ("inputs",)

    inputs: tuple[Wire, ...]
    body: Node
    attrs: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None


# ------------------------------------------------------------------------------- its printer


def _expr(node: Node, names: Names) -> str:
    if isinstance(node, Wire):
        return names.of(node)
    if isinstance(node, Picture):
        return f"Toy.picture({keep(node.film) or '...'})"
    if not isinstance(node, Join):
        return script(node)
    times = f", times={node.times}" if node.times != 1 else ""
    return f"Toy.join({', '.join(_expr(item, names) for item in node.items)}{times})"


def _lines(board: Board, name: str) -> list[str]:
    out, names = Lines(), Names()
    out.line("@Toy.board")
    out.line(f"def {name}({', '.join(map(names.of, board.inputs))}):")
    with out.indented():
        if board.attrs:
            out.line(f"Toy.attrs({value_text(dict(board.attrs))})")
        out.line(f"return {_expr(board.body, names)}")
    return out.lines


register_function(Board, _lines)
register_text(Join, lambda node: _expr(node, Names()))


# -------------------------------------------------------------------------------- its reader


def _join(*items: Any, times: int = 1) -> Join:
    nodes = tuple(n.IntImm("int32", item) if isinstance(item, int) else item for item in items)
    if not all(isinstance(node, Node) for node in nodes):
        raise IRError("Toy.join takes wires and numbers")
    return Join(nodes, times)


class _Reader(Parser):
    SPACE = "toy"


def _read(source: Source, node: ast.FunctionDef, captured: Mapping[str, Any]) -> Board:
    p = _Reader(source, Scope(captured))
    inputs = tuple(Wire(arg.arg, p.span(arg)) for arg in node.args.args)
    for wire in inputs:
        p.scope.define(wire.name, wire)
    attrs: dict[str, Any] = {}
    for stmt in node.body:
        if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call) and p.call(stmt.value) == "attrs":
            attrs |= p.value(stmt.value.args[0])
        elif isinstance(stmt, ast.Return) and stmt.value is not None:
            return Board(inputs, p.value(stmt.value), attrs, p.span(node))
        else:
            p.fail(stmt, "a board has attributes and a result")
    raise p.source.error(node, "a board has a result")


VOCABULARY = {"join": _join, "picture": Picture}
register_kept("toy.film", Film, lambda film: film.data.hex(), lambda text: Film(bytes.fromhex(text)))
Toy = SimpleNamespace(
    __script_namespace__="toy", board=lambda func: read_decorated(func, sys._getframe(1), "toy", "board"), **VOCABULARY
)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    dialect.register(Dialect("toy", "Toy", {"board": _read}, VOCABULARY.get, VOCABULARY.keys))
    yield
    dialect.unregister("toy")


# ------------------------------------------------------------------------------------- tests


def board(a: str = "a", b: str = "b", times: int = 2) -> Board:
    left, right = Wire(a), Wire(b)
    return Board((left, right), Join((left, Join((right, left), times), n.IntImm("int32", 7))), {"rank": 2})


TEXT = """\
@Toy.board
def main(a, b):
    Toy.attrs({"rank": 2})
    return Toy.join(a, Toy.join(b, a, times=2), 7)"""


@T.prim_func
def doubled(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(8, 4):
        B[i, j] = A[i, j] * 2.0


def both() -> IRModule:
    return IRModule({"first": board(), "doubled": doubled}, {"made": "here"})


def test_children_are_visited_in_order() -> None:
    body = board().body
    assert isinstance(body, Join)
    assert list(children(body)) == [*body.items]
    assert [type(node).__name__ for node in walk(board())] == [
        "Board", "Join", "Wire", "Join", "Wire", "Wire", "IntImm",
    ]  # fmt: skip


def test_an_unchanged_node_stays_the_same_object() -> None:
    made = board()
    assert map_children(made, lambda child: child) is made
    assert transform(made) is made


def test_rewriting_rebuilds_what_changed() -> None:
    made = board()
    flat = transform(
        made, post=lambda node: replace(node, times=1) if isinstance(node, Join) and node.times > 1 else None
    )
    assert_structural_equal(flat, board(times=1))
    assert made.body.items[1].times == 2


def test_names_of_what_a_node_defines_do_not_count() -> None:
    assert structural_equal(board(), board("x", "y"))
    assert structural_hash(board()) == structural_hash(board("x", "y"))


def test_swapped_wires_and_other_numbers_do_count() -> None:
    made, (a, b) = board(), board().inputs
    swapped = replace(made, body=Join((made.inputs[1], Join((made.inputs[0], made.inputs[1]), 2), made.body.items[2])))
    assert not structural_equal(made, swapped)
    assert structural_hash(made) != structural_hash(swapped)
    found = get_first_structural_mismatch(made, board(times=3))
    assert str(found.lhs_path) == "<root>.body.items[1].times"
    assert not structural_equal(a, b)
    assert structural_equal(a, b, map_free_vars=True)


def test_attributes() -> None:
    made = board().with_attr("global_symbol", "f")
    assert isinstance(made, Board)
    assert dict(made.attrs) == {"rank": 2, "global_symbol": "f"}
    assert dict(made.without_attr("rank").attrs) == {"global_symbol": "f"}


def test_printed_and_read_back() -> None:
    assert script(board()) == board().script() == TEXT
    assert_structural_equal(from_source(TEXT), board())
    assert from_source(TEXT).inputs[0].span == Span("<script>", 2, 10)
    assert repr(board()) == TEXT


def test_a_prefix_is_no_name() -> None:
    assert "def main(Toy_1, b):" in script(board("Toy"))


def test_read_where_python_is_written() -> None:
    @Toy.board
    def made(left, right):
        return Toy.join(left, right, times=3)

    assert_structural_equal(made.body, Join(made.inputs, 3))


def test_a_wrong_text_is_pointed_at() -> None:
    with pytest.raises(ScriptError, match=r"<script>:4:33: there is no name 'c'") as caught:
        from_source(TEXT.replace("b, a, times", "c, a, times"))
    assert caught.value.hint == "accepted here: a, b"
    with pytest.raises(ScriptError, match=r"no expression 'Toy.joint'"):
        from_source(TEXT.replace("join", "joint"))


def test_in_a_module_with_tensor_ir() -> None:
    module = both()
    assert [type(func) for func in module.values()] == [Board, n.PrimFunc]
    assert n.prim_funcs(module) == {module.get_global_var("doubled"): doubled}
    again = from_source(module.script())
    assert_structural_equal(again, module)
    assert structural_hash(again) == structural_hash(module)


def test_a_module_written_in_both() -> None:
    @I.ir_module
    class Module:
        I.module_attrs({"made": "here"})

        @Toy.board
        def first(a, b):
            Toy.attrs({"rank": 2})
            return Toy.join(a, Toy.join(b, a, times=2), 7)

        @T.prim_func
        def doubled(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
            for i, j in T.grid(8, 4):
                B[i, j] = A[i, j] * 2.0

    assert_structural_equal(Module, both())


@pytest.mark.parametrize("make", [board, both])
def test_saved_and_loaded(make: Callable[[], Any]) -> None:
    assert_structural_equal(load_json(save_json(make())), make())


def test_what_a_text_leaves_out_is_saved_beside_it() -> None:
    wire, film = Wire("a"), Film(b"abc")
    made = Board((wire,), Join((wire, Picture(film), Picture(film), Picture(Film(b"")))), {})
    assert "Toy.join(a, Toy.picture(...), Toy.picture(...), Toy.picture(...))" in made.script()
    saved = save_json(made)
    assert json.loads(saved)["kept"] == {"0": ["toy.film", "616263"], "1": ["toy.film", ""]}
    assert_structural_equal(load_json(saved), made)
    with pytest.raises(IRError, match="the data beside the text cannot be read"):
        load_json(saved.replace("616263", "no hex"))


def test_a_module_pass_rewrites_it() -> None:
    @module_pass(opt_level=0, name="toy.Once")
    def once(mod: IRModule, _: Any) -> IRModule:
        return mod.with_functions({
            name: transform(func, post=lambda node: replace(node, times=1) if isinstance(node, Join) else None)
            if isinstance(func, Board) else func
            for name, func in mod.items()
        })  # fmt: skip

    before = both()
    after = once(before)
    assert_structural_equal(after["first"], board(times=1))
    assert after["doubled"] is before["doubled"]
    assert_structural_equal(before, both())


def test_lowering_leaves_it_alone() -> None:
    before = both()
    after = lower(before)
    assert after["first"] is before["first"]
    assert after["doubled"].body is not doubled.body


def test_a_schedule_leaves_it_alone() -> None:
    schedule = Schedule(IRModule({"main": w.matmul(4, 4, 4), "first": board()}))
    schedule.parallel(schedule.get_loops(schedule.get_block("C"))[0])
    assert isinstance(schedule.mod["first"], Board)
    assert schedule.mod["main"] is schedule.func


def test_no_code_is_made_of_it() -> None:
    with pytest.raises(InputError, match="code is made of TensorIR functions; first is a Board"):
        build(both(), target="llvm")


def test_tensor_ir_cannot_call_it() -> None:
    text = both().script().replace("B[i, j] = A[i, j] * T.float32(2)", "B[i, j] = cls.first(i)")
    text = text.replace("B[i, j] = A[i, j] * 2.0", "B[i, j] = cls.first(i)")
    with pytest.raises(ScriptError, match="first is no TensorIR function"):
        from_source(text)


def test_a_node_without_a_printer_says_so() -> None:
    class Lonely(Node):
        pass

    with pytest.raises(IRError, match="cannot print a Lonely"):
        script(Lonely())
