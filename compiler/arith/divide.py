"""Floor division and modulo of sums, and putting quotients and remainders back together.

All rewrites are exact for every integer. With d > 0 and g > 0 dividing d:

    (d*a + b) // d  =  a + b // d                 (d*a + b) % d  =  b % d
    (g*a + b) // d  =  (a + b//g) // (d/g)        (g*a + b) % d  =  g*((a + b//g) % (d/g)) + b%g
    (x//a + c) // b =  (x + a*c) // (a*b)         x//a % b       =  (x % (a*b)) // a
"""

from __future__ import annotations

from math import gcd

from compiler.arith.atoms import Atoms, multiply
from compiler.arith.bounds import NEG, POS
from compiler.arith.linear import DIV, MOD, MUL, SPLIT, ZERO, Atom, Lin, plus, scaled
from compiler.arith.prove import is_negative
from compiler.errors import IRError


def _constant(value: int) -> Lin:
    return Lin({}, value)


def _period(x: Lin, size: int) -> int | None:
    """k when every value of x is in [k*size, (k+1)*size), else None."""
    lo, hi = x.bounds()
    if lo == NEG or hi == POS:
        return None
    k = int(lo) // size
    return k if int(hi) // size == k else None


def drop_small(x: Lin, size: int) -> tuple[Lin, Lin] | None:
    """x as (whole, part) with x = size*whole + part and 0 <= part < size; None when it cannot be shown.

    `whole` takes the terms whose coefficients `size` divides.
    """
    whole: dict[Atom, int] = {}
    part: dict[Atom, int] = {}
    for atom, c in x.terms.items():
        if c % size:
            part[atom] = c
        else:
            whole[atom] = c // size
    if not whole:
        return None
    quotient, rest = divmod(x.const, size)
    small = Lin(part, rest)
    k = _period(small, size)
    if k is None:
        return None
    return Lin(whole, quotient + k), Lin(part, rest - k * size)


def _shares(x: Lin, d: int) -> list[int]:
    """Yield divisors of d that a coefficient of x shares, greatest first, without 1."""
    return sorted({g for c in x.terms.values() if (g := gcd(c, d)) > 1}, reverse=True)


# ------------------------------------------------------------------------- constant divisors


def div_const(t: Atoms, x: Lin, d: int) -> Lin:
    """x // d, rounded down. Raises IRError for d = 0."""
    if d == 0:
        raise IRError("division by zero in an index expression")
    if d < 0:
        return div_const(t, scaled(x, -1), -d)
    if d == 1:
        return x
    k = _period(x, d)
    if k is not None:
        return _constant(k)
    out: dict[Atom, int] = {}
    rest: dict[Atom, int] = {}
    for atom, c in x.terms.items():
        q = c // d if c > 0 else -(-c // d)
        if q:
            out[atom] = q
        if c != q * d:
            rest[atom] = c - q * d
    quotient, remainder = divmod(x.const, d)
    done = Lin(out, quotient)
    if not rest:
        return done
    return plus(done, _div_rest(t, Lin(rest, remainder), d))


