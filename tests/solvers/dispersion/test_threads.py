"""Small problems are solved with one BLAS thread; what it was before comes back."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (its BLAS is looked at, too)
from threadpoolctl import threadpool_info, threadpool_limits

from solvers.dispersion import DispersionProblem
from solvers.dispersion.prelude import one_thread, single_threaded_blas


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def problem():
    return DispersionProblem(1.0 - np.eye(5), size=2)


def test_one_thread_within_and_the_former_number_after(problem):
    seen = []

    @one_thread
    def look(problem, run, *, fail=False):
        seen.append(blas_threads())
        if fail:
            raise ValueError("an error gives them back, too")
        return "answer"

    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        assert look(problem, None) == "answer"
        assert blas_threads() == before
        with pytest.raises(ValueError, match="gives them back"):
            look(problem, None, fail=True)
        assert blas_threads() == before
    assert seen == [{1}, {1}]


@pytest.mark.parametrize(("n", "threads"), [(2000, 1), (2001, 2)])
def test_only_large_problems_keep_their_threads(n, threads):
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()  # 1 where the machine, or a BLAS that another test has loaded, has one thread
        with single_threaded_blas(SimpleNamespace(n=n)):
            assert blas_threads() == {min(threads, each) for each in before}


@pytest.mark.parametrize("name", ["auto", "branch-and-bound", "sdp"])
def test_methods_keep_their_options_and_summaries(name):
    from solvers.registry import find

    entry = find(DispersionProblem, name)
    assert entry.summary
    assert "run" not in entry.options
    assert entry.options
