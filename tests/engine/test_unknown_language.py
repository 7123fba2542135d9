"""A context says so if the embedder does not know the language of the question."""

import pytest

from brimful.engine import Engine
from brimful.testing import HashEmbedder


async def notices(question, embedder="static"):
    async with Engine("sqlite://", embedder=embedder) as engine:
        await engine.remember("안나는 고기를 먹지 않습니다.")
        await engine.wait_indexed()
        first = await engine.search(question)
        second = await engine.search(question)
        assert first.degraded == second.degraded
        assert second.cached
        return first.degraded


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("누가 고기를 먹지 않습니까?", "ko"),
        ("Kuka ei syö lihaa?", "fi"),
        ("मांस कौन नहीं खाता?", "hi"),
        ("Хто не їсть м'яса?", "uk"),
        ("Кой не яде месо?", "bg"),
        ("ໃຜບໍ່ກິນຊີ້ນ", "lo"),
    ],
)
def test_a_question_in_an_unknown_language_is_named(run, question, language):
    (notice,) = run(notices(question))
    assert notice.kind == "unknown-language"
    assert notice.facts == {"embedder": "static-minilm-256@7", "language": language, "share": 1.0}
    assert f"does not know the language of 100% of the question ({language})" in notice.text


@pytest.mark.parametrize(
    "question", ["Who does not eat meat?", "Wer isst kein Fleisch?", "Кто не ест мясо?", "誰が肉を食べませんか"]
)
def test_known_languages_need_no_notice(run, question):
    assert run(notices(question)) == ()


@pytest.mark.parametrize("embedder", [None, HashEmbedder()])
def test_nothing_is_known_of_other_embedders(run, embedder):
    assert run(notices("누가 고기를 먹지 않습니까?", embedder)) == ()
