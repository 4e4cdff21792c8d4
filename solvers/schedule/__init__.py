"""Schedule: who trains in which round so that turns are as even as availability allows, in hindsight."""

from solvers.schedule import certificates, methods  # noqa: F401  (they register themselves)
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.residual import find_exchange

__all__ = ["ScheduleProblem", "find_exchange", "methods"]
