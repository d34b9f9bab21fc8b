"""One Chinese clause read as claims: subject, negation, modality and tense by their words, then the frames."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from octavo.app.memory.claims import UNKNOWN, USER, Claim, Modality, Tense
from octavo.app.memory.filling import Said, fill
from octavo.app.memory.lexicon import load_lexicon, thing
from octavo.app.memory.slots import Frame, load_slots
from octavo.app.memory.times import Interval, find_time
from octavo.app.memory.values import fits

_LEAD_IN = re.compile(
    r"^(?:其实|另外|还有|对了|顺便说一下|顺便说|说实话|请记住|记住|注意|提醒一下|更正一下|更正|我说过|我觉得|我想说|"
    r"我发现|但是|但|不过|可是|而且|并且|所以|因为|"
    r"医生说|检查结果显示|现在|目前|最近|如今|后来|终于|嗯|好的|你好|告诉你|跟你说|，|,|：|:|\s)+"
)
_RELATION = (
    "老婆|妻子|太太|丈夫|老公|先生|女朋友|男朋友|女友|男友|朋友|同事|老板|室友|邻居|妈妈|母亲|爸爸|父亲|奶奶|爷爷|"
    "外婆|外公|哥哥|弟弟|姐姐|妹妹|儿子|女儿|孩子|"
    "表哥|表弟|表姐|表妹|堂哥|叔叔|阿姨|同学|老师|父母|家人|闺蜜|宝宝"
)
_RELATION_NAMES = {
    "老婆": "wife", "妻子": "wife", "太太": "wife", "丈夫": "husband",
    "老公": "husband", "朋友": "friend", "同事": "colleague", "老板": "boss",
    "妈妈": "mother", "母亲": "mother", "爸爸": "father", "父亲": "father",
    "儿子": "son", "女儿": "daughter", "女朋友": "girlfriend", "男朋友": "boyfriend",
    "室友": "roommate", "邻居": "neighbour",
}  # fmt: skip
_RELATED = re.compile(
    rf"^(?:我们?|用户)(?:的)?(?:一个|一位|最好的|好)?(?P<who>{_RELATION})(?P<name>小[一-鿿]|老[一-鿿]|"
    rf"阿[一-鿿])?(?:也)?(?P<s>的)?"
)
_ME = re.compile(r"^(?:我们|我|本人|俺|用户)(?P<s>的)?")
_OTHER = re.compile(r"^(?:他们|她们|他|她|大家|有人|有些人|很多人|别人|人们|它|这个?|那个?)")
_PROJECT = re.compile(
    r"^(?:我们的?|这个|该)?(?:项目(?P<a>[A-Za-z一-鿿]{0,6}?)|(?P<b>[A-Za-z]+)(?:项目)?)(?P<s>的)?(?=用|使用|基于|"
    r"采用|部署|截止|上线|发布|交付|运行|是用)"
)
_NAME = re.compile(
    r"^(?P<name>(?:小|老|阿)[一-鿿]|"
    r"[赵钱孙李周吴郑王冯陈林杨黄张刘何高马罗梁宋郭许][一-鿿]{1,2}?)(?:也)?(?P<s>的)?(?=喜欢|讨厌|爱|对|住|在|是|有|"
    r"不|没|吃|喝|会|怕|害怕|养|每|刚|从|最|今年|搬|叫|生日|已)"
)
_OWNED = re.compile("我(?:们)?(?:的)?(?:家)?(?P<noun>儿子|女儿|孩子|老婆|妻子|老公|丈夫|哥哥|弟弟|姐姐|妹妹|狗|猫|车)")
_UNREAL = re.compile("如果|要是|假如|假设|假装|小说里|故事里|电影里|游戏里|角色|比如说|开玩笑")
_QUESTION = re.compile("[?？吗呢]\\s*$|^(?:请问|为什么|怎么|什么|谁|哪|多少|能不能|可不可以|是不是|有没有)")
_PAST = re.compile("(?:以前|曾经|过去|小时候|原来|从前|之前|当年|那时候?|年轻时)")
_ENDED = re.compile("^(?:已经|已|终于|早就)?(?:不再|再也不|戒了|戒掉了?|戒|停止|放弃了?)(?!烟|酒)")
# Turns of phrase, and the same in words that the frames know.
_PLAINER = (
    (re.compile("对(?P<v>[^，。对]{1,8}?)(?:已经|早就|现在)?(?:不再|不会再|不)过敏"), r"不再对\g<v>过敏"),
    (re.compile("^(?P<v>[^我，]{1,10})(?:一直)?是我的?最爱(?:了)?$"), r"我喜欢\g<v>"),
    (re.compile("^我(?:现在|最近)?去(?P<v>[^，]{2,8})上班了$"), r"我入职了\g<v>"),
    (re.compile("^我(?:们)?又(?=养|买|领养|有)"), "我"),
)
_DENIED = re.compile(
    "^(?:现在|已经|都|也|一直|其实|真的|平时)*(?:从来不|从来没有?|从不|并不|并没有|一点也不|一点都不|完全不|根本不|"
    "不太|不怎么|不是很|不会|不|没有?)"
)
_FORBIDDEN = re.compile(
    "^(?:现在|已经|都|也|一直)*(?:不能|不可以|不可|不应该|不许|不准)(?:再)?(?:吃|喝|碰|用|服用|接触|抽|摄入)"
)
_MODAL = (
    (re.compile("^(?:很|一直|也)?(?:想要|想|希望|打算|计划|准备|考虑|将要|将会|会去)(?!念)"), "plan"),
    (re.compile("^(?:可能|也许|大概|或许|说不定|应该(?!不))"), "possible"),
)
_NOW = re.compile("^(?:现在|目前|如今|最近|近来|今天|已经开始|开始)+")
_DOCTOR = re.compile("^(?:我的?)?(?:医生|大夫|牙医)(?:让|叫|要求|建议|嘱咐|说)我")
_TAIL = re.compile("(?:的话|了|啊|呀|呢|吧|哦|啦|而已|的|之一|。|！|!|，|,|\\s)+$")
_SCOPE = re.compile(
    "(?:在)?(?:早上|上午|中午|下午|晚上|夜里|睡前|周末|工作日|夏天|冬天|上班时|空腹时?|饭后|饭前|生病时|"
    "[0-9一二三四五六七八九十]+点以?后)"
)
_RECENT_DAYS = 14
_NO_SCOPE = frozenset(("wakes", "sleeps", "dose", "deadline"))


def is_question(text: str) -> bool:
    """True for a question, by its particle, mark or first word."""
    return _QUESTION.search(text.strip("。！! ")) is not None


def read(text: str, said: date, previous: str = UNKNOWN) -> list[Claim]:
    """The claims of one clause; `previous` is the subject of the clause before, for one that names none."""
    text = re.sub("\\s+", " ", text.strip(" 。！!，,;；"))
    unreal = _UNREAL.search(text) is not None
    text = _LEAD_IN.sub("", text)
    for pattern, plainer in _PLAINER:
        text = pattern.sub(plainer, text)
    when = find_time(text, said)
    bare = text if when is None else text[: when.span[0]] + text[when.span[1] :]
    implied = [_owned(match["noun"]) for match in _OWNED.finditer(text)]
    claims: list[Claim] = []
    for form in dict.fromkeys((text, bare)):
        subject, rest, possessive = _subject(form, previous)
        context = Said(subject, said, when)
        claims = _claims(form, rest, context, possessive)
        if any(claim.slot for claim in claims):
            break
    if unreal:
        return [replace(claim, modality="hypothetical") for claim in claims]
    return claims + implied


def _owned(noun: str) -> Claim:
    slots, lexicon = load_slots(), load_lexicon()
    slot = "owns" if noun in ("狗", "猫", "车") else "family"
    value = slots.alias(slots.by_name[slot], noun)
    known = lexicon.find(value)
    return Claim(USER, slot, known or value, concepts=frozenset({known} if known else ()), is_implied=True)


def _subject(text: str, previous: str) -> tuple[str, str, bool]:
    if match := _RELATED.match(text):
        who = match["name"] or _RELATION_NAMES.get(match["who"], match["who"])
        return f"person:{who}", text[match.end() :].lstrip("，, "), match["s"] is not None
    if match := _PROJECT.match(text):
        name = (match["a"] or match["b"] or "the project").casefold()
        return f"project:{name}", text[match.end() :], match["s"] is not None
    if _DOCTOR.match(text):
        return USER, re.sub("^我的?", "", text), False
    if match := _ME.match(text):
        return USER, text[match.end() :].lstrip("，, "), match["s"] is not None
    if match := _OTHER.match(text):
        return f"other:{match[0]}", text[match.end() :], False
    if match := _NAME.match(text):
        return f"person:{match['name']}", text[match.end() :], match["s"] is not None
    return previous, text, False


def _claims(text: str, rest: str, said: Said, possessive: bool) -> list[Claim]:
    tense: Tense = "present"
    clean = _NOW.sub("", _TAIL.sub("", rest))
    for frame in load_slots().frames["zh"]:
        match = frame.match(_TAIL.sub("", "我的" + rest if possessive else text)) if frame.whole else None
        if match is not None and fits(frame, match.groupdict()):
            return _dated(frame, match, said, text)
    if _PAST.search(clean):
        tense = "past"
        clean = _PAST.sub("", clean).lstrip("，, ")
    modality: Modality = "stated"
    affirmed, ended = True, False
    forbidden = _FORBIDDEN.match(clean) is not None
    for _ in range(3):
        if forbidden:
            break
        for pattern, name in _MODAL:
            if match := pattern.match(clean):
                modality, clean = name, clean[match.end() :]  # type: ignore[assignment]
        if match := _ENDED.match(clean):
            affirmed, ended, clean = False, True, clean[match.end() :]
            clean = clean if _frame(clean) else "吃" + clean
        elif (match := _DENIED.match(clean)) and not _frame_denies(clean):
            affirmed, clean = not affirmed, clean[match.end() :]
            if not _frame(clean):
                # 没有猫 denies 有猫, 不会游泳 denies 会游泳.
                clean = next(
                    (word + clean for word in "有会" if match[0].endswith((word, "没")) and _frame(word + clean)), clean
                )
    scope, claims = "", _filled(clean, said, affirmed)
    if (match := _SCOPE.search(clean)) and not any(claim.slot in _NO_SCOPE for claim in claims):
        without = clean[: match.start()] + clean[match.end() :]
        shorter = _filled(without, said, affirmed)
        if "每" not in clean and any(claim.slot for claim in shorter):
            scope, claims = match[0], shorter
    return [_placed(claim, said, tense, modality, ended, scope) for claim in claims]


def _frame(text: str) -> bool:
    return any(not frame.whole and frame.match(text) for frame in load_slots().frames["zh"])


def _frame_denies(text: str) -> bool:
    """True for words such as 不能吃, 受不了, that a frame reads as a whole."""
    return any(
        not frame.whole and frame.slot.name in ("avoid", "allergy", "preference") and frame.denied and frame.match(text)
        for frame in load_slots().frames["zh"]
    )


def _filled(text: str, said: Said, affirmed: bool) -> list[Claim]:
    for frame in load_slots().frames["zh"]:
        match = None if frame.whole else frame.match(text)
        if match is not None and fits(frame, match.groupdict()):
            claims = fill(frame, match, said, text)
            done = []
            for claim in claims:
                value = load_slots().alias(frame.slot, _TAIL.sub("", claim.value))
                claim = replace(claim, value=value, affirmed=claim.affirmed == affirmed, is_event=frame.change)
                done.append(claim)
            return done
    known = thing(text)
    return [Claim(said.subject, "", known.value, affirmed, concepts=known.concepts)]


def _dated(frame: Frame, match: re.Match[str], said: Said, text: str) -> list[Claim]:
    if frame.slot.name != "deadline":
        return fill(frame, match, replace(said, subject=said.subject or USER), text)
    found = find_time(match["v"], said.day)
    value = found.interval.start.isoformat() if found and found.interval.start else match["v"]
    name = re.sub("^我们?的?|项目|的$", "", match["k"] or "") or "the project"
    return [Claim(f"project:{name.casefold()}", "deadline", value)]


def _is_recent(said: Said) -> bool:
    start = said.time.interval.start if said.time is not None else None
    return start is not None and (said.day - start).days <= _RECENT_DAYS


def _placed(claim: Claim, said: Said, tense: Tense, modality: Modality, ended: bool, scope: str) -> Claim:
    event = claim.is_event or ended
    time = Interval()
    if claim.is_event and modality == "stated":
        tense = "present"
    if said.time is not None:
        if event or said.time.is_since:
            time = Interval(said.time.interval.start)
            event = True
        elif claim.base_slot == "consume" and claim.affirmed and _is_recent(said):
            event, time = True, Interval(said.time.interval.start)  # what somebody ate yesterday is what they eat
        else:
            time = said.time.interval
            tense = "past" if time.is_over(said.day) else tense
    elif tense == "past":
        time = Interval(None, said.day)
    return replace(
        claim, tense=tense, modality=modality, scope=scope, time=time, is_event=event, has_time=said.time is not None
    )
