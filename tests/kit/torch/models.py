"""The models that are tried whole: a member of each family, by a name that says which kind it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tests.kit.torch.language import MODELS, OF_ONE_SIZE
from tests.kit.torch.vision import NAMES, vision_model


@dataclass(frozen=True)
class Model:
    """A model, its inputs, which sizes may change, and other inputs for it."""

    module: Any
    inputs: tuple[Any, ...]
    dynamic: Any = None
    others: tuple[tuple[Any, ...], ...] = ()


def model_names() -> list[str]:
    """Every model that is tried; "llama[n]" is llama with sequences of any length."""
    symbolic = [f"{name}[n]" for name in MODELS if name not in OF_ONE_SIZE]
    return [*NAMES, *MODELS, *symbolic]


def torch_model(name: str) -> Model:
    """A model by its name, in evaluation mode."""
    if name in NAMES:
        return Model(*vision_model(name))
    family, _, symbolic = name.partition("[")
    example = MODELS[family](bool(symbolic))
    if example.dynamic is None:
        return Model(example.model, (example.input,))
    sizes = ({example.dynamic: torch.export.Dim("n", min=2, max=64)},)
    shorter = example.input.narrow(example.dynamic, 0, 5)
    return Model(example.model, (example.input,), sizes, ((shorter,),))
