"""Help around the compiler: linkers."""

from tunefarm.contrib import cc as cc

__all__ = ["cc"]
