"""Schedule: who trains in which round so that turns are as even as availability allows, in hindsight."""

from solvers.schedule import certificates, diverse, methods  # noqa: F401  (they register themselves)
from solvers.schedule.problem import DiverseScheduleProblem, ScheduleProblem
from solvers.schedule.residual import find_exchange

__all__ = ["DiverseScheduleProblem", "ScheduleProblem", "find_exchange", "methods"]
