"""Operators as te definitions: what is computed, not how it is scheduled."""

from compiler.topi import nn
from compiler.topi.conv import conv2d_nchw, pad
from compiler.topi.matrix import batch_matmul, dense, matmul
from compiler.topi.nn import relu, softmax

__all__ = ["batch_matmul", "conv2d_nchw", "dense", "matmul", "nn", "pad", "relu", "softmax"]
