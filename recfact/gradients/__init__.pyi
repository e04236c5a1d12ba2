from recfact.gradients.products import jvp as jvp
from recfact.gradients.products import vjp as vjp
