"""Functions that are different for each target."""

from compiler.target.generic_func import (
    GenericFunc,
    generic_func,
    get_native_generic_func,
    override_native_generic_func,
)

__all__ = ["GenericFunc", "generic_func", "get_native_generic_func", "override_native_generic_func"]
