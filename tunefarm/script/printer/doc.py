"""Documents: the parts of a Python text, which `doc_printer.to_python_script` writes.

A document may say which objects it was made of (`source_paths`), so that the text can underline them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from compiler.ir.object_path import ObjectPath

__all__ = [
    "AssertDoc", "AssignDoc", "AttrAccessDoc", "CallDoc", "ClassDoc", "CommentDoc", "DictDoc", "Doc", "DocStringDoc",
    "ExprDoc", "ExprStmtDoc", "ForDoc", "FunctionDoc", "IdDoc", "IfDoc", "IndexDoc", "LambdaDoc", "ListDoc",
    "LiteralDoc", "OperationDoc", "OperationKind", "ReturnDoc", "ScopeDoc", "SliceDoc", "StmtBlockDoc", "StmtDoc",
    "TupleDoc", "WhileDoc",
]  # fmt: skip


class OperationKind(IntEnum):
    """The kind of an operation; the numbers are Apache TVM's."""

    _UnaryStart = 0
    USub = 1
    Invert = 2
    Not = 3
    _UnaryEnd = 4
    _BinaryStart = 5
    Add = 6
    Sub = 7
    Mult = 8
    Div = 9
    FloorDiv = 10
    Mod = 11
    Pow = 12
    LShift = 13
    RShift = 14
    BitAnd = 15
    BitOr = 16
    BitXor = 17
    Lt = 18
    LtE = 19
    Eq = 20
    NotEq = 21
    Gt = 22
    GtE = 23
    And = 24
    Or = 25
    _BinaryEnd = 26
    _SpecialStart = 27
    IfThenElse = 28
    _SpecialEnd = 29


class Doc:
    """A part of a text."""

    source_paths: Sequence[ObjectPath]

    def __init__(self) -> None:
        self.source_paths = []


class ExprDoc(Doc):
    """An expression."""

    def attr(self, name: str) -> AttrAccessDoc:
        """Return the document of an attribute of this."""
        return AttrAccessDoc(self, name)

    def call(self, *args: ExprDoc, **kwargs: ExprDoc) -> CallDoc:
        """Return the document of a call of this."""
        return CallDoc(self, *args, **kwargs)

    def __getitem__(self, indices: Any) -> IndexDoc:
        return IndexDoc(self, list(indices) if isinstance(indices, tuple) else [indices])

    def __iter__(self) -> Any:
        raise RuntimeError(f"{type(self).__name__} cannot be gone through")


class StmtDoc(Doc):
    """A statement, with a comment if it has one."""

    comment: str | None

    def __init__(self) -> None:
        super().__init__()
        self.comment = None


