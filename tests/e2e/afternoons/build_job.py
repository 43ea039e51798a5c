"""The author of a build job: misses, a run, a pinned release, C files: `python -m tests.e2e.afternoons.build_job`."""

import json

from tests.e2e.afternoons.session import Terminal, afternoon

KERNEL = "matmul:32,32,32:float32"
QUICK = """
workloads = ["matmul:32,32,32:float32"]
[run]
sample_ms = 2
samples = 2
max_samples = 2
"""


def spend(at: Terminal, trials: int) -> None:
    at.write("kernels.toml", QUICK)
    at.farm.environ["TUNEFARM_API"] = f"http://127.0.0.1:{at.serve('web', 'web')}"
    missed = at.type(f"build {KERNEL} --require-tuned --json", code=3)
    assert '"config": "untuned"' in missed
    assert f"tunefarm tune {KERNEL} --target" in missed
    at.type(f"tune kernels.toml --trials {trials} --quiet")
    at.type("release create 1 --note first")
    at.type("release approve 1")
    pinned = "build kernels.toml --release 1 --require-tuned"
    key = at.type(f"{pinned} --cache-key")
    built = at.type(f"{pinned} --out build --library kernels --format so --format header --lock build/kernels.lock")
    assert f"{KERNEL}: " in built
    assert "matmul_32_32_32_float32(const float *" in (at.folder / "build" / "kernels.h").read_text()
    assert (at.folder / "build" / "kernels.so").stat().st_size
    at.type(f"{pinned} --locked build/kernels.lock")
    assert at.type(f"{pinned} --cache-key") == key
    for _ in range(2):  # the second one finds the files of the first
        at.workflow("gitlab.yml", TARGET=_target(at), RELEASE="1")
    assert '"config": "hit"' in (at.folder / "report.json").read_text()
    at.write("kernels.toml", QUICK.replace("32,32,32", "16,16,16"))
    changed = at.type("build kernels.toml --locked build/kernels.lock", code=4)
    assert "matmul:16,16,16:float32 is new" in changed


def _target(at: Terminal) -> str:
    """The target that the kernels were tuned for."""
    target: str = json.loads((at.folder / "build" / "kernels.lock").read_text())["target"]
    return target


if __name__ == "__main__":
    afternoon(spend, 20)
