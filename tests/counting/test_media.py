import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful import counter
from brimful.core.content import Media
from brimful.counting.media import MediaCounter
from brimful.counting.media_rules import MEDIA_RULES

SIZES = ((1024, 1024), (1920, 1080), (512, 512))
TABLE = {
    "openai-tiles-85-170": (765, 1105, 255),
    "openai-tiles-85-170-upscaled": (765, 1105, 765),
    "openai-tiles-2833-5667": (25501, 36835, 8500),
    "openai-tiles-2833-5667-upscaled": (25501, 36835, 25501),
    "openai-tiles-70-140": (630, 910, 210),
    "openai-tiles-70-140-upscaled": (630, 910, 630),
    "openai-tiles-75-150": (675, 975, 225),
    "openai-tiles-75-150-upscaled": (675, 975, 675),
    "openai-patches-1.62": (1659, 2443, 415),
    "openai-patches-2.46": (2520, 3710, 630),
    "openai-patches-1.72": (1762, 2594, 441),
    "openai-patches-2500": (1229, 2448, 308),
    "openai-patches-original": (1229, 2448, 308),
    "claude-standard": (1369, 1560, 361),
    "claude-high": (1369, 2691, 361),
    "gemini-2": (1032, 1548, 1032),
    "gemini-3": (1120, 1120, 1120),
    "qwen2-vl": (1369, 2691, 324),
    "qwen2-vl-1280": (1225, 1222, 324),
    "qwen3-vl": (1024, 2040, 256),
    "llava-1.5": (576, 576, 576),
    "llava-next": (2928, 1948, 2928),
    "pixtral": (4160, 2340, 1056),
    "mistral-small-3.1": (1406, 1736, 380),
    "llama-4": (2467, 2322, 727),
    "llama-3.2-vision": (6404, 6404, 1601),
    "gemma-3": (256, 256, 256),
    "internvl": (2560, 2304, 256),
    "minicpm-v": (448, 576, 192),
    "seed-gpt4v": (593, 1609, 212),
    "seed-claude3": (1600, 1600, 1600),
    "seed-qwen": (2097, 4147, 524),
    "seed-llava": (256, 256, 256),
    "seed-default": (1398, 2764, 349),
}


def image(width, height, detail="auto"):
    return Media(modality="image", url="https://example.com/a", width=width, height=height, detail=detail)


@pytest.mark.parametrize(("rule", "expected"), TABLE.items(), ids=TABLE)
def test_worked_examples(rule, expected):
    counter = MediaCounter(image=rule)
    assert tuple(counter.count(image(*size)).tokens for size in SIZES) == expected


def test_every_rule_has_a_worked_example():
    assert set(TABLE) == set(MEDIA_RULES.image)


def test_low_detail_is_the_base_alone():
    assert MediaCounter(image="openai-tiles-85-170").count(image(1920, 1080, "low")).tokens == 85


@pytest.mark.parametrize(("detail", "tokens"), [("low", 280), ("medium", 560), ("high", 1120), ("ultra", 2240)])
def test_gemini_3_goes_by_detail(detail, tokens):
    assert MediaCounter(image="gemini-3").count(image(100, 100, detail)).tokens == tokens


@pytest.mark.parametrize("rule", TABLE)
@given(width=st.integers(1, 20_000), height=st.integers(1, 20_000))
def test_any_image_costs_something_and_lying_down_as_much_as_standing_up(rule, width, height):
    counter = MediaCounter(image=rule)
    tokens = counter.count(image(width, height)).tokens
    assert tokens > 0 or rule in ("seed-qwen", "seed-default")
    # Rows that end with a token, and differences between ratios, depend on the direction.
    if rule not in ("pixtral", "mistral-small-3.1", "llava-next", "llama-4", "internvl"):
        assert counter.count(image(height, width)).tokens == tokens


@pytest.mark.parametrize(
    ("rule", "maximum"),
    [
        ("openai-tiles-85-170", 1445),
        ("openai-patches-1.62", 2489),
        ("claude-standard", 1568),
        ("claude-high", 4784),
        ("qwen2-vl-1280", 1280),
        ("llama-3.2-vision", 6404),
        ("internvl", 3328),
        ("minicpm-v", 640),
    ],
)
@given(width=st.integers(1, 20_000), height=st.integers(1, 20_000))
def test_no_image_costs_more_than_the_maximum(rule, maximum, width, height):
    if max(width, height) <= 100 * min(width, height):  # thinner ones are refused
        assert MediaCounter(image=rule).count(image(width, height)).tokens <= maximum


@pytest.mark.parametrize(
    ("modality", "rule", "tokens"),
    [
        ("audio", "openai-audio", 100),
        ("audio", "openai-audio-assistant", 200),
        ("audio", "gemini-2-audio", 320),
        ("audio", "gemini-3-audio", 250),
        ("audio", "qwen2.5-omni-audio", 250),
        ("audio", "qwen3-omni-audio", 130),
        ("video", "gemini-2-video", 2630),
        ("video", "gemini-3-video", 700),
        ("video", "gemini-3-video-high", 2800),
        ("video", "qwen3-vl-video", 15360),
    ],
)
def test_sounds_and_videos_cost_by_the_second(modality, rule, tokens):
    counter = MediaCounter(**{modality: rule})
    count = counter.count(Media(modality=modality, url="https://example.com/a", seconds=10))
    assert (count.tokens, count.basis, count.tokenizer) == (tokens, "calibrated", rule)
    unknown = counter.count(Media(modality=modality, url="https://example.com/a"))
    assert (unknown.tokens, unknown.basis) == (tokens * 6, "approximate")


def test_the_basis_says_how_sure_it_is():
    at = "https://example.com/a"
    assert MediaCounter(image="claude-high").count(image(100, 100)).basis == "exact"
    assert MediaCounter(image="openai-patches-2500").count(image(100, 100)).basis == "calibrated"
    assert MediaCounter(image="claude-high").count(Media(modality="image", url=at)).basis == "approximate"
    assert MediaCounter().count(image(100, 100)).basis == "approximate"


def test_the_size_is_read_from_the_data():
    picture = Media(modality="image", data="R0lGODlhQAEgAQ==")
    assert MediaCounter(image="claude-standard").count(picture).tokens == 12 * 11


@pytest.mark.parametrize(("detail", "tokens"), [("auto", 765), ("high", 765), ("low", 85)])
def test_images_of_unknown_models_are_counted_by_the_most_usual_rule(detail, tokens):
    image = Media(modality="image", url="https://example.org/cat.png", detail=detail)
    assert counter("nobody-knows-me").media(image).tokens == tokens


@pytest.mark.parametrize("size", [(64, 64), (512, 512), (1024, 1024), (1920, 1080), (4000, 3000)])
def test_the_margin_without_a_rule_covers_what_any_model_takes(size):
    possible = [name for name in MEDIA_RULES.image if not name.startswith(("seed-", "openai-tiles-2833"))]
    largest = max(MediaCounter(image=name).count(image(*size)).tokens for name in possible)
    assert MediaCounter().count(image(*size)).upper == largest
    assert MediaCounter(image="claude-high").count(image(*size)).margin == 0
