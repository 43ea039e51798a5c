"""Run everything that needs a GPU, in one go: `make gpu`.

    python .ci/gpu.py [--out FOLDER] [--seconds 500] [--trials 32]
    python .ci/gpu.py --check          where there is no GPU: the pack installs, the tests are collected

Installs from the folder that `make gpu-pack` made, and asks no package index. Then come the tests marked `gpu` and
`benchmarks/gpu.py`; what they say goes to files of the folder (OUT, or
benchmarks/results/gpu). Ends with 1 and a line that says what is missing where it cannot run.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACK = ROOT / "build" / "gpu-pack"
VENV = ROOT / "build" / "gpu-venv"
_TESTS_S = 240.0
_LEAST_S = 20.0


class Missing(Exception):
    """Return a line that says what is missing here."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or ROOT / "benchmarks/results/gpu"))
    parser.add_argument("--seconds", type=float, default=500.0, help="in all; what is not through by then is ended")
    parser.add_argument("--trials", type=int, default=32, help="of each workload of benchmarks/gpu.py")
    parser.add_argument("--only", default="", help="workloads whose names have this in them")
    parser.add_argument("--check", action="store_true", help="what can be checked without a GPU")
    args = parser.parse_args()
    end = time.monotonic() + args.seconds
    try:
        if not args.check:
            look_for_gpu()
        python = install()
        files = marked()
        if args.check:
            return check(python, files)
        said = subprocess.run([python, "-c", "import pycuda.driver"], capture_output=True, text=True)
        if said.returncode:
            reason = said.stderr.strip().splitlines()[-1]
            raise Missing(f"PyCUDA cannot be imported ({reason}): make gpu-pack PYCUDA_WHEEL=/path/to/pycuda.whl")
    except Missing as missing:
        print(f"make gpu: nothing was run: {missing}", file=sys.stderr)
        return 1
    args.out.mkdir(parents=True, exist_ok=True)
    failed = []
    only = ["--only", args.only] if args.only else []
    for name, command, seconds in (
        ("machine.txt", ["nvidia-smi"], 20.0),
        ("tests.txt", [python, "-m", "pytest", "-m", "gpu", "-rA", "--durations=10", *map(str, files)], _TESTS_S),
        ("benchmarks.jsonl", [python, "-u", "benchmarks/gpu.py", "--json", "--trials", str(args.trials), *only], None),
    ):
        left = max(_LEAST_S, end - time.monotonic())
        if shutil.which(command[0]) and run(args.out / name, command, min(left, seconds or left)):
            failed.append(name)
    print(f"results in {args.out}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return bool(failed)


def look_for_gpu() -> None:
    """By the driver itself, in a process of its own: what it starts here would outlive the question."""
    code = "import ctypes, sys; n = ctypes.c_int(); c = ctypes.CDLL('libcuda.so.1'); "
    code += "sys.exit(c.cuInit(0) or c.cuDeviceGetCount(ctypes.byref(n)) or n.value == 0)"
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise Missing("no NVIDIA driver (libcuda.so.1) on this machine") from None
    if subprocess.run([sys.executable, "-c", code]).returncode:
        raise Missing("the NVIDIA driver finds no GPU")


def install() -> str:
    """The path of a Python that has what the pack holds, and finds this tree."""
    if not (PACK / "pack.json").exists():
        raise Missing(f"no {PACK.relative_to(ROOT)}: make gpu-pack where there is a package index, and bring it along")
    version = json.loads((PACK / "pack.json").read_text())["python"]
    python = VENV / "bin" / "python"
    stamp = VENV / "installed"
    packed = "\n".join(f"{path.name} {path.stat().st_size}" for path in sorted((PACK / "wheels").iterdir()))
    if not stamp.exists() or stamp.read_text() != packed:
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([interpreter(version), "-m", "venv", VENV], check=True)
        requirements = ["-r", str(PACK / "requirements.txt")]
        subprocess.run(
            [
                python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--isolated",
                "--find-links", PACK / "wheels", *requirements,
            ],
            check=True,
        )  # fmt: skip
        [packages] = VENV.glob("lib/python*/site-packages")
        (packages / "tunefarm.pth").write_text(f"{ROOT}\n")
        stamp.write_text(packed)
    return str(python)


def interpreter(version: str) -> str:
    """This one if it is of that version, or the one on PATH."""
    for path in (sys.executable, shutil.which(f"python{version}")):
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        said = path and subprocess.run([path, "-c", code], capture_output=True, text=True).stdout.strip()
        if path and said == version:
            return path
    raise Missing(f"the pack is for Python {version}, which is not on PATH: PYTHON=/path/to/python{version}")


def marked() -> list[Path]:
    """Test files that have a test for a GPU. The others need not be imported, nor what they import be in the pack."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [path.relative_to(ROOT) for path in files if "pytest.mark.gpu" in path.read_text()]


def check(python: str, files: list[Path]) -> int:
    for command in (
        [python, "-m", "pytest", "--collect-only", "-q", "-m", "gpu", *map(str, files)],
        [python, "benchmarks/gpu.py", "--small", "--trials", "2"],
    ):
        if status := subprocess.run(command, cwd=ROOT).returncode:
            return status
    try:
        look_for_gpu()
    except Missing as missing:
        print(f"{missing}: the GPU's parts are not run")
    return 0


def run(to: Path, command: list[str], seconds: float) -> bool:
    """Whether it failed or was ended. What it says is shown, and kept."""
    print(f"\n== {' '.join(command)}", flush=True)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        previous = signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            with to.open("w") as kept:
                for line in process.stdout:
                    print(line, end="", flush=True)
                    kept.write(line)
                    kept.flush()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        return process.wait() != 0


if __name__ == "__main__":
    sys.exit(main())
