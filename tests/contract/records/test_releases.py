"""Releases on every backend: frozen, diffable, portable, approved before builds use them."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import update

from tests.kit.records.farm import KEY, OTHER_KEY, SPR, V3, V4, ZEN3, Farm, measured
from tuner.records.db.database import writing
from tuner.records.db.schema_farm import ReleaseEntryRow
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.farm import release_files
from tuner.records.store import RecordStore


@pytest.fixture
def farm(store: RecordStore) -> Farm:
    found = Farm(store)
    run = found.run()
    found.trial(run, "zen", 1.0, 1.01)
    found.trial(run, "spr", 2.0, 2.01, device=found.spr)
    return found


def better(farm: Farm, digest: str) -> None:
    farm.store.trials.add(measured(farm.run(), digest, 0.5, 0.5, 0.5, device=farm.zen3))


class TestMaking:
    def test_a_release_is_what_was_best_and_stays_so(self, farm: Farm) -> None:
        made = farm.store.releases.create("1.0", note="first", created_by="ada")
        assert (made.name, made.entry_count, made.created_by, made.approved) == ("1.0", 2, "ada", False)
        before = farm.store.releases.entries("1.0")
        assert {(e.digest, e.device_class) for e in before} == {("zen", ZEN3), ("spr", SPR)}
        assert before[0].spec == {"op": "matmul"}
        better(farm, "faster")
        assert farm.best_digest() == "faster"
        assert farm.store.releases.entries("1.0") == before
        assert farm.store.releases.get("1.0") == made

    def test_a_part_of_what_there_is(self, farm: Farm) -> None:
        farm.store.releases.create("zen", device_class=ZEN3)
        farm.store.releases.create("named", workloads=["matmul"], target=V3)
        assert [e.digest for e in farm.store.releases.entries("zen")] == ["zen"]
        assert len(farm.store.releases.entries("named")) == 2
        assert [r.name for r in farm.store.releases.newest()] == ["named", "zen"]
        assert farm.store.releases.newest(before=2) == (farm.store.releases.get("zen"),)

    def test_what_is_refused(self, farm: Farm) -> None:
        farm.store.releases.create("1.0")
        for name, said in (("1.0", "already"), ("a b", "no name"), ("", "no name"), ("-x", "no name")):
            with pytest.raises(InvalidRecord, match=said):
                farm.store.releases.create(name)
        with pytest.raises(InvalidRecord, match="no config of conv"):
            farm.store.releases.create("2.0", workloads=["matmul", "conv"])
        with pytest.raises(InvalidRecord, match="no best configs"):
            farm.store.releases.create("2.0", target=V4)
        with pytest.raises(RecordNotFound):
            farm.store.releases.get("2.0")

    def test_equal_contents_have_equal_digests(self, farm: Farm) -> None:
        first = farm.store.releases.create("1.0")
        farm.store.releases.remove("1.0")
        assert farm.store.releases.create("1.0").digest == first.digest
        assert farm.store.releases.create("1.1").digest != first.digest


class TestUsing:
    def test_builds_use_it_once_approved(self, farm: Farm) -> None:
        farm.store.releases.create("1.0")
        with pytest.raises(InvalidRecord, match="not approved"):
            farm.store.releases.look_up("1.0", KEY, V3, ZEN3)
        approved = farm.store.releases.approve("1.0", "grace")
        assert (approved.approved, approved.approved_by) == (True, "grace")
        assert farm.store.releases.approve("1.0", "else") == approved
        better(farm, "faster")
        found = farm.store.releases.look_up("1.0", KEY, V3, ZEN3)
        assert found.config is not None
        assert (found.match, found.config.digest, found.explain[0]) == ("exact", "zen", "release 1.0")
        with pytest.raises(InvalidRecord, match="was approved"):
            farm.store.releases.remove("1.0")

    def test_the_same_rules_hold_as_without_a_release(self, farm: Farm) -> None:
        farm.store.releases.create("1.0")
        farm.store.releases.approve("1.0", "grace")
        wider = farm.store.releases.look_up("1.0", KEY, V4, ZEN3)
        assert (wider.match, wider.config and wider.config.digest) == ("compatible", "zen")
        assert farm.store.releases.look_up("1.0", OTHER_KEY, V3, ZEN3).match == "miss"
        assert farm.store.releases.look_up("1.0", KEY, V3, "another class").match == "miss"
        assert farm.store.releases.look_up("1.0", KEY, V3, ZEN3, "llvm-99").match == "compatible"

    def test_rows_that_were_changed_are_not_approved(self, farm: Farm) -> None:
        farm.store.releases.create("1.0")
        with writing(farm.store._engine) as connection:
            connection.execute(update(ReleaseEntryRow).values(trace="evil"))
        with pytest.raises(InvalidRecord, match="does not agree with its digest"):
            farm.store.releases.approve("1.0", "grace")


class TestComparing:
    def test_a_diff(self, farm: Farm) -> None:
        farm.store.releases.create("1.0")
        better(farm, "faster")
        farm.trial(farm.run(farm.v4.id), "wide", 0.25)
        farm.store.releases.create("1.1", device_class=ZEN3)
        found = farm.store.releases.diff("1.0", "1.1")
        assert [(a.digest, b.digest) for a, b in found.changed] == [("zen", "faster")]
        assert [e.digest for e in found.added] == ["wide"]
        assert [e.digest for e in found.removed] == ["spr"]
        assert found.same == 0
        assert farm.store.releases.diff("1.0", "1.0").same == 2
        with pytest.raises(RecordNotFound):
            farm.store.releases.diff("1.0", "none")


class TestFiles:
    def _file(self, farm: Farm) -> str:
        return release_files.dump(farm.store.releases.create("1.0", note="n"), farm.store.releases.entries("1.0"))

    def test_there_and_back(self, farm: Farm) -> None:
        made = farm.store.releases.create("1.0", note="n")
        entries = farm.store.releases.entries("1.0")
        text = release_files.dump(made, entries)
        farm.store.releases.remove("1.0")
        back = farm.store.releases.take_in(release_files.load(text))
        assert (back.name, back.note, back.digest, back.approved) == ("1.0", "n", made.digest, False)
        assert farm.store.releases.entries("1.0") == entries
        assert farm.store.releases.approve("1.0", "x").approved
        with pytest.raises(InvalidRecord, match="already"):
            farm.store.releases.take_in(release_files.load(text))

    def test_a_file_that_was_changed_is_refused(self, farm: Farm) -> None:
        data = json.loads(self._file(farm))
        for field, value in (("trace", "[]"), ("cost", 0.1), ("target", "llvm"), ("device", "x"), ("spec", None)):
            changed = json.loads(json.dumps(data))
            changed["entries"][0][field] = value
            with pytest.raises(InvalidRecord, match="was changed"):
                release_files.load(json.dumps(changed))
        with pytest.raises(InvalidRecord, match="was changed"):
            release_files.load(json.dumps({**data, "name": "2.0"}))

    def test_what_is_no_release(self, farm: Farm) -> None:
        data = json.loads(self._file(farm))
        entry = data["entries"][0]
        broken = [
            "", "[]", "{}", "null", "[" * 100_000,
            json.dumps({**data, "version": 2}),
            json.dumps({**data, "digest": None}),
            json.dumps({**data, "entries": [1]}),
            json.dumps({**data, "entries": [{**entry, "more": 1}]}),
            json.dumps({**data, "entries": [{**entry, "cost": "1"}]}),
            json.dumps({**data, "entries": [{**entry, "cost": float("nan")}]}),
            json.dumps({**data, "entries": [{**entry, "trace": None}]}),
            json.dumps({**data, "entries": [{**entry, "spec": []}]}),
            json.dumps({**data, "entries": [entry, entry]}),
        ]  # fmt: skip
        for text in broken:
            with pytest.raises(InvalidRecord):
                release_files.load(text)
