"""Write documents as Python text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.ir.object_path import ObjectPath
from tunefarm.script.printer import doc as d
from tunefarm.script.printer.doc import OperationKind as K

__all__ = ["to_python_script"]

_LAMBDA, _IF, _NOT, _UNARY, _POW, _ATOM = 0, 1, 4, 11, 12, 13
_UNARY_TEXT = {K.USub: ("-", _UNARY), K.Invert: ("~", _UNARY), K.Not: ("not ", _NOT)}
_BINARY = {
    K.Or: ("or", 2),
    K.And: ("and", 3),
    K.Lt: ("<", 5),
    K.LtE: ("<=", 5),
    K.Eq: ("==", 5),
    K.NotEq: ("!=", 5),
    K.Gt: (">", 5),
    K.GtE: (">=", 5),
    K.BitOr: ("|", 6),
    K.BitXor: ("^", 7),
    K.BitAnd: ("&", 8),
    K.LShift: ("<<", 9),
    K.RShift: (">>", 9),
    K.Add: ("+", 10),
    K.Sub: ("-", 10),
    K.Mult: ("*", 10.5),
    K.Div: ("/", 10.5),
    K.FloorDiv: ("//", 10.5),
    K.Mod: ("%", 10.5),
    K.Pow: ("**", _POW),
}
"""The text of an operator, and how tightly it binds, as in Python."""

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_LEAST_SKIPPED = 2  # fewer lines are shown, for a line would say that they are not


def to_python_script(
    doc: d.Doc,
    indent_spaces: int = 4,
    print_line_numbers: bool = False,
    num_context_lines: int | None = None,
    path_to_underline: Sequence[ObjectPath] | None = None,
) -> str:
    """Return the text of a document.

    Documents made of an object of `path_to_underline`, or of the nearest one around it, are underlined; then lines
    farther than `num_context_lines` (None: no limit) from them are left out. Raises ValueError for a comment of several
    lines on a statement of one line.
    """
    writer = _Writer(" " * indent_spaces, list(path_to_underline or ()))
    writer.any(doc)
    return writer.finished(print_line_numbers, num_context_lines)


@dataclass
class _Writer:
    """Collects the text, and the places in it of documents that could be underlined."""

    indent_text: str
    paths: list[ObjectPath]
    text: str = ""
    depth: int = 0
    spans: dict[int, tuple[int, list[tuple[int, int]]]] = field(default_factory=dict)  # of a path: depth, places

    # ------------------------------------------------------------------------- statements

    def any(self, doc: d.Doc) -> None:
        start = len(self.text)
        match doc:
            case d.StmtBlockDoc():
                self._block(doc.stmts)
            case d.StmtDoc():
                self._stmt(doc)
            case d.ExprDoc():
                self._expr(doc)
            case _:
                raise TypeError(f"{type(doc).__name__} is no document")
        self._mark(doc, start)

    def _block(self, stmts: Sequence[d.StmtDoc]) -> None:
        for at, stmt in enumerate(stmts):
            if at:
                self._line()
            self.any(stmt)
            if isinstance(stmt, d.FunctionDoc | d.ClassDoc) and at + 1 < len(stmts):
                self._line()

    def _line(self) -> None:
        """Begin a line; one that stays empty has no indent."""
        self.text = self.text.rstrip(" ") if self.text.endswith("\n" + self.indent_text * self.depth) else self.text
        self.text += "\n" + self.indent_text * self.depth

    def _put(self, text: str) -> None:
        self.text += text

    def _indented(self, body: Sequence[d.StmtDoc]) -> None:
        self.depth += 1
        self._line()
        if body:
            self._block(body)
        else:
            self._put("pass")
        self.depth -= 1

    def _stmt(self, doc: d.StmtDoc) -> None:
        match doc:
            case d.CommentDoc():
                for at, line in enumerate((doc.comment or "").splitlines()):
                    if at:
                        self._line()
                    self._put(f"# {line}")
            case d.DocStringDoc():
                self._docstring(doc.comment or "")
            case d.FunctionDoc() | d.ClassDoc():
                self._definition(doc)
            case d.IfDoc() | d.WhileDoc() | d.ForDoc() | d.ScopeDoc():
                self._comment_above(doc)
                self._compound(doc)
            case _:
                self._simple(doc)
                if doc.comment:
                    if "\n" in doc.comment:
                        raise ValueError("a comment on a statement of one line has one line")
                    self._put(f"  # {doc.comment}")

    def _comment_above(self, doc: d.StmtDoc) -> None:
        for line in (doc.comment or "").splitlines():
            self._put(f"# {line}")
            self._line()

    def _docstring(self, text: str) -> None:
        if not text:
            return
        for line in ['"""', *text.splitlines()]:
            self._put(line)
            self._line()
        self._put('"""')

    def _simple(self, doc: d.StmtDoc) -> None:
        match doc:
            case d.AssignDoc():
                self._assign(doc)
            case d.ExprStmtDoc():
                self.any(doc.expr)
            case d.AssertDoc():
                self._put("assert ")
                self._list([doc.test] if doc.msg is None else [doc.test, doc.msg])
            case d.ReturnDoc():
                self._put("return ")
                self.any(doc.value)
            case _:
                raise TypeError(f"{type(doc).__name__} is no statement")

    def _assign(self, doc: d.AssignDoc) -> None:
        self._open_tuple(doc.lhs)
        if doc.annotation is not None:
            self._put(": ")
            self.any(doc.annotation)
        if doc.rhs is not None:
            self._put(" = ")
            self._open_tuple(doc.rhs)

    def _open_tuple(self, doc: d.ExprDoc) -> None:
        """A tuple without its brackets, or another expression."""
        if isinstance(doc, d.TupleDoc):
            start = len(self.text)
            self._list(doc.elements)
            self._mark(doc, start)
        else:
            self.any(doc)

    def _compound(self, doc: d.StmtDoc) -> None:
        match doc:
            case d.IfDoc():
                self._put("if ")
                self.any(doc.predicate)
                self._put(":")
                self._indented(doc.then_branch)
                if doc.else_branch:
                    self._line()
                    self._put("else:")
                    self._indented(doc.else_branch)
            case d.WhileDoc():
                self._put("while ")
                self.any(doc.predicate)
                self._put(":")
                self._indented(doc.body)
            case d.ForDoc():
                self._put("for ")
                self._open_tuple(doc.lhs)
                self._put(" in ")
                self.any(doc.rhs)
                self._put(":")
                self._indented(doc.body)
            case d.ScopeDoc():
                self._put("with ")
                self.any(doc.rhs)
                if doc.lhs is not None:
                    self._put(" as ")
                    self.any(doc.lhs)
                self._put(":")
                self._indented(doc.body)

    def _definition(self, doc: d.FunctionDoc | d.ClassDoc) -> None:
        for decorator in doc.decorators:
            self._put("@")
            self.any(decorator)
            self._line()
        self._put("def " if isinstance(doc, d.FunctionDoc) else "class ")
        self.any(doc.name)
        if isinstance(doc, d.FunctionDoc):
            self._put("(")
            self._list(doc.args)
            self._put(")")
            if doc.return_type is not None:
                self._put(" -> ")
                self.any(doc.return_type)
        self._put(":")
        if not doc.comment:
            self._indented(doc.body)
            return
        self.depth += 1
        self._line()
        self._docstring(doc.comment)
        self.depth -= 1
        self._indented(doc.body)

    # ------------------------------------------------------------------------ expressions

    def _list(self, docs: Sequence[d.Doc]) -> None:
        for at, doc in enumerate(docs):
            if at:
                self._put(", ")
            self.any(doc)

    def _inside(self, doc: d.ExprDoc, tightness: float) -> None:
        """An operand, in brackets where it binds less tightly than `tightness`."""
        if _tightness(doc) >= tightness:
            self.any(doc)
            return
        self._put("(")
        self.any(doc)
        self._put(")")

    def _expr(self, doc: d.ExprDoc) -> None:
        match doc:
            case d.LiteralDoc():
                self._put(_literal(doc.value))
            case d.IdDoc():
                self._put(doc.name)
            case d.AttrAccessDoc():
                self._inside(doc.value, _ATOM)
                self._put(f".{doc.name}")
            case d.IndexDoc():
                self._inside(doc.value, _ATOM)
                self._put("[" if doc.indices else "[()")
                self._list(doc.indices)
                self._put("]")
            case d.CallDoc():
                self._call(doc)
            case d.OperationDoc():
                self._operation(doc)
            case d.LambdaDoc():
                self._put("lambda ")
                self._list(doc.args)
                self._put(": ")
                self.any(doc.body)
            case d.TupleDoc():
                self._put("(")
                self._list(doc.elements)
                self._put(",)" if len(doc.elements) == 1 else ")")
            case d.ListDoc():
                self._put("[")
                self._list(doc.elements)
                self._put("]")
            case d.DictDoc():
                self._dict(doc)
            case d.SliceDoc():
                self._slice(doc)

    def _call(self, doc: d.CallDoc) -> None:
        self._inside(doc.callee, _ATOM)
        self._put("(")
        self._list(doc.args)
        for at, (name, value) in enumerate(zip(doc.kwargs_keys, doc.kwargs_values)):
            self._put(f", {name}=" if at or doc.args else f"{name}=")
            self.any(value)
        self._put(")")

    def _dict(self, doc: d.DictDoc) -> None:
        self._put("{")
        for at, (key, value) in enumerate(zip(doc.keys, doc.values)):
            if at:
                self._put(", ")
            self.any(key)
            self._put(": ")
            self.any(value)
        self._put("}")

    def _slice(self, doc: d.SliceDoc) -> None:
        if doc.start is not None:
            self.any(doc.start)
        self._put(":")
        if doc.stop is not None:
            self.any(doc.stop)
        if doc.step is not None:
            self._put(":")
            self.any(doc.step)

    def _operation(self, doc: d.OperationDoc) -> None:
        if doc.kind in _UNARY_TEXT:
            text, own = _UNARY_TEXT[doc.kind]
            self._put(text)
            self._inside(doc.operands[0], own)
        elif doc.kind is K.IfThenElse:
            predicate, first, second = doc.operands
            self._inside(first, _IF + 1)
            self._put(" if ")
            self._inside(predicate, _IF + 1)
            self._put(" else ")
            self._inside(second, _IF + 1)
        else:
            text, tight = _BINARY[doc.kind]
            left, right = (tight + 0.1, _UNARY) if doc.kind is K.Pow else (tight, tight + 0.1)
            self._inside(doc.operands[0], left)
            self._put(f" {text} ")
            self._inside(doc.operands[1], right)

    # -------------------------------------------------------------------------- underlines

    def _mark(self, doc: d.Doc, start: int) -> None:
        """Keep the document's place if it is nearer to a requested path than earlier ones."""
        for number, wanted in enumerate(self.paths):
            for path in doc.source_paths:
                if not path.is_prefix_of(wanted):
                    continue
                depth = _length(path)
                known, places = self.spans.get(number, (-1, []))
                if depth > known:
                    known, places = depth, []
                if depth == known:
                    self.spans[number] = (known, [*places, (start, len(self.text))])

    def finished(self, with_numbers: bool, context: int | None) -> str:
        lines = self.text.split("\n")
        marked = self._underlined(lines)
        width = len(str(len(lines))) + 1 if with_numbers else 0
        out: list[str] = []
        shown = self._shown(len(lines), sorted(marked), context)
        at = 0
        while at < len(lines):
            if not shown[at]:
                end = next((i for i in range(at, len(lines)) if shown[i]), len(lines))
                out.append(f"(... {end - at} lines skipped ...)")
                at = end
                continue
            number = f"{at + 1:>{width - 1}} " if with_numbers else ""
            out.append(number + lines[at])
            if at in marked:
                out.append(" " * width + marked[at])
            at += 1
        return "\n".join(out).rstrip("\n") if marked else "\n".join(out)

    def _underlined(self, lines: list[str]) -> dict[int, str]:
        """The lines that have something underlined, with the line that goes below."""
        asked = [place for _, places in self.spans.values() for place in places]
        marked: dict[int, str] = {}
        offset = 0
        for at, line in enumerate(lines):
            carets = [" "] * len(line)
            first = len(line) - len(line.lstrip())
            for start, end in asked:
                for column in range(max(start - offset, first), min(end - offset, len(line))):
                    carets[column] = "^"
            if "^" in carets:
                marked[at] = "".join(carets).rstrip()
            offset += len(line) + 1
        return marked

    def _shown(self, count: int, marked: list[int], context: int | None) -> list[bool]:
        if context is None or not marked:
            return [True] * count
        shown = [any(abs(at - line) <= context for line in marked) for at in range(count)]
        start = 0
        while start < count:
            end = next((i for i in range(start, count) if shown[i] != shown[start]), count)
            if not shown[start] and end - start < _LEAST_SKIPPED:
                shown[start:end] = [True] * (end - start)
            start = end
        return shown


def _tightness(doc: d.ExprDoc) -> float:
    match doc:
        case d.LambdaDoc():
            return _LAMBDA
        case d.OperationDoc():
            if doc.kind is K.IfThenElse:
                return _IF
            return _UNARY_TEXT[doc.kind][1] if doc.kind in _UNARY_TEXT else _BINARY[doc.kind][1]
    return _ATOM


def _length(path: ObjectPath) -> int:
    count, here = 0, path.parent
    while here is not None:
        count, here = count + 1, here.parent
    return count


def _literal(value: object) -> str:
    match value:
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case float() if not math.isfinite(value):
            return f'"{value}"'
        case float():
            return f"{value:.17g}"
    return repr(value)
