"""Errors travel by their kind, so a kind belongs to one class."""

from __future__ import annotations

import pytest

from compiler.errors import CompileError, TunefarmError, error_from_kind


def test_a_kind_belongs_to_one_class() -> None:
    with pytest.raises(TypeError, match=r"'compile' is already used by compiler\.errors\.CompileError"):
        type("CompileError", (TunefarmError,), {"kind": "compile", "__module__": "elsewhere"})
    assert type(error_from_kind("compile", "no")) is CompileError


def test_the_kind_stands_in_the_class_line_or_in_its_body() -> None:
    class Named(CompileError, kind="test_named"):
        pass

    class Written(CompileError):
        kind = "test_written"

    class Inherits(Named):
        pass

    assert [cls.kind for cls in (Named, Written, Inherits)] == ["test_named", "test_written", "test_named"]
    assert type(error_from_kind("test_named", "no")) is Named  # what has no kind of its own travels as its base
    assert type(error_from_kind("test_written", "no")) is Written
    with pytest.raises(TypeError, match="'test_named' is already used"):
        type("Second", (TunefarmError,), {}, kind="test_named")
