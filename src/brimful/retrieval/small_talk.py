"""Greetings, thanks and other small talk, which no search can help to answer."""

import re
from collections.abc import Container
from typing import Final

_MAX_CHARS: Final = 60
_WORD: Final = re.compile(r"\w+").findall
_REPEATED: Final = re.compile(r"(.)\1+")
_LAUGHTER: Final = re.compile(r"(?:(?:ha|ah|he|hi|ja|je|ха|хе|哈|呵|嘻|w|ｗ|笑)+h?|l+o+l+|lmao|rofl)")
_SMALL_TALK: Final = """
afternoon alright amazing awesome bravo bye cheers cool evening exactly fine goodbye great greetings hello hey hi hm
howdy morning nice nope ok okay oh perfect right sense sounds sup super sure ta thank thanks understood welcome wow
yay yeah yep yes yup

abend danke dankeschön fein genau gruß grüße grüß hallo jawohl klar moin passt prima servus super tag toll tschau
tschüss verstanden wunderbar

adiós buenas buenos chao claro dale entendido exacto genial gracias hola listo noches oye perfecto tardes vale

ага благодарю добрый доброе здравствуй здравствуйте круто ладно ок окей отлично пока понял поняла понятно пожалуйста
привет приветик салют спасибо супер точно угу хай хорошо ясно

你好 您好 早 早安 早上好 上午好 下午好 晚上好 晚安 嗨 喂 在吗 在么 好 好的 好吧 行 可以 嗯 哦 噢 是的 对 没错 谢谢
谢谢你 多谢 感谢 不客气 再见 拜拜 明白 明白了 知道了 了解 收到

おはよう おはようございます こんにちは こんばんは おやすみ おやすみなさい どうも ありがとう ありがとうございます
はい うん いいえ ええ そうです そうですね なるほど 了解 了解です わかりました 分かりました わかった 分かった
よろしく お願いします じゃあね またね さようなら やあ ねえ
"""
_AROUND: Final = """
a again all and are back clear day dear everybody everyone fair folks for friend friends good got here how i is it
later lot lots makes me much my night no now please see so that the then there to very well whats you
aber alles auch bis bitte dann das dich dir ein ganz gerne gut gute guten guter hab habe ich in ist ja mir morgen mittag
na nacht ne nein schön schönen schöner sehr so und vielen wieder
bien buena bueno de día días eso hasta igual luego mañana me mil muchas muy nada no por pues que sí si tal ya
большое вечер все всё всего да день дня добрая доброго и как не нет ну ночи огромное спокойной так тебе тут утра утро
хорошего
"""  # words that are often part of it, and of much else


def _fold(word: str) -> str:
    return _REPEATED.sub(r"\1", word)


_WORDS: Final = frozenset(map(_fold, _SMALL_TALK.split()))
_OTHERS: Final = frozenset(map(_fold, _AROUND.split()))


def is_small_talk(text: str, names: Container[str] = ()) -> bool:
    """Return whether a message is nothing but small talk, whoever it greets by these names.

    >>> [is_small_talk(text, {"ada"}) for text in ("Good morning, Ada!", "okayyy, got it 👍", "hahaha", "好的。")]
    [True, True, True, True]
    >>> [is_small_talk(text) for text in ("Good morning, Ada!", "What is good for her?", "👍", "")]
    [False, False, False, False]
    """
    if len(text) > _MAX_CHARS:
        return False
    words = _WORD(text.lower())
    others = [word for word in words if _fold(word) not in _WORDS and not _LAUGHTER.fullmatch(word)]
    return len(others) < len(words) and all(_fold(word) in _OTHERS or word in names for word in others)
