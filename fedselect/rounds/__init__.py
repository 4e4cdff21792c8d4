"""One round as every engine plays it: protocol, scenario, decision, history; own loops; rounds without training."""

from fedselect.rounds.decision import Decision, decide
from fedselect.rounds.history import History
from fedselect.rounds.own_loop import context, feedback
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection, Selector
from fedselect.rounds.scenario import Scenario, World
from fedselect.rounds.simulation import SimulatedRound, play, simulate

__all__ = [
    "Decision",
    "History",
    "Outcome",
    "RoundContext",
    "RoundFeedback",
    "Scenario",
    "Selection",
    "Selector",
    "SimulatedRound",
    "World",
    "context",
    "decide",
    "feedback",
    "play",
    "simulate",
]
