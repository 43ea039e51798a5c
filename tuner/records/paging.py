"""Tables of the store, read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeVar

Row = TypeVar("Row")


def all_pages(
    read: Callable[[Any], Sequence[Row]], start: int | None = None, cursor: Callable[[Row], int] = attrgetter("id")
) -> Iterator[Row]:
    """Yield every row of the pages that `read` gives.
    First come those of `read(start)`, then those behind the last row's `cursor`."""
    at = start
    while page := read(at):
        yield from page
        at = cursor(page[-1])


def split_page(
    found: Sequence[Row], limit: int, cursor: Callable[[Row], int] = attrgetter("id")
) -> tuple[Sequence[Row], int | None]:
    """Return the first `limit` rows of `found`, which was asked for one more, and the next page's cursor.
    The last page has None."""
    page = found[:limit]
    return page, cursor(page[-1]) if len(found) > limit else None
