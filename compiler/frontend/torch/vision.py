"""torchvision's models by name, exported to files."""

from __future__ import annotations

import inspect
import os
import tempfile
from pathlib import Path
from typing import Any

import torch

from compiler.errors import ArgumentError

SIZE = 224
"""Height and width of the image that a model takes, unless it needs another size."""
_SIZES = {"inception_v3": 299}
_SEED = 0


def export_vision(name: str, weights: str, path: Path) -> None:
    """Write the torchvision model `name` to a file, as a program of torch.export for one image.

    `weights` is a name of torchvision's ("DEFAULT", "IMAGENET1K_V1"), whose file torchvision downloads; "" gives random
    weights, the same each time. Raises ArgumentError for what torchvision does not have, or cannot export.
    """
    vision = _torchvision()
    if name not in vision.models.list_models():
        known = [each for each in vision.models.list_models() if each[:3] == name[:3]]
        raise ArgumentError(f"torchvision has no model {name!r}", hint=f"it has {', '.join(known)}" if known else None)
    torch.manual_seed(_SEED)
    size = _SIZES.get(name, SIZE)
    try:
        parameters = inspect.signature(vision.models.get_model_builder(name)).parameters
        options: dict[str, Any] = {"weights_backbone": None} if "weights_backbone" in parameters else {}
        model = vision.models.get_model(name, weights=weights or None, **options).eval()
        program = torch.export.export(model, (torch.randn(1, 3, size, size),))
    except Exception as error:  # of whatever class torch's parts raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        hint = "export it in Python, with inputs as it takes them: torch.export.save(…, 'model.pt2')"
        raise ArgumentError(f"torchvision:{name} was not exported: {reason}", hint=hint) from None
    _save(program, path)


def _save(program: Any, path: Path) -> None:
    """The file, whole or not at all, also where another process writes the same one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder, path.name)
            torch.export.save(program, made)
            os.replace(made, path)
    except OSError as error:
        raise ArgumentError(f"cannot write {path}: {error.strerror}", hint="set XDG_CACHE_HOME to a folder") from None


def _torchvision() -> Any:
    """Import torchvision, also a build for CUDA beside torch for CPUs.
    Its own operators do not load then. No model exported here needs them, but the import asks for two."""
    try:
        try:
            import torchvision
        except RuntimeError:
            library = torch.library.Library("torchvision", "FRAGMENT")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _KEPT.append(library)
            import torchvision
    except (ImportError, RuntimeError) as error:
        hint = "install the torchvision that belongs to this torch: pip install 'tunefarm[torch]'"
        raise ArgumentError(f"torchvision cannot be used: {str(error).splitlines()[0]}", hint=hint) from None
    return torchvision


_KEPT: list[Any] = []
"""Libraries of operators, which end with the object."""


def torchvision_version() -> str:
    """The version of torchvision, which names the folder of exported models."""
    return str(_torchvision().__version__)
