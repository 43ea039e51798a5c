"""Tensor intrinsics: what an instruction on tiles computes, and the code that runs it.

`desc` and `impl` are functions of the same buffers. The description says what the instruction does to its arguments,
as loops and blocks in plain TensorIR, with no init. The implementation is any body over the same arguments: calls,
vector loads, external functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.errors import IRError
from compiler.tir import nodes as n


@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrin:
    """`impl` does what `desc` says. The buffers of both are equal in number, shape and dtype."""

    desc: n.PrimFunc
    impl: n.PrimFunc

    def __post_init__(self) -> None:
        described, implemented = parameters(self.desc), parameters(self.impl)
        if len(described) != len(implemented):
            raise IRError(
                f"tensor intrinsic: the description has {len(described)} arguments, the implementation "
                f"{len(implemented)}"
            )
        for a, b in zip(described, implemented):
            if a.dtype != b.dtype or [str(s) for s in a.shape] != [str(s) for s in b.shape]:
                raise IRError(
                    f"tensor intrinsic: argument {a.name!r} is {a.dtype}{list(a.shape)} in the description and "
                    f"{b.dtype}{list(b.shape)} in the implementation"
                )

    @staticmethod
    def register(name: str, desc: n.PrimFunc, impl: n.PrimFunc, override: bool = False) -> TensorIntrin:
        """Make an intrinsic known as `name`.
        Raises IRError when desc and impl do not fit, or when there is one of that name and `override` is not set."""
        if (name in _REGISTRY or name in _DECLARED) and not override:
            raise IRError(f"there is a tensor intrinsic {name!r} already", hint="pass override=True to replace it")
        intrin = _REGISTRY[name] = TensorIntrin(desc, impl)
        return intrin

    @staticmethod
    def declare(name: str, make: Callable[[], TensorIntrin]) -> None:
        """Make an intrinsic known as `name` that is made when it is first asked for."""
        _DECLARED[name] = make

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic called `name`; where there is none, None if `allow_missing`, else IRError."""
        found = _REGISTRY.get(name)
        if found is None and name in _DECLARED:
            found = _REGISTRY.setdefault(name, _DECLARED[name]())
        if found is None and not allow_missing:
            known = ", ".join(sorted(_REGISTRY.keys() | _DECLARED.keys())) or "none"
            raise IRError(f"there is no tensor intrinsic {name[:60]!r}", hint=f"known are: {known}")
        return found


_REGISTRY: dict[str, TensorIntrin] = {}
_DECLARED: dict[str, Callable[[], TensorIntrin]] = {}


def parameters(func: n.PrimFunc) -> list[n.Buffer]:
    """The buffers `func` takes, in order. Raises IRError for an argument that is no buffer."""
    for param in func.params:
        if param not in func.buffer_map:
            raise IRError(f"tensor intrinsic: argument {param.name!r} is no buffer")
    return [func.buffer_map[param] for param in func.params]
