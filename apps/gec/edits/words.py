"""Closed word classes and irregular forms of English, for naming errors.

Knows lists, nothing else. Written for this project; only classes that are closed (or nearly) are listed,
because a list of nouns would never end.
"""

from __future__ import annotations


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


DETERMINERS = _set(
    "a an the this that these those my your his her its our their some any no every each either neither another "
    "much many few little several all both enough such what which whose"
)
PREPOSITIONS = _set(
    "about above across after against along among amongst around as at before behind below beneath beside besides "
    "between beyond by despite down during except for from in inside into like near of off on onto opposite out "
    "outside over past per since than through throughout till to toward towards under underneath until up upon via "
    "with within without"
)
PRONOUNS = _set(
    "i me mine myself you yours yourself yourselves he him himself she hers herself it itself we us ours ourselves "
    "they them theirs themselves who whom whoever one oneself someone somebody something anyone anybody anything "
    "everyone everybody everything nobody nothing none"
)
SUBJECTS = _set("i you he she it we they who which that there this these those someone everyone it's")
POSSESSIVES = _set("my your his her its our their")
CONJUNCTIONS = _set(
    "and or but nor so yet because although though while whereas if unless when whenever where wherever whether "
    "however therefore"
)
MODALS = _set(
    "can could may might must shall should will would cannot can't couldn't mustn't shouldn't won't wouldn't "
    "'ll 'd"
)
BE = _set("be am is are was were been being isn't aren't wasn't weren't ain't")
HAVE = _set("have has had having haven't hasn't hadn't")
DO = _set("do does did done doing don't doesn't didn't")
AUXILIARIES = BE | HAVE | DO | MODALS
NEGATIONS = _set("not n't never")
PARTICLES = _set("up down off out on in over away back")

# Forms of one auxiliary that differ in person or number alone.
AGREEMENT_SETS = (
    _set("am is are"),
    _set("was were"),
    _set("have has"),
    _set("do does"),
    _set("isn't aren't ain't"),
    _set("wasn't weren't"),
    _set("haven't hasn't"),
    _set("don't doesn't"),
)

# base past participle
_IRREGULAR_VERBS = """
arise arose arisen|awake awoke awoken|bear bore borne|beat beat beaten|become became become|begin began begun
bend bent bent|bet bet bet|bind bound bound|bite bit bitten|bleed bled bled|blow blew blown|break broke broken
bring brought brought|build built built|burn burnt burnt|burst burst burst|buy bought bought|catch caught caught
choose chose chosen|come came come|cost cost cost|cut cut cut|deal dealt dealt|dig dug dug|draw drew drawn
dream dreamt dreamt|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed fed|feel felt felt
fight fought fought|find found found|fly flew flown|forbid forbade forbidden|forget forgot forgotten
forgive forgave forgiven|freeze froze frozen|get got got|give gave given|go went gone|grow grew grown
hang hung hung|hear heard heard|hide hid hidden|hit hit hit|hold held held|hurt hurt hurt|keep kept kept
know knew known|lay laid laid|lead led led|learn learnt learnt|leave left left|lend lent lent|let let let
lie lay lain|light lit lit|lose lost lost|make made made|mean meant meant|meet met met|pay paid paid|put put put
quit quit quit|read read read|ride rode ridden|ring rang rung|rise rose risen|run ran run|say said said
see saw seen|seek sought sought|sell sold sold|send sent sent|set set set|shake shook shaken|shine shone shone
shoot shot shot|show showed shown|shut shut shut|sing sang sung|sink sank sunk|sit sat sat|sleep slept slept
slide slid slid|speak spoke spoken|spend spent spent|spread spread spread|stand stood stood|steal stole stolen
stick stuck stuck|strike struck struck|swear swore sworn|sweep swept swept|swim swam swum|swing swung swung
take took taken|teach taught taught|tear tore torn|tell told told|think thought thought|throw threw thrown
understand understood understood|wake woke woken|wear wore worn|win won won|withdraw withdrew withdrawn
write wrote written
"""
_IRREGULAR_NOUNS = """
child children|man men|woman women|person people|foot feet|tooth teeth|mouse mice|goose geese|life lives|wife wives
knife knives|leaf leaves|half halves|shelf shelves|thief thieves|wolf wolves|loaf loaves|phenomenon phenomena
criterion criteria|analysis analyses|crisis crises|hypothesis hypotheses|medium media|datum data
"""


def _table(rows: str) -> list[list[str]]:
    return [row.split() for row in rows.replace("\n", "|").split("|") if row.strip()]


# form -> (lemma, kinds of form): base, past, part
VERB_FORMS: dict[str, tuple[str, frozenset[str]]] = {}
for _base, _past, _part in _table(_IRREGULAR_VERBS):
    for _form, _kind in ((_base, "base"), (_past, "past"), (_part, "part")):
        _old = VERB_FORMS.get(_form)
        if _old is None or _old[0] == _base:
            VERB_FORMS[_form] = (_base, (_old[1] if _old else frozenset()) | {_kind})
NOUN_PLURALS: dict[str, str] = dict(_table(_IRREGULAR_NOUNS))
NOUN_SINGULARS: dict[str, str] = {p: s for s, p in NOUN_PLURALS.items()}

# Verbs that are seldom nouns: they decide "like -> likes" where the neighbours do not.
COMMON_VERBS = frozenset(VERB_FORMS) - _set("cut cost dream drink fight show set run ring") | (
    _set(
        "like want need love hate live believe seem appear happen help try ask use agree allow enjoy prefer include "
        "require provide consider decide expect explain follow improve increase depend belong exist contain receive "
        "remember suggest understand hope add become bring arrive"
    )
)

# Words that sound or look alike: a change inside one of them is a confusion, not a misspelling.
CONFUSED = (
    _set("their there they're"),
    _set("your you're"),
    _set("its it's"),
    _set("whose who's"),
    _set("to too two"),
    _set("than then"),
    _set("loose lose"),
    _set("affect effect"),
    _set("accept except"),
    _set("advice advise"),
    _set("quite quiet quit"),
    _set("weather whether"),
    _set("passed past"),
    _set("form from"),
    _set("where were we're"),
    _set("principal principle"),
    _set("desert dessert"),
    _set("personal personnel"),
    _set("stationary stationery"),
    _set("complement compliment"),
    _set("ensure insure assure"),
    _set("through thorough threw though thought"),
    _set("council counsel"),
    _set("conscious conscience"),
    _set("formally formerly"),
    _set("hear here"),
    _set("write right"),
    _set("exited excited"),
    _set("loosing losing"),
    _set("waist waste"),
    _set("bare bear"),
    _set("peace piece"),
    _set("brake break"),
    _set("precede proceed"),
    _set("moral morale"),
    _set("perspective prospective"),
    _set("eminent imminent"),
    _set("elicit illicit"),
    _set("emigrate immigrate"),
    _set("device devise"),
    _set("breath breathe"),
    _set("lightning lightening"),
    _set("costumer customer"),
)
