"""rtm against its dense twin; its limits, where it is bp; and that links do what they should."""

import itertools

import numpy as np
import pytest

import topicstream
from tests.ingest_tools import write_jsonl
from tests.message_driver import Driver, dense_block
from tests.planted import store
from tests.reference import rtm as twin
from tests.reference.bp import sums
from tests.retrain_tools import folder, write
from tests.retrain_tools import made as retrain_documents
from tests.visits import out_for, pass_end
from topicstream.addons.links.engine import RelationalTopicModel
from topicstream.base.errors import StoreError
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.block import AxisRows, Block
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Key, Rows, Rule, Shape, Visit
from topicstream.engines.message.bp import BeliefPropagation
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train

K = 4


def corpus(seed=3, docs=12, words=14):
    """Counts, messages to start from, and links: document 2 has none, 4 no words (but links), 0
    many.
    """
    rng = np.random.default_rng(seed)
    x = rng.poisson(0.8, (docs, words))
    x[:, 0] += 1
    x[4] = 0
    mu = (
        rng.dirichlet(np.ones(K), x.shape).astype(np.float32).astype(np.float64)
        * (x > 0)[:, :, None]
    )
    linked = [set() for _ in range(docs)]
    for a, b in [(0, j) for j in range(3, docs)] + [(1, 4), (1, 5), (3, 6), (7, 8), (9, 11)]:
        linked[a].add(b)
        linked[b].add(a)
    return x, mu, [sorted(s) for s in linked]


def linked_block(x, index, first, linked):
    block = dense_block(x, index, first)
    ids = np.unique([e for own in linked for e in own]).astype(np.int32)
    ptr = np.cumsum([0, *map(len, linked)]).astype(np.int64)
    local = np.searchsorted(ids, [e for own in linked for e in own]).astype(np.int32)
    axes = {"links": AxisRows(ids, ptr, local)}
    return Block(
        index, first, block.indptr, block.words, block.counts, block.vocab, block.tokens, axes
    )


class LinkedDriver(Driver):
    """A driver with a second table, theta."""

    def __init__(self, x, mu, linked, cuts=(), **options):
        edges = list(itertools.pairwise([0, *cuts, len(x)]))
        blocks = [linked_block(x[a:b], i, a, linked[a:b]) for i, (a, b) in enumerate(edges)]
        memories = [{"messages": mu[a:b][x[a:b] > 0].astype(np.float32)} for a, b in edges]
        shape = Shape(
            len(x), x.shape[1], int((x > 0).sum()), float(x.sum()), K, axes={"links": len(x)}
        )
        engine = RelationalTopicModel(
            shape, RelationalTopicModel.Options(**{"alpha": 0.3, "beta": 0.02, **options})
        )
        super().__init__(engine, blocks, memories)
        theta, phi, _ = sums(x, mu)
        self.phi[:, :K] = phi
        self.theta = np.zeros((len(x), self.kp), np.float32)
        self.theta[:, :K] = theta
        self.loglik = 0.0

    def sweep(self, passes=1, seed=0):
        for number in range(1, passes + 1):
            fresh = np.zeros_like(self.phi)
            theta = np.full_like(self.theta, np.nan)
            stats = {n: np.zeros(k) for n, k in self.engine.stats.items()}
            for b, block in enumerate(self.blocks):
                rows = {
                    "phi": Rows(self.phi.astype(np.float32), block.vocab.astype(np.int64)),
                    "theta": Rows(self.theta, block.rows("links").ids.astype(np.int64)),
                }
                delta = {
                    "phi": np.full((block.n_words, self.kp), np.nan, np.float32),
                    "theta": np.full((block.n_docs, self.kp), np.nan, np.float32),
                }
                out = out_for(self.engine, block, delta, self.scratch)
                totals = {"phi": self.phi.sum(0)}
                self.engine.process(
                    Visit(block, rows, totals, self.memory[b], self.params, Key(seed, number)), out
                )
                target = fresh if self.engine.tables["phi"].rule is Rule.REPLACE else self.phi
                target[block.vocab] += out.delta["phi"]
                theta[block.first_doc : block.first_doc + block.n_docs] = out.delta["theta"]
                self.memory[b] = out.state
                for name, value in out.stats.items():
                    stats[name] += value
            self.theta = theta
            if self.engine.tables["phi"].rule is Rule.REPLACE:
                self.phi = fresh
            self.engine.end_pass(pass_end(self.params, stats, {"phi": self.phi.sum(0)}))
            self.loglik = float(stats["loglik"][0])
        return self

    @property
    def stored(self):
        return np.concatenate([m["messages"].reshape(-1, K) for m in self.memory])


