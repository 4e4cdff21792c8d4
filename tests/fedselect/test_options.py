"""Registries check names and options against the builders' signatures."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import pytest

from fedselect.errors import ConfigError
from fedselect.options import Registry, check_choice, check_count, check_number
from solvers.options import describe_type, matches

THINGS: Registry = Registry("thing")


@THINGS.register("box", "BOX", "crate")
def box(material, *, width: float, depth: int = 2, label: str | None = None, holes: list[float] | None = None):
    """Make a box."""
    return (material, width, depth, label, holes)


def test_build_passes_arguments_and_options():
    assert THINGS.build("box", "oak", width=1, label="a") == ("oak", 1, 2, "a", None)
    assert THINGS.build("crate", "oak", width=1.5, holes=[1, 2.5]) == ("oak", 1.5, 2, None, [1, 2.5])
    assert THINGS.names == ["box"]
    assert THINGS.summary("BOX") == "Make a box."


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("bix", {}, "there is no thing 'bix'; did you mean 'box'"),
        ("box", {}, "thing 'box' needs the option 'width'"),
        ("box", {"width": 1, "widht": 2}, "has no option 'widht'; did you mean 'width'"),
        ("box", {"width": "1"}, "option 'width' must be a number; got '1'"),
        ("box", {"width": True}, "option 'width' must be a number; got True"),
        ("box", {"width": 1, "depth": 1.5}, "option 'depth' must be an integer; got 1.5"),
        ("box", {"width": 1, "label": 3}, "option 'label' must be text; got 3"),
        ("box", {"width": 1, "holes": ["a"]}, "must be a list of entries that are each a number"),
    ],
)
def test_bad_options_are_sentences(name, options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        THINGS.build(name, "oak", **options)


@pytest.mark.parametrize("value", ["x", None, 1, ["a"], np.array(["a", "b"]), pd.Series(["a"])])
def test_what_is_no_choice_is_refused(value):
    with pytest.raises(ConfigError, match="it must be 'a' or 'b'; got"):
        check_choice("it", value, "a", "b")
    assert check_choice("it", "b", "a", "b") == "b"


@pytest.mark.parametrize(
    "value", [None, "3", 3.0, True, 0, -(2**70), np.ones((2, 2)), np.zeros(0), pd.Series([1]), 3 + 0j]
)
def test_what_is_no_count_is_refused(value):
    with pytest.raises(ConfigError, match="it must be a positive integer; got"):
        check_count("it", value)
    with pytest.raises(ConfigError, match=r"it must be at most 10\^15; got a number of 22 digits"):
        check_count("it", 2**70)
    assert check_count("it", np.int8(3)) == 3


@pytest.mark.parametrize("value", [None, "0.5", b"1", 3 + 0j, np.complex128(1), np.ones(2), [1.0], 10**400, np.nan, -1])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ConfigError, match="it must be a number of at least 0; got"):
        check_number("it", value)
    assert check_number("it", np.float32(0.5)) == 0.5


def test_literals_list_their_values():
    assert matches("pairs", Literal["pairs", "paper"])
    assert not matches("pear", Literal["pairs", "paper"])
    assert describe_type(Literal["pairs", "paper"]) == "'pairs' or 'paper'"


def test_a_literal_may_be_left_out():
    wanted = Literal["a", "b"] | None
    assert [value for value in ("a", "b", None, "c", 1) if matches(value, wanted)] == ["a", "b", None]


def test_a_builder_of_another_call_is_a_sentence():
    """As one of availability that takes the seed behind the *, where the others have it before."""
    things: Registry = Registry("thing")
    things.register("few")(lambda material, *, width=1: width)
    things.register("many")(lambda material, colour, *, width=1: width)
    with pytest.raises(ConfigError, match=r"'few' takes 1 argument\(s\) before the \*, and is called with 2"):
        things.build("few", "oak", "red")
    with pytest.raises(ConfigError, match="'many' has a further argument 'colour'"):
        things.build("many", "oak")
