"""Models from elsewhere and models written by hand: `frontend.onnx`, `frontend.torch`, `frontend.nn`."""

from compiler.frontend.params import detach_params

__all__ = ["detach_params"]
