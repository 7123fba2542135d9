"""Mask keys, tokens and passwords in texts before they are stored."""

import re
from typing import Final

_KINDS: Final = {
    "private-key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{1,20000}?-----END [A-Z ]*PRIVATE KEY-----",
    "aws-key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "github-token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b",
    "api-key": r"\b(?:sk|rk|pk)[-_](?:[a-z]{2,10}[-_]){0,3}[A-Za-z0-9_-]{20,200}\b",
    "google-key": r"\bAIza[0-9A-Za-z_-]{35}\b",
    "slack-token": r"\bxox[abeoprs]-[0-9A-Za-z-]{10,250}\b",
    "jwt": r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,2000}",
    "bearer": r"(?<=[Bb]earer )[A-Za-z0-9._~+/-]{20,2000}=*",
    "password": (
        r"(?<=://)[^\s:/@]{1,100}:[^\s:/@]{1,100}(?=@)"
        r"|(?i:(?<=password=)|(?<=passwd=)|(?<=secret=)|(?<=token=)|(?<=api_key=)|(?<=apikey=))[^\s\"'&,;]{6,300}"
        r"|(?i:(?<=password\": \")|(?<=secret\": \")|(?<=token\": \")|(?<=api_key\": \"))[^\s\"]{6,300}"
    ),
}
_PATTERN: Final = re.compile("|".join(f"(?P<{kind.replace('-', '_')}>{text})" for kind, text in _KINDS.items()))


_HINTS: Final = (
    *("private key", "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "aiza", "xox", "eyj"),
    *("sk-", "sk_", "rk-", "rk_", "pk-", "pk_", "bearer ", "://", "password=", "passwd=", "secret=", "token="),
    *("api_key=", "apikey=", 'password": "', 'secret": "', 'token": "', 'api_key": "'),
)
"""Every secret begins with or follows one of these, in any case: a text without them need not be searched."""


def mask(text: str) -> tuple[str, dict[str, int]]:
    """Return a text without its secrets, and how many of each kind there were.

    >>> mask("curl -H 'Authorization: Bearer 0123456789abcdefghij'")
    ("curl -H 'Authorization: Bearer [masked: bearer]'", {'bearer': 1})
    >>> mask("postgres://ada:hunter2@db/shop")
    ('postgres://[masked: password]@db/shop', {'password': 1})
    """
    found: dict[str, int] = {}
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text, found

    def replace(match: re.Match[str]) -> str:
        kind = (match.lastgroup or "").replace("_", "-")
        found[kind] = found.get(kind, 0) + 1
        return f"[masked: {kind}]"

    return _PATTERN.sub(replace, text), found
