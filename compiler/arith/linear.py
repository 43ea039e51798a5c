"""The normal form of integer expressions: a constant plus integer multiples of atoms.

An `Atom` is whatever is not a sum or a multiple: a variable, a quotient or remainder, a product of atoms, a
minimum, a load. Atoms are interned by the `Analyzer` that made them, so equal ones are one object and a sum
is a plain dict from atom to coefficient. Bounds are ints, or minus and plus infinity (floats) where unknown.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import itemgetter

from compiler.arith.bounds import Bounds, weighted_sum
from compiler.ir.base import GlobalVar, Node
from compiler.ir.visit import children
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes.expr import unchecked_binary
from compiler.tir.visit import free_vars

# kinds of atom
VAR, OPAQUE, SPLIT, DIV, MOD, MUL, MIN, MAX = range(8)


class Atom:
    """A term of a sum.

    `x`, `y` are the operands of DIV, MOD, MIN and MAX. SPLIT is `(x mod upper) // lower` with constants
    (`upper` 0: no remainder taken), which covers quotients, remainders and both together. MUL is the product
    of `factors`. `rank` orders atoms of equal coefficient in the output.
    """

    __slots__ = ("_free", "expr", "factors", "hi", "kind", "lo", "lower", "rank", "upper", "x", "y")

    def __init__(self, kind: int, expr: PrimExpr, lo: float, hi: float, rank: tuple[int, str, int]) -> None:
        self.kind = kind
        self.expr = expr
        self.lo = lo
        self.hi = hi
        self.rank = rank
        self.x = self.y = ZERO
        self.lower = 1
        self.upper = 0
        self.factors: tuple[Atom, ...] = (self,)
        self._free: frozenset[n.Var] | None = None

    @property
    def free(self) -> frozenset[n.Var]:
        """The variables it reads."""
        if self._free is None:
            self._free = frozenset(free_vars(self.expr))
        return self._free

    def __repr__(self) -> str:
        return f"Atom({self.rank[1]})"


class Lin:
    """const + sum(coefficient * atom). Coefficients are never 0. Not changed once made."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[Atom, int], const: int) -> None:
        self.terms = terms
        self.const = const

    def bounds(self) -> Bounds:
        """The least and greatest value, from the bounds of the atoms."""
        return weighted_sum([((atom.lo, atom.hi), c) for atom, c in self.terms.items()], self.const)

    def single(self) -> Atom | None:
        """The atom that is all of this sum, if one is."""
        if self.const == 0 and len(self.terms) == 1:
            ((atom, c),) = self.terms.items()
            if c == 1:
                return atom
        return None

    def key(self) -> Hashable:
        return frozenset(self.terms.items()), self.const

    def text(self) -> str:
        parts = [a.rank[1] if c == 1 else f"{a.rank[1]}*{c}" for a, c in ordered(self.terms)]
        if self.const or not parts:
            parts.append(str(self.const))
        return "+".join(parts)

    def __repr__(self) -> str:
        return f"Lin({self.text()})"


ZERO = Lin({}, 0)


def plus(a: Lin, b: Lin, scale: int = 1) -> Lin:
    """a + scale * b."""
    terms = dict(a.terms)
    add_into(terms, b, scale)
    return Lin(terms, a.const + scale * b.const)


def add_into(terms: dict[Atom, int], b: Lin, scale: int) -> None:
    """terms += scale * b, without b's constant."""
    for atom, c in b.terms.items():
        total = terms.get(atom, 0) + c * scale
        if total:
            terms[atom] = total
        else:
            terms.pop(atom, None)


def scaled(a: Lin, factor: int) -> Lin:
    if factor == 1:
        return a
    if factor == 0:
        return ZERO
    return Lin({atom: c * factor for atom, c in a.terms.items()}, a.const * factor)


def ordered(terms: dict[Atom, int]) -> list[tuple[Atom, int]]:
    """The terms in output order: greatest coefficient first, then products, then by name."""
    if len(terms) == 1:
        return list(terms.items())
    items = [(-c if c > 0 else c, atom.rank, atom, c) for atom, c in terms.items()]
    items.sort(key=itemgetter(0, 1))
    return [(atom, c) for _, _, atom, c in items]


# ---------------------------------------------------------------------------------- rendering


_IMM: dict[tuple[str, int], n.IntImm] = {}


def imm(dtype: str, value: int) -> n.IntImm:
    """An integer constant; small ones are shared."""
    if not -1024 <= value <= 65536:
        return n.IntImm(dtype, value)
    node = _IMM.get((dtype, value))
    if node is None:
        node = _IMM[dtype, value] = n.IntImm(dtype, value)
    return node


