"""Relative times and their dates. Today is Wednesday, 10 May 2023, unless a test says otherwise."""

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.relative_times import date_times

TODAY = date(2023, 5, 10)

DATED = {
    "en": """
        I went yesterday (9 May 2023).
        Yesterday (9 May 2023) I went, and yesterday's (9 May 2023) game was fun.
        I met him last night (9 May 2023)
        How are you today (10 May 2023)?
        Are you free tonight (10 May 2023)?
        I woke up early this morning (10 May 2023).
        See you tomorrow (11 May 2023)!
        It starts tomorrow morning (11 May 2023) at 10.30
        The day before yesterday (8 May 2023) it rained; the day after tomorrow (12 May 2023) it will not.
        We moved 3 days ago (7 May 2023).
        Two weeks ago (24–30 April 2023) we met.
        It broke a month ago (April 2023).
        She left five years ago (2018), in May of last year (2022)
        I saw her last Friday (5 May 2023) and last Wednesday (3 May 2023).
        last fri (5 May 2023) was fun
        We meet next Monday (15 May 2023), this Saturday (13 May 2023) or this coming Friday (12 May 2023).
        last week (1–7 May 2023), this week (8–14 May 2023), next week (15–21 May 2023)
        last weekend (6–7 May 2023), this weekend (13–14 May 2023), two weekends ago (29–30 April 2023)
        this past weekend (6–7 May 2023) and this past Sunday (7 May 2023)
        last month (April 2023), next month (June 2023), this month (May 2023)
        last year (2022), this year (2023), next year (2024)
        last summer (summer 2022), this summer (summer 2023), last fall (autumn 2022)
        My exam is in two weeks (22–28 May 2023).
        See you in 3 days (13 May 2023)!
        a week from now (15–21 May 2023)
        Nice :) Today (10 May 2023) we rest.
    """,
    "de": """
        Gestern (9. Mai 2023) war ich da.
        Ich war gestern Abend (9. Mai 2023) im Kino.
        Heute Morgen (10. Mai 2023) war es kalt.
        Was machst du heute (10. Mai 2023)?
        Wir fahren morgen (11. Mai 2023).
        Morgen (11. Mai 2023) fahren wir los.
        morgen früh (11. Mai 2023) geht es los
        vorgestern (8. Mai 2023) und übermorgen (12. Mai 2023)
        letzte Nacht (9. Mai 2023)
        letzte Woche (1.–7. Mai 2023), diese Woche (8.–14. Mai 2023), nächste woche (15.–21. Mai 2023)
        letzten Monat (April 2023), im letzten Jahr (2022), nächstes Jahr (2024)
        letzten Freitag (5. Mai 2023), nächsten Montag (15. Mai 2023), kommenden Freitag (12. Mai 2023)
        letztes Wochenende (6.–7. Mai 2023), dieses Wochenende (13.–14. Mai 2023)
        vor drei Tagen (7. Mai 2023), vor einer Woche (1.–7. Mai 2023), vor 2 Monaten (März 2023), vor einem Jahr (2022)
        In zwei Wochen (22.–28. Mai 2023) fahren wir ans Meer.
        letzten Sommer (Sommer 2022)
        heute (10. Mai 2023) oder morgen (11. Mai 2023), heute vor einem Jahr (2022)
    """,
    "es": """
        Ayer (9 de mayo de 2023) fui al cine.
        Anoche (9 de mayo de 2023) no dormí; anteayer (8 de mayo de 2023) tampoco.
        ¿Qué haces hoy (10 de mayo de 2023)?
        Nos vemos mañana (11 de mayo de 2023).
        Esta mañana (10 de mayo de 2023) llovió.
        ayer por la mañana (9 de mayo de 2023), mañana por la mañana (11 de mayo de 2023)
        pasado mañana (12 de mayo de 2023)
        la semana pasada (1–7 de mayo de 2023), esta semana (8–14 de mayo de 2023)
        la próxima semana (15–21 de mayo de 2023), la semana que viene (15–21 de mayo de 2023)
        el mes pasado (abril de 2023), el próximo mes (junio de 2023)
        el año pasado (2022), este año (2023), el año que viene (2024)
        el viernes pasado (5 de mayo de 2023), el lunes que viene (15 de mayo de 2023)
        este sábado (13 de mayo de 2023), este fin de semana (13–14 de mayo de 2023)
        hace dos días (8 de mayo de 2023), hace una semana (1–7 de mayo de 2023), hace tres años (2020)
        dos meses atrás (marzo de 2023)
        dentro de 3 días (13 de mayo de 2023)
        Nos vemos en dos semanas (22–28 de mayo de 2023)
        el verano pasado (verano de 2022)
        Hoy (10 de mayo de 2023) hace calor
    """,
    "ru": """
        Вчера (9 мая 2023) был дождь.
        Вчера вечером (9 мая 2023) мы гуляли.
        Что делаешь сегодня (10 мая 2023)?
        Увидимся завтра (11 мая 2023)!
        позавчера (8 мая 2023), послезавтра (12 мая 2023)
        сегодня (10 мая 2023) или завтра утром (11 мая 2023)
        на прошлой неделе (1–7 мая 2023), на этой неделе (8–14 мая 2023), на следующей неделе (15–21 мая 2023)
        в прошлом месяце (апрель 2023), в следующем месяце (июнь 2023)
        в прошлом году (2022), в этом году (2023), в мае прошлого года (2022)
        в прошлую пятницу (5 мая 2023), в эту субботу (13 мая 2023), в следующий понедельник (15 мая 2023)
        в прошлые выходные (6–7 мая 2023)
        два дня назад (8 мая 2023), 3 недели назад (17–23 апреля 2023), пять лет назад (2018)
        Неделю назад (1–7 мая 2023) и год назад (2022)
        Через неделю (15–21 мая 2023) едем на дачу.
        Через 3 дня (13 мая 2023) экзамен.
        прошлым летом (лето 2022)
        завтра (11 мая 2023) после работы
    """,
    "zh": """
        我昨天（2023年5月9日）去了。
        今天（2023年5月10日）天气很好
        明天（2023年5月11日）天气怎么样？
        前天（2023年5月8日）和后天（2023年5月12日）
        昨晚（2023年5月9日）没睡好，今晚（2023年5月10日）早点睡
        上周（2023年5月1–7日）很忙，这周（2023年5月8–14日）不忙，下周（2023年5月15–21日）呢？
        上周五（2023年5月5日）见面，下周一（2023年5月15日）考试
        上个星期天（2023年5月7日）
        上周末（2023年5月6–7日）
        上周（2023年5月1–7日）一直下雨
        上个月（2023年4月）、这个月（2023年5月）、下个月（2023年6月）
        去年（2022年）夏天，今年（2023年），明年（2024年），前年（2021年）
        三天前（2023年5月7日），2天前（2023年5月8日）
        两周前（2023年4月24–30日），三个月前（2023年2月），五年前（2018年）
        他说明天（2023年5月11日）来
        三天后（2023年5月13日）我会回来
    """,
    "ja": """
        昨日（2023年5月9日）行きました。
        今日（2023年5月10日）は暑いですね
        明日（2023年5月11日）会いましょう
        一昨日（2023年5月8日）、明後日（2023年5月12日）
        昨夜（2023年5月9日）、今朝（2023年5月10日）
        きのう（2023年5月9日）食べた
        先週（2023年5月1–7日）、今週（2023年5月8–14日）、来週（2023年5月15–21日）
        先週の金曜日（2023年5月5日）、来週月曜（2023年5月15日）
        今週末（2023年5月13–14日）
        再来週（2023年5月22–28日）
        先月（2023年4月）、今月（2023年5月）、来月（2023年6月）
        去年（2022年）、昨年（2022年）、今年（2023年）、来年（2024年）
        一昨年（2021年）、去年（2022年）の今日
        3日前（2023年5月7日）に買った
        2週間前（2023年4月24–30日）、三か月前（2023年2月）、5年前（2018年）
        3日後（2023年5月13日）に会いましょう
    """,
}
TRAPS = {
    "en": """
        I read it in USA Today.
        We sang "Yesterday", “Yesterday”, 'last week' and ‘today’ together.
        Run `today` and open yesterday.txt, last_week, lastWeek, #today, @today, today@example.com or today()
        See https://example.com/?d=today and www.example.com/a,today and [today](x)
        in the last week, my last year, the next day, the last Friday of the month
        the youth of today, like there is no tomorrow
        I finished it in two days.
        half a year ago, twenty two days ago, 1.5 years ago, 3-4 days ago, two or three weeks ago
        over 5 years ago, a couple of weeks ago, 5000 years ago, 9999999 years ago
        We met on Friday, next Friday, next weekend, this Monday, this past week or last winter
        yesterday, 9 May; yesterday (Tuesday, 9 May); today (5/10); On 9 May, yesterday
        The trip is next week or so. Ask me this time.
    """,
    "de": """
        Guten Morgen! guten morgen
        Am Morgen trinke ich Tee, jeden morgen
        Morgen zusammen!
        von heute auf morgen
        Ich bin nicht von gestern.
        Das habe ich in drei Tagen geschafft.
        mein letztes Jahr, die letzte Woche der Ferien
        „Gestern“ und »heute« sind Wörter
        heute Nacht
        am Freitag, nächsten Freitag
    """,
    "es": """
        por la mañana, a las diez de la mañana
        el mañana
        hoy en día
        cada mañana, toda la mañana
        hace más de dos años
        Lo terminé en dos días.
        «ayer» y "hoy"
        el próximo viernes
        el día de hoy
    """,
    "ru": """
        Завтрак готов, сегодняшний и вчерашний
        Через неделю он вернулся.
        «вчера» и "завтра"
        много лет назад, пару дней назад
        полтора года назад, почти год назад
        двадцать два дня назад
        изучить эту среду
        через два дня после свадьбы
        в прошлый вторник
    """,
    "zh": """
        以后天天运动，以前天天吃
        然后天黑了，目前天气很好
        几天前天气，几十年前
        说明天气
        日本周边，以上周期
        「昨天」
        今日头条，明日方舟
        三天后他走了
        先天后天
    """,
    "ja": """
        試験の3日前
        今年度の予算、昨年度
        明日香さん、今日子さん
        「昨日」と『明日』
        数日前、数年前
        その3日後に帰りました
        はたらきのうち
    """,
}


