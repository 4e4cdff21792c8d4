"""Inner products and exponentials: right, and the same bits whatever processor NumPy and BLAS think they are on."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from graphs import distances, edge_weights, similarity
from graphs.reproducible import exponential, gram
from tests.thoroughly import few_of, tried

ROOT = Path(__file__).parents[2]

# What the function below returned where it was written. Whoever changes how a sum is ordered changes it, and has to
# record the dispersion problems of the library again.
DIGEST = "321d623515dc2997a241965e8e1e7a1909bcab415d73a724423143a2a6a4cbf9"


def bits() -> str:
    """A digest of similarities, weights and distances whose last bits show how they were summed."""
    rng = np.random.default_rng(0)  # `random` is made of integers alone, and so of the same bits everywhere
    text = sha256()
    for clients, columns in ((40, 10), (7, 5000), (90, 300)):
        features = rng.random((clients, columns)) ** 2 - 0.2
        for kind in ("dot", "cosine"):
            matrix = similarity(features, kind)  # type: ignore[arg-type]
            text.update(matrix.tobytes())
        for preset in ("reference", "paper"):
            weights = edge_weights(np.abs(matrix), preset)  # type: ignore[arg-type]
            text.update(weights.tobytes())
            text.update(distances(weights).tobytes())
    return text.hexdigest()


def test_the_bits_are_those_recorded():
    assert bits() == DIGEST


@pytest.mark.parametrize(
    "environment",
    few_of(
        [
            {"OPENBLAS_CORETYPE": "Prescott"},
            {"NPY_DISABLE_CPU_FEATURES": "all that NumPy found"},
            {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"},
            {"OPENBLAS_CORETYPE": "SkylakeX", "OPENBLAS_NUM_THREADS": "2"},
        ],
        2,
    ),
    ids=lambda environment: " ".join(environment.values()),
)
def test_another_processor_gives_the_same_bits(environment):
    """Real kernels of other processors, chosen in a process of its own."""
    if "NPY_DISABLE_CPU_FEATURES" in environment:
        from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

        found = [feature for feature in __cpu_dispatch__ if __cpu_features__[feature]]
        environment = {"NPY_DISABLE_CPU_FEATURES": " ".join(found)}
    command = f"import runpy; print(runpy.run_path({__file__!r})['bits']())"
    found = subprocess.run(
        [sys.executable, "-c", command],
        env=os.environ | environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.strip() == DIGEST


def allowed_and_missed(rows: np.ndarray, i: int, j: int) -> tuple[Fraction, Fraction]:
    """How far `gram` may be from the exact inner product by its docstring, and how far it is."""
    terms = [Fraction(a) * Fraction(b) for a, b in zip(rows[i].tolist(), rows[j].tolist(), strict=True)]
    columns = len(terms)
    cut = columns * Fraction(float(np.abs(rows[i]).max())) * Fraction(float(np.abs(rows[j]).max())) / 2**62
    rounded = (4 + -(-columns // 2048)) * sum(map(abs, terms)) / 2**53
    return cut + rounded, abs(Fraction(float(gram(rows)[i, j])) - sum(terms))


@tried(15, 60, st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 30]), st.sampled_from([0, 30, 200]))
def test_inner_products_are_nearly_exact(seed, columns, spread):
    """Against rational arithmetic, with entries of very different sizes in a row and rows of different sizes."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((2, columns)) * 2.0 ** rng.integers(-spread, spread + 1, (2, columns))
    found = gram(rows)
    assert (found == found.T).all()
    for i, j in ((0, 0), (0, 1), (1, 1)):
        allowed, missed = allowed_and_missed(rows, i, j)
        assert missed <= allowed


def test_inner_products_of_several_blocks():
    allowed, missed = allowed_and_missed(np.random.default_rng(0).standard_normal((2, 5000)), 0, 1)
    assert missed <= allowed


def test_rows_are_divided_first_and_zero_rows_stay_zero():
    rows = np.array([[3.0, -4.0], [0.0, 0.0], [1e-310, 0.0], [1e300, 1e300]])
    assert gram(rows[:2]).tolist() == [[25.0, 0.0], [0.0, 0.0]]
    assert gram(rows, np.array([5.0, 1.0, 1e-310, 1e300])).tolist() == [
        [(0.6**2) + (0.8**2), 0.0, 0.6, 0.6 - 0.8],
        [0.0, 0.0, 0.0, 0.0],
        [0.6, 0.0, 1.0, 1.0],
        [0.6 - 0.8, 0.0, 1.0, 2.0],
    ]
    assert gram(np.float32([[0.1, 0.2]])).tolist() == [[float(np.float32(0.1)) ** 2 + float(np.float32(0.2)) ** 2]]


@tried(25, 100, st.lists(st.floats(-760, 720), min_size=1, max_size=50))
def test_exponentials_are_within_a_unit_in_the_last_place(values):
    for value, found in zip(values, exponential(np.array(values)).tolist(), strict=True):
        wanted = math.exp(value) if value < 709.78 else math.inf
        if value <= 709.78:
            assert abs(found - wanted) <= math.ulp(wanted)
        elif value >= 710:
            assert found == math.inf


def test_exponentials_at_the_ends():
    ends = exponential(np.array([0.0, -0.0, -np.inf, -800.0, np.inf, 800.0]))
    assert ends.tolist() == [1.0, 1.0, 0.0, 0.0, math.inf, math.inf]
