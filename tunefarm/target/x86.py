"""The widest vectors of x86 CPUs, as schedules ask for them."""

from __future__ import annotations

from compiler.target.target import Target
from tunefarm.target.codegen import target_has_features

__all__ = ["get_simd_32bit_lanes", "target_has_features"]


def get_simd_32bit_lanes() -> int:
    """Return how many 32-bit numbers the widest vectors of the current target hold: 16, 8 or 4.

    Raises TargetError outside of a `with target:`.
    """
    target = Target.current(allow_none=False)
    assert target is not None
    features = target.features
    if "avx512bw" in features or "avx512f" in features:
        return 16
    return 8 if "avx2" in features else 4
