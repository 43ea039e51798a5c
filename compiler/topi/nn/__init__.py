"""Operators of neural networks."""

from compiler.topi.elemwise import sigmoid, tanh
from compiler.topi.matrix import batch_matmul, dense, matmul
from compiler.topi.nn.activation import bias_add, gelu, leaky_relu, prelu, relu, scale_shift_nchw, scale_shift_nhwc
from compiler.topi.nn.conv import (
    conv1d,
    conv2d,
    conv2d_nchw,
    conv2d_nhwc,
    depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc,
    group_conv2d_nchw,
)
from compiler.topi.nn.norm import batch_norm, layer_norm, log_softmax, rms_norm, softmax
from compiler.topi.nn.pad import circular_pad, mirror_pad, pad, reflect_pad, replicate_pad
from compiler.topi.nn.pool import adaptive_pool, global_pool, pool1d, pool2d
from compiler.topi.nn.space import (
    batch_to_space_nd,
    depth_to_space,
    dilate,
    flatten,
    pixel_shuffle,
    space_to_batch_nd,
    space_to_depth,
    upsampling,
)

__all__ = [
    "adaptive_pool",
    "batch_matmul",
    "batch_norm",
    "batch_to_space_nd",
    "bias_add",
    "circular_pad",
    "conv1d",
    "conv2d",
    "conv2d_nchw",
    "conv2d_nhwc",
    "dense",
    "depth_to_space",
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc",
    "dilate",
    "flatten",
    "gelu",
    "global_pool",
    "group_conv2d_nchw",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "matmul",
    "mirror_pad",
    "pad",
    "pixel_shuffle",
    "pool1d",
    "pool2d",
    "prelu",
    "reflect_pad",
    "relu",
    "replicate_pad",
    "rms_norm",
    "scale_shift_nchw",
    "scale_shift_nhwc",
    "sigmoid",
    "softmax",
    "space_to_batch_nd",
    "space_to_depth",
    "tanh",
    "upsampling",
]
