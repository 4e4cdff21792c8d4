"""Selector ``oort``: clients of high loss on fast devices, explored and exploited, as published and as released."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.options import check_choice, check_count, check_number
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.selectors.base import SELECTORS, Aggregation, SelectorBase, aggregate, check_aggregation, check_size


@SELECTORS.register("oort")
class Oort(SelectorBase):
    r"""Select clients of high loss on fast devices, explored and exploited (as published or as released).

    Oort (Lai et al., OSDI 2021) ranks by statistical utility times system utility. The statistical utility of client i
    is :math:`U_i = |B_i| \sqrt{\frac{1}{|B_i|} \sum_k \ell_k^2}`. Clients report their mean loss here, which stands for
    the root mean square: :math:`U_i = n_i \bar\ell_i`, the same where the losses of a client are equal, and less
    elsewhere. Without losses (a simulation) :math:`U_i = n_i`. Clients that have returned before are *explored*; with R
    the round from 1, L_i the last round in which i returned and t_i the duration of that round, their score is

    .. math:: s_i = \left(f(U_i) + \sqrt{0.1 \ln R / L_i}\right) \cdot (T / t_i)^{\alpha\, 1[t_i > T]} .

    Of m clients, :math:`\lfloor (1 - \varepsilon) m \rfloor` are drawn among the explored whose score is at least
    ``cut_off`` times a threshold, in proportion to their scores; the others among the unexplored. ε is multiplied by
    ``decay`` in every round, down to ``least_exploration``. T is a percentile of the durations, which the pacer moves.
    Where nothing is known of durations (no clock, and none told by a loop of one's own) none is penalised.

    ``convention="paper"``: :math:`f(U) = \min(U, q)`, q the ``clip`` quantile of the explored utilities; the threshold
    is the score at place :math:`(1 - \varepsilon) m`; unexplored clients are drawn in proportion to their speed 1/t;
    T rises when the utilities exploited in the last ``pacer_step`` rounds sum to less than those of as many before;
    where too few are unexplored, more are exploited. (The paper moves T by a step in seconds, and states none.)

    ``convention="code"``, as released: :math:`f(U) = (\min(U, q) - u) / (\max U - u)` with u = 0.999 min U, over the
    utilities of all present (of the unexplored: their samples); the threshold is one place further; ε decays before the
    first use; of the unexplored, those of the ``window`` · (number to draw) largest :math:`n_i` times the same power of
    :math:`T / t_i` are drawn in proportion to it; T rises when the two sums (of means) differ by at most 10 % of the
    earlier one, and falls when they differ by at least five times the earlier one; once no client is unexplored ε is 0,
    and missing places are filled at random.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    convention : {"paper", "code"}
        See above.
    exploration, decay, least_exploration : float
        ε at the start, its factor per round, and where it ends; 0.9, 0.98 and 0.2 in the paper.
    penalty : float
        α; 2 in the paper.
    cut_off, clip : float
        0.95 each in the paper.
    percentile : float
        That of all clients' durations which T is at the start; 30 in the released configuration.
    pacer_step, pacer_delta : int, float
        Rounds between two decisions of the pacer, and percentiles by which it moves; 20 and 5.
    window : float
        Of the code's exploration; 5.
    most_turns : int, optional
        Clients that have returned more often are left out while there are others, and at most 30 % of all clients.
    aggregation : {"samples", "mean", "deadline"}
        See `fedselect.selectors.base.aggregate`.
    """

    state_names = (
        "exploration", "least_exploration", "percentile",
        "_sizes", "_utility", "_duration", "_last", "_turns", "_exploited", "_history",
    )  # fmt: skip

    def __init__(
        self,
        size: int,
        *,
        convention: Literal["paper", "code"] = "paper", aggregation: Aggregation = "samples",
        exploration: float = 0.9, decay: float = 0.98, least_exploration: float = 0.2,
        penalty: float = 2.0, cut_off: float = 0.95, clip: float = 0.95, percentile: float = 30.0,
        pacer_step: int = 20, pacer_delta: float = 5.0, window: float = 5.0, most_turns: int | None = None,
    ) -> None:  # fmt: skip
        self.size = check_size(size)
        self.convention = check_choice("convention", convention, "paper", "code")
        self.exploration = check_number("exploration", exploration, 0, 1)
        self.decay = check_number("decay", decay, 0, 1)
        self.least_exploration = check_number("least_exploration", least_exploration, 0, 1)
        self.penalty = check_number("penalty", penalty)
        self.cut_off = check_number("cut_off", cut_off, 0, 1)
        self.clip = check_number("clip", clip, 0, 1)
        self.percentile = check_number("percentile", percentile, 0, 100)
        self.pacer_step = check_count("pacer_step", pacer_step)
        self.pacer_delta = check_number("pacer_delta", pacer_delta, 0, 100)
        self.window = check_number("window", window, 1)
        self.most_turns = most_turns if most_turns is None else check_count("most_turns", most_turns)
        self.aggregation = check_aggregation(aggregation)
        self._sizes = self._utility = self._duration = np.empty(0)  # of every client, whose number a round tells
        self._last = self._turns = np.empty(0, dtype=np.int64)  # round of the last return, from 1; returns
        self._exploited = np.empty(0, dtype=np.int64)
        self._history = np.empty(0)  # utility that each round's exploitation brought

    def preferred_duration(self) -> float:
        """Return T: the percentile of the durations where it stands now; infinite at 100, and where none is known."""
        known = self._duration[np.isfinite(self._duration)]
        if self.percentile >= 100 or not known.size:
            return math.inf
        place = min(int(known.size * self.percentile / 100), known.size - 1)
        return float(np.partition(known, place)[place])

    def scores(self, clients: NDArray[np.int64], round: int, among: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of explored clients in a round, counted from 1; utilities are compared with ``among``."""
        utility = self._utility[clients]
        if self.convention == "paper":
            value = np.minimum(utility, _at_quantile(utility, self.clip))
        else:
            all_ = self._utility[among]
            all_ = all_[all_ > 0]
            least = 0.999 * all_.min(initial=math.inf) if all_.size else 0.0
            span = max(all_.max(initial=0.0) - least, 1e-4)
            value = (np.minimum(utility, _at_quantile(all_, self.clip)) - least) / span
        return (value + np.sqrt(0.1 * math.log(round) / self._last[clients])) * self._penalties(clients)

    def _penalties(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        limit = self.preferred_duration()
        took = self._duration[clients]
        late = (took > limit) & (took < math.inf)
        return np.where(late, (limit / np.where(late, took, 1.0)) ** self.penalty, 1.0)

    def _select(self, round: RoundContext) -> Selection:
        """Select; a round without clients counts as one for the exploration and the pacer, too."""
        if not self._utility.size:
            self._begin(round)
        if self.convention == "code":
            self._decay()
        self._move(round.round + 1)
        selection = super()._select(round)
        if not selection.clients.size:
            self._exploited = np.empty(0, dtype=np.int64)
        if self.convention == "paper":
            self._decay()
        return selection

    def _begin(self, round: RoundContext) -> None:
        n = self.n_clients = round.available.size
        self._sizes = round.sizes.astype(np.float64)
        self._utility = self._sizes.copy()
        self._duration = np.full(n, math.inf) if round.clock is None else round.clock.expected.copy()
        self._last, self._turns = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)

    def _decay(self) -> None:
        if self.exploration > self.least_exploration:
            self.exploration = max(self.exploration * self.decay, self.least_exploration)

    def _move(self, round: int) -> None:
        """Let the pacer raise or lower the percentile, by the utilities that exploitation brought."""
        step = self.pacer_step
        past = self._history[-2 * step :]
        if round < 2 * step or round % step or past.size < 2 * step:
            return
        before, now = float(past[:step].sum()), float(past[step:].sum())
        if self.convention == "paper":
            raised, lowered = before > now, False
        else:
            raised = abs(now - before) <= 0.1 * before
            lowered = not raised and abs(now - before) >= 5.0 * before
        if raised:
            self.percentile = min(100.0, self.percentile + self.pacer_delta)
        elif lowered:
            self.percentile = max(self.pacer_delta, self.percentile - self.pacer_delta)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        m, rng = min(self.size, present.size), round.rng
        viable = self._allowed(present, m)
        explored, fresh = viable[self._last[viable] > 0], viable[self._last[viable] == 0]
        wanted = min(int(m * (1.0 - self.exploration)), explored.size)
        if self.convention == "paper":  # what exploration cannot fill
            wanted = min(max(wanted, m - fresh.size), explored.size)
        exploited = np.empty(0, dtype=np.int64)
        if wanted:
            scores = self.scores(explored, round.round + 1, viable)
            place = wanted - 1 if self.convention == "paper" else min(wanted, explored.size - 1)
            threshold = -float(np.partition(-scores, place)[place])
            exploited = _drawn(rng, explored, np.where(scores >= self.cut_off * threshold, scores, 0.0), wanted)
        selected = np.concatenate([exploited, self._explore(rng, fresh, min(fresh.size, m - exploited.size))])
        if self.convention == "code" and not (self._last == 0).any():
            self.exploration = self.least_exploration = 0.0
        if selected.size < m:
            rest = np.setdiff1d(viable, selected)
            selected = np.concatenate([selected, rng.choice(rest, size=m - selected.size, replace=False)])
        self._exploited = np.sort(exploited)
        return aggregate(np.sort(selected), round.sizes, self.aggregation)

    def _allowed(self, present: NDArray[np.int64], m: int) -> NDArray[np.int64]:
        """Leave out those that returned too often, where enough others are there."""
        if self.most_turns is None:
            return present
        often = present[self._turns[present] > self.most_turns]
        most = min(int(0.3 * self._turns.size), present.size - m)
        out = often[np.argsort(-self._turns[often], kind="stable")[: max(most, 0)]]
        return np.setdiff1d(present, out)

    def _explore(self, rng: np.random.Generator, fresh: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
        if self.convention == "paper":
            known = np.isfinite(self._duration[fresh])
            return _drawn(rng, fresh, np.where(known, 1.0 / np.maximum(self._duration[fresh], 1e-9), 1.0), wanted)
        prior = self._utility[fresh] * self._penalties(fresh)
        kept = _first_by(-prior, int(self.window * wanted))
        return _drawn(rng, fresh[kept], prior[kept], wanted)

    def update(self, feedback: RoundFeedback) -> None:
        """Learn utilities and durations of those that returned."""
        back = np.flatnonzero(feedback.outcomes == Outcome.RETURNED)
        losses = _by_client(feedback.losses, np.ones(self._sizes.size))
        self._utility[back] = self._sizes[back] * losses[back]
        self._duration = _by_client(feedback.durations, self._duration)
        self._last[back] = feedback.round + 1
        self._turns[back] += 1
        brought = self._utility[self._exploited[feedback.outcomes[self._exploited] == Outcome.RETURNED]]
        total = float(brought.sum())
        value = total if self.convention == "paper" else total / (brought.size + 1e-4)
        self._history = np.append(self._history, value)


def _at_quantile(values: NDArray[np.float64], share: float) -> float:
    """Return the value at this share of the sorted ones, as the released code counts places; 0 where there is none."""
    if not values.size:
        return 0.0
    place = min(int(values.size * share), values.size - 1)
    return float(np.partition(values, place)[place])


def _first_by(keys: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the places of the smallest keys in their order, ties by place: a stable sort that sorts no others."""
    if count >= keys.size:
        return np.argsort(keys, kind="stable")
    if not count:
        return np.empty(0, dtype=np.int64)
    near = np.flatnonzero(keys <= np.partition(keys, count - 1)[count - 1])
    return near[np.argsort(keys[near], kind="stable")[:count]]


def _by_client(values: Mapping[int, float], before: NDArray[np.float64]) -> NDArray[np.float64]:
    """Write what is known by client over an array of all clients, (N,)."""
    before[np.fromiter(values.keys(), np.int64, len(values))] = np.fromiter(values.values(), np.float64, len(values))
    return before


def _drawn(
    rng: np.random.Generator, clients: NDArray[np.int64], weights: NDArray[np.float64], size: int
) -> NDArray[np.int64]:
    """Draw clients one after the other in proportion to weights; those of weight 0 where no others are left."""
    positive = np.flatnonzero(weights > 0)
    if positive.size < size:
        rest = np.setdiff1d(np.arange(clients.size), positive)
        more = rng.choice(rest, size=size - positive.size, replace=False)
        return clients[np.concatenate([positive, more])]
    if not size:
        return np.empty(0, dtype=np.int64)
    share = weights[positive]
    share /= share.sum()
    return clients[positive[rng.choice(positive.size, size=size, replace=False, p=share)]]
