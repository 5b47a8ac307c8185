"""Link prediction from the topics of two documents, and the worth of links for words.

The protocol is that of Zeng, Cheung & Liu (2013, section 5.3), fixed as follows where they leave it
open. Positives are linked pairs, negatives as many unlinked ones, drawn evenly. A logistic
regression is fitted to pairs of training documents and judged on pairs with a held-out document,
whose topics are folded in from its words alone. Features of a pair are the products theta_dk
theta_d'k, each scaled by its largest value in training. ``root`` takes their square roots.

It is fitted to topics of words alone: those that training gave to linked documents depend on the
very link, which is unknown at the test. (rtm on cora, K = 30, eta identity, xi 0.5: F of the roots
0.752 fitted to trained topics, 0.818 so; without links in training 0.773 and 0.771.
docs/internals/decisions/links.md.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, TopicsError
from topicstream.base.options import option
from topicstream.base.text import render
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import score_cells, split_documents
from topicstream.evaluation.keys import (
    document_keys,
    first_documents,
    hash_strings,
    match_words,
    stream_documents,
)
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.evaluation.scoring import Entry, Scorer, Scoring
from topicstream.evaluation.visiting import documents_of_block, infer_shares
from topicstream.inference.method import TopicRows
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.arrays import RowCells, TopicWeights
from topicstream.numeric.kernels.local_step import (
    EVEN,
    INNER,
    POINT,
    TOLERANCE,
    LocalRule,
    local_step,
    padded_floats,
)

MOST = 20_000
"""Linked pairs that are drawn at most, of training and of testing each."""
DRAWS = 5
PREDICTION = """link prediction       F {product.f:.3f} ± {product.f_sd:.3f}, precision \
{product.precision:.3f}, recall {product.recall:.3f}, AUC {product.auc:.3f}
  of square roots     F {root.f:.3f} ± {root.f_sd:.3f}, precision {root.precision:.3f}, recall \
{root.recall:.3f}, AUC {root.auc:.3f}
  {measured}; {pairs.testing:,} links predicted
[with links given      {given.perplexity:.1f}   (withheld {given.withheld:.1f})
  held-out perplexity of {given.docs:document} with links, {given.tokens:,.0f} tokens scored, xi \
{given.xi:.3g}]
"""
FEATURES: dict[str, Callable[[np.ndarray], np.ndarray]] = {"product": lambda x: x, "root": np.sqrt}


def trained_shares(model: TopicModel, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Read the topics of training documents from the model's own table of them.

    Returns
    -------
    tuple
        p(k|d), float64[n, K], and tokens, float64[n].
    """
    theta = model.table("theta").gather(numbers).astype(np.float64)
    return _smooth(theta, model.alpha), theta.sum(1)


