"""IR as TVMScript text: what every dialect's printer shares, and which printer a node goes to.

A dialect registers its printers when its package is imported: `register_function` for a class of functions,
`register_text` for other nodes, `register_value` for what stands in attributes. A class is printed as its nearest
base is.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, TypeVar

from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Node, Symbol
from compiler.ir.text_options import TextOptions, arranged, tvm_version

# Prefixes of dialects that may not be loaded are among them, so that a text does not depend on which are.
_RESERVED = frozenset({"T", "I", "R", "range", "True", "False", "None", "Module"})
KEPT = "__kept__"
"""The name, in a text, of what it leaves out."""
_INVALID = re.compile(r"\W")
_INDENT = re.compile(r"^(?: {4})+", re.MULTILINE)

R = TypeVar("R")
FunctionLines = Callable[[Any, str], list[str]]
_functions: dict[type, FunctionLines] = {}
_texts: dict[type, Callable[[Any], str]] = {}
_values: dict[type, Callable[[Any], str]] = {}
_complete: dict[type, Callable[[Any, str | None, bool], str]] = {}
_newer: dict[type, Callable[[Any, str | None, bool], str]] = {}
_prefixes: set[str] = set()
_functions_now: ContextVar[Mapping[type, FunctionLines]] = ContextVar("functions_now", default=MappingProxyType({}))


# ------------------------------------------------------------------------------- registration


def register_function(cls: type[Node], lines: FunctionLines) -> None:
    """Print functions of a class by `lines(func, name)`, which gives the lines of its definition."""
    _functions[cls] = lines


def register_text(cls: type[Node], text: Callable[[Any], str]) -> None:
    """Print nodes of a class, each by itself, by `text(node)`."""
    _texts[cls] = text


def register_complete(cls: type[Node], write: Callable[[Any, str | None, bool], str]) -> None:
    """Print nodes of a class with all that stands around them, on request, by `write(node, name, sugar)`."""
    _complete[cls] = write


def register_newer(cls: type[Node], write: Callable[[Any, str | None, bool], str]) -> None:
    """Print nodes of a class for readers of newer names, on request, by `write(node, name, sugar)`."""
    _newer[cls] = write


@contextmanager
def printing_functions(cls: type[Node], lines: FunctionLines) -> Iterator[None]:
    """Print functions of a class by `lines` while the block runs, in this thread."""
    token = _functions_now.set({**_functions_now.get(), cls: lines})
    try:
        yield
    finally:
        _functions_now.reset(token)


def register_value(cls: type, text: Callable[[Any], str]) -> None:
    """Print objects of a class that are attributes, or parts of them, by `text(value)`."""
    _values[cls] = text


def reserve(prefix: str) -> None:
    """Keep printed names from hiding a dialect's prefix."""
    _prefixes.add(prefix)


def release(prefix: str) -> None:
    """Let printed names be a prefix that was reserved."""
    _prefixes.discard(prefix)


def _rule(rules: dict[type, R], cls: type) -> R | None:
    return next((rules[base] for base in cls.__mro__ if base in rules), None)


# ------------------------------------------------------------------------------------- texts


def script(node: Any, name: str | None = None) -> str:
    """The text of a function, module, or another node that its dialect prints.
    Raises IRError for anything else."""
    cls = type(node)
    lines = _rule(_functions, cls)
    if lines is not None:
        return "\n".join(lines(node, name or str(node.attrs.get("global_symbol", "main"))))
    text = _rule(_texts, cls)
    if text is None:
        raise IRError(f"cannot print a {cls.__name__}: no printer is registered for it")
    return text(node)


def module_text(module: Any) -> str:
    """The text of an `IRModule`."""
    out = Lines()
    out.line("@I.ir_module")
    out.line("class Module:")
    with out.indented():
        if module.attrs:
            out.line(f"I.module_attrs({value_text(dict(module.attrs))})")
        if module.global_infos:
            out.line(f"I.module_global_infos({value_text(module.global_infos)})")
        for position, (name, func) in enumerate(module.items()):
            if position or module.attrs or module.global_infos:
                out.line("")
            lines = _rule({**_functions, **_functions_now.get()}, type(func))
            if lines is None:
                raise IRError(f"cannot print a {type(func).__name__}: no printer is registered for it")
            for line in lines(func, name.name_hint):
                out.line(line)
        if not module.functions:
            out.line("pass")
    return "\n".join(line.rstrip() for line in out.lines)


