"""The submission to QOBLIB, against rows written down by hand and by its own description of the columns."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from solvers.benchmark import Benchmark, run_benchmark
from solvers.benchmark.qoblib import COLUMNS, submission
from solvers.dispersion import DispersionProblem, PointDispersionProblem
from solvers.dispersion import problem as statement
from solvers.files import spreadsheet_csv

WHOLE = {"# Decision Variables", "# Binary Variables", "# Non-Zero Coefficients", "# Runs", "# Feasible Runs"}


@pytest.fixture(scope="module")
def problem():
    distances = np.array([[0.0, 3.0, 5.0, 0.0], [3.0, 0.0, 4.0, 1.0], [5.0, 4.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0]])
    return DispersionProblem(distances, [0.0, 1.0, 0.0, -2.0], size=2, weight=0.5)


@pytest.fixture(scope="module")
def benchmark(problem):
    return run_benchmark(["brute-force", "random"], {"four": problem}, (0, 1, 2), (5.0,), warm_up=0.0, repeat=False)


def test_every_column_in_the_order_of_the_checker(benchmark, problem):
    text = spreadsheet_csv(submission(benchmark, {"four": problem}, submitter="A. Person")).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == COLUMNS
    assert len(COLUMNS) == 30
    assert [row["Submitter"] for row in rows] == ["A. Person", "A. Person"]
    for row in rows:
        assert all(row[name].isdigit() for name in WHOLE)
        assert float(row["Total Runtime"]) >= 0
        assert row["GPU Runtime"] == "N/A"


def test_the_model_and_the_answers_counted_by_hand(benchmark, problem):
    exact, drawn = submission(benchmark, {"four": problem}).to_dict("records")
    # Five pairs that are not zero, two costs, four ones of the size; the best pair is 0 and 2.
    assert (exact["# Non-Zero Coefficients"], exact["Coefficients Type"]) == (11, "Integer")
    assert exact["Coefficients Range"] == "[-2, 5]"
    assert (exact["Best Objective Value"], exact["# Successful Runs"], exact["Algorithm Type"]) == (
        5.0, 3, "Deterministic",
    )  # fmt: skip
    assert exact["Optimality Bound"] == pytest.approx(5.0, rel=1e-6)
    assert "in 3 of 3 runs" in exact["Remarks"]
    values = [record["objective"] for record in benchmark.records if record["method"] == "random"]
    assert drawn["Best Objective Value"] == max(values)
    assert drawn["# Successful Runs"] == values.count(max(values))
    assert drawn["Algorithm Type"] == "Stochastic"


def test_a_method_without_an_answer_is_not_a_success(benchmark, problem):
    nothing = [{**record, "objective": None, "bound": None, "status": "unknown"} for record in benchmark.records]
    row = submission(Benchmark(benchmark.manifest, nothing), {"four": problem}).iloc[0]
    assert (row["Best Objective Value"], row["Optimality Bound"]) == ("N/A", "N/A")
    assert (row["# Runs"], row["# Feasible Runs"], row["# Successful Runs"]) == (3, 0, 0)


def test_points_without_a_matrix_are_not_described(benchmark, monkeypatch):
    points = PointDispersionProblem(np.arange(8.0).reshape(4, 2), size=2, weight=0.5)
    described = submission(benchmark, {"four": points}).iloc[0]
    assert described["# Decision Variables"] == 4
    monkeypatch.setattr(statement, "EXPANDABLE", 3)  # as for an instance of more clients
    row = submission(benchmark, {"four": points}).iloc[0]
    assert (row["# Decision Variables"], row["Coefficients Range"]) == ("N/A", "N/A")
    assert row["Best Objective Value"] == described["Best Objective Value"]
