"""Selector ``fedcs``: clients that end in time over one uplink; without a clock, the oracle that E3CS compares with."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count, check_number
from fedselect.rounds.protocol import RoundContext, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    Aggregation,
    SelectorBase,
    aggregate,
    check_aggregation,
    check_solving,
    solved,
    success_rates,
)
from fedselect.selectors.ranking import FedCS
from solvers.deadline import DeadlineProblem


class TimedFedCS(SelectorBase):
    r"""Select as many clients as possible whose updates arrive before a deadline, one upload at a time.

    FedCS (Nishio and Yonetani, ICC 2019): the server asks some clients for their resources, and selects of these by the
    times that follow. The deadline, not the number of clients per round, says how many. Client k may upload when its
    download and training are over; one uplink carries the uploads, whatever links the clock has. The published rule
    takes the client that adds the least time, again and again, and may select fewer than is possible;
    ``method="moore-hodgson"`` selects as many as possible in polynomial time, with ``values="equal"``. Times are those
    that the clock expects: under jitter some of the selected are late.

    Parameters
    ----------
    deadline : float, optional
        Seconds from the start of the round; the clock's if left out.
    method : str
        A method for `solvers.deadline.DeadlineProblem`: ``"fedcs"`` as published, ``"auto"`` exactly.
    candidates : int, optional
        Clients that are asked, drawn uniformly (the paper's ⌈K·C⌉); all of the available by default.
    values : {"equal", "samples"}
        What a client counts: 1, or its samples (the published rule does not look).
    aggregation : {"samples", "mean", "deadline"}
        See `fedselect.selectors.base.aggregate`.
    """

    def __init__(
        self,
        *,
        deadline: float | None = None,
        method: str = "fedcs",
        candidates: int | None = None,
        values: Literal["equal", "samples"] = "equal",
        aggregation: Aggregation = "samples",
    ) -> None:
        self.deadline = deadline if deadline is None else check_number("deadline", deadline, open_low=True)
        check_solving(DeadlineProblem, method)
        self.method, self.values = method, check_choice("values", values, "equal", "samples")
        self.candidates = candidates if candidates is None else check_count("candidates", candidates)
        self.aggregation = check_aggregation(aggregation)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        clock = round.clock
        if clock is None:
            raise ConfigError("selector 'fedcs' selects by the times of a clock, and this round has none")
        deadline = clock.settings.deadline if self.deadline is None else self.deadline
        if deadline is None:
            raise ConfigError(
                "selector 'fedcs' needs a deadline in seconds: its own option, or that of the clock (policy 'deadline')"
            )
        if self.candidates is not None and self.candidates < present.size:
            present = np.sort(round.rng.choice(present, size=self.candidates, replace=False))
        ready, upload = (clock.download + clock.compute)[present], clock.upload[present]
        worth = round.sizes[present].astype(np.float64) if self.values == "samples" else None
        x, solution = solved(DeadlineProblem(ready, upload, deadline, worth), self.method, round)
        clients = present[np.flatnonzero(x)]
        if not clients.size:
            quickest = int(np.argmin(ready + upload))
            why = (
                f"nobody meets the deadline of {deadline:g} s: the quickest of {present.size}, client "
                f"{present[quickest]}, takes {ready[quickest] + upload[quickest]:.3g} s"
            )
            return Selection(clients, np.empty(0), solution=solution, notes={"nobody": why})
        chosen = aggregate(clients, round.sizes, self.aggregation)
        return Selection(clients, chosen.weights, on_failure=chosen.on_failure, solution=solution)


@SELECTORS.register("fedcs")
def fedcs(
    scenario: Scenario,
    *,
    aggregation: Aggregation | None = None,
    deadline: float | None = None,
    method: str = "fedcs",
    candidates: int | None = None,
    values: Literal["equal", "samples"] = "equal",
) -> FedCS | TimedFedCS:
    """Select as many clients as end in time over one uplink; without a clock, those of the largest true success rates.

    The second is E3CS's baseline, an oracle, which has no other option than ``aggregation``: ``"deadline"`` by default
    there, ``"samples"`` with a clock. ``method="auto"`` selects exactly, ``"fedcs"`` by the published rule. With a
    clock the deadline, and not the number of clients per round, says how many are selected.
    """
    if scenario.clock is None:
        given = ("deadline", deadline, None), ("method", method, "fedcs"), ("candidates", candidates, None)
        if stated := [name for name, value, unsaid in (*given, ("values", values, "equal")) if value != unsaid]:
            raise ConfigError(f"selector 'fedcs' takes {stated[0]} where there is a clock: give the run a [clock]")
        return FedCS(scenario.size, rates=success_rates(scenario), aggregation=aggregation or "deadline")
    if deadline is None and scenario.clock.settings.deadline is None:
        raise ConfigError("selector 'fedcs' needs a deadline in seconds: its own option, or that of the [clock]")
    return TimedFedCS(
        deadline=deadline, method=method, candidates=candidates, values=values, aggregation=aggregation or "samples"
    )
