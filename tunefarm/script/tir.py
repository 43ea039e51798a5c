"""`from tunefarm.script import tir as T`: the names of TVMScript functions.

Expressions (`T.int64(3)`, `T.exp(x)`) build IR anywhere. Statements and declarations mean something only in a
function under `@T.prim_func`, which is read, not run.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from compiler.errors import IRError
from compiler.faces.index_map import IndexMap
from compiler.faces.ranges import Range
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.text import vocabulary
from compiler.tir.text.macro import macro
from compiler.tir.text.parse_buffers import annotation as Buffer
from compiler.tir.text.parse_func import prim_func
from tunefarm.compatibility import refusing
from tunefarm.script.ir_builder import tir as frames

__all__ = ["Buffer", "Range", "buffer", "buffer_var", "comm_reducer", "index_map", "let", "macro", "prim_func", "ptr"]
__script_namespace__ = "tir"

_refuse = refusing("tunefarm.script.tir")
_FRAMES = frozenset({"Else", "If", "Then", "While", "arg", "buffer_store", "func_name"})
"""What builds a function inside an `IRBuilder`; texts write it otherwise."""
_STATEMENTS = frozenset({
    "Assert", "LetStmt", "alloc_buffer", "allocate", "allocate_const", "attr", "axis", "block", "block_attr",
    "buffer_decl", "decl_buffer", "env_thread", "evaluate", "func_attr", "grid", "init", "launch_thread", "Let",
    "match_buffer", "meta_var", "parallel", "reads", "sblock", "sblock_alloc_buffer", "sblock_attr", "serial",
    "thread_binding", "unroll", "vectorized", "where", "writes",
})  # fmt: skip


buffer = Buffer
index_map = IndexMap.from_func


def ptr(dtype: str, storage_scope: str = "global", is_size_var: bool = False) -> n.Var:
    """A variable that holds an address."""
    return n.Var("", "handle")


buffer_var = Ptr = ptr


def let(v: n.Var, value: Any, body: Any) -> n.Let:
    """`body` where `v` is `value`."""
    return n.Let(v, ops.as_expr(value), ops.as_expr(body))


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> n.CommReducer:
    """A combiner of pairs: `combiner` takes the values so far and the new ones."""
    units = tuple(map(ops.as_expr, identity))
    left = [n.Var(f"x{i}", unit.dtype) for i, unit in enumerate(units)]
    right = [n.Var(f"y{i}", unit.dtype) for i, unit in enumerate(units)]
    made = combiner(*left, *right)
    results = tuple(made) if isinstance(made, tuple | list) else (made,)
    return n.CommReducer(tuple(left), tuple(right), results, units)


def __getattr__(name: str) -> Any:
    found = None if name.startswith("_") else vocabulary.lookup(name)
    if found is not None:
        return found
    if name in _STATEMENTS:
        return _only_in_a_script(name)
    if name in _FRAMES:
        return getattr(frames, name)
    return _refuse(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *vocabulary.names(), *_STATEMENTS})


def _only_in_a_script(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise IRError(f"T.{name} means something only inside a function under @T.prim_func")

    return refuse
