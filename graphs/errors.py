"""What the graphs package raises and warns about."""

from __future__ import annotations


class GraphError(ValueError):
    """Any input the graphs package cannot work with; every error below is one."""


class FeatureError(GraphError):
    """Client features from which no similarity can be computed."""


class SimilarityError(GraphError):
    """A similarity matrix, or an option about one, from which no graph can be built."""


class DistanceError(GraphError):
    """A graph or weight matrix on which shortest paths are not defined."""


class ProtocolError(GraphError):
    """A secure computation whose parties cannot go on: wrong shape, range or order of messages."""


class GraphWarning(UserWarning):
    """The answer is well defined but probably not what was hoped for; the message says why."""
