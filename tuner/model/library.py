"""Where models are found.

The store's newest for a target family, else the one that is shipped for it, if any.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tuner.model.errors import ModelError
from tuner.model.features import FEATURE_VERSION
from tuner.model.forest import MOST_BYTES, Forest
from tuner.model.training import Group, Trained
from tuner.records.parts.cost_models import NewCostModel
from tuner.records.store import RecordStore

FORMAT = "lightgbm"
_MADE_BY = "such files are made by `tunefarm cost-model export`"
_PROVEN = 0.4  # rank correlation on held-out workloads
_FILE_FORMAT = "tunefarm.model"
_FILE_VERSION = 1


@dataclass(frozen=True)
class Found:
    """A model and, in a few words, where it is from.
    `scale` times its score is about the logarithm (base 2) of speed; one that saw nothing but `serial` kernels knows
    nothing of how well threads are loaded."""

    forest: Forest
    origin: str
    scale: float = 1.0
    serial: bool = False


def newest(store: RecordStore | None, family: str) -> Found | None:
    """Return the model in use for a target family.
    It is the store's newest, unless one is shipped and the store's was not shown to rank unseen workloads. Raises
    ModelError when it cannot be used."""
    stored = None if store is None else store.cost_models.in_use(family, FEATURE_VERSION)
    made = shipped(family)
    if stored is not None and (made is None or _is_proven(stored)):
        return _found(stored, f"model {stored.version} of {family} in the store")
    return None if made is None else _found(made, f"the shipped model of {family}")


def _is_proven(model: NewCostModel) -> bool:
    spearman = model.rank_accuracy.get("spearman")
    return isinstance(spearman, float) and spearman >= _PROVEN


def _found(model: NewCostModel, origin: str) -> Found:
    scale, threads = model.trained_on.get("scale"), model.trained_on.get("threads")
    return Found(read(model), origin, scale if isinstance(scale, float) else 1.0, threads == [1])


def pack(family: str, groups: Sequence[Group], trained: Trained) -> NewCostModel:
    """Return the record of a trained model, for a store or a file."""
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.workload] = counts.get(group.workload, 0) + len(group.costs)
    judged = {name: quality.to_json() for name, quality in trained.by_workload.items()}
    return NewCostModel(
        target_family=family,
        feature_version=FEATURE_VERSION,
        format=FORMAT,
        body=trained.forest.text.encode("ascii"),
        trained_on={
            "candidates": sum(counts.values()),
            "workloads": counts,
            "threads": sorted({group.threads for group in groups}),
            "scale": trained.scale,
        },
        rank_accuracy={} if trained.held_out is None else {**trained.held_out.to_json(), "by_workload": judged},
    )


def read(model: NewCostModel) -> Forest:
    """The model that can be asked. Raises ModelError."""
    if model.feature_version != FEATURE_VERSION or model.format != FORMAT:
        raise ModelError(
            f"the model is of feature version {model.feature_version} and format {model.format!r}, "
            f"this tunefarm has {FEATURE_VERSION} and {FORMAT!r}",
            hint="tunefarm cost-model train",
        )
    try:
        return Forest.parse(model.body.decode("ascii"))
    except UnicodeDecodeError:
        raise ModelError("not a model in LightGBM's text format") from None


def shipped(family: str) -> NewCostModel | None:
    """The model that comes with tunefarm for a target family."""
    file = resources.files("tuner.model") / "shipped" / f"{family}.json.gz"
    return from_file(file.read_bytes()) if file.is_file() else None


def shipped_families() -> tuple[str, ...]:
    folder = resources.files("tuner.model") / "shipped"
    return tuple(sorted(f.name.removesuffix(".json.gz") for f in folder.iterdir() if f.name.endswith(".json.gz")))


# -------------------------------------------------------------------------------------- files


def to_file(model: NewCostModel) -> bytes:
    """A model as a file that `from_file` reads, the same bytes for the same model: gzipped JSON."""
    record = {
        "format": _FILE_FORMAT,
        "version": _FILE_VERSION,
        "target_family": model.target_family,
        "feature_version": model.feature_version,
        "trained_on": dict(model.trained_on),
        "rank_accuracy": dict(model.rank_accuracy),
        "model": model.body.decode("ascii"),
    }
    return gzip.compress(json.dumps(record).encode(), 9, mtime=0)


def from_file(data: bytes) -> NewCostModel:
    """The model that `to_file` wrote, checked in full. Raises ModelError."""
    record = _unpacked(data)
    if record.get("format") != _FILE_FORMAT or record.get("version") != _FILE_VERSION:
        raise ModelError("not a file of a tunefarm model, or of another version", hint=_MADE_BY)
    match record:
        case {
            "target_family": str(family),
            "feature_version": int(features),
            "trained_on": dict(trained_on),
            "rank_accuracy": dict(accuracy),
            "model": str(text),
        } if text.isascii():
            model = NewCostModel(
                target_family=family,
                feature_version=features,
                format=FORMAT,
                body=text.encode(),
                trained_on=trained_on,
                rank_accuracy=accuracy,
            )
            read(model)
            return model
    raise ModelError("a field of the model's file is missing or of another kind")


def _unpacked(data: bytes) -> Mapping[str, Any]:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise ModelError(f"the model's file is longer than {MOST_BYTES >> 20} MiB")
        record = json.loads(text)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise ModelError(f"not a file of a model: {error}", hint=_MADE_BY) from None
    if not isinstance(record, dict):
        raise ModelError("not a file of a tunefarm model, or of another version", hint=_MADE_BY)
    return record
