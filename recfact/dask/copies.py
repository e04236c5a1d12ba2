"""Copies of lazy arrays under other names: their chunks are then loaded twice, instead of being kept in memory."""

from __future__ import annotations

from typing import Any

import dask.array as da
from dask.base import clone_key
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer


def copied(arrays: list[Any], seed: str) -> list[Any]:
    """Return lazy arrays of the same numbers whose tasks all have new names.

    ``dask.graph_manipulation.clone`` is meant for that, but it ignores the references inside tasks of dask's present
    form.
    """
    graph = HighLevelGraph.merge(*(array.__dask_graph__() for array in arrays))
    keys, layers = graph.get_all_external_keys(), {}
    for name, layer in graph.layers.items():
        copy, _ = layer.clone(keys, seed)
        if isinstance(copy, MaterializedLayer):
            copy = MaterializedLayer({clone_key(key, seed): _renamed(key, layer[key], copy, seed) for key in layer})
        layers[clone_key(name, seed)] = copy
    dependencies = {
        clone_key(name, seed): {clone_key(other, seed) for other in others}
        for name, others in graph.dependencies.items()
    }
    graph = HighLevelGraph(layers, dependencies)
    return [da.Array(graph, clone_key(array.name, seed), array.chunks, meta=array._meta) for array in arrays]


def _renamed(key: Any, task: Any, copy: Any, seed: str) -> Any:
    """Return a task that refers to other tasks by their new names."""
    own = clone_key(key, seed)
    if not hasattr(task, "dependencies"):  # a task of an older form, or data that workers hold
        return copy[own]
    return task.substitute({other: clone_key(other, seed) for other in task.dependencies}, key=own)
