"""Prepare what `make gpu` needs where there is no package index: `make gpu-pack`, then take the folder along.

The folder has wheels of what the compiler, the tuner and the device side import (not the web app's), of pytest, and
PyCUDA's if one is given; the tree as it is here; and what it is for. Wheels are packed anew, smaller: without their own
tests, the symbols of LLVM's library removed, by LZMA, which pip reads like any other zip file.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import lzma
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PACK = ROOT / "build" / "gpu-pack"
MOST_BYTES = 60 << 20

NEEDED = (
    "alembic", "click", "httpx", "llvmlite", "ml_dtypes", "msgspec", "numpy", "psutil", "pyzmq", "rich", "sqlalchemy",
)  # fmt: skip
"""Of the project's dependencies, those that tuning and measuring import."""
TESTING = ("hypothesis", "pytest", "pytest-timeout")
STRIPPED = ("llvmlite",)
"""Wheels whose libraries lose their symbols. Others were edited after they were linked, which strip may not survive."""
_DICTIONARY = 64 << 20
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_26", "manylinux_2_24", "manylinux_2_17", "manylinux2014")

ABOUT = """\
What tunefarm's GPU checks need, for Python {python} on x86-64 Linux. No package index is asked.

In a checkout: put this folder at build/gpu-pack, then `make gpu PYTHON=/path/to/python{python}`.
Without one:   mkdir tunefarm && tar xf tree.tar.xz -C tunefarm && cp -r . tunefarm/build/gpu-pack
By hand:       pip install --no-index --find-links wheels -r requirements.txt
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="3.12", metavar="X.Y", help="the GPU machine's Python")
    parser.add_argument("--pycuda", type=Path, metavar="WHEEL", help="a wheel of PyCUDA, which the index has not")
    parser.add_argument("--quick", action="store_true", help="compress little, and let the folder be as large as it is")
    args = parser.parse_args()
    if args.pycuda and not args.pycuda.is_file():
        parser.error(f"no such file: {args.pycuda}")
    zipfile.LZMACompressor = LargeDictionary  # type: ignore[attr-defined]
    wheels = PACK / "wheels"
    shutil.rmtree(PACK, ignore_errors=True)
    wheels.mkdir(parents=True)
    names = requirements(bool(args.pycuda))
    with tempfile.TemporaryDirectory() as folder:
        download(names, args.python, args.pycuda, Path(folder))
        with ThreadPoolExecutor() as pool:
            found = sorted(Path(folder).glob("*.whl"))
            list(pool.map(lambda wheel: repack(wheel, wheels / wheel.name, args.quick), found))
    (PACK / "requirements.txt").write_text("\n".join(names) + "\n")
    (PACK / "README").write_text(ABOUT.format(python=args.python))
    (PACK / "pack.json").write_text(json.dumps({"python": args.python, "pycuda": bool(args.pycuda)}) + "\n")
    pack_tree(PACK / "tree.tar.xz", args.quick)
    size = sum(path.stat().st_size for path in PACK.rglob("*") if path.is_file())
    pycuda = "with PyCUDA" if args.pycuda else "without PyCUDA (PYCUDA_WHEEL=)"
    print(f"{PACK.relative_to(ROOT)}: {len(found)} wheels for Python {args.python}, {pycuda}, {size / 2**20:.1f} MiB")
    if size > MOST_BYTES and not args.quick:
        print(f"that is more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
        return 1
    return 0


def requirements(pycuda: bool) -> list[str]:
    """Return the requirements of what is NEEDED, with the ranges of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["dev"], *extras["cuda"]]
    wanted = {*NEEDED, *TESTING, "nvidia-ml-py", *(("pycuda",) if pycuda else ())}
    named = {name: line for line in lines if (name := requirement_name(line)) in wanted}
    missing = wanted - named.keys()
    assert not missing, f"pyproject.toml does not name {missing}"
    return [named[name] for name in sorted(named)]


def requirement_name(line: str) -> str:
    return line.split(";")[0].split("[")[0].split(">")[0].split("<")[0].split("=")[0].strip()


def download(names: list[str], python: str, pycuda: Path | None, to: Path) -> None:
    platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_x86_64")]
    if pycuda:
        shutil.copy(pycuda, to)
        names = [*(name for name in names if requirement_name(name) != "pycuda"), *requires(pycuda)]
    subprocess.run(
        [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
            "--implementation", "cp", "--python-version", python, *platforms, "--dest", str(to), *names,
        ],
        check=True,
    )  # fmt: skip


def requires(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as packed:
        [metadata] = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        lines = packed.read(metadata).decode().splitlines()
    found = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    return [line for line in found if "extra ==" not in line]


class LargeDictionary:
    """Compress as `zipfile.LZMACompressor` does, with a window as long as a large library needs: a tenth smaller."""

    def __init__(self) -> None:
        settings = {"dict_size": _DICTIONARY, "lc": 3, "lp": 0, "pb": 2}
        self._lzma = lzma.LZMACompressor(lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA1, "preset": 6, **settings}])
        self._head = struct.pack("<BBHBI", 9, 4, 5, 93, _DICTIONARY)  # SDK 9.4; 5 bytes: lc, lp and pb as one, the size

    def compress(self, data: bytes) -> bytes:
        head, self._head = self._head, b""
        return head + self._lzma.compress(data)

    def flush(self) -> bytes:
        return self._head + self._lzma.flush()


def repack(wheel: Path, to: Path, quick: bool) -> None:
    """The same wheel, smaller, with a record of what is in it now."""
    method, level = (zipfile.ZIP_DEFLATED, 1) if quick else (zipfile.ZIP_LZMA, None)
    strip = wheel.name.split("-")[0] in STRIPPED
    rows: list[str] = []
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(to, "w", method, compresslevel=level) as new:
        record = next(name for name in old.namelist() if name.endswith(".dist-info/RECORD"))
        for info in old.infolist():
            parts = PurePosixPath(info.filename).parts
            if info.is_dir() or info.filename == record or "tests" in parts[1:-1]:
                continue
            data = old.read(info)
            if strip and info.filename.endswith(".so"):
                data = stripped(data)
            entry = zipfile.ZipInfo(info.filename, info.date_time)
            entry.external_attr, entry.compress_type = info.external_attr, method
            new.writestr(entry, data, compresslevel=level)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{info.filename},sha256={digest},{len(data)}")
        new.writestr(record, "\n".join([*rows, f"{record},,"]) + "\n")


def stripped(library: bytes) -> bytes:
    """Return a library without its symbols for a debugger; as it is where there is no strip."""
    if shutil.which("strip") is None:
        return library
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(library)
        file.flush()
        subprocess.run(["strip", "--strip-unneeded", file.name], check=True)
        return Path(file.name).read_bytes()


def pack_tree(to: Path, quick: bool) -> None:
    """Return the files that git knows or does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    with tarfile.open(to, "w:xz", preset=0 if quick else 6) as tar:
        for name in sorted(set(filter(None, listed.split("\0")))):
            if (ROOT / name).is_file():
                tar.add(ROOT / name, name)


if __name__ == "__main__":
    sys.exit(main())