def _smooth(theta: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Add the prior to counts, and scale each document to the sum 1."""
    return np.asarray(
        (theta + alpha) / np.maximum(theta.sum(1, keepdims=True) + alpha.sum(), 1e-300)
    )


def check_model(model: TopicModel, corpus: Corpus) -> None:
    """Raise InputError unless the model's table of documents is of this corpus."""
    if model.manifest.corpus.fingerprint != corpus.fingerprint:
        raise InputError(
            f"{corpus.path}: has changed since {model.path} was trained on it, whose table of "
            f"documents is by their number; train or update the model"
        )


def bytes_held(corpus: Corpus, topics: int) -> int:
    """Count the bytes that ``link_prediction`` holds at most beside a thread's own.

    They are the links, the topics of every document of a pair, both of its words and of training,
    and the features of the pairs.
    """
    figures = (
        corpus.axes["links"].figures if "links" in corpus.axes else {"training": 0, "heldout": 0}
    )
    train = corpus.n_docs
    n_heldout = corpus.part(True).docs
    training = min(MOST, figures["training"])
    testing = min(MOST, n_heldout * (train + n_heldout))
    documents = min(2 * (training + testing) * (1 + DRAWS), train + n_heldout)
    links = 24 * (figures["training"] + figures["heldout"])
    return int(links + 8 * topics * (3 * documents + 6 * 2 * max(training, testing)))


class Pairs:
    """Linked pairs of a corpus.

    A held-out document has its number plus ``train``, the number of training rows.

    Attributes
    ----------
    training
        int64[n, 2], pairs of training documents, first < second.
    testing
        int64[n, 2], pairs whose second document is held out, or both. Of each kind at most MOST,
        evenly drawn.
    """

    def __init__(self, corpus: Corpus, rng: np.random.Generator) -> None:
        self.corpus = corpus
        self.n_train, self.n_heldout = (int(first_documents(corpus, h)[-1]) for h in (False, True))
        if "links" not in corpus.axes:
            raise InputError(
                f"{corpus.path}: has no links; ingest with --links FILE or --meta links"
            )
        training = self._read_linked(False)
        testing = self._read_linked(True)
        among = self._read_heldout_links()
        self._keys = (
            self._number_pairs(training),
            self._number_pairs(np.concatenate((testing, among))),
        )
        self.training = _draw_some(training, rng)
        self.testing = _draw_some(np.concatenate((_draw_some(testing, rng), among)), rng)

    def _read_linked(self, heldout: bool) -> np.ndarray:
        """Read the pairs of a part's documents with training documents, int64[n, 2]."""
        first = first_documents(self.corpus, heldout) + (self.n_train if heldout else 0)
        pairs_by_piece = [np.zeros((0, 2), np.int64)]
        for b in range(len(first) - 1):
            lengths, linked = self.corpus.lists("links", b, heldout)
            document = np.repeat(np.arange(first[b], first[b + 1]), lengths)
            pairs = np.sort(np.stack((document, linked), 1), axis=1)
            # training pairs are listed with both documents
            pairs_by_piece.append(pairs if heldout else pairs[document < linked])
        return np.concatenate(pairs_by_piece)

    def _number_pairs(self, pairs: np.ndarray) -> np.ndarray:
        """Assign a number to each pair."""
        return np.asarray(pairs[:, 0] * (self.n_train + self.n_heldout) + pairs[:, 1])

    def _read_heldout_links(self) -> np.ndarray:
        """Read the pairs of documents set aside, which only the documents' table has."""
        ids = [pa.array([], pa.large_string())]
        numbers = [np.zeros(0, np.int64)]
        sources = []
        targets = []
        for number, batch in stream_documents(self.corpus, True, ["id", "links"]):
            ids.append(batch.column("id"))
            numbers.append(number)
            links = batch.column("links")
            sources.append(number[pc.list_parent_indices(links).to_numpy()])
            targets.append(pc.list_flatten(links))
        if not sources:
            return np.zeros((0, 2), np.int64)
        positions = pc.index_in(
            pa.chunked_array(targets), value_set=pa.chunked_array(ids).combine_chunks()
        )
        in_part = positions.is_valid().to_numpy()
        source = np.concatenate(sources)[in_part]
        target = np.concatenate(numbers)[positions.drop_null().to_numpy()]
        pairs = np.sort(np.stack((source, target), 1)[source != target], axis=1)
        return np.unique(pairs, axis=0) + self.n_train

    def draw_unlinked(self, n: int, testing: bool, rng: np.random.Generator) -> np.ndarray:
        """Draw n pairs without a link evenly among all, fewer where there are hardly any.

        Parameters
        ----------
        n
            Pairs to draw.
        testing
            Pairs with a document set aside, instead of pairs of training documents.
        rng
            The source of the draws.
        """
        out = np.zeros((0, 2), np.int64)
        n_mixed = self.n_train * self.n_heldout
        # share of the pairs to test on that have one document in training
        share = n_mixed / max(n_mixed + self.n_heldout * (self.n_heldout - 1) // 2, 1)
        for _ in range(50):
            if len(out) >= n:
                break
            size = 2 * (n - len(out)) + 16
            if testing:
                with_training = rng.random(size) < share
                first = np.where(
                    with_training,
                    rng.integers(max(self.n_train, 1), size=size),
                    rng.integers(self.n_heldout, size=size) + self.n_train,
                )
                drawn = np.stack((first, rng.integers(self.n_heldout, size=size) + self.n_train), 1)
            else:
                drawn = rng.integers(self.n_train, size=(size, 2))
            drawn = np.sort(drawn, axis=1)
            drawn = drawn[drawn[:, 0] != drawn[:, 1]]
            drawn = drawn[~np.isin(self._number_pairs(drawn), self._keys[testing])]
            candidates = np.concatenate((out, drawn))
            _, first_at = np.unique(candidates, axis=0, return_index=True)
            out = candidates[np.sort(first_at)]
        return out[:n]


def _draw_some(pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw at most MOST of the pairs evenly, and keep their order."""
    if len(pairs) <= MOST:
        return pairs
    return pairs[np.sort(rng.choice(len(pairs), MOST, replace=False))]


def import_sklearn() -> Any:
    """Import the parts of scikit-learn that judge links, which take half a second to load."""
    try:
        import sklearn.linear_model
        import sklearn.metrics
    except ImportError:
        raise TopicsError(
            "--links needs scikit-learn: pip install 'topicstream[sklearn]'"
        ) from None
    return sklearn


def fit_classifier(x: np.ndarray, y: np.ndarray) -> Any:
    """Fit a logistic regression with half the square of the weights as penalty.

    Parameters
    ----------
    x
        Features of pairs, float64[m, n].
    y
        1 for a linked pair, else 0.
    """
    linear_model = import_sklearn().linear_model
    return linear_model.LogisticRegression(solver="newton-cholesky", tol=1e-8).fit(x, y)


@dataclass(frozen=True)
class LinkScore:
    """Quality of predicted links.

    Attributes
    ----------
    pairs
        Numbers of linked pairs, of training and of testing.
    product, root
        F, precision, recall and AUC by those features, means over the draws, and ``f_sd``, the
        standard deviation of F.
    """

    pairs: dict[str, int]
    draws: int
    product: dict[str, float]
    root: dict[str, float]
    measured: str


@dataclass(frozen=True)
class LinkedScore:
    """Perplexity with the links given (``perplexity``) and without (``withheld``).

    Both are of the same tokens, those of documents with links. ``xi`` is the weight of the links.
    """

    perplexity: float
    withheld: float
    tokens: float
    docs: int
    xi: float
    split: float


def judge(scores: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Compute F, precision and recall of ``scores > 0``, and AUC (ties count half)."""
    metrics = import_sklearn().metrics
    precision, recall, f, _ = metrics.precision_recall_fscore_support(
        y, scores > 0, average="binary", zero_division=0.0
    )
    auc = metrics.roc_auc_score(y, scores)
    figures = {"f": f, "precision": precision, "recall": recall, "auc": auc}
    return {name: float(value) for name, value in figures.items()}


Draws = list[tuple[np.ndarray, np.ndarray]]
"""Unlinked pairs of each draw: of training documents, and of others with held-out ones."""
Root = Callable[[np.ndarray], np.ndarray]


class PairTopics(NamedTuple):
    """Topics of the documents that stand in pairs.

    Attributes
    ----------
    path
        The store, for messages.
    numbers
        int64[n], the documents, ascending.
    tokens
        [n], their tokens.
    of_words, trained
        float64[n, K], topics by their words alone; with those that the training gave its documents.
    """

    path: Path
    numbers: np.ndarray
    tokens: np.ndarray
    of_words: np.ndarray
    trained: np.ndarray

    def features(self, pairs: np.ndarray, topics: np.ndarray, root: Root) -> np.ndarray:
        """Make the features of the pairs whose documents both have words."""
        a, b = np.searchsorted(self.numbers, pairs).T
        have_words = (self.tokens[a] > 0) & (self.tokens[b] > 0)
        return root(topics[a[have_words]] * topics[b[have_words]])


def read_pair_topics(
    model: TopicModel,
    corpus: Corpus,
    pairs: Pairs,
    draws: Draws,
    theta: np.ndarray | None,
    threads: int,
    progress: Callable[[int, int], None] | None,
) -> PairTopics:
    """Infer the topics of all documents that stand in pairs."""
    in_pairs = [pairs.training, pairs.testing, *itertools.chain.from_iterable(draws)]
    numbers = np.unique(np.concatenate(in_pairs))
    training, testing = np.split(numbers, [np.searchsorted(numbers, pairs.n_train)])
    parts = [
        infer_shares(model, corpus, training, threads=threads, progress=progress),
        infer_shares(
            model, corpus, testing - pairs.n_train, heldout=True, threads=threads, progress=progress
        ),
    ]
    of_words = np.concatenate([part.shares for part in parts], dtype=np.float64)
    trained = _choose_trained(model, corpus, training, of_words, theta)
    return PairTopics(
        corpus.path,
        numbers,
        np.concatenate([part.tokens for part in parts]),
        of_words,
        np.concatenate((trained, of_words[len(training) :])),
    )


def judge_feature(pairs: Pairs, draws: Draws, topics: PairTopics, root: Root) -> dict[str, float]:
    """Predict links from one kind of features, and average the figures over the draws."""
    figures = []
    for learning, testing in draws:
        x, y = _stack_examples(
            topics.features(pairs.training, topics.of_words, root),
            topics.features(learning, topics.of_words, root),
        )
        tested, answers = _stack_examples(
            topics.features(pairs.testing, topics.trained, root),
            topics.features(testing, topics.trained, root),
        )
        if len(np.unique(y)) < 2 or len(np.unique(answers)) < 2:
            raise InputError(
                f"{topics.path}: too few linked and unlinked pairs of documents with words that "
                f"the model knows"
            )
        scale = np.maximum(x.max(0, initial=0), 1e-12)
        classifier = fit_classifier(x / scale, y)
        figures.append(judge(classifier.decision_function(tested / scale), answers))
    means = {key: float(np.mean([f[key] for f in figures])) for key in figures[0]}
    return means | {"f_sd": float(np.std([f["f"] for f in figures], ddof=1))}


def link_prediction(
    model: TopicModel,
    corpus: Corpus,
    *,
    threads: int = 1,
    theta: np.ndarray | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LinkScore:
    """Score the prediction of the held-out documents' links, over DRAWS draws of the negatives.

    Training documents have the theta that the model was trained to (if it holds them), else that of
    their words.

    Parameters
    ----------
    theta
        [train documents, K], counts by topic, in place of the model's own.

    Raises
    ------
    InputError
        If there is nothing to predict.
    """
    rng = np.random.default_rng([0, 0])
    pairs = Pairs(corpus, rng)
    if not len(pairs.training) or not len(pairs.testing):
        missing = (
            "between training documents"
            if not len(pairs.training)
            else "of documents set aside (--heldout)"
        )
        raise InputError(
            f"{corpus.path}: has no links {missing}: link prediction learns from the former, is "
            f"judged on the latter"
        )
    draws = [
        (
            pairs.draw_unlinked(len(pairs.training), False, draw_rng),
            pairs.draw_unlinked(len(pairs.testing), True, draw_rng),
        )
        for draw_rng in (np.random.default_rng([0, 1 + i]) for i in range(DRAWS))
    ]
    topics = read_pair_topics(model, corpus, pairs, draws, theta, threads, progress)
    score_of = {name: judge_feature(pairs, draws, topics, root) for name, root in FEATURES.items()}
    measured = (
        f"links of the documents set aside, their topics from words alone, among as many "
        f"unlinked pairs; logistic regression on theta of both documents, fitted to "
        f"{len(pairs.training):,} links between training documents; {DRAWS} draws"
    )
    return LinkScore(
        {"training": len(pairs.training), "testing": len(pairs.testing)},
        DRAWS,
        **score_of,
        measured=measured,
    )


def _stack_examples(linked: np.ndarray, unlinked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stack the features of linked and of unlinked pairs, with the answers 1 and 0."""
    return np.concatenate((linked, unlinked)), np.repeat([1.0, 0.0], [len(linked), len(unlinked)])


def _choose_trained(
    model: TopicModel,
    corpus: Corpus,
    numbers: np.ndarray,
    of_words: np.ndarray,
    counts: np.ndarray | None,
) -> np.ndarray:
    """Return the trained theta of training documents if known, else that of their words."""
    if counts is not None:
        return _smooth(counts[numbers].astype(np.float64), model.alpha)
    if "theta" not in model.manifest.tables:
        return of_words[: len(numbers)]
    check_model(model, corpus)
    return trained_shares(model, numbers)[0]


def link_message(model: TopicModel, theta: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Compute the message of each document's links, float64[D, K].

    Eq. (29) with the model's own eta.

    Parameters
    ----------
    theta
        [E, K], of the linked documents, unnormalised.
    lengths
        [D], number of links of each document.
    """
    eta = model.table("eta").gather(np.arange(model.n_topics)).astype(np.float64)
    options = model.manifest.options
    eta_of_options = {"rows": eta, "columns": eta.T, "identity": np.eye(len(eta))}[
        options.get("eta", "rows")
    ]
    mass = theta.sum(1, keepdims=True, dtype=np.float64)
    shares = np.divide(theta, mass, out=np.zeros(theta.shape), where=mass > 0)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    out = np.zeros((len(lengths), model.n_topics))
    degree = np.bincount(owner, mass[:, 0] > 0, len(lengths))
    np.add.at(out, owner, shares)
    out = (out / np.maximum(degree, 1)[:, None]) @ eta_of_options.T
    if options.get("renormalise"):
        out /= np.maximum(out.sum(1, keepdims=True), 1e-300)
    return out


def linked_completion(model: TopicModel, corpus: Corpus, *, split: float = 0.8) -> LinkedScore:
    """Score the completion of held-out documents, given their links to training documents.

    theta is the fixed point of eq. (30), in which the links' message has the weight xi.
    """
    check_model(model, corpus)
    index = match_words(model.vocabulary, corpus)
    rows = TopicRows(model)
    keys = document_keys(corpus, True)
    word_keys = hash_strings(model.vocabulary.words)
    width = len(rows.inverse)
    table = model.table("theta")
    xi = float(model.table("xi").gather(np.arange(1))[0, 0])
    weight = min(xi, 0.999) / (1 - min(xi, 0.999))
    grid = corpus.grid(
        block_cells(model.n_topics), block_docs(model.n_topics), heldout=True, axes=["links"]
    )
    rule = LocalRule(POINT, EVEN, TOLERANCE, INNER)
    loglik = np.zeros(2)
    tokens = 0.0
    docs = 0
    for block in corpus.blocks(grid=grid, heldout=True, axes=["links"]):
        block_keys = keys[block.first_doc : block.first_doc + block.n_docs]
        links = block.rows("links")
        read_words, withheld_words, scored = split_documents(
            documents_of_block(block, index), block_keys, word_keys, split
        )
        (observed, base) = rows.gather(read_words)
        of_observed = TopicWeights(base, rows.beta, rows.inverse)
        (others, base) = rows.gather(withheld_words)
        of_others = TopicWeights(base, rows.beta, rows.inverse)
        topics = table.gather(links.ids)
        for d in np.flatnonzero(scored & (np.diff(links.indptr) > 0)).tolist():
            linked = links.local[links.indptr[d] : links.indptr[d + 1]]
            observed_cells = slice(*read_words.indptr[d : d + 2])
            withheld_cells = slice(*withheld_words.indptr[d : d + 2])
            message = link_message(model, topics[linked], np.array([len(linked)]))[0]
            n = float(read_words.counts[observed_cells].sum()) + model.alpha.sum()
            observed_row = RowCells(
                np.array([0, observed_cells.stop - observed_cells.start]),
                observed[observed_cells],
                read_words.counts[observed_cells],
            )
            withheld_row = RowCells(
                np.array([0, withheld_cells.stop - withheld_cells.start]),
                others[withheld_cells],
                withheld_words.counts[withheld_cells],
            )
            for i, prior in enumerate((model.alpha + weight * n * message, model.alpha)):
                theta = np.empty((1, model.n_topics), np.float32)
                document_loglik = np.empty(1)
                document_tokens = np.empty(1)
                local_step(observed_row, of_observed, padded_floats(prior, width), rule, theta)
                score_cells(withheld_row, of_others, theta, document_loglik, document_tokens)
                loglik[i] += document_loglik[0]
            tokens += document_tokens[0]
            docs += 1
    if not tokens:
        raise InputError(f"{corpus.path}: no held-out document links to a training document")
    with_links, without_links = (float(v) for v in np.exp(-loglik / tokens))
    return LinkedScore(with_links, without_links, float(tokens), docs, xi, split)


@dataclass(frozen=True)
class LinkOptions:
    """Options of the scorer."""

    links: bool = option(
        False, "Predict the links of the held-out documents: F, precision, recall and AUC."
    )


def _link_scores(run: Scoring, options: LinkOptions) -> Mapping[str, object]:
    """Score predicted links and, if the model has eta, words with links given."""
    import_sklearn()  # raises before anything is computed if it is missing
    scores = Entry(
        link_prediction(run.model, run.corpus, threads=run.threads, progress=run.step("links"))
    ).plain()
    if {"eta", "theta"} <= set(run.model.manifest.tables):
        scores = {
            **scores,
            "given": asdict(linked_completion(run.model, run.corpus, split=run.split)),
        }
    return {"links": scores}


LINKS = Scorer(
    "links",
    _link_scores,
    Options=LinkOptions,
    is_requested=lambda options: options.links,
    text=lambda name, score: render(PREDICTION, score),
    bytes_held=bytes_held,
)
