"""Search for points on a circle or a line: best-first over longest paths, and its limits."""

from __future__ import annotations

import math

from solvers.dispersion.circle.form import Form
from solvers.dispersion.circle.shape import Shape
from solvers.dispersion.circle.tree import Tree
from solvers.dispersion.problem import SelectionProblem
from solvers.run import Run

__all__ = ["LARGEST", "fits", "search", "too_large"]

#: Entries of the table of longest paths, at most (8 bytes each).
LARGEST = 20_000_000

#: Nodes after a proof, beside as many as it took.
_MORE = 100


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
