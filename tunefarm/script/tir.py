"""`from tunefarm.script import tir as T`: the names of TVMScript functions.

Expressions (`T.int64(3)`, `T.exp(x)`) build IR anywhere. Statements and declarations mean something only in a
function under `@T.prim_func`, which is read, not run.
"""

from typing import Any, NoReturn

from compiler.errors import IRError
from compiler.tir.text import vocabulary
from compiler.tir.text.macro import macro
from compiler.tir.text.parse_buffers import annotation as Buffer
from compiler.tir.text.parse_func import prim_func
from tunefarm.script.ir_builder import tir as frames

__all__ = ["Buffer", "macro", "prim_func"]
__script_namespace__ = "tir"

_FRAMES = frozenset({"Else", "If", "Then", "While", "arg", "buffer_store", "func_name"})
"""What builds a function inside an `IRBuilder`; texts write it otherwise."""
_STATEMENTS = frozenset({
    "Assert", "LetStmt", "alloc_buffer", "allocate", "attr", "axis", "block", "block_attr", "buffer_decl",
    "decl_buffer", "env_thread", "evaluate", "func_attr", "grid", "init", "launch_thread", "Let", "match_buffer",
    "meta_var", "parallel", "reads", "serial", "thread_binding", "unroll", "vectorized", "where", "writes",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    found = None if name.startswith("_") else vocabulary.lookup(name)
    if found is not None:
        return found
    if name in _STATEMENTS:
        return _only_in_a_script(name)
    if name in _FRAMES:
        return getattr(frames, name)
    raise AttributeError(f"TVMScript has no T.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *vocabulary.names(), *_STATEMENTS})


def _only_in_a_script(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise IRError(f"T.{name} means something only inside a function under @T.prim_func")

    return refuse
