"""Files, folders and archives: which are read, in which order, and which are refused."""

import gzip
import io
import os
import struct
import zipfile

import pytest

from brimful.formats import Limits, Reader, Skipped, reader
from brimful.formats.files import Directory, Siblings
from brimful.records import Message, Persona
from formats import samples
from formats.conftest import lay_out, lines_of, packed

HI = {"role": "user", "content": "Hi"}


def walked(*paths, **how):
    found = list(Reader([str(path) for path in paths], **how).records())
    return [each for each in found if not isinstance(each, Skipped)], [
        each for each in found if isinstance(each, Skipped)
    ]


def test_all_files_of_a_folder_in_order_and_archives_in_it(tmp_path):
    place = lay_out(tmp_path / "in", {"b.jsonl": lines_of([HI]), "sub/a.jsonl": lines_of([HI]), "x.bin": b"\0"})
    packed(place / "c.zip", {"d.jsonl": lines_of([HI]), "e/f.zip": b"PK\x03\x04"})
    records, skips = walked(place)
    assert [record.room for record in records] == ["b", "d", "a"]
    assert [(skip.location, skip.reason) for skip in skips[:1]] == [(f"{place}/c.zip/e/f.zip", reader.NESTED_ARCHIVE)]
    assert skips[1].location == f"{place}/x.bin"


def test_links_to_folders_are_not_followed_and_pipes_not_opened(tmp_path):
    place = lay_out(tmp_path / "in", {"a.jsonl": lines_of([HI])})
    (place / "loop").symlink_to(place, target_is_directory=True)
    os.mkfifo(place / "pipe")
    assert Directory(str(place)).names == ("a.jsonl",)


def test_a_reader_reports_its_progress_in_bytes(tmp_path):
    place = lay_out(tmp_path / "in", {f"{at}.jsonl": lines_of([HI] * 50) for at in range(4)})
    packed(place / "z.zip", {"z.jsonl": lines_of([HI] * 50)})
    going = Reader([str(place)])
    done = [going.done_bytes for _ in going.records()]
    assert done == sorted(done)
    assert 0.8 * going.total_bytes <= done[-1] <= going.total_bytes


def test_one_file_is_open_at_a_time(tmp_path):
    place = lay_out(tmp_path / "in", {f"{at}.jsonl": lines_of([HI]) for at in range(3)})
    sources = list(Reader([str(place)]).sources())
    assert all(source.closed for source in sources)


def test_a_file_asks_for_others_of_its_folder_and_for_none_beyond(tmp_path):
    lay_out(tmp_path, {"secret.json": b"1", "in/a.json": b'{"b": 1}', "in/c/d.json": b"[", "in/c/e.json": b"2"})
    beside = Siblings(Directory(str(tmp_path / "in")))
    assert beside.json("c/d.json", "../a.json") == {"b": 1}
    assert beside.json("c/d.json", "d.json") is None  # it is damaged
    assert beside.json("a.json", "../secret.json") is None
    assert beside.json("a.json", str(tmp_path / "secret.json")) is None
    assert beside.list_folder("a.json", "c") == ["c/d.json", "c/e.json"]
    assert (beside.find_prefix("d"), beside.find_prefix("q"), beside.find_prefix("")) == ("c/d.json", None, None)
    assert (beside.read("a.json", max_bytes=3), beside.read("gone", max_bytes=3)) == (None, None)


# -- archives that are made to do harm -------------------------------------------------------------------------------


def refused(path, reason, **limits):
    records, skips = walked(path, limits=Limits(**limits))
    assert records == []
    assert [skip.location for skip in skips] == [str(path)]
    assert skips[0].reason.startswith(reason), skips[0].reason


@pytest.mark.parametrize(
    "name", ["../a.jsonl", "/etc/a.jsonl", "x/../../a.jsonl", "C:\\a.jsonl", "..\\a.jsonl", "\\\\h\\a"]
)
def test_names_that_lead_elsewhere(tmp_path, name):
    files = {"ok.jsonl": lines_of([HI]), name: lines_of([HI])}
    refused(packed(tmp_path / "x.zip", files), "contains a name that leads out of it")


def test_an_archive_that_would_expand_too_much(tmp_path):
    files = {"ok.jsonl": lines_of([HI]), "zeros.jsonl": b"\0" * 2**22}
    refused(packed(tmp_path / "x.zip", files), "would expand from ", unchecked_zip_bytes=2**16)


def test_many_files_that_would_expand_too_much_together(tmp_path):
    files = {f"{at}.jsonl": b"\0" * 2**16 for at in range(1000)}
    refused(packed(tmp_path / "x.zip", files), "would expand from ", unchecked_zip_bytes=2**16)


def test_too_many_files(tmp_path):
    refused(packed(tmp_path / "x.zip", {f"{at}.json": b"1" for at in range(11)}), "contains 11 files", archive_files=10)


