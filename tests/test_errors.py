"""What exceptions carry, and what they say."""

import copy
import pickle

import pytest

import recfact as rf
from recfact import errors
from recfact.errors import OptionError, OptionTypeError, RecfactError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RecfactError)]


@pytest.mark.parametrize("kind", KINDS)
def test_exceptions_survive_pickling_and_copying(kind):
    error = kind("must be odd", "k", given=2, advice="add one", instead={"k": 3})
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert (again.argument, again.given, again.instead) == ("k", 2, {"k": 3})
    assert str(kind("one sentence")) == "one sentence"
    assert str(kind()) == ""


def test_the_parts_of_a_message():
    assert str(OptionError("must be odd", "k")) == "k must be odd"
    assert str(OptionError("must be odd", "k", given=None)) == "k must be odd, got None"
    assert str(OptionError("must be odd", given=2, advice="add one")) == "must be odd, got 2; add one"
    assert str(OptionError("must be odd", "k", instead={"k": 3, "m": "x"})) == "k must be odd; pass k=3 and m='x'"
    assert str(OptionTypeError("must be odd", "k", given="2")) == "k must be odd, got '2' of type str"
    assert str(OptionTypeError("must be odd", "k", given=True)) == "k must be odd, got the boolean True"
    error = OptionError("must be odd", "k", given=2, instead={"k": 3})
    assert (
        error.sentence(lambda name: f"--{name}", lambda value: f"<{value}>", " ")
        == "--k must be odd, got <2>; pass --k <3>"
    )


def test_a_value_that_can_not_be_written_does_not_hide_the_message():
    class Mute:
        def __repr__(self):
            raise RuntimeError("not yet")

    with pytest.raises(
        OptionTypeError, match="axis must be an integer, got a value of type Mute that can't be written"
    ):
        rf.solve(0.5, [1.0], axis=Mute())
