"""Who was selected when: the raster behind the pictures, and the pictures on the page of a run."""

from __future__ import annotations

import numpy as np
import pytest

from fedselect.experiments.figures import MOST_COLUMNS, MOST_ROWS, STATES, Raster, _banded
from fedselect.reports import read_report
from fedselect.reports.pictures import participation_pictures

#: Client 2 is always there, client 1 twice, client 0 once, client 3 never.
RECORDS = [
    {"available": [0, 1, 2], "selected": [0, 2], "returned": [0], "failed": [], "applied": [0.25, 0.0]},
    {"available": [1, 2], "selected": [1, 2], "returned": [2], "failed": [1], "applied": [0.0, 0.75]},
    {"available": [2], "selected": [], "returned": [], "failed": [], "applied": []},
]


def many(clients, rounds):
    """Records in which client 0 alone is ever selected, in the last round alone."""
    idle = {"available": list(range(clients)), "selected": [], "returned": [], "failed": [], "applied": []}
    return [idle] * (rounds - 1) + [{**idle, "selected": [0], "returned": [0], "applied": [0.5]}]


def test_raster_has_every_state_and_weight_in_the_order_of_availability():
    raster = Raster.of(RECORDS, 4)
    assert raster.order.tolist() == [2, 1, 0, 3]
    named = [[STATES[place] for place in row] for row in raster.states]
    back, lost, unusable = STATES[2:]
    assert named == [
        [lost, back, "available"],
        ["available", unusable, "unavailable"],
        [back, "unavailable", "unavailable"],
        ["unavailable", "unavailable", "unavailable"],
    ]
    assert raster.weights.tolist() == [[0, 0.75, 0], [0, 0, 0], [0.25, 0, 0], [0, 0, 0]]
    assert raster.shared("state") == ""


def test_alternatives_say_in_numbers_what_is_drawn():
    when, weights = participation_pictures(RECORDS, 4)
    assert "4 clients by 3 rounds" in when.alternative
    assert "50% of all cells; 4 selections, 1 without an update and 1 with an unusable one" in when.alternative
    assert "clients never selected: 1" in when.alternative
    assert "largest weight is 0.75; the sum of a round lies between 0 and 0.75" in weights.alternative
    assert "A cell stands for" not in when.caption
    assert [text.get_text() for text in when.figure.legends[0].get_texts()] == list(STATES)
    (sums,) = weights.figure.axes[1].lines
    assert sums.get_ydata().tolist() == [0.25, 0.75, 0.0]
    assert all(picture.png.startswith(b"\x89PNG") for picture in (when, weights))


def test_legend_names_the_failures_there_are_alone():
    when, _ = participation_pictures(RECORDS[:1], 4)
    assert [text.get_text() for text in when.figure.legends[0].get_texts()] == list(STATES[:4])


def test_many_clients_share_cells_and_no_selection_is_lost():
    clients, rounds = 2 * MOST_ROWS + 1, MOST_COLUMNS + 1
    records = many(clients, rounds)
    raster = Raster.of(records, clients)
    shown = _banded(raster.states)
    assert shown.shape == (201, 301)  # three clients a row, two rounds a column
    assert (shown == 2).sum() == 1
    assert shown[0, -1] == 2
    when, weights = participation_pictures(records, clients)
    for picture, what in ((when, "last of their states in the order of the legend"), (weights, "largest weight")):
        shared = "A cell stands for up to 3 of the 601 clients and 2 of the 601 rounds, and shows the"
        assert f"{shared} {what}." in picture.caption
    (image,) = weights.figure.axes[0].images
    assert image.get_array().compressed().tolist() == [0.5]


@pytest.mark.parametrize("shape", [(1, 1), (MOST_ROWS, 2), (MOST_ROWS + 1, MOST_COLUMNS), (7, 3 * MOST_COLUMNS + 1)])
def test_cells_are_the_largest_by_amount_of_what_they_stand_for(shape):
    values = np.random.default_rng(0).normal(size=shape)
    rows, columns = (-(-n // most) for n, most in zip(shape, (MOST_ROWS, MOST_COLUMNS), strict=True))
    shown = _banded(values)
    for i in range(len(shown)):
        for j in range(0, shown.shape[1], 50):
            block = values[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            assert shown[i, j] == block.flat[np.abs(block).argmax()]


def test_the_page_of_a_run_shows_who_was_selected_when(compared):
    (run,) = compared.glob("fedgs-*-s0")
    report = read_report(run)
    assert [picture.key for picture in report.pictures][:2] == ["selected-when", "weights"]
    assert "8 clients by 3 rounds" in report.pictures[0].alternative
