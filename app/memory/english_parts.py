"""Phrases of English that decide whether a clause is denied, real, limited to a circumstance, or over."""

from __future__ import annotations

import re
from collections.abc import Callable


def _doctor(match: re.Match[str]) -> str:
    """ "My doctor told me not to eat salt" is something I must not do."""
    forbidden = match["no"] is not None or re.search(r"forb|banned", match[0]) is not None
    return "i must avoid " if match["no"] in ("against ", "from ") else "i must not " if forbidden else "i must "


CONTRACTIONS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (  # type: tuple[str, str | Callable[[re.Match[str]], str]]
        (r"\bcan't\b|\bcannot\b|\bcant\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"\bain't\b", "am not"),
        (r"\b(do|does|did|is|are|was|were|have|has|had|would|could|should|must|need)n't\b", r"\1 not"),
        (r"\bdont\b", "do not"),
        (r"\b(i)'m\b|\bim\b(?= )", "i am"),
        (r"\b(you|we|they)'re\b", r"\1 are"),
        (r"\b(i|you|we|they)'ve\b", r"\1 have"),
        (r"\b(i|you|we|they|he|she|it)'ll\b", r"\1 will"),
        (r"\b(i|you|we|they|he|she)'d (better|rather|love|like|prefer|be|want)\b", r"\1 would \2"),
        (r"\b(i|you|we|they|he|she|it)'d\b", r"\1 had"),
        (r"\b(he|she|it|that|there|what|who)'s (been|got|had)\b", r"\1 has \2"),
        (r"\b(he|she|it|that|there|what|who)'s\b", r"\1 is"),
        (
            r"\b([A-Z]\w+|wife|husband|friend|brother|sister|mother|father|mum|mom|dad|boss|colleague|partner|son|"
            r"daughter|user)'s (?=(?:not|now|also|very|severely|really|deeply|a|an|allergic|vegan|vegetarian|from|"
            r"working|living|moving|based|married|single|pregnant|diabetic|afraid|scared|\d+)\b)",
            r"\1 is ",
        ),
        (
            r"^(?:my|the|our) (?:\w+ )?(?:doctor|dentist|allergist|cardiologist|gp|nurse|dietitian|dietician|"
            r"physician|therapist) "
            r"(?:has |had )?(?:told|advised|asked|ordered|warned|wants|wanted|instructed|recommended|forbade|"
            r"forbids|forbidden|banned|"
            r"urged) (?:me |that i |the user )?(?P<no>not to |never to |against |from )?(?P<to>to )?",
            _doctor,
        ),
        (r"\bhave got\b", "have"),
        (r"\bhas got\b", "has"),
        (r"\bgonna\b", "going to"),
        (r"\bwanna\b", "want to"),
        (r"\bno longer\b", "not"),
        (r"\bnot only\b", "also"),
        (r"\bno more\b", "no"),
        (r"\ba couple of\b", "two"),
        (r"\bam not allowed (?:to )?|\bis not allowed (?:to )?|\bare not allowed (?:to )?", "must not "),
        (r"\b(?:am|is|are) not supposed to\b", "must not"),
        (r"\bshould stay\b", "must stay"),
    )
)
LEAD_IN = re.compile(
    r"^(?:(?:and|but|so|well|ok|okay|oh|hey|hi|hello|yes|no|yeah|actually|honestly|frankly|anyway|also|fyi|btw|plus|"
    r"sorry|"
    r"by the way|just so you know|for the record|for your information|in fact|to be honest|remember|note|good news|"
    r"bad news|update|correction|unfortunately|sadly|luckily|fortunately|finally|these days|nowadays|now|currently|"
    r"today|right now|at the moment|as of (?:now|today)|recently|lately|since then|(?:as|like) i (?:said|mentioned))"
    r"(?:\s*[,:!–—-]+\s*|\s+)|please (?:remember|note|keep in mind)(?: that)?[,:]?\s+|(?:remember|note|know)(?: "
    r"that)?[,:]?\s+"
    r"|(?:(?:just )?(?:a )?(?:quick |friendly |little )?reminder:?|(?:please )?do not forget|in case you forgot|"
    r"you should know|keep in mind|i (?:should|have to|must|want to|need to) (?:mention|say|add|tell you|"
    r"confess|admit)|"
    r"i (?:think|guess|believe|suppose|know|realized|realised|noticed|told you|said|mean|swear|admit|feel|find out|"
    r"found out|"
    r"just learned|learned)|i (?:was|have been|got) (?:just )?(?:told|informed)|it (?:is|'s) true|the (?:truth|fact|"
    r"thing) is|it turns out|turns out|i'm (?:happy|sad|glad|"
    r"proud|sorry) to say|i am (?:happy|sad|glad|proud|sorry) to say|(?:my|the) (?:doctor|dentist|allergist|test|tests|"
    r"results?)(?: \w+)? (?:says?|said|confirmed|confirms?|found|showed|thinks|diagnosed|shows?))(?: that)?[,:]?\s+)",
    re.IGNORECASE,
)
DENYING_LEAD_IN = re.compile(
    r"^(?:i (?:do not|don't|did not) (?:think|believe|guess)|it (?:is|'s) not (?:true|the case|that)|it (?:isn't) "
    r"(?:true|the case))"
    r"(?: that)?\s+",
    re.IGNORECASE,
)
UNREAL = re.compile(
    r"^\s*(?:if|suppose|imagine|pretend|let's say|what if|say)\b|\b(?:in (?:my|the|a) (?:novel|story|book|movie|"
    r"film|game|dream|script|"
    r"screenplay|play)|my (?:character|protagonist|avatar|d&d)|the (?:character|protagonist|hero|narrator|villain)|"
    r"hypothetically|"
    r"for the sake of argument|role[- ]?play|just kidding|as a joke|(?:wish|if only) i)\b",
    re.IGNORECASE,
)
SCOPE = re.compile(
    r"\s+(?:(?:late |early |only |except |but only |just )*(?:in the (?:morning|evening|afternoon|summer|winter)s?|"
    r"at (?:night|work|home|lunch|"
    r"parties|the office|school)|on (?:weekends|weekdays|workdays|holidays|vacation|mondays|tuesdays|wednesdays|"
    r"thursdays|fridays|saturdays|"
    r"sundays|an empty stomach|an? \w+day|special occasions)|(?:after|before) (?:\d+(?::\d+)?(?: ?[ap]m)?|noon|"
    r"midnight|dinner|lunch|"
    r"breakfast|bed|bedtime|dark|sunset|work)|during \w+(?: \w+)?|for (?:breakfast|lunch|dinner|brunch|dessert)|in "
    r"(?:summer|winter|spring|autumn|"
    r"public|company)|while \w+ing.*|when .+|whenever .+|if .+|unless .+|except .+|from (?:that|this) .+|at \d+.*))$",
    re.IGNORECASE,
)
TAIL = re.compile(
    r"(?:\s+|,\s*)(?:now|these days|nowadays|at the moment|right now|currently|any ?more|any longer|too|as well|at "
    r"all|yet|though|"
    r"either|today|instead|again|lately|recently|anyway|please|by the way|you know|for now|already|in general|of "
    r"course|"
    r"to be honest|already|ever|in my life|since then|very often|so far|still|sadly|unfortunately|haha|lol|"
    r"(?:ever )?since (?:childhood|birth|i was .+)|because of .+|because .+|so .+|thanks to .+|due to .+)$",
    re.IGNORECASE,
)
EARLIER = re.compile(
    r"\b(?:used to|formerly|previously|back then|in the past|once upon a time|as a (?:child|kid|teenager|student|"
    r"baby)|when i was "
    r"(?:a |an )?\w+|growing up|in my (?:youth|childhood|twenties|teens)|years ago|at that time|in those days|until "
    r"recently)\b",
    re.IGNORECASE,
)
