"""`tunefarm models profile`: a model of the record store, run from the file that lies there."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from compiler.errors import TunefarmError
from tunefarm.cli.common import DB, Whole
from tunefarm.cli.completion import ReleaseName
from tunefarm.cli.models.names import ModelName, find_model
from tunefarm.cli.models.run import run
from tuner.kernels.stored import check_profilable
from tuner.process_identity import process_name
from tuner.records.model_store.facts import ModelVersion
from tuner.records.model_store.jobs import LEASE_S
from tuner.records.store import RecordStore

_log = logging.getLogger(__name__)

_EPILOG = """\b
Examples:
  tunefarm models profile resnet18
  tunefarm models profile resnet18 --key "cpu quiet"
"""


@click.command("profile", epilog=_EPILOG)
@click.argument("which", type=ModelName(), metavar="MODEL")
@click.option("--version", "digest", default="", help="The first digits of a version's digest.  [default: the newest]")
@click.option("--repeat", type=Whole(1, 100_000), default=10, show_default=True, help="Timed runs.")
@click.option("--target", help="Target to build for.  [default: the device's, or this machine's]")
@click.option("--key", help="Run on a device that the tracker lends for this key.")
@click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting]")
@click.option("--device", metavar="HOST:PORT", help="Run on this server.")
@click.option(
    "--release", type=ReleaseName(), help="Build with the configs of this approved release of the record store."
)
@click.option("--job", type=int, hidden=True, help="Of the dashboard, which hears of the measurement.")
@DB
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.pass_context
def profile(
    ctx: click.Context, which: str, digest: str, repeat: int, target: str | None, key: str | None, tracker: str | None,
    device: str | None, release: str | None, job: int | None, db: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Time and profile a model whose ONNX file is in the store, with the best configs, and keep it."""
    address = db or ctx.obj.db
    with tempfile.TemporaryDirectory() as folder, _working(address, job):
        path = Path(folder, "model.onnx")
        with RecordStore.open(address) as store:
            version = store.models.version_of(find_model(store, which).id, digest)
            check_profilable(version)
            _write(store, version, path)
        sizes = tuple(f"{name}={size}" for name, size in version.sizes.items())
        made = ctx.invoke(
            run, model=str(path), version=version, dims=sizes, repeat=repeat, target=target, key=key, tracker=tracker,
            device=device, release=release, record=True, db=address, profile=True, as_json=as_json,
        )  # fmt: skip
    if job is not None:
        with RecordStore.open(address) as store:
            store.models.end_job(job, made.recorded)


@contextmanager
def _working(address: str, job: int | None) -> Iterator[None]:
    """Record in the store that this process works on a job, for as long as the block takes.
    Raises InvalidRecord."""
    if job is None:
        yield
        return
    done = threading.Event()

    def renew() -> None:
        while not done.wait(LEASE_S / 3):
            try:
                with RecordStore.open(address) as store:
                    store.models.renew_job(job, process_name())
            except TunefarmError as error:
                _log.debug("profile %d was not renewed: %s", job, error)

    with RecordStore.open(address) as store:
        store.models.renew_job(job, process_name())
    thread = threading.Thread(target=renew, name=f"profile-{job}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _write(store: RecordStore, version: ModelVersion, path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(store.models.file(version.id))
