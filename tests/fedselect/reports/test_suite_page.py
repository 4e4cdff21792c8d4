"""The page of a suite's results."""

from __future__ import annotations

from contextlib import nullcontext

import pandas as pd
import pytest

from fedselect.reports.suites import Reference, publish
from solvers.benchmark import run_benchmark
from solvers.benchmark.suites import OURS, suite


def test_the_reference_job_takes_a_while():
    measured = Reference.measured()
    assert 0 < measured.processor < 60
    assert measured.wall > 0


def test_a_page_is_made_of_a_run(tmp_path, monkeypatch):
    """Rows that can be read again, sums a release, and a page that says what failed."""
    few = dict(list(suite("convex", "easy").instances.items())[:2])
    methods = {"auto": "auto", "peer:plain": "auto", "peer:tuned": ("auto", {})}
    benchmark = run_benchmark(methods, few, time_limits=2.0, out=tmp_path / "run", repeat=False)
    for version in ("0.1", "0.2"):
        path = publish(tmp_path / version, "selection", benchmark, OURS, "fedselect bench --suite selection")
    text = path.read_text()
    assert len(pd.read_parquet(path.with_suffix(".parquet"))) == 6
    for part in (
        "reference job",
        "a core of one's own",
        f"{benchmark.manifest['commit']}",
        "one thread per solve, seed 0, untimed",
        "2 s: 2 races",
        "Wins by better decision, 2 s: races won and lost",
        "Performance profile",
        "every row is sound",
        "selection-profile.png",
    ):
        assert part in text
    assert text.partition("A row per release")[2].count("auto") == 2
    assert all((path.parent / f"selection-{kind}.png").stat().st_size > 1000 for kind in ("profile", "anytime"))

    def half(table, target, **options):
        with nullcontext(target) if hasattr(target, "write") else open(target, "wb") as stream:
            stream.write(b"PAR1")
            raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_parquet", half)
    with pytest.raises(KeyboardInterrupt):
        publish(path.parent, "selection", benchmark, OURS, "fedselect bench --suite selection")
    assert len(pd.read_parquet(path.with_suffix(".parquet"))) == 6  # the old file, whole
