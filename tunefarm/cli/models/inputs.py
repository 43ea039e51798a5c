"""Inputs of a model: files, zeros, or random numbers from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.errors import ArgumentError
from compiler.runtime.core.fill import random_values
from compiler.runtime.vm.signature import Interface, SignatureParameter

AnyArray = npt.NDArray[Any]
MADE = ("random", "zeros")


def parse_pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """NAME=VALUE, each name once. Raises ArgumentError."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ArgumentError(f"{option} {text!r} is not NAME=VALUE")
        if name in found:
            raise ArgumentError(f"{option} gives {name!r} twice")
        found[name] = value
    return found


def parse_sizes(given: Sequence[str]) -> dict[str, int]:
    """NAME=SIZE, for symbolic dimensions. Raises ArgumentError."""
    pairs = parse_pairs(given, "--dim")
    for name, value in pairs.items():
        if not value.isdecimal() or not 0 < int(value) < 1 << 40:
            raise ArgumentError(f"--dim {name}={value}: a size is a whole number from 1")
    return {name: int(value) for name, value in pairs.items()}


def make_inputs(
    interface: Interface, names: Sequence[str], given: Mapping[str, str], sizes: Mapping[str, int], seed: int
) -> dict[str, AnyArray]:
    """An array for each parameter, by the name that the model's file has for it.

    `given`: FILE.npy, "random" or "zeros" by name; the rest are random. Raises ArgumentError for names that are no
    inputs, files that cannot be read, and shapes that are open.
    """
    unknown = given.keys() - set(names)
    if unknown:
        raise ArgumentError(f"the model has no input {min(unknown)!r}", hint=f"inputs: {', '.join(names) or 'none'}")
    found = {}
    for index, (name, param) in enumerate(zip(names, interface.params, strict=True)):
        how = given.get(name, "random")
        if how not in MADE:
            found[name] = _read(name, how)
            continue
        shape, dtype = _shape(name, param, sizes), param.dtype or "float32"
        rng = np.random.Generator(np.random.PCG64([seed & (2**63 - 1), index]))
        found[name] = random_values(shape, dtype, rng) if how == "random" else np.zeros(shape, _storage(dtype))
    return found


def _storage(dtype: str) -> Any:
    return np.float32 if dtype == "bfloat16" else np.dtype(dtype)


def _read(name: str, file: str) -> AnyArray:
    path = Path(file)
    if path.suffix != ".npy":
        raise ArgumentError(f"--input {name}={file}: neither {', '.join(MADE)} nor a file that ends in .npy")
    try:
        found: AnyArray = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        hint = f"--input {name}=random makes one; numpy.save('{path.name}', array) writes one"
        raise ArgumentError(f"--input {name}: there is no file {path}", hint=hint) from None
    except OSError as error:
        raise ArgumentError(f"--input {name}: cannot read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        hint = "numpy.save writes such files; arrays of Python objects are refused"
        raise ArgumentError(f"--input {name}: {path} holds no array: {error}", hint=hint) from None
    return found


def _shape(name: str, param: SignatureParameter, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a parameter, with sizes in place of names."""
    if param.shape is None:
        raise ArgumentError(f"the shape of the input {name!r} is not known", hint=f"--input {name}=FILE.npy")
    open_ = [size for size in param.shape if isinstance(size, str) and size not in sizes]
    if open_:
        raise ArgumentError(
            f"the input {name!r} has the shape ({', '.join(map(str, param.shape))})",
            hint=" ".join(f"--dim {size}=SIZE" for size in dict.fromkeys(open_)) + f", or --input {name}=FILE.npy",
        )
    return tuple(size if isinstance(size, int) else sizes[size] for size in param.shape)
