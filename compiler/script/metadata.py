"""Metadata beside texts of other versions: `metadata = tvm.ir.load_json("...")`.

Two forms of JSON are read. The older one has "root" and "nodes", each with text for its fields, and arrays in
"b64ndarrays". The newer one has "root_index" and "nodes", each with "type" and "data". In both, the root maps names of
classes to lists of nodes. A dialect registers how its classes' nodes are read (`register_metadata`).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.errors import IRError
from compiler.ir.text import register_metadata_writer
from compiler.script import dialect

Array = npt.NDArray[Any]
_MAGIC = 0xDD5E40F096B4A13F
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_CODE_OF: dict[str, tuple[int, int]] = {
    "bool": (1, 1), "bfloat16": (4, 16),
    **{f"{kind}{bits}": (code, bits) for code, kind in ((0, "int"), (1, "uint")) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
}  # fmt: skip
_readers: dict[str, Callable[[Array, str], Any]] = {}


def register_metadata(name: str, made: Callable[[Array, str], Any]) -> None:
    """Read nodes of the class `name` as `made(array, dtype)`, from the one array that they hold."""
    _readers[name] = made


def read_metadata(text: str) -> dict[str, list[Any]]:
    """The nodes by name of their class; None for classes that nothing was registered for.

    Raises IRError for any other text.
    """
    for name in set(dialect.prefixes().values()):
        dialect.find(name)
    try:
        saved = json.loads(text)
        return _newer(saved) if "root_index" in saved else _older(saved)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, struct.error) as error:
        raise IRError(f"the metadata of this text cannot be read: {error}") from None


def _older(saved: Any) -> dict[str, list[Any]]:
    nodes, arrays = saved["nodes"], saved.get("b64ndarrays", [])
    root = nodes[int(saved["root"])]
    found: dict[str, list[Any]] = {}
    for name, index in zip(root.get("keys", ()), root.get("data", ())):
        reader = _readers.get(name)
        items = [nodes[int(item)]["attrs"] for item in nodes[int(index)].get("data", ())]
        found[name] = [None if reader is None else reader(*_array(arrays[int(item["data"])])) for item in items]
    return found


def _newer(saved: Any) -> dict[str, list[Any]]:
    nodes = saved["nodes"]
    entries: Sequence[int] = nodes[saved["root_index"]]["data"]
    found: dict[str, list[Any]] = {}
    for key, index in zip(entries[::2], entries[1::2]):
        name = nodes[key]["data"]
        reader = _readers.get(name)
        items = [nodes[item]["data"] for item in nodes[index]["data"]]
        found[name] = [None if reader is None else reader(*_array(_held(nodes, item))) for item in items]
    return found


def _held(nodes: Sequence[Any], item: Any) -> str:
    """The array of a node, which stands in its field "value" or "data"."""
    text = nodes[item["value"] if "value" in item else item["data"]]["data"]
    if not isinstance(text, str):
        raise ValueError("a constant holds no array")
    return text


def _array(text: str) -> tuple[Array, str]:
    """The elements of a saved array, and their type."""
    data = base64.b64decode(text)
    magic, _, _, _, ndim, code, bits, lanes = struct.unpack_from("<QQiiiBBH", data)
    if magic != _MAGIC or lanes != 1 or code not in _CODES:
        raise ValueError("this is no saved array of scalars")
    dtype = "bool" if (code, bits) in ((1, 1), (6, 8)) else f"{_CODES[code]}{bits}"
    offset = struct.calcsize("<QQiiiBBH")
    shape = struct.unpack_from(f"<{ndim}q", data, offset)
    offset += 8 * ndim
    (size,) = struct.unpack_from("<q", data, offset)
    storage = {"bfloat16": "uint16"}.get(dtype, dtype)
    elements = np.frombuffer(data, storage, offset=offset + 8, count=size // np.dtype(storage).itemsize)
    return elements.reshape(shape), dtype


def write_metadata(held: dict[str, list[Any]]) -> str:
    """Return arrays by the name of their class as a line that `read_metadata` reads, in the older form."""
    nodes: list[dict[str, Any]] = [{"type_key": ""}, {}]
    arrays: list[str] = []
    lists: list[int] = []
    for kind, items in held.items():
        lists.append(len(nodes))
        nodes.append({"type_key": "Array", "data": [len(nodes) + 1 + index for index in range(len(items))]})
        for item in items:
            nodes.append({"type_key": kind, "attrs": {"data": str(len(arrays)), "span": "0", "struct_info_": "0"}})
            arrays.append(_array_text(np.asarray(item), item.dtype))
    nodes[1] = {"type_key": "Map", "keys": list(held), "data": lists}
    saved = json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": arrays, "attrs": {"tvm_version": "0.20.0"}}, indent=2)
    escaped = saved.replace("\\", "\\\\").replace('"', '\\"')
    return f'metadata = tvm.ir.load_json("""{escaped}""")'


def _array_text(array: Array, dtype: str) -> str:
    code, bits = _CODE_OF.get(dtype, (None, 0))
    if code is None:
        raise IRError(f"an array of {dtype} cannot stand beside a text")
    head = struct.pack("<QQiiiBBH", _MAGIC, 0, 1, 0, array.ndim, code, bits, 1)
    shape = struct.pack(f"<{array.ndim}q", *array.shape)
    raw = np.ascontiguousarray(array).tobytes()
    return base64.b64encode(head + shape + struct.pack("<q", len(raw)) + raw).decode()


register_metadata_writer(write_metadata)
