from brimful.core.prompt import Tool
from brimful.counting.overheads import ToolCosts, tool_texts

COSTS = ToolCosts(style="outline", function=7, properties=3, property=3, enum=-3, enum_item=3, end=12)


def outline(**properties):
    tool = Tool(name="f", description="Do.", parameters={"type": "object", "properties": properties})
    return tool_texts([tool], COSTS)


def test_no_tools_cost_nothing():
    assert tool_texts([], COSTS) == []


def test_a_tool_without_properties():
    assert outline() == [("f:Do", 7), ("", 12)]


def test_enums_list_their_options():
    rows = outline(unit={"type": "string", "enum": ["C", 1]})
    assert rows == [("f:Do", 7), ("", 3), ("unit:string:", 3), ("", -3), ("C", 3), ("1", 3), ("", 12)]


def test_nested_objects_and_arrays_are_followed():
    inner = {"type": "object", "properties": {"x": {"type": "number"}}}
    rows = outline(points={"type": "array", "items": inner})
    assert [text for text, _ in rows if text] == ["f:Do", "points:array:", ":object:", "x:number:"]


def test_other_keywords_are_counted_as_they_are_written():
    assert ('{"minimum":0,"maximum":9}', 0) in outline(n={"type": "integer", "minimum": 0, "maximum": 9})


def test_several_types():
    assert ("n:integer|null:", 3) in outline(n={"type": ["integer", "null"]})


def test_a_schema_that_is_no_schema_does_not_crash():
    assert outline(n=True, m=None) == [("f:Do", 7), ("", 3), ("n::", 3), ("m::", 3), ("", 12)]


def test_json_style_counts_the_schema_as_sent():
    costs = ToolCosts(style="json", function=8, end=0)
    assert tool_texts([Tool(name="né")], costs) == [('{"name":"né","description":"","parameters":{}}', 8), ("", 0)]
