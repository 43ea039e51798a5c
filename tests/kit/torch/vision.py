"""torchvision's families, the smallest variant of each, with random weights."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

_LIBRARIES: list[Any] = []


def load_torchvision() -> Any:
    """Import torchvision, also a build for CUDA beside torch's for CPUs.

    Such a build's own operators cannot be loaded. Its models need none of them, but importing it asks for two.
    """
    with contextlib.suppress(RuntimeError):
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)
    import torchvision

    return torchvision


NAMES: dict[str, int] = {
    "alexnet": 64, "vgg11": 32, "vgg11_bn": 32, "resnet18": 64, "resnext50_32x4d": 64, "wide_resnet50_2": 64,
    "squeezenet1_1": 64, "densenet121": 64, "inception_v3": 96, "googlenet": 64, "shufflenet_v2_x0_5": 64,
    "mobilenet_v2": 64, "mobilenet_v3_small": 64, "mnasnet0_5": 64, "regnet_x_400mf": 64, "regnet_y_400mf": 64,
    "efficientnet_b0": 64, "efficientnet_v2_s": 64, "convnext_tiny": 64, "vit_b_32": 64, "swin_t": 64, "swin_v2_t": 64,
    "maxvit_t": 224, "fcn_resnet50": 64, "deeplabv3_mobilenet_v3_large": 64, "lraspp_mobilenet_v3_large": 64,
    "r3d_18": 16, "mc3_18": 16, "r2plus1d_18": 16, "s3d": 224, "mvit_v1_b": 224, "swin3d_t": 32, "raft_small": 128,
}  # fmt: skip
"""Families by a member, and the size of the images that it is tried with."""


def vision_model(name: str, size: int = 0) -> tuple[Any, tuple[Any, ...]]:
    """A model in evaluation mode, and inputs for it: images of `size`, or of the size in NAMES."""
    vision = load_torchvision()
    torch.manual_seed(0)
    size = size or NAMES[name]
    options: dict[str, Any] = {"weights": None}
    if name in ("inception_v3", "googlenet"):
        options["init_weights"] = True
    if name.startswith("vit"):
        options["image_size"] = size
    if name.startswith(("fcn", "deeplab", "lraspp")):
        options["weights_backbone"] = None
    model = vision.models.get_model(name, **options).eval()
    _spread(model)
    if name in ("r3d_18", "mc3_18", "r2plus1d_18"):
        return model, (torch.randn(1, 3, 4, size, size),)
    if name == "s3d":
        return model, (torch.randn(1, 3, 14, size, size),)
    if name == "mvit_v1_b":
        return model, (torch.randn(1, 3, 16, size, size),)
    if name == "swin3d_t":
        return model, (torch.randn(1, 3, 4, size, size),)
    if name == "raft_small":
        return model, (torch.randn(1, 3, size, size), torch.randn(1, 3, size, size))
    return model, (torch.randn(1, 3, size, size),)


def _spread(model: Any) -> None:
    """Give normalisations statistics that are not all 0 and 1, and other weights some size, so that mistakes show."""
    for name, weights in model.named_parameters():
        if name.endswith("layer_scale"):  # of ConvNeXt, a millionth
            torch.nn.init.uniform_(weights, 0.1, 0.5)
        elif weights.ndim > 1 and not weights.any():  # the head of ViT
            torch.nn.init.normal_(weights, 0, 0.02)
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.8, 1.2)
