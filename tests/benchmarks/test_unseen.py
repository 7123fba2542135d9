"""Collections that nobody ships, in the form of their repositories: small ones made up here."""

import json

import pytest

import unseen
import unseen_data


def write(folder, name, content):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def banking(tmp_path):
    for id, text in {"fees": "A Gold card costs 90 dollars a year.", "branch": "We open at nine."}.items():
        write(tmp_path, f"{unseen_data.BANKING}/documents/{id}.json", {"id": id, "title": id, "content": text})
    task = {"user_scenario": {"instructions": "What does a Gold card cost?"}, "required_documents": ["fees"]}
    for number in range(2):
        write(tmp_path, f"{unseen_data.BANKING}/tasks/{number}.json", task)
    return tmp_path


@pytest.fixture
def preferences(tmp_path):
    for topic in ("art", "food", "music", "travel"):
        said = [{"preference": f"{topic} preference {at}", "question": f"{topic} {at}?"} for at in range(30)]
        write(tmp_path, f"{unseen_data.PREFERENCES}/{topic}.json", said)
    write(tmp_path, unseen_data.CHATS, [{"conversation": [{"role": "user", "content": "Write a poem."}]}])
    return tmp_path


def steps(person):
    messages = [
        {"mid": at, "message": f"{person} {at}", "time": f"2024年04月0{at + 1}日 周一 08:34"} for at in range(2)
    ]
    return {"message_list": messages, "question_list": [{"question": f"{person}?", "target_step_id": [1]}]}


def test_documents_of_a_bank_are_found(banking):
    section = unseen.report(banking, quick=True)
    [table] = section.tables
    rows = [line for line in table.splitlines() if "Brimful" in line]
    assert len(rows) == 3
    assert all(row.split("|")[2].strip() == "100.0" for row in rows)
    assert all(row.split("|")[4].strip() == "–" for row in rows)  # nothing was asked that it cannot answer


@pytest.mark.usefixtures("banking")
def test_every_question_names_evidence_of_its_store(preferences):
    for name in unseen_data.PLANS:
        write(preferences, f"{unseen_data.STEPS}/{name}.json", [steps(person) for person in range(100)])
    found = [each for split in ("dev", "held") for each in unseen_data.collections(preferences, split)]
    assert len(found) == 8
    for talk in (talk for collection in found for talk in collection.stores):
        assert {id for question in talk.questions for id in question.evidence} <= {turn.id for turn in talk.turns}
    assert all(any(not each.evidence for talk in one.stores for each in talk.questions) for one in found)


def test_a_room_has_one_preference_of_each_topic_and_the_last_one_has_none(preferences):
    [_, rooms] = unseen_data.collections(preferences, "dev")
    assert [len(talk.turns) for talk in rooms.stores] == [3] * unseen_data.ROOMS + [1]
    assert len(rooms.stores[-1].questions) == 2 * unseen_data.ROOMS
    assert not any(question.evidence for question in rooms.stores[-1].questions)


def test_equal_messages_of_a_person_are_one(tmp_path):
    for name in unseen_data.PLANS:
        write(tmp_path, f"{unseen_data.STEPS}/{name}.json", [steps(at) for at in range(unseen_data.PEOPLE)])
    [people] = unseen_data.collections(tmp_path, "dev")
    first = people.stores[0]
    assert [turn.id for turn in first.turns] == ["0 0", "0 1"]
    assert first.questions[0].evidence == {"0 1"}
    assert first.questions[-1].text == "1?"


def test_nobody_is_in_both_halves(preferences):
    for name in unseen_data.PLANS:
        write(preferences, f"{unseen_data.STEPS}/{name}.json", [steps(at) for at in range(unseen_data.PEOPLE)])
    halves = [unseen_data.collections(preferences, split) for split in ("dev", "held")]
    for collections in zip(*halves, strict=True):
        one, other = (
            {each.text for talk in half.stores for each in talk.questions if each.evidence} for half in collections
        )
        assert min(len(one), len(other)) > 0
        assert not one & other


def test_no_folder_is_no_failure():
    assert "no data folder" in unseen.report(None, quick=True).tables[0]
