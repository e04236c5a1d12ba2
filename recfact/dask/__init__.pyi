from recfact.dask.gradients import vjp as vjp
from recfact.dask.solver import solve as solve
