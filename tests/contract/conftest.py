"""Backends of the record store: every contract test of it runs on each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import httpx
import pytest

from tests.kit.records.farm import Farm
from tests.kit.records.postgres import postgres_database, postgres_server
from tests.kit.records.seed import FakeTracker
from tests.kit.web import running_app
from tuner.records.db.database import parse_url
from tuner.records.db.migrate import upgrade
from tuner.records.store import RecordStore


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A server's address."""
    with postgres_server() as address:
        yield address


@pytest.fixture(scope="session")
def postgres_template(postgres: str) -> Iterator[str]:
    """The name of a database with today's schema, to be copied: the migrations take longer than most tests."""
    with postgres_database(postgres) as address:
        upgrade(address)
        name = parse_url(address).database
        assert name is not None
        yield name


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address of an empty database."""
    if request.param == "sqlite":
        yield str(request.getfixturevalue("tmp_path") / "records.db")
        return
    with postgres_database(request.getfixturevalue("postgres")) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def current_address(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address of a database with today's schema and nothing in it."""
    if request.param == "sqlite":
        file = request.getfixturevalue("tmp_path") / "records.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), file)
        yield str(file)
        return
    template = request.getfixturevalue("postgres_template")
    with postgres_database(request.getfixturevalue("postgres"), template) as made:
        yield made


@pytest.fixture
def store(current_address: str) -> Iterator[RecordStore]:
    with RecordStore.open(current_address) as opened:
        yield opened


@pytest.fixture
def farm(store: RecordStore) -> Farm:
    return Farm(store)


@pytest.fixture
def api(seeded_store: RecordStore) -> Iterator[httpx.Client]:
    """A client of the web app, whose tracker is a stand-in."""
    with (
        running_app(seeded_store, FakeTracker()) as address,
        httpx.Client(base_url=f"{address}/api/v1", timeout=60) as client,
    ):
        yield client
