"""Models of other programs. They become graphs of relax, which `relax.build` compiles."""

from typing import NoReturn

_INSTEAD = {
    "from_onnx": "relax.frontend.onnx.from_onnx", "from_pytorch": "relax.frontend.torch.from_exported_program",
}  # fmt: skip
_OTHERS = ("from_keras", "from_tensorflow", "from_tflite", "from_mxnet", "from_caffe", "from_coreml", "from_darknet",
           "from_paddle", "from_oneflow")  # fmt: skip

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    if name in _INSTEAD:
        raise AttributeError(f"relay.frontend.{name} is not carried over; use {_INSTEAD[name]}")
    if name in _OTHERS:
        raise AttributeError(f"relay.frontend.{name} is not carried over; export the model to ONNX, then "
                             "relax.frontend.onnx.from_onnx")  # fmt: skip
    raise AttributeError(f"relay.frontend has no {name!r}")
