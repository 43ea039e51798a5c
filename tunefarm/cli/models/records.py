"""Records of `tunefarm run` for a model in the record store.

Its version, end-to-end times and profiles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import click

from compiler.runtime.measure.report import Report
from compiler.target.target import Target
from rpc_server.machine.user_name import user_name
from tunefarm.cli.models.configs import shares_of, tuned_share
from tunefarm.client import BestReply
from tunefarm.settings import Settings
from tuner.devices.fleet import NamedDevice
from tuner.engine.store_rows import device_row
from tuner.kernels.model import ModelKernel
from tuner.kernels.model_version import ModelSource, version_of
from tuner.kernels.peaks import told_peaks
from tuner.records.errors import RecordError, StoreMissing
from tuner.records.lookup.keys import toolchain_key
from tuner.records.model_store.facts import ModelVersion, NewModelTime
from tuner.records.store import RecordStore
from tuner.toolchain import toolchain


@contextmanager
def open_records(settings: Settings, db: str | None, record: bool | None) -> Iterator[RecordStore | None]:
    """The store to keep a run in. None without one, unless `record` asks for it; then it is made."""
    if record is False:
        yield None
        return
    try:
        store = RecordStore.open(db or settings.db, create=bool(record))
    except RecordError as error:
        if db or record:
            raise
        if not isinstance(error, StoreMissing):
            click.echo(f"the record store is not used: {error.message}", err=True)
        yield None
        return
    with store:
        yield store


def registered(store: RecordStore, source: ModelSource, target: str) -> ModelVersion:
    """The model's version in the store, made if it is new."""
    return store.models.register(version_of(source, Target(target).kind.name))


def keep(
    store: RecordStore, version: ModelVersion, device: NamedDevice, target: str, seconds: Sequence[float],
    report: Report | None, kernels: Sequence[ModelKernel], known: Mapping[str, BestReply], *, release: str = "",
    is_here: bool = True, drawn: Mapping[str, float] = MappingProxyType({}),
) -> int:  # fmt: skip
    """Keep an end-to-end measurement, with the profile of a run; returns its id.
    `drawn`: power, energy and clock."""
    shares = shares_of(report, kernels, known) if report is not None else ()
    row = store.devices.upsert(device_row(device))
    return store.models.add_time(
        NewModelTime(
            version_id=version.id,
            device_id=row.id,
            target=target,
            samples=tuple(seconds),
            kernels=shares,
            release=release,
            toolchain=toolchain_key(toolchain()),
            tuned_share=tuned_share(shares, known),
            environment={
                **({"load_1m": os.getloadavg()[0]} if is_here else {}),
                **(told_peaks(report) if report is not None else {}),
                **drawn,
            },
            measured_by=user_name(),
        )
    )
