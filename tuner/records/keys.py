"""Names derived from what a measurement was made with."""

from __future__ import annotations

import hashlib
import json
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
