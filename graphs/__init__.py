"""Client similarity, the data-distribution-dependency graph (3DG) over it, and its shortest-path distances.

From features to the distances a selector works with::

    from graphs import dependency_graph, distances, similarity

    H = distances(dependency_graph(similarity(features)))
"""

from graphs.drawing import draw
from graphs.errors import (
    DistanceError,
    FeatureError,
    GraphError,
    GraphWarning,
    ProtocolError,
    SimilarityError,
)
from graphs.shortest_paths import distances, path_lengths
from graphs.similarities import label_distribution, min_max, similarity
from graphs.threedg import PRESETS, Preset, dependency_graph, edge_weights

__all__ = [
    "PRESETS",
    "DistanceError",
    "FeatureError",
    "GraphError",
    "GraphWarning",
    "Preset",
    "ProtocolError",
    "SimilarityError",
    "dependency_graph",
    "distances",
    "draw",
    "edge_weights",
    "label_distribution",
    "min_max",
    "path_lengths",
    "similarity",
]
