"""IR in a file: JSON around TVMScript text, so reading it runs nothing and old files stay readable.

Objects that are too large for a text, such as an array, stand beside it, encoded by their dialect.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compiler.errors import IRError
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.text import KEPT, keeping, script
from compiler.script import dialect
from compiler.script.entry import from_source

_FORMAT = "tunefarm.ir"
_VERSION = 1
_MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class _Codec:
    cls: type
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


_codecs: dict[str, _Codec] = {}


def register_kept(kind: str, cls: type, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
    """Save objects of a class that texts leave out (`compiler.ir.text.keep`).

    `kind` begins with the dialect's name and a dot. `encode` gives JSON data. `decode` makes an equal object of that;
    it raises ValueError for other data.
    """
    _codecs[kind] = _Codec(cls, encode, decode)


def _encoded(value: Any) -> list[Any]:
    for kind, codec in _codecs.items():
        if isinstance(value, codec.cls):
            return [kind, codec.encode(value)]
    raise IRError(f"save_json cannot keep a {type(value).__name__}")


def _decoded(saved: Any) -> dict[str, Any]:
    try:
        for kind, _ in saved.values():
            dialect.find(kind.partition(".")[0])  # which registers how its objects are saved
        return {name: _codecs[kind].decode(data) for name, (kind, data) in saved.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise IRError(f"load_json: the data beside the text cannot be read: {error}") from None


def save_json(node: BaseFunc | IRModule) -> str:
    """A function or module as JSON. Spans are not kept. Raises IRError for anything else."""
    if not isinstance(node, BaseFunc | IRModule):
        raise IRError(f"save_json keeps functions and modules, not {type(node).__name__}")
    with keeping() as kept:
        text = script(node)
    beside = {"kept": {name: _encoded(value) for name, value in kept.items()}} if kept else {}
    return json.dumps({"format": _FORMAT, "version": _VERSION, "script": text, **beside})


def load_json(text: str) -> BaseFunc | IRModule:
    """Return the object that `save_json` wrote as `text`.
    Raises IRError for anything else; nothing in it is executed."""
    if not isinstance(text, str) or len(text) > _MAX_BYTES:
        raise IRError("load_json needs text of at most 64 MiB")
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise IRError(f"load_json: this is no JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != _FORMAT or not isinstance(found.get("script"), str):
        raise IRError("load_json: this JSON is no saved IR", hint="it is made by tvm.ir.save_json")
    if found.get("version") != _VERSION:
        raise IRError(f"load_json reads version {_VERSION}, this is {found.get('version')!r}")
    kept = _decoded(found["kept"]) if "kept" in found else None
    return from_source(found["script"], None if kept is None else {KEPT: kept})
