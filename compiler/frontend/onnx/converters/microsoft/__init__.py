"""Operators of the domain com.microsoft.

onnxruntime's optimiser and quantiser replace several others by them.
"""

from compiler.frontend.onnx.converters.microsoft import attention as attention
from compiler.frontend.onnx.converters.microsoft import fused as fused
from compiler.frontend.onnx.converters.microsoft import integers as integers
from compiler.frontend.onnx.converters.microsoft import nbits as nbits
