"""A library of selection problems recorded from federations, each with its best known value.

>>> from solvers import instances, solve
>>> instances.names("allocation")[0]
'fedss-clustered-n24-m6-groups4-r12'
>>> name = "fedgs-digits-twolabel-n30-m5-lognormal-r10"
>>> problem, known = instances.load(name), instances.info(name)
>>> known.proved, abs(problem.objective(instances.best(name)) - known.best_known) < 1e-12
(True, True)
>>> solve(problem, "tabu", seed=0).objective <= known.best_known
True
"""

from solvers.instances import ledger
from solvers.instances.ledger import submit
from solvers.instances.library import InstanceInfo, best, digest, info, load, names

__all__ = ["InstanceInfo", "best", "digest", "info", "ledger", "load", "names", "submit"]
