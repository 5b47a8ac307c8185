"""Stop words by language, added up; words dropped; a corpus in another language than its stop
words.
"""

from __future__ import annotations

import json
import random

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import few_quick
from tests.ingest_tools import cells_by_id, write_jsonl
from topicstream.base.errors import InputError, UsageError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.stopwords import (
    ENGLISH,
    LANGUAGES,
    language_named,
    read_stopwords,
    stop_list,
)
from topicstream.ingestion.tokens.tokenizer import Tokenizer
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary

FUNCTION_WORDS = {
    "english": "the of and to in a is that it for was on with as his they be at this have from",
    "german": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch",
    "french": "de la le et les des en un du une que est pour qui dans a par plus pas au sur",
    "russian": "и в не на я быть он с что а по это она этот к но они мы весь который",
    "polish": "i w nie na się że z do to jest o jak ale co za tym po dla od czy",
}


def texts(language: str, n: int = 120) -> list[dict[str, str]]:
    """Documents in which two of five words are function words of a language."""
    rng = random.Random(language)
    own = [
        f"{a}{b}{c}us"
        for a in ("xor", "plim", "gra")
        for b in ("ta", "quo", "zi")
        for c in ("n", "bre", "dul")
    ]
    joints = FUNCTION_WORDS[language].split()
    return [
        {
            "id": str(i),
            "text": " ".join(rng.choice(joints if rng.random() < 0.4 else own) for _ in range(60)),
        }
        for i in range(n)
    ]


def test_a_list_for_every_language():
    assert len(LANGUAGES) >= 30
    for code, name in LANGUAGES.items():
        words = stop_list(name)
        assert len(words) >= 40 and all(w and w == w.strip() for w in words)
        assert language_named(code) == language_named(name.title()) == name
    for name, some in FUNCTION_WORDS.items():
        assert len(set(some.split()) & set(stop_list(name))) >= 0.8 * len(some.split()), name
    assert {"qu", "il", "est"} <= set(stop_list("french")) and language_named("klingon") is None


ONE_BY_ONE = Recipe(stopwords=(), stopwords_from="none", min_length=1, unspaced="runs")


@pytest.mark.parametrize("language", sorted(LANGUAGES.values()))
def test_every_stop_word_can_occur(language):
    """An entry that the tokenizer parts or drops would leave its word in the text."""
    listed = list(stop_list(language))
    counted = Tokenizer(ONE_BY_ONE).count(pa.array(listed, pa.large_string()))
    assert np.diff(counted.indptr).tolist() == [1] * len(listed)
    as_counted = counted.types.take(pa.array(counted.words)).to_pylist()
    assert as_counted == listed
    without = msgspec.structs.replace(ONE_BY_ONE, stopwords=tuple(listed))
    assert len(Tokenizer(without).count(pa.array(listed, pa.large_string())).words) == 0


# Common words of the languages whose lists were wrong, and words that no list may have.
COMMON = {
    "greek": "του της των στο στη στην για από με και είναι ήταν δεν θα να το τα τη την τον οι που "
    "ότι αυτό αλλά όταν όπως κάθε μόνο έχει έχουν όμως ως μετά πριν εδώ πολύ ένας",
    "turkish": "bazı altı altmış beş birşey kırk yetmiş şey kadar sonra olan olarak için çünkü daha "
    "değil çok ile ve ama gibi nasıl",
    "vietnamese": "và của là các những được trong cho với không này một đã để khi",
    "romanian": "și să că în fără până această şi",
    "hungarian": "őket ő első",
    "latin": "et in non est cum sed ut ad qui",
    "polish": "że jeżeli jest nie",
    "hebrew": "אבל או אותו",
}
CONTENT = {
    "vietnamese": "nhà nước năm ngày người tháng cây",
    "turkish": "kaynak iş",
    "hindi": "घर",
    "korean": "결론을 관계가",
    "ukrainian": "життя людина",
    "slovak": "and the",
    "malay": "allah",
}


