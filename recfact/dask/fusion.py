"""Fusion of tasks: a task loads the chunks that it alone needs.

If a separate task loads a chunk, it may do so long before the recurrence needs it. The chunk then fills memory.
"""

from __future__ import annotations

from typing import Any

from dask._task_spec import Task, convert_legacy_graph
from dask.array.optimization import optimize
from dask.core import flatten, reverse_dict
from dask.highlevelgraph import HighLevelGraph


def fused(names: list[str], tasks: dict[Any, Any], arrays: list[Any]) -> HighLevelGraph:
    """Return the graph of some tasks. Each of them makes those chunks of lazy arrays that nothing else needs.

    Parameters
    ----------
    names : list of str
        Names of the tasks whose results a caller gets.
    tasks : dict
        Tasks by key. They refer to chunks of the arrays and to each other.
    arrays : list of dask.array.Array
        The arrays that they refer to.
    """
    graph = HighLevelGraph.merge(*(array.__dask_graph__() for array in arrays))
    keys = set(flatten([array.__dask_keys__() for array in arrays]))
    held = {task.key: task for task in dict(graph).values() if hasattr(task, "add_done_callback")}
    loads: dict[Any, Any] = convert_legacy_graph(dict(optimize(graph, keys)))
    own: dict[Any, Any] = convert_legacy_graph(tasks, all_keys={*tasks, *loads, *held})
    dependents = reverse_dict({key: node.dependencies for key, node in (loads | own).items()})
    for key, node in own.items():
        inside = {key: node}
        pending = list(node.dependencies)
        while pending:
            needed = pending.pop()
            if needed in loads and needed not in inside and dependents[needed] <= inside.keys():
                inside[needed] = loads.pop(needed)
                pending += inside[needed].dependencies
        own[key] = Task.fuse(*inside.values(), key=key) if len(inside) > 1 else node
    layers: dict[str, Any] = {name: {key: own.pop(key) for key in list(own) if key[0] == name} for name in names}
    inner = [f"{names[0]}-{kind}" for kind in ("inputs", "held")]
    layers |= dict(zip(inner, (loads | own, held), strict=True))
    return HighLevelGraph(layers, {**{name: {inner[0]} for name in names}, inner[0]: {inner[1]}, inner[1]: set()})
