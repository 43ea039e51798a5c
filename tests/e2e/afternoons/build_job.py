"""The author of a build job: misses, a run, a pinned release, C files: `python -m tests.e2e.afternoons.build_job`."""

import json

from tests.e2e.afternoons.session import Terminal, afternoon
from tests.kit.cli.farm import until

KERNEL = "matmul:32,32,32:float32"
QUICK = """
workloads = ["matmul:32,32,32:float32"]
[run]
sample_ms = 2
samples = 2
max_samples = 2
"""

MISSING = "softmax:16,32:float32"
OWN = """
import tunefarm as tvm
from tunefarm import te
from tuner.kernels.kernel import FunctionKernel
from tuner.kernels.space import KernelSpace

A = te.placeholder((4096,), name="A")
scaled = te.create_prim_func([A, te.compute((4096,), lambda i: A[i] * 3.0, name="B")])

def make(config):
    sch = tvm.tir.Schedule(scaled)
    _, inner = sch.split(sch.get_loops(sch.get_block("B"))[0], [None, config["LANES"]])
    sch.vectorize(inner)
    return sch.mod["main"]

kernel = FunctionKernel("scaled", make, KernelSpace({"LANES": [4, 8, 16]}), scaled)
run = {"sample_ms": 2, "samples": 2, "max_samples": 2}
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
    _farm_tunes_what_is_missing(at, trials)
    _own_kernel(at, trials)


def _farm_tunes_what_is_missing(at: Terminal, trials: int) -> None:
    """Two boxes of a tracker tune a kernel that nobody tuned, since a build asks for it."""
    tracker = f"127.0.0.1:{at.serve('tracker', 'tracker')}"
    for core, key in enumerate(("cpu", "edge")):
        at.serve(f"box{core}", f"server --tracker {tracker} --name box{core} --cores {core} --key {key}")
    api = f"--api http://127.0.0.1:{at.serve('farm-web', f'web --tracker {tracker}')}"
    until(lambda: at.farm.run("devices", "--tracker", tracker).stdout.count("ready") == 2)
    at.type(f"devices --tracker {tracker}")
    build = f"build {MISSING} {api} --key edge --tracker {tracker}"
    assert f"--key edge --tracker {tracker}" in at.type(f"{build} --require-tuned", code=3)
    # the only device of this key both tunes and checks
    tuned = at.type(f"{build} --require-tuned --check --tune-missing --tune-key edge --tune-trials {trials}")
    assert "of the web app tunes 1 kernel" in tuned
    assert ", output checked, " in tuned
    again = at.type(f"{build} --require-tuned --tune-missing --tune-key edge")
    assert "of the web app tunes" not in again  # it is not missing any more
    assert str(trials) in at.type("runs")


def _own_kernel(at: Terminal, trials: int) -> None:
    """A kernel in Python, built by the name of its file, by its own and by its key."""
    at.write("scaled.py", OWN)
    at.type(f"tune scaled.py --trials {trials} --quiet")
    key = json.loads(at.type("best scaled --json"))["workload_key"]
    words = ("scaled.py:kernel", "scaled", key[:12])
    built = [json.loads(at.type(f"build {word} --json"))[0]["artifact_digest"] for word in words]
    assert len(set(built)) == 1


def _target(at: Terminal) -> str:
    """The target that the kernels were tuned for."""
    target: str = json.loads((at.folder / "build" / "kernels.lock").read_text())["target"]
    return target


if __name__ == "__main__":
    afternoon(spend, 20)