@pytest.mark.parametrize("size", [10, 60, 100])
def test_an_archive_that_is_cut_off(tmp_path, size):
    path = packed(tmp_path / "x.zip", {"a.jsonl": lines_of([HI])})
    path.write_bytes(path.read_bytes()[:size])
    refused(path, "is a damaged archive")


def test_a_member_that_is_damaged_costs_itself_alone(tmp_path):
    path = packed(tmp_path / "x.zip", {"a.jsonl": lines_of([HI] * 2000), "b.jsonl": lines_of([HI])})
    data = bytearray(path.read_bytes())
    data[60:64] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    records, skips = walked(path)
    assert "b" in {record.room for record in records}
    assert [skip.location.partition(".zip/")[2][:7] for skip in skips] == ["a.jsonl"]


def test_a_member_that_is_encrypted_says_so(tmp_path):
    path = packed(tmp_path / "x.zip", {"a.jsonl": lines_of([HI]), "b.jsonl": lines_of([HI])})
    data = path.read_bytes()
    at = data.index(b"PK\x01\x02")
    path.write_bytes(data[: at + 8] + struct.pack("<H", 1) + data[at + 10 :])
    records, skips = walked(path)
    assert [record.room for record in records] == ["b"]
    assert [(skip.location, skip.reason) for skip in skips] == [
        (f"{path}/a.jsonl", "is encrypted: unpack the archive first")
    ]


def test_a_member_that_says_less_than_it_holds_is_damaged(tmp_path):
    path = packed(tmp_path / "x.zip", {"a.jsonl": lines_of([HI] * 3)})
    data = path.read_bytes()
    at = data.index(b"PK\x01\x02")
    path.write_bytes(data[: at + 24] + struct.pack("<I", len(lines_of([HI]))) + data[at + 28 :])
    records, skips = walked(path)
    assert records == []
    assert "Bad CRC-32" in skips[0].reason


def test_a_gzip_file_that_expands_too_much(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(lines_of([HI]) + b" " * 2**24))
    records, skips = walked(path, format="openai", limits=Limits(unchecked_gzip_bytes=2**16))
    assert [record.content for record in records] == ["Hi"]
    assert "like a gzip bomb" in skips[0].reason


def test_the_same_export_in_a_folder_and_in_an_archive_is_the_same(tmp_path):
    files = samples.chatgpt_export()
    folder, _ = walked(lay_out(tmp_path / "in", files))
    zipped, _ = walked(packed(tmp_path / "other-name.zip", files))
    ids = [each.id for each in folder]
    assert [each.id for each in zipped] == ids
    assert len([each for each in folder if isinstance(each, Message)]) == 11


def test_an_empty_archive_and_one_without_anything(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w"):
        pass
    assert walked(tmp_path / "x.zip") == ([], [])
    (tmp_path / "y.zip").write_bytes(io.BytesIO(b"PK\x05\x06").getvalue())
    refused(tmp_path / "y.zip", "is a damaged archive")


def test_settings_for_models_are_no_conversations(tmp_path):
    settings = {"temperature": 1, "prompts": [{"role": "system", "content": "Write."}], "prompt_order": []}
    place = lay_out(tmp_path / "in", {"OpenAI Settings/Default.json": samples.written(settings, indent=1)})
    records, skips = walked(place)
    assert (records, [skip.reason for skip in skips]) == ([], [reader.IN_SETTINGS_FOLDER])
    (place / "Default.json").write_bytes(samples.written(settings, indent=1))
    records, skips = walked(place / "Default.json")
    assert (records, len(skips)) == ([], 1)


def test_a_card_beside_conversations_is_read(tmp_path):
    files = {"conversations.json": b"[]", "Nova.png": samples.png(samples.text_chunk("chara", samples.v2_card()))}
    records, skips = walked(lay_out(tmp_path / "in", files))
    assert ([record.id for record in records if isinstance(record, Persona)], skips) == (["Nova"], [])


def test_a_reader_knows_the_location_of_the_last_record(tmp_path):
    place = lay_out(tmp_path / "in", {"a.jsonl": lines_of([HI, HI]), "b.json": samples.written([HI, HI])})
    going = Reader([str(place)])
    places = [going.location for _ in going.records()]
    assert places == [f"{place}/{end}" for end in ("a.jsonl:1", "a.jsonl:2", "b.json[0]", "b.json[1]")]
    assert going.location == ""


def test_a_gzip_that_swells_is_given_up_early_and_what_stood_before_is_kept(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"role": "user", "content": "Hi"}\n' + (b" " * 4095 + b"\n") * 3072))
    found, skips = walked(path)
    assert [each.content for each in found if isinstance(each, Message)] == ["Hi"]
    assert [each.reason for each in skips] == [
        "cannot be read further: it expands to more than 250 times its size, like a gzip bomb"
    ]
