"""`tunefarm build` of families: one artifact for all sizes, with the rule that the web app has for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from compiler.target.target import Target
from tunefarm.cli.common import NotTunedError
from tunefarm.cli.tuning.fleet import given_target
from tunefarm.client import Client
from tunefarm.settings import Settings
from tuner.devices.supplies import local_target
from tuner.families.build import build_family, build_untuned, function_name
from tuner.families.family import FamilySpec
from tuner.families.record import FamilyRecord


def build_families(settings: Settings, words: Sequence[str], given: Mapping[str, Any]) -> None:
    """Build each family, write it, and report how. Raises NotTunedError where --require-tuned asks for what nobody
    has tuned."""
    for flag in ("check", "key", "device", "tracker"):
        if given[flag]:
            raise click.UsageError(f"--{flag} is for kernels of one size, not for families")
    if tuple(given["formats"]) != ("tunefarm",):
        raise click.UsageError("families are written as artifacts; `load_module` and `export_library` make libraries")
    specs = [FamilySpec.parse(word) for word in words]
    target = given_target(given["target"]) if given["target"] else Target(local_target())
    names = given["names"] or [function_name(str(spec)) for spec in specs]
    if len(names) != len(specs):
        raise click.BadParameter(f"{len(names)} names for {len(specs)} families", param_hint="--name")
    with Client(given["api"] or settings.api, token=settings.api_token) as client:
        replies = [client.family(str(spec), target, given["device_class"], release=given["release"]) for spec in specs]
    records = [None if reply is None else FamilyRecord.from_json(reply.record) for reply in replies]
    missing = [str(spec) for spec, record in zip(specs, records) if record is None]
    if missing and given["require_tuned"]:
        hint = f"tune it: tunefarm tune {missing[0]} --shapes {specs[0].symbols[0]}=1,16,128 --target '{target}'"
        raise NotTunedError(f"nobody has tuned {', '.join(missing)} for {target}", hint=hint)
    report = []
    for spec, record, name in zip(specs, records, names, strict=True):
        artifact = build_untuned(spec, target, name) if record is None else build_family(record, name).artifact
        report.append(_report(spec, record, name, artifact, given["out"]))
    if given["as_json"]:
        click.echo(json.dumps(report))
        return
    for line in report:
        click.echo(f"{line['family']}: {line['how']}" + (f", {line['file']}" if line["file"] else ""))
        for config in line["configs"]:
            click.echo(f"  {config}")


def _report(
    spec: FamilySpec, record: FamilyRecord | None, name: str, artifact: Artifact, out: Path | None
) -> dict[str, Any]:
    path = None
    if out is not None:
        path = out / f"{name}.tunefarm"
        try:
            out.mkdir(parents=True, exist_ok=True)
            path.write_bytes(artifact.to_bytes())
        except OSError as error:
            raise TunefarmError(f"cannot write {path}: {error.strerror}", hint="give another --out") from None
    return {
        "family": str(spec),
        "how": "untuned" if record is None else "hit",
        "function": name,
        "file": None if path is None else str(path),
        "artifact": artifact.digest,
        "configs": [] if record is None else [str(config) for config in record.configs],
        "sizes": [] if record is None else [list(size) for size in record.sizes.sizes],
        "rule": None if record is None else record.rule.to_json(),
    }
