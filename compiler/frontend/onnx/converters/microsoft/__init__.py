"""Operators of the domain com.microsoft: what onnxruntime's optimiser and quantiser put in place of several others."""

from compiler.frontend.onnx.converters.microsoft import attention as attention
from compiler.frontend.onnx.converters.microsoft import fused as fused
from compiler.frontend.onnx.converters.microsoft import integers as integers
from compiler.frontend.onnx.converters.microsoft import nbits as nbits
