"""Errors name what a pattern or an effect of a program's own has to override."""

from __future__ import annotations

import pytest

from compiler.frontend.nn.effects import Effect
from compiler.relax.dpl.pattern import DFPattern
from compiler.relax.nodes.base import StructInfo
from tunefarm import relax


class Mine(DFPattern):
    pass


class State(Effect):
    pass


def test_patterns() -> None:
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    with pytest.raises(NotImplementedError, match="Mine has no accepts: override it, or solve"):
        Mine().match(x)
    with pytest.raises(NotImplementedError, match="Mine has no with_parts: a pattern made of parts overrides it"):
        Mine().with_parts([])


@pytest.mark.parametrize(
    ("method", "given"), [("emit_init", ("x", None)), ("create", ("x",)), ("set_state", ([],)), ("finalize", ())]
)
def test_effects(method: str, given: tuple[object, ...]) -> None:
    with pytest.raises(NotImplementedError, match=f"State has no {method}: an Effect of your own overrides it"):
        getattr(State(), method)(*given)


def test_struct_infos() -> None:
    with pytest.raises(NotImplementedError, match="StructInfo has no check: a StructInfo overrides it"):
        StructInfo().check(relax.ObjectStructInfo())
