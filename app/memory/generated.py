"""Pairs of statements made from templates, seeded: what is remembered, what is said now, and their verdict.

What contains what stands here once more, apart from the lexicon that is measured with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from octavo.app.memory.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Pair:
    """A remembered and a new statement; `is_hard` marks negatives that look like conflicts."""

    old: str
    new: str
    verdict: Verdict
    is_hard: bool = False


_CITIES = ("Berlin", "Munich", "Paris", "Madrid", "Toronto", "Osaka", "Boston", "Lisbon", "Oslo", "Kraków")
_CITIES_ZH = ("北京", "上海", "深圳", "杭州", "成都", "广州")
_FIRMS = ("Siemens", "Acme", "Globex", "Initech", "Philips", "Nokia")
_LIKES = ("jazz", "hiking", "mushrooms", "chess", "gardening", "sailing", "olives", "poetry", "karaoke", "camping")
_LIKES_ZH = ("香菜", "跑步", "爵士乐", "下棋", "咖啡", "榴莲")
_DRUGS = ("metformin", "lisinopril", "sertraline", "levothyroxine", "omeprazole")
_TOOLS = ("Vim", "Emacs", "Docker", "Terraform", "Kubernetes", "Postgres", "Figma", "Notion")
_LANGUAGES = ("German", "French", "Spanish", "Japanese", "Italian", "Korean")
_PETS = ("dog", "cat", "horse", "parrot", "rabbit")
_PEOPLE = ("My wife", "My brother", "My friend Anna", "Peter", "My boss", "My neighbour")
_ALLERGENS = (
    ("caffeine", ("coffee", "espresso", "black tea", "cola", "matcha", "energy drinks")),
    ("peanuts", ("peanut butter", "satay", "peanuts")),
    ("shellfish", ("shrimp", "lobster", "crab", "prawns")),
    ("milk", ("ice cream", "cheese", "yogurt")),
    ("gluten", ("pasta", "sourdough", "pizza", "croissants")),
    ("eggs", ("omelettes", "mayonnaise", "scrambled eggs")),
    ("soy", ("tofu", "soy sauce", "edamame")),
    ("fish", ("salmon", "tuna", "sushi")),
    ("tree nuts", ("walnuts", "cashews", "pistachios", "hazelnuts")),
    ("sesame", ("hummus", "tahini")),
)
_ALLERGENS_ZH = (
    ("花生", ("花生酱", "花生")),
    ("海鲜", ("虾", "螃蟹", "龙虾")),
    ("咖啡因", ("咖啡", "拿铁", "绿茶")),
    ("牛奶", ("冰淇淋", "奶酪")),
)
_SAFE = ("apples", "rice", "carrots", "water", "potatoes", "bananas")
_DIETS = (
    ("vegan", ("steak", "cheese", "honey", "eggs", "bacon")),
    ("vegetarian", ("steak", "bacon", "salmon", "chicken wings")),
)
_CONDITIONS = (("diabetes", ("candy", "cake", "lemonade")), ("celiac disease", ("bread", "pasta", "cookies")))


def generate(seed: int, per_verdict: int = 140) -> list[Pair]:
    """`per_verdict` different pairs of each verdict, the same for the same seed; half the compatible ones are hard."""
    draw = random.Random(seed)  # noqa: S311
    pairs: list[Pair] = []
    for make in (_duplicates, _updates, _contradictions, _tensions, _compatible, _hard):
        wanted = per_verdict // 2 if make in (_compatible, _hard) else per_verdict
        found = sorted(set(make()), key=lambda pair: (pair.old, pair.new))
        draw.shuffle(found)
        pairs += found[:wanted]
    draw.shuffle(pairs)
    return pairs


def _duplicates() -> Iterator[Pair]:
    for city in _CITIES:
        yield Pair(f"I live in {city}.", f"I'm based in {city}.", "duplicate")
        yield Pair(f"I live in {city}.", f"I currently live in {city}.", "duplicate")
    for thing in _LIKES:
        yield Pair(f"I like {thing}.", f"I really love {thing}.", "duplicate")
        yield Pair(f"I don't like {thing}.", f"I dislike {thing}.", "duplicate")
        yield Pair(f"I hate {thing}.", f"I can't stand {thing}.", "duplicate")
    for allergen, _ in _ALLERGENS:
        yield Pair(f"I'm allergic to {allergen}.", f"I am severely allergic to {allergen}.", "duplicate")
        yield Pair(f"I'm allergic to {allergen}.", f"I have an allergy to {allergen}.", "duplicate")
    for drug in _DRUGS:
        for dose in (5, 10, 20):
            yield Pair(f"I take {dose} mg of {drug} every day.", f"I take {dose} mg of {drug} daily.", "duplicate")
            yield Pair(f"I take {dose} mg of {drug}.", f"My {drug} dose is {dose} mg.", "duplicate")
    for firm in _FIRMS:
        yield Pair(f"I work at {firm}.", f"I work for {firm}.", "duplicate")
    for age in range(21, 60, 4):
        yield Pair(f"I'm {age} years old.", f"I am {age}.", "duplicate")
    for tool in _TOOLS:
        yield Pair(f"I use {tool}.", f"I work with {tool} every day.", "duplicate")
    for city in _CITIES_ZH:
        yield Pair(f"我住在{city}。", f"我现在住在{city}。", "duplicate")
    for thing in _LIKES_ZH:
        yield Pair(f"我喜欢{thing}。", f"我特别喜欢{thing}。", "duplicate")


def _updates() -> Iterator[Pair]:
    for old, new in _two(_CITIES):
        yield Pair(f"I live in {old}.", f"I moved to {new}.", "update")
        yield Pair(f"I live in {old}.", f"I live in {new} now.", "update")
    for old, new in _two(_FIRMS):
        yield Pair(f"I work at {old}.", f"I started a new job at {new}.", "update")
    for drug in _DRUGS:
        for old_dose, new_dose in _two((5, 10, 20, 40)):
            yield Pair(f"I take {old_dose} mg of {drug}.", f"I take {new_dose} mg of {drug}.", "update")
    for age in range(21, 60, 5):
        yield Pair(f"I'm {age} years old.", f"I just turned {age + 1}.", "update")
    for tool in _TOOLS:
        yield Pair(f"I have 5 years of experience with {tool}.", f"I have 6 years of experience with {tool}.", "update")
    for old, new in _two(("blue", "green", "red", "purple")):
        yield Pair(f"My favourite colour is {old}.", f"My favourite colour is {new}.", "update")
    for times in range(2, 7):
        yield Pair(f"I run {times} times a week.", f"I run {times + 1} times a week.", "update")
        yield Pair(f"I weigh {70 + times} kg.", f"I weigh {75 + times} kg.", "update")
        yield Pair(f"I get up at {times + 2} am.", f"I get up at {times + 3} am.", "update")
    for old, new in _two(_CITIES_ZH):
        yield Pair(f"我住在{old}。", f"我搬到了{new}。", "update")
    for dose in (5, 10, 20, 50):
        yield Pair(f"我每天吃{dose}毫克二甲双胍。", f"我每天吃{dose * 2}毫克二甲双胍。", "update")


def _contradictions() -> Iterator[Pair]:
    for thing in _LIKES:
        yield Pair(f"I love {thing}.", f"I hate {thing}.", "contradiction")
        yield Pair(f"I like {thing}.", f"I don't like {thing}.", "contradiction")
        yield Pair(f"I can't stand {thing}.", f"I really enjoy {thing}.", "contradiction")
        yield Pair(f"I'm a fan of {thing}.", f"I'm not a fan of {thing} any more.", "contradiction")
    for pet in _PETS:
        yield Pair(f"I have a {pet}.", f"I don't have a {pet} any more.", "contradiction")
        yield Pair(f"I don't have a {pet}.", f"I have a {pet}.", "contradiction")
    for tool in _TOOLS:
        yield Pair(f"I use {tool}.", f"I don't use {tool} any more.", "contradiction")
        yield Pair(f"The project uses {tool}.", f"The project no longer uses {tool}.", "contradiction")
        yield Pair(f"I use {tool}.", f"I stopped using {tool}.", "contradiction")
    for language in _LANGUAGES:
        yield Pair(f"I speak {language}.", f"I don't speak {language}.", "contradiction")
    for drink in ("beer", "wine", "milk", "tea", "coffee", "juice"):
        yield Pair(f"I drink {drink}.", f"I never drink {drink}.", "contradiction")
        yield Pair(f"I don't drink {drink}.", f"I drink {drink} every day.", "contradiction")
        yield Pair(f"I drink {drink}.", f"I stopped drinking {drink}.", "contradiction")
    for thing in _LIKES_ZH:
        yield Pair(f"我喜欢{thing}。", f"我不喜欢{thing}。", "contradiction")
        yield Pair(f"我喜欢{thing}。", f"我讨厌{thing}。", "contradiction")
        yield Pair(f"我讨厌{thing}。", f"我很喜欢{thing}。", "contradiction")
    for instrument in ("piano", "guitar", "violin", "drums", "cello", "flute"):
        yield Pair(f"I play the {instrument}.", f"I don't play the {instrument}.", "contradiction")
    for city in _CITIES:
        yield Pair(f"I live in {city}.", f"I don't live in {city} any more.", "contradiction")


def _tensions() -> Iterator[Pair]:
    for allergen, foods in _ALLERGENS:
        for food in foods:
            yield Pair(f"I'm allergic to {allergen}.", f"I like {food}.", "tension")
            yield Pair(f"I love {food}.", f"I was told that I'm allergic to {allergen}.", "tension")
            yield Pair(f"I have a severe allergy to {allergen}.", f"I'm going to order {food}.", "tension")
            yield Pair(f"I must not eat {allergen}.", f"I had {food} for lunch.", "tension")
        yield Pair(f"I'm allergic to {allergen}.", f"I'm not allergic to {allergen}.", "tension")
    for diet, dishes in _DIETS:
        for food in dishes:
            yield Pair(f"I'm {diet}.", f"I love {food}.", "tension")
            yield Pair(f"I eat {food} every week.", f"I'm {diet}.", "tension")
    for condition, sweets in _CONDITIONS:
        for food in sweets:
            yield Pair(f"I have {condition}.", f"I eat {food} every day.", "tension")
    for allergen, dishes_zh in _ALLERGENS_ZH:
        for food in dishes_zh:
            yield Pair(f"我对{allergen}过敏。", f"我喜欢{food}。", "tension")
            yield Pair(f"我对{allergen}严重过敏。", f"I love {_ENGLISH.get(food, food)}.", "tension")
    for food in ("steak", "bacon", "ham"):
        yield Pair("I don't eat meat.", f"I eat {food} for breakfast.", "tension")
    for pet in ("dog", "cat", "horse"):
        yield Pair(f"I'm allergic to {pet}s.", f"I got a {pet}.", "tension")
    yield Pair("I take warfarin.", "I take aspirin.", "tension")
    yield Pair("I'm afraid of heights.", "I love bungee jumping.", "tension")


def _compatible() -> Iterator[Pair]:
    for old, new in _two(_LIKES):
        yield Pair(f"I like {old}.", f"I like {new}.", "compatible")
        yield Pair(f"I like {old}.", f"I don't like {new}.", "compatible")
    for old, new in _two(_LANGUAGES):
        yield Pair(f"I speak {old}.", f"I speak {new}.", "compatible")
    for city, firm in zip(_CITIES, _FIRMS * 2, strict=False):
        yield Pair(f"I live in {city}.", f"I work at {firm}.", "compatible")
    for allergen, _ in _ALLERGENS:
        for food in _SAFE:
            yield Pair(f"I'm allergic to {allergen}.", f"I like {food}.", "compatible")


def _hard() -> Iterator[Pair]:
    for person in _PEOPLE:
        for thing in _LIKES:
            yield Pair(f"I love {thing}.", f"{person} hates {thing}.", "compatible", True)
        for allergen, foods in _ALLERGENS:
            yield Pair(f"{person} is allergic to {allergen}.", f"I love {foods[0]}.", "compatible", True)
    for old, new in _two(_CITIES):
        yield Pair(f"I live in {old}.", f"I used to live in {new}.", "compatible", True)
        yield Pair(f"I lived in {old} from 2010 to 2014.", f"I lived in {new} from 2015 to 2018.", "compatible", True)
        yield Pair(f"I live in {old}.", f"I might move to {new}.", "compatible", True)
        yield Pair(f"I live in {old}.", f"If I lived in {new} I would be happy.", "compatible", True)
    for old, new in _two(_PETS):
        yield Pair(f"I have a {old}.", f"I have a {new}.", "compatible", True)
    for old, new in _two(_DRUGS):
        yield Pair(f"I take 10 mg of {old}.", f"I take 20 mg of {new}.", "compatible", True)
    for tool in _TOOLS:
        yield Pair(f"Project Apollo uses {tool}.", f"Project Zephyr doesn't use {tool}.", "compatible", True)
        yield Pair(f"I use {tool}.", f"Do I use {tool}?", "compatible", True)
    for drink in ("coffee", "tea", "beer", "wine"):
        yield Pair(f"I drink {drink}.", f"I don't drink {drink} after 6 pm.", "compatible", True)
        yield Pair(f"I don't drink {drink}.", f"My brother drinks {drink}.", "compatible", True)
    yield Pair("I'm allergic to caffeine.", "I drink decaf.", "compatible", True)
    yield Pair("I'm lactose intolerant.", "I drink lactose-free milk.", "compatible", True)
    yield Pair("I'm allergic to caffeine.", "I bought a coffee table.", "compatible", True)


_ENGLISH = {
    "花生酱": "peanut butter", "花生": "peanuts", "虾": "shrimp", "螃蟹": "crab", "龙虾": "lobster", "咖啡": "coffee",
    "拿铁": "latte", "绿茶": "green tea", "冰淇淋": "ice cream", "奶酪": "cheese",
}  # fmt: skip


def _two(values: tuple[str, ...] | tuple[int, ...]) -> Iterator[tuple[object, object]]:
    """Each value with the one after it, and with the one after that."""
    for step in (1, 2):
        for i, value in enumerate(values):
            yield value, values[(i + step) % len(values)]
