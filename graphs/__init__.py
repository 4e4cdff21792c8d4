"""Client similarity, the data-distribution-dependency graph (3DG) over it, and its shortest-path distances."""
