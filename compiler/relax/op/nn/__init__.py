"""Operators of neural networks."""

from compiler.relax.op.nn.activation import gelu, gelu_tanh, leakyrelu, prelu, relu, relu6, selu, silu, softplus
from compiler.relax.op.nn.attention import attention, attention_bias, attention_var_len
from compiler.relax.op.nn.conv import conv1d, conv1d_transpose, conv2d, conv2d_transpose, conv3d, conv3d_transpose
from compiler.relax.op.nn.loss import cross_entropy_with_logits, nll_loss
from compiler.relax.op.nn.norm import batch_norm, group_norm, instance_norm, layer_norm, log_softmax, rms_norm, softmax
from compiler.relax.op.nn.pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from compiler.relax.op.nn.shape import batch_flatten, dropout, pad, pixel_shuffle

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "attention", "attention_bias",
    "attention_var_len", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_flatten", "batch_norm", "conv1d",
    "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "cross_entropy_with_logits",
    "dropout", "gelu", "gelu_tanh", "group_norm", "instance_norm", "layer_norm", "leakyrelu", "log_softmax",
    "max_pool1d", "max_pool2d", "max_pool3d", "nll_loss", "pad", "pixel_shuffle", "prelu", "relu", "relu6", "rms_norm",
    "selu", "silu", "softmax", "softplus",
]  # fmt: skip
