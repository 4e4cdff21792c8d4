r"""Checker of a tree over the selections of a dispersion problem, in integers.

Nothing of the solvers is used here, and no rounding is trusted. The data are rounded to multiples of 2^grid, which can
move the objective of a selection by at most a known fraction; the rest is arithmetic of whole numbers.

A certificate is a tree over the selections. Inner nodes branch on a client; every leaf says why nothing in it is better
than the bound:

* **tangent**: multipliers make the objective concave on the slice :math:`1^\top s = m` without lowering it at any
  selection, and the tangent at a point bounds it (Billionnet, Elloumi and Plateau, Discrete Appl. Math. 157, 2009).
  The multipliers are those of :math:`s_i - s_i^2` (zero at 0/1), of :math:`s_i s_j` (never negative) and of
  :math:`s_j - s_i s_j` for dominated pairs. Concavity is seen from an integer matrix L: what :math:`LL^\top` misses is
  added to the diagonal.
* **dominated**: j is chosen and i is not, though exchanging them is never worse: some selection elsewhere is as good.
  An exchange that may gain nothing counts only where i comes before j in the certificate's order of the clients, and
  not at all beside symmetries: so exchanges come to an end.
* **symmetric**: a permutation that leaves the problem as it is carries the leaf into a part that came before it.
* **decided**: at most one selection is left, and it is evaluated.

A client fixed by its reduced cost is a branch one side of which is a tangent leaf. The format is documented at
`solvers.certificates.Certificate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from solvers.certificates.concave import FORM, Form, Integers, Rounded, part_of
from solvers.certificates.exchanges import Exchanges
from solvers.certificates.schema import POINT
from solvers.errors import CertificateError

__all__ = ["check_dispersion"]

#: Codes of the leaves in ``tree``; a number from 0 up is the client that is branched on.
TANGENT, DOMINATED, SYMMETRIC, DECIDED = -1, -2, -3, -4


@dataclass(frozen=True)
class _Node:
    """Where a leaf lies: what was decided on the way, who is chosen, left out, open."""

    path: tuple[tuple[int, int], ...]
    ones: list[int]
    zeros: set[int]
    free: list[int]

    @classmethod
    def of(cls, path: tuple[tuple[int, int], ...], n: int) -> _Node:
        decided = {client for client, _ in path}
        zeros = {client for client, side in path if side == 0}
        return cls(path, [c for c, side in path if side], zeros, [i for i in range(n) if i not in decided])


class _Tree:
    """The walk over the tree: every leaf is checked, and the largest bound of any leaf is what was verified."""

    def __init__(self, problem: Any, data: Rounded, arrays: Mapping[str, Integers]) -> None:
        self.problem, self.data, self.arrays = problem, data, arrays
        self.forms: dict[int, Form] = {}
        self.tangents: dict[int, tuple[int, list[int], int, list[int]]] = {}
        if arrays["permutations"].size % data.cost.size:
            raise CertificateError("a symmetry does not say where every client goes")
        self.permutations = arrays["permutations"].reshape(-1, data.cost.size)
        self.exchanges = Exchanges(problem, arrays["order"], ties=len(self.permutations) == 0)
        for g in self.permutations:
            self._leaves_invariant(g)
        self.leaves: dict[int, tuple[Callable[..., Fraction | None], int]] = {
            TANGENT: (self._tangent, 1),
            DOMINATED: (self._dominated, 2),
            SYMMETRIC: (self._symmetric, 2),
            DECIDED: (self._decided, 0),
        }

    def walk(self) -> Fraction:
        """The largest bound of any leaf, in units of the problem; depth first, the chosen side first."""
        codes, at, worst = self.arrays["tree"].tolist(), 0, None
        stack: list[tuple[tuple[int, int], ...]] = [()]  # what was decided on the way: client, and 1 or 0
        while stack:
            path, where = stack.pop(), at
            if at >= len(codes):
                raise CertificateError(f"the tree ends before node {where}: a branch is missing")
            try:
                code, at = codes[at], at + 1
                if code >= 0:
                    if code >= self.data.cost.size or any(code == client for client, _ in path):
                        raise CertificateError(f"it branches on client {code}, which is decided or does not exist")
                    stack += [(*path, (code, 0)), (*path, (code, 1))]
                    continue
                if code not in self.leaves:
                    raise CertificateError(f"its code {code} means nothing")
                check, count = self.leaves[code]
                arguments, at = codes[at : at + count], at + count
                if min(arguments, default=0) < 0:
                    raise CertificateError("it refers to something by a negative number")
                bound = check(_Node.of(path, self.data.cost.size), *arguments)
            except (IndexError, TypeError):
                raise CertificateError(f"node {where} refers to something the certificate does not hold") from None
            except CertificateError as error:
                raise CertificateError(f"node {where}: {error}") from None
            if bound is not None and (worst is None or bound > worst):
                worst = bound
        if at != len(codes):
            raise CertificateError(f"{len(codes) - at} numbers are left over after the last node")
        if worst is None:
            raise CertificateError("no leaf states a bound")
        return worst * self.data.unit + self.data.error

    def _decided(self, node: _Node) -> Fraction | None:
        missing = self.data.size - len(node.ones)
        if missing < 0 or missing > len(node.free):
            return None
        if 0 < missing < len(node.free):
            raise CertificateError("it is called decided, but several selections are left")
        return Fraction(self.data.value([*node.ones, *(node.free if missing else [])]))

    def _tangent(self, node: _Node, index: int) -> Fraction:
        if index not in self.tangents:
            owner = int(self.arrays["point_form"][index])
            gradient, inner = self._form(owner).tangent(part_of(self.arrays, "point", index))
            order = sorted(range(len(gradient)), key=gradient.__getitem__, reverse=True)
            self.tangents[index] = owner, gradient, inner, order
        owner, gradient, inner, order = self.tangents[index]
        form = self._form(owner)
        inside = set(form.ones.tolist())
        if not inside <= set(node.ones):
            raise CertificateError("its form takes clients for chosen that are not chosen here")
        if any(form.place[i] < 0 for i in [*node.ones, *node.free] if i not in inside):
            raise CertificateError("its form leaves out clients that are open here")
        forced = [int(form.place[i]) for i in node.ones if i not in inside]
        total, missing = sum(gradient[k] for k in forced), self.data.size - len(node.ones)
        free = set(node.free)
        best = [gradient[k] for k in order if int(form.ids[k]) in free][: max(missing, 0)]
        if len(best) != missing:
            raise CertificateError("too many are chosen, or too few are open; such a leaf is called decided")
        return form.constant + Fraction((total + sum(best)) * POINT - inner, POINT * POINT)

    def _form(self, index: int) -> Form:
        if index not in self.forms:
            form = Form(self.data, {name: part_of(self.arrays, f"form_{name}", index) for name in FORM})
            for i, j in form.dominated:
                self.exchanges.require(i, j, form.ones.tolist(), form.ids.tolist())
            self.forms[index] = form
        return self.forms[index]

    def _dominated(self, node: _Node, i: int, j: int) -> Fraction | None:
        if j not in node.ones or i not in node.zeros:
            raise CertificateError(f"client {i} is said to come before {j}, but is not left out while {j} is chosen")
        self.exchanges.require(i, j, [k for k in node.ones if k != j], node.free)
        return None

    def _symmetric(self, node: _Node, which: int, depth: int) -> Fraction | None:
        if which >= len(self.permutations) or depth >= len(node.path):
            raise CertificateError("its symmetry or the branch it refers to does not exist")
        g, (client, side) = self.permutations[which].tolist(), node.path[depth]
        before = node.path[:depth]
        for value in (0, 1):
            decided = {k for k, v in before if v == value}
            if {g[k] for k in decided} != decided:
                raise CertificateError("its symmetry moves what was decided before the branch it refers to")
        if side != 0 or client not in {g[k] for k in node.ones}:
            raise CertificateError("its symmetry does not carry it to the side that came before")
        return None

    def _leaves_invariant(self, g: Integers) -> None:
        h, c = self.problem.distances, self.problem.costs
        if sorted(g.tolist()) != list(range(c.size)):
            raise CertificateError("a symmetry is not a permutation of the clients")
        if not (np.array_equal(h[np.ix_(g, g)], h) and np.array_equal(c[g], c)):
            raise CertificateError("a symmetry does not leave the distances and costs as they are")


def check_dispersion(problem: Any, grid: int, arrays: Mapping[str, Integers]) -> Fraction:
    """Walk the tree of a certificate and return the bound it proves, exactly.

    Parameters
    ----------
    problem : DispersionProblem
        Whose ``distances``, ``costs``, ``size`` and ``weight`` are read, and nothing else.
    grid : int
        The whole numbers of the certificate are multiples of 2^grid, in the units of the objective.
    arrays : mapping of str to array of int
        As described at `solvers.certificates.Certificate`.

    Returns
    -------
    fractions.Fraction
        No selection of the problem is worth more.

    Raises
    ------
    CertificateError
        When a branch is missing, or a leaf does not prove what it should; the sentence names the node.
    """
    return _Tree(problem, Rounded.of(problem, grid), arrays).walk()
