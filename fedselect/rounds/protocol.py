"""Protocol of a selector: the round's context, the selection that answers it, and the feedback afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fedselect.clock import Clock
from fedselect.errors import ConfigError
from fedselect.options import array_of, check_choice, check_count
from solvers import Solution


class Outcome(IntEnum):
    """Outcome of a round for a client."""

    UNAVAILABLE = 0  #: was not there to be selected
    IDLE = 1  #: was available, and not selected
    RETURNED = 2  #: was selected, and its update arrived
    FAILED = 3  #: was selected, and reported an error or sent what cannot be used
    MISSING = 4  #: was selected, and was not heard of again, or not in time


class EndOfRun(Exception):
    """Raised by a selector in the place of a selection: the run ends before this round. The message says why."""


#: Clients to their losses, shape (len(clients),).
Probe = Callable[[Sequence[int]], NDArray[np.float64]]


@dataclass(frozen=True)
class RoundContext:
    """Context of a round: what a selector is told when it selects.

    Attributes
    ----------
    round : int
        Round index, from 0.
    available : (N,) ndarray of bool
        Which clients are available.
    sizes : (N,) ndarray of int
        Training samples of each client.
    rng : numpy.random.Generator
        The selector's randomness, derived from (seed, round): with another, a run neither repeats nor resumes.
    time_limit : float or None
        Wall-clock seconds the decision may take.
    probe : callable, optional
        ``probe(clients) -> losses``: mean training loss of the current global model at each of these clients.
        Calling it stands for one more message to each.
    validation_probe : callable, optional
        The same for the mean loss on the samples that each client has held out of training.
    seconds : float
        Start of the round, in seconds since the start of the run: by the clock or, without one, by the
        ``round_seconds`` of an availability in seconds; else 0.
    clock : Clock, optional
        What clients tell the server about their devices: expected durations, and how the round will end.
    """

    round: int
    available: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    rng: np.random.Generator
    time_limit: float | None = None
    probe: Probe | None = None
    validation_probe: Probe | None = None
    seconds: float = 0.0
    clock: Clock | None = None


@dataclass(frozen=True, eq=False)
class Selection:
    r"""Clients that train, and the absolute weights that their updates are applied with.

    The server applies :math:`w \leftarrow w + \sum_i a_i \Delta_i`, where :math:`\Delta_i` is client i's update.

    Attributes
    ----------
    clients : (m,) ndarray of int
        Selected clients, sorted; may be empty.
    weights : (m,) ndarray of float
        Absolute weights a_i, in the order of ``clients``.
    inclusion : (N,) ndarray of float, optional
        Probability with which each client was to be selected this round, where the scheme is random and states it.
    on_failure : {"keep", "renormalise"}
        What happens to the weights when some of the selected do not return: ``"keep"`` them, or scale those of the
        returned to the same total.
    solution : solvers.Solution, optional
        The optimisation behind the decision.
    notes : mapping of str to object, optional
        What else there is to say of the decision, as JSON values; a run's record has it.
    enough : int, optional
        Updates after which the server ends the round, where a clock says which are first; the clock's policy says it
        by default.

    Raises
    ------
    ConfigError
        When ``clients`` are not whole numbers, distinct and sorted, a client has no finite weight, ``on_failure`` is
        unknown, or ``enough`` is no positive integer.
    """

    clients: NDArray[np.int64]
    weights: NDArray[np.float64]
    inclusion: NDArray[np.float64] | None = None
    on_failure: Literal["keep", "renormalise"] = "keep"
    solution: Solution | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    enough: int | None = None

    def __post_init__(self) -> None:
        given = array_of(self.clients)
        if given.size and given.dtype.kind not in "iu":
            raise ConfigError(f"a selection's clients must be whole numbers, ids of clients; got {self.clients!r:.80}")
        clients = given.astype(np.int64, copy=False)
        weights = np.asarray(self.weights, dtype=np.float64)
        if clients.ndim != 1 or (np.diff(clients) <= 0).any():
            raise ConfigError(f"a selection's clients must be distinct and sorted; got {clients}")
        if weights.shape != clients.shape or not np.isfinite(weights).all():
            raise ConfigError(f"a selection needs one finite weight per client, {clients.size}; got {weights}")
        check_choice("on_failure", self.on_failure, "keep", "renormalise")
        if self.enough is not None:
            check_count("a selection's enough", self.enough)
        object.__setattr__(self, "clients", clients)
        object.__setattr__(self, "weights", weights)

    def applied_weights(self, returned: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Weights to apply when only some of the selected returned.

        Parameters
        ----------
        returned : (m,) ndarray of bool
            Which of ``clients`` returned.

        Returns
        -------
        (m,) ndarray of float
            Zero for those that did not.
        """
        applied = np.where(returned, self.weights, 0.0)
        if self.on_failure == "renormalise" and (total := math.fsum(applied)) != 0:
            applied *= math.fsum(self.weights) / total
        return applied


