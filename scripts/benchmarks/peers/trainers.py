"""Other programs trained on an exported corpus (scripts/tools/export_corpus.py), each in its own
words, alike in what they get: K, alpha and beta per topic and per word, passes, threads, seed.

A trainer is a generator: after every pass it yields what the pass took (``now``; reading and
converting the corpus is not counted) and a function that gives the topics as they stand: counts [W,
K] without the prior."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Step = tuple[np.ndarray, Callable[[], np.ndarray]]


def now() -> np.ndarray:
    """Seconds by the clock, and of processor by this process and its children, living and ended."""
    ticks = os.sysconf("SC_CLK_TCK")
    processor = sum(os.times()[:4])
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[1]) == os.getpid():
            processor += sum(map(int, fields[11:15])) / ticks
    return np.array([time.perf_counter(), processor])


@dataclass
class Data:
    """indptr: int64[D+1]; words: int32[cells]; counts: [cells]; n_words: W."""

    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    n_words: int

    @classmethod
    def read(cls, folder: Path, n_words: int) -> Data:
        """What export_corpus.py wrote."""
        return cls(*(np.load(folder / f"{n}.npy") for n in ("indptr", "words", "counts")), n_words)

    @property
    def n_docs(self) -> int:
        return len(self.indptr) - 1

    def matrix(self):
        """scipy CSR [D, W]."""
        from scipy.sparse import csr_matrix

        return csr_matrix((self.counts, self.words, self.indptr), shape=(self.n_docs, self.n_words))


@dataclass
class Setting:
    """Options of every trainer."""

    topics: int
    alpha: float
    beta: float
    passes: int
    workers: int
    seed: int
    # a file to carry on from, where it is there, and to leave for the next piece (tomotopy only)
    carry: str = ""
    done: int = 0  # passes that were made before


def tomotopy_model(data: Data, s: Setting):
    """tomotopy's model with its documents in place, priors fixed, and the names of the words."""
    import tomotopy as tp

    model = tp.LDAModel(k=s.topics, alpha=s.alpha, eta=s.beta, seed=s.seed)
    names = np.array([f"w{i}" for i in range(data.n_words)], dtype=object)
    for d in range(data.n_docs):
        cells = slice(data.indptr[d], data.indptr[d + 1])
        if cells.stop > cells.start:
            model.add_doc(np.repeat(names[data.words[cells]], data.counts[cells]).tolist())
    model.optim_interval = 0
    model.train(0, workers=s.workers)
    return model, names


def tomotopy_phi(model, data: Data, s: Setting) -> np.ndarray:
    """Counts [W, K] without the prior."""
    order = np.array([int(w[1:]) for w in model.used_vocabs])
    out = np.zeros((data.n_words, s.topics), np.float32)
    sizes = np.asarray(model.get_count_by_topics(), np.float64)
    for k in range(s.topics):
        p = np.asarray(model.get_topic_word_dist(k), np.float64)
        out[order, k] = np.maximum(p * (sizes[k] + len(order) * s.beta) - s.beta, 0)
    return out


def tomotopy_lda(data: Data, s: Setting) -> Iterator[Step]:
    """tomotopy's parallel collapsed Gibbs sampler, priors fixed."""
    import tomotopy as tp

    model = tp.LDAModel.load(s.carry) if s.done else tomotopy_model(data, s)[0]
    for _ in range(s.done, s.passes):
        begin = now()
        model.train(1, workers=s.workers)
        yield now() - begin, lambda: tomotopy_phi(model, data, s)
    if s.carry:
        model.save(s.carry, full=True)


def gensim_online(data: Data, s: Setting) -> Iterator[Step]:
    """gensim's online variational Bayes (LdaMulticore where there is more than one worker)."""
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel, LdaMulticore

    corpus = list(Sparse2Corpus(data.matrix().T.tocsc(), documents_columns=True))
    corpus = [d for d in corpus if d]
    id2word = {i: str(i) for i in range(data.n_words)}
    common = {
        "id2word": id2word,
        "num_topics": s.topics,
        "alpha": np.full(s.topics, s.alpha, np.float32),
        "eta": s.beta,
        "random_state": s.seed,
        "eval_every": None,
        "chunksize": 2000,
        "passes": 1,
    }
    model = LdaMulticore(**common, workers=s.workers) if s.workers > 1 else LdaModel(**common)
    for _ in range(s.passes):
        begin = now()
        model.update(corpus)
        yield now() - begin, lambda: np.maximum(model.state.get_lambda().T - s.beta, 0)


