"""Media as the wires carry them, and the short text that stands for one that a wire cannot carry."""

import re
from typing import Final

import msgspec

from brimful.core.prompt import Media, Text

_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_LONGEST_URL: Final = 120  # characters of a URL in a placeholder: enough to recognise it, about 40 tokens

_SIGNATURES: Final = {
    "image": (
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("UklGR", "image/webp"),
    ),
    "audio": (("UklGR", "audio/wav"), ("SUQz", "audio/mpeg"), ("//", "audio/mpeg"), ("T2dnUw", "audio/ogg")),
    "video": (("GkXfo", "video/webm"),),
}
"""How base64 of each format begins."""

_SUFFIXES: Final = {
    "image": {"png": "image/png", "gif": "image/gif", "webp": "image/webp"},
    "audio": {"wav": "audio/wav", "ogg": "audio/ogg", "flac": "audio/flac"},
    "video": {"webm": "video/webm", "mov": "video/quicktime"},
}
_COMMON: Final = {"image": "image/jpeg", "audio": "audio/mpeg", "video": "video/mp4"}
_ALIASES: Final = {"image/jpg": "image/jpeg", "audio/mp3": "audio/mpeg", "audio/x-wav": "audio/wav"}


def inline(media: Media) -> Media:
    """Return a medium that is given as a `data:` URL as what it is: base64 data with its type.

    >>> inline(Media(modality="image", url="data:image/png;base64,iVBO")).data
    'iVBO'
    """
    found = _DATA_URL.match(media.url)
    if found is None or found.end() == len(media.url):
        return media
    data, declared = media.url[found.end() :], found.group(1).lower()
    return msgspec.structs.replace(media, url="", data=data, media_type=declared or media.media_type)


def mime_type(media: Media) -> str:
    """Return the type: as declared, else by how the data begins or the URL ends, else the modality's commonest.

    >>> mime_type(Media(modality="image", data="iVBORw0KGgoAAAA"))
    'image/png'
    >>> mime_type(Media(modality="audio", url="https://a.example/b.wav?x=1"))
    'audio/wav'
    """
    if media.media_type:
        declared = media.media_type.lower()
        return _ALIASES.get(declared, declared)
    for start, found in _SIGNATURES[media.modality]:
        if media.data.startswith(start):
            return found
    suffix = _path(media.url).rpartition(".")[2].lower()
    return _SUFFIXES[media.modality].get(suffix, _COMMON[media.modality])


def data_url(media: Media) -> str:
    """Return the medium as one URL, its data inside where there is no other.

    >>> data_url(Media(modality="image", data="/9j/4AA"))
    'data:image/jpeg;base64,/9j/4AA'
    """
    return media.url or f"data:{mime_type(media)};base64,{media.data}"


def placeholder(media: Media) -> Text:
    """Return the text that stands for a medium that the wire cannot carry. Secrets in a URL's query stay behind.

    >>> placeholder(Media(modality="image", url="https://a.example/cat.png?key=1")).text
    '[image: https://a.example/cat.png]'
    >>> placeholder(Media(modality="video", data="AAAA")).text
    '[video]'
    """
    if media.data:
        return Text(text=f"[{media.modality}]")
    path = _path(media.url)
    shown = path if len(path) <= _LONGEST_URL else path[: _LONGEST_URL - 1] + "…"
    return Text(text=f"[{media.modality}: {shown}]")


def _path(url: str) -> str:
    return url.partition("#")[0].partition("?")[0]
