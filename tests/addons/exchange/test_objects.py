"""Models of other libraries, in memory: gensim, tomotopy, scikit-learn and pyLDAvis."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import topicstream
from tests.addons.exchange.conftest import TOPICS, WORDS, corpus_texts
from tests.addons.exchange.test_exchange import perplexity
from topicstream import TopicModel
from topicstream.base.errors import InputError
from topicstream.corpus.reader import Corpus


# -- live: where the other program is installed
# -----------------------------------------------------------------------
def bags():
    texts = [t.split() for t in corpus_texts()]
    words = sorted({w for t in texts for w in t})
    number = {w: i for i, w in enumerate(words)}
    counts = np.zeros((len(texts), len(words)), int)
    for d, text in enumerate(texts):
        for w in text:
            counts[d, number[w]] += 1
    return texts, words, counts


def test_gensim_both_ways(made):
    gensim = pytest.importorskip("gensim")
    texts, _, _ = bags()
    dictionary = gensim.corpora.Dictionary(texts)
    bow = [dictionary.doc2bow(t) for t in texts]
    theirs = gensim.models.LdaModel(
        bow, TOPICS, dictionary, passes=5, random_state=0, alpha="asymmetric"
    )
    model = TopicModel.from_gensim(theirs)
    assert np.allclose(model.topic_word, theirs.get_topics(), atol=1e-6)
    assert model.vocabulary.texts(range(3)) == [dictionary[i] for i in range(3)]
    ours = TopicModel.open(made / "sparse-bp")
    back = TopicModel.from_gensim(ours.to_gensim())
    corpus = Corpus.open(made / "c.zarr")
    assert perplexity(back, corpus) == pytest.approx(perplexity(ours, corpus), rel=1e-6)
    lda = ours.to_gensim()
    lda.iterations = 1000
    lda.gamma_threshold = 1e-6
    number = {w: i for i, w in enumerate(ours.words)}
    chunk = [sorted((number[w], t.count(w)) for w in set(t) if w in number) for t in texts[:50]]
    gamma = lda.inference(chunk)[0]
    theta = ours.transform(
        [" ".join(t) for t in texts[:50]], method="vb", options={"tol": 1e-6, "inner": 1000}
    )
    assert np.abs(gamma / gamma.sum(axis=1, keepdims=True) - theta).max() < 2e-3


def test_tomotopy(made):
    tp = pytest.importorskip("tomotopy")
    texts, _, _ = bags()
    for weight in (tp.TermWeight.ONE, tp.TermWeight.IDF):
        theirs = tp.LDAModel(k=TOPICS, seed=1, tw=weight)
        for text in texts:
            theirs.add_doc(text)
        theirs.train(50, workers=1)
        model = TopicModel.from_tomotopy(theirs)
        wanted = np.array([theirs.get_topic_word_dist(k) for k in range(TOPICS)])
        assert np.abs(model.topic_word - wanted).max() < 1e-5
        assert np.allclose(model.alpha, theirs.alpha)


def test_scikit_learn_both_ways(made):
    decomposition = pytest.importorskip("sklearn.decomposition")
    _, words, counts = bags()
    theirs = decomposition.LatentDirichletAllocation(TOPICS, random_state=0, max_iter=5).fit(counts)
    with pytest.raises(InputError, match="does not know its words"):
        TopicModel.from_sklearn(theirs)
    model = TopicModel.from_sklearn(theirs, words)
    p = theirs.components_ / theirs.components_.sum(axis=1, keepdims=True)
    assert np.abs(model.topic_word - p).max() < 1e-6
    made_ = model.to_sklearn()
    assert np.abs(made_.transform(counts) - theirs.transform(counts)).max() < 1e-4
    made_.partial_fit(counts)
    assert made_.get_feature_names_out().shape == (TOPICS,)


def test_pyldavis_itself_and_ours(made, tmp_path):
    pyldavis = pytest.importorskip("pyLDAvis")
    model = TopicModel.open(made / "sparse-bp")
    corpus = Corpus.open(made / "c.zarr")
    theta = model.transform(corpus)
    counts = corpus.to_scipy().toarray()
    page = pyldavis.prepare(
        model.topic_word.astype(float),
        theta,
        counts.sum(axis=1),
        model.words,
        counts.sum(axis=0),
        R=WORDS,
        n_jobs=1,
        mds=lambda topics: np.eye(
            len(topics), 2
        ),  # its own makes complex numbers, which it cannot write
    )
    (tmp_path / "p.json").write_text(page.to_json())
    topicstream.import_model(tmp_path / "p.json", tmp_path / "m", alpha=model.alpha[0])
    back = TopicModel.open(tmp_path / "m")
    order = model.vocabulary.find(back.words)
    assert np.abs(back.topic_word - model.topic_word[:, order]).max() < 1e-5
    topicstream.export_model(model, tmp_path / "ours.json", words=WORDS)
    ours = json.loads((tmp_path / "ours.json").read_text())
    theirs = json.loads((tmp_path / "p.json").read_text())
    assert set(ours) == set(theirs) and set(ours["tinfo"]) == set(theirs["tinfo"])
    assert set(ours["mdsDat"]) == set(theirs["mdsDat"]) and set(ours["token.table"]) == set(
        theirs["token.table"]
    )


def test_a_gensim_model_reads_text_by_the_tokenizer_that_is_named():
    words = ["lost", "the", "luggage", "late"]
    state = SimpleNamespace(get_lambda=lambda: np.array([[9.0, 1, 9, 0.1], [0.1, 1, 0.1, 9]]) + 0.1)
    theirs = SimpleNamespace(
        state=state, eta=np.full(4, 0.1), alpha=np.full(2, 0.1), id2word=dict(enumerate(words))
    )
    text = ["The LOST luggage"]
    by_default = TopicModel.from_gensim(theirs).transform(text)
    assert by_default[0, 0] > 0.9
    np.testing.assert_allclose(
        by_default,
        TopicModel.from_gensim(theirs).transform([["the", "lost", "luggage"]]),
        atol=1e-6,
    )
    options = {"lowercase": False, "stopwords": ["The"]}
    known = TopicModel.from_gensim(theirs, tokenizer=options).infer(text)
    assert known["tokens"].to_pylist() == [2.0] and known["oov_rate"].to_pylist() == [0.5]
    with pytest.raises(InputError, match="lower"):
        TopicModel.from_gensim(theirs, tokenizer={"lower": False})
    with pytest.raises(InputError, match="give options of ingest"):
        TopicModel.from_gensim(theirs, tokenizer="english")