def render(lin: Lin, dtype: str, like: PrimExpr | None = None) -> PrimExpr:
    """`lin` as an expression; `like` itself when it has exactly that form already."""
    const = lin.const
    if not lin.terms:
        if type(like) is n.IntImm and like.value == const:
            return like
        return imm(dtype, const)
    items = ordered(lin.terms)
    if items[0][1] < 0:
        lead = next((i for i, item in enumerate(items) if item[1] > 0), -1)
        if lead >= 0:
            items.insert(0, items.pop(lead))
        elif const > 0:
            return _subtract(imm(dtype, const), items, dtype)
    if like is not None and _has_form(like, items, const):
        return like
    atom, c = items[0]
    first = atom.expr if c == 1 else unchecked_binary(n.Mul, atom.expr, imm(dtype, c), dtype)
    result = _subtract(first, items[1:], dtype)
    if const > 0:
        return unchecked_binary(n.Add, result, imm(dtype, const), dtype)
    return unchecked_binary(n.Sub, result, imm(dtype, -const), dtype) if const else result


def _subtract(result: PrimExpr, items: list[tuple[Atom, int]], dtype: str) -> PrimExpr:
    """`result` plus the items, negative ones as subtractions."""
    for atom, c in items:
        if c > 0:
            term = atom.expr if c == 1 else unchecked_binary(n.Mul, atom.expr, imm(dtype, c), dtype)
            result = unchecked_binary(n.Add, result, term, dtype)
        else:
            term = atom.expr if c == -1 else unchecked_binary(n.Mul, atom.expr, imm(dtype, -c), dtype)
            result = unchecked_binary(n.Sub, result, term, dtype)
    return result


def _has_form(expr: PrimExpr, items: list[tuple[Atom, int]], const: int) -> bool:
    if const:
        if not isinstance(expr, n.Add if const > 0 else n.Sub):
            return False
        if type(expr.b) is not n.IntImm or expr.b.value != abs(const):
            return False
        expr = expr.a
    for position in range(len(items) - 1, 0, -1):
        atom, c = items[position]
        if not isinstance(expr, n.Add if c > 0 else n.Sub) or not _is_term(expr.b, atom, abs(c)):
            return False
        expr = expr.a
    return _is_term(expr, *items[0])


def _is_term(expr: PrimExpr, atom: Atom, c: int) -> bool:
    if c != 1:
        if type(expr) is not n.Mul or type(expr.b) is not n.IntImm or expr.b.value != c:
            return False
        expr = expr.a
    return expr is atom.expr or (atom.kind != VAR and same_expr(expr, atom.expr))


def same_expr(a: Node, b: Node) -> bool:
    """Whether two expressions have the same structure over the same variables and buffers."""
    if a is b:
        return True
    cls = type(a)
    if cls is not type(b) or isinstance(a, n.Var):
        return False
    if isinstance(a, n.BinaryOp):
        return same_expr(a.a, b.a) and same_expr(a.b, b.b)  # type: ignore[attr-defined]
    return expr_key(a) == expr_key(b)


def expr_key(expr: Node) -> Hashable:
    """Return a key that is equal for expressions of one structure over the same variables and buffers."""
    match expr:
        case n.Var():
            return id(expr)
        case n.IntImm() | n.FloatImm() | n.StringImm():
            return type(expr).__name__, expr.dtype, repr(expr.value)
    extra: Hashable = getattr(expr, "dtype", None)
    match expr:
        case n.Call():
            extra = expr.dtype, expr.op.name_hint if isinstance(expr.op, GlobalVar) else expr.op.name
            if not isinstance(expr.op, GlobalVar) and not expr.op.pure:
                extra = id(expr)
        case n.BufferLoad():
            extra = id(expr.buffer), expr.predicate is None
        case n.ProducerLoad():
            extra = id(expr.producer)
        case n.Let() | n.Reduce():
            extra = id(expr)
    return type(expr), extra, tuple(map(expr_key, children(expr)))


def brief(expr: Node) -> str:
    """A short text of an expression: the same for the same structure and names."""
    match expr:
        case n.Var():
            return expr.name
        case n.IntImm() | n.FloatImm() | n.StringImm():
            return repr(expr.value)
    head = type(expr).__name__
    match expr:
        case n.Call():
            head = expr.op.name_hint if isinstance(expr.op, GlobalVar) else expr.op.name
        case n.BufferLoad():
            head = expr.buffer.name
        case n.ProducerLoad():
            head = str(expr.producer)
        case n.Cast():
            head = expr.dtype
    return f"{head}({','.join(map(brief, children(expr)))})"
