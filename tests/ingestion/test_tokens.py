"""The tokenizer's kernels against its plain-Python statement, and the rules one by one."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import DATA
from tests.reference.tokens import plain_tokens
from topicstream.base.errors import InputError
from topicstream.ingestion.tokens import scan
from topicstream.ingestion.tokens.normal import normalize_texts
from topicstream.ingestion.tokens.phrases import learn_phrases
from topicstream.ingestion.tokens.recipe import SCIKIT_LEARN_PATTERN, Recipe
from topicstream.ingestion.tokens.stopwords import read_stopwords
from topicstream.ingestion.tokens.tokenizer import Counted, Tokenizer
from topicstream.ingestion.tokens.word_counts import add_totals

PLAIN = Recipe(stopwords=(), stopwords_from="none")


def array_of(*texts: str) -> pa.Array:
    return pa.array(list(texts), pa.large_string())


def counters(counted: Counted) -> list[Counter[str]]:
    types = counted.types.to_pylist()
    assert len(set(types)) == len(types)
    found = []
    for start, stop in zip(counted.indptr[:-1], counted.indptr[1:]):
        words = counted.words[start:stop]
        assert len(set(words.tolist())) == words.size
        assert (counted.counts[start:stop] > 0).all()
        found.append(Counter({types[w]: int(c) for w, c in zip(words, counted.counts[start:stop])}))
    return found


def reference(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words of a text by plain Python."""
    stem = tokenizer._changed if tokenizer.recipe.stem else None
    return plain_tokens(text, tokenizer.recipe, tokenizer._stop, stem, tokenizer._joiner)


def words(text: str, **options) -> list[str]:
    """The words of one text by the kernel, in the order of the plain statement, which it must
    equal.
    """
    tokenizer = Tokenizer(Recipe(**{"stopwords": (), "stopwords_from": "none", **options}))
    plain = reference(tokenizer, text)
    assert counters(tokenizer.count(array_of(text))) == [Counter(plain)]
    return plain


ALPHABET = (
    "abcdefgh ABCDEZz  01789 "
    "\n\t'’-_.,;!?@#\0\u00ad\ufeff\u200c\u200d\u0301\u0308äÄßéÉñΣσςİıДдאبषि가힣"
    "的国語ひカーｱไทยะ่ကខ្មែ〇々😀❤\ufe0f👩🏽💻🇩🇪⚽²½Ⅷ①Ⓐ\u00a0\u3000\u2028ȺⱥK𐐀𐐨𠀀ﬁﬃﾞᄀ\u1161Å™ำ\u0323J\u030cς\U000e0020\U0001faff"
)
TEXT = st.one_of(
    st.text(st.sampled_from(ALPHABET), max_size=60),
    st.text(max_size=40),
    st.text(st.sampled_from("abAB01 _é"), max_size=80),
)
RECIPES = [
    {},
    {"normalize": "none"},
    {"normalize": "nfc", "keep": ("emoji",)},
    {"lowercase": False, "min_length": 1},
    {"min_length": 3, "numbers": True},
    {"keep": ("emoji",), "min_length": 1},
    {"unspaced": "runs", "min_length": 1, "keep": ("emoji",)},
    {"tokenized": True},
    {"tokenized": True, "lowercase": False, "ngrams": 2},
    {"pattern": SCIKIT_LEARN_PATTERN},
    {"pattern": SCIKIT_LEARN_PATTERN, "ngrams": 3},
    {"pattern": r"[a-zé]+"},
    {"pattern": r"\b([a-f])\w*", "ngrams": 2},
    {"ngrams": 2, "min_length": 1},
    {"ngrams": 3, "min_length": 2, "numbers": True},
    {
        "stopwords": ("ab", "Ba", "的国", "a"),
        "stopwords_from": "file",
        "ngrams": 2,
        "min_length": 1,
    },
    {"stopwords": ("ab", "ba", "a"), "stopwords_from": "file", "lowercase": False, "min_length": 1},
    {"phrases": ("a b", "b a", "ab b"), "phrase_threshold": 0.5, "min_length": 1, "ngrams": 2},
    {"stem": "english", "min_length": 1, "ngrams": 2},
]


@pytest.mark.quick(
    "default",
    "ngrams=2,min_length=1",
    "phrases=*",
    "unspaced=*",
    "tokenized=True",
)
@pytest.mark.parametrize(
    "options", RECIPES, ids=lambda o: ",".join(f"{k}={v}" for k, v in o.items()) or "default"
)
def test_kernel_equals_plain_python(options):
    tokenizer = Tokenizer(Recipe(**{"stopwords": (), "stopwords_from": "none", **options}))

    @settings(max_examples=150, deadline=None)
    @given(st.lists(TEXT, max_size=4))
    def check(texts):
        counted = tokenizer.count(array_of(*texts))
        assert counters(counted) == [Counter(reference(tokenizer, text)) for text in texts]
        recipe = tokenizer.recipe
        normal = normalize_texts(array_of(*texts), recipe.normalize, lowercase=recipe.lowercase)
        assert counted.characters == sum(map(len, normal.to_pylist()))
        assert 0 <= counted.discarded <= counted.characters

    check()


