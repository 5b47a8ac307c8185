"""The words of a corpus against an in-memory Counter, in memory and spilled; pruning, ties,
growth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicstream.base.errors import DoesNotFit, InputError, StoreError
from topicstream.base.memory import MemoryLimit, Room
from topicstream.base.relations import Relations
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.tokens import vocabulary, word_counts
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary, word_table
from topicstream.ingestion.tokens.word_counts import ChosenWords, WordCounts, WordLimits

MEMORY = 64 << 20

WORD = st.one_of(
    st.text(st.sampled_from("ab"), min_size=1, max_size=4),
    st.integers(0, 400).map(lambda i: f"prefixed-word-{i}"),
    st.text(min_size=1, max_size=20).filter(lambda w: w.encode("utf-8", "ignore").decode() == w),
    st.integers(0, 3).map(lambda n: "a" + "\0" * n),
    st.sampled_from(["long" * 300, "long" * 300 + "er"]),
)
DOCUMENT = st.lists(WORD, max_size=12)
RUNS = st.lists(st.lists(DOCUMENT, max_size=6), max_size=8)


def table(count: dict[str, int], df: dict[str, int] | None = None) -> pa.Table:
    df = df or dict.fromkeys(count, 1)
    words = pa.array(count, pa.large_string())
    return word_table(
        words, np.array([*count.values()], np.int64), np.array([df[w] for w in count], np.int64)
    )


def counted(documents: list[list[str]]) -> pa.Table:
    """The words of some documents."""
    count = Counter(word for document in documents for word in document)
    return table(count, Counter(word for document in documents for word in set(document)))


class Choice(NamedTuple):
    vocabulary: TokenVocabulary
    figures: ChosenWords


def choose(
    folder: Path,
    pieces: Sequence[pa.Table],
    pruned: Path | None = None,
    documents: int = 1,
    **options,
) -> Choice:
    limits = {
        k: options.pop(k) for k in ("min_df", "max_df", "min_count", "max_vocab") if k in options
    }
    with Relations(folder, MEMORY) as relations:
        words = WordCounts(relations)
        for piece in pieces:
            words.add(piece)
        chosen = words.choose(WordLimits(**limits), documents=documents, **options)
        (folder / "chosen.parquet").unlink(missing_ok=True)
        words.save_chosen(folder / "chosen.parquet")
        if pruned is not None:
            words.save_pruned(pruned)
    assert not list(folder.glob("duckdb*"))
    return Choice(TokenVocabulary.read(folder / "chosen.parquet"), chosen)


def expected(runs, *, min_df=1, max_df=10**9, min_count=1, max_vocab=None):
    documents = [document for run in runs for document in run]
    count = Counter(word for document in documents for word in document)
    df = Counter(word for document in documents for word in set(document))
    kept = [w for w in count if min_df <= df[w] <= max_df and count[w] >= min_count]
    kept.sort(key=lambda w: (-count[w], w.encode()))
    return [(w, count[w], df[w]) for w in kept[:max_vocab]], count, df


def listed(vocabulary: TokenVocabulary) -> list[tuple[str, int, int]]:
    return list(
        zip(vocabulary.words.to_pylist(), vocabulary.counts.tolist(), vocabulary.df.tolist())
    )


@settings(max_examples=25, deadline=None)
@given(
    RUNS,
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([None, 1, 5, 40]),
    st.sampled_from([1, 1 << 22]),
)
def test_summed_words_equal_a_counter(
    tmp_path_factory, runs, min_df, min_count, max_vocab, waiting
):
    folder = tmp_path_factory.mktemp("vocabulary")
    wanted, count, df = expected(runs, min_df=min_df, min_count=min_count, max_vocab=max_vocab)
    options = {
        "documents": sum(map(len, runs)),
        "min_df": min_df,
        "min_count": min_count,
        "max_vocab": max_vocab,
    }
    pruned = folder / "pruned.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_counts, "SUMMED_ROWS", waiting)
        if not wanted:
            with pytest.raises(InputError, match=r"no word is left|none has a word"):
                choose(folder, map(counted, runs), **options)
            return
        chosen = choose(folder, map(counted, runs), pruned, **options)
    assert listed(chosen.vocabulary) == wanted
    assert (chosen.figures.distinct, chosen.figures.tokens) == (len(count), sum(count.values()))
    left = sorted(set(count) - {w for w, _, _ in wanted}, key=str.encode)
    assert pq.read_table(pruned).to_pydict() == {
        "word": left,
        "count": [count[w] for w in left],
        "df": [df[w] for w in left],
    }
    assert (chosen.figures.words, chosen.figures.pruned) == (len(wanted), len(left))
    assert chosen.figures.pruned_tokens == sum(count[w] for w in left)


def test_many_words_by_any_number_of_pieces_give_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(word_counts, "SUMMED_ROWS", 10_000)
    monkeypatch.setattr(vocabulary, "ROWS", 3000)
    words = [f"{'x' * (i % 40)}{i}" for i in range(40_000)]
    files = set()
    for pieces in (1, 7):
        tables = [counted([words[n::pieces], words[n : n + 5]]) for n in range(pieces)]
        tables += [table({words[0]: 10 - pieces, "y" * 100_000: 3})]
        (tmp_path / "pruned.parquet").unlink(missing_ok=True)
        choose(tmp_path, tables, tmp_path / "pruned.parquet", min_df=2)
        files.add((tmp_path / "pruned.parquet").read_bytes())
    assert len(files) == 2  # other counts
    assert pq.read_metadata(tmp_path / "pruned.parquet").num_row_groups == 14


def test_a_row_group_is_in_memory_once(tmp_path, monkeypatch):
    """Words that come from the query engine are not copied as a whole before they are written."""
    monkeypatch.setattr(vocabulary, "CHUNK", 1 << 12)
    monkeypatch.setattr(vocabulary, "ROWS", 1 << 15)
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    held = []
    write = pq.ParquetWriter.write_table

    def measure(writer, group):
        held.append((pool.bytes_allocated() - before) / group.nbytes)
        write(writer, group)

    def pieces():
        for start in range(0, 70_000, 5000):
            yield table({f"a long enough word {n}": n for n in range(start, start + 5000)})

    monkeypatch.setattr(pq.ParquetWriter, "write_table", measure)
    vocabulary.write_words(tmp_path / "words.parquet", pieces())
    assert len(held) == 3 and held[0] < 1.4 and held[1] < 1.7  # the writer has buffers, too
    assert pq.read_table(tmp_path / "words.parquet")["count"].to_pylist() == [*range(70_000)]


def test_the_vocabulary_is_never_in_memory_beside_the_query_engine(tmp_path, monkeypatch):
    events = []
    close = Relations.close
    read = TokenVocabulary.read

    def close_and_note(relations):
        events.append("closed")
        close(relations)

    def read_and_note(path):
        events.append("read")
        return read(path)

    monkeypatch.setattr(Relations, "close", close_and_note)
    monkeypatch.setattr(TokenVocabulary, "read", read_and_note)
    texts = ["ships and sails", "sails and harbours", "bread and butter", "butter and flour"]
    ingest(texts, out=tmp_path / "c.zarr", min_df=1, heldout=0, progress=False)
    assert events == ["closed", "read"]


def test_limits(tmp_path):
    documents = [
        ["all", "half", "once"],
        ["all", "half"],
        ["all", "other"],
        ["all", "other", "other"],
    ]

    def kept(**options):
        return choose(
            tmp_path, [counted(documents)], documents=4, **options
        ).vocabulary.words.to_pylist()

    assert kept() == ["all", "other", "half", "once"]
    assert kept(max_df=2) == ["other", "half", "once"]
    assert kept(max_df=1) == ["once"]
    assert kept(min_df=2) == ["all", "other", "half"]
    assert kept(min_count=3) == ["all", "other"]
    assert kept(max_vocab=2) == ["all", "other"]
    assert kept(dropped=["other", "absent"]) == ["all", "half", "once"]
    assert kept(drop_top=1, max_vocab=2) == ["other", "half"]
    assert choose(tmp_path, [counted(documents)], documents=4, drop_top=2).figures.top == [
        "all",
        "other",
    ]
    with pytest.raises(InputError, match="--min-count or --drop-top"):
        kept(drop_top=4)


def test_equal_counts_go_by_bytes(tmp_path):
    words = choose(tmp_path, [counted([["é", "z", "Z", "aa", "a", "b", "b"]])]).vocabulary.words
    assert words.to_pylist() == ["b", "Z", "a", "aa", "z", "é"]


def test_large_counts_are_ordered(tmp_path):
    counts = {"p": 3 << 40, "q": 7, "r": 2 << 20, "s": 3 << 40, "t": (1 << 20) - 1}
    assert choose(tmp_path, [table(counts)]).vocabulary.words.to_pylist() == [
        "p",
        "s",
        "r",
        "t",
        "q",
    ]


def test_words_of_heldout_documents_only_are_forgotten(tmp_path):
    chosen = choose(
        tmp_path,
        [table({"train": 2, "heldout": 0}, {"train": 1, "heldout": 0})],
        tmp_path / "pruned.parquet",
    )
    assert chosen.vocabulary.words.to_pylist() == ["train"] and chosen.figures.distinct == 1
    assert pq.read_metadata(tmp_path / "pruned.parquet").num_rows == 0


def test_fixed_vocabulary_keeps_its_order(tmp_path):
    fixed = TokenVocabulary.from_words(["absent", "a", "b"])
    chosen = choose(
        tmp_path, [counted([["b", "b", "a", "c"]])], tmp_path / "p", fixed=fixed, min_df=5
    )
    assert listed(chosen.vocabulary) == [("absent", 0, 0), ("a", 1, 1), ("b", 2, 1)]
    assert pq.read_table(tmp_path / "p").to_pydict() == {"word": ["c"], "count": [1], "df": [1]}


def test_growth_brings_back_words_seen_twice_too_rarely(tmp_path):
    first = [["old", "old", "rare"], ["old", "rare"]]
    second = [["rare", "new", "new", "new"], ["rare", "old"], ["single"]]
    before = choose(tmp_path, [counted(first)], tmp_path / "first.parquet", min_count=3)
    assert listed(before.vocabulary) == [("old", 3, 2)]
    pieces = [counted(second), *vocabulary.stream_pruned(tmp_path / "first.parquet")]
    grown = {"min_count": 3, "fixed": before.vocabulary, "grow": True}
    after = choose(tmp_path, pieces, tmp_path / "second.parquet", **grown)
    assert listed(after.vocabulary) == [("old", 4, 3), ("rare", 4, 4), ("new", 3, 1)]
    assert pq.read_table(tmp_path / "second.parquet")["word"].to_pylist() == ["single"]
    assert len(choose(tmp_path, pieces, max_vocab=2, **grown).vocabulary) == 2


def test_lookup_save_load_and_hash(tmp_path):
    words = ["zebra", "a", "a-word-longer-than-eight", "é", "的国"]
    vocabulary = TokenVocabulary.from_words(words, np.arange(5)[::-1], np.ones(5))
    vocabulary.save(tmp_path / "vocab.parquet")
    again = TokenVocabulary.read(tmp_path / "vocab.parquet")
    assert listed(again) == listed(vocabulary)
    assert again.hash == vocabulary.hash != TokenVocabulary.from_words(words[::-1]).hash
    assert (
        TokenVocabulary.from_words(["ab", "c"]).hash != TokenVocabulary.from_words(["a", "bc"]).hash
    )
    asked = pa.array([*words[::-1], "absent", "a-word-longer-than-eighty"], pa.large_string())
    assert again.lookup(asked).tolist() == [4, 3, 2, 1, 0, -1, -1]
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.parquet"]


def test_damaged_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(StoreError, match="not found"):
        TokenVocabulary.read(tmp_path / "absent.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(StoreError, match="broken"):
        TokenVocabulary.read(tmp_path / "broken.parquet")
    (tmp_path / "words.txt").write_text("one\ntwo\none\n")
    with pytest.raises(InputError, match=r"words\.txt:3: 'one' is already in line 1"):
        TokenVocabulary.from_file(tmp_path / "words.txt")
    (tmp_path / "words.txt").write_text("one\n\ntwo\n")
    with pytest.raises(InputError, match=r"words\.txt:2: an empty line"):
        TokenVocabulary.from_file(tmp_path / "words.txt")
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    assert TokenVocabulary.from_file(tmp_path / "words.txt").words.to_pylist() == ["one", "two"]


def test_words_that_do_not_fit_are_refused_with_a_number(tmp_path):
    words = table({f"w{i}": 1 for i in range(1000)})
    room = Room(MemoryLimit(512 << 20), 60_000)
    with pytest.raises(
        DoesNotFit,
        match=r"1,000 words .*--max-vocab.* takes about 117 kB of memory, 59 kB are left.*513M "
        r"would do",
    ):
        choose(tmp_path, [words], documents=1000, room=room)
    assert (
        len(choose(tmp_path, [words], documents=1000, max_vocab=500, room=room).vocabulary) == 500
    )
