"""The closed word classes of English that the reading of a clause leans on."""

from __future__ import annotations

ADVERBS = frozenset((
    "really", "very", "severely", "deeply", "extremely", "highly", "mildly", "slightly", "still", "always",
    "usually", "often", "sometimes", "currently", "now", "already", "just", "absolutely", "actually", "definitely",
    "also", "too", "certainly", "truly", "simply", "generally", "normally", "typically", "mostly", "frequently",
    "occasionally", "constantly", "regularly", "personally", "only", "even", "ever", "finally", "recently",
    "totally", "completely", "strictly", "seriously", "genuinely", "particularly", "especially", "quite", "pretty",
    "rather", "so", "terribly", "badly", "kind", "sort", "both", "kinda", "basically", "honestly", "clearly",
    "obviously", "sadly", "luckily", "fortunately", "unfortunately", "probably", "largely", "mainly", "well",
    "much", "dearly", "passionately", "violently", "strongly", "newly", "proudly", "happily", "long", "dangerously",
    "fatally", "secretly", "officially", "again", "instead",
))  # fmt: skip
DENIALS = frozenset((
    "not", "never", "hardly", "rarely", "seldom", "barely", "scarcely", "nor", "neither",
))  # fmt: skip
RELATIONS = frozenset((
    "wife", "husband", "partner", "girlfriend", "boyfriend", "spouse", "fiancé", "fiancee", "friend", "friends",
    "buddy", "mate", "colleague", "coworker", "co-worker", "boss", "manager", "brother", "sister", "mother",
    "father", "mum", "mom", "dad", "parents", "son", "daughter", "child", "kid", "kids", "children", "grandmother",
    "grandfather", "grandma", "grandpa", "aunt", "uncle", "cousin", "nephew", "niece", "neighbour", "neighbor",
    "roommate", "flatmate", "teacher", "doctor", "dentist", "client", "customer", "landlord", "ex", "twin",
    "stepson", "stepdaughter", "in-laws", "family", "team", "teammate", "student", "students", "baby",
))  # fmt: skip
OWNED = frozenset((
    "girlfriend", "boyfriend", "partner", "fiancé", "fiancée", "son", "daughter", "child",
    "kid", "kids", "children", "wife", "husband", "brother", "sister", "dog", "cat", "car", "motorbike", "horse",
))  # fmt: skip
INGEST = frozenset((
    "eat", "drink", "have", "take", "consume", "touch", "use", "smoke", "be", "ingest", "try",
))  # fmt: skip
GENERIC = frozenset((
    "it", "this", "that", "there", "people", "everyone", "everybody", "someone", "somebody", "nobody", "they",
    "these", "those", "one", "you", "who", "what", "which", "some", "many", "most", "all", "nothing", "something",
    "here",
))  # fmt: skip
