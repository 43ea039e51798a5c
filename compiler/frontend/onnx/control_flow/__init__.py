"""Control flow: If, Loop and Scan.

A branch that is known, and a loop with few and known steps, are written out. Others become private functions: a branch
is a call of one; a loop is a function that takes a step and calls itself. Functions get the outer values that they use
as arguments.
"""

from __future__ import annotations

from compiler.frontend.onnx.control_flow.branches import branch
from compiler.frontend.onnx.control_flow.loops import loop
from compiler.frontend.onnx.control_flow.scans import scan
from compiler.frontend.onnx.importer import Control

CONTROL: dict[str, Control] = {"If": branch, "Loop": loop, "Scan": scan}
"""The operators that hold graphs."""
