"""ONNX models; importing this needs onnx (`pip install 'tunefarm[onnx]'`)."""

from compiler.frontend.onnx.from_onnx import from_onnx
from compiler.frontend.params import detach_params

__all__ = ["detach_params", "from_onnx"]
