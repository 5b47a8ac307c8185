"""Seed words: the file, what becomes of it, twins of the engines with it, the model and the commands that use it."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from scipy.special import gammaln

from tests import gibbs_driver
from tests.engines import test_bp, test_tbp, test_variational
from tests.message_driver import Driver
from tests.planted import draw, store
from tests.reference import bp as bp_twin
from tests.reference import tbp as tbp_twin
from tests.reference import variational as variational_twin
from tests.visits import Pieces, out_for, pass_end, unwritten
from topicstream import TopicModel
from topicstream.cli import main
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Key, Scratch, TableSpec, Visit
from topicstream.engines.gibbs.gs import GibbsSampling
from topicstream.engines.gibbs.sparselda import SparseLDA
from topicstream.errors import InputError, StoreError, UsageError
from topicstream.kernels.constants import Constants
from topicstream.model.seeds import read_seeds, resolve
from topicstream.model.vocabulary import Vocabulary
from topicstream.tables.layouts import new_table
from topicstream.training.loop import train


def serial(work, n):
    for i in range(n):
        work(i)


def fill(table, counts):
    """Set a table's rows to counts [W, K]."""
    wide = np.zeros((len(counts), table.width), np.float32)
    wide[:, : counts.shape[1]] = counts
    table.fill(lambda a, b: wide[a:b])


