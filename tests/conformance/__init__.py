"""The ONNX node suite, run through `tunefarm.contrib.onnx_backend`."""
