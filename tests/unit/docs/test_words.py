"""Plain language: short sentences, docstrings that begin with what a thing does, and one class for each name."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.kit.docs_pages import PAGES
from tests.kit.places import DOCS, ROOT
from tests.kit.statements import inner

PACKAGES = ("compiler", "rpc_server", "tracker", "tuner", "tunefarm", "webui")
SCRIPTS = (".ci", "benchmarks", "examples", "migrations", "deploy", "tests")
"""Folders of scripts and tests, whose docstrings open as those of the packages do."""
LONGEST = 30
"""Words of a sentence."""
FIRST = 100
"""Characters of a docstring's first sentence."""
ALIKE = 0.6
"""Part of the words of two paragraphs that both have, from which on they say the same."""
TABLES = {"relax-operators.md", "tvm-compatibility.md", "onnx-conformance.md"}
"""Pages that are generated."""
CODE = re.compile(r"^(?: {3,}.*|.*→.*|\w+ = .*)$", re.MULTILINE)
"""Lines of a docstring that show code, or what becomes of it."""
CONDITION = re.compile(r"(As|That|Of|With|Whose|What|If|When|While|Without|Unless|Until)\b")
OPENING = re.compile(rf"""["']\s*{CONDITION.pattern}""")


def sentences(text: str) -> list[str]:
    """The sentences of a page: no code, tables or headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    found = []
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\n(?=[#|<])", text):
        lines = part.strip("\n").splitlines()
        if part.strip().startswith(("#", "|", "<")) or all(line.startswith("    ") for line in lines):
            continue
        plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "x", part))
        found += re.split(r"(?<=[.!?])\s+", plain.replace("\n", " "))
    return found


def words(sentence: str) -> int:
    return len(re.findall(r"[^\W_][\w'’./×-]*", sentence))


@pytest.mark.parametrize(
    "page", [ROOT / "CHANGELOG.md", *(page for page in PAGES if page.name not in TABLES)], ids=lambda page: page.name
)
def test_sentences_are_short(page: Path) -> None:
    long = [sentence for sentence in sentences(page.read_text()) if words(sentence) > LONGEST]
    assert not long, "\n".join(long)


Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Source:
    """A file's docstrings, each with its place, and the names of its public classes."""

    docstrings: list[tuple[str, str]]
    classes: list[str]


@cache
def sources() -> dict[str, Source]:
    """Read every file of the packages. The trees are not kept: the garbage collector would go through them all."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): read(path) for path in paths}


def read(path: Path) -> Source:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = Source([], [])
    for node in definitions(tree):
        if text := ast.get_docstring(node):
            found.docstrings.append((f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    found.classes += [name for name in classes if not name.startswith("_")]
    return found


def definitions(node: ast.AST) -> Iterator[Definition]:
    """All that may have a docstring; expressions, most of a tree, hold none."""
    if isinstance(node, Definition):
        yield node
    for statement in inner(node):
        yield from definitions(statement)


def docstrings() -> Iterator[tuple[str, str]]:
    for source in sources().values():
        yield from source.docstrings


def may_open_so(path: Path) -> bool:
    """Whether some text of a file opens with a condition; parsing all of them takes long."""
    return OPENING.search(path.read_text(encoding="utf-8")) is not None


def test_no_docstring_opens_with_a_condition() -> None:
    scripts = [path for folder in SCRIPTS for path in sorted((ROOT / folder).rglob("*.py")) if may_open_so(path)]
    texts = [*docstrings(), *(found for path in scripts for found in read(path).docstrings)]
    found = [f"{where}: {text[:60]}" for where, text in texts if CONDITION.match(text)]
    assert not found, "\n".join(found)


def test_sentences_of_docstrings_are_short() -> None:
    found = [
        f"{where}: {sentence}"
        for where, text in docstrings()
        for sentence in sentences(CODE.sub("", text))
        if words(sentence) > LONGEST
    ]
    assert not found, "\n".join(found)


def test_no_docstring_says_a_thing_twice() -> None:
    found = []
    for where, text in docstrings():
        parts = [part for part in re.split(r"\n\s*\n", CODE.sub("", text)) if not part.strip().startswith("|")]
        prose = [named for part in parts if len(named := set(re.findall(r"\w+", part))) > 3]
        if any(len(a & b) > ALIKE * len(a | b) for at, a in enumerate(prose) for b in prose[:at]):
            found.append(f"{where}: {text[:60]}")
    assert not found, "\n".join(found)


def test_docstrings_begin_with_a_short_sentence() -> None:
    found = [
        f"{where}: {first}"
        for where, text in docstrings()
        if len(first := re.split(r"(?<=[.!?])\s", text.partition("\n\n")[0].replace("\n", " "))[0]) > FIRST
    ]
    assert not found, "\n".join(found)


FACES = (
    "compiler/faces/", "compiler/frontend/", "compiler/relax/", "compiler/te/", "compiler/tir/", "tuner/faces/",
    "tunefarm/",
)  # fmt: skip
"""Where Apache TVM's names are: they stay as they are."""
COMMANDS = "tunefarm/cli/"
"""The command line has none of those names."""
VIEWS = "webui/api"


