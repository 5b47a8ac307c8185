"""Seed words beside every engine, found by scan: they decide, nothing wears them off, and they
leave no other trace.
"""

from __future__ import annotations

import numpy as np
import pytest
from checkpoint_bits import content_hash

from tests.contract.test_engines import IDS, TOPICS, VARIANTS, run
from tests.planted import draw, sides, store
from topicstream import TopicModel
from topicstream.corpus.reader import Corpus
from topicstream.engines import engines
from topicstream.engines.base import Rule

TAKING = [(v, i) for v, i in zip(VARIANTS, IDS, strict=True) if engines()[v[0]].about.constants]
ORDER = [2, 0, 4, 1, 3]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    phi, indptr, words, counts = draw(docs=400, words=120, topics=TOPICS, length=60, seed=3)
    path = tmp_path_factory.mktemp("seeded") / "corpus.zarr"
    store(
        path,
        indptr,
        words,
        counts,
        120,
        heldout=40,
        lists=sides(phi, indptr, words, counts, seed=4),
    )
    return path, phi


def seeds_in(order: list[int], phi: np.ndarray, strength: int | None = None) -> dict:
    """Topic i of the file has the three words that mark planted topic order[i]."""
    marks = phi / phi.sum(0)
    found = {}
    for i, k in enumerate(order):
        words = np.argsort(-marks[k] * np.sqrt(phi[k]))[:3]
        found[f"planted {k} as {i}"] = {
            "words": [f"word{w}" for w in words],
            **({"strength": strength} if strength else {}),
        }
    return found


@pytest.mark.quick("sparse-bp", "gs")
@pytest.mark.parametrize(("name", "options"), [v for v, _ in TAKING], ids=[i for _, i in TAKING])
class TestSeedWords:
    def test_decide_which_topic_is_which(self, name, options, planted, tmp_path):
        path, phi = planted
        if engines()[name].about.topics_axis:
            pytest.skip("labels decide it; their seeds are looked at below")
        seeds = seeds_in(ORDER, phi, 300)
        run(path, tmp_path / "m", name, options, passes=6, threads=2, seed_words=seeds)
        model = TopicModel.open(tmp_path / "m")
        p = model.probabilities(np.arange(120)).T
        near = (np.sqrt(p) @ np.sqrt(phi).T).argmax(1)  # Bhattacharyya: 1 where equal
        # one topic may be two at once, in a few passes
        assert (near == ORDER).sum() >= 4, near
        assert model.labels == dict(enumerate(seeds))

    def test_stay_what_they_are_and_are_not_counted(self, name, options, planted, tmp_path):
        """A word of one planted topic is seeded into another: the corpus says otherwise in every
        pass.
        """
        path, phi = planted
        corpus = Corpus.open(path)
        n_w = corpus.word_counts()
        alien = int(np.argmax(np.where(phi[0] < 1e-3, n_w, 0)))
        names = ["label 0", "label 1"] if engines()[name].about.topics_axis else ["zero", "one"]
        seeds = {names[0]: {"words": ["word1"]}, names[1]: [f"word{alien}", "word5"]}
        run(path, tmp_path / "m", name, options, passes=6, seed_words=seeds)
        model = TopicModel.open(tmp_path / "m")
        blended = (
            engines()[name](corpus_shape(corpus), engines()[name].Options(**options))
            .tables["phi"]
            .rule
            is Rule.BLEND
        )
        counts = np.concatenate([rows.copy() for _, rows in model.counts()])
        assert counts.sum() == pytest.approx(corpus.n_tokens, rel=0.05 if blended else 1e-5)
        assert counts.min() >= -1e-3
        added = model.rows(np.arange(120)) - counts
        there = next(k for k, label in model.labels.items() if label == names[1])
        assert added[alien, there] == pytest.approx(n_w[alien], rel=1e-5)
        assert np.count_nonzero(added) == np.count_nonzero(n_w[[1, alien, 5]])
        assert model.totals.sum() == pytest.approx(model.sizes.sum() + n_w[[1, alien, 5]].sum())

    def test_any_threads_a_resume_and_tables_on_disk_give_the_same_bits(
        self, name, options, planted, tmp_path
    ):
        path, phi = planted
        seeds = seeds_in(ORDER, phi)
        if engines()[name].about.topics_axis:
            seeds = {f"label {i}": topic for i, topic in enumerate(seeds.values())}
        run(path, tmp_path / "one", name, options, seed_words=seeds)
        expected = content_hash(tmp_path / "one")
        for passes, tables in ((1, "memory"), (3, "disk")):
            run(
                path,
                tmp_path / "resumed",
                name,
                options,
                seed_words=seeds,
                passes=passes,
                tables=tables,
                threads=3,
            )
        assert content_hash(tmp_path / "resumed") == expected


def corpus_shape(corpus: Corpus):
    from topicstream.engines.base import Shape

    axes = {name: corpus.axes[name].size for name in ("authors", "labels", "links")}
    return Shape(
        corpus.n_docs, corpus.n_words, corpus.n_cells, float(corpus.n_tokens), TOPICS, axes=axes
    )
