"""The vocabulary's builder against an in-memory Counter, under memory far too small; pruning, ties, growth, resume."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicstream.errors import DoesNotFit, InputError, StoreError
from topicstream.tokens.builder import Finished, VocabularyBuilder
from topicstream.tokens.sequences import packed
from topicstream.tokens.spill import byte_order
from topicstream.tokens.vocabulary import TokenVocabulary

TINY = 1 << 10  # sixteen words to a generation

WORD = st.one_of(
    st.text(st.sampled_from("ab"), min_size=1, max_size=4),
    st.integers(0, 400).map(lambda i: f"prefixed-word-{i}"),
    st.text(min_size=1, max_size=20).filter(lambda w: w.encode("utf-8", "ignore").decode() == w),
    st.integers(0, 3).map(lambda n: "a" + "\0" * n),
    st.sampled_from(["long" * 300, "long" * 300 + "er"]),
)
DOCUMENT = st.lists(WORD, max_size=12)
RUNS = st.lists(st.lists(DOCUMENT, max_size=6), max_size=8)


def add(builder: VocabularyBuilder, documents: list[list[str]], sign: int = 1) -> dict[str, int]:
    """Add a run; the provisional ids of its words."""
    count = Counter(word for document in documents for word in document)
    df = Counter(word for document in documents for word in set(document))
    types, offsets = packed([word.encode() for word in count])
    ids = builder.add(
        types, offsets, sign * np.array([*count.values()], np.int64), sign * np.array([df[w] for w in count], np.int64)
    )
    return dict(zip(count, ids.tolist()))


def expected(runs, *, min_df=1, max_df=10**9, min_count=1, max_vocab=None):
    documents = [document for run in runs for document in run]
    count = Counter(word for document in documents for word in document)
    df = Counter(word for document in documents for word in set(document))
    kept = [w for w in count if min_df <= df[w] <= max_df and count[w] >= min_count]
    kept.sort(key=lambda w: (-count[w], w.encode()))
    return [(w, count[w], df[w]) for w in kept[:max_vocab]], count, df


def listed(vocabulary: TokenVocabulary) -> list[tuple[str, int, int]]:
    return list(zip(vocabulary.words.to_pylist(), vocabulary.counts.tolist(), vocabulary.df.tolist()))


def final_ids(finished: Finished) -> np.ndarray:
    """The maps end to end, by provisional id."""
    first = 0
    for part in finished.maps:
        assert part.first == first
        first += part.size
    return np.concatenate([part.read() for part in finished.maps]) if finished.maps else np.empty(0, np.int32)


@settings(max_examples=120, deadline=None)
@given(RUNS, st.integers(1, 3), st.integers(1, 3), st.sampled_from([None, 1, 5, 40]), st.sampled_from([TINY, 1 << 22]))
def test_spilled_runs_equal_a_counter(tmp_path_factory, runs, min_df, min_count, max_vocab, memory):
    folder = tmp_path_factory.mktemp("vocabulary")
    wanted, count, df = expected(runs, min_df=min_df, min_count=min_count, max_vocab=max_vocab)
    builder = VocabularyBuilder(folder / "scratch", memory)
    provisional = [add(builder, run) for run in runs]
    options = {"documents": sum(map(len, runs)), "min_df": min_df, "min_count": min_count, "max_vocab": max_vocab}
    if not wanted:
        with pytest.raises(InputError, match=r"no word is left|none has a word"):
            builder.finish(**options, pruned=folder / "pruned.parquet")
        return
    finished = builder.finish(**options, pruned=folder / "pruned.parquet")
    assert listed(finished.vocabulary) == wanted
    assert (finished.distinct, finished.tokens) == (len(count), sum(count.values()))
    pruned = pq.read_table(folder / "pruned.parquet").to_pydict()
    left = sorted(set(count) - {w for w, _, _ in wanted}, key=str.encode)
    assert pruned == {"word": left, "count": [count[w] for w in left], "df": [df[w] for w in left]}
    assert (finished.pruned, finished.pruned_tokens) == (len(left), sum(count[w] for w in left))
    number = {w: i for i, (w, _, _) in enumerate(wanted)}
    final = final_ids(finished)
    for ids in provisional:
        assert [final[p] for p in ids.values()] == [number.get(w, -1) for w in ids]


def test_builder_spills_many_generations_and_long_words(tmp_path):
    runs = [[[f"{'x' * (i % 40)}{i}" for i in range(start, start + 90)]] for start in range(0, 900, 45)]
    runs.append([["y" * 100_000, "y" * 100_001]])
    builder = VocabularyBuilder(tmp_path, TINY)
    for run in runs:
        add(builder, run)
    finished = builder.finish(documents=len(runs))
    assert len(finished.maps) > 20
    assert listed(finished.vocabulary) == expected(runs)[0]


@given(st.lists(st.binary(max_size=30), unique=True, max_size=60), st.binary(max_size=20))
@settings(max_examples=150, deadline=None)
def test_byte_order_equals_sorted(words, prefix):
    words = [prefix + word for word in words]
    data, offsets = packed(words)
    assert [words[i] for i in byte_order(data, offsets, len(words))] == sorted(words)


def test_byte_order_of_many_words_with_one_prefix():
    words = [b"common-prefix-of-all-%d" % (i * 7919 % 5000) for i in range(5000)]
    data, offsets = packed(words)
    assert [words[i] for i in byte_order(data, offsets, len(words))] == sorted(words)


def test_limits_as_shares_and_numbers(tmp_path):
    documents = [["all", "half", "once"], ["all", "half"], ["all", "other"], ["all", "other", "other"]]

    def kept(**options):
        builder = VocabularyBuilder(tmp_path / "scratch", TINY)
        add(builder, documents)
        return builder.finish(documents=4, **options).vocabulary.words.to_pylist()

    assert kept() == ["all", "other", "half", "once"]
    assert kept(max_df=0.5) == ["other", "half", "once"]
    assert kept(max_df=1) == ["once"]
    assert kept(min_df=0.5) == ["all", "other", "half"]
    assert kept(min_df=3) == ["all"]
    assert kept(min_count=3) == ["all", "other"]
    assert kept(max_vocab=2) == ["all", "other"]
    with pytest.raises(InputError, match=r"min-df 1\.5"):
        kept(min_df=1.5)
    with pytest.raises(InputError, match="max-vocab 0"):
        kept(max_vocab=0)


def test_equal_counts_go_by_bytes(tmp_path):
    builder = VocabularyBuilder(tmp_path, TINY)
    add(builder, [["é", "z", "Z", "aa", "a", "b", "b"]])
    assert builder.finish(documents=1).vocabulary.words.to_pylist() == ["b", "Z", "a", "aa", "z", "é"]


def test_counts_above_a_million_are_ordered(tmp_path):
    builder = VocabularyBuilder(tmp_path, TINY)
    types, offsets = packed([b"p", b"q", b"r", b"s", b"t"])
    counts = np.array([3 << 40, 7, 2 << 20, 3 << 40, (1 << 20) - 1], np.int64)
    builder.add(types, offsets, counts, np.ones(5, np.int64))
    finished = builder.finish(documents=1)
    assert finished.vocabulary.words.to_pylist() == ["p", "s", "r", "t", "q"]
    assert final_ids(finished).tolist() == [0, 4, 2, 1, 3]


def test_words_of_heldout_documents_only_are_forgotten(tmp_path):
    builder = VocabularyBuilder(tmp_path / "scratch", TINY)
    types, offsets = packed([b"train", b"heldout"])
    ids = builder.add(types, offsets, np.array([2, 0]), np.array([1, 0]))
    finished = builder.finish(documents=1, pruned=tmp_path / "pruned.parquet")
    assert finished.vocabulary.words.to_pylist() == ["train"]
    assert final_ids(finished)[ids].tolist() == [0, -1]
    assert finished.distinct == 1
    assert pq.read_metadata(tmp_path / "pruned.parquet").num_rows == 0


def test_counts_can_be_taken_back(tmp_path):
    builder = VocabularyBuilder(tmp_path, TINY)
    add(builder, [["a", "a", "b"], ["b"]])
    add(builder, [["a", "a", "b"]], sign=-1)
    assert listed(builder.finish(documents=1).vocabulary) == [("b", 1, 1)]


def test_resume_goes_on_from_the_checkpoint(tmp_path):
    runs = [[[f"w{i}" for i in range(start, start + 50)]] for start in range(0, 300, 25)]
    whole = VocabularyBuilder(tmp_path / "whole", TINY)
    ids = []
    for n, run in enumerate(runs):
        ids.append(add(whole, run))
        if n == 5:
            whole.checkpoint()
    killed = VocabularyBuilder(tmp_path / "killed", TINY)
    for run in runs[:6]:
        add(killed, run)
    state = killed.checkpoint()
    for run in runs[6:9]:
        add(killed, run)
    killed._spill()
    resumed = VocabularyBuilder.resume(tmp_path / "killed", TINY, state)
    assert [add(resumed, run) for run in runs[6:]] == ids[6:]
    one, two = whole.finish(documents=len(runs)), resumed.finish(documents=len(runs))
    assert listed(one.vocabulary) == listed(two.vocabulary) == expected(runs)[0]
    assert (final_ids(one) == final_ids(two)).all()
    (tmp_path / "killed" / "generation-000000.ids").unlink()
    with pytest.raises(StoreError, match=r"generation-000000\.ids"):
        VocabularyBuilder.resume(tmp_path / "killed", TINY, state)


def test_fixed_vocabulary_keeps_its_order(tmp_path):
    builder = VocabularyBuilder(tmp_path / "scratch", TINY)
    ids = add(builder, [["b", "b", "a", "c"]])
    finished = builder.finish(documents=1, fixed=TokenVocabulary.of(["absent", "a", "b"]), min_df=5, pruned=tmp_path / "p")
    assert listed(finished.vocabulary) == [("absent", 0, 0), ("a", 1, 1), ("b", 2, 1)]
    assert [final_ids(finished)[ids[w]] for w in "abc"] == [1, 2, -1]
    assert pq.read_table(tmp_path / "p").to_pydict() == {"word": ["c"], "count": [1], "df": [1]}


def test_growth_brings_back_words_seen_twice_too_rarely(tmp_path):
    first = [["old", "old", "rare"], ["old", "rare"]]
    second = [["rare", "new", "new", "new"], ["rare", "old"], ["single"]]
    builder = VocabularyBuilder(tmp_path / "one", TINY)
    add(builder, first)
    before = builder.finish(documents=2, min_count=3, pruned=tmp_path / "pruned.parquet")
    assert listed(before.vocabulary) == [("old", 3, 2)]
    builder = VocabularyBuilder(tmp_path / "two", TINY)
    builder.seed(before.vocabulary)
    builder.seed_pruned(tmp_path / "pruned.parquet")
    ids = add(builder, second)
    after = builder.finish(
        documents=5, min_count=3, fixed=before.vocabulary, grow=True, pruned=tmp_path / "pruned.parquet"
    )
    assert listed(after.vocabulary) == [("old", 4, 3), ("rare", 4, 4), ("new", 3, 1)]
    assert [final_ids(after)[ids[w]] for w in ("old", "rare", "new", "single")] == [0, 1, 2, -1]
    assert pq.read_table(tmp_path / "pruned.parquet")["word"].to_pylist() == ["single"]


def test_lookup_save_load_and_hash(tmp_path):
    words = ["zebra", "a", "a-word-longer-than-eight", "é", "的国"]
    vocabulary = TokenVocabulary(TokenVocabulary.of(words).words, np.arange(5)[::-1], np.ones(5, np.int64))
    vocabulary.save(tmp_path / "vocab.parquet")
    again = TokenVocabulary.load(tmp_path / "vocab.parquet")
    assert listed(again) == listed(vocabulary)
    assert again.hash == vocabulary.hash != TokenVocabulary.of(words[::-1]).hash
    assert TokenVocabulary.of(["ab", "c"]).hash != TokenVocabulary.of(["a", "bc"]).hash
    types, offsets = packed([w.encode() for w in [*words[::-1], "absent", "a-word-longer-than-eighty"]])
    assert again.lookup(types, offsets).tolist() == [4, 3, 2, 1, 0, -1, -1]
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.parquet"]


def test_grow_appends_and_refuses_known_words():
    vocabulary = TokenVocabulary.of(["a", "b"])
    grown = vocabulary.grow(TokenVocabulary.of(["c"]).words, np.array([7]), np.array([2]))
    assert listed(grown) == [("a", 0, 0), ("b", 0, 0), ("c", 7, 2)]
    with pytest.raises(InputError, match=r"'b' .* twice"):
        grown.grow(TokenVocabulary.of(["b"]).words, np.array([1]), np.array([1]))


def test_damaged_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(StoreError, match="not found"):
        TokenVocabulary.load(tmp_path / "absent.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(StoreError, match="broken"):
        TokenVocabulary.load(tmp_path / "broken.parquet")
    (tmp_path / "words.txt").write_text("one\ntwo\none\n")
    with pytest.raises(InputError, match=r"words\.txt:3: 'one' stands in line 1"):
        TokenVocabulary.read(tmp_path / "words.txt")
    (tmp_path / "words.txt").write_text("one\n\ntwo\n")
    with pytest.raises(InputError, match=r"words\.txt:2: an empty line"):
        TokenVocabulary.read(tmp_path / "words.txt")
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    assert TokenVocabulary.read(tmp_path / "words.txt").words.to_pylist() == ["one", "two"]


def test_words_that_do_not_fit_are_refused_with_a_number(tmp_path):
    builder = VocabularyBuilder(tmp_path / "a", 1 << 20)
    words = packed([b"w%d" % i for i in range(1000)])
    builder.add(*words, np.ones(1000, np.int64), np.ones(1000, np.int64))
    with pytest.raises(DoesNotFit, match=r"1,000 words takes about 117 kB, 59 kB more.*--mem-limit.*--max-vocab"):
        builder.finish(documents=1000, room=60_000)
    builder = VocabularyBuilder(tmp_path / "b", 1 << 20)
    builder.add(*words, np.ones(1000, np.int64), np.ones(1000, np.int64))
    assert len(builder.finish(documents=1000, max_vocab=500, room=60_000).vocabulary) == 500