def constants(words: int, topics: int, seed: int = 0, whole: bool = True) -> tuple[Constants, np.ndarray]:
    """A few constants, and the same as a dense [W, K]."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((words, topics))
    at = rng.choice(words, max(2, words // 4), replace=False)
    dense[at, rng.integers(0, topics, len(at))] = rng.integers(1, 40, len(at)) if whole else rng.random(len(at)) * 40
    dense[at[0]] += 3.0
    row, topic = np.nonzero(dense)
    order = rng.permutation(len(row))
    return Constants(row[order], topic[order], dense[row, topic][order], topics), dense


class TestConstants:
    @pytest.mark.parametrize("place", ["memory", "disk"])
    @pytest.mark.parametrize("layout", ["dense", "packed"])
    def test_are_added_where_rows_are_gathered_and_nowhere_else(self, layout, place, tmp_path):
        rng = np.random.default_rng(1)
        counts = rng.poisson(0.7, (90, 7)).astype(np.float64)
        c, dense = constants(90, 7)
        spec = (
            TableSpec(dtype="int32", layout="packed", delta="sparse", mass="row") if layout == "packed" else TableSpec()
        )
        path = tmp_path if place == "disk" else None
        table = new_table(spec, 90, 7, counts.sum(1), path, serial, c)
        fill(table, counts)
        for ids in (np.arange(90, dtype=np.int32), np.array([2, 3, 50, 89], np.int32), c.ids[:1]):
            got = table.gather(ids, Scratch())
            if layout == "packed":
                seen = np.zeros((len(ids), 7))
                start = np.concatenate(([0], np.cumsum(got.length)))
                arena = np.zeros(start[-1], np.uint32)
                for a, b in ((0, len(ids) // 2), (len(ids) // 2, len(ids))):
                    got.copy(a, b, start[a:b], arena)
                for u in range(len(ids)):
                    entries = arena[start[u] : start[u + 1]]
                    assert (np.diff((entries >> got.bits).astype(int)) <= 0).all()
                    seen[u, entries & ((1 << got.bits) - 1)] = entries >> got.bits
                assert got.largest >= seen.max()
            else:
                seen = got.base[got.index][:, :7] * got.scale
                np.testing.assert_array_equal(got.base[got.counts][:, :7], counts[ids])
            np.testing.assert_allclose(seen, (counts + dense)[ids])
            np.testing.assert_array_equal(table.dense(ids, np.zeros((len(ids), 16), np.float32))[:, :7], counts[ids])
        np.testing.assert_allclose(table.seen_totals[:7], (counts + dense).sum(0))
        np.testing.assert_allclose(table.totals[:7], counts.sum(0))
        np.testing.assert_array_equal(np.concatenate([r[:, :7].copy() for _, r in table.pieces()]), counts)
        table.close()

    @pytest.mark.parametrize("place", ["memory", "disk"])
    def test_no_blending_rescaling_or_loading_wears_them_off(self, place, tmp_path):
        c, dense = constants(40, 5, whole=False)
        table = new_table(TableSpec(), 40, 5, None, tmp_path if place == "disk" else None, serial, c)
        counts = np.random.default_rng(0).random((40, 5)).astype(np.float32) * 9
        ids = np.arange(40, dtype=np.int32)

        def seen():
            got = table.gather(ids, Scratch())
            return got.base[got.index][:, :5] * got.scale

        fill(table, counts)
        for rho in (0.5, 0.9, 0.999, 0.99):
            np.testing.assert_allclose(seen(), counts + dense, rtol=1e-5)
            table.blend(rho)
            counts = counts * (1 - rho)
        np.testing.assert_allclose(seen(), counts + dense, rtol=1e-5)
        table.settle()
        table.save(tmp_path / "saved")
        np.testing.assert_allclose(seen(), counts + dense, rtol=1e-5)
        table.clear()
        np.testing.assert_allclose(seen(), dense, rtol=1e-6)
        table.load(tmp_path / "saved")
        np.testing.assert_allclose(seen(), counts + dense, rtol=1e-5)
        table.close()

    def test_evidence_is_that_of_a_dense_prior(self):
        c, dense = constants(30, 4, whole=False)
        counts, beta = np.random.default_rng(2).random((30, 4)) * 20, 0.05

        def of(prior):
            hat = counts + prior
            own = gammaln(hat).sum(0) - gammaln(hat.sum(0))
            return (own - gammaln(prior).sum(0) + gammaln(prior.sum(0))).sum()

        change = of(beta + dense) - of(np.full((30, 4), beta))
        found = np.zeros(len(c.weight))
        for first in (0, 7):
            c.take(first, counts[first : 7 if first == 0 else 30], found)
        assert c.evidence(found, counts.sum(0), beta, 30 * beta) == pytest.approx(change, rel=1e-9)


class SeededDriver(Driver):
    """Rows come from a table with constants."""

    def __init__(self, driver, c, path):
        self.__dict__.update(driver.__dict__)
        self.c, self.path = c, path

    def rows(self, block):
        table = new_table(TableSpec(), *self.phi[:, : self.c.columns].shape, None, self.path, serial, self.c)
        fill(table, self.phi[:, : self.c.columns])
        return {"phi": table.gather(block.vocab, Scratch())}, {"phi": self.phi.sum(0) + self.c.totals}


class TestTwins:
    @pytest.mark.parametrize("place", ["memory", "disk"])
    @pytest.mark.parametrize("schedule", ["async", "sync"])
    @pytest.mark.parametrize("kind", test_bp.ENGINES)
    def test_belief_propagation(self, kind, schedule, place, tmp_path):
        x = test_bp.corpus()
        mu = test_bp.random_messages(x)
        c, dense = constants(x.shape[1], test_bp.K, whole=False)
        driver = test_bp.driver_at(kind, x, mu, schedule=schedule)
        driver = SeededDriver(driver, c, tmp_path if place == "disk" else None)
        twin = bp_twin.asynchronous if schedule == "async" else bp_twin.synchronous
        for _ in range(3):
            driver.sweep()
            mu = twin(x, mu, 0.3, 0.02 + dense, kind)
        np.testing.assert_allclose(test_bp.stored(driver), mu[x > 0], atol=3e-6)
        np.testing.assert_allclose(driver.phi[:, : test_bp.K], bp_twin.sums(x, mu)[1], atol=3e-5)

    @pytest.mark.parametrize("topics", [5, 37])
    def test_tiny_belief_propagation_shrinks_counts_alone(self, topics):
        block = test_tbp.make_block()
        c, dense = constants(block.n_words, topics, whole=False)
        by_vocabulary = Constants(block.vocab[c.words], c.topic, c.weight, topics)
        engine = test_tbp.make_engine("atbp", block, topics)
        engine.shape = replace(engine.shape, seeds=by_vocabulary)
        phi, theta = test_tbp.random_state(block, topics)
        out = test_tbp.buffers(engine, block)
        table = new_table(TableSpec(), int(block.vocab.max()) + 1, topics, None, None, serial, by_vocabulary)
        full = np.zeros((table.n_rows, topics), np.float32)
        full[block.vocab] = phi
        fill(table, full)
        memory = {"theta": test_tbp.wide(theta)}
        totals = {"phi": table.seen_totals}
        rows = {"phi": table.gather(block.vocab, Scratch())}
        engine.process(Visit(block, rows, totals, memory, engine.initial_params(), Key(0, 1)), out)
        want, lam = phi.copy(), phi.sum(0)
        params = engine.initial_params()
        loglik = tbp_twin.atbp_pass(
            block.indptr, block.words, block.counts, want, theta, lam, params["alpha"], float(params["beta"][0]) + dense
        )
        np.testing.assert_allclose(out.delta["phi"][:, :topics], want - phi, atol=5e-4)
        np.testing.assert_allclose(out.state["theta"][:, :topics], theta, atol=5e-4)
        assert out.stats["loglik"][0] == pytest.approx(loglik, rel=1e-4)
        assert want.min() >= 0  # with seeds among what is shrunk, some counts would have to be negative

    @pytest.mark.parametrize("kind", [GibbsSampling, SparseLDA])
    @pytest.mark.parametrize("place", ["memory", "disk"])
    def test_gibbs_weighs_seeds_as_counts_that_never_move(self, kind, place, tmp_path):
        block = gibbs_driver.random_block(3, 20, 30, 25)
        topics = 6
        c, dense = constants(30, topics)
        rng = np.random.default_rng(0)
        z = rng.integers(0, topics, int(block.tokens)).astype(np.uint8)
        n_wt = gibbs_driver.table_of(block, z, topics)
        spec = TableSpec(dtype="int32", layout="packed", delta="sparse", mass="row")
        table = new_table(
            spec, 30, topics, n_wt.sum(1).astype(float), tmp_path if place == "disk" else None, serial, c
        )
        fill(table, n_wt)
        engine = gibbs_driver.make(kind, block, topics, 30, alpha=0.2, beta=0.05)
        params = engine.initial_params()
        key = Key(5, 1)
        from_table = gibbs_driver.draw(
            engine, block, z, table.gather(block.vocab, Scratch()), table.seen_totals[:topics], params, key
        )
        # the twin: the plain conditional with n_wt + s_wt, uniforms in its own order
        assert_same = gibbs_driver.draw(
            engine, block, z, gibbs_driver.pack_rows(n_wt + dense.astype(int)), (n_wt + dense).sum(0), params, key
        )
        assert from_table.stats["loglik"][0] == pytest.approx(
            plain_loglik(block, z, from_table.state["z"], n_wt, dense, 0.2, 0.05), rel=1e-9
        )
        if kind is GibbsSampling:  # sparselda searches equal counts in the order of its lists
            np.testing.assert_array_equal(from_table.state["z"], assert_same.state["z"])
        table.close()

    @pytest.mark.parametrize("point", ["dirichlet", "point"])
    def test_variational_bayes_and_its_bound(self, point, tmp_path):
        block, phi = test_variational.corpus(), test_variational.table()
        k, width = test_variational.K, len(phi)
        c, dense = constants(width, k, whole=False)
        engine = test_variational.make(
            test_variational.VariationalBayes, phi=point, beta=0.1, inner_tol=0.0, inner_max=7
        )
        table = new_table(TableSpec(), width, k, None, None, serial, c)
        fill(table, phi[:, :k])
        out = out_for(engine, block, unwritten(block, phi.shape[1]))
        rows, totals = {"phi": table.gather(block.vocab, Scratch())}, {"phi": table.seen_totals}
        engine.process(Visit(block, rows, totals, {}, engine.initial_params(), Key(0, 1)), out)
        log_phi = variational_twin.expected_log(phi[:, :k], 0.1 + dense, point == "point")
        alpha = engine.initial_params()["alpha"]
        want, total, docs = np.zeros((width, k)), 0.0, []
        for words, x in test_variational.documents(block):
            r, _ = variational_twin.dense_document(log_phi[words], x, alpha, 7)
            want[words] += x[:, None] * r
            total += variational_twin.bound(log_phi[words], x, alpha, r)
            docs.append((words, x, r))
        np.testing.assert_allclose(out.delta["phi"][:, :k], want, atol=2e-4 * block.counts.max())
        assert out.stats["bound"][0] == pytest.approx(total, rel=1e-6)
        if point == "dirichlet":  # the table is now the sum of the statistics: the whole bound
            engine.shape = replace(engine.shape, seeds=c)
            statistic = out.delta["phi"].copy()
            tables = {"phi": Pieces(statistic[:20], statistic[20:])}
            record = engine.end_pass(pass_end(engine.initial_params(), out.stats, {}, tables))
            log_new = variational_twin.expected_log(want, 0.1 + dense)
            local = sum(variational_twin.bound(log_new[w], x, alpha, r) for w, x, r in docs)
            hat, prior = want + 0.1 + dense, np.broadcast_to(0.1 + dense, want.shape)
            log_b = (gammaln(hat).sum(0) - gammaln(hat.sum(0)) - gammaln(prior).sum(0) + gammaln(prior.sum(0))).sum()
            assert record["bound"] == pytest.approx(local + log_b + ((prior - hat) * log_new).sum(), rel=1e-5)


def plain_loglik(block, z, after, n_wt, dense, alpha, beta):
    """sum of log p(w | d) of the draws that led from z to ``after``, by the plain conditional with n_wt + s_wt."""
    counts, total, i = (n_wt + dense).astype(float), 0.0, 0
    sums, width, k = counts.sum(0), len(n_wt) * beta, n_wt.shape[1]
    for d in range(block.n_docs):
        cells = range(block.indptr[d], block.indptr[d + 1])
        n = sum(int(block.counts[c]) for c in cells)
        n_td = np.bincount(z[i : i + n], minlength=k).astype(float)
        for c in cells:
            for _ in range(block.counts[c]):
                w, old, new = block.words[c], z[i], after[i]
                for topic, step in ((old, -1), (new, 1)):
                    if step == 1:
                        p = (alpha + n_td) * (beta + counts[w]) / (width + sums)
                        total += np.log(p.sum() / (k * alpha + n - 1))
                    counts[w, topic] += step
                    sums[topic] += step
                    n_td[topic] += step
                i += 1
    return total


FILE = """
strength = 50

