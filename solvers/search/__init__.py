"""Vocabulary that tree searches share."""

from solvers.search.outcomes import NodeOutcome, add_outcomes

__all__ = ["NodeOutcome", "add_outcomes"]
