"""What is asked of an author-topic model: who writes on a topic, topics of an author, experts,
perplexity, inference, updates.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import topicstream
from tests.ingest_tools import write_jsonl
from topicstream.addons.authors.scorer import _TestAuthors, author_perplexity, mixtures
from topicstream.addons.authors.views import AuthorsView, ExpertsView
from topicstream.base.errors import InputError, StoreError, UsageError
from topicstream.base.progress import Shown as Progress
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import split_documents
from topicstream.evaluation.keys import document_keys, word_keys
from topicstream.evaluation.visiting import documents_of_block
from topicstream.inference.infer import infer
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train

TOPICS = 3
WORDS = [[f"{name}{chr(97 + i)}" for i in range(12)] for name in ("sea", "sky", "land")]
AUTHORS = {f"{name} {i}": k for k, name in enumerate(("Ahab", "Amelia", "Gaia")) for i in range(4)}
PLAIN = {"min_df": 1, "max_df": 1.0, "stopwords": "none", "workers": 1}
QUIET = {"threads": 1, "progress": Progress(-1)}


def documents(n, seed, first=0, more=()):
    """Each author writes on one topic; a document has one or two authors, one in ten has none."""
    rng = np.random.default_rng(seed)
    names = [*AUTHORS, *more]
    found = []
    for i in range(first, first + n):
        who = rng.choice(names, rng.integers(1, 3), replace=False).tolist()
        kinds = [AUTHORS.get(a, 0) for a in who]
        text = [
            WORDS[rng.choice(kinds)][rng.integers(12)]
            if rng.random() < 0.9
            else WORDS[rng.integers(3)][0]
            for _ in range(40)
        ]
        found.append({"id": f"d{i}", "text": " ".join(text), "authors": who if i % 10 else []})
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with a part set aside, and a model of it."""
    folder = tmp_path_factory.mktemp("authors")
    source = write_jsonl(folder / "in.jsonl", documents(200, 1))
    topicstream.ingest(
        str(source), folder / "c.zarr", meta={"authors": "authors"}, **PLAIN, heldout=40
    )
    runs = []
    for seed in range(3):  # of three starts the one of the lowest training perplexity
        done = train(
            folder / "c.zarr",
            folder / f"m{seed}",
            algo="atm",
            topics=TOPICS,
            passes=40,
            tol=0,
            seed=seed,
            **QUIET,
        )
        runs.append((done.last["running_perplexity"], folder / f"m{seed}"))
    return folder / "c.zarr", min(runs)[1]


def kind_of(words):
    return {"sea": 0, "sky": 1, "lan": 2}[words[0][:3]]


def test_the_authors_of_a_topic(made):
    result = AuthorsView(made[1], words=4).result()
    assert result["authors"] == len(AUTHORS)
    assert sum(t["share"] for t in result["topics"]) == pytest.approx(1.0)
    for topic in result["topics"]:
        kind = kind_of(topic["words"])
        assert {AUTHORS[a["author"]] for a in topic["authors"]} == {kind}
        tokens = [a["tokens"] for a in topic["authors"]]
        assert (
            tokens == sorted(tokens, reverse=True)
            and min(a["share"] for a in topic["authors"]) > 0.5
        )
    assert [t["topic"] for t in AuthorsView(made[1], topics=[2, 0]).result()["topics"]] == [2, 0]


def test_the_topics_of_an_author_and_the_nearest(made):
    found = AuthorsView(made[1], author="Ahab 2", words=3).result()
    assert kind_of(found["topics"][0]["words"]) == 0 and found["topics"][0]["share"] > 0.5
    assert {AUTHORS[a["author"]] for a in found["nearest"]} == {0}
    assert "Ahab 2" not in [a["author"] for a in found["nearest"]]
    with pytest.raises(InputError, match="no such author; did you mean Ahab"):
        AuthorsView(made[1], author="ahab").result()