@pytest.mark.parametrize("form", ["rows", "columns", "identity"])
@pytest.mark.parametrize("renormalise", [False, True])
@pytest.mark.parametrize(("schedule", "cuts"), [("async", ()), ("sync", ()), ("sync", (3, 4, 7))])
def test_the_twin_message_by_message(schedule, cuts, renormalise, form):
    x, mu, linked = corpus()
    options = {"xi": 0.4, "schedule": schedule, "eta": form, "renormalise": renormalise}
    driver = LinkedDriver(x, mu, linked, cuts, **options).sweep(4)
    want, eta, loglik = twin.passes(
        x, mu, linked, 4, 0.3, 0.02, 0.4, schedule == "async", form, renormalise
    )
    np.testing.assert_allclose(driver.stored, want[x > 0], atol=4e-6)
    np.testing.assert_allclose(driver.params["eta"], eta, atol=1e-6)
    np.testing.assert_allclose(driver.theta[:, :K], sums(x, want)[0], atol=4e-5)
    assert driver.loglik == pytest.approx(loglik, rel=1e-5)
    assert np.all(driver.theta[:, K:] == 0) and np.all(driver.theta[4] == 0)


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_without_xi_or_without_links_it_is_bp(schedule):
    x, mu, linked = corpus()
    shape = Shape(len(x), x.shape[1], int((x > 0).sum()), float(x.sum()), K)
    given = {"alpha": 0.3, "beta": 0.02, "schedule": schedule}
    bp = Driver(
        BeliefPropagation(shape, BeliefPropagation.Options(**given)),
        [dense_block(x)],
        [{"messages": mu[x > 0].astype(np.float32)}],
    )
    bp.phi[:, :K] = sums(x, mu)[1]
    for _ in range(4):
        bp.sweep()
    want = bp.memory[0]["messages"].reshape(-1, K)
    none = [[] for _ in linked]
    for xi, links in ((0.0, linked), (0.15, none), (1.0, none)):
        np.testing.assert_allclose(
            LinkedDriver(x, mu, links, xi=xi, schedule=schedule).sweep(4).stored, want, atol=1e-6
        )
    near = [
        np.abs(LinkedDriver(x, mu, linked, xi=xi, schedule=schedule).sweep(4).stored - want).max()
        for xi in (1e-2, 1e-4, 1e-5)
    ]
    assert near[0] > near[1] > near[2] and near[2] < 1e-3  # bp is the limit


def test_a_document_whose_links_lead_nowhere_is_as_if_it_had_none():
    x, mu, linked = corpus()
    only_empty = [[4] if d == 2 else [e for e in own if e != 4] for d, own in enumerate(linked)]
    without = [[] if d == 2 else own for d, own in enumerate(only_empty)]
    a, b = (LinkedDriver(x, mu, links, xi=0.5).sweep(3).stored for links in (only_empty, without))
    np.testing.assert_array_equal(a, b)


