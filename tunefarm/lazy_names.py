"""Names of a package that are imported when they are first used.

A process that only runs a built model imports `tunefarm.relax` and `tunefarm.runtime`, and loads neither the
compiler nor the tuner.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tunefarm.compatibility import NameLookup, absent


def lazy_names(
    module: str, names: Mapping[str, str], parts: str, otherwise: NameLookup | None = None
) -> tuple[NameLookup, Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package.

    `names` has texts of names by the modules that they come from: "Tensor=NDArray" shows `NDArray` as `Tensor`.
    `parts` are modules of the package's own. `otherwise` is asked for names that are neither.
    """
    found = {name: (home, attribute) for home, name, attribute in _listed(names)}
    found |= {part: (f"{module}.{part}", "") for part in parts.split()}

    def lookup(name: str) -> Any:
        if name not in found:
            if otherwise is not None:
                return otherwise(name)
            raise AttributeError(absent(module, name))
        home, attribute = found[name]
        value = importlib.import_module(home)
        shown = getattr(value, attribute) if attribute else value
        setattr(sys.modules[module], name, shown)
        return shown

    return lookup, lambda: sorted({*vars(sys.modules[module]), *found})


def _listed(names: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    for home, text in names.items():
        for item in text.split():
            name, _, attribute = item.partition("=")
            yield home, name, attribute or name
