"""Gaps of a run are measured in units of the run, as objectives may cross zero."""

import math

import pandas as pd
import pytest

from fedselect.measures import run_gaps


def test_gaps_of_a_run_are_in_units_of_the_run():
    table = pd.DataFrame({"objective": [1.0, 0.0, -1.0, None], "bound": [1.0, 0.2, -0.8, None]})
    assert run_gaps(table).tolist() == pytest.approx([0.0, 0.3, 0.3, math.nan], nan_ok=True)
