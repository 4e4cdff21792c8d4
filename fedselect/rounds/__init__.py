"""Rounds: protocol, scenario, decision, history; external loops and simulations."""

from fedselect.rounds.engine import Decision, Round, context, decide, feedback, play, simulate
from fedselect.rounds.history import History
from fedselect.rounds.protocol import EndOfRun, Outcome, RoundContext, RoundFeedback, Selection, Selector
from fedselect.rounds.scenario import Scenario, World

__all__ = [
    "Decision",
    "EndOfRun",
    "History",
    "Outcome",
    "Round",
    "RoundContext",
    "RoundFeedback",
    "Scenario",
    "Selection",
    "Selector",
    "World",
    "context",
    "decide",
    "feedback",
    "play",
    "simulate",
]