# -- through a store
# -------------------------------------------------------------------------------------------------
def communities(docs=240, seed=0, links=4, mixed=0.0, length=16):
    """Documents of which a third of the words tells the community, that link within it (but for a
    share ``mixed``).
    """
    rng = np.random.default_rng(seed)
    main = rng.integers(K, size=docs)
    indptr = [0]
    words = []
    counts = []
    targets = []
    for d in range(docs):
        own = rng.random(length) < 1 / 3
        drawn = np.where(
            own, 20 * main[d] + rng.integers(20, size=length), rng.integers(150, size=length)
        )
        ids, n = np.unique(drawn, return_counts=True)
        words.append(ids.astype(np.int32))
        counts.append(n)
        indptr.append(indptr[-1] + len(ids))
        among = np.arange(docs) if rng.random() < mixed else np.flatnonzero(main == main[d])
        targets.append([f"d{e}" for e in rng.choice(among, links) if e != d])
    return (np.array(indptr), np.concatenate(words), np.concatenate(counts)), main, targets


def fit(path, folder, **given):
    options = given.pop("options", {})
    settings = {"topics": K, "passes": 30, "tol": 0.0, "threads": 1, "start": "random", "seed": 1}
    train(path, folder, algo="rtm", options=options, progress=Progress(-1), **{**settings, **given})
    return TopicModel.open(folder)


def purity(theta, main):
    """Share of documents whose topic is that of most documents of their community."""
    best = theta.argmax(1)
    return sum(np.bincount(main[best == k]).max(initial=0) for k in range(theta.shape[1])) / len(
        main
    )


@pytest.mark.slow
def test_planted_communities_are_found_with_links_and_not_as_well_without(tmp_path):
    forms = {"without": {"xi": 0.0}, "the paper's": {"xi": 0.15, "eta": "rows"}, "same topic": {}}
    found = {name: [] for name in forms}
    for seed in range(3):
        cells, main, targets = communities(seed=seed)
        path = store(tmp_path / f"c{seed}.zarr", *cells, 150, lists={"links": targets})
        for name, options in forms.items():
            model = fit(path, tmp_path / "m", force=True, options={"alpha": 0.1, **options})
            found[name].append(purity(model.table("theta").gather(np.arange(240)), main))
    gain = np.subtract(found["the paper's"], found["without"])
    assert gain.min() > 0 and gain.mean() > 0.03, found
    assert min(found["same topic"]) > 0.95, found


def test_the_order_and_direction_of_links_change_nothing_nor_do_those_that_lead_out_of_training(
    tmp_path,
):
    cells, _, targets = communities(docs=120)
    turned = [[] for _ in targets]
    for d, own in enumerate(targets):
        for e in reversed(own):
            turned[int(e[1:])].append(f"d{d}")
    more = [[*own, "nobody", f"d{d}"] for d, own in enumerate(targets)]
    kept = [
        own if d < 100 else []
        for d, own in enumerate([[e for e in t if int(e[1:]) < 100] for t in targets])
    ]
    made = []
    for i, lists in enumerate((targets, turned, more, kept)):  # the last 20 documents are held out
        path = store(tmp_path / f"c{i}.zarr", *cells, 150, heldout=20, lists={"links": lists})
        model = fit(path, tmp_path / f"m{i}", passes=5)
        made.append(
            (
                model.probabilities(np.arange(150)).tobytes(),
                model.table("eta").gather(np.arange(K)).tobytes(),
            )
        )
    assert len(set(made)) == 1


