"""The base of all errors."""

from compiler.errors import TunefarmError as TVMError

__all__ = ["TVMError", "py_str"]


def py_str(x: bytes) -> str:
    """A text of its bytes."""
    return x.decode("utf-8")