[hockey]
words = ["word3", "word7", "WORD11"]

[space]
words = ["word20", "nothere"]
strength = 400
"""


class TestTheFile:
    def test_order_names_and_strengths(self, tmp_path):
        path = tmp_path / "seeds.toml"
        path.write_text(FILE)
        hockey, space = read_seeds(path)
        assert (hockey.name, hockey.words, hockey.strength) == ("hockey", ("word3", "word7", "WORD11"), 50)
        assert (space.name, space.strength) == ("space", 400)
        assert read_seeds({"hockey": ["a"], "b": {"words": ["c"], "strength": 2}})[1].strength == 2

    def test_resolved_by_word_or_its_small_letters(self):
        vocabulary = Vocabulary.of([f"word{i}" for i in range(30)])
        c, entries, told = resolve(
            read_seeds({"a": ["WORD11", "word3", "word11"], "b": {"words": ["word3", "x\x1by"], "strength": 9}}),
            vocabulary,
            np.arange(30.0),
            4,
        )
        dense = np.zeros((30, 16))
        c.add(dense, c.ids.astype(np.int64), np.arange(len(c)))
        assert dense[11, 0] == 11
        assert dense[3, 0] == 3
        assert dense[3, 1] == 9
        assert dense.sum() == 23 == c.totals.sum()
        assert entries[0].weights == [11.0, 3.0, 0.0]
        assert told == ["seed words that no training document has: word11 (a), x\\x1by (b)"]

    @pytest.mark.parametrize(
        ("text", "error", "what"),
        [
            ("[a]\nwords = ['x'", InputError, "not TOML"),
            ("", InputError, "no topics"),
            ("[a]\nword = ['x']", InputError, "topic a has no setting word"),
            ("[a]\nwords = 'x'", InputError, "topic a: `$.words`: expected `array`, got `str`. Write [name]"),
            ("[a]\nwords = []", InputError, "`$.words`: expected `array` of length >= 1"),
            ("[a]\nwords = [1]", InputError, "`$.words[0]`: expected `str`, got `int`"),
            ("[a]\nwords = ['x', 'x']", InputError, "names x twice"),
            ("[a]\nwords = ['x']\nstrength = 0", InputError, "topic a: `$.strength`: expected `float` > 0"),
            ("[a]\nwords = ['x']\nstrength = nan", InputError, "`$.strength`: expected `float` > 0"),
            ("[a]\nwords = ['x']\nstrength = true", InputError, "`$.strength`: expected `float | null`, got `bool`"),
            ("strength = 'much'\n[a]\nwords = ['x']", InputError, "`$.strength`: expected `float | null`, got `str`"),
            ("[a]\nwords = ['x']\n[a]\nwords = ['y']", InputError, "not TOML"),
            ("a = 'x'", InputError, "a: neither a topic (a table) nor a setting"),
            ("[a]\nwords = ['no', 'none']", InputError, "no training document contains a word of topic a"),
            ("a = ['word1']\nb = ['word2']\nc = ['word3']", UsageError, "has 3 topics, the model 2; use -K 3 or more"),
        ],
    )
    def test_what_cannot_be_meant_is_one_line(self, text, error, what, tmp_path):
        path = tmp_path / "seeds.toml"
        path.write_text(text)
        with pytest.raises(InputError) as e:
            resolve(read_seeds(path), Vocabulary.of(["word1", "word2", "word3"]), np.ones(3), 2)
        assert type(e.value) is error
        assert what in str(e.value)
        assert "\n" not in str(e.value)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A store, a file of seeds and a model of them."""
    home = tmp_path_factory.mktemp("seeds")
    _, indptr, words, counts = draw(docs=300, words=60, topics=4, length=50, seed=3)
    store(home / "c.zarr", indptr, words, counts, 60, heldout=50)
    (home / "seeds.toml").write_text(FILE)
    told = call(
        "train",
        "--corpus",
        home / "c.zarr",
        "--model",
        home / "m",
        "-K",
        4,
        "--passes",
        4,
        "--algo",
        "vb",
        "--seed-words",
        home / "seeds.toml",
        "--eval-every",
        4,
    )
    assert "seed words that no training document has: nothere (space)" in told.stderr
    return home


