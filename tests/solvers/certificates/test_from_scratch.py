"""What a generator makes up proves nothing that is false, and no file ends in another error than a sentence."""

from __future__ import annotations

import pytest

from tests.solvers.certificates.from_scratch import KINDS, fuzz
from tests.thoroughly import few_of


@pytest.mark.parametrize(("seed", "tries"), few_of([(0, 200), (0, 400), *((seed, 5_000) for seed in range(1, 11))], 1))
def test_nothing_made_up_proves_anything_false(tmp_path, seed, tries):
    """Of all kinds, about honest and hostile problems, in both checkers: 5 000 for each seed, 200 in every run."""
    counts, wrong = fuzz(seed, tries, tmp_path)
    assert wrong == []
    assert counts["tried"] > tries - 10
    assert 0.4 < counts["hostile"] / counts["tried"] < 0.6
    assert min(counts["accepted by the one file"], counts["accepted by the package"]) > counts["tried"] / 8
    assert counts["tight"] > counts["tried"] / 40
    # Fields that fit in type, length and range, and still state nothing that can be solved.
    assert counts["about no problem of the package"] < counts["tried"] / 500
    if seed:
        assert all(counts[f"accepted: {kind}"] > 2 for kind in KINDS), counts
