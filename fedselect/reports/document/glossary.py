"""Words in the tables of reports, with what they mean: the glossary at the end of a page."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fedselect.measures import measures_of, run_measures

#: Meaning by the headings that are no measures of a run.
_MEANINGS: dict[str, str] = {
    "gap": "|bound - objective| of a decision: how far it may be from the best.",
    "difference": "Mean over seeds of one selector's value minus the reference's under the same seed.",
    "solved": "Solves with a feasible decision.",
    "wins": "Races (instance, seed, time limit) in which no method came nearer to the best known value.",
    "gap to best": "Primal gap: distance of the decision from the best known value, over it.",
    "mean gap to best": "Primal gap: distance of the decision from the best known value, over it; mean of the solves.",
    "mean gap of bound": "Distance of the bound from the best known value, over it.",
    "primal integral": "Distance from the best known value, over the larger of the two, summed over the seconds up to "
    "the time limit: small where a good decision comes early.",
}


#: Meaning by words of captions.
_CAPTIONED: dict[str, str] = {
    "3DG": "Data-distribution-dependency graph (FedGS): a node for each client, and an edge between two whose data are "
    "similar; the more similar, the shorter.",
}


def glossary_of(words: Iterable[str], captions: str = "") -> tuple[tuple[str, str], ...]:
    """Return the words that have an entry among some, or in captions, with their meanings, each meaning once."""
    used = set(words)
    models = [each.name for each in measures_of("model")]
    found = {
        next((name for name in (each.title, each.name.replace("_", " ")) if name in used), None): each.meaning
        for each in run_measures(models)
    } | {name: meaning for name, meaning in _MEANINGS.items() if name in used}
    found |= {name: meaning for name, meaning in _CAPTIONED.items() if re.search(rf"\b{name}\b", captions)}
    return tuple((name, meaning) for name, meaning in found.items() if name is not None and meaning)
