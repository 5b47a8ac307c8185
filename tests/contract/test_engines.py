"""What every engine promises, found or added: mass, seeds, threads, resume, tables on disk, planted
topics, memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from checkpoint_bits import content_hash
from scipy.optimize import linear_sum_assignment

from tests.listening import Listening
from tests.planted import draw, sides, store
from topicstream.base.errors import DoesNotFit, Interrupted, TopicsError
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.reader import Corpus
from topicstream.engines import engines
from topicstream.engines.base import Rule, Shape, passes_needed
from topicstream.ingestion.pipeline import ingest
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train
from topicstream.training.passes import PassRunner

TOPICS = 5
QUIET = Progress(-1)
FAMILIES = ("sparse-bp", "gs", "vb", "anchors", "gmm")
"""An engine of each kind of table and state: their long tests are quick."""


def variants() -> list[tuple[str, dict]]:
    """Each engine with its default options, and once with every value of a ``schedule`` option."""
    found: list[tuple[str, dict]] = []
    for name, kind in engines().items():
        found.append((name, {}))
        schedule = kind.Options.__dataclass_fields__.get("schedule")
        if schedule is not None:
            others = [c for c in schedule.metadata.get("choices", ()) if c != schedule.default]
            found += [(name, {"schedule": c}) for c in others]
    return found


VARIANTS = variants()
IDS = ["-".join([name, *map(str, options.values())]) for name, options in VARIANTS]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    phi, indptr, words, counts = draw(docs=400, words=120, topics=TOPICS, length=60, seed=3)
    lists = sides(
        phi, indptr, words, counts, seed=7
    )  # for the engines that look at authors, labels or links
    folder = tmp_path_factory.mktemp("planted")
    path = store(folder / "corpus.zarr", indptr, words, counts, 120, heldout=40, lists=lists)
    ingest(components(), folder / "vectors.zarr", vectors=True, heldout="10%", progress=False)
    return path, phi


def components() -> np.ndarray:
    """[1500, 5] of TOPICS Gaussians."""
    rng = np.random.default_rng(3)
    mean = rng.normal(0, 3, (TOPICS, 5))
    turn = rng.normal(0, 1, (TOPICS, 5, 5))
    return np.stack(
        [mean[k] + turn[k] @ rng.normal(size=5) for k in rng.integers(0, TOPICS, 1500)]
    ).astype(np.float32)


def run(corpus: Path, model: Path, name: str, options: dict, **given):
    if engines()[name].about.dense:
        corpus = corpus.with_name("vectors.zarr")
    settings = {
        "topics": TOPICS,
        "passes": 3,
        "tol": 0,
        "block_cells": 1500,
        "round_blocks": 3,
        "threads": 1,
        "seed": 1,
    }
    return train(
        corpus, model, algo=name, options=options, **{"progress": QUIET, **settings, **given}
    )


@pytest.fixture(scope="module")
def plain(planted, tmp_path_factory):
    """Three passes of each variant on one thread, made once: (folder, content hash)."""
    made: dict[str, tuple[Path, str]] = {}

    def get(name: str, options: dict) -> tuple[Path, str]:
        key = json.dumps([name, options])
        if key not in made:
            folder = tmp_path_factory.mktemp("plain") / "model"
            run(planted[0], folder, name, options)
            made[key] = folder, content_hash(folder)
        return made[key]

    return get


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
class TestEveryEngine:
    def test_says_where_it_comes_from(self, name, options):
        kind = engines()[name]
        assert kind.name == name
        assert len(kind.cites) > 10
        assert all(f.metadata.get("help") for f in kind.Options.__dataclass_fields__.values())

    def test_mass_is_conserved(self, name, options, planted, plain):
        folder, _ = plain(name, options)
        if engines()[name].about.dense:
            GaussianModel = pytest.importorskip("topicstream.addons.clusters.model").GaussianModel
            sizes = GaussianModel(folder).sizes
            assert sizes.sum() == pytest.approx(
                Corpus.open(planted[0].with_name("vectors.zarr"), dense=True).n_docs, rel=1e-5
            )
            return
        model = TopicModel.open(folder)
        tokens = Corpus.open(planted[0]).n_tokens
        assert np.isfinite(model.totals).all()
        axes = {
            axis: Corpus.open(planted[0]).axes[axis].size for axis in engines()[name].about.axes
        }
        shape = Shape(360, 120, 9000, tokens, TOPICS, axes=axes, rows=360)
        engine = engines()[name](shape, engines()[name].Options(**options))
        blended = engine.tables["phi"].rule is Rule.BLEND
        # a stochastic estimate of the corpus' mass is as good as its samples; every other engine
        # keeps it exactly
        assert model.totals.sum() == pytest.approx(tokens, rel=0.05 if blended else 1e-5)
        history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
        passes = passes_needed(engine.phases) or 3
        assert [r["pass"] for r in history if r["pass"]] == list(range(1, passes + 1))
        assert all(r["mass_correction"] < 1e-5 for r in history)
        if "loglik" in engine.stats:
            told = [
                r["running_perplexity"] for r in history if r["pass"]
            ]  # phases that count no topics have none
            assert told[-1] > 1 and all(value is None or value > 1 for value in told)

    def test_perplexity_is_sane(self, name, options, plain):
        if engines()[name].about.dense:
            pytest.skip(
                "densities are no perplexities; what they ought to be: "
                "tests/addons/clusters/test_gmm.py"
            )
        folder, _ = plain(name, options)
        history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
        if history[-1]["running_perplexity"] is None:
            assert engines()[name].about.real_cells is False and name in (
                "anchors",
                "fdm",
            )  # moments: no perplexity of a pass
            return
        assert history[-1]["running_perplexity"] < 121  # the uniform model over 120 words

    @pytest.mark.quick(*FAMILIES)
    def test_same_seed_same_bits_and_threads_leave_no_trace(
        self, name, options, planted, plain, tmp_path
    ):
        _, expected = plain(name, options)
        run(planted[0], tmp_path / "model", name, options, threads=3)
        assert content_hash(tmp_path / "model") == expected

    @pytest.mark.quick("sparse-bp", "gs")
    def test_another_seed_another_model(self, name, options, planted, plain, tmp_path):
        _, expected = plain(name, options)
        run(planted[0], tmp_path / "model", name, options, seed=2)
        assert content_hash(tmp_path / "model") != expected

    @pytest.mark.quick(*FAMILIES)
    def test_resume_ends_in_the_same_bits(self, name, options, planted, plain, tmp_path):
        _, expected = plain(name, options)
        for passes in (1, 3):
            run(planted[0], tmp_path / "model", name, options, passes=passes)
        assert content_hash(tmp_path / "model") == expected

    @pytest.mark.quick(*FAMILIES)
    def test_tables_on_disk_hold_the_same_bits(self, name, options, planted, plain, tmp_path):
        _, expected = plain(name, options)
        told = Listening()
        run(planted[0], tmp_path / "model", name, options, tables="disk", threads=2, progress=told)
        assert any("tables on disk" in line for line in told.said)
        assert content_hash(tmp_path / "model") == expected

    @pytest.mark.quick("sparse-bp", "gs")
    def test_recovers_planted_topics(self, name, options, planted, tmp_path):
        if engines()[name].about.dense:
            pytest.skip("tests/addons/clusters/test_gmm.py plants components")
        path, phi = planted
        distances = []
        for seed in (3, 0, 1, 2):  # a seed may merge two topics; four in a row would not be chance
            folder = tmp_path / f"model{seed}"
            run(path, folder, name, options, seed=seed, passes=20, threads=2, block_cells=4000)
            learned = TopicModel.open(folder).probabilities(np.arange(120)).T
            cost = np.abs(phi[:, None, :] - learned[None]).sum(axis=2)
            distances.append(cost[linear_sum_assignment(cost)].mean())
            if distances[-1] < 0.5:
                break
        assert min(distances) < 0.5, distances  # two topics drawn at random lie about 1.7 apart

    def test_a_limit_too_small_is_refused_with_a_number(
        self, name, options, planted, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("topicstream.base.memory.FLOOR", 1)
        with pytest.raises(DoesNotFit, match=r"smallest limit that would do is \d+M"):
            run(planted[0], tmp_path / "model", name, options, mem_limit="20M")

    def test_other_options_are_refused_with_a_difference(self, name, options, planted, plain):
        folder, expected = plain(name, options)
        # where the number follows from the labels, another is refused before there is anything to
        # compare
        told = r"-K 6: .* leave --topics out" if engines()[name].about.topics_axis else r"-K 5 -> 6"
        with pytest.raises(TopicsError, match=told):
            run(planted[0], folder, name, options, topics=6)
        assert content_hash(folder) == expected


@pytest.mark.quick("sparse-bp", "gs")
@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_a_stop_inside_a_pass_ends_in_the_same_bits(
    name, options, planted, plain, tmp_path, monkeypatch
):
    _, expected = plain(name, options)
    enter = PassRunner._apply
    rounds = count(1)

    def stop(*arguments):
        enter(*arguments)
        if next(rounds) == 5:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch, pytest.raises(Interrupted) as stopped:
        patch.setattr(PassRunner, "_apply", stop)
        run(planted[0], tmp_path / "model", name, options, tables="disk")
    assert stopped.value.exit_code == 143
    run(planted[0], tmp_path / "model", name, options)  # what was on disk goes on in memory
    assert content_hash(tmp_path / "model") == expected


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """The store in which memory is measured."""
    phi, indptr, words, counts = draw(docs=1500, words=3000, topics=8, length=150, seed=5)
    return store(
        tmp_path_factory.mktemp("wide") / "corpus.zarr",
        indptr,
        words,
        counts,
        3000,
        lists=sides(phi, indptr, words, counts, seed=7),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", list(engines()))
def test_peak_memory_stays_within_the_plan(name, wide, tmp_path):
    path = wide
    topics, options = (None, {"free": 142}) if engines()[name].about.topics_axis else (150, {})
    if engines()[name].about.dense:
        topics, options = 60, {"tries": 1}  # a start of 150 components takes a minute
        path = tmp_path / "vectors.zarr"
        ingest(
            np.random.default_rng(5).normal(size=(6000, 32)).astype(np.float32),
            path,
            vectors=True,
            progress=False,
        )
    code = (
        "import json, sys\n"
        "from topicstream.base import machine\n"
        "from topicstream.training.loop import train\n"
        "from topicstream.base.progress import Shown as Progress\n"
        "class Plan(Progress):\n"
        "    def say(self, line):\n"
        "        if line.startswith('memory plan'):\n"
        "            print(line)\n"
        "            open('/proc/self/clear_refs', 'w').write('5')  # the peak counts from "
        "here: compiling is over\n"
        "plan = Plan()\n"
        "train(sys.argv[1], sys.argv[2], algo=sys.argv[3], topics=int(sys.argv[4]) or None, "
        "passes=3, threads=2,\n"
        "      block_cells=20000, mem_limit='1G', options=json.loads(sys.argv[5]), progress=plan)\n"
        "print('peak', machine.peak_bytes())\n"
    )
    given = {
        "algo": name,
        "topics": topics,
        "options": options,
        "passes": 3,
        "threads": 2,
        "block_cells": 20000,
    }
    train(
        path, tmp_path / "compiles", **given, progress=QUIET
    )  # the limit is promised of kernels that are compiled
    args = [
        sys.executable,
        "-c",
        code,
        str(path),
        str(tmp_path / "model"),
        name,
        str(topics or 0),
        json.dumps(options),
    ]
    done = subprocess.run(
        args, capture_output=True, text=True, env={**os.environ, "NUMBA_NUM_THREADS": "2"}
    )
    assert done.returncode == 0, done.stderr
    planned = float(done.stdout.split("memory plan: ")[1].split(" MB")[0]) * 2**20
    peak = int(done.stdout.split("peak ")[1])
    assert peak <= planned, f"{name}: peak {peak / 2**20:.0f} MB, plan {planned / 2**20:.0f} MB"