def call(*arguments, code=0):
    """A command in this process: SimpleNamespace(stdout, stderr)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        found = main.run([str(a) for a in arguments])
    assert found == code, err.getvalue()
    return SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue())


class TestTheModel:
    def test_adds_them_wherever_topics_are_read(self, trained):
        loaded, streamed = TopicModel.open(trained / "m"), TopicModel.open(trained / "m", memory_limit=0)
        counts = np.concatenate([rows.copy() for _, rows in streamed.counts()])
        want = counts.copy()
        want[[3, 7, 11], 0] += 50
        want[20, 1] += 400
        for model in (loaded, streamed):
            np.testing.assert_array_equal(model.rows(np.arange(60)), want)
            np.testing.assert_array_equal(np.concatenate([r.copy() for _, r in model.spans()]), want)
            np.testing.assert_allclose(model.totals, want.sum(0))
            np.testing.assert_allclose(model.sizes, counts.sum(0))
            assert model.probabilities(np.arange(60)).sum(0) == pytest.approx(1)
            assert model.top_words(3)["words"][1].as_py()[0] == f"word{want[:, 1].argmax()}"
            assert model.labels == {0: "hockey", 1: "space"}
        assert loaded.content_hash() == streamed.content_hash()

    def test_a_copy_keeps_them_and_a_changed_strength_is_another_model(self, trained, tmp_path):
        model = TopicModel.open(trained / "m")
        model.save(tmp_path / "copy")
        copy = TopicModel.open(tmp_path / "copy")
        assert copy.content_hash() == model.content_hash()
        np.testing.assert_array_equal(copy.rows(np.arange(60)), model.rows(np.arange(60)))
        first, *others = model.manifest.seed_words
        changed = msgspec.structs.replace(first, weights=[7.0, *first.weights[1:]])
        model.save(tmp_path / "other", seed_words=[changed, *others])
        assert TopicModel.open(tmp_path / "other").content_hash() != copy.content_hash()

    @pytest.mark.parametrize(
        "seeds",
        [
            [{"topic": 0, "name": "a", "words": ["x"], "weights": [-1]}],
            [{"topic": 0, "name": "a", "words": ["x"]}],
            "x",
            [{"topic": 4, "name": "a", "words": ["x"], "weights": [1]}],
            7,
        ],
    )
    def test_a_manifest_that_cannot_be_is_refused(self, trained, seeds, tmp_path):
        TopicModel.open(trained / "m").save(tmp_path / "copy")
        path = tmp_path / "copy" / "manifest.json"
        text = json.loads(path.read_text())
        text.pop("checksum", None)
        path.write_text(json.dumps({**text, "seed_words": seeds}))
        with pytest.raises(StoreError, match="seed_words"):
            TopicModel.open(tmp_path / "copy")

    def test_held_out_perplexity_of_training_is_that_of_eval_and_infer_adds_them(self, trained, tmp_path):
        found = json.loads(
            call("eval", "--corpus", trained / "c.zarr", "--model", trained / "m", "--heldout", "--json").stdout
        )
        history = TopicModel.open(trained / "m").history
        assert json.dumps(found).count(str(history[-1]["heldout_perplexity"])[:12]) >= 1
        one = store(tmp_path / "one.zarr", np.array([0, 1]), np.array([20], np.int32), np.array([3]), 60)
        assert TopicModel.open(trained / "m").transform(Corpus.open(one))[0].argmax() == 1

    def test_show_names_topics_and_counts_their_own_tokens(self, trained):
        shown = json.loads(call("show", "--model", trained / "m", "--json").stdout)
        topics = {t["topic"]: t for t in shown["topics"]} if isinstance(shown, dict) else {t["topic"]: t for t in shown}
        assert topics[0]["label"] == "hockey"
        assert sum(t["tokens"] for t in topics.values()) == pytest.approx(TopicModel.open(trained / "m").sizes.sum())

    def test_resume_with_other_seeds_is_refused(self, trained, tmp_path):
        other = tmp_path / "other.toml"
        other.write_text('hockey = ["word20"]\n')
        arguments = (
            "train",
            "--corpus",
            trained / "c.zarr",
            "--model",
            trained / "m",
            "-K",
            4,
            "--passes",
            5,
            "--algo",
            "vb",
        )
        assert "--seed-words" in call(*arguments, "--seed-words", other, code=1).stderr
        assert "--seed-words" in call(*arguments, code=1).stderr

    def test_codes(self, trained, tmp_path):
        arguments = ("train", "--corpus", trained / "c.zarr", "--model", tmp_path / "m")
        call(*arguments, "-K", 1, "--seed-words", trained / "seeds.toml", code=2)
        call(*arguments, "-K", 4, "--seed-words", tmp_path / "none.toml", code=2)
        half = tmp_path / "half.toml"
        half.write_text("[a]\nwords = ['word1']\nstrength = 0.5\n")
        assert "whole-number strengths" in call(*arguments, "-K", 4, "--algo", "gs", "--seed-words", half, code=2).stderr
        half.write_text("[a\n")
        call(*arguments, "-K", 4, "--seed-words", half, code=3)


def texts(first: int, n: int) -> list[dict]:
    """Documents on hockey or on space, and a few words of both."""
    rng = np.random.default_rng(first)
    words = (["puck", "goalie", "rink", "skate", "team"], ["orbit", "nasa", "rocket", "moon", "launch"])
    made = []
    for i in range(first, first + n):
        side = words[i % 2]
        made.append(
            {
                "id": str(i),
                "text": " ".join([*rng.choice(side, 20), *rng.choice(words[0] + words[1], 3), "day", "year"]),
            }
        )
    return made


def jsonl(path, documents):
    path.write_text("".join(json.dumps(d) + "\n" for d in documents))
    return path


def of_space(model: TopicModel) -> int:
    return int(model.transform(["orbit nasa rocket moon"])[0].argmax())


class TestFromRunToRun:
    @pytest.mark.parametrize("algo", ["atbp", "sparselda"])
    def test_update_keeps_them(self, algo, tmp_path):
        corpus, model = tmp_path / "c.zarr", tmp_path / "m"
        call(
            "ingest",
            jsonl(tmp_path / "a.jsonl", texts(0, 120)),
            "--out",
            corpus,
            "--min-df",
            1,
            "--max-df",
            "100%",
            "--heldout",
            0,
        )
        seeds = tmp_path / "seeds.toml"
        seeds.write_text('space = ["nasa", "moon", "comet"]\n[hockey]\nwords = ["puck"]\nstrength = 70\n')
        call(
            "train", "--corpus", corpus, "--model", model, "-K", 2, "--passes", 8, "--algo", algo, "--seed-words", seeds
        )
        before = TopicModel.open(model)
        assert before.manifest.seed_words[0].weights[2] == 0
        assert of_space(before) == 0
        more = [*texts(120, 60), {"id": "x", "text": "comet " * 9 + "nasa orbit"}]
        call("ingest", jsonl(tmp_path / "b.jsonl", more), "--out", corpus, "--append", "--grow-vocab")
        call("update", "--corpus", corpus, "--model", model, "--passes", 4)
        after = TopicModel.open(model)
        assert after.labels == {0: "space", 1: "hockey"}
        assert of_space(after) == 0
        space, hockey = after.manifest.seed_words
        assert space.weights[0] > before.manifest.seed_words[0].weights[0]  # as many as the word has now
        assert space.weights[2] == 9  # a word that has come since
        assert hockey.weights == [70.0]

    def test_retrain_keeps_them(self, tmp_path):
        (tmp_path / "raw").mkdir()
        jsonl(tmp_path / "raw" / "a.jsonl", texts(0, 150))
        (tmp_path / "seeds.toml").write_text('space = ["nasa", "moon"]\nhockey = ["puck"]\n')
        config = tmp_path / "retrain.toml"
        config.write_text(
            '[ingest]\nmin_df = 1\nmax_df = "100%"\ngrow_vocab = true\nheldout = "10%"\n'
            '[train]\nalgo = "atbp"\ntopics = 2\npasses = 8\nupdate_passes = 3\nseed_words = "seeds.toml"\n[gate]\ntolerance = 1.0\ntopics = false\n'
        )
        call("retrain", "--config", config)
        assert of_space(TopicModel.open(tmp_path / "current")) == 0
        jsonl(tmp_path / "raw" / "b.jsonl", texts(150, 60))
        call("retrain", "--config", config)
        model = TopicModel.open(tmp_path / "current")
        assert model.path is not None
        assert model.path.name == "0002"
        assert model.labels == {0: "space", 1: "hockey"}
        assert of_space(model) == 0
        (tmp_path / "seeds.toml").write_text("space = 7\n")
        assert "nor a setting" in call("retrain", "--config", config, code=3).stderr

    @pytest.mark.parametrize("name", ["m.parquet", "m.safetensors"])
    def test_exported_topics_have_them_and_an_import_tells_them_apart_again(self, trained, name, tmp_path):
        out = tmp_path / name
        call("export", "--model", trained / "m", "--out", out)
        call("import", out, "--model", tmp_path / "back")
        before, after = TopicModel.open(trained / "m"), TopicModel.open(tmp_path / "back")
        assert after.labels == before.labels
        np.testing.assert_allclose(after.sizes, before.sizes, rtol=1e-6)
        np.testing.assert_allclose(after.rows(np.arange(60)), before.rows(np.arange(60)), rtol=1e-6, atol=1e-4)
        assert before.probabilities([20])[0, 1] == pytest.approx(after.probabilities([20])[0, 1], rel=1e-6)

    @pytest.mark.parametrize("method", ["bp", "vb", "gibbs", "gibbs1", "naive-bayes"])
    def test_every_method_of_inference_adds_them(self, method, sampled):
        """A word that all documents have alike is of the topic that it is seeded into."""
        corpus, model = sampled
        more = {"trained_on": corpus} if method == "gibbs1" else {}
        more |= {"sweeps": 20, "burn": 10} if method.startswith("gibbs") else {}
        assert TopicModel.open(model).transform(["day " * 9, "day day"], method=method, **more).argmax(1).tolist() == [
            1,
            1,
        ]


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    home = tmp_path_factory.mktemp("sampled")
    call(
        "ingest",
        jsonl(home / "a.jsonl", texts(0, 80)),
        "--out",
        home / "c.zarr",
        "--min-df",
        1,
        "--max-df",
        "100%",
        "--heldout",
        0,
    )
    seeds = {"space": ["nasa"], "hockey": {"words": ["puck", "day"], "strength": 900}}
    train(home / "c.zarr", home / "m", algo="sparselda", topics=2, passes=6, seed_words=seeds, progress=False)
    return home / "c.zarr", home / "m"
