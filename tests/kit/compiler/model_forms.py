"""Checks of a model in the forms that it runs in: machine code, the interpreter, C."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compiler.runtime.vm.machine import VirtualMachine
from tests.kit.compiler.c_models import run_any_in_c


def results_of(found: Any) -> list[Any]:
    """Return the result of a machine's function as numpy arrays."""
    return [item.numpy() for item in (found if isinstance(found, tuple) else (found,))]


def check_agree(made: Sequence[Any], wanted: Sequence[Any], rtol: float, atol: float) -> None:
    """Fail unless arrays agree. `atol` is a share of the greatest number, where that is more than 1."""
    assert len(made) == len(wanted)
    for ours, theirs in zip(made, wanted):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        greatest = float(np.abs(theirs).max())
        assert greatest > 0, "zeros say nothing"
        np.testing.assert_allclose(ours, theirs, rtol, atol * max(1.0, greatest))


def check_interpreted(machine: VirtualMachine, arrays: Sequence[Any], made: Sequence[Any]) -> None:
    """Fail unless the interpreter gives the same bytes."""
    machine.set_instrument(lambda *_: None)  # calls that are watched are interpreted
    interpreted = results_of(machine["main"](*arrays))
    machine.set_instrument(None)
    assert [x.tobytes() for x in interpreted] == [x.tobytes() for x in made]


def check_in_c(machine: VirtualMachine, arrays: Sequence[Any], made: Sequence[Any], folder: Path) -> None:
    """Fail unless a C program gives the same bytes, in a process without Python."""
    out, maps = run_any_in_c(machine, arrays, made, folder)
    assert out == b"".join(x.tobytes() for x in made)
    assert "python" not in maps
