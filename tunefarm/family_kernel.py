"""`tunefarm.kernel`: a function for any size, with the best kernels that the farm knows.

    dense = tunefarm.kernel("dense:M,3072,768", api="http://127.0.0.1:9180")
    y = dense(x, weight)

The record of the family is fetched from the web app and kept on disk. What is built of it lies beside it, by digest.
So the function works without the app, too. A family that nobody has tuned is built with a drafted schedule, and says
so.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compiler.artifact import ArgSpec, Artifact
from compiler.errors import ArgumentError, TunefarmError
from compiler.extents import parse_extent
from compiler.runtime.core.ndarray import NDArray, empty, from_dlpack
from compiler.runtime.load import load_artifact
from compiler.size_rule import Size
from compiler.target.target import Target
from tunefarm.client import ApiError, Client
from tunefarm.version import __version__
from tuner.devices.supplies import local_target
from tuner.families.build import FamilyMaker, function_name, record_for, symbols_of
from tuner.families.record import FamilyRecord
from tuner.families.rule import GENERAL, Explanation
from tuner.families.sizes import FamilyError
from tuner.kernels.family_build import maker_of
from tuner.records.errors import RecordError

_MOST_SIZES = 256
"""Sizes of which a function keeps a kernel of their own in memory."""
_GENERAL = "family.general"
"""Under which an artifact says which members of the portfolio have a kernel for any size."""


class UntunedWarning(UserWarning):
    """A kernel is used that nobody has tuned for this machine."""


def kernel(
    family: str, api: str = "", *, token: str = "", target: str | Target | None = None, device_class: str | None = None,
    release: str | None = None, cache: str | Path | None = None, refresh_s: float = 0.0, build_new: bool = True,
) -> FamilyKernel:  # fmt: skip
    """The kernel of a family, "dense:M,3072,768" or one of a file (kernels.toml:scale), for any size.

    `api` is the address of the web app, by default the setting; `token` is for one that asks for it. `release` pins
    what is fetched. With `refresh_s`, calls look for a better record that often, in the background; `refresh` does so
    at once. `cache` is a folder (default: tunefarm/kernels in the user's cache). With `build_new`, a size of which the
    chosen config has no general kernel gets one of its own at its first call, which takes seconds; it is kept on disk.

    Raises FamilyError, WorkloadError, SpecError, TargetError; RecordError for a release that is not there or not
    approved, unless it was fetched before.
    """
    return FamilyKernel(
        maker_of(family),
        _fetcher(api, token, release, device_class),
        Target(local_target() if target is None else target),
        _Cache(_folder(cache)),
        place=json.dumps([device_class, release]),
        refresh_s=refresh_s,
        build_new=build_new,
    )


Fetch = Callable[[FamilyMaker, Target], Mapping[str, Any] | None]
"""Asks for the record of a family, as JSON; None where nobody has tuned it. Raises ApiError when nobody answers."""


class FamilyKernel:
    """A function of arrays.
    `record` is what it was built of, None for one that nobody has tuned; `source` says where that is from:
    "fetched", "cached" or "untuned". Usable in any thread."""

    def __init__(
        self, maker: FamilyMaker, fetch: Fetch, target: Target, cache: _Cache, place: str = "", refresh_s: float = 0.0,
        build_new: bool = True,
    ) -> None:  # fmt: skip
        """Use `kernel`."""
        self.target = target
        self.source = "untuned"
        self.record: FamilyRecord | None = None
        self._maker, self._fetch, self._cache = maker, fetch, cache
        self._place = hashlib.sha256(json.dumps([maker.key, str(target), place]).encode()).hexdigest()[:32]
        self._refresh_s, self._build_new = refresh_s, build_new
        self._lock = threading.Lock()
        self._state: _Built | None = None
        self._asked = 0.0
        self._asking = False
        self.refresh()

    # -- being called

    def __call__(self, *arrays: Any) -> Any:
        """Run the kernel on numpy arrays, arrays of tunefarm, or any that speak DLPack.

        Given its inputs alone it returns its result: a numpy array where the first input is one, else an array of
        tunefarm, which speaks DLPack. Given the output as well, it writes there and returns None. Raises ArgumentError
        for arrays that do not fit.
        """
        if self._refresh_s and time.monotonic() - self._asked > self._refresh_s:
            self._refresh_later()
        state = self._built_state
        entry = state.artifact.entries[0]
        inputs = len(entry.args) - len(entry.outputs)
        if len(arrays) not in (inputs, len(entry.args)):
            raise ArgumentError(
                f"{self.name} takes {inputs} arrays, or {len(entry.args)} with its output, not {len(arrays)}",
                hint=", ".join(f"{arg.name}: {arg.dtype}{list(arg.shape or ())}" for arg in entry.args),
            )
        given = [_taken(array) for array in arrays]
        sizes = self._sizes(state, [array.shape for array in given])
        run = self._function_at(state, tuple(sizes[symbol] for symbol in state.symbols))
        if len(arrays) == len(entry.args):
            run(*given)
            _give_back(arrays[-1], given[-1])
            return None
        out = empty(_extents(entry.args[-1], sizes), entry.args[-1].dtype)
        run(*given, out)
        return np.from_dlpack(out) if isinstance(arrays[0], np.ndarray) else out

    @property
    def name(self) -> str:
        """The family's name."""
        return self._maker.name

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of its sizes."""
        return self._maker.symbols

    @property
    def inputs(self) -> tuple[ArgSpec, ...]:
        """Its inputs in order; extents that a call tells are text."""
        return self._built_state.artifact.entries[0].args[:-1]

    @property
    def output(self) -> ArgSpec:
        """Its result."""
        return self._built_state.artifact.entries[0].args[-1]

    def result_shape(self, *shapes: Sequence[int]) -> tuple[int, ...]:
        """The result's shape for inputs of these shapes. Raises ArgumentError for ones of other dimensions."""
        return _extents(self.output, self._sizes(self._built_state, shapes))

    @property
    def _built_state(self) -> _Built:
        assert self._state is not None
        return self._state

    def _sizes(self, state: _Built, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """The value of each symbol, from a place where it is the whole extent.
        The kernel checks all extents."""
        sizes: dict[str, int] = {}
        for spec, given in zip(state.artifact.entries[0].args, shapes):
            shape = spec.shape or ()
            if len(shape) != len(given):
                raise ArgumentError(f"{self.name}: {spec.name} has {len(shape)} dimensions, not {len(given)}")
            for extent, actual in zip(shape, given):
                if isinstance(extent, str) and parse_extent(extent).is_name:
                    sizes.setdefault(extent, actual)
        return sizes

    def _function_at(self, state: _Built, size: Size) -> Callable[..., None]:
        """Return what to call at a size: the dispatching entry, or a kernel of the size's own."""
        if state.serves(size) or not self._build_new or min(size) < 1:
            return state.function
        found = state.own.get(size)
        if found is not None:
            return found
        with self._lock:  # one thread builds, others wait for what it makes
            found = state.own.get(size)
            if found is None:
                found = self._build_at(state, size)
                if len(state.own) >= _MOST_SIZES:
                    state.own.pop(next(iter(state.own)))
                state.own[size] = found
            return found

    def _build_at(self, state: _Built, size: Size) -> Callable[..., None]:
        name = f"{function_name(self.name)}_{'_'.join(map(str, size))}"

        def make() -> Artifact:
            return self._maker.at(state.record, state.known_as(size), self.target, name)

        artifact = self._cache.artifact(f"{state.digest}-{'x'.join(map(str, size))}", self.target, make)
        function: Callable[..., None] = load_artifact(artifact)[artifact.entries[0].name]
        return function

    # -- what it is made of

    @property
    def tuned(self) -> bool:
        """Whether somebody has tuned it for this target."""
        return self.record is not None

    def explain(self, **sizes: int) -> Explanation:
        """Say which kernel a size gets, why, and how sure that is.
        Raises FamilyError for sizes it does not have."""
        if set(sizes) != set(self.symbols):
            raise FamilyError(f"{self.name} has sizes for {', '.join(self.symbols)}, not {', '.join(sizes)}")
        size = tuple(sizes[symbol] for symbol in self.symbols)
        state = self._built_state
        if state.record is None:
            reasons = (
                f"nobody has tuned {self.name} for {self.target}: its schedule is a draft that was not measured",
            )
            return Explanation(size, GENERAL, "unknown", reasons)
        told = state.record.explain(state.known_as(size))
        how = "a kernel of its own in the artifact" if state.is_measured(size) else "the general kernel of that config"
        if not state.serves(size):
            how = "a kernel built at the first call" if self._build_new else "the general kernel"
        return Explanation(size, told.pick, told.sure, (*told.reasons, f"it runs {how}"))

    def refresh(self) -> bool:
        """Ask for the newest record and build it; return whether it differs from the last.

        Without an answer the last fetched record is used. Raises what `kernel` raises.
        """
        self._asked = time.monotonic()
        try:
            data = self._fetch(self._maker, self.target)
            record, source = None if data is None else record_for(self._maker, data), "fetched"
            if data is not None:
                self._cache.keep_record(self._place, data)
        except ApiError as error:
            record, source = self._cache.record(self._place), "cached"
            if record is None and self._state is not None:
                return False
            if record is None:
                warnings.warn(f"{error.message}; nothing was fetched before", UntunedWarning, stacklevel=3)
        return self._use(record, source)

    def _use(self, record: FamilyRecord | None, source: str) -> bool:
        before = self._state
        digest = _untuned_digest(self._maker) if record is None else record.digest
        if before is not None and before.digest == digest:
            self.source = "untuned" if record is None else source
            return False
        if record is None:
            artifact = self._cache.artifact(digest, self.target, lambda: self._maker.untuned(self.target))
            text = f"nobody has tuned {self.name} for {self.target}: its schedules are drafts"
            warnings.warn(text, UntunedWarning, stacklevel=4)
        else:
            artifact = self._cache.artifact(digest, self.target, lambda: _built(self._maker, record))
        function = load_artifact(artifact)[artifact.entries[0].name]
        self._state = _Built(digest, record, artifact, function, self._maker)
        self.record, self.source = record, "untuned" if record is None else source
        return True

    def _refresh_later(self) -> None:
        with self._lock:
            if self._asking:
                return
            self._asking = True
        threading.Thread(target=self._refresh_quietly, name="tunefarm-refresh", daemon=True).start()

    def _refresh_quietly(self) -> None:
        try:
            self.refresh()
        except TunefarmError as error:  # what there is goes on being used
            warnings.warn(f"{self.name} was not refreshed: {error.message}", RuntimeWarning, stacklevel=2)
        finally:
            self._asking = False

    def __repr__(self) -> str:
        made_of = "untuned" if self.record is None else f"{self.source}, {len(self.record.configs)} configs"
        return f"<tunefarm.kernel {self.name}: {made_of}>"


class _Built:
    """The build of one record; `own` are kernels of sizes that the artifact has none for."""

    def __init__(
        self, digest: str, record: FamilyRecord | None, artifact: Artifact, function: Callable[..., None],
        maker: FamilyMaker,
    ) -> None:  # fmt: skip
        self.digest, self.record, self.artifact, self.function = digest, record, artifact, function
        self.own: dict[Size, Callable[..., None]] = {}
        self._general = {int(word) for word in artifact.meta.get(_GENERAL, "").split(",") if word}
        # a record's names of sizes, and their order, are those of whoever tuned it
        self.symbols = symbols_of(maker, record)
        listed = self.symbols if record is None else record.sizes.symbols
        self._order = tuple(self.symbols.index(symbol) for symbol in listed)

    def known_as(self, size: Size) -> Size:
        """A size in the record's order."""
        return tuple(size[at] for at in self._order)

    def is_measured(self, size: Size) -> bool:
        return self.record is not None and self.record.rule.known.get(self.known_as(size), GENERAL) != GENERAL

    def serves(self, size: Size) -> bool:
        """Whether the artifact has the kernel that the rule picks."""
        if self.record is None:
            return False
        return self.is_measured(size) or self.record.rule.pick(self.known_as(size)) in self._general


def _extents(spec: ArgSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """An argument's shape. A name stands for its size as it is: for torch that may be a symbol of its own."""
    shape = spec.shape or ()
    return tuple(e if isinstance(e, int) else sizes[e] if e in sizes else parse_extent(e).value(sizes) for e in shape)


def _built(maker: FamilyMaker, record: FamilyRecord) -> Artifact:
    made = maker.built(record)
    meta = {**made.artifact.meta, _GENERAL: ",".join(map(str, sorted(made.general)))}
    return Artifact(made.artifact.target, made.artifact.cpu_features, made.artifact.entries, made.artifact.blobs, meta)


def _untuned_digest(maker: FamilyMaker) -> str:
    return hashlib.sha256(f"untuned {maker.key}".encode()).hexdigest()


# -------------------------------------------------------------------------------- arrays


def _taken(array: Any) -> NDArray:
    """The array without a copy where its memory can be used as it is."""
    if isinstance(array, NDArray):
        return array
    if isinstance(array, np.ndarray):
        array = np.ascontiguousarray(array)
    if not hasattr(array, "__dlpack__"):
        raise ArgumentError(f"{type(array).__name__} is no array", hint="pass numpy arrays or ones that speak DLPack")
    shared = from_dlpack(array)
    return shared if shared.is_aligned else shared.copyto(empty(shared.shape, shared.dtype))


def _give_back(asked: Any, written: NDArray) -> None:
    """Copy the result to the requested place, if the kernel could not write there itself."""
    if isinstance(asked, NDArray):
        return
    if isinstance(asked, np.ndarray):
        if asked.__array_interface__["data"][0] != written.data_ptr:
            asked[...] = written.numpy()
        return
    shared = from_dlpack(asked)
    if shared.data_ptr != written.data_ptr:
        shared.copyfrom(written)


# -------------------------------------------------------------------------------- fetching and keeping


def _fetcher(api: str, token: str, release: str | None, device_class: str | None) -> Fetch:
    def fetch(maker: FamilyMaker, target: Target) -> Mapping[str, Any] | None:
        from tunefarm import settings

        known = settings.load()
        with Client(api or known.api, token=token or known.api_token) as client:
            found = client.family(maker.key, target, device_class, release=release)
        if found is None and release is not None:
            hint = "tune it, then make a release that has it: tunefarm release create"
            raise RecordError(f"release {release} has no record of {maker.name} for {target}", hint=hint)
        return None if found is None else found.record

    return fetch


def _folder(given: str | Path | None) -> Path:
    if given is not None:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tunefarm" / "kernels"


class _Cache:
    """Records and artifacts on disk. A damaged or unreadable file counts as missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def record(self, place: str) -> FamilyRecord | None:
        """The record fetched last for a place."""
        try:
            found = json.loads((self._folder / f"{place}.json").read_text())
            return FamilyRecord.from_json(found) if isinstance(found, dict) else None
        except (OSError, ValueError):
            return None

    def keep_record(self, place: str, data: Mapping[str, Any]) -> None:
        self._write(f"{place}.json", json.dumps(data).encode())

    def artifact(self, digest: str, target: Target, make: Callable[[], Artifact]) -> Artifact:
        """Return what was built for a digest by this version, or is built now and kept."""
        place = hashlib.sha256(f"{digest} {target} {__version__}".encode()).hexdigest()[:40]
        try:
            return Artifact.from_bytes((self._folder / f"{place}.tunefarm").read_bytes())
        except (OSError, TunefarmError):
            pass
        made = make().runtime_only()
        self._write(f"{place}.tunefarm", made.to_bytes())
        return made

    def _write(self, name: str, data: bytes) -> None:
        """Write a file whole or not at all; a folder that can't be written to only costs time."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                file.write(data)
            os.replace(file.name, self._folder / name)
        except OSError as error:
            warnings.warn(f"{self._folder} can't be written to: {error.strerror}", RuntimeWarning, stacklevel=2)
