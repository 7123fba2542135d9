import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.counting.media import read_dimensions

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 640, 480)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(9) + b"\xff\xc2\x00\x11\x08" + struct.pack(">HH", 480, 640)
WEBP_EXTENDED = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0" + bytes(4) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
WEBP_LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0/" + (639 | 479 << 14).to_bytes(4, "little") + bytes(8)
WEBP_LOSSY = b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 640, 480)
UNKNOWN_WEBP = b"RIFF\0\0\0\0WEBPALPH" + bytes(20)
IMAGES = {
    "png": PNG,
    "gif": GIF,
    "jpeg": JPEG,
    "webp extended": WEBP_EXTENDED,
    "webp lossless": WEBP_LOSSLESS,
    "webp lossy": WEBP_LOSSY,
}


def encoded(data):
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
def test_sizes_are_read_from_the_header(image):
    assert read_dimensions(encoded(image + bytes(100_000))) == (640, 480)


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
def test_a_header_that_is_cut_off_says_nothing(image):
    for length in range(len(image)):
        assert read_dimensions(encoded(image[:length])) in (None, (640, 480))


@pytest.mark.parametrize(
    "data", ["", "not base64!", "é", encoded(b"%PDF-1.7"), encoded(PNG[:16] + bytes(8)), encoded(UNKNOWN_WEBP)]
)
def test_other_bytes_than_images_have_no_size(data):
    assert read_dimensions(data) is None


@given(st.binary(max_size=200), st.sampled_from(sorted(IMAGES.values())))
def test_garbage_never_crashes(garbage, image):
    for data in (garbage, image[:4] + garbage, image + garbage, b"\xff\xd8\xff" + garbage):
        size = read_dimensions(encoded(data))
        assert size is None or min(size) > 0
