"""A small decoder written by hand, which generates text token by token.

    python examples/decoder.py

It is trained on nothing: its weights are random, so the text is noise. What it shows is the path: modules, a cache of
keys and values as state, and a machine that is given tokens one at a time.
"""

from __future__ import annotations

import numpy as np

import tunefarm as tvm
from tunefarm import relax
from tunefarm.relax.frontend import nn
from tunefarm.relax.frontend.nn import op, spec

LETTERS = "abcdefghijklmnopqrstuvwxyz .,\n"
WIDTH, HEADS, LAYERS = 32, 4, 2


class Attention(nn.Module):
    def __init__(self) -> None:
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.keys = nn.KVCache(16, [HEADS, WIDTH // HEADS])
        self.values = nn.KVCache(16, [HEADS, WIDTH // HEADS])

    def forward(self, x: nn.Tensor, total: tvm.tir.Var) -> nn.Tensor:
        heads = [HEADS, WIDTH // HEADS]
        query, key, value = (part.reshape(1, *heads) for part in op.split(self.qkv(x), 3, axis=-1))
        self.keys.append(key)
        self.values.append(value)
        seen = [op.unsqueeze(cache.view(total), 0) for cache in (self.keys, self.values)]
        mixed = op.scaled_dot_product_attention(op.unsqueeze(query, 0), *seen)
        return self.out(mixed.reshape(1, WIDTH))


class Layer(nn.Module):
    def __init__(self) -> None:
        self.norm1 = nn.RMSNorm(WIDTH, bias=False)
        self.attention = Attention()
        self.norm2 = nn.RMSNorm(WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: nn.Tensor, total: tvm.tir.Var) -> nn.Tensor:
        x = x + self.attention(self.norm1(x), total)
        return x + self.down(op.silu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self) -> None:
        self.embedding = nn.Embedding(len(LETTERS), WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = nn.RMSNorm(WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, len(LETTERS), bias=False)

    def decode(self, token: nn.Tensor, total: tvm.tir.Var) -> nn.Tensor:
        """The scores of the next letter, given one letter and how many there are with it."""
        x = self.embedding(token)
        for layer in self.layers:
            x = layer(x, total)
        return self.head(self.norm(x))


def weights(parameters: list[tuple[str, nn.Parameter]], seed: int = 0) -> list[np.ndarray]:
    """Random weights: ones for norms, else small numbers."""
    rng = np.random.default_rng(seed)
    return [
        np.ones(param.shape, "float32") if "norm" in name else rng.normal(0, 0.3, param.shape).astype("float32")
        for name, param in parameters
    ]


def generate(prompt: str, count: int) -> str:
    """`prompt` and `count` letters more, each the one with the highest score."""
    methods = {"decode": {"token": spec.Tensor([1], "int64"), "total": int}}
    mod, parameters = Decoder().export_tvm(methods)
    vm = relax.VirtualMachine(relax.build(mod, target="llvm"), tvm.cpu())
    values = weights(parameters)
    state = vm["_initialize_effect"]()
    text = prompt
    for step in range(len(prompt) + count - 1):
        token = np.array([LETTERS.index(text[step])])
        vm.set_input("decode", token, tvm.runtime.ShapeTuple([step + 1]), *state, *values)
        vm.invoke_stateful("decode")
        scores, state = vm.get_outputs("decode")
        if step + 1 == len(text):
            text += LETTERS[int(np.argmax(scores.numpy()))]
    return text


if __name__ == "__main__":
    print(repr(generate("once upon a time", 24)))
