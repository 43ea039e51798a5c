"""Texts in Python's grammar are parsed by many threads at once."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from compiler.python_text import parsed_expression, parsed_module

_DEEP = "+".join(["(" * 20 + "a" + ")" * 20] * 40) + "+" + "-" * 60 + "b"


@pytest.fixture
def switching() -> Iterator[None]:
    """Another thread runs in the middle of a parse, as it does when objects are collected there."""
    before = gc.get_threshold()

    def pause(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    gc.set_threshold(20)
    gc.callbacks.append(pause)
    yield
    gc.callbacks.remove(pause)
    gc.set_threshold(*before)


@pytest.mark.usefixtures("switching")
def test_threads_parse_at_once() -> None:
    """Python 3.11 says "AST constructor recursion depth mismatch" where nothing keeps threads apart."""
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(parsed_expression, [_DEEP] * 20))
    assert {ast.dump(tree) for tree in found} == {ast.dump(ast.parse(_DEEP, mode="eval").body)}


def test_a_module_is_parsed_whole() -> None:
    assert [type(node) for node in parsed_module("import a\nb = 1\n").body] == [ast.Import, ast.Assign]


@pytest.mark.parametrize("text", ["", "a b", "lambda", "a\x00"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        parsed_expression(text)
