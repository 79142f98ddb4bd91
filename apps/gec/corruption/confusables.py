"""Words taken for one another, apostrophes lost or gained, and pronouns in the wrong case."""

from __future__ import annotations

from random import Random

from .lexicon import Lexicon
from .sentence import Sentence
from .tables import word_set

_SETS = (
    "its it's|their there they're|your you're|then than|affect effect|lose loose|to too two|whose who's|"
    "were where we're|weather whether|accept except|advice advise|principal principle|of off|quite quiet|"
    "passed past|through threw though|thought though through|hear here|now know no|new knew|buy by bye|"
    "write right|which witch|our are hour|brake break|peace piece|plain plane|sea see|son sun|wait weight|"
    "week weak|wood would|one won|for four|choose chose|lead led|breath breathe|desert dessert|personal "
    "personnel|site sight cite|stationary stationery|complement compliment|device devise|practice practise|"
    "license licence|ensure insure assure|farther further|beside besides|sometime sometimes|everyday "
    "every&day|maybe may&be|all&ready already|all&together altogether|all&right alright|any&way anyway|"
    "into in&to|onto on&to|apart a&part|allot a&lot alot|could&have could&of|should&have should&of|"
    "would&have would&of|used&to use&to|supposed&to suppose&to|it&is its|let's lets|that's thats|loss lost "
    "lose|live life leave|lives lifes leaves|feel fell fill|well good|good well|fun funny|say tell|tell "
    "say|make do|do make|learn teach|teach learn|lend borrow|look see watch|bring take|borrow lend|rise "
    "raise|lay lie|sit set|economic economical|historic historical|interested interesting|bored boring|"
    "excited exciting|confused confusing|tired tiring|surprised surprising|hard hardly|late lately|near "
    "nearly|most mostly almost|especially specially|specially special|first firstly|last lastly|very "
    "much&very so|so very|also too as&well|still yet|already yet|ago before|much very many|more most|"
    "better best|worse worst bad|big large great|small little|wide large broad|high tall|fast quick "
    "quickly|win gain earn|gain earn get|get become|become get|job work|work job|travel trip|trip travel|"
    "house home|home house|chance change|change chance|thing think|think thing things|this thus|form from|"
    "from form|costumer customer|quit quite|angel angle|bare bear|board bored|cloths clothes|coarse course|"
    "council counsel|dairy diary|descent decent|die dye|fair fare|hole whole|incite insight|knight night|"
    "later latter|mail male|meat meet|moral morale|pair pare|poor pour|pray prey|rain reign|root route|"
    "role roll|sale sell|scene seen|soul sole|steal steel|tail tale|thorough through|vain vein|waist waste|"
    "wear where|weather wether|adopt adapt|aloud allowed|alter altar|bath bathe|cell sell|conscious "
    "conscience|eminent imminent|emigrate immigrate|every&one everyone|formally formerly|human humane|"
    "lightning lightening|lightning lighting|envelop envelope|precede proceed|perspective prospective|"
    "respectfully respectively|suit suite|than that|that than|as has|has as|is it|it is|an and|and an|he "
    "the|the they|they the|them then|then them|his is|is his|be by|on one|or our|not now|with will|will "
    "well|when went|went when|want what|what want|there the|these this|this these|those these|men man|"
    "women woman|woman women|because cause cuz|people peoples person|percent percents|nowadays nowaday "
    "now&days|have of|really real|easily easy|quickly quick|slowly slow|successful success succeed|success "
    "successful succeed|difference different|different difference|important importance|importance "
    "important|confident confidence|independent independence|health healthy|healthy health|safe safety "
    "save|save safe|belief believe|believe belief|prove proof|life live|dead death die|death dead|choice "
    "choose|speech speak|sing song|effective affective|benefit benefits beneficial|able ability|instead&of "
    "instead|because&of because|a&few few|according&to according|due&to due|such&as such&like"
)


def _table() -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for group in _SETS.split("|"):
        items = [item.replace("&", " ") for item in group.split()]
        # The first of a set may become any other; classic homophones go both ways.
        for k, item in enumerate(items):
            others = [other for other in items if other != item]
            if k == 0 or len(items) == 2 or " " not in item:
                table.setdefault(item, []).extend(others)
    return table


_CONFUSED = _table()
_CLASSIC = word_set(
    "its it's their there they're your you're then than affect effect lose loose to too whose who's were "
    "where "
    "weather whether accept except advice advise principal principle of off quite quiet passed past "
    "let's that's"
)
_PRONOUNS = {
    "i": "me", "me": "I", "he": "him", "him": "he", "she": "her", "they": "them", "them": "they", "we": "us",
    "us": "we", "who": "whom", "whom": "who", "myself": "me", "themselves": "themself", "himself": "hisself",
    "it": "he", "you": "your", "mine": "my", "yours": "your", "theirs": "their",
}  # fmt: skip
_BARE = {
    "don't", "doesn't", "didn't", "can't", "won't", "isn't", "aren't", "wasn't", "weren't", "couldn't",
    "wouldn't", "shouldn't", "haven't", "hasn't", "hadn't", "i'm", "i've", "i'll", "i'd",
    "you're", "you've", "you'll",
    "they're", "we're", "we've", "it's", "that's", "there's", "what's", "let's", "he's", "she's",
    "who's", "they've",
    "they'll",
}  # fmt: skip


def confused_word(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A word taken for one that sounds, looks or means alike."""
    places: list[tuple[int, str, bool]] = []
    weights: list[float] = []
    for i in range(len(s)):
        if not s.is_word(i) or s.is_name(i):
            continue
        low = s.lower(i)
        pair = f"{low} {s.lower(i + 1)}" if s.is_word(i + 1) else ""
        if pair in _CONFUSED:
            places.append((i, rng.choice(_CONFUSED[pair]), True))
            weights.append(4.0)
        if low in _CONFUSED:
            places.append((i, rng.choice(_CONFUSED[low]), False))
            weights.append(3.0 if low in _CLASSIC else 0.5 if len(low) < 4 else 1.5)
    if not places:
        return False
    i, new, both = rng.choices(places, weights)[0]
    if both:
        s.put_raw(i + 1, "")
    return s.put(i, new)


def pronoun(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """A pronoun in the wrong case, or a missing one."""
    places = [i for i in range(len(s)) if s.is_word(i) and s.lower(i) in _PRONOUNS]
    if not places:
        return False
    i = rng.choice(places)
    low = s.lower(i)
    if low in ("it", "they", "we", "them") and rng.random() < 0.35:
        return s.put(i, "")
    if low in ("it", "you", "i") and rng.random() < 0.4:
        return False
    new = _PRONOUNS[low]
    return s.put_raw(
        i, "I" if new == "I" else new.capitalize() if s.words[i][0].isupper() and low != "i" else new
    )


def apostrophe(s: Sentence, rng: Random, lexicon: Lexicon) -> bool:
    """An apostrophe lost (dont, the dogs tail), or one too many (the dog's bark)."""
    places: list[tuple[int, str]] = []
    for i in range(len(s)):
        if not s.is_word(i):
            continue
        word = s.words[i]
        low = word.lower().replace("’", "'")
        if low in _BARE:
            places += [(i, word.replace("'", "").replace("’", ""))] * 3
        elif low.endswith("'s"):
            places += [(i, word[:-2] + "s")] * 3 + [(i, word[:-2])] + [(i, word[:-2] + "s'")]
        elif low in lexicon.singular and low.endswith("s") and not s.is_name(i):
            places.append((i, word[:-1] + "'s"))
    if not places:
        return False
    i, new = rng.choice(places)
    return s.put_raw(i, new)
