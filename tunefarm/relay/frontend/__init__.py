"""Models of other programs.

They become graphs of relax, which `relay.build` and `relax.build` compile.
"""

from typing import NoReturn

from compiler.faces.relay.importing import from_onnx, from_pytorch

_OTHERS = ("from_keras", "from_tensorflow", "from_tflite", "from_mxnet", "from_caffe", "from_coreml", "from_darknet",
           "from_paddle", "from_oneflow")  # fmt: skip

__all__ = ["from_onnx", "from_pytorch"]


def __getattr__(name: str) -> NoReturn:
    if name in _OTHERS:
        raise AttributeError(f"relay.frontend.{name} is not carried over; export the model to ONNX, then from_onnx")
    raise AttributeError(f"relay.frontend has no {name!r}")