def experts(model, text, folder, corpus="corpus.zarr", n=10):
    """Who knows about a text."""
    (folder / "text.txt").write_text(text)
    return ExpertsView(model, corpus, experts=str(folder / "text.txt"), words=n).result()


def test_who_knows_about_a_text_by_topics(made, tmp_path):
    found = experts(made[1], "skya skyb skyc skyd unheard", tmp_path, n=4)
    assert found["by"] == "topics" and {AUTHORS[a["author"]] for a in found["experts"]} == {1}
    assert found["oov_rate"] == pytest.approx(0.2)
    model = TopicModel.open(made[1])
    counts = model.table("authors").gather(np.arange(len(AUTHORS))).astype(np.float64)
    counts += (
        100 * counts.sum(0) / counts.sum()
    )  # an author of few words is not sure to know anything
    theta = counts / counts.sum(1, keepdims=True)
    ids = model.vocabulary.find(np.array(["skya", "skyb", "skyc", "skyd"]).tolist())
    wanted = np.exp(-np.log(theta @ model.probabilities(ids).T).mean(1))
    assert found["experts"][0]["perplexity"] == pytest.approx(wanted.min(), rel=1e-5)
    with pytest.raises(InputError, match="no word that the model knows"):
        experts(made[1], "unheard", tmp_path)


def plain_votes(corpus, text):
    """Votes of the training documents from dense counts, document by document."""
    vocabulary = corpus.read_vocabulary()
    found = {}
    names = corpus.axes["authors"].names().to_pylist()
    rarity = np.log(corpus.n_docs / np.maximum(vocabulary.df, 1))
    asked = np.log1p([text.split().count(w) for w in vocabulary.words.to_pylist()]) * rarity
    for block in corpus.blocks(axes=["authors"]):
        who = block.rows("authors")
        for d in range(block.n_docs):
            cells = slice(*block.indptr[d : d + 2])
            own = np.zeros(corpus.n_words)
            own[block.vocab[block.words[cells]]] = block.counts[cells]
            own = np.log1p(own) * rarity
            cosine = own @ asked / max(np.linalg.norm(own) * np.linalg.norm(asked), 1e-300)
            for a in who.ids[who.local[who.indptr[d] : who.indptr[d + 1]]]:
                found[names[a]] = found.get(names[a], 0.0) + cosine**4
    return found


def test_who_knows_about_a_text_by_documents(made, tmp_path):
    text = "skya skyb skyb skyd unheard"
    corpus = Corpus.open(made[0])
    found = experts(made[1], text, tmp_path, corpus=corpus, n=4)
    assert found["by"] == "documents" and {AUTHORS[a["author"]] for a in found["experts"]} == {1}
    assert found["oov_rate"] == pytest.approx(0.2)
    wanted = plain_votes(corpus, text)
    first = sorted(wanted, key=lambda name: -wanted[name])[:4]
    assert [a["author"] for a in found["experts"]] == first
    likeness = [a["likeness"] for a in found["experts"]]
    assert likeness == pytest.approx([wanted[name] ** 0.25 for name in first])
    assert (
        sum(
            a["documents"] for a in experts(made[1], text, tmp_path, corpus=corpus, n=99)["experts"]
        )
        > 100
    )


def test_one_document_may_be_rarer_than_a_topic(tmp_path):
    """Two authors share every topic; one of them alone has used the word that is asked for."""
    texts = [
        {"id": f"d{i}", "text": "sea wave tide salt " * 3 + "abcdef"[i], "authors": [f"A{i % 2}"]}
        for i in range(6)
    ]
    texts.append({"id": "d6", "text": "sea wave tide salt kraken", "authors": ["A1"]})
    source = write_jsonl(tmp_path / "in.jsonl", texts)
    topicstream.ingest(str(source), tmp_path / "c.zarr", meta={"authors": "authors"}, **PLAIN)
    train(tmp_path / "c.zarr", tmp_path / "m", algo="atm", topics=2, passes=5, tol=0, **QUIET)
    found = experts(tmp_path / "m", "kraken sea", tmp_path, corpus=tmp_path / "c.zarr")["experts"]
    assert [a["author"] for a in found] == ["A1"] and found[0]["documents"] == 4


