"""Walking and rebuilding trees: statements apart from expressions, and what did not change stays the same object."""

from __future__ import annotations

import pytest

from compiler.driver.pipeline import stages
from compiler.ir.base import Node
from compiler.ir.structural import structural_equal
from compiler.ir.visit import child_list, map_children, walk
from compiler.schedule.core.schedule import Schedule
from compiler.tir import nodes as n
from compiler.tir.nodes import Stmt, decl_buffer
from compiler.tir.visit import walk_stmts
from tests.kit.compiler.schedules import workloads as w


def lowered() -> list[n.PrimFunc]:
    """A tiled matmul with edges after each pass: blocks, loops, arrays, conditions and vectors."""
    s = Schedule(w.matmul(13, 20, 10))
    block = s.get_block("C")
    local = s.cache_write(block, 0, "local")
    i, j, k = s.get_loops(block)
    (i0, i1), (j0, j1) = s.split(i, [None, 4]), s.split(j, [None, 8])
    s.reorder(i0, j0, k, i1, j1)
    s.reverse_compute_at(local, j0)
    s.unroll(i1)
    s.vectorize(j1)
    return [s.func, *(func for _, func in stages(s.func))]


FUNCS = lowered()


@pytest.mark.parametrize("func", FUNCS)
def test_statements_are_walked_in_the_order_of_all_nodes(func: n.PrimFunc) -> None:
    assert list(walk_stmts(func.body)) == [node for node in walk(func.body) if isinstance(node, Stmt)]


def test_an_expression_holds_no_statements() -> None:
    assert list(walk_stmts(n.Add(n.Var("x"), n.IntImm("int32", 1)))) == []


@pytest.mark.parametrize("func", FUNCS)
def test_nothing_changed_is_the_same_object_and_everything_changed_is_equal(func: n.PrimFunc) -> None:
    def kept(node: Node) -> Node:
        return map_children(node, kept)

    def renewed(node: Node) -> Node:
        if isinstance(node, n.IntImm):
            return n.IntImm(node.dtype, node.value, node.span)
        return map_children(node, renewed)

    assert kept(func.body) is func.body
    new = renewed(func.body)
    assert new is not func.body
    assert isinstance(new, Stmt)
    assert structural_equal(func.with_body(new), func)
    assert func.with_body(new).script() == func.script()


def test_each_part_of_a_store_and_a_load_is_replaced() -> None:
    x, y = n.Var("x"), n.Var("y")
    buffer = decl_buffer((8,), "float32", "a")
    predicate = n.LT(x, n.IntImm("int32", 4))
    load = n.BufferLoad(buffer, (x,), predicate)
    store = n.BufferStore(buffer, load, (x,), predicate)

    def swapped(node: Node) -> Node:
        return y if node is x else map_children(node, swapped)

    new = swapped(store)
    assert isinstance(new, n.BufferStore)
    assert isinstance(new.value, n.BufferLoad)
    assert new.indices == new.value.indices == (y,)
    for changed in (new.predicate, new.value.predicate):
        assert isinstance(changed, n.LT)
        assert changed.a is y


def test_a_sequence_takes_in_the_sequences_put_into_it() -> None:
    one, two = (n.Evaluate(n.Var(name)) for name in "ab")
    outer = n.SeqStmt((one, two))
    new = map_children(outer, lambda node: n.SeqStmt((one, two)) if node is one else node)
    assert new.seq == (one, two, two)


@pytest.mark.parametrize("func", FUNCS)
def test_methods_that_are_quicker_say_what_the_class_declares(func: n.PrimFunc) -> None:
    for node in walk(func):
        declared: list[object] = []
        for name in type(node).CHILDREN:
            value = getattr(node, name)
            declared += value if isinstance(value, tuple) else () if value is None else (value,)
        if hasattr(node, "child_list"):
            assert [*map(id, child_list(node))] == [*map(id, declared)]


def test_a_function_is_walked_too() -> None:
    func = FUNCS[0]
    assert list(walk(func)) == [func, *walk(func.body)]
