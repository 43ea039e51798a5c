"""Make `tests/data/tvm_names.json` of what `collect.py` wrote: `python -m tests.kit.tvm_names.merge OLDER NEWER`.

The newer version moved names: `tirx` and `s_tir` hold what `tir` held. A name that moved stands once, under the older
path, with both versions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.kit.places import TESTS

DATA = TESTS / "data" / "tvm_names.json"
MOVED = [
    ("s_tir.meta_schedule", "meta_schedule"),
    ("s_tir.dlight", "dlight"),
    ("tirx.script.builder", "script.ir_builder.tir"),
    ("tirx.script.parser", "script.parser.tir"),
    ("tirx.script", "script.tir"),
    ("s_tir.sblock_", "tir.block_"),
    ("s_tir", "tir"),
    ("tirx", "tir"),
]
"""Where a path of the newer version stood in the older one."""


def older_path(path: str) -> str:
    for new, old in MOVED:
        if path == new or path.startswith(new if new.endswith("_") else f"{new}."):
            return old + path.removeprefix(new)
    return path


def merged(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """Every name once: those of the older version, then what is only in the newer one."""
    names: dict[str, dict[str, Any]] = {}
    visible = {f"{module}.{name}" for module, inside in older["modules"].items() for name in inside}
    for path, entry in older["objects"].items():
        names[path] = {"in": [older["version"]], **entry}
    for path, entry in newer["objects"].items():
        old = older_path(path)
        if old in names:
            names[old]["in"].append(newer["version"])
        elif old not in visible:
            names[old if old.startswith("dlight.") else path] = {"in": [newer["version"]], **entry}
    return {
        "versions": [older["version"], newer["version"]],
        "names": {path: names[path] for path in sorted(names)},
        "modules": sorted({*older["modules"], *older["files"]}),
    }


def written(data: dict[str, Any]) -> str:
    """JSON with a name a line, so that a change shows as one."""
    rows = ",\n".join(f"  {json.dumps(path)}: {json.dumps(entry)}" for path, entry in data["names"].items())
    modules = json.dumps(" ".join(data["modules"]))
    return f'{{\n "versions": {json.dumps(data["versions"])},\n "modules": {modules},\n "names": {{\n{rows}\n }}\n}}\n'


if __name__ == "__main__":
    both = [json.loads(Path(file).read_text()) for file in sys.argv[1:3]]
    DATA.write_text(written(merged(*both)))
