"""IR in a file: JSON around TVMScript text, so that reading it runs nothing and old files stay readable."""

from __future__ import annotations

import json
from typing import Any

from compiler.errors import IRError
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.text import script
from compiler.script.entry import from_source

_FORMAT = "tunefarm.ir"
_VERSION = 1
_MAX_BYTES = 64 << 20


def save_json(node: BaseFunc | IRModule) -> str:
    """A function or module as JSON. Spans are not kept. Raises IRError for anything else."""
    if not isinstance(node, BaseFunc | IRModule):
        raise IRError(f"save_json keeps functions and modules, not {type(node).__name__}")
    return json.dumps({"format": _FORMAT, "version": _VERSION, "script": script(node)})


def load_json(text: str) -> BaseFunc | IRModule:
    """What `save_json` made `text` of. Raises IRError for anything else; nothing in it is executed."""
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
    return from_source(found["script"])
