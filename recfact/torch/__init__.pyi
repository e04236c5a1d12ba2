from recfact.torch import context_parallel as context_parallel
from recfact.torch.phalanx import Phalanx as Phalanx
from recfact.torch.phalanx import phalanx_weights as phalanx_weights
from recfact.torch.solver import solve as solve
from recfact.torch.states import State as State
