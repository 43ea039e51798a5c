"""Names derived from what a measurement was made with."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any


def fingerprint_digest(fingerprint: Mapping[str, Any]) -> str:
    """sha256 (hex) of the fingerprint, whatever the order of its keys."""
    text = json.dumps(fingerprint, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def toolchain_key(toolchain: Mapping[str, str]) -> str:
    """The part of a toolchain that decides what machine code a trace becomes.

    A patch release changes no generated code: `{"tunefarm": "0.1.3", "llvm": "22.1.0", "python": …}` gives
    `llvm-22,tunefarm-0.1`. A toolchain with neither name gives `unknown`.
    """
    parts = []
    if "llvm" in toolchain:
        parts.append(f"llvm-{toolchain['llvm'].split('.')[0]}")
    if "tunefarm" in toolchain:
        parts.append("tunefarm-" + ".".join(toolchain["tunefarm"].split(".")[:2]))
    return ",".join(parts) or "unknown"


def candidate_digest(trace: str) -> str:
    """The name of a candidate in records; equal traces have equal digests."""
    return hashlib.sha256(trace.encode()).hexdigest()[:32]


FINGERPRINT_TEXTS = ("cpu_model", "gpu", "driver", "kernel", "governor")


def fingerprint_columns(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a fingerprint that are columns of devices: text, "" if unknown, and lists."""
    lists = {"cpu_features": fingerprint.get("features"), "caches": fingerprint.get("caches")}
    return {
        **{name: str(fingerprint.get(name) or "") for name in FINGERPRINT_TEXTS},
        **{name: list(value) if isinstance(value, list | tuple) else [] for name, value in lists.items()},
    }


def workload_family(function: str) -> str:
    """Return a key that workloads with similar configs share.
    It has the kinds of axes of each block of a function's script, in order, and the dtypes of its buffers. A matmul
    of float32 gives `SSR:float32`, whatever its extents and names. "" without blocks."""
    blocks = []
    for body in function.split("T.block(")[1:]:
        axes = re.findall(r'T\.axis\.(?:remap\("([SR]+)"|(spatial|reduce)\()', body)
        blocks.append("".join(letters or kind[0].upper() for letters, kind in axes))
    dtypes = sorted(set(re.findall(r'T\.Buffer\(\([^()]*\), "(\w+)"', function)))
    return f"{','.join(blocks)}:{','.join(dtypes)}" if blocks else ""
