"""Schedules for ARM CPUs. They are those of `x86`, which ask the target for its vectors."""

from compiler.topi.schedules.x86 import (
    schedule_adaptive_pool,
    schedule_batch_matmul,
    schedule_conv1d_ncw,
    schedule_conv1d_nwc,
    schedule_conv2d_nchw,
    schedule_conv2d_nhwc,
    schedule_dense,
    schedule_depthwise_conv2d_nchw,
    schedule_depthwise_conv2d_nhwc,
    schedule_group_conv2d_nchw,
    schedule_injective,
    schedule_layer_norm,
    schedule_matmul,
    schedule_pool,
    schedule_reduce,
    schedule_softmax,
)

__all__ = [
    "schedule_adaptive_pool", "schedule_batch_matmul", "schedule_conv1d_ncw", "schedule_conv1d_nwc",
    "schedule_conv2d_nchw", "schedule_conv2d_nhwc", "schedule_dense", "schedule_depthwise_conv2d_nchw",
    "schedule_depthwise_conv2d_nhwc", "schedule_group_conv2d_nchw", "schedule_injective", "schedule_layer_norm",
    "schedule_matmul", "schedule_pool", "schedule_reduce", "schedule_softmax",
]  # fmt: skip