def test_experts_need_a_store_with_authors(made, tmp_path):
    source = write_jsonl(tmp_path / "in.jsonl", [{"id": "d", "text": "skya skyb seaa landa"}])
    topicstream.ingest(str(source), tmp_path / "c.zarr", **PLAIN)
    with pytest.raises(InputError, match="no axis 'authors' in this corpus"):
        experts(made[1], "skya", tmp_path, corpus=tmp_path / "c.zarr")


def dense_perplexity(model, corpus, split, known, sweeps):
    """Author perplexity in a few dense lines."""
    phi = model.probabilities(np.arange(model.n_words))
    named = corpus.axes["authors"].size
    names = model.table("authors").names.to_pylist()
    keys = document_keys(corpus, True)
    hashes = word_keys(corpus)
    pieces = []
    for block in corpus.blocks(heldout=True, axes=["authors"]):
        own_keys = keys[block.first_doc :][: block.n_docs]
        seen, rest, _ = split_documents(documents_of_block(block, None), own_keys, hashes, split)
        who = block.rows("authors")
        for d in range(block.n_docs):
            own = who.ids[who.local[who.indptr[d] : who.indptr[d + 1]]]
            cells = [
                (h.words[h.indptr[d] : h.indptr[d + 1]], h.counts[h.indptr[d] : h.indptr[d + 1]])
                for h in (seen, rest)
            ]
            pieces.append((own if len(own) else np.array([named + block.first_doc + d]), *cells))
    size = named + 1000
    theta = np.full((size, model.n_topics), 1 / model.n_topics)
    trained = np.zeros(size, bool)
    if known:
        found, tokens = mixtures(model, np.arange(len(names)))
        for name, row, n in zip(names, found, tokens):
            at = corpus.axes["authors"].names().to_pylist().index(name)
            if n > 0:
                theta[at] = row
                trained[at] = True
    for _ in range(sweeps):
        gained = np.zeros_like(theta)
        for who, (words, x), _ in pieces:
            p = theta[who][:, None, :] * phi[words][None]
            np.add.at(gained, who, (p / p.sum((0, 2))[None, :, None] * x[None, :, None]).sum(1))
        new = gained + model.alpha
        theta = np.where(trained[:, None], theta, new / new.sum(1, keepdims=True))
    loglik = tokens = 0.0
    for who, (words, x), (scored, y) in pieces:
        p = theta[who][:, None, :] * phi[words][None]
        share = (p.sum(2) / p.sum((0, 2)) * x).sum(1) / max(x.sum(), 1e-9)
        if len(scored):
            loglik += y @ np.log(phi[scored] @ (share @ theta[who]))
            tokens += y.sum()
    return float(np.exp(-loglik / tokens))


@pytest.mark.parametrize("known", [False, True])
def test_author_perplexity_is_the_dense_one(made, known):
    model = TopicModel.open(made[1])
    corpus = Corpus.open(made[0])
    found = author_perplexity(model, corpus, split=0.8, known_only=known, tol=0.0, inner=12)
    assert found.perplexity == pytest.approx(
        dense_perplexity(model, corpus, 0.8, known, 12), rel=1e-5
    )
    assert found.sweeps <= 12 and (found.known > 8) == known
    assert (
        author_perplexity(model, corpus, split=0.8, known_only=known, tol=0.0, inner=12, threads=3)
        == found
    )
    streamed = TopicModel.open(made[1], memory_limit=0)
    assert (
        author_perplexity(streamed, corpus, split=0.8, known_only=known, tol=0.0, inner=12) == found
    )


