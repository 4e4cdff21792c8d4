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
from graphs.scores import EdgeScores, edge_scores
from graphs.secure import (
    Aggregator,
    CommodityServer,
    Message,
    Party,
    SecureProduct,
    SecureSimilarity,
    Transcript,
    secure_product,
    secure_similarity,
)
from graphs.shortest_paths import distances, path_lengths
from graphs.similarities import min_max, similarity
from graphs.threedg import PRESETS, Preset, dependency_graph, edge_weights

__all__ = [
    "PRESETS",
    "Aggregator",
    "CommodityServer",
    "DistanceError",
    "EdgeScores",
    "FeatureError",
    "GraphError",
    "GraphWarning",
    "Message",
    "Party",
    "Preset",
    "ProtocolError",
    "SecureProduct",
    "SecureSimilarity",
    "SimilarityError",
    "Transcript",
    "dependency_graph",
    "distances",
    "draw",
    "edge_scores",
    "edge_weights",
    "min_max",
    "path_lengths",
    "secure_product",
    "secure_similarity",
    "similarity",
]
