"""What a generator makes up proves nothing that is false, and no file ends in another error than a sentence."""

from __future__ import annotations

import pytest

from tests.solvers.certificates.from_scratch import KINDS, fuzz
from tests.thoroughly import few_of


@pytest.mark.parametrize("seed", few_of(range(11), 1))
def test_nothing_made_up_proves_anything_false(tmp_path, seed):
    """Of all kinds, about honest and hostile problems, in both checkers: 5 000 for each seed, 200 in every run."""
    counts, wrong = fuzz(seed, 5_000 if seed else 200, tmp_path)
    assert wrong == []
    assert counts["tried"] > 190
    assert 0.4 < counts["hostile"] / counts["tried"] < 0.6
    assert min(counts["accepted by the one file"], counts["accepted by the package"]) > counts["tried"] / 8
    assert counts["tight"] > counts["tried"] / 40
    # Fields that fit in type, length and range, and still state nothing that can be solved.
    assert counts["about no problem of the package"] < counts["tried"] / 500
    if seed:
        assert all(counts[f"accepted: {kind}"] > 2 for kind in KINDS), counts