def rows(table):
    return [
        pytest.param(line.strip(), id=f"{language}-{number}")
        for language, lines in table.items()
        for number, line in enumerate(lines.strip().splitlines())
    ]


def without_dates(line):
    return re.sub(r" \([^()]*\d{4}\)|（[^（）]*）", "", line)


@pytest.mark.parametrize("line", rows(DATED))
def test_relative_times_get_their_dates(line):
    assert date_times(without_dates(line), TODAY) == line
    assert date_times(line, TODAY) is line


@pytest.mark.parametrize("line", rows(TRAPS))
def test_other_texts_stay_unchanged(line):
    assert date_times(line, TODAY) is line


@pytest.mark.parametrize(
    ("day", "text", "expected"),
    [
        ("2024-01-01", "yesterday, last month", "yesterday (31 December 2023), last month (December 2023)"),
        ("2024-03-01", "yesterday", "yesterday (29 February 2024)"),
        ("2024-02-29", "a year ago, next month", "a year ago (2023), next month (March 2024)"),
        ("2023-12-31", "tomorrow", "tomorrow (1 January 2024)"),
        ("2024-01-03", "this week, last week", "this week (1–7 January 2024), last week (25–31 December 2023)"),
        ("2023-01-04", "last week", "last week (26 December 2022 – 1 January 2023)"),
        ("2023-05-03", "last week, diese Woche", "last week (24–30 April 2023), diese Woche (1.–7. Mai 2023)"),
        ("2023-05-02", "this week, 本周", "this week (1–7 May 2023), 本周（2023年5月1–7日）"),
        (
            "2023-08-03",
            "esta semana, 今週",
            "esta semana (31 de julio – 6 de agosto de 2023), 今週（2023年7月31日–8月6日）",
        ),
        ("2023-05-12", "last Friday, this Friday", "last Friday (5 May 2023), this Friday (12 May 2023)"),
        ("2023-05-13", "next weekend, last Friday", "next weekend (20–21 May 2023), last Friday (12 May 2023)"),
        ("2023-05-14", "next Monday, next Sunday", "next Monday, next Sunday (21 May 2023)"),
        ("2023-05-08", "this weekend, this coming weekend", "this weekend, this coming weekend (13–14 May 2023)"),
        ("2023-10-08", "last summer, this past summer", "last summer, this past summer (summer 2023)"),
        ("2023-07-08", "this past summer, next summer", "this past summer, next summer (summer 2024)"),
        ("2023-02-08", "this past summer, next summer", "this past summer (summer 2022), next summer"),
        ("2023-05-12", "в прошлую среду", "в прошлую среду"),
        (
            "0001-01-01",
            "yesterday, last year, last month, today",
            "yesterday, last year, last month, today (1 January 0001)",
        ),
        ("9999-12-31", "tomorrow, next week, 999 years ago", "tomorrow, next week, 999 years ago (9000)"),
    ],
)
def test_borders(day, text, expected):
    assert date_times(text, date.fromisoformat(day)) == expected


