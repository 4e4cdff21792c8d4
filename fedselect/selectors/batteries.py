"""Any selector under budgets over a run: clients whose battery is used up do not take part any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedselect.errors import ConfigError
from fedselect.rounds.engine import learn, selection_of
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection, Selector
from fedselect.selectors.base import SelectorBase
from fedselect.selectors.constraints import RoundConstraints, RunBudget


class Batteries(SelectorBase):
    """Play a selector among the clients that have enough left of each budget over the run.

    The others are not available to it, neither when it selects nor when it learns of the outcomes. What the selected
    use counts whether their update arrives or not. Rounds in which no client has enough pass without clients.
    Selectors that keep constraints of their own take the same budgets among these
    (`fedselect.selectors.constraints.RoundConstraints`).

    Parameters
    ----------
    selector : Selector
        Any selector; it is not copied.
    n_clients : int
        Number of clients N.
    budgets : sequence of RunBudget
        What a round takes of each client, and what it has.

    Raises
    ------
    ConfigError
        When a budget is not over the run, or of another number of clients; in a round, when the selector chooses a
        client without enough.
    """

    state_names = ("constraints", "selector")

    def __init__(self, selector: Selector, n_clients: int, *, budgets: Sequence[RunBudget]) -> None:
        if other := [each for each in budgets if not isinstance(each, RunBudget)]:
            raise ConfigError(
                f"batteries are budgets over the run, of class RunBudget; got a {type(other[0]).__name__}"
            )
        self.selector = selector
        self.constraints = RoundConstraints(n_clients, budgets=budgets)
        self._empty = np.zeros(n_clients, dtype=np.bool_)  # available, and without enough in this round
        if not callable(getattr(selector, "state_dict", None)):  # a run of it begins again, as without batteries
            self.state_dict = self.load_state_dict = None  # type: ignore[assignment,method-assign]

    def __repr__(self) -> str:
        return (
            f"Batteries({self.selector!r}, {self.constraints.n_clients}, {len(self.constraints.run_budgets)} budgets)"
        )

    def select(self, round: RoundContext) -> Selection:
        """Ask the selector, to which clients without enough are not available."""
        self.constraints.check_clients(round.available.size)
        able = self.constraints.within_budgets(round)
        self._empty = round.available & ~able.available
        found = selection_of(self.selector.select(able), round.sizes, self.selector)
        if (spent := found.clients[self._empty[found.clients]]).size:
            raise ConfigError(
                f"the selector chose clients in round {round.round} that have used up a budget over the run, and were "
                f"not available to it: {spent.tolist()}"
            )
        return replace(found, notes={**found.notes, "constraints": {"over_run": self.constraints.over_run}})

    def update(self, feedback: RoundFeedback) -> None:
        """Count what was used, and pass on the outcomes as the selector may know them."""
        self.constraints.spend(feedback)
        outcomes = np.where(self._empty, np.int8(Outcome.UNAVAILABLE), feedback.outcomes)
        learn(self.selector, replace(feedback, outcomes=outcomes))


def with_batteries(selector: Any, constraints: RoundConstraints) -> Batteries:
    """Return a selector under the budgets of constraints that state nothing else."""
    return Batteries(selector, constraints.n_clients, budgets=constraints.run_budgets)
