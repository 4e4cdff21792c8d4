"""Selection without training, under the name that scripts call; it lives in `fedselect.rounds.simulation`."""

from fedselect.rounds.simulation import SimulatedRound, simulate

__all__ = ["SimulatedRound", "simulate"]
