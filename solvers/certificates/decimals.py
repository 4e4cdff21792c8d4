r"""The readers of proofs in which logarithms and powers stand: decimals of 60 digits, with a margin of 40.

Every operation of `decimal`, exp and ln among them, is rounded correctly to the context's digits; the sums below take
some thousands of them, so that an allowance of 10⁻⁴⁰ of all terms is ample.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from solvers.errors import CertificateError

__all__ = ["check_capping", "check_cutoff"]

_CONTEXT = Context(prec=60, Emax=10**9, Emin=-(10**9))
_MARGIN = Decimal("1e-40")


def check_capping(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    r"""The lower bound that a ``multiplier`` μ of the sum proves.

    Each term of :math:`\sum_i r \log(r / v_i) - r + v_i - \mu r` is smallest at :math:`r = v_i e^\mu`, or at the cap
    1 − σ if that is more. The objective is never negative, so neither is the bound.
    """
    (raw,) = arrays["multiplier"].tolist()
    if abs(grid) > 2000:
        raise CertificateError(f"the grid 2^{grid} is out of range")
    with localcontext(_CONTEXT):
        mu = Decimal(raw) * Decimal(2) ** grid
        floor = Decimal(float(problem.floor))
        if problem.log_weights is None:
            weights = [Decimal(w) for w in problem.weights.tolist()]
        else:
            logs = [Decimal(w) for w in problem.log_weights.tolist()]
            weights = [(w - max(logs)).exp() for w in logs]
        mass, cap = int(problem.size) - len(weights) * floor, 1 - floor
        if mass <= 0:
            return Fraction(0)
        share, growth = mass / sum(weights), mu.exp()
        terms = [mu * mass]
        for weight in weights:
            v = share * weight
            if v * growth < cap:
                terms.append(v * (1 - growth))
            else:
                terms += [cap * (cap / v).ln(), v - cap, -mu * cap]
        return max(Fraction(0), _below(terms))


def check_cutoff(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    """The value of the ``cutoff`` K, where both neighbours are certainly no better: the bound is convex in K."""
    (k,) = arrays["cutoff"].tolist()
    if not 1 <= k <= 10**12:
        raise CertificateError(f"the cutoff must be a number of rounds from 1 up; got {k}")
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
    return [k * horizon.ln() / horizon, *((1 - Decimal(p)) ** (2 * k) / len(rates) for p in rates)]


def _below(terms: list[Decimal]) -> Fraction:
    """A number certainly not above the sum of what the terms stand for."""
    return Fraction(sum(terms)) - Fraction(_MARGIN * sum(abs(term) for term in terms))
