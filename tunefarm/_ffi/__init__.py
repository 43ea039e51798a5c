"""The registry of functions, under the path that older programs import it by."""

from tunefarm._ffi import base, registry
from tunefarm._ffi.registry import get_global_func, register_func

__all__ = ["base", "get_global_func", "register_func", "registry"]
