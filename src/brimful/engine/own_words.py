"""What a user wrote in a message, without what the user quoted or pasted."""

import json
import re
from collections.abc import Iterator
from typing import Final

MAX_TYPED: Final = 2_000  # characters; more than these, without what is marked as quoted, are taken for a paste
_MAX_READ: Final = 10_000  # characters of a message in which quotations are looked for
QUOTED: Final = "[…]"
"""Stands for a quoted part."""
_MIN_JSON: Final = 40  # characters; a shorter object or list may be a part of a sentence
_MAX_BRACKETS: Final = 30  # of a message that may begin an object or a list; from the next one on, it is taken for data
_HIDDEN: Final = re.compile(r"[\U000e0000-\U000e007f\U000e0100-\U000e01ef]")
"""Tag characters and supplementary variation selectors, which are invisible and can encode any text."""
_SOURCES: Final = (
    r"page|site|website|article|e-?mail|mail|documents?|pdf|file|readme|post|comments?|reviews?|tweet|transcript"
    r"|outputs?|results?|response|excerpt|snippet|ticket|webseite|artikel|dokument|datei|beitrag|kommentar|ausgabe"
    r"|courriel|fichier|commentaire|résultat|réponse|página|artículo|correo|archivo|comentario|resultado|respuesta"
    r"|pagina|articolo|risultato|risposta|artigo|arquivo|resposta|страниц\w+|письм\w+|документ\w*"
)
_QUOTES: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        r"^[ \t]*(`{3,}|~{3,})[\s\S]*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)",  # fenced code
        r"\[quote\b[^\]\n]{0,100}\][\s\S]*?(?:\[/quote\]|\Z)",
        r"\"{3}[\s\S]*?(?:\"{3}|\Z)",
        r"<!--[\s\S]*?(?:-->|\Z)",
        r"^[ \t]*[>＞|].*$",  # a block quote, or a line of a table
        r"[“„«「『][^“„«»”」』]{40,}[”“»」』]",
        r"(?<![\w.,!?;\"])\"(?=\S)[^\"\n]{39,}\S\"(?!\w)",
        r"`[^`\n]{40,}`",
        r"[a-z0-9+/]{60,}={0,2}",  # encoded data
        # From the head of a forwarded or answered message on:
        r"^[-_ ]{3,}[^\n-]{0,30}\b(?:message|nachricht|mensaje|messaggio|mensagem|сообщение)\b[\s\S]*",
        r"^begin forwarded message\b[\s\S]*",
        (
            r"^(?:from|von|de|da|от)[ \t]*:[^\n]+\n(?:[^\n]*\n){0,6}?"
            r"(?:subject|betreff|objet|asunto|oggetto|assunto|тема)[ \t]*:[\s\S]*"
        ),
        r"^[^\n]{0,120}\b(?:wrote|schrieb|a écrit|escribió|ha scritto|escreveu|пишет)\b[^\n]{0,40}:[ \t]*$[\s\S]*",
    )
)
_TAGGED: Final = re.compile(
    r"(`[^`\n]{1,39}`)"  # short code stays, since it may name a tag
    r"|<(?:br|hr|img|input|link|meta|source|wbr)(?=[\s/>])[^<>]*>"  # elements without an end
    r"|<([a-z][\w.-]*)(?:\s[^<>]*)?>(?:[\s\S]*</\2\s*>|[\s\S]*)",  # up to the last end tag of this name, if any
    re.IGNORECASE,
)
_CITED: Final = re.compile(rf"(\b(?:{_SOURCES})\b[^\n:.!?]{{0,60}}:\s+)\S+(?:\s+\S+){{5,}}\s*", re.IGNORECASE)
"""What follows "the page says:" or "here is the e-mail:", if it is more than a few words."""


def own_words(text: str) -> str:
    r"""Return the text without what is quoted in it: `[…]` stands for that. Empty if no words are left.

    >>> own_words("I live in Oslo.\n> I live in Rome.\nNot there.")
    'I live in Oslo.\n[…]\nNot there.'
    >>> own_words("<document>I live in Rome.</document>")
    ''
    """
    if len(text) > _MAX_READ:
        return ""
    own = without_hidden(text)
    for start, end in reversed(list(_find_json(own))):
        own = own[:start] + QUOTED + own[end:]
    for pattern in _QUOTES:
        own = pattern.sub(QUOTED, own)
    own = _TAGGED.sub(lambda found: found[1] or QUOTED, own)
    own = _CITED.sub(rf"\1{QUOTED}", own)
    if len(own) > MAX_TYPED:
        return ""
    return own if own == text or re.search(r"\w", own) else ""


def without_hidden(text: str) -> str:
    """Return the text without characters that nobody sees and that can encode a text.

    >>> without_hidden("Tea" + chr(0xE0041))
    'Tea'
    """
    return _HIDDEN.sub("", text)


def normalize_fact(text: str) -> str:
    """Return the words of a text: texts with the same words are the same fact."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _find_json(text: str) -> Iterator[tuple[int, int]]:
    """Yield where objects and lists begin and end."""
    decoder, end, tried = json.JSONDecoder(), 0, 0
    for match in re.finditer(r"[{\[]", text):
        start = match.start()
        if start < end:
            continue
        tried += 1
        if tried > _MAX_BRACKETS:
            yield start, len(text)
            return
        try:
            _, stop = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if stop - start >= _MIN_JSON:
            end = stop
            yield start, end