def _div_rest(t: Atoms, x: Lin, d: int) -> Lin:
    """x // d for x with every coefficient smaller than d and 0 <= const < d."""
    k = _period(x, d)
    if k is not None:
        return _constant(k)
    for g in _shares(x, d):
        split = drop_small(x, g)
        if split is not None:
            return div_const(t, split[0], d // g)
    if len(x.terms) == 1:
        ((atom, c),) = x.terms.items()
        if c == 1 and atom.kind == SPLIT:
            if not atom.upper:
                return div_const(t, Lin(atom.x.terms, atom.x.const + x.const * atom.lower), d * atom.lower)
            if x.const == 0 and atom.upper % (atom.lower * d) == 0:
                return t.split(atom.x, atom.lower * d, atom.upper)
    return t.split(x, d, 0)


def mod_const(t: Atoms, x: Lin, d: int) -> Lin:
    """x % d with the sign of d. Raises IRError for d = 0."""
    if d == 0:
        raise IRError("modulo by zero in an index expression")
    if d < 0:
        return scaled(mod_const(t, scaled(x, -1), -d), -1)
    if d == 1:
        return ZERO
    k = _period(x, d)
    if k is not None:
        return Lin(x.terms, x.const - k * d)
    rest: dict[Atom, int] = {}
    for atom, c in x.terms.items():
        r = c % d if c > 0 else -(-c % d)
        if r:
            rest[atom] = r
    return _mod_rest(t, Lin(rest, x.const % d), d)


def _mod_rest(t: Atoms, x: Lin, d: int) -> Lin:
    k = _period(x, d)
    if k is not None:
        return Lin(x.terms, x.const - k * d)
    for atom, c in x.terms.items():
        # a remainder whose period d*k covers may lose it:  (y % 8 + z) % 4 = (y + z) % 4
        if atom.kind == SPLIT and atom.upper and c * (atom.upper // atom.lower) % d == 0:
            loose = t.split(atom.x, atom.lower, 0) if atom.lower > 1 else atom.x
            others = {a: k for a, k in x.terms.items() if a is not atom}
            return mod_const(t, plus(Lin(others, x.const), loose, c), d)
    for g in _shares(x, d):
        split = drop_small(x, g)
        if split is not None:
            return plus(split[1], mod_const(t, split[0], d // g), g)
    if len(x.terms) == 1:
        ((atom, c),) = x.terms.items()
        if c == 1 and atom.kind == SPLIT and not atom.upper:
            shifted = Lin(atom.x.terms, atom.x.const + x.const * atom.lower)
            return t.split(shifted, atom.lower, atom.lower * d)
    return t.split(x, 1, d)


# ------------------------------------------------------------------------- symbolic divisors


def div(t: Atoms, x: Lin, y: Lin) -> Lin:
    """x // y, rounded down."""
    if not y.terms:
        return div_const(t, x, y.const)
    whole, rest = _extract(t, x, y)
    if not rest.terms and rest.const == 0:
        return whole
    if _within(t, rest, y):
        return whole
    return plus(whole, t.symbolic_div(rest, y))


def mod(t: Atoms, x: Lin, y: Lin) -> Lin:
    """x % y with the sign of y."""
    if not y.terms:
        return mod_const(t, x, y.const)
    _, rest = _extract(t, x, y)
    if not rest.terms and rest.const == 0:
        return rest
    return rest if _within(t, rest, y) else t.symbolic_mod(rest, y)


def _within(t: Atoms, x: Lin, y: Lin) -> bool:
    """Whether 0 <= x < y always."""
    return is_negative(t, Lin(scaled(x, -1).terms, -x.const - 1)) and is_negative(t, plus(x, y, -1))


def _extract(t: Atoms, x: Lin, y: Lin) -> tuple[Lin, Lin]:
    """(whole, rest) with x = whole*y + rest."""
    multiple = _multiple(x, y)
    if multiple:
        return _constant(multiple), ZERO
    if y.const or len(y.terms) != 1:
        return ZERO, x
    ((divisor, unit),) = y.terms.items()
    whole, rest = ZERO, dict(x.terms)
    for atom, c in x.terms.items():
        left = _without(atom.factors, divisor.factors)
        if left is not None and c % unit == 0:
            whole = plus(whole, t.product(left) if left else _constant(1), c // unit)
            del rest[atom]
    return whole, Lin(rest, x.const)


def _multiple(x: Lin, y: Lin) -> int:
    """k when x = k*y with a constant k, else 0."""
    if len(x.terms) != len(y.terms):
        return 0
    atom, c = next(iter(y.terms.items()))
    k, r = divmod(x.terms.get(atom, 0), c)
    same = r == 0 and x.const == k * y.const and all(x.terms.get(a) == k * c for a, c in y.terms.items())
    return k if same else 0


def _without(factors: tuple[Atom, ...], remove: tuple[Atom, ...]) -> tuple[Atom, ...] | None:
    left = list(factors)
    for factor in remove:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


# --------------------------------------------------------------------------------- rejoining


def rejoin(t: Atoms, x: Lin) -> Lin:
    """x with quotients and remainders of the same value put together:  x//4*4 + x%4 = x."""
    while True:
        joined = _rejoin_once(t, x)
        if joined is None:
            return x
        x = joined


def _rejoin_once(t: Atoms, x: Lin) -> Lin | None:
    splits = [(a, c) for a, c in x.terms.items() if a.kind == SPLIT]
    for index, (p, cp) in enumerate(splits):
        joined = _join_operand(t, x, p, cp)
        if joined is not None:
            return joined
        for q, cq in splits[index + 1 :]:
            if p.x is q.x:
                pair = _join_pair(t, p, cp, q, cq) or _join_pair(t, q, cq, p, cp)
                if pair is not None:
                    rest = {a: c for a, c in x.terms.items() if a is not p and a is not q}
                    return plus(Lin(rest, x.const), pair)
    for atom, c in x.terms.items():
        if atom.kind in (MOD, MUL):
            joined = _join_symbolic(t, x, atom, c)
            if joined is not None:
                return joined
    return None


def _join_pair(t: Atoms, p: Atom, cp: int, q: Atom, cq: int) -> Lin | None:
    """cp*p + cq*q as one term, where both divide the same value; q is the finer or the earlier."""
    if q.upper == p.lower and cp * q.lower == cq * p.lower:
        return scaled(_split(t, p.x, q.lower, p.upper), cq)
    if q.upper == p.upper and p.lower % q.lower == 0 and cp * q.lower == -cq * p.lower:
        return scaled(t.split(p.x, q.lower, p.lower), cq)
    if q.lower == p.lower and cp == -cq and q.upper and p.upper % q.upper == 0 and q.upper != p.upper:
        return scaled(t.split(p.x, q.upper, p.upper), cp * (q.upper // q.lower))
    return None


def _split(t: Atoms, x: Lin, lower: int, upper: int) -> Lin:
    return x if lower == 1 and upper == 0 else t.split(x, lower, upper)


def _join_operand(t: Atoms, x: Lin, p: Atom, cp: int) -> Lin | None:
    """x - d*(x//d) = x % d   and   x - x%d = d*(x//d), with x a sum spread over the terms."""
    if p.upper == 0 and cp % p.lower == 0:
        scale = -cp // p.lower
        result = scale, t.split(p.x, 1, p.lower), 1
    elif p.lower == 1 and p.upper:
        scale = -cp
        result = scale, t.split(p.x, p.upper, 0), p.upper
    else:
        return None
    if not _contains(x, p.x, scale):
        return None
    rest = plus(x, p.x, -scale)
    rest.terms.pop(p)
    return plus(rest, result[1], result[0] * result[2])


def _contains(x: Lin, part: Lin, scale: int) -> bool:
    return all(x.terms.get(a) == scale * c for a, c in part.terms.items())


def _join_symbolic(t: Atoms, x: Lin, atom: Atom, c: int) -> Lin | None:
    """c*(x//n)*n + c*(x%n) = c*x   and   c*x - c*(x//n)*n = c*(x%n)."""
    if atom.kind == MOD:
        whole = multiply(t, t.symbolic_div(atom.x, atom.y), atom.y)
        if whole is None or not whole.terms or not _contains(x, whole, c):
            return None
        rest = plus(x, whole, -c)
        rest.terms.pop(atom)
        return plus(rest, atom.x, c)
    for factor in atom.factors:
        if factor.kind == DIV and factor.y.const == 0 and len(factor.y.terms) == 1:
            ((divisor, unit),) = factor.y.terms.items()
            left = _without(atom.factors, (factor, *divisor.factors))
            if left == () and c % unit == 0 and _contains(x, factor.x, -(c // unit)):
                scale = -(c // unit)
                rest = plus(x, factor.x, -scale)
                rest.terms.pop(atom)
                return plus(rest, t.symbolic_mod(factor.x, factor.y), scale)
    return None
