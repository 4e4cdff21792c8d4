r"""Checker of bounds of the balance problem: the certificate is that of a dispersion problem, stated here again.

For :math:`\beta_i = B a_i - q_i 1` a selection's imbalance is :math:`\lVert \sum_S \beta_i \rVert^2 / (B M)^2`, where M
is its number of samples. With :math:`G_{ij} = \beta_i^\top \beta_j - \kappa q_i q_j`, any κ from 0 and any shift C the
dispersion problem of distances :math:`C + (G_{ii} + G_{jj}) / 2 - G_{ij}` and costs :math:`m G_{ii}` is worth
:math:`C m (m - 1) - \lVert \sum_S \beta_i \rVert^2 + \kappa M^2`. A bound on that is one on the imbalance, as M lies
between the samples of the m smallest and of the m largest clients. For κ = 0 what is bounded is a whole number.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from solvers.certificates.exact.attainable import attainable
from solvers.certificates.exact.dispersion import SIDES, check_dispersion
from solvers.errors import CertificateError

#: Most clients and classes of a problem that is restated: a row of Python's whole numbers per client.
_MOST = 1 << 11


def restated(problem: Any, level: int, fine: int) -> tuple[Any, Fraction, Fraction]:
    """State the dispersion problem of κ = ``level`` / 2^``fine``.

    Returns
    -------
    SimpleNamespace, Fraction, Fraction
        Distances and costs with the size and the side constraints; the constant C m (m - 1); and how far rounding to
        doubles may move the value of a selection: each number by a part of 2^-53.
    """
    counts = np.asarray(problem.label_counts)
    if max(counts.shape) > _MOST:
        raise CertificateError(
            f"certificates of balance are read up to {_MOST} clients and classes; here {counts.shape}"
        )
    whole, m = counts.astype(object), int(problem.size)
    samples = whole.sum(axis=1)
    beta = counts.shape[1] * whole - samples[:, None]
    # In units of 2^-(fine + 1), so that halves are whole.
    gram = (beta @ beta.T << fine + 1) - 2 * level * np.outer(samples, samples)
    own = gram.diagonal()
    distances = (own[:, None] + own) // 2 - gram
    shift = max(0, -int(distances.min()))
    distances = distances + shift
    np.fill_diagonal(distances, 0)
    unit, most = Fraction(1, 2 << fine), int(distances.max()) * m * m + m * m * int(np.abs(own).max())
    stated = SimpleNamespace(
        distances=np.ldexp(distances.astype(np.float64), -fine - 1),
        costs=np.ldexp((m * own).astype(np.float64), -fine - 1),
        size=m,
        weight=1.0,
        **{name: getattr(problem, name) for name in SIDES if hasattr(problem, name)},
    )
    return stated, shift * m * (m - 1) * unit, most * unit / (1 << 53)


def check_balance(problem: Any, grid: int, arrays: Mapping[str, Any]) -> Fraction:
    """Return a bound of the imbalance: that of whole counts that add up, or the search's where it proves more.

    The first is 0 unless all clients have equally many samples.

    ``level`` and ``fine`` say which dispersion problem the other arrays are about (`restated`); where they are empty,
    these are not looked at.
    """
    counts = np.asarray(problem.label_counts).astype(object)
    m, classes = int(problem.size), counts.shape[1]
    samples = sorted(counts.sum(axis=1).tolist())
    fewest, most = sum(samples[:m]), sum(samples[-m:])
    rest = fewest % classes if samples[0] == samples[-1] else 0
    bound = Fraction(rest * (classes - rest), classes * fewest**2)
    if any(arrays[name].size for name in ("pool", "vetoed", "diverse")):
        raise CertificateError("certificates of balance list no selections")
    if not arrays["level"].size:
        return bound
    if arrays["level"].size > 1:
        raise CertificateError("more than one level is given")
    (level,), (fine,) = arrays["level"].tolist(), arrays["fine"].tolist()
    stated, constant, error = restated(problem, level, fine)
    least = constant - attainable(stated, check_dispersion(stated, grid, arrays)) - error
    if level == 0:
        return max(bound, Fraction(max(0, -(-least // 1)), (classes * most) ** 2))
    kappa = Fraction(level, 1 << fine)
    return max(bound, (kappa + least / (fewest if least < 0 else most) ** 2) / classes**2)
