"""`tunefarm build` of families: one artifact for all sizes, with the rule that the web app has for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from compiler.artifact import Artifact
from compiler.size_rule import Size
from compiler.target.target import Target
from rpc_server.wire.trial_messages import MeasureResult
from tunefarm.cli.common import CheckFailedError, NotTunedError
from tunefarm.cli.records.build_check import asked_fleet, checked, class_of, opened
from tunefarm.cli.records.build_files import write_each
from tunefarm.cli.tuning.fleet import given_target
from tunefarm.client import Client
from tunefarm.settings import Settings
from tuner.devices.fleet import DeviceSession
from tuner.families.build import FamilyMaker, FunctionMaker, fixed, function_name, record_for, recorded_size, symbols_of
from tuner.families.record import FamilyRecord
from tuner.families.sizes import FamilyError, SizeList, parse_shapes
from tuner.number_text import duration


@dataclass(frozen=True)
class CheckedSize:
    """A size at which the built artifact was run, and the outcome."""

    size: Size
    text: str
    result: MeasureResult


@dataclass(frozen=True)
class BuiltArtifact:
    """A family's artifact with what it was built of, the files written, and its checks."""

    maker: FamilyMaker
    record: FamilyRecord | None
    name: str
    artifact: Artifact
    files: tuple[Path, ...]
    checks: tuple[CheckedSize, ...]

    @property
    def failures(self) -> list[str]:
        """The failures by size."""
        return [f"{c.text}: {c.result.failure}: {c.result.text}" for c in self.checks if c.result.failure]


def build_families(settings: Settings, makers: Sequence[FamilyMaker], given: Mapping[str, Any]) -> None:
    """Build each family, write it, check it where that is asked for, and report how.

    Raises NotTunedError where --require-tuned asks for what nobody has tuned, CheckFailedError for a wrong result.
    """
    more = _more_sizes(makers, given["shapes"])
    names = given["names"] or [function_name(maker.name) for maker in makers]
    if len(names) != len(makers):
        raise click.BadParameter(f"{len(names)} names for {len(makers)} families", param_hint="--name")
    make_fleet = asked_fleet(settings, given)
    wanted = given_target(given["target"]) if given["target"] else None
    with (
        Client(given["api"] or settings.api, token=settings.api_token) as client,
        opened(make_fleet, wanted) as (target, session),
    ):
        device_class = class_of(session, given)
        replies = [client.family(maker.key, target, device_class, release=given["release"]) for maker in makers]
        records = [None if r is None else record_for(m, r.record) for m, r in zip(makers, replies, strict=True)]
        if given["require_tuned"]:
            _require(makers, records, target)
        built = [
            _build(maker, record, name, target, given, session, sizes)
            for maker, record, name, sizes in zip(makers, records, names, more, strict=True)
        ]
    if given["as_json"]:
        click.echo(json.dumps([_as_json(each) for each in built]))
    else:
        for each in built:
            _print(each)
    if failures := [f"    {each.maker.name} at {line}" for each in built for line in each.failures]:
        raise CheckFailedError(
            f"{len(failures)} sizes failed their check:\n" + "\n".join(failures),
            hint="tune the family again on this device class before shipping the build",
        )


def _more_sizes(makers: Sequence[FamilyMaker], texts: Sequence[str]) -> list[SizeList | None]:
    """The sizes of --shapes for each family, if they name all of its symbols; None for others.
    Raises FamilyError."""
    if not texts:
        return [None] * len(makers)
    listed = parse_shapes(texts)
    known = {symbol for maker in makers for symbol in maker.symbols}
    if strangers := [symbol for symbol in listed.symbols if symbol not in known]:
        raise FamilyError(
            f"no family that is built has a size {strangers[0]}", hint=f"they have {', '.join(sorted(known))}"
        )
    return [listed.of(maker.symbols) if set(maker.symbols) & set(listed.symbols) else None for maker in makers]


def _require(makers: Sequence[FamilyMaker], records: Sequence[FamilyRecord | None], target: Target) -> None:
    missing = [maker for maker, record in zip(makers, records) if record is None]
    if missing:
        first = missing[0]
        shapes = f" --shapes {first.symbols[0]}=1,16,128" if isinstance(first, FunctionMaker) else ""
        raise NotTunedError(
            f"nobody has tuned {', '.join(maker.name for maker in missing)} for {target}",
            hint=f"tune it: tunefarm tune {first.name}{shapes} --target '{target}'",
        )


def _build(
    maker: FamilyMaker, record: FamilyRecord | None, name: str, target: Target, given: Mapping[str, Any],
    session: DeviceSession | None, more: SizeList | None,
) -> BuiltArtifact:  # fmt: skip
    sizes = () if more is None else more.sizes
    if record is None:
        artifact = maker.untuned(target, name, sizes)
    else:
        sizes = tuple(recorded_size(maker, record, size) for size in sizes)
        artifact = maker.built(record, name, sizes).artifact
    checks = () if session is None else _checks(maker, record, artifact, target, session, sizes)
    files = write_each(artifact, name, given["out"], given["formats"]) if given["out"] else ()
    return BuiltArtifact(maker, record, name, artifact, files, checks)


def _checks(
    maker: FamilyMaker, record: FamilyRecord | None, artifact: Artifact, target: Target, session: DeviceSession,
    more: Sequence[Size],
) -> tuple[CheckedSize, ...]:  # fmt: skip
    """Run the artifact at the measured sizes, at another one, and at `more`, against the plain function."""
    own = dict(zip(symbols_of(maker, record), maker.symbols))  # a record's names may be others
    listed = maker.examples(record)
    found = []
    for size in dict.fromkeys((*listed.sizes, *more)):
        sizes = dict(zip(listed.symbols, size))
        reference = maker.plain({own[symbol]: extent for symbol, extent in sizes.items()}, target)
        names = {arg.name for arg in artifact.entries[0].implicit}
        result = checked(
            session, fixed(artifact, {s if s in names else own[s]: e for s, e in sizes.items()}), reference
        )
        found.append(CheckedSize(size, listed.text(size), result))
    return tuple(found)


def _print(built: BuiltArtifact) -> None:
    line = f"{built.maker.name}: {'untuned' if built.record is None else 'hit'}"
    click.echo(", ".join([line, *map(str, built.files)]))
    for config in () if built.record is None else built.record.configs:
        click.echo(f"  {config}")
    for check in built.checks:
        told = "check failed" if check.result.failure else f"output checked, {duration(median(check.result.costs))}"
        click.echo(f"  {check.text}: {told}")


def _as_json(built: BuiltArtifact) -> dict[str, Any]:
    record = built.record
    return {
        "family": built.maker.name,
        "how": "untuned" if record is None else "hit",
        "function": built.name,
        "file": str(built.files[0]) if built.files else None,
        "files": [str(path) for path in built.files],
        "artifact": built.artifact.digest,
        "configs": [] if record is None else [str(config) for config in record.configs],
        "sizes": [] if record is None else [list(size) for size in record.sizes.sizes],
        "rule": None if record is None else record.rule.to_json(),
        "checks": [
            {"size": list(c.size), "failure": c.result.failure or None, "costs_s": list(c.result.costs)}
            for c in built.checks
        ],
    }
