"""Operators of object detection."""

from compiler.topi.vision.multibox import multibox_prior, multibox_transform_loc
from compiler.topi.vision.nms import all_class_non_max_suppression, get_valid_counts, non_max_suppression
from compiler.topi.vision.roi import reorg, roi_align_nchw, roi_align_nhwc, roi_pool_nchw

__all__ = [
    "all_class_non_max_suppression", "get_valid_counts", "multibox_prior", "multibox_transform_loc",
    "non_max_suppression", "reorg", "roi_align_nchw", "roi_align_nhwc", "roi_pool_nchw",
]  # fmt: skip
