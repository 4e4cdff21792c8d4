r"""Checkers of bounds in which logarithms and powers stand: decimals of 60 digits, with an allowance of 10^-40.

Every operation of `decimal` used here (sum, product, quotient, exp, ln) is rounded correctly to 60 digits, by a part of
10^-59 of its result. A *quantity* below is made of some such operations without any difference of two of its kind, so
that it is off by a part of itself: one of 10^-59 for each operation; of x 10^-58 in exp(x), where x is at most 10^8 (an
exponent is a product, or one difference of doubles); of 2 k 10^-58 in a power 2 k, where k is at most 10^12. (Near 0 a
logarithm is off by 10^-57; what it is multiplied by is a quantity of its own.) Adding up 10^7 of them loses 10^-52 of
their absolute sum. So 10^-40 of the sum of the quantities' absolute values, taken before any of them cancel, is more
than everything that rounding can have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from solvers.errors import CertificateError

_CONTEXT = Context(prec=60, Emax=10**9, Emin=-(10**9))
_MARGIN = Decimal("1e-40")

#: Largest exponent of e, for which the allowance is computed.
_EXPONENT = 10**8


def check_capping(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    r"""Return the lower bound of a ``multiplier`` μ of the sum.

    Each term of :math:`\sum_i r \log(r / v_i) - r + v_i - \mu r` is convex, and smallest at :math:`r = v_i e^\mu`,
    where it is :math:`v_i - v_i e^\mu`; where that r is certainly above the cap 1 − σ, at the cap. The objective is
    never negative, and 0 where the mass is at most 10^-12 of the size: so 0 is a bound always.
    """
    (raw,) = arrays["multiplier"].tolist()
    exact = Fraction(raw) * Fraction(2) ** grid
    n = len(problem.weights if problem.log_weights is None else problem.log_weights)
    left = int(problem.size) - n * Fraction(float(problem.floor))
    if left <= Fraction(2, 10**12) * int(problem.size):
        return Fraction(0)
    if abs(exact) > _EXPONENT:
        raise CertificateError(f"the multiplier must lie between -10^8 and 10^8; got {float(exact):.3g}")
    with localcontext(_CONTEXT):
        mu, mass = (Decimal(value.numerator) / Decimal(value.denominator) for value in (exact, left))
        cap, weights = 1 - Decimal(float(problem.floor)), _weights(problem)
        share, growth = mass / sum(weights), mu.exp()
        quantities = [mu * mass]
        for weight in weights:
            v = share * weight
            if v * growth > cap * (1 + _MARGIN):
                quantities += [cap * (cap / v).ln(), v, -cap, -mu * cap]
            else:
                quantities += [v, -v * growth]
        return max(Fraction(0), _below(quantities))


def _weights(problem: Any) -> list[Decimal]:
    """The weights, the largest of them 1 where their logarithms are given."""
    if problem.log_weights is None:
        return [Decimal(w) for w in problem.weights.tolist()]
    logs = [Decimal(w) for w in problem.log_weights.tolist()]
    largest = max(logs)
    if largest - min(logs) > _EXPONENT:
        raise CertificateError("logarithms of weights that differ by more than 10^8 are not read")
    return [(w - largest).exp() for w in logs]


def check_cutoff(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    """Return the value of the ``cutoff`` K, where both neighbours are certainly no better: it is convex in K."""
    (k,) = arrays["cutoff"].tolist()
    with localcontext(_CONTEXT):
        here = _cutoff_terms(problem, k)
        bound = _below(here)
        above = 2 * Fraction(sum(here)) - bound
        for other in (k - 1, k + 1):
            if other >= 1 and _below(_cutoff_terms(problem, other)) < above:
                raise CertificateError(f"the cutoff {other} is no worse than {k}, so that {k} proves nothing")
        return bound


def _cutoff_terms(problem: Any, k: int) -> list[Decimal]:
    horizon, rates = Decimal(int(problem.horizon)), problem.rates.tolist()
    return [k * horizon.ln() / horizon, *(_power(1 - Decimal(p), 2 * k) / len(rates) for p in rates)]


def _power(base: Decimal, exponent: int) -> Decimal:
    """Compute a power by squaring, off by ``exponent`` roundings; one of `decimal` is not said to be so exact."""
    result = Decimal(1)
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def _below(quantities: list[Decimal]) -> Fraction:
    """A number certainly not above the sum of what the quantities stand for."""
    return Fraction(sum(quantities)) - Fraction(_MARGIN * sum(abs(each) for each in quantities))
