"""Functions of the runtime that graphs in tests call by name, as Apache TVM's tests do."""

from typing import Any

import numpy as np

from compiler.runtime.core.ndarray import NDArray, numpyasarray
from compiler.runtime.core.registry import register_func

__all__ = ["check_saved_func"]


@register_func("test.vm.move", override=True)
def move(src: Any) -> Any:
    """`src` itself."""
    return src


@register_func("test.vm.add", override=True)
def add(a: NDArray, b: NDArray) -> NDArray:
    """The sum."""
    return numpyasarray(a.numpy() + b.numpy())


@register_func("test.vm.mul", override=True)
def mul(a: NDArray, b: NDArray) -> NDArray:
    """The product."""
    return numpyasarray(a.numpy() * b.numpy())


@register_func("test.vm.equal_zero", override=True)
def equal_zero(a: NDArray) -> NDArray:
    """Whether all elements are 0."""
    return numpyasarray(np.asarray(np.all(a.numpy() == 0)))


@register_func("test.vm.subtract_one", override=True)
def subtract_one(a: NDArray) -> NDArray:
    """`a` - 1."""
    return numpyasarray(a.numpy() - 1)


@register_func("test.vm.identity", override=True)
def identity_packed(a: NDArray, b: NDArray) -> None:
    """Writes `a` to `b`."""
    b[:] = a


@register_func("test.vm.tile", override=True)
def tile_packed(a: NDArray, b: NDArray) -> None:
    """Writes `a`, twice side by side, to `b`."""
    b[:] = numpyasarray(np.tile(a.numpy(), (1, 2)))


@register_func("test.vm.add_scalar", override=True)
def add_scalar(a: Any, b: Any) -> Any:
    """The sum of two scalars."""
    return a + b


@register_func("test.vm.get_device_id", override=True)
def get_device_id(device: Any) -> int:
    """The number of a device."""
    return int(device.device_id)


@register_func("test.vm.check_if_defined", override=True)
def check_if_defined(obj: Any) -> bool:
    """Whether something was given."""
    return obj is not None


def check_saved_func(vm: Any, func_name: str, *inputs: Any) -> Any:
    """The result of `func_name`, after checking that a saved function with these inputs gives the same.
    Raises AssertionError."""
    saved_name = f"{func_name}_saved"
    vm.save_function(func_name, saved_name, *inputs)
    result = vm[func_name](*inputs)
    np.testing.assert_allclose(vm[saved_name]().numpy(), result.numpy(), rtol=1e-7, atol=1e-7)
    return result
