"""A frame restores the contents that were taken out of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.frame import (
    editable_holes,
    fill_holes,
    message_id,
    message_index,
    replace_with_holes,
    with_low_detail,
    with_text_blocks,
)

texts = st.sampled_from(["", "a", "Hi", "data:image/png;base64,QUJD", "QUJD", '{"q":1}', "\0", "user"])
data = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["input", "content", "\0", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(data, st.lists(texts, max_size=4))
def test_texts_taken_out_can_be_put_back(value, taken):
    assert fill_holes(replace_with_holes(value, taken), taken) == value


@pytest.mark.parametrize(
    ("value", "taken", "frame"),
    [
        ({"content": "Hi"}, ["Hi"], {"content": {"\0": [0]}}),
        ({"content": "Hi", "name": "Hi"}, ["Hi", "Hi"], {"content": {"\0": [0]}, "name": {"\0": [1]}}),
        ({"url": "data:image/png;base64,QUJD"}, ["QUJD"], {"url": {"\0": [0, "data:image/png;base64,"]}}),
        ({"url": "data:image/png;base64,QUJD"}, ["Hi"], {"url": "data:image/png;base64,QUJD"}),
        ({"input": {"q": 1}}, ['{"q":1}'], {"input": {"\0": [0, None]}}),
        ({"input": {"q": 1}}, ["Hi"], {"input": {"q": 1}}),
        ({"x": {"\0": [0]}}, ["Hi"], {"x": {"\0": [-1, {"\0": [0]}]}}),
        ({"content": ""}, [""], {"content": ""}),
    ],
)
def test_texts_leave_holes(value, taken, frame):
    assert replace_with_holes(value, taken) == frame
    assert fill_holes(frame, taken) == value


def test_a_text_can_be_changed_where_it_stands_alone():
    assert list(editable_holes([{"text": {"\0": [0]}}])) == [0]
    assert not list(editable_holes({"url": {"\0": [0, "data:,"]}}))
    assert not list(editable_holes({"type": "thinking", "thinking": {"\0": [0]}}))
    assert list(editable_holes([{"text": {"\0": [0]}}, {"text": {"\0": [1]}}])) == [0, 1]
    assert not list(editable_holes("Hi"))
    assert fill_holes(replace_with_holes({"content": "Hello there"}, ["Hello there"]), ["Hello […]"]) == {
        "content": "Hello […]"
    }


@pytest.mark.parametrize("place", [0, 7, 999_999, 1_000_000])
def test_an_id_tells_the_place(place):
    assert message_index(message_id(place)) == message_index(message_id(place, 1)) == place


RESULT = {"type": "tool_result", "tool_use_id": "t1"}
BLOCKS = [{"type": "text", "text": "One. "}, {"type": "image", "data": "iVBO"}, {"type": "text", "text": "Two."}]


def test_blocks_that_form_one_text_are_filled_as_they_were():
    frame = replace_with_holes({**RESULT, "content": BLOCKS}, ["One. Two.", "iVBO"])
    assert "One" not in str(frame)
    assert list(editable_holes(frame)) == [0]
    assert fill_holes(frame, ["One. Two.", "iVBO"]) == {**RESULT, "content": BLOCKS}


def test_blocks_that_form_one_text_become_one_block_if_it_is_shorter():
    frame = replace_with_holes({**RESULT, "content": BLOCKS}, ["One. Two.", "iVBO"])
    assert fill_holes(frame, ["One.", "iVBO"]) == {**RESULT, "content": [{"type": "text", "text": "One."}, BLOCKS[1]]}


def test_blocks_of_nested_texts_become_one_block():
    result = {"type": "search_result", "source": "a.txt", "title": "A", "content": [{"type": "text", "text": "One."}]}
    blocks = [result, {"type": "text", "text": "Two.", "pages": [1, None]}]
    frame = replace_with_holes({**RESULT, "content": blocks}, ["a.txtAOne.Two."])
    assert fill_holes(frame, ["a.txtAOne.Two."]) == {**RESULT, "content": blocks}
    assert fill_holes(frame, ["…"]) == {**RESULT, "content": [{"type": "text", "text": "…"}]}


@pytest.mark.parametrize("text", ["One. Three.", "One. ", "Two.", "One. iVBO"])
def test_blocks_that_do_not_form_the_text_have_no_common_placeholder(text):
    frame = replace_with_holes({**RESULT, "content": [BLOCKS[0], {"type": "text", "text": ""}, BLOCKS[2]]}, [text])
    assert not isinstance(frame["content"], dict)


def test_a_response_stays_an_object():
    frame = replace_with_holes({"name": "f", "response": {"rows": [1]}, "args": {"q": 1}}, ['{"rows":[1]}', '{"q":1}'])
    assert list(editable_holes(frame)) == [0]
    assert fill_holes(frame, ['{"rows":[]}', '{"q":1}']) == {"name": "f", "response": {"rows": []}, "args": {"q": 1}}
    assert fill_holes(frame, ["[…]", "{}"])["response"] == {"output": "[…]"}
    assert fill_holes(frame, ["[1]", "{}"])["response"] == {"output": "[1]"}


def test_an_image_among_blocks_that_form_one_text_becomes_a_line():
    frame = replace_with_holes({"content": [{**RESULT, "content": BLOCKS}]}, ["One. Two.", "iVBO"])
    [result] = fill_holes(with_text_blocks(frame, {1}), ["One. Two.", "[image]"])["content"]
    assert result["tool_use_id"] == RESULT["tool_use_id"]
    assert [block["text"] for block in result["content"]] == ["One. ", "[image]", "Two."]


def test_objects_of_the_caller_that_look_like_placeholders_stay():
    message = {"content": [{"type": "text", "text": "Hi", "\0": 7}, {"url": {"\0": 7}}]}
    frame = replace_with_holes(message, ["Hi"])
    assert fill_holes(with_low_detail(with_text_blocks(frame, {1}), {1}), ["Hi"]) == message


def test_a_result_among_many_texts_has_a_placeholder():
    texts = [f"Text {at}" for at in range(100)]
    frame = replace_with_holes({**RESULT, "content": BLOCKS}, ["One. Two.", "iVBO", *texts])
    assert list(editable_holes(frame)) == [0]


@pytest.mark.parametrize("key", ["thoughtSignature", "thought_signature", "thought", "executableCode"])
def test_signed_blocks_are_not_editable(key):
    assert not list(editable_holes({"parts": [{"text": {"\0": [0]}, key: "c2ln"}]}))


def test_images_of_gemini_become_text_or_low_in_detail():
    image = {"inlineData": {"mimeType": "image/png", "data": {"\0": [1]}}}
    answer = {"functionResponse": {"name": "f", "parts": [image]}}
    assert with_text_blocks({"parts": [{"text": "Look"}, image]}, {1}, "")["parts"][1] == {"text": {"\0": [1]}}
    replaced = with_text_blocks({"parts": [answer]}, {1}, "")["parts"][0]["functionResponse"]
    assert replaced == {"name": "f", "parts": [{"text": {"\0": [1]}}]}
    low = with_low_detail({"parts": [image]}, {1})["parts"][0]
    assert low == {**image, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}


def test_a_cache_mark_stays_if_blocks_become_one():
    mark = {"cache_control": {"type": "ephemeral"}}
    blocks = [BLOCKS[0], {**BLOCKS[2], **mark}]
    frame = replace_with_holes({**RESULT, "content": blocks}, ["One. Two."])
    assert fill_holes(frame, ["One."])["content"] == [{"type": "text", "text": "One.", **mark}]
    blocks = [BLOCKS[0], {**BLOCKS[1], **mark}, BLOCKS[2]]
    frame = replace_with_holes({**RESULT, "content": blocks}, ["One. Two.", "iVBO"])
    assert fill_holes(frame, ["One.", "iVBO"])["content"] == [{"type": "text", "text": "One."}, blocks[1]]