def test_a_link_to_a_removed_document_is_not_used(tmp_path):
    documents = [
        {
            "id": f"d{i}",
            "text": f"word{i % 7}x word{i % 5}y word{i % 3}z",
            "links": [f"d{(i + 1) % 40}"],
        }
        for i in range(40)
    ]
    given = {
        "meta": {"links": "links"},
        "min_df": 1,
        "max_df": 1.0,
        "stopwords": "none",
        "workers": 1,
        "heldout": 0,
    }
    topicstream.ingest(
        str(write_jsonl(tmp_path / "a.jsonl", documents)), tmp_path / "c.zarr", **given
    )
    fit(tmp_path / "c.zarr", tmp_path / "m", passes=2)
    topicstream.forget("d3", corpus=tmp_path / "c.zarr", models=[tmp_path / "m"])
    with pytest.raises(StoreError, match="has no table of theta"):  # it held the topics of d3
        TopicModel.open(tmp_path / "m").table("theta")
    assert not list((tmp_path / "m").glob("table-theta*")) and list(
        (tmp_path / "m").glob("table-eta*")
    )
    axis = Corpus.open(tmp_path / "c.zarr").axes["links"]
    assert "d3" not in axis.names().to_pylist() and axis.entries == 2 * 38
    model = fit(tmp_path / "c.zarr", tmp_path / "m", passes=3)
    assert model.table("theta").n_rows == 39


def test_a_store_without_links_is_refused_and_one_whose_links_lead_nowhere_warned_of(tmp_path):
    cells, _, targets = communities(docs=60)
    path = store(tmp_path / "none.zarr", *cells, 150)
    with pytest.raises(
        StoreError, match="no axis 'links' in this corpus, it has words; ingest with --meta links"
    ):
        fit(path, tmp_path / "m")
    path = store(
        tmp_path / "dangling.zarr", *cells, 150, lists={"links": [["nobody"] for _ in targets]}
    )
    said = []

    class Told(Progress):
        def say(self, line):
            said.append(line)

    train(path, tmp_path / "m", algo="rtm", topics=K, passes=3, tol=0, threads=1, progress=Told(-1))
    assert "warning: no training document links to another: rtm trains like bp" in said


def test_an_update_takes_new_documents_and_their_links(tmp_path):
    def documents(first, stop):
        texts = (
            " ".join(f"word{(i % 3) * 10 + j * i % 10}x" for j in range(20))
            for i in range(first, stop)
        )
        return [
            {"id": f"d{i}", "text": text, "links": [f"d{i % 3 + 3 * (i % 7)}"]}
            for i, text in enumerate(texts, first)
        ]

    given = {
        "meta": {"links": "links"},
        "min_df": 1,
        "max_df": 1.0,
        "stopwords": "none",
        "workers": 1,
        "heldout": 0,
    }
    path = tmp_path / "c.zarr"
    topicstream.ingest(str(write_jsonl(tmp_path / "a.jsonl", documents(0, 60))), path, **given)
    fit(path, tmp_path / "m", topics=3, passes=4)
    topicstream.ingest(
        str(write_jsonl(tmp_path / "b.jsonl", documents(60, 90))),
        path,
        append=True,
        meta={"links": "links"},
    )
    made = topicstream.update(model=tmp_path / "m", corpus=path, passes=2, threads=1)
    assert made.how == "warm"
    theta = TopicModel.open(tmp_path / "m").table("theta")
    TopicModel.open(tmp_path / "m").save(tmp_path / "copy")  # topics alone: a model like any other
    with pytest.raises(StoreError, match="has no table of theta; it has only topics"):
        TopicModel.open(tmp_path / "copy").table("theta")
    assert theta.n_rows == 90 and (theta.gather(np.arange(90)).sum(1) > 0).all()


@pytest.mark.product
def test_retrain_publishes_models_with_links(tmp_path):
    config = folder(tmp_path)
    text = (
        config.read_text()
        .replace("[ingest]", '[ingest]\nmeta = {links = "links"}')
        .replace("[train]", '[train]\nalgo = "rtm"')
    )
    config.write_text(text)
    for name, first in (("a", 0), ("b", 300)):
        documents = retrain_documents(300 if name == "a" else 60, seed=first + 1, prefix=name)
        write(
            tmp_path / "raw" / f"{name}.jsonl",
            [d | {"links": [f"a{(i * 7) % 300}"]} for i, d in enumerate(documents)],
        )
        topicstream.retrain(config)
        theta = TopicModel.open(tmp_path / "current").table("theta")
        assert theta.axis == "documents" and theta.n_rows > first
