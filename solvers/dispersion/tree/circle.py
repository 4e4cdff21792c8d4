r"""Points on a circle or on a line: an exact method whose work is longest paths.

Take the clients in the order of their angles :math:`\theta_1 \le \dots \le \theta_n` in an interval of length
:math:`2\pi`. Their distances are chords, and a chord is the sum of two kernels:

.. math:: 2 \sin\tfrac{|\theta|}{2} = \Bigl(|\theta| - \frac{\theta^2}{2\pi}\Bigr) + k(\theta), \qquad
    k(\theta) = \frac4\pi - \frac\pi3 - \frac2\pi \sum_{k \ge 1} \frac{\cos k\theta}{4 k^2 (k^2 - 1/4)} .

* Over pairs, the first adds up to
  :math:`\sum_r 2 (2r - m + 1) \theta_{(r)} - \frac1\pi \bigl(m \sum \theta^2 - T^2\bigr)`, where :math:`\theta_{(r)}`
  is the angle of the selected client of rank r = 0 … m − 1 and :math:`T = \sum \theta`. But for :math:`T^2` it depends
  on each client and its rank alone. (It is the L2 discrepancy of the selection on the circle: the classical functional
  that a sum of distances measures, Stolarsky 1973.) While T lies in [a, b], :math:`T^2 \le (a + b) T - ab`.
* The second has no positive coefficient but the constant, so :math:`\sum_{ij} k(\theta_i - \theta_j) s_i s_j` is
  concave on :math:`1^\top s = m`, and small: at a good selection a hundredth of what the first leaves. A tangent at any
  point bounds it by a sum over clients.

So every point of the slice and every interval for T give a bound that is the longest path through *staircases* (r of
the first j clients are selected), found exactly in O(nm). Pairwise Frank-Wolfe with that path as its oracle moves the
point; a node is branched on T or on a step of the staircase, and steps that no good path takes are cut off. Products
with the second kernel's matrix take O(n) by sums over prefixes, so no matrix is needed.

On a line the distances are :math:`|\theta_i - \theta_j|`: only the first term is left, and one path is the proof.

Nodes are looked at in the order of their bounds. See docs/mathematics/dispersion.md.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.dispersion.kernels import load
from solvers.dispersion.problem import SelectionProblem
from solvers.dispersion.shape import Shape
from solvers.run import Run

__all__ = ["LARGEST", "Form", "Tree", "fits", "search", "too_large"]

_EPS = float(np.finfo(np.float64).eps)

#: Entries of the table of longest paths, at most (8 bytes each).
LARGEST = 20_000_000

#: Nodes after a proof, beside as many as it took.
_MORE = 100

#: Selections that make the point of a relaxation, at most.
_ATOMS = 40

#: Longest paths for a node, at most; and entries of the table filled at a time, some 50 ms, where those are fewer.
_STEPS, _WORK = 60, 30_000_000


@dataclass(frozen=True)
class Form:
    """``max scale · Σ_ij distance_ij s_i s_j + linear · s`` over clients in order of position, about 1 in size.

    Attributes
    ----------
    problem : SelectionProblem
        Whose decisions these are.
    shape : Shape
        Where its clients lie.
    cosine, sine : (n,) ndarray
        Of half the positions.
    linear : (n,) ndarray
        Less the costs, and their median.
    scale : float
        Weight and scale of the distances.
    curve : float
        Curvature of the separable part of a distance: 1/(2π), or 0 on a line.
    factor, offset : float
        Units: a power of two, and the constant part of the costs.
    margin : float
        In the problem's units: what bounds in these numbers lack for rounding, and for distances that are not quite
        the shape's.
    """

    problem: SelectionProblem
    shape: Shape
    cosine: NDArray[np.float64]
    sine: NDArray[np.float64]
    linear: NDArray[np.float64]
    scale: float
    curve: float
    factor: float
    offset: float
    margin: float

    @classmethod
    def of(cls, problem: SelectionProblem, shape: Shape) -> Form:
        """State a problem whose clients have this shape."""
        m = problem.size
        middle = float(np.median(problem.costs))
        linear = middle - problem.costs[shape.order]
        unit = 4 * problem.weight * shape.scale * m + float(np.abs(linear).max())
        factor = math.ldexp(1.0, min(-math.frexp(unit)[1], 1000)) if unit > 0 else 1.0
        scale, curve = problem.weight * shape.scale * factor, 1 / (2 * math.pi) if shape.chords else 0.0
        linear = linear * factor
        wrong = problem.weight * m * (m - 1) * shape.error
        margin = _rounding(shape, linear, scale, curve, m) / factor + wrong + 2 * problem.rounding
        half = shape.at / 2
        return cls(problem, shape, np.cos(half), np.sin(half), linear, scale, curve, factor, middle * m, margin)

    @property
    def entries(self) -> int:
        """Entries of the table of longest paths."""
        n, m = self.problem.n, self.problem.size
        return (n + 1) * (min(m, n - m) + 4)

    def value(self, objective: float) -> float:
        """An objective of the problem in these units."""
        return (objective + self.offset) * self.factor

    def original(self, value: float) -> float:
        """A value in these units as an objective of the problem."""
        return value / self.factor - self.offset

    def decision(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The decision that selects the clients at some places."""
        x = np.zeros(self.problem.n, dtype=np.int64)
        x[self.shape.order[places]] = 1
        return x

    def places(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of the clients that a decision selects, rising."""
        return np.flatnonzero(x[self.shape.order]).astype(np.int64)


def _rounding(shape: Shape, linear: NDArray[np.float64], scale: float, curve: float, size: int) -> float:
    """Bound what rounding can take off a bound.

    The gain of a client is a sum of terms of at most ``most``, of which the n-fold ones come from sums over prefixes of
    the point; a path adds up m of them, and the tangent's constant n products.
    """
    n, reach = shape.at.size, float(np.abs(shape.at).max())
    sums = scale * size * (2 * reach + 6 * curve * reach**2)
    remainder = scale * size * (4 + 2 * reach + 4 * curve * reach**2) if shape.chords else 0.0
    most = sums + 2 * remainder + float(np.abs(linear).max())
    return 4 * size * (n + size + 32) * _EPS * most


@dataclass
class Node:
    """Ranks and an interval of sums; selections with weights from the relaxation of the node above."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    sums: NDArray[np.float64]
    atoms: NDArray[np.int64]
    weights: NDArray[np.float64]
    x: NDArray[np.float64]

    def child(self, chosen: NDArray[np.intp]) -> Node:
        """A node to narrow, with the selections that count."""
        return Node(
            self.lower.copy(), self.upper.copy(), self.sums.copy(), self.atoms[chosen], self.weights[chosen], self.x
        )


class Tree:
    """Open nodes by bound.

    Parameters
    ----------
    form : Form
        The problem.
    run : Run
        Clock and incumbent.
    """

    def __init__(self, form: Form, run: Run) -> None:
        self.form, self.run = form, run
        self.kernels = load("circle", run)
        n, m = form.problem.n, form.problem.size
        self.table = np.empty(form.entries)
        self.numbers = (form.shape.at, form.cosine, form.sine, form.linear, form.scale, form.curve, form.shape.chords)
        self.steps = max(3, min(_STEPS, _WORK // self.table.size))
        self.best, self.found = np.zeros(m, dtype=np.int64), np.zeros(2)
        run.nodes = 0
        self.left = -np.inf  # the bound of nodes that neither branch nor fall
        reach = m * (1.0 + float(np.abs(form.shape.at).max()))
        ranks = np.arange(n + 1)
        root = Node(
            *(np.maximum(0, ranks - (n - m)), np.minimum(ranks, m), np.array([-reach, reach])),
            *(np.zeros((0, m), np.int64), np.zeros(0), np.full(n, m / n)),
        )
        self.open: list[tuple[float, int, Node]] = [(-np.inf, 0, root)]
        self.pushed = 0

    @property
    def tolerance(self) -> float:
        """How far below a bound the incumbent may stay, in the problem's units: rounding, where that is possible."""
        objective, form = self.run.objective, self.form
        optimal = form.problem.tolerance_at(objective or 0.0)
        return min(0.4 * optimal, 2 * form.margin)

    def advance(self) -> None:
        """Look at the node with the largest bound."""
        form, run = self.form, self.run
        _, _, node = heapq.heappop(self.open)
        run.nodes = (run.nodes or 0) + 1
        atoms, weights = np.zeros((_ATOMS, form.problem.size), np.int64), np.zeros(_ATOMS)
        atoms[: len(node.weights)], weights[: len(node.weights)] = node.atoms, node.weights
        node.atoms, node.weights, node.x = atoms, weights, node.x.copy()
        end, bound, place, rank = self.kernels.look(
            *self.numbers,
            *(node.lower, node.upper, node.sums, atoms, weights, node.x),
            *(self._least(), self.steps, self.table, self.best, self.found),
        )
        if self.found[0] > -np.inf and (run.objective is None or self.found[0] > form.value(run.objective)):
            run.offer(form.decision(self.best))
        if end == self.kernels.LEAF:
            width = node.upper - node.lower
            place = int(width.argmax())
            if width[place] and bound > self._provable():
                # The point is whole by chance, or its relaxation is not at its end: any rank that is open will do.
                self._branch(node, bound, place, int(node.lower[place] + node.upper[place]) // 2)
            else:
                self.left = max(self.left, bound)
        elif end != self.kernels.DROPPED and bound > self._least():
            self._branch(node, bound, place, rank)
        self._settle()

    def _least(self) -> float:
        """Nodes of no larger bound are dropped."""
        objective = self.run.objective
        return -np.inf if objective is None else self.form.value(objective + self.tolerance)

    def _provable(self) -> float:
        """Nodes of no larger bound do not keep the incumbent from being proved."""
        objective = self.run.objective
        if objective is None:
            return -np.inf
        return self.form.value(objective + 0.4 * self.form.problem.tolerance_at(objective))

    def _branch(self, node: Node, bound: float, place: int, rank: int) -> None:
        """Push both children: fewer or more clients before a place, or less or more than a sum."""
        chosen = np.flatnonzero(node.weights)
        first, second = node.child(chosen), node.child(chosen)
        if place:
            first.upper[place], second.lower[place] = rank, rank + 1
        else:
            first.sums[1] = second.sums[0] = self.found[1]
        for child in (first, second):
            self.pushed += 1
            heapq.heappush(self.open, (-bound, self.pushed, child))

    def _settle(self) -> None:
        """Drop what is not worth looking at, and tell the run the bound."""
        run, form = self.run, self.form
        if self.open and -self.open[0][0] <= self._least():
            self.open.clear()  # the largest bound comes first
        highest = max(-self.open[0][0] if self.open else -np.inf, self.left)
        if run.objective is not None:
            known = run.objective + self.tolerance
            run.tighten(max(known, form.original(highest) if np.isfinite(highest) else -np.inf) + form.margin)


def fits(problem: SelectionProblem) -> bool:
    """Whether the table of longest paths is not too large."""
    return problem.n * min(problem.size, problem.n - problem.size) <= LARGEST


def too_large(problem: SelectionProblem) -> str | None:
    """Return why the table of longest paths would be too large; None where it fits."""
    if fits(problem):
        return None
    ranks = min(problem.size, problem.n - problem.size)  # of those chosen, or of those left out
    return (
        f"circle makes a table of {problem.n} clients by {ranks} ranks; it accepts at most {LARGEST:.3g} entries "
        "(use 'auto')"
    )


def search(problem: SelectionProblem, shape: Shape, run: Run) -> None:
    """Prove, or come as close as the time allows.

    A gap of a millionth, which counts as a proof, may leave a better selection where the objective is mostly a
    constant, as it is here; the tree therefore goes on for as many nodes again, and nearly always ends in that time.
    """
    run.details["shape"] = "circle" if shape.chords else "line"
    tree = Tree(Form.of(problem, shape), run)
    most: float = math.inf
    while tree.open and not run.expired and (run.nodes or 0) < most:
        tree.advance()
        if run.proved:
            most = min(most, 2 * (run.nodes or 0) + _MORE)
    run.details["open"] = len(tree.open)
