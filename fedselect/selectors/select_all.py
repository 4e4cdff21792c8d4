r"""Selectors that take every available client and decide the weights alone: baselines.

==========================  =========================================================  =========================
registered name             weight :math:`a_k` of an available client                  when some do not return
==========================  =========================================================  =========================
``all-available``           :math:`n_k / \sum_{i \in A} n_i`                           renormalised
``average-all``             :math:`1 / N`                                              kept: a zero update
``average-participating``   :math:`1 / |A|`                                            renormalised
``unbiased``                :math:`\alpha_k / \pi_k`, the true rate π known            kept
``known-participation``     the same with :math:`\alpha_k = 1 / N`                     kept
``adafed``                  :math:`\alpha_k / \pi_k`, scaled to sum to 1               renormalised
==========================  =========================================================  =========================

``all-available`` is FedAvg with full participation of those present, which FedVARP (Jhunjhunwala et al., UAI 2022) and
MIFA (Gu et al., NeurIPS 2021) run on. ``average-all``, ``average-participating`` and ``known-participation`` are the
baselines of FedAU (Wang & Ji, ICLR 2024): the first is FedAU with cutoff K = 1 and minimises :math:`\sum_n p_n F_n` by
small steps (its authors run it with a server learning rate of 10), the second is biased towards clients that
participate often, the third is what FedAU estimates online. ``unbiased`` is CA-Fed's benchmark (Rodio et al., INFOCOM
2023, §V): :math:`E[\sum_k a_k \Delta_k] = \sum_k \alpha_k \Delta_k`, at the price of large weights for clients that are
seldom there; they sum to 1 in expectation. ``adafed`` is AdaFed as CA-Fed's authors code it; the original (Tan et al.,
IEEE TNSE 2022) also adapts who participates, which that code leaves out, and could not be consulted. Normalising a
ratio makes it biased: with 12 clients available at rate 0.9 and 12 at 0.1, of equal importance, the two groups weigh
0.60 and 0.40 in the long run.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.options import check_choice
from fedselect.rounds.protocol import RoundContext, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    Importance,
    Rates,
    SelectorBase,
    check_importance,
    check_length,
    data_weights,
    equal_importance,
    participation_rates,
    positive_rates,
    target_importance,
)

#: Weights by name; see this module.
Weights = Literal["samples", "all", "participating", "unbiased", "adafed"]


class SelectAll(SelectorBase):
    r"""Select every available client, with one of the weights of this module.

    Parameters
    ----------
    weights : {"samples", "all", "participating", "unbiased", "adafed"}
        ``"samples"``, ``"all"`` and ``"participating"`` are ``all-available``, ``average-all`` and
        ``average-participating``.
    rates : (N,) array-like, or callable ``round -> (N,)``, optional
        True probability π in (0, 1] that a client participates; ``"unbiased"`` and ``"adafed"`` need it. FedAU's code
        uses the stationary rate it configured, also for Markovian and cyclic patterns.
    importance : (N,) array-like, optional
        Target importance α, which sums to 1; 1/N for every client if left out.

    Raises
    ------
    ConfigError
        When an argument is out of range or, in the round, an available client's rate is.
    """

    def __init__(
        self, weights: Weights = "samples", *, rates: Rates | None = None, importance: ArrayLike | None = None
    ) -> None:
        self.weights = check_choice("weights", weights, *get_args(Weights))
        needs_rates = weights in ("unbiased", "adafed")
        if needs_rates != (rates is not None) or (importance is not None and not needs_rates):
            raise ConfigError(
                f"weights {weights!r} must be given {'the rates' if needs_rates else 'no rates and no importance'}"
            )
        if rates is not None and importance is not None:
            check_length(rates, np.size(importance))
        self.rates = rates
        self.importance = None if importance is None else check_importance(importance)
        stated = importance if rates is None or callable(rates) else rates
        self.n_clients = None if stated is None else np.size(stated)

    def _select(self, round: RoundContext) -> Selection:
        """Select every available client."""
        clients = np.flatnonzero(round.available)
        kept = self.weights in ("all", "unbiased")
        return Selection(clients, self._weigh(round, clients), on_failure="keep" if kept else "renormalise")

    def _weigh(self, round: RoundContext, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute the weights of the available clients, shape (len(clients),)."""
        if self.weights == "samples":
            return data_weights(round.sizes, clients)
        if self.rates is None:
            count = round.available.size if self.weights == "all" else max(clients.size, 1)
            return np.full(clients.size, 1.0 / count)
        alpha = equal_importance(round.available.size) if self.importance is None else self.importance
        raw = alpha[clients] / positive_rates(self.rates, round.round, clients)
        return raw / raw.sum() if self.weights == "adafed" and raw.size else raw


@SELECTORS.register("all-available")
def all_available(scenario: Scenario) -> SelectAll:
    """Select every available client, weighted by data."""
    return SelectAll("samples")


@SELECTORS.register("average-all")
def average_all(scenario: Scenario) -> SelectAll:
    """Average over all clients, absent ones counting as no change (FedAU's baseline)."""
    return SelectAll("all")


@SELECTORS.register("average-participating")
def average_participating(scenario: Scenario) -> SelectAll:
    """Take the mean update of those that participate (FedAU's baseline)."""
    return SelectAll("participating")


@SELECTORS.register("unbiased")
def unbiased(scenario: Scenario, *, importance: Importance = "samples") -> SelectAll:
    """Weigh available clients by importance over true participation rate (CA-Fed's benchmark).

    An oracle: it takes the true rates of availability and of return from the scenario. CA-Fed knows no failures after
    selection; without them the rate is the availability π of its definition.
    """
    return SelectAll(
        "unbiased", rates=participation_rates(scenario), importance=target_importance(scenario, importance)
    )


@SELECTORS.register("known-participation")
def known_participation(scenario: Scenario) -> SelectAll:
    """Weigh participating clients by one over their true participation rates (FedAU's baseline).

    An oracle: it takes the true rates of availability and of return from the scenario.
    """
    return SelectAll("unbiased", rates=participation_rates(scenario))


@SELECTORS.register("adafed")
def adafed(scenario: Scenario, *, importance: Importance = "samples") -> SelectAll:
    """Weigh available clients by importance over true participation rate, normalised every round.

    An oracle: it takes the true rates of availability and of return from the scenario.
    """
    return SelectAll("adafed", rates=participation_rates(scenario), importance=target_importance(scenario, importance))