class StmtBlockDoc(Doc):
    """Statements, one after another."""

    def __init__(self, stmts: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.stmts = list(stmts)


class LiteralDoc(ExprDoc):
    """A number, a text, a truth value or None."""

    def __init__(self, value: str | float | bool | None, path: ObjectPath | None = None) -> None:
        super().__init__()
        self.value = value
        if path is not None:
            self.source_paths = [path]


class IdDoc(ExprDoc):
    """A name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class AttrAccessDoc(ExprDoc):
    """`value.name`."""

    def __init__(self, value: ExprDoc, name: str) -> None:
        super().__init__()
        self.value, self.name = value, name


class IndexDoc(ExprDoc):
    """`value[indices]`."""

    def __init__(self, value: ExprDoc, indices: Sequence[ExprDoc]) -> None:
        super().__init__()
        self.value, self.indices = value, list(indices)


class CallDoc(ExprDoc):
    """`callee(*args, **kwargs)`."""

    def __init__(self, callee: ExprDoc, *args: ExprDoc, **kwargs: ExprDoc) -> None:
        super().__init__()
        self.callee, self.args = callee, list(args)
        self.kwargs_keys, self.kwargs_values = list(kwargs), list(kwargs.values())


class OperationDoc(ExprDoc):
    """An operator and what it is applied to."""

    def __init__(self, kind: OperationKind, operands: Sequence[ExprDoc]) -> None:
        super().__init__()
        self.kind, self.operands = OperationKind(kind), list(operands)


class LambdaDoc(ExprDoc):
    """`lambda args: body`."""

    def __init__(self, args: Sequence[IdDoc], body: ExprDoc) -> None:
        super().__init__()
        self.args, self.body = list(args), body


class TupleDoc(ExprDoc):
    """`(a, b)`."""

    def __init__(self, elements: Sequence[ExprDoc]) -> None:
        super().__init__()
        self.elements = list(elements)


class ListDoc(ExprDoc):
    """`[a, b]`."""

    def __init__(self, elements: Sequence[ExprDoc]) -> None:
        super().__init__()
        self.elements = list(elements)


class DictDoc(ExprDoc):
    """`{key: value}`."""

    def __init__(self, content: Mapping[ExprDoc, ExprDoc]) -> None:
        super().__init__()
        self.keys, self.values = list(content), list(content.values())


class SliceDoc(ExprDoc):
    """`start:stop:step`, an index."""

    def __init__(self, start: ExprDoc | None = None, stop: ExprDoc | None = None, step: ExprDoc | None = None) -> None:
        super().__init__()
        self.start, self.stop, self.step = start, stop, step


class AssignDoc(StmtDoc):
    """`lhs: annotation = rhs`. Raises ValueError without a right side and an annotation."""

    def __init__(self, lhs: ExprDoc, rhs: ExprDoc | None, annotation: ExprDoc | None = None) -> None:
        super().__init__()
        if rhs is None and annotation is None:
            raise ValueError("an assignment has a right side or an annotation")
        if annotation is not None and not isinstance(lhs, IdDoc):
            raise ValueError("only a name can be annotated")
        self.lhs, self.rhs, self.annotation = lhs, rhs, annotation


class IfDoc(StmtDoc):
    """`if predicate: … else: …`. Raises ValueError where both branches are empty."""

    def __init__(self, predicate: ExprDoc, then_branch: Sequence[StmtDoc], else_branch: Sequence[StmtDoc]) -> None:
        super().__init__()
        if not then_branch and not else_branch:
            raise ValueError("an if has statements in one of its branches")
        self.predicate, self.then_branch, self.else_branch = predicate, list(then_branch), list(else_branch)


class WhileDoc(StmtDoc):
    """`while predicate: …`."""

    def __init__(self, predicate: ExprDoc, body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.predicate, self.body = predicate, list(body)


class ForDoc(StmtDoc):
    """`for lhs in rhs: …`."""

    def __init__(self, lhs: ExprDoc, rhs: ExprDoc, body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.lhs, self.rhs, self.body = lhs, rhs, list(body)


class ScopeDoc(StmtDoc):
    """`with rhs as lhs: …`."""

    def __init__(self, lhs: ExprDoc | None, rhs: ExprDoc, body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.lhs, self.rhs, self.body = lhs, rhs, list(body)


class ExprStmtDoc(StmtDoc):
    """An expression that stands alone."""

    def __init__(self, expr: ExprDoc) -> None:
        super().__init__()
        self.expr = expr


class AssertDoc(StmtDoc):
    """`assert test, msg`."""

    def __init__(self, test: ExprDoc, msg: ExprDoc | None = None) -> None:
        super().__init__()
        self.test, self.msg = test, msg


class ReturnDoc(StmtDoc):
    """`return value`."""

    def __init__(self, value: ExprDoc) -> None:
        super().__init__()
        self.value = value


class FunctionDoc(StmtDoc):
    """A function; its arguments are assignments of their defaults."""

    def __init__(
        self, name: IdDoc, args: Sequence[AssignDoc], decorators: Sequence[ExprDoc], return_type: ExprDoc | None,
        body: Sequence[StmtDoc],
    ) -> None:  # fmt: skip
        super().__init__()
        self.name, self.args, self.decorators = name, list(args), list(decorators)
        self.return_type, self.body = return_type, list(body)


class ClassDoc(StmtDoc):
    """A class."""

    def __init__(self, name: IdDoc, decorators: Sequence[ExprDoc], body: Sequence[StmtDoc]) -> None:
        super().__init__()
        self.name, self.decorators, self.body = name, list(decorators), list(body)


class CommentDoc(StmtDoc):
    """A comment on lines of its own."""

    def __init__(self, comment: str) -> None:
        super().__init__()
        self.comment = comment


class DocStringDoc(StmtDoc):
    """A docstring."""

    def __init__(self, docs: str) -> None:
        super().__init__()
        self.comment = docs