def test_words_and_what_parts_them():
    assert words("The dog's state-owned, snake_case H2O; don't!") == [
        "the",
        "dog",
        "state",
        "owned",
        "snake",
        "case",
        "h2o",
        "don",
    ]
    written = words("co\u00adoperate Ｆｕｌｌ naïve cafe\u0301 ΟΔΟΣ", normalize="none")
    assert written == ["cooperate", "ｆｕｌｌ", "naïve", "cafe\u0301", "οδοσ"]
    assert words("می\u200cخواهم हिन्दी 한국어 text") == ["می\u200cخواهم", "हिन्दी", "한국어", "text"]


def test_numbers_need_a_letter_unless_asked_for():
    assert words("p53 covid19 2020 3 1990s ²³") == ["p53", "covid19", "1990s"]
    assert words("p53 2020 3 ²³", numbers=True) == ["p53", "2020", "23"]


def test_length_is_counted_in_letters_without_marks():
    assert words("e\u0301 e\u0301e\u0301 abc ab", min_length=3) == ["abc"]
    assert words("e\u0301 ab", min_length=1) == ["é", "ab"]
    assert words("e\u0301 ab", min_length=2) == ["ab"]


def test_emoji_are_kept_on_request_whole():
    text = "so😀good 👩🏽‍💻 ❤️ 🇩🇪🇫🇷 👍"
    assert words(text) == ["so", "good"]
    assert words(text, keep=("emoji",)) == ["so", "😀", "good", "👩🏽‍💻", "❤️", "🇩🇪", "🇫🇷", "👍"]


def test_scripts_without_spaces_give_overlapping_pairs():
    assert words("我爱北京 NHKニュース 猫", min_length=3) == [
        "我爱",
        "爱北",
        "北京",
        "nhk",
        "ニュ",
        "ュー",
        "ース",
        "猫",
    ]
    assert words("ไทย", min_length=2) == ["ไท", "ทย"]
    assert words("我爱北京", unspaced="runs") == ["我爱北京"]
    counted = Tokenizer(PLAIN).count(array_of("我爱 ab"))
    assert (counted.unspaced, counted.characters, counted.discarded) == (2, 5, 0)


def test_tokenized_text_is_taken_as_it_is():
    assert words("New_York 3.14 -- :)\u3000Ünder", tokenized=True) == [
        "new_york",
        "3.14",
        "--",
        ":)",
        "ünder",
    ]
    assert words("A a", tokenized=True, lowercase=False) == ["A", "a"]


def test_discarded_characters_are_counted():
    counted = Tokenizer(PLAIN).count(array_of("ab, c 12\n", "€uro…"))
    # comma, the short c, the number, the currency sign and the ellipsis
    assert (counted.characters, counted.discarded) == (14, 6)
    assert Tokenizer(PLAIN).count(array_of()).characters == 0


def test_stop_words_go_and_part_ngrams():
    options = {"stopwords": ("of", "the"), "stopwords_from": "file", "ngrams": 3}
    assert words("house of Lords sat down", **options) == [
        "house",
        "lords",
        "sat",
        "lords_sat",
        "down",
        "sat_down",
        "lords_sat_down",
    ]
    assert words("The THE the of Of", stopwords=("the", "of"), lowercase=False) == []
    assert (
        "the" not in reference(Tokenizer(Recipe()), "The house")
        and Recipe().stopwords_from == "english"
    )


def test_phrases_are_joined_from_the_left():
    options = {"phrases": ("new york", "york city"), "phrase_threshold": 0.5}
    assert words("New York City in York City", **options) == ["new_york", "city", "in", "york_city"]
    assert words("new york city", ngrams=2, **options) == ["new_york", "city", "new_york_city"]


def test_ngrams_of_equal_bytes_are_one_word():
    counted = Tokenizer(Recipe(stopwords=(), tokenized=True, ngrams=2)).count(
        array_of("a_b c a b_c")
    )
    assert counters(counted) == [
        Counter({"a_b": 1, "c": 1, "a": 1, "b_c": 1, "a_b_c": 2, "c_a": 1})
    ]


def test_stems_are_merged():
    assert words("running runs run happily", stem="english") == ["run", "run", "run", "happili"]
    with pytest.raises(InputError, match=r"klingon.*available: .*english"):
        Tokenizer(Recipe(stem="klingon"))


