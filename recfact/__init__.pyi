from recfact import affine as affine
from recfact import dask as dask
from recfact import data as data
from recfact import errors as errors
from recfact import factorizations as factorizations
from recfact import gpu as gpu
from recfact import gradients as gradients
from recfact import plot as plot
from recfact import precision as precision
from recfact import torch as torch
from recfact.averages import ewm as ewm
from recfact.factorizations import BrentKung as BrentKung
from recfact.factorizations import Hierarchical as Hierarchical
from recfact.factorizations import KoggeStone as KoggeStone
from recfact.factorizations import TransferOperator as TransferOperator
from recfact.factorizations import cost_table as cost_table
from recfact.factorizations import materialize as materialize
from recfact.phalanx import phalanx as phalanx
from recfact.solve import solve as solve
from recfact.state import State as State
from recfact.stream import solve_chunks as solve_chunks
from recfact.windows import Full as Full
from recfact.windows import Jagged as Jagged
from recfact.windows import Uniform as Uniform

__version__: str