def test_quotations_and_code_stay_as_they_are():
    text = "> yesterday\n```\nyesterday\n```\n~~~\ntoday\n~~~\nI said „gestern“.\n```py\ntoday"
    assert date_times(text, TODAY) is text
    assert date_times(text + "\n```\ntoday", TODAY) == text + "\n```\ntoday (10 May 2023)"
    assert date_times("It's the girls' day today", TODAY) == "It's the girls' day today (10 May 2023)"


PIECES = [word for lines in (*DATED.values(), *TRAPS.values()) for word in lines.split()]
texts = st.lists(
    st.sampled_from(PIECES) | st.sampled_from(["\n", "", "⟨", "a year ago today"]) | st.text(max_size=3)
).map
joined = st.sampled_from([" ", "", "\n"]).flatmap(lambda space: texts(space.join))


@given(text=joined | st.text(st.characters()), day=st.dates())
def test_any_text_is_dated_once(text, day):
    dated = date_times(text, day)
    assert date_times(dated, day) == dated
    assert len(dated) >= len(text)
    assert dated != text or dated is text


def test_without_a_day_or_in_a_document_nothing_is_dated():
    assert date_times("yesterday", None) == "yesterday"
    long = "I moved yesterday. " * 1_100
    assert date_times(long, TODAY) is long


def test_only_the_beginning_of_a_text_with_many_times_is_dated():
    assert date_times("today " * 100, TODAY).count("(10 May 2023)") == 32
