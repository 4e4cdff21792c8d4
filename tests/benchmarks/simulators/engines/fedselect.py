"""fedselect: its own loop, with a selector that returns the clients of the file."""

from __future__ import annotations

from typing import Any

from simulators.work import RATE, Watch, Work

from fedselect.availability import AVAILABILITY
from fedselect.data import Federation
from fedselect.rounds import RoundContext, Selection
from fedselect.training.fedavg import FedAvg
from fedselect.training.settings import TrainingSettings


class Written:
    """Select the clients of the file."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def select(self, context: RoundContext) -> Selection:
        return Selection(self.work.clients[context.round], self.work.shares(context.round))

    def update(self, feedback: Any) -> None:
        """Learn nothing."""


def run(work: Work, cores: int, done: Watch) -> None:
    """Do the work; workers train beside each other where clients are not stacked."""
    case = work.case
    federation = Federation.from_tensors(work.tensors(), tuple(part[:1] for part in work.samples(0)), classes=10)
    settings = TrainingSettings(
        learning_rate=RATE,
        decay=1.0,
        local_steps=case.steps,
        batch_size=case.batch,
        evaluate_every=10**6,
        workers=cores,
        device="cpu",
    )
    availability = AVAILABILITY.build("ideal", federation, 0)
    loop = FedAvg(federation, Written(work), availability, model=work.model(), settings=settings)
    loop.fit(case.rounds, [lambda record: done(lambda: dict(loop.model.named_parameters()))])
