"""Best configs: the answer to "what is best here?", and what is beside it."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Engine

from tuner.goals import Goal
from tuner.records.db.base import StorePart, page_size
from tuner.records.db.database import asking, reading
from tuner.records.errors import InvalidRecord
from tuner.records.lookup import incumbent, lookup, near
from tuner.records.lookup.changes import ChangeWatch
from tuner.records.lookup.near import NearConfigs
from tuner.records.lookup.remembered import RememberedLookups
from tuner.records.model import BestConfig, BestLookup, RunnerUp, Workload


class BestRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._remembered = RememberedLookups(engine)

    def close(self) -> None:
        """End what `watch` gave out."""
        self._remembered.close()

    def look_up(
        self, workload_key: str, target: str, device_class: str | None = None, toolchain: str | None = None,
        goal: Goal = Goal.TIME,
    ) -> BestLookup:  # fmt: skip
        """The best config for a workload on a target and device class, and why that one.

        `exact`: everything asked for matches. `compatible`: the workload matches and its code runs here (same kind,
        same architecture, the features it needs are a subset of the target's). It is of this device class or of one
        declared to serve it; or it was measured with another toolchain; or several device classes match because none
        was asked for. Else a `miss`, whose `explain` says what there is instead. A config of another device class is
        never given undeclared. `toolchain` is a `keys.toolchain_key`; None takes the newest.

        With `goal` ENERGY, the config is the one that takes the fewest joules a call. Trials that told none are left
        out, and `explain` says so. Raises TargetError.
        """
        return self.look_up_all([workload_key], target, device_class, toolchain, goal)[workload_key]

    def look_up_all(
        self, workload_keys: Collection[str], target: str, device_class: str | None = None,
        toolchain: str | None = None, goal: Goal = Goal.TIME,
    ) -> dict[str, BestLookup]:  # fmt: skip
        """`look_up` of each of several workloads, in one state of the store and for about the price of one.

        A store that is asked often remembers answers until something that they rest on changes. On PostgreSQL, a
        change that another process committed may appear some milliseconds later; this store's own changes never do.
        Answers by energy are not remembered. Raises TargetError; InvalidRecord when they are more than
        `lookup.MOST_KEYS`.
        """
        if len(workload_keys) > lookup.MOST_KEYS:
            raise InvalidRecord(f"at most {lookup.MOST_KEYS} workloads are looked up at once, not {len(workload_keys)}")
        if goal is not Goal.TIME:
            return self._read(lambda c: lookup.best(c, workload_keys, target, device_class, toolchain, goal))
        place = target, device_class, toolchain
        return self._remembered.best_of(workload_keys, place, lambda keys: self._ask(keys, *place))

    def _ask(
        self, workload_keys: Collection[str], target: str, device_class: str | None, toolchain: str | None
    ) -> dict[str, BestLookup]:
        if self._engine.dialect.name != "sqlite":  # a transaction costs a server three more exchanges
            with asking(self._engine) as connection:
                found = lookup.exact(connection, workload_keys, target, device_class, toolchain)
            if found.keys() >= set(workload_keys):
                return found
        return self._read(lambda c: lookup.best(c, workload_keys, target, device_class, toolchain))

    def give_back(self, workload_key: str, target: str, device_class: str, keep: Collection[str] = ()) -> int:
        """Take a workload's trials there out of elections, except those of candidates `keep`.

        Returns their number. It is for candidates that were fastest alone, but slower in their model than those that
        `keep` names by digest. Later trials count again. The results of runs follow. Raises TargetError.
        """
        return self._write(lambda c: incumbent.give_back(c, workload_key, target, device_class, keep))

    def reject(self, workload_key: str, target: str, device_class: str, digest: str) -> int:
        """Take a candidate's trials of a workload there out of elections, as `give_back` does those of others.

        It is for one that failed when it was measured again. Returns the number of its trials.
        """
        return self._write(lambda c: incumbent.reject(c, workload_key, target, device_class, digest))

    def watch(self) -> ChangeWatch:
        """Watches whether the answer to any lookup may have changed.
        One watch serves all askers, and is closed with the store."""
        return self._remembered.watch()

    def page(
        self, after: int = 0, limit: int = 100, *, workload: str | None = None, target: str | None = None,
        device_class: str | None = None, goal: Goal = Goal.TIME,
    ) -> tuple[BestConfig, ...]:  # fmt: skip
        """Return best configs with an id above `after`, by id.
        They are of the workload (by key or name), target and device class given. With `goal` ENERGY, those that take
        the fewest joules, where trials told any."""
        with reading(self._engine) as connection:
            return lookup.best_configs(connection, after, page_size(limit), workload, target, device_class, goal)

    def newest(self, limit: int = 10) -> tuple[BestConfig, ...]:
        """The best configs that changed or were confirmed last, latest first."""
        with reading(self._engine) as connection:
            return lookup.newest(connection, page_size(limit))

    def get(self, config_id: int, goal: Goal = Goal.TIME) -> BestConfig:
        """One best config by its id, which stays the same when another candidate takes its place.
        The id stands for the place, so there is also a best by energy for it. Raises RecordNotFound."""
        with reading(self._engine) as connection:
            return lookup.best_config(connection, config_id, goal)

    def near(
        self, family: str, target: str, device_class: str | None = None, limit: int = 200
    ) -> tuple[tuple[Workload, BestConfig], ...]:
        """The newest configs that may be given on a target and device class.
        They are of all workloads of a family (see `keys.workload_family`), each with its workload. Adapted, they may
        serve another workload there. Raises TargetError."""
        return self._read(lambda c: lookup.near(c, family, target, device_class, page_size(limit)))

    def near_configs(
        self, family: str, target: str, device_class: str | None = None, known: int | None = None
    ) -> NearConfigs | None:
        """Return more configs than `near` does, in a few columns.

        None when `known` is the version of the last answer and that still holds. Raises TargetError.
        """
        return self._read(lambda c: near.near_configs(c, family, target, device_class, known))

    def runners_up(self, config: BestConfig, count: int = 8) -> tuple[RunnerUp, ...]:
        """Return the fastest other candidates, and whether they can be told from `config`.
        They are for the same workload, target, device class and toolchain. They are compared by energy where
        `config` was chosen by it."""
        return self._read(lambda c: lookup.runners_up(c, config, page_size(count)))
