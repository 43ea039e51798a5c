"""Settings of all templates of this process."""

from tuner.faces.autotvm.dispatch_context import GLOBAL_SCOPE, AutotvmGlobalScope

__all__ = ["GLOBAL_SCOPE", "AutotvmGlobalScope"]
