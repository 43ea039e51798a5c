"""Names for printed text: valid Python identifiers, each used once."""

from __future__ import annotations

import keyword
import re

from compiler.tir import nodes as n

_RESERVED = frozenset({"T", "I", "R", "range", "True", "False", "None", "Module"})
_INVALID = re.compile(r"\W")


class Names:
    """One name for each variable and buffer, in order of first use.

    `anonymous` names say only the order (v0, b0, ...), so that texts of renamed functions are equal.
    """

    def __init__(self, anonymous: bool = False) -> None:
        self._anonymous = anonymous
        self._names: dict[object, str] = {}
        self._taken: set[str] = set(_RESERVED)
        self._next: dict[str, int] = {}

    def of(self, node: n.Var | n.Buffer) -> str:
        """The name of a variable or a buffer."""
        name = self._names.get(node)
        if name is None:
            name = self._names[node] = self._fresh(node)
        return name

    def set(self, node: n.Var, text: str) -> None:
        """Have `node` printed as `text`, such as "A.data"."""
        self._names[node] = text

    def knows(self, node: n.Var | n.Buffer) -> bool:
        return node in self._names

    def block(self, name: str) -> str:
        return self.unique("block") if self._anonymous else name

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

    def _fresh(self, node: n.Var | n.Buffer) -> str:
        if self._anonymous:
            return self.unique("b" if isinstance(node, n.Buffer) else "v")
        return self.unique(node.name)
