"""The peers solve the same recurrence, as far as they are installed."""

import sys

import numpy as np
import pytest
from market import exact_solution, fractions, rounding_bound, unit_roundoff

from recfact.bench.cases import inputs
from recfact.bench.peers import PEERS

N = 100


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_agrees_with_the_definition(peer):
    a, u, _ = inputs((N,))
    if peer.constant:
        a[:] = 0.9
    try:
        call = peer.make(a, u)
    except ImportError as error:
        pytest.skip(f"{error}")
    x = np.asarray(call())
    assert x.dtype == np.float32
    assert x.size == N
    # A loop multiplies and adds at most 2 d + 1 times over a distance d; a tree adds at most 2 log2(n) to that.
    bound = rounding_bound(
        fractions(a), fractions(u), lambda i, j: 2 * (i - j) + 1 + 2 * N.bit_length(), unit_roundoff("float32")
    )
    assert (abs(fractions(x.reshape(-1)) - exact_solution(a, u)) <= bound).all()


@pytest.mark.parametrize("module", ["torch", "torchlpc", "jax"])
def test_a_missing_library_is_an_import_error(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    peer = next(peer for peer in PEERS if peer.make.__name__ == ("associative_scan" if module == "jax" else "torchlpc"))
    a, u, _ = inputs((4,))
    with pytest.raises(ImportError):
        peer.make(a, u)