def test_eval_prints_both_perplexities(made, capsys):
    result = topicstream.evaluate(made[1], made[0], heldout=True, authors="known", threads=1)
    assert result["authors"]["perplexity"] < 40 and "folded in" in result["authors"]["measured"]
    assert "as training left them" in result["authors_known"]["measured"]
    plain = train(made[0], made[1].parent / "bp", algo="bp", topics=TOPICS, passes=2, **QUIET).model
    assert "authors" not in topicstream.evaluate(plain, made[0], heldout=True, threads=1)
    with pytest.raises(StoreError, match="no table of authors"):
        topicstream.evaluate(plain, made[0], heldout=True, authors="folded", threads=1)
    with pytest.raises(InputError, match="--authors requires --heldout"):
        topicstream.evaluate(made[1], made[0], training=True, authors="known", threads=1)
    unread = {"heldout": True, "split": "0/100", "threads": 1}
    assert "authors" not in topicstream.evaluate(made[1], made[0], **unread)
    with pytest.raises(UsageError, match="leave out --authors"):
        topicstream.evaluate(made[1], made[0], authors="known", **unread)


def test_topics_of_documents_by_their_authors(made):
    given = [
        {"id": "a", "text": "seaa skya landa", "authors": ["Ahab 1"]},
        {"id": "b", "text": "seaa skya landa", "authors": ["Amelia 1", "nobody"]},
        {"id": "c", "text": "seaa skya landa", "authors": []},
        {"id": "d", "text": "", "authors": ["Gaia 0"]},
    ]
    found = infer(made[1], given, method="authors", threads=1).to_pylist()
    plain = infer(made[1], given, threads=1).to_pylist()
    model = TopicModel.open(made[1])
    table = TopicModel.open(made[1]).table("authors")
    phi = model.probabilities(model.vocabulary.find(["seaa", "skya", "landa"]))
    for row, name in zip(found[:2], ("Ahab 1", "Amelia 1")):
        theta = mixtures(model, np.array([table.names.to_pylist().index(name)]))[0][0]
        p = theta * phi
        wanted = (p / p.sum(1, keepdims=True)).mean(0)
        np.testing.assert_allclose(
            np.array(row["shares"])[np.argsort(row["topics"])], wanted, atol=1e-5
        )
    assert [r["shares"] for r in found[2:]] == [r["shares"] for r in plain[2:]]
    assert found[1]["authors"] == ["Amelia 1", "nobody"]
    store = infer(made[1], Corpus.open(made[0]), method="authors", threads=1).to_pylist()
    assert len(store) == 200
    bp = made[1].parent / "bp2"
    train(made[0], bp, algo="bp", topics=TOPICS, passes=1, **QUIET)
    with pytest.raises(InputError, match=r"--method authors: .* no table of authors"):
        infer(bp, given, method="authors")


def test_an_update_gives_new_authors_rows(tmp_path):
    source = write_jsonl(tmp_path / "in.jsonl", documents(120, 2))
    given = {"meta": {"authors": "authors"}, "heldout": 0, **PLAIN}
    topicstream.ingest(str(source), tmp_path / "c.zarr", **given)
    train(tmp_path / "c.zarr", tmp_path / "m", algo="atm", topics=TOPICS, passes=20, tol=0, **QUIET)
    before = TopicModel.open(tmp_path / "m").table("authors").names.to_pylist()
    more = write_jsonl(tmp_path / "more.jsonl", documents(60, 3, 120, more=["New 1", "New 2"]))
    topicstream.ingest(
        str(more), tmp_path / "c.zarr", append=True, meta={"authors": "authors"}, workers=1
    )
    done = topicstream.update(tmp_path / "c.zarr", tmp_path / "m", **QUIET)
    assert done.how == "warm"
    table = TopicModel.open(tmp_path / "m").table("authors")
    names = table.names.to_pylist()
    assert names[: len(before)] == before and set(names[len(before) :]) == {"New 1", "New 2"}
    assert (table.gather(np.arange(len(names))).sum(1) > 1).all()


