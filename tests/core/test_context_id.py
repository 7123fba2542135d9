"""The id of a context: a hash of its inputs, however it was built."""

import hashlib

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.core.context import Inputs, make_id_function
from brimful.core.model import ModelInfo
from brimful.core.stages import assemble, assemble_candidates, prepare
from brimful.packagers import message
from brimful.policies import load_policy
from brimful.wires import find_wire
from strategies import COUNTER, NOW, POLICIES, models, piles

MODEL = ModelInfo(id="m", provider="p", window=100, max_output=20, wire="openai")
MESSAGE = message("three little words", counter=COUNTER, id="m1", current=True)


def inputs_of(packages, policy="default", model=MODEL, **more):
    return Inputs(packages=tuple(packages), policy=load_policy(policy), model=model, method="hybrid", now=NOW, **more)


def whole_hash(inputs):
    return "ctx-" + hashlib.sha256(msgspec.json.encode(inputs)).hexdigest()[:24]


@settings(max_examples=60, deadline=None)
@given(piles(), POLICIES, models(), st.one_of(st.none(), st.integers(1, 9_000)), st.text('a"é茶[]{},', max_size=9))
def test_a_context_id_is_the_hash_of_the_whole_inputs(pile, policy, model, window, origin):
    inputs = inputs_of(pile, policy, model, window=window, origin=origin)
    assert make_id_function(inputs.packages)(inputs) == whole_hash(inputs)


def test_nothing_has_a_name_too():
    inputs = inputs_of(())
    assert make_id_function(())(inputs) == whole_hash(inputs)


def test_whatever_differs_gives_another_id():
    name = make_id_function((MESSAGE,))
    ids = {name(inputs_of((MESSAGE,), **more)) for more in ({}, {"window": 90}, {"completion": 9}, {"origin": "room"})}
    assert len(ids | {make_id_function(())(inputs_of(()))}) == 5


def test_refilling_gives_each_context_the_id_of_a_new_build():
    pile = prepare(inputs_of((MESSAGE,)), counter=COUNTER, renderer=find_wire("openai"))
    for window in (60, 80, None):
        asked = inputs_of((MESSAGE,), window=window)
        again = assemble_candidates(msgspec.structs.replace(pile, inputs=asked))
        assert again == assemble(asked, counter=COUNTER, renderer=find_wire("openai"))
        assert again.id == whole_hash(asked)
