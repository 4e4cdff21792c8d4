"""Points from files: TSPLIB coordinates, NumPy arrays, text."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import solve
from solvers.dispersion import read_points, read_tsplib
from solvers.errors import InvalidProblem

TSPLIB = """NAME : five
COMMENT : a pentagon, more or less
TYPE : TSP
DIMENSION : 5
EDGE_WEIGHT_TYPE : EUC_2D
NODE_COORD_SECTION
  1 0 0
  2 3.00000e+00 4
3 0.5 -1
4 10 0
5 2 2
EOF
"""


def test_tsplib_coordinates_are_points_with_unrounded_distances(tmp_path):
    path = tmp_path / "five.tsp"
    path.write_text(TSPLIB)
    problem = read_tsplib(path, 2)
    assert problem.points.shape == (5, 2)
    assert problem.weight == 0.5
    solution = solve(problem)
    assert solution.selected.tolist() == [0, 3]
    assert solution.objective == pytest.approx(10.0)
    assert problem.objective([0, 0, 1, 1, 0]) == pytest.approx(np.hypot(9.5, 1))


@pytest.mark.parametrize(
    "text",
    [
        TSPLIB.replace("NODE_COORD_SECTION", "EDGE_WEIGHT_SECTION"),
        TSPLIB.replace("DIMENSION : 5", "DIMENSION : 6"),
        TSPLIB.replace("10 0", "ten 0"),
        TSPLIB.replace("4 10 0", "4 10"),
        "",
    ],
)
def test_other_files_are_refused_with_a_sentence(tmp_path, text):
    path = tmp_path / "other.tsp"
    path.write_text(text)
    with pytest.raises(InvalidProblem, match="is not a TSPLIB file with coordinates"):
        read_tsplib(path, 2)


def test_points_from_numpy_and_text(tmp_path):
    points = np.random.default_rng(0).random((7, 3))
    np.save(tmp_path / "points.npy", points)
    np.savetxt(tmp_path / "points.csv", points, delimiter=",", header="x, y, z")
    assert (read_points(tmp_path / "points.npy") == points).all()
    np.testing.assert_allclose(read_points(tmp_path / "points.csv"), points)
    (tmp_path / "words.csv").write_text("a,b\n")
    np.save(tmp_path / "flat.npy", points[0])
    with pytest.raises(InvalidProblem, match="does not hold points"):
        read_points(tmp_path / "words.csv")
    with pytest.raises(InvalidProblem, match="one point a row"):
        read_points(tmp_path / "flat.npy")
