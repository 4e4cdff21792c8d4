"""Dispersion problems as linear models with binaries, for solvers that read LP and MPS files but no quadratic terms."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field

import numpy as np

from solvers.dispersion.problem import DispersionProblem
from solvers.dispersion.relaxations.tangents import Tangents
from solvers.dispersion.search.neighbourhood import greedy_decision
from solvers.errors import InvalidOption
from solvers.files import text_appearing_whole

__all__ = ["FORMULATIONS", "LinearForm", "linear_form"]

FORMULATIONS = ("rlt", "glover", "tangent")

#: A coefficient and the name of its variable.
Terms = list[tuple[float, str]]


@dataclass
class LinearForm:
    """A linear model: maximise ``objective`` over ``rows``, ``binaries`` in {0, 1} and other variables.

    Attributes
    ----------
    objective : list of (float, str)
        Coefficients and names.
    rows : list of (str, list of (float, str), str, float)
        Name, terms, ``"<="`` or ``"="``, and right-hand side.
    binaries, nonnegative, free : list of str
        Names of the variables, by their domain.
    """

    objective: Terms
    binaries: list[str]
    rows: list[tuple[str, Terms, str, float]] = field(default_factory=list)
    nonnegative: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)

    def write_lp(self, path: str | os.PathLike[str]) -> None:
        """Write a CPLEX LP file."""
        with text_appearing_whole(path) as stream:
            stream.write("Maximize\n obj:")
            stream.writelines(f" {value:+.17g} {name}\n" for value, name in self.objective)
            stream.write("Subject To\n")
            for row, terms, sense, right in self.rows:
                stream.write(f" {row}:")
                stream.writelines(f" {value:+.17g} {name}\n" for value, name in terms)
                stream.write(f" {sense} {right:.17g}\n")
            if self.free:
                stream.write("Bounds\n")
                stream.writelines(f" {name} free\n" for name in self.free)
            stream.write("Binary\n")
            stream.writelines(f" {name}\n" for name in self.binaries)
            stream.write("End\n")

    def write_mps(self, path: str | os.PathLike[str]) -> None:
        """Write a free MPS file that minimises minus the objective: CBC ignores OBJSENSE, and would turn it around."""
        columns: dict[str, Terms] = {name: [] for name in (*self.binaries, *self.nonnegative, *self.free)}
        negated = [(-value, name) for value, name in self.objective]
        for row, terms in [("obj", negated), *((row, terms) for row, terms, _, _ in self.rows)]:
            for value, name in terms:
                columns[name].append((value, row))
        with text_appearing_whole(path) as stream:
            stream.write("* minimised is minus the objective of the problem\nNAME dispersion FREE\nROWS\n N obj\n")
            stream.writelines(f" {'L' if sense == '<=' else 'E'} {row}\n" for row, _, sense, _ in self.rows)
            stream.write("COLUMNS\n MARKER 'MARKER' 'INTORG'\n")
            for place, (name, entries) in enumerate(columns.items()):
                if place == len(self.binaries):
                    stream.write(" MARKER 'MARKER' 'INTEND'\n")
                stream.writelines(f" {name} {row} {float(value)!r}\n" for value, row in entries)
            if len(columns) == len(self.binaries):
                stream.write(" MARKER 'MARKER' 'INTEND'\n")
            stream.write("RHS\n")
            stream.writelines(f" RHS {row} {float(right)!r}\n" for row, _, _, right in self.rows if right)
            stream.write("BOUNDS\n")
            stream.writelines(f" BV BND {name}\n" for name in self.binaries)
            stream.writelines(f" FR BND {name}\n" for name in self.free)
            stream.write("ENDATA\n")


def linear_form(problem: DispersionProblem, formulation: str) -> LinearForm:
    r"""State the problem with linear terms only; variables ``x<client>`` are the decision.

    Parameters
    ----------
    problem : DispersionProblem
        The problem.
    formulation : {"rlt", "glover", "tangent"}
        * ``"rlt"``: a variable a pair, :math:`y_{ij} \le x_i`, :math:`y_{ij} \le x_j` and
          :math:`\sum_j y_{ij} = (m - 1) x_i`. The strongest of relaxations, and n²/2 variables.
        * ``"glover"``: a variable a client, :math:`z_i \le U_i x_i` and
          :math:`z_i \le \sum_j w h_{ij} x_j - L_i (1 - x_i)` (Glover, Management Science 22(4), 1975). Small and weak.
        * ``"tangent"``: one variable below tangents of the objective made concave on the slice. The optimum of this
          model is an upper bound, and mostly not attained: there are n + 5 tangents, while the objective needs one at
          an optimal selection. The other two have the problem's optimum.

    Raises
    ------
    InvalidOption
        When the formulation is unknown.
    """
    if formulation not in FORMULATIONS:
        raise InvalidOption(f"formulation must be one of {', '.join(FORMULATIONS)}; got {formulation!r}")
    names = [f"x{client}" for client in problem.clients]
    costs = [(-cost, name) for name, cost in zip(names, problem.costs.tolist(), strict=True)]
    form = LinearForm(costs, names)
    for row in problem.feasible.rows():
        terms = [(value, name) for value, name in zip(row.coefficients.tolist(), names, strict=True) if value]
        form.rows.append((row.name, terms, "=" if row.low == row.high else "<=", row.high))
    {"rlt": _products, "glover": _sums, "tangent": _tangents}[formulation](problem, names, form)
    return form


def _products(problem: DispersionProblem, names: list[str], form: LinearForm) -> None:
    of_client: list[Terms] = [[] for _ in names]
    for i, first in enumerate(names):
        values = (2 * problem.weight * problem.distances[i].astype(np.float64)).tolist()
        for j in range(i + 1, len(names)):
            second = names[j]
            product = f"y{first[1:]}_{second[1:]}"
            form.nonnegative.append(product)
            form.objective.append((values[j], product))
            form.rows.append((f"a{product}", [(1.0, product), (-1.0, first)], "<=", 0.0))
            form.rows.append((f"b{product}", [(1.0, product), (-1.0, second)], "<=", 0.0))
            of_client[i].append((1.0, product))
            of_client[j].append((1.0, product))
    for name, terms in zip(names, of_client, strict=True):
        form.rows.append((f"r{name}", [*terms, (1.0 - problem.size, name)], "=", 0.0))


def _sums(problem: DispersionProblem, names: list[str], form: LinearForm) -> None:
    m = problem.size
    for i, name in enumerate(names):
        row = problem.weight * problem.distances[i].astype(np.float64)
        ordered = np.sort(np.delete(row, i))
        most, least = math.fsum(ordered[::-1][: m - 1]), math.fsum(ordered[:m])
        part = f"z{name[1:]}"
        form.free.append(part)
        form.objective.append((1.0, part))
        form.rows.append((f"u{part}", [(1.0, part), (-most, name)], "<=", 0.0))
        reached = [(-value, other) for value, other in zip(row.tolist(), names, strict=True) if other != name]
        form.rows.append((f"s{part}", [(1.0, part), *reached, (-least, name)], "<=", -least))


def _tangents(problem: DispersionProblem, names: list[str], form: LinearForm) -> None:
    """Tangents at the fractional solution, at the greedy selection, between them, and where one client is exchanged."""
    form.objective = [(1.0, "theta")]
    form.free.append("theta")
    if problem.size == problem.n:  # nothing to decide, and nothing to relax
        form.rows.append(("t0", [(1.0, "theta")], "<=", problem.objective(np.ones(problem.n))))
        return
    tangents = Tangents(problem)
    start = np.asarray(greedy_decision(problem))
    points = tangents.first(start)
    chosen, left = np.flatnonzero(start), np.flatnonzero(start == 0)
    for place, entering in enumerate(left):
        neighbour = start.astype(np.float64)
        neighbour[[chosen[place % len(chosen)], entering]] = 0.0, 1.0
        points.append(neighbour)
    normal = tangents.normal
    for place, point in enumerate(points):
        constant, gradient = tangents.at(point)
        terms = [(-value, name) for value, name in zip((gradient / normal.factor).tolist(), names, strict=True)]
        form.rows.append((f"t{place}", [(1.0, "theta"), *terms], "<=", tangents.original(constant)))
