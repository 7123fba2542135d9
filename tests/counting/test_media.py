import pytest

from brimful.core.content import Media
from brimful.counting.media import MediaCounter, media_rules

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
    assert set(TABLE) == set(media_rules().image)