def value_text(value: Any, of: Callable[[Any], str | None] | None = None) -> str:
    """An attribute or annotation value.
    `of` prints what it knows, with the names at hand, and None for the rest."""
    match value:
        case dict():
            return "{" + ", ".join(f"{quote(str(k))}: {value_text(v, of)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(value_text(v, of) for v in value) + "]"
        case tuple():
            inner = ", ".join(value_text(v, of) for v in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case str():
            return quote(value)
        case bool() | int() | None:
            return repr(value)
        case float():
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        case GlobalVar():
            return quote(f"@{value.name_hint}")
    found = None if of is None else of(value)
    if found is not None:
        return found
    rule = _rule(_values, type(value))
    return quote(str(value)) if rule is None else rule(value)


# --------------------------------------------------------------------- beside the text

_kept: ContextVar[dict[str, Any] | None] = ContextVar("kept", default=None)


@contextmanager
def keeping() -> Iterator[dict[str, Any]]:
    """Let the texts printed inside leave out values that are too large, such as an array.
    Yields what they left out."""
    kept: dict[str, Any] = {}
    token = _kept.set(kept)
    try:
        yield kept
    finally:
        _kept.reset(token)


def keep(value: Any) -> str | None:
    """Keep `value` beside the text.
    Returns the expression that stands for it; None if nothing is kept."""
    kept = _kept.get()
    if kept is None:
        return None
    name = next((name for name, other in kept.items() if other is value), None)
    if name is None:
        name = str(len(kept))
        kept[name] = value
    return f"{KEPT}[{quote(name)}]"


_metadata: ContextVar[dict[str, list[Any]] | None] = ContextVar("metadata", default=None)
_metadata_writer: list[Callable[[dict[str, list[Any]]], str]] = []
_LEFT_OUT = "# Metadata omitted. Use show_meta=True in script() method to show it."


def register_metadata_writer(write: Callable[[dict[str, list[Any]]], str]) -> None:
    """Write what texts leave out (`leave_out`), by the name of its class, as the line before a text."""
    _metadata_writer[:] = [write]


def leave_out(kind: str, value: Any) -> str:
    """Return the expression for a value that stands beside the text.
    It stands in the metadata, under the name of its class."""
    held = _metadata.get()
    if held is None:
        return f"metadata[{quote(kind)}][...]"
    items = held.setdefault(kind, [])
    position = next((index for index, item in enumerate(items) if item is value), len(items))
    if position == len(items):
        items.append(value)
    return f"metadata[{quote(kind)}][{position}]"


def printed(
    node: Any,
    name: str | None = None,
    show_meta: bool = False,
    indent_spaces: int = 4,
    options: TextOptions | None = None,
) -> str:
    """The text of a function, module or another node.

    `name`: what a function is called there. `show_meta`: whether large constants stand before the text, so that it
    is complete; else a comment says that they were left out.
    """
    held: dict[str, list[Any]] = {}
    sugar = not options or options.get("syntax_sugar") is not False
    version = tvm_version(options)
    asked = options is not None and (options.get("verbose_expr") or not sugar or version is not None)
    whole = _rule(_newer, type(node)) if version == "0.27" else _rule(_complete, type(node)) if asked else None
    token = _metadata.set(held)
    try:
        found = script(node, name) if whole is None else whole(node, name, sugar)
    finally:
        _metadata.reset(token)
    if indent_spaces != 4:
        found = _INDENT.sub(lambda spaces: " " * (len(spaces[0]) // 4 * indent_spaces), found)
    if options:
        marked = [*(options.get("obj_to_underline") or ())]
        marked += [path.follow(node) for path in options.get("path_to_underline") or ()]
        nodes = {id(item): item for item in marked if isinstance(item, Node)}
        notes = [(item, note) for item, note in (options.get("obj_to_annotate") or {}).items()]
        notes += [(path.follow(node), note) for path, note in (options.get("path_to_annotate") or {}).items()]
        shown = [(script(item), note) for item, note in notes if isinstance(item, Node)]
        found = arranged(found, options, list(map(script, nodes.values())), shown)
    if not held:
        return found
    return f"{_metadata_writer[0](held)}\n{found}" if show_meta else f"{found}\n\n{_LEFT_OUT}"


# ------------------------------------------------------------------------- parts of texts


def quote(text: str) -> str:
    """A string literal."""
    return json.dumps(text, ensure_ascii=False)


# ------------------------------------------------------------------------- lines and names


class Lines:
    """Lines of text, indented."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._depth += 1
        yield
        self._depth -= 1


class Names:
    """One name for each symbol, a valid Python identifier, in order of first use.

    `anonymous` names say only the order (v0, b0, ...), so that texts of renamed functions are equal.
    """

    def __init__(self, anonymous: bool = False) -> None:
        self.anonymous = anonymous
        self._names: dict[Symbol, str] = {}
        self._taken = {*_RESERVED, *_prefixes}
        self._next: dict[str, int] = {}

    def of(self, node: Symbol) -> str:
        """The name of a symbol, such as a variable or a buffer."""
        name = self._names.get(node)
        if name is None:
            hint = node.LETTER if self.anonymous else node.hint()
            name = self._names[node] = self.unique(hint)
        return name

    def set(self, node: Symbol, text: str) -> None:
        """Have `node` printed as `text`, such as "A.data"."""
        self._names[node] = text

    def knows(self, node: Symbol) -> bool:
        return node in self._names

    def used(self) -> list[Symbol]:
        """The symbols that have a name, in order of first use."""
        return list(self._names)

    def mark(self) -> tuple[frozenset[str], dict[str, int]]:
        """Which names are taken now, for `back_to`."""
        return frozenset(self._taken), dict(self._next)

    def back_to(self, mark: tuple[frozenset[str], dict[str, int]]) -> None:
        """Free the names taken since `mark`: what has them is out of scope."""
        self._taken, self._next = {*mark[0]}, dict(mark[1])

    def unique(self, hint: str) -> str:
        """`hint` made an identifier no other thing has."""
        base = _INVALID.sub("_", hint) or "v"
        if base[0].isdigit() or keyword.iskeyword(base):
            base = f"v_{base}"
        name, count = base, self._next.get(base, 0)
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._next[base] = count
        self._taken.add(name)
        return name
