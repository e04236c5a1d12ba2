from recfact.dask.averages import ewm as ewm
from recfact.dask.gradients import vjp as vjp
from recfact.dask.solver import solve as solve
