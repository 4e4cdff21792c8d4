"""Words in the tables of reports, with what they mean: the glossary at the end of a page."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["glossary_of"]

#: Meaning by the headings and names of measures that have it; the first is how the glossary calls them.
_MEANINGS: dict[tuple[str, ...], str] = {
    ("count variance",): "Variance over clients of how often each was selected (divisor N - 1); 0 is the same for all.",
    ("least in hindsight", "least count variance"): (
        "Least count variance of any schedule that selects as many clients a round, knowing all availability."
    ),
    ("sum of weights", "weight sum"): (
        "Mean over rounds of the sum of the weights that were applied to the updates. A rule whose weights sum to 0.2 "
        "takes a fifth of the step of one whose weights sum to 1: their losses differ for that alone."
    ),
    ("test loss", "final loss"): "Mean loss of the final model on the server's test set, which no client holds.",
    ("test accuracy", "final accuracy"): "Share of the server's test set that the final model classifies rightly.",
    ("gap", "mean gap", "max gap"): (
        "|bound - objective| of a decision: how far it may be from the best; of a run relative to its mean |objective|."
    ),
    ("proved",): "Solves, or rounds, whose decision is proved optimal, up to 1e-6.",
    ("Jain index", "jain index"): "Evenness of the selection counts: 1 where all are equal, 1/N where one has all.",
    ("longest absence (rounds)", "longest absence"): "Most rounds in a row without an update of one client.",
    ("success ratio",): "Share of the selections whose update arrived.",
    ("distance to target importance", "importance distance"): (
        "Total variation distance, from 0 to 1, of the clients' shares of all applied weights from their importance in "
        "the objective (their samples, or 1/N)."
    ),
    ("late deviation", "late accuracy deviation"): (
        "Standard deviation of the test accuracy over the second half of the rounds: how unsteady it stays."
    ),
    ("worst client's accuracy", "client accuracy worst"): (
        "Lowest accuracy of the final model on the samples of one client: those that it holds out for testing where "
        "the data have a client_test_fraction, else those that it trained on."
    ),
    ("difference",): "Mean over seeds of one selector's value minus the reference's under the same seed.",
    ("solved",): "Solves with a feasible decision.",
    ("wins",): "Races (instance, seed, time limit) in which no method came nearer to the best known value.",
    ("mean gap to best", "gap to best"): "Primal gap: distance of the decision from the best known value, over it.",
    ("mean gap of bound",): "Distance of the bound from the best known value, over it.",
    ("primal integral",): "Primal gap summed over the seconds of a solve: small where a good decision comes early.",
}


def glossary_of(words: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the words that have an entry among some, with their meanings, each meaning once."""
    used = set(words)
    found = ((next((name for name in names if name in used), None), text) for names, text in _MEANINGS.items())
    return tuple((name, text) for name, text in found if name is not None)
