"""What the copying drafters promise: they find every place, survive edits, recall them, and grow valid trees."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.drafters.best_first import Level, learn
from core.drafters.calibration import Calibration
from core.drafters.copy import Copy
from core.drafters.correction_memory import MAX_EDIT_TOKENS, CorrectionMemory
from core.drafters.llma import Llma
from core.drafters.prompt_lookup import PromptLookup
from core.drafters.rewriting import DELETION_WINDOW, Rewriting
from core.drafters.shared_answers import SharedAnswers
from core.drafters.suffix_trie import SuffixTrie
from core.drafters.vocabulary import Vocabulary
from core.targets.base import PassOutput
from core.types import DraftTree, Request, SamplingParams, Sequence, Verdict
from core.verification import walk

EOS = 2
NO_OUTPUT = PassOutput(torch.empty(0))
TOKENS = st.integers(3, 9)


# -- the pointer --------------------------------------------------------------------------------------


def after(source: Seq[int], written: Seq[int], vocabulary: Vocabulary | None = None) -> list[int]:
    """Where the copy may go on."""
    rewriting = Rewriting(source, CorrectionMemory(), vocabulary)
    places = rewriting.places
    for token in written:
        places = rewriting.advance(places, token)
    return [place.position for place in places]


def test_copying_moves_the_pointer_along() -> None:
    source = [10, 11, 12, 13]
    for length in range(1, 5):
        assert after(source, source[:length]) == [length]


def test_a_replaced_token_leaves_the_place_behind_it() -> None:
    assert 2 in after([10, 11, 12, 13, 14], [10, 99])
    assert after([10, 11, 12, 13, 14], [10, 99, 12]) == [3]


def test_an_inserted_token_leaves_the_place_in_front_of_it() -> None:
    assert 1 in after([10, 11, 12, 13], [10, 99])
    assert after([10, 11, 12, 13], [10, 99, 11]) == [2]


def test_deleted_tokens_are_skipped() -> None:
    source = list(range(10, 40))
    for gap in range(1, DELETION_WINDOW + 1):
        written = [10, 11, source[2 + gap]]
        assert after(source, written)[0] == 3 + gap
        assert after(source, [*written, source[3 + gap]]) == [4 + gap]


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """A source without repeats, what was written up to one token behind one edit, and where the copy goes on."""
    source = list(range(100, 100 + draw(st.integers(6, 20))))
    start = draw(st.integers(0, len(source) - 4))
    removed, added = draw(st.sampled_from([(1, 1), (0, 1), (1, 0), (2, 0), (2, 1)]))
    new = [500 + i for i in range(added)]
    return source, [*source[:start], *new, source[start + removed]], start + removed + 1


@given(edit=edits())
def test_one_token_behind_an_edit_the_pointer_is_right_again(edit: tuple[list[int], list[int], int]) -> None:
    source, written, goes_on = edit
    assert after(source, written)[0] == goes_on


@given(source=st.lists(TOKENS, max_size=12), written=st.lists(TOKENS, max_size=20))
def test_the_places_stay_inside_the_source(source: list[int], written: list[int]) -> None:
    for length in range(len(written) + 1):
        positions = after(source, written[:length])
        assert all(0 <= position <= len(source) for position in positions)
        assert len(set(positions)) == len(positions)


#: "The dog dev|elo|pped well." and two words that are not in it.
PIECES = [
    "<pad>",
    "<s>",
    "</s>",
    "The",
    "\u0120dog",
    "\u0120dev",
    "elo",
    "pped",
    "\u0120well",
    ".",
    "the",
    "\u0120develop",
]
WORDS = Vocabulary(PIECES)


def test_behind_a_replaced_word_the_copy_goes_on_at_the_next_word() -> None:
    source = [3, 4, 5, 6, 7, 8, 9]
    places = after(source, [3, 4, 11], WORDS)
    assert places[0] == 5
    assert after(source, [3, 4, 11, 8], WORDS) == [6]


def test_a_vocabulary_knows_where_words_begin() -> None:
    starts = [WORDS.starts_word(before, token) for before, token in [(3, 4), (4, 5), (5, 6), (6, 7), (8, 9)]]
    assert starts == [True, True, False, False, True]
    assert WORDS.starts_word(9, 500), "an unknown piece is a word of its own"


def test_a_vocabulary_finds_other_cases_and_near_spellings() -> None:
    assert WORDS.recased("the") == [3]
    assert WORDS.recased("The") == [10]
    assert WORDS.alike("\u0120develo") == [11]
    assert WORDS.alike("\u0120devleop") == [11]
    assert WORDS.alike("\u0120develop") == []
    assert WORDS.alike("develo") == [], "without a leading space it is another word"


@given(word=st.text("abcd", min_size=4, max_size=8), data=st.data())
def test_one_wrong_letter_is_always_found(word: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(word) - 1))
    kind = data.draw(st.sampled_from(["drop", "double", "other", "swap"]))
    wrong = {
        "drop": word[:place] + word[place + 1 :],
        "double": word[:place] + word[place] + word[place:],
        "other": word[:place] + "e" + word[place + 1 :],
        "swap": word[:place] + word[place : place + 2][::-1] + word[place + 2 :],
    }[kind]
    assume(wrong != word and len(wrong) >= 4)
    assert Vocabulary(["x", word]).alike(wrong) == [1]


# -- the trie -----------------------------------------------------------------------------------------


@given(
    texts=st.lists(st.lists(st.lists(TOKENS, max_size=8), max_size=4), min_size=1, max_size=3),
    suffix=st.lists(TOKENS, min_size=1, max_size=6),
)
@settings(deadline=None)
def test_the_trie_counts_every_follower_of_every_suffix(
    texts: list[list[list[int]]], suffix: list[int]
) -> None:
    trie = SuffixTrie(max_length=4)
    for parts in texts:
        trie.add([])
        for part in parts:
            trie.extend(part)
            for context in trie.contexts(suffix):
                context.followers(trie.text)
    whole = [[token for part in parts for token in part] for parts in texts]
    found = trie.contexts(suffix)
    for length in range(1, min(4, len(suffix)) + 1):
        expected: dict[int, int] = {}
        for text in whole:
            for end in range(length, len(text)):
                if text[end - length : end] == suffix[-length:]:
                    expected[text[end]] = expected.get(text[end], 0) + 1
        counted = found[length - 1].followers(trie.text) if length <= len(found) else {}
        assert counted == expected
    assert [context.length for context in found] == list(range(1, len(found) + 1))


def test_earlier_answers_are_bounded_and_the_oldest_leave_first() -> None:
    answers = SharedAnswers(max_tokens=40)
    for i in range(50):
        answers.add([5, 100 + i, 6, 7])
        assert len(answers) <= 40
    (context,) = answers.trie.contexts([5])[:1]
    followers = context.followers(answers.trie.text)
    assert 149 in followers
    assert 100 not in followers
    answers.add(list(range(1000)))
    assert len(answers) == 40
    with pytest.raises(ValueError, match="max_tokens=0"):
        SharedAnswers(0)


def test_what_was_answered_before_is_drafted_again_where_answers_are_kept() -> None:
    kept, forgetful = (Copy(is_aligned=False, answers=a) for a in (SharedAnswers(), None))
    said = list(range(300, 340))
    for copy, is_fewer in ((kept, True), (forgetful, False)):
        first = passes(copy, row_of([7]), said)
        again = passes(copy, row_of([7], id=1), said)
        assert (again < first // 2) is is_fewer


# -- the memory ---------------------------------------------------------------------------------------


@given(
    before=st.integers(1, 5),
    removed=st.integers(0, MAX_EDIT_TOKENS),
    added=st.integers(0, MAX_EDIT_TOKENS),
    behind=st.integers(1, 5),
)
def test_the_memory_recalls_an_edit_at_its_place(before: int, removed: int, added: int, behind: int) -> None:
    assume(removed or added)
    source = list(range(100, 100 + before + removed + behind))
    new = list(range(500, 500 + added))
    memory = CorrectionMemory()
    memory.learn(source, [*source[:before], *new, *source[before + removed :]])
    elsewhere = [7, 8, *source[before - 1 : before + removed + 1], 9]
    assert memory.recall(elsewhere, 3) == (tuple(new), 3 + removed)
    for position in (0, 1, 2):
        assert memory.recall(elsewhere, position) is None


def test_the_last_edit_of_the_same_tokens_counts() -> None:
    memory = CorrectionMemory()
    memory.learn([1, 5, 9], [1, 6, 9])
    memory.learn([1, 5, 9], [1, 7, 9])
    assert memory.recall([1, 5, 9], 1) == ((7,), 2)


def test_an_edit_too_long_to_come_back_is_not_kept() -> None:
    memory = CorrectionMemory()
    memory.learn([1, 2], [1, *range(50, 50 + MAX_EDIT_TOKENS + 1), 2])
    assert len(memory) == 0


def test_the_memory_is_bounded_and_forgets_the_oldest() -> None:
    memory = CorrectionMemory(max_entries=10)
    for i in range(100):
        memory.learn([1, 1000 + i, 2], [1, 2000 + i, 2])
        assert len(memory) <= 10
    assert memory.recall([1, 1089, 2], 1) is None
    assert memory.recall([1, 1090, 2], 1) == ((2090,), 2)


# -- calibration --------------------------------------------------------------------------------------


def test_an_estimate_starts_at_the_prior_and_ends_at_the_frequency() -> None:
    calibration = Calibration(lambda key: 0.9 if key == "often" else 0.1)
    assert (calibration.estimate("often"), calibration.estimate("seldom")) == (0.9, 0.1)
    for i in range(10_000):
        calibration.record("often", i % 4 == 0)
    assert calibration.estimate("often") == pytest.approx(0.25, abs=0.02)
    assert calibration.estimate("seldom") == 0.1


def test_an_estimate_follows_a_change_of_the_text() -> None:
    calibration = Calibration(lambda key: 0.5, horizon=400)
    for _ in range(5000):
        calibration.record("key", accepted=True)
    for _ in range(1000):
        calibration.record("key", accepted=False)
    assert calibration.estimate("key") < 0.3


@given(st.lists(st.booleans(), max_size=60))
def test_an_estimate_stays_a_probability(outcomes: list[bool]) -> None:
    calibration = Calibration(lambda key: 0.97, horizon=20)
    for accepted in outcomes:
        calibration.record("key", accepted)
        assert 0 < calibration.estimate("key") < 1


# -- the trees ----------------------------------------------------------------------------------------


def row_of(
    prompt: list[int], *, sources: Seq[list[int]] = (), prediction: list[int] | None = None, id: int = 0
) -> Sequence:
    return Sequence(
        id=id,
        request=Request(prompt),
        params=SamplingParams(),
        prompt_ids=prompt,
        tokens=[1],
        source_ids=[list(source) for source in sources],
        prediction_ids=prediction,
        max_tokens=1000,
    )


def passes(copy: Copy, row: Sequence, output: Seq[int], limit: int = 64) -> int:
    """How many passes the loop would take to write `output`, by the rule of the loop and without a model."""
    copy.begin(row)
    count = 0
    while len(row.output_ids) < len(output):
        (tree,) = copy.propose([row], [limit])
        tree.check()
        assert len(tree) <= limit
        assert list(tree.scores) == sorted(tree.scores, reverse=True)
        assert all(0 < score <= 1 for score in tree.scores)
        edges = list(zip(tree.parents, tree.tokens, strict=True))
        assert len(set(edges)) == len(edges), "two siblings carry the same token"
        depths = tree.depths()
        rest = [*output[len(row.output_ids) :], *[-1] * (2 + len(tree))]
        verdict = walk(tree, [rest[0], *(rest[depth] for depth in depths)])
        written = [*(tree.tokens[node] for node in verdict.path), verdict.bonus]
        row.tokens += written[: len(output) - len(row.output_ids)]
        copy.observe([row], [tree], [verdict], NO_OUTPUT)
        count += 1
    row.finish_reason = "stop"
    copy.end(row)
    return count


SOURCE = list(range(100, 130))


def corrected(source: Seq[int]) -> list[int]:
    """A replacement, an insertion and a deletion, well apart."""
    out = list(source)
    out[4] = 904
    out.insert(12, 912)
    del out[21]
    return [*out, EOS]


def aligned() -> Copy:
    return Copy(is_aligned=True, eos_token_ids=frozenset({EOS}))


def test_a_text_that_is_copied_whole_costs_one_pass() -> None:
    assert passes(aligned(), row_of(SOURCE), [*SOURCE, EOS]) == 1


def test_each_edit_costs_one_pass_once_edits_are_known_to_happen() -> None:
    copy = aligned()
    taken = []
    for i in range(5):
        source = list(range(1000 + 100 * i, 1030 + 100 * i))
        taken.append(passes(copy, row_of(source, id=i), corrected(source)))
    assert taken[0] <= 1 + 3 + 1
    assert taken[2:] == [1 + 3] * 3


def misspelt(i: int) -> tuple[list[int], list[int]]:
    """A text of its own with the same three mistakes as all others, and its correction."""
    fresh = iter(range(1000 + 100 * i, 1100 + 100 * i))
    own = [[next(fresh) for _ in range(length)] for length in (6, 8, 7, 5)]
    source = [*own[0], 10, 11, 12, *own[1], 20, 21, *own[2], 30, 31, 32, *own[3]]
    return source, [*own[0], 10, 911, 12, *own[1], 20, 920, 21, *own[2], 30, 32, *own[3], EOS]


def test_repeated_edits_soon_cost_no_pass_at_all() -> None:
    copy = aligned()
    taken = []
    for i in range(8):
        source, output = misspelt(i)
        taken.append(passes(copy, row_of(source, id=i), output, limit=127))
    assert taken[0] >= 1 + 3
    assert taken[1] <= 3, taken
    assert taken[5:] == [1, 1, 1]


def test_a_prediction_and_a_source_are_copied_from_too() -> None:
    copy = Copy(is_aligned=False, eos_token_ids=frozenset({EOS}))
    assert passes(copy, row_of([7], prediction=SOURCE), [*SOURCE, EOS]) == 1
    quoted = [50, 51, *SOURCE[5:25], 52, EOS]
    assert passes(copy, row_of([7], sources=[SOURCE]), quoted) <= 6


@given(
    prompt=st.lists(TOKENS, min_size=1, max_size=20),
    source=st.lists(TOKENS, max_size=20),
    prediction=st.one_of(st.none(), st.lists(TOKENS, max_size=20)),
    outputs=st.lists(st.lists(TOKENS, max_size=20), min_size=1, max_size=4),
    limit=st.integers(1, 20),
    is_aligned=st.booleans(),
)
@settings(deadline=None, max_examples=150)
def test_trees_are_valid_and_best_first_whatever_is_written(
    prompt: list[int],
    source: list[int],
    prediction: list[int] | None,
    outputs: list[list[int]],
    limit: int,
    is_aligned: bool,
) -> None:
    copy = Copy(is_aligned=is_aligned, eos_token_ids=frozenset({EOS}))
    for id, output in enumerate(outputs):
        row = row_of(prompt, sources=[source], prediction=prediction, id=id)
        count = passes(copy, row, [*output, EOS], limit)
        assert count <= len(output) + 1
    assert not copy._rows


def test_a_row_without_room_gets_an_empty_tree() -> None:
    copy = aligned()
    row = row_of(SOURCE)
    copy.begin(row)
    assert len(copy.propose([row], [0])[0]) == 0
    assert len(copy.propose([row], [1])[0]) == 1


def test_only_levels_that_were_asked_in_vain_count_as_misses() -> None:
    calibration = Calibration(lambda key: 0.5)
    first, second, third = (
        Level((name,), ((token, 1.0, None),)) for name, token in (("a", 5), ("b", 6), ("c", 7))
    )
    tree = DraftTree([5, 6, 7], [-1, -1, -1], origins=[[first, second, third]] * 3)
    learn(calibration, tree, Verdict((1,), 9))
    assert calibration.estimate(("a",)) < 0.5 < calibration.estimate(("b",))
    assert calibration.estimate(("c",)) == 0.5


# -- llma ---------------------------------------------------------------------------------------------


@given(
    sources=st.lists(st.lists(TOKENS, max_size=15), min_size=1, max_size=3),
    written=st.lists(TOKENS, max_size=10),
    limit=st.integers(0, 25),
)
@settings(deadline=None)
def test_llma_copies_behind_the_first_longest_match_in_the_references(
    sources: list[list[int]], written: list[int], limit: int
) -> None:
    row = row_of([3, 4], sources=sources)
    llma = Llma()
    llma.begin(row)
    row.tokens += written
    (tree,) = llma.propose([row], [limit])
    expected: list[int] = []
    for size in range(min(5, len(written)), 0, -1):
        ends = [
            (text, end)
            for text in sources
            for end in range(size, len(text) + 1)
            if text[end - size : end] == written[-size:]
        ]
        if ends:
            expected = ends[0][0][ends[0][1] :][: min(limit, 19)]
            break
    assert list(tree.tokens) == expected
    assert list(tree.parents) == list(range(-1, len(expected) - 1))


# -- prompt lookup ------------------------------------------------------------------------------------


@given(tokens=st.lists(TOKENS, min_size=1, max_size=30), limit=st.integers(0, 15))
def test_prompt_lookup_copies_what_followed_the_first_occurrence(tokens: list[int], limit: int) -> None:
    row = row_of([3])
    row.tokens = tokens
    (tree,) = PromptLookup(max_ngram=2, num_tokens=10).propose([row], [limit])
    expected: list[int] = []
    for size in (2, 1):
        starts = [i for i in range(len(tokens) - size) if tokens[i : i + size] == tokens[-size:]]
        if starts and len(tokens) > size:
            expected = tokens[starts[0] + size :][: min(limit, 10)]
            break
    assert list(tree.tokens) == expected
    assert list(tree.parents) == list(range(-1, len(expected) - 1))
    assert isinstance(tree, DraftTree)
