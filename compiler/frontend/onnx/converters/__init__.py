"""Converters of operators, one module for each family. Importing this package fills the table."""

from compiler.frontend.onnx.converters import activation as activation
from compiler.frontend.onnx.converters import cast as cast
from compiler.frontend.onnx.converters import conv as conv
from compiler.frontend.onnx.converters import create as create
from compiler.frontend.onnx.converters import elementwise as elementwise
from compiler.frontend.onnx.converters import indexing as indexing
from compiler.frontend.onnx.converters import integers as integers
from compiler.frontend.onnx.converters import matmul as matmul
from compiler.frontend.onnx.converters import microsoft as microsoft
from compiler.frontend.onnx.converters import ngrams as ngrams
from compiler.frontend.onnx.converters import norm as norm
from compiler.frontend.onnx.converters import pool as pool
from compiler.frontend.onnx.converters import quantize as quantize
from compiler.frontend.onnx.converters import quantized as quantized
from compiler.frontend.onnx.converters import recurrent as recurrent
from compiler.frontend.onnx.converters import reduce as reduce
from compiler.frontend.onnx.converters import refused as refused
from compiler.frontend.onnx.converters import resize as resize
from compiler.frontend.onnx.converters import select as select
from compiler.frontend.onnx.converters import sequence as sequence
from compiler.frontend.onnx.converters import shape as shape
from compiler.frontend.onnx.converters import signal as signal
