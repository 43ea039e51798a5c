"""ONNX models as graphs: `from_onnx`."""

from compiler.frontend.onnx.from_onnx import from_onnx, import_model

__all__ = ["from_onnx", "import_model"]
