"""A 3DG on disk, in GraphML, so that it opens in Gephi, igraph and yEd."""

from __future__ import annotations

import math
import re
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphs.errors import GraphError

if TYPE_CHECKING:
    import networkx as nx

_ENTRY = re.compile(r"(?P<name>.+)\[(?P<index>\d+)\]")
_NAMES = {"int": int, "str": str}

#: What NetworkX raises on attributes of a wrong type, keys that are not declared and damaged text, as these fall.
_DAMAGE = (AttributeError, LookupError, OSError, OverflowError, RecursionError, TypeError, ValueError)


def write_graphml(graph: nx.Graph, path: str | PathLike[str]) -> None:
    """Write a graph with its attributes.

    NumPy numbers become plain ones, a vector attribute ``labels`` becomes one column per entry
    (``labels[0]``, ``labels[1]``, …) that Gephi can colour by, and infinities are spelled ``Infinity``,
    which Java's and Python's readers both take. `read_graphml` undoes all three.

    Parameters
    ----------
    graph
        Undirected, its nodes all integers or all strings.
    path
        The file, overwritten if it exists.

    Raises
    ------
    GraphError
        If the graph is directed or a multigraph, nodes are neither all integers nor all strings, or an
        attribute is neither a number, a truth value, a string, nor a vector of numbers.
    """
    import networkx as nx
    from networkx.readwrite.graphml import GraphMLWriter

    if graph.is_directed() or graph.is_multigraph():
        raise GraphError(f"the graph must be an undirected networkx.Graph; got a {type(graph).__name__}.")
    kinds = {"int" if isinstance(node, int | np.integer) else type(node).__name__ for node in graph}
    kinds = kinds or {"int"}
    if len(kinds) > 1 or not kinds <= set(_NAMES):
        raise GraphError(f"nodes must be all int or all str; got {', '.join(sorted(kinds))}.")
    plain = nx.Graph(**_flat("the graph", graph.graph), node_type=kinds.pop())
    for node, attributes in graph.nodes(data=True):
        plain.add_node(str(node), **_flat(f"node {node!r}", attributes))
    for u, v, attributes in graph.edges(data=True):
        plain.add_edge(str(u), str(v), **_flat(f"edge {u!r}-{v!r}", attributes))
    writer = GraphMLWriter(encoding="utf-8", prettyprint=True)
    writer.add_graph_element(plain)
    numbers = {key.get("id") for key in writer.xml.iter("key") if key.get("attr.type") in ("double", "float")}
    for data in writer.xml.iter("data"):
        if data.get("key") in numbers and data.text in ("inf", "-inf"):
            data.text = data.text.replace("inf", "Infinity")
        elif data.get("key") in numbers and data.text == "nan":
            data.text = "NaN"
    with Path(path).open("wb") as stream:
        writer.dump(stream)


def read_graphml(path: str | PathLike[str]) -> nx.Graph:
    """Read a graph that `write_graphml`, or another program, wrote.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    networkx.Graph
        Nodes in the order of the file; integers again if they were, and strings in files by other programs.

    Raises
    ------
    GraphError
        If the file is not GraphML, or holds a directed graph or parallel edges.
    FileNotFoundError
        If there is no such file.
    """
    import xml.etree.ElementTree as ElementTree

    import networkx as nx

    try:
        plain = nx.read_graphml(Path(path))
        convert: Any = _NAMES[plain.graph.pop("node_type", "str")]
        names = [convert(node) for node in plain]
    except FileNotFoundError:
        raise
    except (nx.NetworkXException, ElementTree.ParseError, *_DAMAGE) as reason:
        raise GraphError(f"{Path(path).name} cannot be read as GraphML: {reason}.") from None
    if len(set(names)) < len(names):
        raise GraphError(f"{Path(path).name} cannot be read as GraphML: two nodes have the same number.")
    if plain.is_directed() or plain.is_multigraph():
        raise GraphError(
            f"{Path(path).name} must hold an undirected graph without parallel edges; got a {type(plain).__name__}."
        )
    # Written by NetworkX for graphs without attributes of their own.
    for default in ("node_default", "edge_default"):
        plain.graph.pop(default, None)
    graph = nx.Graph(**_nested(plain.graph))
    for node, attributes in plain.nodes(data=True):
        graph.add_node(convert(node), **_nested(attributes))
    for u, v, attributes in plain.edges(data=True):
        attributes.pop("id", None)
        graph.add_edge(convert(u), convert(v), **_nested(attributes))
    return graph


def _flat(owner: str, attributes: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in attributes.items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, list | tuple | np.ndarray) and np.ndim(value) == 1 and len(value):
            vector = np.asarray(value)
            if vector.dtype.kind not in "biuf":
                raise GraphError(f"{name} of {owner} must be a vector of numbers; got {value!r}.")
            flat |= {f"{name}[{i}]": entry for i, entry in enumerate(vector.tolist())}
        elif isinstance(value, bool | int | str):
            flat[name] = value
        elif isinstance(value, float):
            flat[name] = value if not math.isnan(value) else math.nan
        else:
            raise GraphError(
                f"{name} of {owner} must be a number, a truth value, a string or a vector of numbers; got {value!r}."
            )
    return flat


def _nested(attributes: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    vectors: dict[str, dict[int, Any]] = {}
    for name, value in attributes.items():
        entry = _ENTRY.fullmatch(name)
        if entry:
            vectors.setdefault(entry["name"], {})[int(entry["index"][:18])] = value
        else:
            nested[name] = value
    for name, entries in vectors.items():
        nested[name] = [entries[i] for i in sorted(entries)]
    return nested