def several() -> dict[str, list[str]]:
    """The names of public classes that several files have, faces and views apart."""
    places: dict[str, list[str]] = defaultdict(list)
    for place, source in sources().items():
        if place.startswith(COMMANDS) or not place.startswith((*FACES, VIEWS)):
            for name in source.classes:
                places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_a_name_belongs_to_one_class() -> None:
    assert not several(), "choose another word"


ELSEWHERE = {
    "Analyzer", "Attrs", "DummyRunner", "FuncType", "Function", "TensorType", "TupleGetItem", "TupleType", "Type",
    "Node",
}  # fmt: skip
"""Names of Apache TVM that tests/data/tvm_names.json does not list, and ONNX's word for a use of an operator."""


def test_names_that_several_classes_share_are_apache_tvms() -> None:
    """Faces included: what is our own has a name of its own."""
    names = json.loads((ROOT / "tests" / "data" / "tvm_names.json").read_text())["names"]
    shared = {name.rpartition(".")[2] for name in names} | ELSEWHERE
    places: dict[str, list[str]] = defaultdict(list)
    for place, source in sources().items():
        for name in source.classes if not place.startswith(VIEWS) else ():
            places[name].append(place)
    found = {name: at for name, at in places.items() if len(at) > 1 and name not in shared}
    assert not found, "choose another word"


SHARED = {
    "Analyzer", "Attrs", "Call", "IndexMap", "MeasureResult", "Module", "Node", "Object", "Profiler", "Schedule",
    "Trace", "Workload",
}  # fmt: skip
"""Names of Apache TVM that a class outside of its faces has, too: what the face stands for, or a message's name."""


def test_few_names_of_apache_tvm_are_used_outside_of_its_faces() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for place, source in sources().items():
        for name in source.classes if not place.startswith(VIEWS) else ():
            places[name].append(place)
    found = {name for name, at in places.items() if len(at) > 1 and not all(place.startswith(FACES) for place in at)}
    assert found == SHARED, "choose another word, or take it off the list"


PRIVATE = re.compile(r"(?<![a-z])(landing|knock|desk|approach|strays?|seal)(?![a-z])", re.IGNORECASE)
"""Words that only their author understood; docs/glossary.md has those to use."""


def test_no_file_or_definition_has_a_private_word() -> None:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    named = re.compile(r"^\s*(?:class|def) (\w+)", re.MULTILINE)
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for name in (path.stem, *named.findall(path.read_text(encoding="utf-8")))
        if PRIVATE.search(name.replace("_", " "))
    ]
    assert not found, "\n".join(found)


def test_the_glossary_is_in_order() -> None:
    rows = re.findall(r"^\| ([\w ]+) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)[1:]
    assert len(rows) > 30
    assert rows == sorted(rows)
