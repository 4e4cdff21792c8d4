"""Grey patterns by recipe and from QAPLIB's files."""

from __future__ import annotations

import numpy as np
import pytest

from examples.records.grey import grey_pattern, read_qaplib_grey, torus_symmetries
from solvers import InvalidProblem, solve
from solvers.dispersion.symmetry import closure


def test_grey_pattern_is_what_taillard_states():
    """Entries from the torus, and symmetries that generate all 8 n² of a square one."""
    problem = grey_pattern(4, 4, 5)
    repulsion = 100_000 - problem.distances
    assert repulsion[0, 1] == 100_000
    assert repulsion[0, 5] == 50_000  # one step in each direction
    assert repulsion[0, 3] == 100_000  # around the corner
    assert repulsion[0, 10] == 12_500  # two steps in each direction
    assert len(closure(problem, torus_symmetries(4, 4))) == 8 * 16
    assert len(closure(grey_pattern(5, 5, 5), torus_symmetries(5, 5))) == 8 * 25
    assert len(closure(grey_pattern(3, 4, 5), torus_symmetries(3, 4))) == 4 * 12


def test_symmetries_prove_a_pattern_faster():
    problem = grey_pattern(5, 5, 9)
    plain = solve(problem, "branch-and-bound")
    symmetric = solve(problem, "branch-and-bound", symmetries=torus_symmetries(5, 5))
    assert plain.status == symmetric.status == "optimal"
    assert plain.objective == symmetric.objective


def test_tai256c_is_the_pattern_of_92_cells():
    """A value of an arbitrary selection, computed twice."""
    problem = grey_pattern(16, 16, 92)
    x = np.zeros(256, dtype=int)
    x[:92] = 1
    chosen = np.argwhere(x.reshape(16, 16))
    total = 0
    for a in chosen:
        for b in chosen:
            d = sum(min(abs(int(u - v)), 16 - abs(int(u - v))) ** 2 for u, v in zip(a, b, strict=True))
            total += round(100_000 / d) if d else 0
    assert 100_000 * 92 * 91 - problem.objective(x) == total


def test_qaplib_file(tmp_path):
    pattern = grey_pattern(3, 4, 5)
    repulsion = 100_000 - pattern.distances
    np.fill_diagonal(repulsion, 0)
    block = np.zeros((12, 12))
    block[:5, :5] = 1
    for first, second in ((block, repulsion), (repulsion, block)):
        rows = "\n".join(" ".join(str(int(v)) for v in row) for row in np.vstack([first, second]))
        (tmp_path / "file.dat").write_text(f"12\n\n{rows}\n")
        problem = read_qaplib_grey(tmp_path / "file.dat")
        assert problem.size == 5
        assert np.array_equal(problem.distances, pattern.distances)
    (tmp_path / "file.dat").write_text("2\n0 3 3 0\n0 1 2 0\n")
    with pytest.raises(InvalidProblem, match="no grey pattern"):
        read_qaplib_grey(tmp_path / "file.dat")
    (tmp_path / "file.dat").write_text("2\n0 3 3\n")
    with pytest.raises(InvalidProblem, match="QAPLIB"):
        read_qaplib_grey(tmp_path / "file.dat")
    with pytest.raises(InvalidProblem, match="row"):
        grey_pattern(0, 4, 1)
