"""Colours, dashes and markers that curves are told apart by, in black and white and by colour-blind readers too."""

from __future__ import annotations

__all__ = ["COLOURS", "DASHES", "MARKERS"]

#: Okabe and Ito's colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
