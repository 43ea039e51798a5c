"""A new column is two edits: a field of a class of facts, and a migration. Everything else follows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pytest
from sqlalchemy import create_engine, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tests.kit.places import ROOT
from tuner.records.db.schema import add_columns
from tuner.records.facts import column_type, copied, from_columns, lines_with, to_columns
from webui.api.shown import Shown, shows

STORED_AND_SHOWN = ("tuner/records/**/*.py", "tuner/interchange/entries.py", "webui/api/*.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyFacts:
    """Facts of a toy's row, stored as they were reported."""

    samples: tuple[float, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    temperature: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Toy(ToyFacts):
    id: int


def test_a_fact_goes_the_whole_way() -> None:
    class Base(DeclarativeBase):
        pass

    class ToyRow(Base):
        __tablename__ = "toys"
        id: Mapped[int] = mapped_column(primary_key=True)

    @lines_with(ToyFacts)
    class ToyLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="toy"):
        id: int

    @shows(Toy, renamed={"samples": "samples_s"})
    class ToyReply(Shown):
        """A toy."""

    add_columns(ToyRow, ToyFacts)
    told = Toy(id=3, samples=(1.0, 2.0), counters={"calls": 4}, temperature=60.5)
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(ToyRow), {"id": told.id, **to_columns(ToyFacts, told)})
        row = connection.execute(select(ToyRow.__table__.columns)).one()
    kept = Toy(id=row.id, **from_columns(ToyFacts, row))
    assert kept == told
    line = msgspec.json.encode(ToyLine(id=kept.id, **copied(ToyFacts, kept)))
    read = msgspec.json.decode(line, type=ToyLine)
    assert Toy(id=read.id, **copied(ToyFacts, read)) == told
    shown = ToyReply.of(kept).model_dump(mode="json")
    assert shown == {"id": 3, "samples_s": [1.0, 2.0], "counters": {"calls": 4}, "temperature": 60.5}


def test_lines_of_files_have_the_defaults_of_facts_and_no_other_fields() -> None:
    @lines_with(ToyFacts)
    class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="toy"):
        samples: tuple[float, ...] = ()

    assert msgspec.json.decode(b'{"type": "toy"}', type=Line) == Line()
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(b'{"type": "toy", "weight": 1}', type=Line)


def test_a_fact_that_no_column_holds_is_refused() -> None:
    with pytest.raises(TypeError, match="no column holds"):
        column_type(set[int])


@pytest.mark.parametrize("fact", ["build_s", "measure_s"])
def test_what_is_stored_and_shown_of_a_trial_names_a_fact_in_one_place(fact: str) -> None:
    places = [
        str(path.relative_to(ROOT))
        for pattern in STORED_AND_SHOWN
        for path in ROOT.glob(pattern)
        if re.search(rf"^\s+{fact}:|\b{fact}=|\.{fact}\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert places == ["tuner/records/model.py"]
