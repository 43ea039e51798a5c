"""Errors travel by their kind, so a kind belongs to one class."""

from __future__ import annotations

import pytest

from compiler.errors import CompileError, TunefarmError, error_from_kind


def test_a_kind_belongs_to_one_class() -> None:
    with pytest.raises(TypeError, match=r"'compile' is already used by compiler\.errors\.CompileError"):
        type("CompileError", (TunefarmError,), {"kind": "compile", "__module__": "elsewhere"})
    assert type(error_from_kind("compile", "no")) is CompileError
