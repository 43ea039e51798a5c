"""If, Loop and Scan."""

from __future__ import annotations

from compiler.frontend.onnx.importer import Control

CONTROL: dict[str, Control] = {}