@pytest.mark.parametrize("no_author", ["own", "skip"])
def test_rounding_leaves_no_count_below_zero(no_author, tmp_path):
    """Words of topics that all documents leave again: what is left is zero, and the model can be
    read.
    """
    records = [
        {
            "id": f"d{i}",
            "text": " ".join((["apple pear plum"], ["stone iron ore"])[i % 2] * 6),
            "authors": [["bob", "ann"][i % 2]] if i % 5 else [],
        }
        for i in range(60)
    ]
    topicstream.ingest(
        str(write_jsonl(tmp_path / "in.jsonl", records)),
        tmp_path / "c.zarr",
        meta={"authors": "authors"},
        **PLAIN,
        heldout="20%",
    )
    train(
        tmp_path / "c.zarr",
        tmp_path / "m",
        algo="atm",
        topics=2,
        passes=5,
        tol=0,
        options={"no_author": no_author},
        **QUIET,
    )
    model = TopicModel.open(tmp_path / "m")
    assert min(rows.min() for _, rows in model.spans()) >= 0
    assert len(infer(model, records[:3])) == 3


def test_the_command_line(made, tmp_path, capsys, monkeypatch):
    def typed(*args):
        code = run([str(a) for a in args])
        return code, capsys.readouterr().out

    model = ["--model", made[1]]
    code, said = typed("show", *model, "--authors", "-n", 2, "-k", 1)
    assert code == 0 and len(said.splitlines()) == 2
    assert (
        json.loads(typed("show", *model, "--author", "Gaia 0", "--json")[1])["author"] == "Gaia 0"
    )
    (tmp_path / "q.txt").write_text("landa landb landc")
    monkeypatch.chdir(tmp_path)
    code, said = typed("show", *model, "--experts", tmp_path / "q.txt", "-n", 3)
    assert code == 0 and "Gaia" in said and "no corpus store, so perplexity" in said
    code, said = typed(
        "show", *model, "--corpus", made[0], "--experts", tmp_path / "q.txt", "-n", 3
    )
    assert code == 0 and "Gaia" in said and "likeness of the authors' documents" in said
    assert (
        typed("show", *model, "--corpus", tmp_path / "gone.zarr", "--experts", tmp_path / "q.txt")[
            0
        ]
        == 3
    )
    assert typed("show", *model, "--authors", "--tree")[0] == 2
    assert typed("show", *model, "--author", "Nemo")[0] == 3
    code, said = typed("eval", *model, "--corpus", made[0], "--heldout", "--authors", "known")
    assert code == 0 and "author perplexity" in said and "of known authors" in said


@pytest.mark.parametrize(
    "tol, inner, sweeps", [(0.2, 9, 2), (0.19, 9, 3), (0.0, 9, 4), (0.0, 3, 3)]
)
def test_sweeps_end_where_few_tokens_of_free_authors_move(tol, inner, sweeps):
    """Tokens of two authors by sweep; the first one is known."""
    made = [[[5.0, 5], [100, 0]], [[0, 9], [90, 10]], [[5, 5], [85, 15]], [[5, 5], [85, 15]]]
    turns = iter(np.array(made))

    def spread(piece):
        return np.arange(2), None, next(turns), None

    authors = SimpleNamespace(
        fixed=np.array([True, False]),
        model=SimpleNamespace(alpha=np.array([0.5, 1.5])),
        theta=np.full((2, 2), 0.5, np.float32),
        spread=spread,
        pieces=lambda: [SimpleNamespace(local=np.array([0, 1, 1]))],
    )
    assert _TestAuthors.fold_in(authors, 1, tol, inner) == sweeps
    np.testing.assert_array_equal(authors.theta[0], 0.5)
    last = np.add(made[sweeps - 1][1], [0.5, 1.5])
    np.testing.assert_allclose(authors.theta[1], last / 102, rtol=1e-6)
