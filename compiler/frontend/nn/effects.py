"""Effects: state that methods change. A function takes it and gives it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ArgumentError, IRError
from compiler.frontend.nn.values import Tensor, current_builder, get_default_dtype
from compiler.ir.base import RelaxExpr
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import Call, ExternFunc, ObjectStructInfo, PrimValue, ShapeExpr, TensorStructInfo, Var
from compiler.relax.op import call_inplace_packed, call_pure_packed, zeros
from compiler.runtime.core.dtypes import dtype_name
from compiler.tir.nodes import PrimExpr


class Effect:
    """State of a module that its methods change."""

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """Emit the first state into the function that makes it."""
        raise self._missing("emit_init")

    def create(self, name_hint: str) -> list[Var]:
        """The parameters of a function that stand for the state."""
        raise self._missing("create")

    def set_state(self, state_vars: Sequence[RelaxExpr]) -> None:
        """Begin a function whose parameters hold the state."""
        raise self._missing("set_state")

    def finalize(self) -> list[RelaxExpr]:
        """End a function, and return the state as it is now."""
        raise self._missing("finalize")

    def _missing(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {method}: an Effect of your own overrides it")

    def to(self, dtype: str | None = None) -> None:
        """Change the element type, where there is one."""


class IOEffect(Effect):
    """The order of prints: every print takes the state and gives the next one."""

    def __init__(self) -> None:
        self.effect: RelaxExpr | None = None

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        return [builder.emit(_impure("vm.builtin.null_value"), f"{name_hint}.io")]

    def create(self, name_hint: str) -> list[Var]:
        return [Var(f"{name_hint}.io", ObjectStructInfo())]

    def set_state(self, state_vars: Sequence[RelaxExpr]) -> None:
        (self.effect,) = state_vars

    def finalize(self) -> list[RelaxExpr]:
        found, self.effect = self.effect, None
        assert found is not None
        return [found]


class KVCache(Effect):
    """Rows that grow by what is appended: the keys or values that a decoder has seen."""

    def __init__(self, init_seq_len: int, unit_shape: Sequence[int], dtype: str | None = None) -> None:
        """Room for `init_seq_len` rows of `unit_shape` to begin with; it grows by itself."""
        if init_seq_len < 1 or any(size < 1 for size in unit_shape):
            raise ArgumentError(f"a cache of {init_seq_len} rows of shape {tuple(unit_shape)}")
        self.init_seq_len = init_seq_len
        self.unit_shape = [int(size) for size in unit_shape]
        self.dtype = dtype or get_default_dtype()
        self.cache: RelaxExpr | None = None

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        shape = [self.init_seq_len, *self.unit_shape]
        first = builder.emit(zeros(shape, self.dtype))
        sizes = ShapeExpr(tuple(shape))  # type: ignore[arg-type]
        made = _impure("vm.builtin.attention_kv_cache_create", first, sizes, PrimValue(0))  # type: ignore[arg-type]
        return [builder.emit(made, name_hint)]

    def create(self, name_hint: str) -> list[Var]:
        return [Var(name_hint, ObjectStructInfo())]

    def set_state(self, state_vars: Sequence[RelaxExpr]) -> None:
        (self.cache,) = state_vars

    def finalize(self) -> list[RelaxExpr]:
        found, self.cache = self._open(), None
        return [found]

    def to(self, dtype: str | None = None) -> None:
        if dtype is not None:
            self.dtype = dtype_name(dtype)

    def view(self, seq_len: int | PrimExpr) -> Tensor:
        """The first `seq_len` rows, which must be there."""
        shape = [seq_len, *self.unit_shape]
        info = TensorStructInfo(shape, self.dtype)  # type: ignore[arg-type]
        sizes = ShapeExpr(tuple(shape))  # type: ignore[arg-type]
        made = call_pure_packed("vm.builtin.attention_kv_cache_view", self._open(), sizes, sinfo_args=info)
        return Tensor(_expr=current_builder().emit(made, "cache_view"))

    def append(self, new_element: Tensor) -> None:
        """Add rows: a tensor of (rows, *unit_shape)."""
        if new_element.dtype != self.dtype:
            raise IRError(f"rows of {new_element.dtype} are added to a cache of {self.dtype}")
        made = call_inplace_packed(
            "vm.builtin.attention_kv_cache_append", self._open(), new_element._expr, inplace_indices=0,
            sinfo_args=ObjectStructInfo(),
        )  # fmt: skip
        self.cache = current_builder().emit(made, "cache")

    def _open(self) -> RelaxExpr:
        if self.cache is None:
            raise IRError("a KVCache is used while no function is built")
        return self.cache


def _impure(name: str, *args: Any) -> Call:
    """Make a call that creates something new each time, so it must not be merged with an equal call."""
    return Call(ExternFunc(name), args, None, (ObjectStructInfo(),))