def sklearn_online(data: Data, s: Setting) -> Iterator[Step]:
    """scikit-learn's online variational Bayes; a pass is a partial_fit over the corpus in batches
    of 2000.
    """
    from sklearn.decomposition import LatentDirichletAllocation

    matrix = data.matrix()
    model = LatentDirichletAllocation(
        s.topics,
        doc_topic_prior=s.alpha,
        topic_word_prior=s.beta,
        learning_method="online",
        batch_size=2000,
        total_samples=data.n_docs,
        random_state=s.seed,
        n_jobs=s.workers,
    )
    for _ in range(s.passes):
        begin = now()
        model.partial_fit(matrix)
        yield now() - begin, lambda: np.maximum(model.components_.T - s.beta, 0)


def bigartm_online(data: Data, s: Setting) -> Iterator[Step]:
    """BigARTM's online algorithm with LDA's priors as smoothing regularizers."""
    os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
    import artm

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # it drops its logs in the working folder
        with open(Path(folder) / "docword.c.txt", "w") as f:
            f.write(f"{data.n_docs}\n{data.n_words}\n{len(data.words)}\n")
            doc = np.repeat(np.arange(1, data.n_docs + 1), np.diff(data.indptr))
            np.savetxt(f, np.column_stack([doc, data.words + 1, data.counts]), fmt="%d")
        (Path(folder) / "vocab.c.txt").write_text("".join(f"w{i}\n" for i in range(data.n_words)))
        source = artm.BatchVectorizer(
            data_path=folder,
            data_format="bow_uci",
            collection_name="c",
            target_folder=f"{folder}/b",
            batch_size=1000,
        )
        model = artm.LDA(
            num_topics=s.topics,
            alpha=s.alpha,
            beta=s.beta,
            num_processors=s.workers,
            num_document_passes=5,
            seed=s.seed,
            cache_theta=False,
        )
        model.initialize(dictionary=source.dictionary)

        def phi() -> np.ndarray:
            inside = model._internal_model
            frame = inside.get_phi(model_name=inside.model_nwt)
            out = np.zeros((data.n_words, s.topics), np.float32)
            order = np.array([int((w[1] if isinstance(w, tuple) else w)[1:]) for w in frame.index])
            out[order] = frame.to_numpy()
            return out

        for _ in range(s.passes):
            begin = now()
            model.fit_online(source, update_every=4)
            yield now() - begin, phi


def vw_online(data: Data, s: Setting) -> Iterator[Step]:
    """Vowpal Wabbit's online variational Bayes.  It runs all passes in one go on one thread: each
    pass is given the mean
    time, reading its cache included, and the topics exist after the last only."""
    import vowpalwabbit

    bits = max(1, int(np.ceil(np.log2(data.n_words))))
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/text", "w") as f:
            for d in range(data.n_docs):
                cells = slice(data.indptr[d], data.indptr[d + 1])
                if cells.stop > cells.start:
                    pairs = zip(data.words[cells], data.counts[cells], strict=True)
                    f.write("| " + " ".join(f"{w}:{x}" for w, x in pairs) + "\n")
        begin = now()
        workspace = vowpalwabbit.Workspace(
            f"--lda {s.topics} --lda_D {data.n_docs} --lda_alpha {s.alpha} --lda_rho {s.beta} "
            f"--minibatch 256 "
            f"--power_t 0.5 --initial_t 1 -b {bits} -d {folder}/text --cache_file "
            f"{folder}/cache -k --passes {s.passes} "
            f"--random_seed {s.seed} --quiet --readable_model {folder}/model"
        )
        workspace.finish()
        mean = (now() - begin) / s.passes
        lines = Path(f"{folder}/model").read_text().splitlines()
        rows = [
            line.split() for line in lines if len(line.split()) == s.topics + 1 and ":" not in line
        ]
        out = np.zeros((data.n_words, s.topics), np.float32)
        for row in rows:
            if int(row[0]) < data.n_words:
                out[int(row[0])] = np.maximum(np.array(row[1:], np.float32) - s.beta, 0)

        def not_yet() -> np.ndarray:
            raise ValueError("vw gives topics after its last pass only: leave --save-at out")

        for done in range(1, s.passes + 1):
            yield mean, (lambda: out) if done == s.passes else not_yet


TRAINERS = {
    f.__name__: f for f in (tomotopy_lda, gensim_online, sklearn_online, bigartm_online, vw_online)
}