def test_lists_have_common_words_and_none_of_content():
    for language, common in COMMON.items():
        assert not set(common.split()) - set(stop_list(language)), language
    for language, content in CONTENT.items():
        assert not set(content.split()) & set(stop_list(language)), language
    letters_of = {"ý": {"czech", "slovak"}, "å": {"danish", "norwegian", "swedish"}}
    for letter in "ýþðãåõ¼":  # of Turkish, Polish and Hungarian in another code page
        having = {name for name in LANGUAGES.values() if letter in "".join(stop_list(name))}
        assert having <= letters_of.get(letter, {"portuguese", "vietnamese"}), letter


def test_choices_add_up(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("# my own\nfoo\n", encoding="utf-8")
    name, words = read_stopwords("english", str(mine))
    assert name == "english+file" and set(words) == set(ENGLISH) | {"foo"}
    assert (
        read_stopwords("english", "de")
        == read_stopwords("english+german")
        == read_stopwords("en+de")
    )
    assert read_stopwords(f"german+{mine}")[0] == "german+file"
    odd = tmp_path / "a+b.txt"
    odd.write_text("bar")
    assert read_stopwords(str(odd)) == ("file", ("bar",))
    with pytest.raises(UsageError, match="none cannot be combined"):
        read_stopwords("none", "german")
    with pytest.raises(UsageError, match=r"germn: no such file.*did you mean german\?.*swedish"):
        read_stopwords("germn")


def test_stop_words_on_the_command_line(tmp_path, capsys):
    raw = write_jsonl(tmp_path / "a.jsonl", texts("german"))
    mine = tmp_path / "mine.txt"
    mine.write_text("xortanus\n")
    args = ["ingest", str(raw), "--out", str(tmp_path / "c.zarr"), "--force", "--max-df", "1.0"]
    assert run(args) == 0
    said = capsys.readouterr().out
    assert (
        "% of the words are stop words of german, but those of english were left out; "
        "--stopwords german" in said
    )
    assert run([*args, "--stopwords", "german", "--stopwords", str(mine)]) == 0
    said = capsys.readouterr().out
    assert "warning" not in said and "stop words german+file" in said
    words = set(TokenVocabulary.read(tmp_path / "c.zarr" / "vocab.parquet").words.to_pylist())
    assert "xorquonus" in words and not words & {"xortanus", "der", "und"}
    assert run([*args, "--stopwords", "klingon"]) == 2
    assert run([*args, "--stem", "klingon"]) == 2


@pytest.mark.parametrize("language", few_quick(FUNCTION_WORDS, ["english", "french"]))
def test_a_corpus_in_another_language_is_told(tmp_path, language):
    raw = texts(language)
    fits = ingest(raw, tmp_path / "fits", stopwords=language, min_df=1, max_df=1.0)
    assert fits["language"] is None
    assert (
        ingest(raw, tmp_path / "none", stopwords="none", min_df=1, max_df=1.0)["language"] is None
    )
    other = "english" if language != "english" else "german"
    found = ingest(raw, tmp_path / "other", stopwords=other, min_df=1, max_df=1.0)["language"]
    assert found["language"] == language and 0.15 < found["share"] < 0.5


def test_words_dropped_at_ingest_stay_out(tmp_path):
    raw = texts("english")
    drop = tmp_path / "drop.txt"
    drop.write_bytes(b"xortanus\r\n\nnever-there\nplimquodulus")
    store = tmp_path / "c.zarr"
    ingest(raw, store, drop_words=drop, min_df=1, max_df=1.0)
    plain = tmp_path / "plain.zarr"
    ingest(raw, plain, min_df=1, max_df=1.0)
    have, all_ = (
        TokenVocabulary.read(s / "vocab.parquet").words.to_pylist() for s in (store, plain)
    )
    gone = {"xortanus", "plimquodulus"}
    assert (
        set(all_) - set(have) == gone
        and set(Corpus.open(store).manifest.vocabulary["dropped"]) > gone
    )
    want = {
        k: (part, {w: n for w, n in cells.items() if w not in gone})
        for k, (part, cells) in cells_by_id(plain).items()
    }
    assert cells_by_id(store) == want
    more = [{"id": f"n{d['id']}", "text": d["text"] + " freshword"} for d in texts("english")]
    ingest(
        more, store, append=True, grow_vocab=True, max_df=1.0
    )  # the words are as frequent as can be, and stay out
    have = TokenVocabulary.read(Corpus.open(store).file("vocab")).words.to_pylist()
    assert "freshword" in have and not gone & set(have)
    with pytest.raises(UsageError, match=r"--drop-words .*no such file"):
        ingest(raw, tmp_path / "d", drop_words=tmp_path / "absent")


def test_the_most_frequent_words_dropped_at_ingest_stay_out(tmp_path):
    raw = texts("english")
    options = {"min_df": 1, "max_df": 1.0}
    ingest(raw, tmp_path / "plain.zarr", **options)
    ingest(raw, tmp_path / "c.zarr", drop_top=3, **options)
    have, all_ = (
        TokenVocabulary.read(tmp_path / n / "vocab.parquet").words.to_pylist()
        for n in ("c.zarr", "plain.zarr")
    )
    assert have == all_[3:]  # ids go by count
    want = {
        k: (part, {w: n for w, n in cells.items() if w not in all_[:3]})
        for k, (part, cells) in cells_by_id(tmp_path / "plain.zarr").items()
    }
    assert cells_by_id(tmp_path / "c.zarr") == want
    more = [{"id": f"n{d['id']}", "text": d["text"] + " freshword"} for d in texts("english")]
    ingest(more, tmp_path / "c.zarr", append=True, grow_vocab=True, max_df=1.0)
    have = TokenVocabulary.read(Corpus.open(tmp_path / "c.zarr").file("vocab")).words.to_pylist()
    assert "freshword" in have and not set(all_[:3]) & set(have)
    with pytest.raises(UsageError, match="--drop-top 4: requires a new store"):
        ingest(more, tmp_path / "c.zarr", append=True, drop_top=4)
    ingest(more, tmp_path / "c.zarr", append=True, drop_top=3)  # as the store has it
    with pytest.raises(InputError, match="lower --min-df, --min-count or --drop-top"):
        ingest(raw, tmp_path / "none.zarr", drop_top=10**6, **options)


def test_words_are_dropped_from_counts_too(tmp_path):
    (tmp_path / "docword.txt").write_text("3\n3\n4\n1 1 2\n1 2 1\n2 2 5\n3 3 1\n")
    (tmp_path / "vocab.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "drop.txt").write_text("two\n")
    ingest(
        tmp_path / "docword.txt",
        tmp_path / "c.zarr",
        drop_words=str(tmp_path / "drop.txt"),
        heldout=0,
    )
    assert [c for _, c in cells_by_id(tmp_path / "c.zarr").values()] == [
        {"one": 2.0},
        {},
        {"three": 1.0},
    ]
    with pytest.raises(InputError):
        ingest(
            tmp_path / "docword.txt",
            tmp_path / "d.zarr",
            drop_words=str(tmp_path / "vocab.txt"),
            heldout=0,
        )


def test_a_list_of_languages_is_their_lists_and_an_append_says_what_differs(tmp_path):
    raw = [{"text": "der Hund und the dog"}, {"text": "die Katze and a cat"}]
    store = tmp_path / "c.zarr"
    ingest(raw, store, stopwords=["german", "english"], min_df=1, heldout=0)
    stored = Corpus.open(store)
    assert {word for _, cells in cells_by_id(store).values() for word in cells} == {
        "cat",
        "dog",
        "hund",
        "katze",
    }
    assert stored.manifest.tokenizer["stopwords_from"] == "german+english"
    with pytest.raises(
        InputError, match=r"another tokenizer \(stopwords, stopwords_from\); leave out"
    ):
        ingest(raw, store, append=True, stopwords=["der", "und"])
    words = ingest(raw, tmp_path / "d.zarr", stopwords=["no", "german", "it"], min_df=1, heldout=0)
    assert words["tokenizer"]["stopwords"] == "list"


def test_an_append_may_repeat_stop_words_whose_list_was_another(tmp_path):
    """As a store has it that was made before the list was put right."""
    out = tmp_path / "c.zarr"
    asked = {"stopwords": "french", "min_df": 1, "max_df": 1.0, "heldout": 0, "progress": False}
    older = {**asked, "stopwords": ["le", "qui"], "stopwords_from": "french"}
    ingest(["le bateau", "qui vogue"], out, **older)
    ingest(["le port"], out, append=True, grow_vocab=True, **asked)
    assert Corpus.open(out).manifest.tokenizer["stopwords"] == ["le", "qui"]
    with pytest.raises(InputError, match="another tokenizer"):
        ingest(["le port"], out, append=True, **{**asked, "stopwords": "german"})


def test_words_are_dropped_from_a_store_without_a_new_ingest(tmp_path, capsys):
    raw = texts("english", 300)
    options = {"min_df": 1, "max_df": 0.99, "heldout": "10%"}
    drop = tmp_path / "drop.txt"
    drop.write_text("xortanus\nnever-there\nplimquodulus\nof\n")
    store = tmp_path / "c.zarr"
    want = tmp_path / "want.zarr"
    ingest(raw[:200], store, **options)
    ingest(
        [*raw[200:], {**raw[3], "text": "xortanus xortanus xorquobreus"}],
        store,
        append=True,
        on_duplicate="replace",
    )
    args = ["edit", str(store), "--drop-words", str(drop)]
    before = Corpus.open(store).fingerprint
    assert run([*args, "--dry-run", "--json"]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert (
        Corpus.open(store).fingerprint == before
        and asked["dropped"] == 2
        and asked["not_found"] == 2
    )
    everything = cells_by_id(store)
    assert run(args) == 0
    assert (
        "2 words dropped" in capsys.readouterr().out and run(["info", str(store), "--verify"]) == 0
    )
    gone = {"xortanus", "plimquodulus"}
    assert cells_by_id(store) == {
        k: (part, {w: n for w, n in cells.items() if w not in gone})
        for k, (part, cells) in everything.items()
    }
    assert run(args) == 0 and "0 words dropped" in capsys.readouterr().out  # once more does no harm
    ingest(raw, want, drop_words=drop, **options)
    have, fresh = (
        TokenVocabulary.read(Corpus.open(s).file("vocab")).words.to_pylist() for s in (store, want)
    )
    assert set(have) == set(fresh)
    pruned = pq.read_table(Corpus.open(store).file("pruned"))
    assert pruned["word"].to_pylist() == sorted(
        pruned["word"].to_pylist(), key=str.encode
    ) and gone <= set(pruned["word"].to_pylist())
    more = [{"id": f"n{d['id']}", "text": d["text"] + " freshword"} for d in raw]
    ingest(more, store, append=True, grow_vocab=True, max_df=1.0)
    have = TokenVocabulary.read(Corpus.open(store).file("vocab")).words.to_pylist()
    assert "freshword" in have and not gone & set(have)
    drop.write_text("\n".join(have))
    assert run(args) == 3 and "would remove all words" in capsys.readouterr().err
    assert run([*args, "--undo"]) == 2


def test_two_short_documents_are_of_no_language(tmp_path):
    """ "come" and "in" are Italian, too."""
    path = tmp_path / "two.txt"
    path.write_text("come in pale moon\nno one come non stop in\n")
    assert (
        ingest(path, tmp_path / "c.zarr", min_df=1, heldout=0, progress=False).get("language")
        is None
    )
