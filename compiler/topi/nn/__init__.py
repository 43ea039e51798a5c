"""Operators of neural networks."""

from compiler.topi.elemwise import sigmoid, tanh
from compiler.topi.matrix import batch_matmul, dense, matmul
from compiler.topi.nn.activation import (
    bias_add,
    elu,
    gelu,
    gelu_tanh,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    prelu,
    relu,
    relu6,
    scale_shift_nchw,
    scale_shift_nhwc,
    selu,
    silu,
    softplus,
)
from compiler.topi.nn.adaptive_pool import adaptive_pool, adaptive_pool1d, adaptive_pool3d
from compiler.topi.nn.attention import attention
from compiler.topi.nn.conv import (
    conv,
    conv1d,
    conv1d_ncw,
    conv1d_nwc,
    conv2d,
    conv2d_hwcn,
    conv2d_nchw,
    conv2d_nhwc,
    conv3d_ncdhw,
    conv3d_ndhwc,
    depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc,
    group_conv1d_ncw,
    group_conv2d_nchw,
    group_conv2d_nhwc,
)
from compiler.topi.nn.conv_transpose import (
    conv1d_transpose_ncw,
    conv2d_transpose_nchw,
    conv3d_transpose_ncdhw,
    conv_transpose,
    group_conv1d_transpose_ncw,
    group_conv2d_transpose_nchw,
    group_conv3d_transpose_ncdhw,
)
from compiler.topi.nn.deformable import deformable_conv2d_nchw
from compiler.topi.nn.loss import cross_entropy_with_logits, nll_loss, nll_loss_backward
from compiler.topi.nn.norm import (
    batch_norm,
    fast_softmax,
    group_norm,
    instance_norm,
    l2_normalize,
    layer_norm,
    log_softmax,
    lrn,
    rms_norm,
    softmax,
)
from compiler.topi.nn.pad import circular_pad, mirror_pad, pad, reflect_pad, replicate_pad
from compiler.topi.nn.pool import global_pool, pool1d, pool2d, pool3d
from compiler.topi.nn.pool_backward import adaptive_avg_pool_backward, avg_pool_backward, max_pool_backward
from compiler.topi.nn.quantize import dequantize, quantize
from compiler.topi.nn.rnn import gru, lstm, rnn
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
    "adaptive_avg_pool_backward", "adaptive_pool", "adaptive_pool1d", "adaptive_pool3d", "attention",
    "avg_pool_backward", "batch_matmul", "batch_norm", "batch_to_space_nd", "bias_add", "circular_pad", "conv",
    "conv1d", "conv1d_ncw", "conv1d_nwc", "conv1d_transpose_ncw", "conv2d", "conv2d_hwcn", "conv2d_nchw", "conv2d_nhwc",
    "conv2d_transpose_nchw", "conv3d_ncdhw", "conv3d_ndhwc", "conv3d_transpose_ncdhw", "conv_transpose",
    "cross_entropy_with_logits", "deformable_conv2d_nchw", "dense", "depth_to_space", "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc", "dequantize", "dilate", "elu", "fast_softmax", "flatten", "gelu", "gelu_tanh",
    "global_pool", "group_conv1d_ncw", "group_conv1d_transpose_ncw", "group_conv2d_nchw", "group_conv2d_nhwc",
    "group_conv2d_transpose_nchw", "group_conv3d_transpose_ncdhw", "group_norm", "gru", "hard_sigmoid", "hard_swish",
    "instance_norm", "l2_normalize", "layer_norm", "leaky_relu", "log_softmax", "lrn", "lstm", "matmul",
    "max_pool_backward", "mirror_pad", "nll_loss", "nll_loss_backward", "pad", "pixel_shuffle", "pool1d", "pool2d",
    "pool3d", "prelu", "quantize", "reflect_pad", "relu", "relu6", "replicate_pad", "rms_norm", "rnn",
    "scale_shift_nchw", "scale_shift_nhwc", "selu", "sigmoid", "silu", "softmax", "softplus", "space_to_batch_nd",
    "space_to_depth", "tanh", "upsampling",
]  # fmt: skip