@dataclass(frozen=True, eq=False)
class RoundFeedback:
    """Feedback of a round to the selector that decided it.

    Attributes
    ----------
    round : int
        Round index, from 0.
    selection : Selection
        The selector's own decision.
    outcomes : (N,) ndarray of Outcome
        Outcome of every client; those selected, and they alone, returned, failed or are missing.
    losses : dict of int to float
        Mean local training loss over the round's steps, for the clients that returned.
    norms : dict of int to float
        Euclidean norm of the update, for the clients that returned.
    received_losses : dict of int to float
        Loss of the received global model on the client's first batch, before any step, for the clients that returned.
        (CA-Fed needs losses before it decides, and asks for them by ``probe``.)
    updates : mapping of int to (d,) ndarray of float32
        The updates Δ_k of the clients that returned. Fetched from the training device when looked up; to be read
        inside ``update`` and copied where a selector keeps them.
    embeddings : mapping of int to (c,) ndarray of float32
        Averaged answer of each returned client's model to the server's noise (FedGS's e_k): computed at the server
        when looked up inside ``update``, from the update alone; empty where the server does not hold the architecture
        or has no validation samples to draw the noise by.
    durations : dict of int to float
        Seconds from the start of the round to the end of the upload, for the clients that returned, on the clock.
    seconds : float
        Length of the round on the clock; 0 where rounds have no length.

    Raises
    ------
    ConfigError
        When ``outcomes`` are none, or contradict the selection, or a loss or duration is not finite (a client that
        sends such a number has failed).
    """

    round: int
    selection: Selection
    outcomes: NDArray[np.int8]
    losses: dict[int, float] = field(default_factory=dict)
    norms: dict[int, float] = field(default_factory=dict)
    received_losses: dict[int, float] = field(default_factory=dict)
    updates: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    embeddings: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    durations: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        outcomes, clients = np.asarray(self.outcomes), self.selection.clients
        whole = outcomes.ndim == 1 and outcomes.dtype.kind in "iu"
        if not whole or ((outcomes < Outcome.UNAVAILABLE) | (outcomes > Outcome.MISSING)).any():
            raise ConfigError(f"outcomes must be one Outcome (0 to 4) for each client; got {self.outcomes!r:.80}")
        if clients.size and not 0 <= clients[0] <= clients[-1] < outcomes.size:
            raise ConfigError(
                f"the selection names clients {clients[0]} to {clients[-1]}; outcomes has {outcomes.size}"
            )
        selected = np.zeros(outcomes.size, dtype=bool)
        selected[clients] = True
        wrong = np.flatnonzero(selected != (outcomes >= Outcome.RETURNED))
        if wrong.size:
            first, was = wrong[0], "was" if selected[wrong[0]] else "was not"
            raise ConfigError(
                f"outcomes contradict the selection: client {first} {was} selected, and its outcome is "
                f"{Outcome(int(outcomes[first])).name} (selected: RETURNED, FAILED, MISSING; others: IDLE, UNAVAILABLE)"
            )
        for name in ("losses", "received_losses", "durations"):  # of a huge update the norm may overflow
            check_finite(name, getattr(self, name))
        object.__setattr__(self, "outcomes", outcomes.astype(np.int8, copy=False))


class OfClients(Mapping[int, NDArray[np.float32]]):
    """Something of each client that is computed, or fetched from the device, when looked up."""

    def __init__(self, clients: Sequence[int], look_up: Callable[[int], NDArray[np.float32]]) -> None:
        self._places = dict(zip(clients, range(len(clients)), strict=True))
        self._look_up = look_up

    def __getitem__(self, client: int) -> NDArray[np.float32]:
        return self._look_up(self._places[client])

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def check_finite(what: str, numbers: Mapping[int, float]) -> None:
    """Raise `ConfigError` where the number of a client is not finite."""
    if _is_finite(numbers.values()):
        return
    for client, value in numbers.items():  # finite ones may overflow together
        if not _is_finite([value]):
            raise ConfigError(
                f"{what} of client {client} must be a finite number; got {value!s:.80} (is it one that failed?)"
            )


def _is_finite(values: Iterable[float]) -> bool:
    """Whether the sum of values is a finite number; what is none has no sum."""
    try:
        return math.isfinite(sum(values))
    except (TypeError, OverflowError):
        return False


class Selector(Protocol):
    """Anything that selects clients, in a run, a Flower strategy or a script."""

    def select(self, round: RoundContext) -> Selection:
        """Decide who trains this round; may raise `EndOfRun`."""
        ...

    def update(self, feedback: RoundFeedback) -> None:
        """Learn the outcomes of the decision."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything the next decision depends on.

        Numbers, texts, arrays and PyTorch's tensors, in dictionaries, lists and tuples: the ``state_dict`` of a module
        or an optimizer as it is. It comes back as it was, tensors on the CPU.
        """
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        ...
