"""A model of PyTorch compiled by `torch.compile`. Nothing of tunefarm is imported: torch finds the backend.

    pip install 'tunefarm[torch]'
    python examples/torch_compile.py

The first call compiles the model, and keeps the machine code in a folder of the user's, so the next process starts at
once. `options={"trials": 64}` tunes each kernel, `{"api": "http://…"}` asks a web app for configs.
"""

from __future__ import annotations

import logging
import time

import torch

logging.basicConfig(format="%(message)s")
logging.getLogger("tunefarm.torch").setLevel(logging.INFO)


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 10),
    ).eval()
    compiled = torch.compile(model, backend="tunefarm", dynamic=True)
    with torch.no_grad():
        for batch in (2, 3, 8):
            x = torch.randn(batch, 3, 32, 32)
            start = time.perf_counter()
            found = compiled(x)
            print(f"batch {batch}: {time.perf_counter() - start:.3f} s")
            torch.testing.assert_close(found, model(x))


if __name__ == "__main__":
    main()
