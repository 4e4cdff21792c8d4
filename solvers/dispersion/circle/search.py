"""What the methods for points on a circle or a line share."""

from __future__ import annotations

from solvers.dispersion.circle.form import Form
from solvers.dispersion.circle.shape import Shape
from solvers.dispersion.circle.tree import Tree
from solvers.dispersion.selection import Selecting
from solvers.run import Run

__all__ = ["LARGEST", "fits", "search"]

#: Entries of the table of longest paths, at most (8 bytes each).
LARGEST = 20_000_000


def fits(problem: Selecting) -> bool:
    """Whether the table of longest paths is not too large."""
    return problem.n * min(problem.size, problem.n - problem.size) <= LARGEST


def search(problem: Selecting, shape: Shape, run: Run) -> None:
    """Prove, or come as close as the time allows.

    Raises
    ------
    OutOfTime
        When the time is over before the kernels are compiled.
    """
    run.details["shape"] = "circle" if shape.chords else "line"
    tree = Tree(Form.of(problem, shape), run)
    while tree.open and not (run.expired or run.proved):
        tree.advance()
    run.details["open"] = len(tree.open)
