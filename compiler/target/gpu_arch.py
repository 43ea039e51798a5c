"""Names of NVIDIA GPUs' architectures."""

_OWN_FEATURES = {"9.0": "sm_90a"}  # with instructions that later GPUs do not have, and kernels here that use them


def arch_of_version(version: str) -> str:
    """The architecture to build for, by a GPU's compute capability: "sm_80" of "8.0", "sm_90a" of "9.0"."""
    return _OWN_FEATURES.get(version, "sm_" + version.replace(".", ""))


def compute_capability(arch: str | None) -> int:
    """Return the number in an architecture's name: 80 of "sm_80"; 0 where there is none."""
    digits = "".join(c for c in (arch or "").removeprefix("sm_") if c.isdigit())
    return int(digits) if (arch or "").startswith("sm_") and digits else 0
