"""Dates for relative times: "yesterday" becomes "yesterday (7 May 2023)".

Every language is a table: its words for times, the phrases they form, and how it writes dates. One engine reads all of
them. An expression that may mean two dates is left alone, because a wrong date is worse than none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import cache
from itertools import islice
from typing import Any, Final, NamedTuple

_Unit = str | int  # "day", "week", "weekend", "month", "year", a season, or a weekday from 0 to 6


class _Language(NamedTuple):
    """The relative times of a language.

    Words are separated by `|`. A word that has a capital here may be written without it. In `phrases`, {fixed},
    {which}, {period} and {unit} stand for words of these tables, and {ago}, {ahead} and {within} for numbers. {within}
    needs a sentence that matches `future`, because "in two days" may also be how long something took.
    """

    hints: tuple[str, ...]  # every expression contains one of them
    fixed: Mapping[tuple[int, _Unit], str]
    which: Mapping[str | int, str]  # an offset, or a word that means one on some days: see `_get_offset`
    periods: Mapping[_Unit, str]
    units: Mapping[_Unit, str]
    numbers: str  # from one to twelve; forms of the same number are separated by `/`
    phrases: tuple[str, ...]
    traps: str  # a pattern of contexts in which ⟨an expression⟩ means something else
    months: str
    future: str = ""
    seasons: str = ""
    months_alone: str = ""  # without a day, if that is another form
    day: str = "{d} {m} {y}"
    days: str = "{d}–{d2} {m} {y}"
    days_of_months: str = "{d} {m} – {d2} {m2} {y}"
    month: str = "{m} {y}"
    year: str = "{y}"
    opening: str = " ("
    closing: str = ")"
    boundary: str = r"\w"  # what may not stand next to an expression


_ENGLISH: Final = _Language(
    hints=(
        "day", "night", "tomorrow", "week", "month", "year", "morning", "noon", "evening", "summer", "last", "next",
    ),
    fixed={
        (-2, "day"): "the day before yesterday|day before yesterday",
        (-1, "day"): "yesterday|last night",
        (0, "day"): "today|tonight|this morning|this afternoon|this evening",
        (1, "day"): "tomorrow",
        (2, "day"): "the day after tomorrow|day after tomorrow",
    },
    which={"last": "last", "past": "this past", "this": "this", "next": "next", "coming": "this coming"},
    periods={
        "week": "week", "weekend": "weekend", "month": "month", "year": "year",
        "spring": "spring", "summer": "summer", "autumn": "autumn|fall",
        0: "Monday|Mon", 1: "Tuesday|Tues|Tue", 2: "Wednesday|Wed", 3: "Thursday|Thurs|Thu", 4: "Friday|Fri",
        5: "Saturday|Sat", 6: "Sunday|Sun",
    },
    units={
        "day": "day|days", "week": "week|weeks", "weekend": "weekend|weekends", "month": "month|months",
        "year": "year|years",
    },
    numbers="one/a/an|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve",
    phrases=(
        "{fixed}(?: morning| afternoon| evening| night)?(?:(?<!oday)(?<!onight)['’]s)?",
        "{which} {period}(?:['’]s)?",
        "{ago} {unit} ago",
        "{ahead} {unit} from now",
        "[Ii]n {within} {unit}",
    ),
    traps=r"""
        \b(?:the|my|your|his|our|their|its|a|an|every|each|very|last|next|ago)\s⟨
        |\b(?:half|or|to|over|under|almost|nearly|than|least|many|\w{3,5}ty|hundred|thousand)\s⟨[^⟩]+\s(?:ago|now)
        |\b(?:(?:week|month|year)s?(?:\ from)?|days?\ from)\s⟨(?!in)
        |\bno\s⟨tomorrow|(?<!as\ )\bof\s⟨to(?:day|morrow)
        |(?<!today)⟩\sof\b|⟩\s(?:or\ (?:so|two|three)|and\ a\ half)\b|to(?:day|morrow)⟩\sweek\b
        |(?-i:⟨[A-Z]\w+⟩\sby\ [A-Z])
        |this\ (?:spring|fall)⟩
        """,
    future=r"""
        ^(?!.*\b(?:was|were|did|had|has|have|been|got|took|\w+ed)\b)
        .*(?:\b(?:will|going\ to|gonna|see\ you|leav\w+|arriv\w+|until)\b|['’]ll\b
            |(?:\b(?:is|are|be|due|up|back|starts?|begins?|ends?)|['’](?:s|m|re))\ in\b)
        """,
    months="January February March April May June July August September October November December",
    seasons="spring summer autumn",
)  # fmt: skip
_GERMAN: Final = _Language(
    hints=(
        "heut", "gestern", "morgen", "woch", "monat", "jahr", "tag", "nacht", "sommer", "herbst", "frühling",
    ),
    fixed={
        (-2, "day"): "vorgestern",
        (-1, "day"): "gestern|letzte Nacht|letzte nacht",
        (0, "day"): "heute|heut",
        (1, "day"): "morgen",
        (2, "day"): "übermorgen",
    },
    which={
        "last": "letzte|letzten|letztes|letzter|vergangene|vergangenen|vergangenes|vorige|vorigen|voriges",
        "this": "diese|diesen|dieses|dieser|diesem",
        "next": "nächste|nächsten|nächstes|nächster",
        "coming": "kommende|kommenden|kommendes|kommender",
    },
    periods={
        "week": "Woche", "weekend": "Wochenende", "month": "Monat|Monats", "year": "Jahr|Jahres",
        "spring": "Frühling|Frühjahr", "summer": "Sommer", "autumn": "Herbst",
        0: "Montag", 1: "Dienstag", 2: "Mittwoch", 3: "Donnerstag", 4: "Freitag", 5: "Samstag",
        6: "Sonntag",
    },
    units={"day": "Tag|Tagen", "week": "Woche|Wochen", "month": "Monat|Monaten", "year": "Jahr|Jahren"},
    numbers="einem/einer|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf",
    phrases=(
        "{fixed}(?: (?:[Mm]orgen|früh|[Vv]ormittag|[Mm]ittag|[Nn]achmittag|[Aa]bend))?(?:(?<=estern) [Nn]acht)?",
        "{which} {period}",
        "[Vv]or {ago} {unit}",
        "[Ii]n {within} {unit}",
    ),
    traps=r"""
        \b(?:gut\w*|schön\w*|am|jede\w*|diese\w*|der|den|eine\w*|dem|zum|vom|gegen|ganze\w*)\s⟨morgen
        |\b(?:die|das|mein\w*|dein\w*|sein\w*|unser\w*)\s⟨(?:letzt|nächst|diese)
        |\bnicht\svon\s⟨gestern|\bvon\s⟨(?:heut|morgen)|\bheute\sauf\s⟨morgen
        |(?-i:⟨Morgen⟩(?!\s[a-zäöü])|⟨Morgen⟩\s(?:zusammen|allerseits|alle|ihr|leute)\b)
        |⟨heute?⟩\snacht\b|⟩\s(?:vor|in)\s\w+\s(?:tag|woche|monat|jahr)|(?:woche|monat|jahr|tag)⟩\s(?:de[rs]|vor)\b
        """,
    future=r"""
        ^(?!.*\b(?:ge\w{2,}(?:t|en)|hab\w*|hat\w*|war\w*|wurde\w*)\b)
        .*\b(?:werde|wirst|wird|werden|ist|sind|fahr\w*|flieg\w*|komm\w*|beginn\w*|startet|geht|sehen|treffen|bis)\b
        """,
    months="Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    seasons="Frühling Sommer Herbst",
    day="{d}. {m} {y}",
    days="{d}.–{d2}. {m} {y}",
    days_of_months="{d}. {m} – {d2}. {m2} {y}",
)  # fmt: skip
_SPANISH: Final = _Language(
    hints=(
        "hoy", "ayer", "antier", "noche", "tarde", "pasad", "viene", "este ", "semana", "finde", " mes", "mañana",
        "día", "año", "próxim",
    ),
    fixed={
        (-2, "day"): "anteayer|antier|antes de ayer|anteanoche",
        (-1, "day"): "ayer|anoche",
        (0, "day"): "hoy|esta mañana|esta tarde|esta noche",
        (1, "day"): "mañana",
        (2, "day"): "pasado mañana",
    },
    which={"last": "pasado|pasada", "this": "este|esta", "next": "próximo|próxima", "coming": "que viene"},
    periods={
        "week": "semana", "weekend": "fin de semana|finde", "month": "mes", "year": "año",
        "spring": "primavera", "summer": "verano", "autumn": "otoño",
        0: "lunes", 1: "martes", 2: "miércoles", 3: "jueves", 4: "viernes", 5: "sábado", 6: "domingo",
    },
    units={"day": "día|días", "week": "semana|semanas", "month": "mes|meses", "year": "año|años"},
    numbers="un/una|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce",
    phrases=(
        "{fixed}(?: (?:por|en) la (?:mañana|tarde|noche))?",
        "{period} (?!est[ea] ){which}",
        "(?!que ){which} {period}(?! (?:pasad|que|próxim))",
        "[Hh]ace {ago} {unit}",
        "{ago} {unit} atrás",
        "[Dd]entro de {ahead} {unit}",
        "[Ee]n {within} {unit}",
    ),
    traps=r"""
        \b(?:la|el|esta|por|una|cada|toda|de|del|aquella|media|buena|otra|misma)\s⟨mañana
        |\bde\s⟨hoy|⟨hoy⟩\s(?:en\ d[ií]a|por\ hoy)|⟩\sy\ medi[ao]\b
        |⟩\shace\s(?:\d|una?|dos|tres|cinco|diez)\b|(?:mes|año|semana)⟩\sdel?\b
        |\b(?:más\ de|menos\ de|casi|unos|unas|o|a|y)\s⟨\w+\s\w+\satrás|\b(?:mi|tu|su|cada|un|una)\s⟨\w+\s(?:pasad|próx)
        """,
    future=r"""
        ^(?!.*(?:\b(?:fue|hice|hizo|he|ha|han|hemos)\b|\w(?:ó|aron|ieron)\b))
        .*\b(?:nos\ vemos|voy|vas|va|vamos|van|será|es|son|llega|empieza|sale|salgo|viajo|vuelvo|vence)\b
        """,
    months="enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    seasons="primavera verano otoño",
    day="{d} de {m} de {y}",
    days="{d}–{d2} de {m} de {y}",
    days_of_months="{d} de {m} – {d2} de {m2} de {y}",
    month="{m} de {y}",
)  # fmt: skip
_RUSSIAN: Final = _Language(
    hints=(
        "вчера", "сегодня", "завтра", "недел", "месяц", "год", "назад", "через ", "выходн", "прошл", "следующ",
        " эт", "ближайш",
    ),
    fixed={
        (-2, "day"): "позавчера",
        (-1, "day"): "вчера",
        (0, "day"): "сегодня",
        (1, "day"): "завтра",
        (2, "day"): "послезавтра",
        (-1, "week"): "неделю назад",
        (-1, "month"): "месяц назад",
        (-1, "year"): "год назад",
        (1, "week"): "через неделю",
        (1, "month"): "через месяц",
        (1, "year"): "через год",
    },
    which={
        "prior": "прошлой|прошлую|прошлый|прошлом|прошлого|прошлые|прошлых|прошлым|прошлое",
        "this": "этой|эту|этот|этом|этого|эти|этих|этим",
        "next": "следующей|следующую|следующий|следующем|следующего|следующие|следующих|следующим|следующее",
        "coming": "ближайший|ближайшую|ближайшее|ближайшие",
    },
    periods={
        "week": "неделе|неделю|недели", "weekend": "выходные|выходных", "month": "месяце|месяц|месяца",
        "year": "году|год|года", "spring": "весной", "summer": "летом", "autumn": "осенью",
        0: "понедельник", 1: "вторник", 2: "среду", 3: "четверг", 4: "пятницу", 5: "субботу", 6: "воскресенье",
    },
    units={
        "day": "день|дня|дней", "week": "неделю|недели|недель", "month": "месяц|месяца|месяцев",
        "year": "год|года|лет",
    },
    numbers="один/одну|два/две|три|четыре|пять|шесть|семь|восемь|девять|десять|одиннадцать|двенадцать",
    phrases=(
        "{fixed}(?: (?:утром|дн[её]м|вечером|ночью))?",
        "(?:[Вв]о? |[Нн]а )?{which} {period}",
        "{ago} {unit} назад",
        "[Чч]ерез {ahead} {unit}",
    ),
    traps=r"""
        \b(?:почти|больше|более|меньше|менее|или|каждый|\w+дцать|\w+десят|сорок|сто)\s⟨[^⟩]+назад
        |⟨(?!во?\s)\w+\s(?:понедельник|вторник|среду|четверг|пятницу|субботу|воскресенье)⟩
        |⟨сегодня\sночью|⟨через[^⟩]+⟩\sпосле\b|году?⟩\s(?:обучения|уч[её]бы)\b|\bне\s⟨вчера
        |⟨через[^.!?]*[а-я](?:л|ла|ло|ли)(?:ся|сь)?\b|[а-я](?:л|ла|ло|ли)(?:ся|сь)?\b[^.!?]*⟨через
        """,
    months="января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    months_alone="январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь",
    seasons="весна лето осень",
)  # fmt: skip
_CHINESE: Final = _Language(
    hints=("天", "日", "晚", "早", "夜", "周", "週", "星期", "礼拜", "禮拜", "月", "年"),
    fixed={
        (-3, "day"): "大前天", (-2, "day"): "前天", (-1, "day"): "昨天|昨日|昨晚|昨夜",
        (0, "day"): "今天|今日|今晚|今早", (1, "day"): "明天|明日|明晚|明早", (2, "day"): "后天|後天",
        (3, "day"): "大后天|大後天",
        (-1, "month"): "上个月|上個月", (0, "month"): "这个月|這個月|本月", (1, "month"): "下个月|下個月",
        (-2, "year"): "前年", (-1, "year"): "去年", (0, "year"): "今年", (1, "year"): "明年", (2, "year"): "后年|後年",
    },
    which={
        -1: "上周|上週|上星期|上个星期|上個星期|上礼拜|上个礼拜|上禮拜",
        0: "这周|這週|本周|本週|这星期|这个星期|這個星期|这个礼拜",
        1: "下周|下週|下星期|下个星期|下個星期|下礼拜|下个礼拜|下禮拜",
    },
    periods={0: "一", 1: "二", 2: "三", 3: "四", 4: "五", 5: "六", 6: "日|天", "weekend": "末", "week": ""},
    units={"day": "天", "week": "周|週|星期|个星期|個星期|个礼拜", "month": "个月|個月", "year": "年"},
    numbers="一|二/两/兩|三|四|五|六|七|八|九|十|十一|十二",
    phrases=(
        "{fixed}",
        "{which}{period}(?!(?<=[一二三四五六])[个個天次位场人名件条种年月十百千直起共定样些下边]|(?<=日)[本前常子语程])",
        "{ago} ?{unit}(?:之|以)?前",
        "{within} ?{unit}(?:之|以)?[后後]",
    ),
    traps=r"""
        [以之天目眼提从從面年月午先]⟨前|[以然最之天年月周午随此其先]⟨[后後]|⟨[前后後明]天⟩[气氣空黑亮性]|⟨[前后後]天⟩天
        |[过過]⟨去年|⟨[前后後]年⟩[轻輕龄齡代]|[年月周週前](?:的)?⟨今[天日]|⟨[今明昨]日⟩(?:头条|頭條|方舟|重现|之星|[子香葉度])
        |[以晚早天乡鄉楼地]⟨[上下]|[日基根原资]⟨本|⟨[上下本]周⟩[期边围岁]|[几幾数數多第一二两兩三四五六七八九十百]⟨[^⟩]+[前后後]⟩
        |前⟩[后後半]|[年月週前]の?⟨今日|⟨今日⟩(?:は[!！。]|的)|⟨[今昨去来明]年⟩度|[ぁ-ん]⟨[きあお]|[再先]⟨|[の月何]⟨[^⟩]+[前後]⟩
        """,
    future="^(?!.*[了过過]).*[会會将將要再见見]",
    months="1 2 3 4 5 6 7 8 9 10 11 12",
    day="{y}年{m}月{d}日",
    days="{y}年{m}月{d}–{d2}日",
    days_of_months="{y}年{m}月{d}日–{m2}月{d2}日",
    month="{y}年{m}月",
    year="{y}年",
    opening="（",
    closing="）",
    boundary=r"[\x00]",
)  # fmt: skip
_JAPANESE: Final = _CHINESE._replace(
    hints=("日", "きのう", "おととい", "あした", "あさって", "朝", "晩", "夜", "週", "月", "年", "おととし"),
    fixed={
        (-2, "day"): "一昨日|おととい", (-1, "day"): "昨日|昨夜|昨晩|きのう", (0, "day"): "今日|今朝|今夜|今晩",
        (1, "day"): "明日|あした|明朝|明晩", (2, "day"): "明後日|あさって",
        (-2, "week"): "先々週", (2, "week"): "再来週", (-2, "month"): "先々月", (2, "month"): "再来月",
        (-1, "month"): "先月", (0, "month"): "今月", (1, "month"): "来月",
        (-2, "year"): "一昨年|おととし", (-1, "year"): "去年|昨年", (0, "year"): "今年", (1, "year"): "来年",
        (2, "year"): "再来年",
    },
    which={-1: "先週", 0: "今週", 1: "来週"},
    periods={
        0: "月曜日|月曜", 1: "火曜日|火曜", 2: "水曜日|水曜", 3: "木曜日|木曜", 4: "金曜日|金曜", 5: "土曜日|土曜",
        6: "日曜日|日曜", "weekend": "末", "week": "",
    },
    units={"day": "日", "week": "週間", "month": "か月|ヶ月|カ月|ヵ月|ケ月", "year": "年"},
    numbers="一|二|三|四|五|六|七|八|九|十|十一|十二",
    phrases=("{fixed}", "{which}の?{period}", "{ago} ?{unit}前", "{within} ?{unit}後"),
    future="^(?!.*(?:ました|った|した|いた)).*(?:予定|ましょう|ます|です|会|行|ある)",
)  # fmt: skip
_LANGUAGES: Final = {
    "en": _ENGLISH, "de": _GERMAN, "es": _SPANISH, "ru": _RUSSIAN, "zh": _CHINESE, "ja": _JAPANESE,
}  # fmt: skip
_HINTS: Final = {name: language.hints for name, language in _LANGUAGES.items()}
_ASCII_HINTS: Final = {name: tuple(filter(str.isascii, _HINTS[name])) for name in ("en", "de", "es")}

_MAX_LENGTH: Final = 20_000  # characters: a longer text is a document, not a message
_MAX_DATES: Final = 32  # in a text, in each language
_CONTEXT: Final = 60  # characters before and after an expression that can show whether it is in the future
_NEAR: Final = 24  # characters before and after it in which a trap is looked for
_SIGNS: Final = {"ago": -1, "ahead": 1, "within": 1}
_SEASONS: Final = {"spring": (3, 5), "summer": (6, 8), "autumn": (9, 11)}  # months; a winter is in two years
_WEDNESDAY: Final = 2
_SATURDAY: Final = 5
_SUNDAY: Final = 6
_MONTH: Final = (
    "jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez|ene|abr|dic"
    "|янв|фев|апр|мая|июн|июл|авг|сен|окт|ноя|дек"
)
_DATE: Final = (
    rf"(?:\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s|de\s)?(?:{_MONTH})|(?:{_MONTH})[a-z]{{0,6}}\.?\s\d{{1,2}}"
    r"|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}-\d\d|\d{4}年|\d{1,2}月\d)"
)
_DATED: Final = re.compile(
    rf"\s?[(（][^()（）]{{0,60}}(?:\d{{4}}|\d[./]\d|{_DATE})"
    rf"|[\s,]{{0,2}}(?:(?:on|the|am|den|el|der|[^\W\d]{{3,9}}(?:day|tag)),?\s){{0,3}}(?:{_DATE}|(?<=,\s)\d{{4}}\b)",
    re.IGNORECASE,
)
"""A date behind an expression."""
_INSERTED: Final = re.compile(r" ?[(（][^()（）]{0,60}\d{4}[^()（）]{0,30}[)）]")
_PROTECTED: Final = re.compile(
    r"""
    ^[ ]{0,3}(?:```[^`\n]*$|~~~)(?s:.*?)(?:^[ ]{0,3}(?:```|~~~)|\Z)  # code
    | `[^`\n]*`
    | ^[ \t]{0,3}>.*$  # a quoted line
    | "[^"\n]*" | “[^“”]*” | „[^„“”]*[“”] | «[^«»]*» | »[^«»]*« | 「[^「」]*」 | 『[^『』]*』 | ‘[^‘’\n]*’(?!\w)
    | (?<!\w)'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w))*(?<=\S)'(?!\w)
    | (?:://|www\.)[!-~]+
    """,
    re.MULTILINE | re.VERBOSE,
)
_TRAPS: Final = re.compile(
    rf"""
    [_/\\\#@$=&+~-]⟨ | [A-Za-z0-9][.:]⟨ | ⟩(?:[_/\\@=&+]|[.:-][a-z0-9_]|\]\(|['’]\w|\(\))  # in a name, path or link
    | [\w,;&'’][ \t*]*⟨[A-ZÄÖÜÁÉÍÓÚÑА-ЯЁ]  # a capital that does not begin a sentence: a title
    | \d(?:[.,]|\s?[–—-]\s?)⟨\d  # 1.5 and 3-4
    | (?i:{_DATE})(?:,?\s\d{{4}})?[,(（]\s?⟨
    """,
    re.VERBOSE,
)
_SENTENCE_END: Final = re.compile(r"[.!?。！？\n]")


_Tables = Mapping[str, Mapping[str, Any]]  # by kind and word


class _Reader(NamedTuple):
    language: _Language
    pattern: re.Pattern[str]
    words: _Tables
    traps: re.Pattern[str]
    future: re.Pattern[str]


class _Match(NamedTuple):
    start: int
    end: int
    hit: re.Match[str]
    reader: _Reader


def date_times(text: str, day: date | None) -> str:
    """Return a text in which relative times are followed by the date they mean, if `day` is today.

    Quotations, code, names and times that have a date already stay as they are, and so does a text if the day is
    unknown. Only the beginning of a text with many of them is read.

    >>> date_times("I went yesterday, and again last week.", date(2023, 5, 8))
    'I went yesterday (7 May 2023), and again last week (1–7 May 2023).'
    >>> date_times("Wir fahren übermorgen.", date(2023, 5, 8))
    'Wir fahren übermorgen (10. Mai 2023).'
    """
    dates = find_dates(text, day)
    return insert_dates(text, dates) if dates else text


def insert_dates(text: str, dates: Iterable[tuple[int, str]]) -> str:
    """Return a text with the dates that `find_dates` found in it."""
    pieces: list[str] = []
    copied = 0
    for index, written in dates:
        pieces += (text[copied:index], written)
        copied = index
    return "".join((*pieces, text[copied:]))


def find_dates(text: str, day: date | None) -> list[tuple[int, str]]:
    """Return the dates that `date_times` inserts into a text, and where.

    >>> find_dates("I went yesterday.", date(2023, 5, 8))
    [(16, ' (7 May 2023)')]
    """
    if day is None or len(text) > _MAX_LENGTH:
        return []
    lowered = text.lower()
    hints = _ASCII_HINTS if text.isascii() else _HINTS
    readers = [_make_reader(name) for name in hints if any(map(lowered.__contains__, hints[name]))]
    matches = _find_matches(text, readers) if readers else []
    return list(_write_dates(text, matches, day))


@cache
def _make_reader(name: str) -> _Reader:
    language = _LANGUAGES[name]
    numbers = enumerate(language.numbers.split("|"), 1)
    words: dict[str, dict[str, Any]] = {
        "fixed": _by_word(language.fixed),
        "which": _by_word(language.which),
        "period": _by_word(language.periods),
        "unit": _by_word(language.units),
        "number": {form: number for number, forms in numbers for form in forms.split("/")},
    }
    numbered = rf"(?:{_any_of(words['number'], capital=True)}|\d{{1,3}})"
    patterns = {
        "fixed": _any_of("|".join(language.fixed.values()).split("|"), capital=True),
        "which": _any_of(words["which"], capital=True),
        "period": _any_of("|".join(language.periods.values()).split("|")),
        "unit": _any_of("|".join(language.units.values()).split("|")),
        **dict.fromkeys(_SIGNS, numbered),
    }
    groups = (
        {kind: f"(?P<{kind}{index}>{pattern})" for kind, pattern in patterns.items()}  # a name can be used only once
        for index in range(len(language.phrases))
    )
    phrases = "|".join(map(_fill_in, language.phrases, groups))
    pattern = f"(?<!{language.boundary})(?:{phrases})(?!{language.boundary})"
    flags = re.IGNORECASE | re.VERBOSE
    return _Reader(
        language,
        re.compile(pattern.replace(" ", r"\s")),
        words,
        re.compile(language.traps, flags),
        re.compile(language.future, flags),
    )


def _fill_in(phrase: str, groups: Mapping[str, str]) -> str:
    return re.sub(r"\{([a-z]+)\}", lambda kind: groups[kind[1]], phrase)


def _by_word(table: Mapping[Any, str]) -> dict[str, Any]:
    return {word.lower(): value for value, words in table.items() for word in words.split("|")}


def _any_of(words: Iterable[str], *, capital: bool = False) -> str:
    """Return a pattern of words, the longest first. Capitals at their start are optional, or allowed for all."""
    return "|".join(
        f"[{word[0].upper()}{word[0].lower()}]{word[1:]}" if word and (capital or word[0].isupper()) else word
        for word in sorted(words, key=len, reverse=True)
    )


def _find_matches(text: str, readers: list[_Reader]) -> list[_Match]:
    """Return the expressions outside of quotations and code, in order. Where two overlap, only the first one counts."""
    matches = [
        _Match(hit.start(), hit.end(), hit, reader)
        for reader in readers
        for hit in islice(reader.pattern.finditer(text), _MAX_DATES)
    ]
    if not matches:
        return matches
    matches.sort(key=lambda match: (match.start, -match.end))
    protected = _PROTECTED.finditer(text)
    span = next(protected, None)
    kept: list[_Match] = []
    end = 0
    for match in matches:
        while span is not None and span.end() <= match.start:
            span = next(protected, None)
        if match.start >= end and (span is None or span.start() >= match.end):
            kept.append(match)
        end = max(end, match.end)
    return kept


def _write_dates(text: str, matches: list[_Match], day: date) -> Iterator[tuple[int, str]]:
    """Yield the end of every expression that has a date, and the date."""
    context = ""
    end = 0
    for match in matches:
        # Without dates that are in the text already, so that a second run sees the same context as the first.
        context = (context + _INSERTED.sub("", text[end : match.start]))[-_CONTEXT:]
        expression, end = text[match.start : match.end], match.end
        written = _write_date(match, context, text[end : end + _CONTEXT], day)
        context += expression
        if written is not None:
            yield end, written


def _write_date(match: _Match, before: str, after: str, day: date) -> str | None:
    """Return the date that an expression means, in parentheses, or None if that is not clear."""
    reader = match.reader
    window = f"{before[-_NEAR:]}⟨{match.hit[0]}⟩{after[:_NEAR]}"
    if _DATED.match(after) or _TRAPS.search(window) or reader.traps.search(window):
        return None
    words = {name.rstrip("0123456789"): word for name, word in match.hit.groupdict().items() if word is not None}
    # "Within two weeks" is as often about the past. Only the rest of the sentence tells.
    if "within" in words:
        sentence = _SENTENCE_END.split(before)[-1] + match.hit[0] + _SENTENCE_END.split(after)[0]
        if not reader.future.search(sentence):
            return None
    try:
        offset, unit = _get_meaning(reader.words, words, day)
        written = None if offset is None else _format_days(reader.language, *_get_days(day, offset, unit), unit)
    except (OverflowError, ValueError):  # a year before 1 or after 9999
        return None
    return written and f"{reader.language.opening}{written}{reader.language.closing}"


def _get_meaning(tables: _Tables, words: Mapping[str, str], day: date) -> tuple[int | None, _Unit]:
    """Return the offset from today of an expression, and its unit. The offset is None if it is ambiguous."""
    values = {kind: tables[kind][re.sub(r"\s", " ", word.lower())] for kind, word in words.items() if kind in tables}
    if "fixed" in values:
        offset, unit = values["fixed"]
        return offset, unit
    if "which" in values:
        which, unit = values["which"], values["period"]
        return (which if isinstance(which, int) else _get_offset(which, unit, day)), unit
    sign, number = next((sign, words[kind]) for kind, sign in _SIGNS.items() if kind in words)
    return sign * (int(number) if number.isdecimal() else tables["number"][number.lower()]), values["unit"]


def _get_weekday_offsets(weekday: int, today: int) -> dict[str, int | None]:
    is_over, is_ahead = weekday < today, weekday > today
    return {
        "last": 0 if is_over else -1,
        "past": 0 if is_over else -1,
        "prior": None if is_over else -1,
        "this": None if is_over else 0,
        "next": None if is_ahead or today - weekday == _SUNDAY else 1,
        "coming": 0 if is_ahead else 1,
    }


def _get_offset(which: str, unit: _Unit, day: date) -> int | None:
    """Return how many weeks, months or years from today a period is, or None if people disagree.

    "Next Friday" is clear if this week's Friday is over, and "this Friday" if it is not. "Prior" is a "last" that is
    never used for a day of this week.
    """
    today = day.weekday()
    if isinstance(unit, int):
        return _get_weekday_offsets(unit, today)[which]
    offsets: dict[str, int | None] = {"last": -1, "prior": -1, "this": 0, "next": 1, "coming": 1, "past": None}
    if unit == "weekend":
        is_weekend = today >= _SATURDAY
        offsets |= {"past": -1, "coming": int(is_weekend), "next": 1 if is_weekend else None}
        offsets["this"] = 0 if today >= _WEDNESDAY else None  # before, it may be the last one
    elif unit in _SEASONS:
        first, last = _SEASONS[unit]
        last_year = -1 if day.month <= last else None
        offsets |= {"last": last_year, "prior": last_year, "next": 1 if day.month >= first else None}
        offsets["past"] = 0 if day.month > last else -1 if day.month < first else None
    return offsets[which]


def _get_days(day: date, offset: int, unit: _Unit) -> tuple[date, date]:
    """Return the first and the last day of a period, or any day of a month, a year or a season."""
    monday = timedelta(7 * offset - day.weekday())
    match unit:
        case "day":
            first = last = day + timedelta(offset)
        case int():
            first = last = day + monday + timedelta(unit)
        case "week" | "weekend":
            last = day + monday + timedelta(_SUNDAY)
            first = last - timedelta(1 if unit == "weekend" else _SUNDAY)
        case "month":
            year, month = divmod(12 * day.year + day.month - 1 + offset, 12)
            first = last = date(year, month + 1, 1)
        case _:
            first = last = date(day.year + offset, 1, 1)
    return first, last


def _format_days(language: _Language, first: date, last: date, unit: _Unit) -> str:
    months = language.months.split()
    year, month = f"{first.year:04}", months[first.month - 1]  # four digits always, as `_INSERTED` expects
    if unit == "year":
        return language.year.format(y=year)
    if unit == "month":
        return language.month.format(m=(language.months_alone.split() or months)[first.month - 1], y=year)
    if unit in _SEASONS:
        return language.month.format(m=language.seasons.split()[list(_SEASONS).index(unit)], y=year)
    if first == last:
        return language.day.format(d=first.day, m=month, y=year)
    if first.year != last.year:
        return " – ".join(_format_days(language, day, day, "day") for day in (first, last))
    form = language.days if first.month == last.month else language.days_of_months
    return form.format(d=first.day, d2=last.day, m=month, m2=months[last.month - 1], y=year)
