from recfact.gpu.availability import why_unavailable as why_unavailable
from recfact.gpu.mixer import tune_phalanx as tune_phalanx
from recfact.gpu.solver import solve as solve
from recfact.gpu.tuning import tune as tune
from recfact.gpu.warm import warm_up as warm_up
from recfact.gpu.warm import warm_up_phalanx as warm_up_phalanx
