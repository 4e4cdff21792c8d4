"""Balance: the clients whose labels together are spread evenly over the classes, Fed-CBS's class imbalance."""

from solvers.balance import certificates, methods  # noqa: F401  (they register themselves)
from solvers.balance.problem import BalanceProblem
from solvers.balance.sampling import draw_fed_cbs

__all__ = ["BalanceProblem", "draw_fed_cbs", "methods"]