def test_scikit_learns_pattern_takes_the_fast_path_with_equal_counts():
    tokenizer = Tokenizer(Recipe(pattern=SCIKIT_LEARN_PATTERN, stopwords=()))
    assert tokenizer._pattern is None

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.text(st.characters(max_codepoint=127), max_size=200), max_size=3))
    def check(texts):
        wanted = [Counter(re.findall(SCIKIT_LEARN_PATTERN, text.lower())) for text in texts]
        assert counters(tokenizer.count(array_of(*texts))) == wanted

    check()


def test_scikit_learns_pattern_on_real_text_against_plain_re():
    source = DATA / "enwiki/docs.jsonl.gz"
    if not source.exists():
        pytest.skip("the corpora are not here")
    with gzip.open(source, "rt", encoding="utf-8") as file:
        texts = [
            json.loads(line)["text"].encode("ascii", "ignore").decode()
            for line in islice(file, 300)
        ]
    tokenizer = Tokenizer(Recipe(pattern=SCIKIT_LEARN_PATTERN, stopwords=()))
    wanted = [Counter(re.findall(SCIKIT_LEARN_PATTERN, text.lower())) for text in texts]
    assert sum(map(len, wanted)) > 100_000
    assert counters(tokenizer.count(array_of(*texts))) == wanted


def test_words_of_every_length_and_at_every_place():
    """The eight-byte path near the ends of documents and of the buffer."""
    tokenizer = Tokenizer(Recipe(stopwords=(), min_length=1))
    for length in range(1, 34):
        word = ("abcdefghij" * 4)[:length]
        for texts in (
            [word],
            [word, word],
            [f" {word}", f"{word} "],
            [f"{word}-{word}x", ""],
            [word.upper() + "é"],
        ):
            assert counters(tokenizer.count(array_of(*texts))) == [
                Counter(reference(tokenizer, t)) for t in texts
            ]


def test_many_words_make_the_table_grow():
    texts = [
        " ".join(f"w{i * 7919 % 100_003}x" for i in range(start, start + 9000))
        for start in range(0, 40_000, 8000)
    ]
    tokenizer = Tokenizer(PLAIN)
    assert counters(tokenizer.count(array_of(*texts))) == [Counter(text.split()) for text in texts]


def test_a_table_that_grows_foretells_what_it_will_have_taken(monkeypatch):
    monkeypatch.setattr(scan, "_LARGE_TABLE", 1 << 20)
    for most in (150_000, 200_000, 290_000):
        asked = []
        Tokenizer(PLAIN).count(
            array_of(" ".join(f"q{i:x}" for i in range(most))),
            lambda *both, asked=asked: asked.append(both),
        )
        assert len(asked) > 1 and asked[-1][0] == max(now for now, _ in asked)
        assert all(asked[-1][0] <= whole < 1.1 * asked[-1][0] for _, whole in asked), asked


def test_a_run_is_cut_anywhere_and_counts_add_up():
    tokenizer = Tokenizer(PLAIN)
    texts = array_of("one two", "", "two three two")
    assert counters(tokenizer.count(texts[1:])) == [Counter(), Counter(two=2, three=1)]
    counted = tokenizer.count(texts)
    cells = counted.indptr, counted.words, counted.counts
    counts = np.zeros(3, np.int64)
    df = np.zeros(3, np.int64)
    add_totals(cells, np.ones(3, np.bool_), counts, df)
    assert dict(zip(counted.types.to_pylist(), zip(counts.tolist(), df.tolist()))) == {
        "one": (1, 1),
        "two": (3, 2),
        "three": (1, 1),
    }
    add_totals(cells, np.array([True, True, False]), counts, df)  # to those so far
    assert counts.tolist() == [2, 4, 1] and df.tolist() == [2, 3, 1]


def test_recipe_goes_through_json_and_refuses_nonsense():
    recipe = Recipe(keep=("emoji",), ngrams=2, phrases=("a b",), phrase_threshold=0.4, min_length=3)
    again = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert again == recipe and again.hash() == recipe.hash() != PLAIN.hash()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"pattern": "("}, "token pattern"),
        ({"pattern": "(" * 5000 + "a" + ")" * 5000}, "recursion"),
        ({"pattern": "a{99999999999}"}, "too large"),
        ({"pattern": "(a)(b)"}, "2 groups"),
        ({"pattern": "a", "tokenized": True}, "exclude each other"),
        ({"phrases": ("a",)}, "phrases"),
    ]
    for options, said in wrong:
        with pytest.raises(InputError, match=re.escape(said)):
            Recipe(**options)
    stored: dict[str, Any] = {
        "ngrams": 4,
        "min_length": 0,
        "keep": ["smileys"],
        "unspaced": "trigrams",
        "drop": ["verbs"],
        "later": 1,
    }
    for name, value in stored.items():
        with pytest.raises(InputError, match=name):
            Recipe.from_json({**recipe.to_json(), name: value})


