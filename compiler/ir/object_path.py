"""Where an object is inside another one: attribute by attribute, element by element, from the root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from compiler.errors import IRError


@dataclass(frozen=True)
class ObjectPath:
    """A path to an object from some root object: `ObjectPath.root().attr("body").array_index(2)`.

    Paths are values: equal when all their steps are, and immutable. `len(path)` counts the steps, the root included.
    """

    parent: ObjectPath | None = None

    @staticmethod
    def root(root_name: str | None = None) -> RootPath:
        """The path to the root itself."""
        return RootPath(None, root_name)

    def attr(self, attr_key: str | None) -> ObjectPath:
        """To an attribute; None: to one that nothing is known about."""
        return UnknownAttributeAccessPath(self) if attr_key is None else AttributeAccessPath(self, attr_key)

    def array_index(self, index: int) -> ArrayIndexPath:
        """To an element of an array."""
        return ArrayIndexPath(self, index)

    def missing_array_element(self, index: int) -> MissingArrayElementPath:
        """To where an array would have an element that it does not have."""
        return MissingArrayElementPath(self, index)

    def map_value(self, key: Any) -> MapValuePath:
        """To the value of a key."""
        return MapValuePath(self, key)

    def missing_map_entry(self) -> MissingMapEntryPath:
        """To an entry that a map does not have."""
        return MissingMapEntryPath(self)

    def __len__(self) -> int:
        return 1 if self.parent is None else len(self.parent) + 1

    def __bool__(self) -> bool:
        return True

    def get_prefix(self, length: int) -> ObjectPath:
        """The first `length` steps. Raises IRError unless 1 <= length <= len(path)."""
        if not 1 <= length <= len(self):
            raise IRError(f"the path {self} has prefixes of 1 to {len(self)} steps, not {length}")
        path = self
        for _ in range(len(self) - length):
            assert path.parent is not None
            path = path.parent
        return path

    def is_prefix_of(self, other: ObjectPath) -> bool:
        """Whether `other` starts with all steps of this path (or is equal)."""
        return len(self) <= len(other) and other.get_prefix(len(self)) == self

    def follow(self, root: Any) -> Any:
        """Return the object to which the path leads from `root`.
        If a step is missing, return the last object on the way."""
        found = root
        for length in range(2, len(self) + 1):
            try:
                match self.get_prefix(length):
                    case AttributeAccessPath(attr_key=key):
                        found = getattr(found, key)
                    case ArrayIndexPath(index=index):
                        found = found[index]
                    case MapValuePath(key=key):
                        found = found[key]
                    case _:
                        break
            except (AttributeError, IndexError, KeyError, TypeError):
                break
        return found

    def __str__(self) -> str:
        return f"{'' if self.parent is None else self.parent}{self._step()}"

    __repr__ = __str__

    def _step(self) -> str:
        return ""


@dataclass(frozen=True, repr=False)
class RootPath(ObjectPath):
    """The start of a path."""

    name: str | None = None

    def _step(self) -> str:
        return self.name or "<root>"


@dataclass(frozen=True, repr=False)
class UnknownAttributeAccessPath(ObjectPath):
    """Some attribute."""

    def _step(self) -> str:
        return ".<unknown attribute>"


@dataclass(frozen=True, repr=False)
class AttributeAccessPath(ObjectPath):
    """The attribute `attr_key`."""

    attr_key: str = ""

    def _step(self) -> str:
        return f".{self.attr_key}"


@dataclass(frozen=True, repr=False)
class ArrayIndexPath(ObjectPath):
    """The element `index`."""

    index: int = 0

    def _step(self) -> str:
        return f"[{self.index}]"


@dataclass(frozen=True, repr=False)
class MissingArrayElementPath(ArrayIndexPath):
    """The element `index`, which is not there."""

    def _step(self) -> str:
        return f"[<missing element #{self.index}>]"


@dataclass(frozen=True, repr=False)
class MapValuePath(ObjectPath):
    """The value of `key`."""

    key: Any = None

    def _step(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True, repr=False)
class MissingMapEntryPath(ObjectPath):
    """An entry that is not there."""

    def _step(self) -> str:
        return "[<missing entry>]"


class ObjectPathPair(NamedTuple):
    """Two paths, one for each object of a comparison: where one first differs from the other."""

    lhs_path: ObjectPath
    rhs_path: ObjectPath

    def __str__(self) -> str:
        return f"{self.lhs_path} and {self.rhs_path}"