def test_stop_words_are_read_from_a_file(tmp_path):
    path = tmp_path / "stop.txt"
    path.write_text("# comment\nfoo bar\n baz\n", encoding="utf-8")
    assert read_stopwords(str(path)) == ("file", ("bar", "baz", "foo"))
    assert read_stopwords("none") == ("none", ())
    assert len(read_stopwords("english")[1]) > 200
    with pytest.raises(InputError, match="no such file, and no list"):
        read_stopwords(str(tmp_path / "absent"))


def test_a_pair_at_the_threshold_is_a_phrase(tmp_path):
    """20 of 320 pairs, each of its words 80 of 640: ln(1 / 16 * 64) / ln 16 is about a half."""
    points = (np.log(1 / 16) - 2 * np.log(1 / 8)) / -np.log(1 / 16)
    assert points == pytest.approx(0.5)
    texts = ["left right"] * 20
    texts += [f"left own{n}" for n in range(60)] + [f"right other{n}" for n in range(60)]
    texts += [f"only{n} single{n}" for n in range(180)]
    # letters alone make words
    texts = [text.translate(str.maketrans("0123456789", "abcdefghij")) for text in texts]
    recipe = Recipe(min_length=1)
    given = {"memory_bytes": 64 << 20, "min_count": 20}
    for number, (threshold, learned) in enumerate(((0.4999, 1), (points, 1), (0.5001, 0))):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = learn_phrases(
            [pa.array(texts, pa.large_string())],
            recipe,
            folder,
            threshold=float(threshold),
            **given,
        )
        assert found.phrases == ("left right",)[:learned]
    (tmp_path / "rare").mkdir()
    given["min_count"] = 21
    rare = learn_phrases(
        [pa.array(texts, pa.large_string())], recipe, tmp_path / "rare", threshold=0.1, **given
    )
    assert rare.phrases == ()


def test_phrases_are_learned_by_npmi(tmp_path):
    texts = [
        "new york stays far from the old town",
        "new york and old men",
        "old town new town",
        "new york far old stays",
    ] * 9
    recipe = Recipe(stopwords=("the", "and"), stopwords_from="file")
    learned = learn_phrases(
        [array_of(*texts[:20]), array_of(*texts[20:])],
        recipe,
        tmp_path,
        memory_bytes=4096,
        min_count=9,
        threshold=0.4,
    )
    sequences = [[w for w in t.split()] for t in texts]
    single = Counter(w for s in sequences for w in s if w not in recipe.stopwords)
    pairs = Counter(p for s in sequences for p in pairwise(s) if not set(p) & set(recipe.stopwords))
    n = sum(single.values())
    m = sum(pairs.values())

    def npmi(a, b):
        p = pairs[a, b] / m
        return math.log(p / (single[a] / n * single[b] / n)) / -math.log(p)

    wanted = sorted(f"{a} {b}" for a, b in pairs if pairs[a, b] >= 9 and npmi(a, b) >= 0.4)
    assert list(learned.phrases) == wanted and "new york" in wanted and len(wanted) < len(pairs)
    assert learned.phrase_threshold == 0.4
    assert words("New York!", phrases=learned.phrases) == ["new_york"]
    assert learn_phrases([array_of("a")], recipe, tmp_path, memory_bytes=4096).phrases == ()
    assert learn_phrases([array_of("ab cd")], recipe, tmp_path, memory_bytes=4096).phrases == ()
    with pytest.raises(InputError, match="between -1 and 1"):
        learn_phrases([], recipe, tmp_path, memory_bytes=4096, threshold=2)


def test_threads_may_share_a_tokenizer():
    tokenizer = Tokenizer(Recipe(ngrams=2, stem="english"))
    runs = [
        array_of(*(f"word{i} running words {j}th" for i in range(j, j + 40))) for j in range(16)
    ]
    alone = [tokenizer.count(run) for run in runs]
    with ThreadPoolExecutor(4) as pool:
        for one, other in zip(alone, pool.map(tokenizer.count, runs)):
            assert one.types.equals(other.types) and one.counts.tobytes() == other.counts.tobytes()
            assert (
                one.words.tobytes() == other.words.tobytes()
                and one.indptr.tobytes() == other.indptr.tobytes()
            )


@pytest.mark.parametrize(
    "odd",
    [
        {"pattern": ["a"]},
        {"min_length": []},
        {"min_length": 2**70},
        {"stopwords": [1]},
        {"ngrams": True},
        {"stem": 5},
        {"lowercase": "yes"},
    ],
)
def test_a_recipe_of_a_stranger_is_of_the_kinds_it_has(odd):
    assert Recipe.from_json(Recipe().to_json()) == Recipe()
    with pytest.raises(InputError, match=f"recipe: `\\$.{next(iter(odd))}.*`: expected"):
        Recipe.from_json({**Recipe().to_json(), **odd})
