"""Words that a group of documents uses more than the others within a topic, from one stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from topicstream.base.errors import DoesNotFit, InputError
from topicstream.base.machine import format_bytes
from topicstream.base.memory import Array, MemoryLimit
from topicstream.base.progress import ProgressLike, listener
from topicstream.base.text import counted, escaped, shortened
from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.display.gather import Column
from topicstream.display.metadata import codes_of
from topicstream.display.view import ShownModel
from topicstream.evaluation.keys import match_words
from topicstream.evaluation.memory import block_cells, block_docs, room_beside_scoring
from topicstream.evaluation.metadata import Metadata
from topicstream.evaluation.visiting import documents_of_block
from topicstream.inference.documents import Documents
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import make_block_method
from topicstream.model.top import Best
from topicstream.model.topic_kinds import mark_kind
from topicstream.numeric.kernels.arrays import Doubles, Floats, Longs
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.parallel import in_order

PRIOR_TOKENS = 500.0
"""Tokens that the prior of a group's words is worth: the topic's own words in their proportion."""
LEAST_TOKENS = 1.0
"""Tokens of a word that a group must have in a topic for the word to be listed."""
LIMITS = (
    "(z): log-odds against the other groups over their standard error, within the topic; they rank "
    "words and test nothing, for tokens count as independent and their topics as known"
)
"""A line about the figures, for people."""
ROWS = pa.schema(
    [
        ("topic", pa.int64()),
        ("label", pa.string()),
        ("kind", pa.string()),
        ("group", pa.string()),
        ("documents", pa.int64()),
        ("rank", pa.int64()),
        ("word", pa.string()),
        ("tokens", pa.float64()),
        ("tokens_of_others", pa.float64()),
        ("log_odds", pa.float64()),
        ("z", pa.float64()),
    ]
)


class WordsByGroup(NamedTuple):
    """Tokens of words by group and topic.

    Attributes
    ----------
    tokens
        float64[G + 1, W, shown]. The last entry has all documents with a value of the column.
    documents
        Documents with a known word, int64[G + 1], likewise.
    """

    tokens: np.ndarray
    documents: np.ndarray


@kernel
def add_tokens(
    docs: tuple[Longs, Longs, Floats],
    rows: tuple[Longs, Floats],
    prior: tuple[float, Doubles],
    theta: Floats,
    place: Longs,
    groups: tuple[Longs, Longs],
    out: Doubles,
) -> None:
    """Add the tokens of each cell to its groups, by the probabilities of its topics.

    Parameters
    ----------
    docs
        indptr, words and counts of the documents.
    rows
        The row of each cell, and the table of rows.
    prior
        beta, and the norm of each topic.
    theta
        float32[D, K], p(k|d).
    place
        int64[K], the topic of ``out`` that each trained one is shown in, or -1.
    groups
        indptr and codes of the documents' groups.
    out
        float64[G, W, shown].
    """
    indptr, words, counts = docs
    row_of, table = rows
    beta, norms = prior
    first_group, codes = groups
    topics = len(place)
    joint = np.zeros(topics)
    shown = np.zeros(out.shape[2])
    for d in range(len(indptr) - 1):
        if first_group[d] == first_group[d + 1]:
            continue
        for cell in range(indptr[d], indptr[d + 1]):
            # p(k, w | d) = theta_k p(w|k)
            total = 0.0
            for k in range(topics):
                joint[k] = theta[d, k] * (table[row_of[cell], k] + beta) / norms[k]
                total += joint[k]
            if total <= 0.0:
                continue
            # x p(k | w, d), by the topic that k is shown in
            shown[:] = 0.0
            scale = counts[cell] / total
            for k in range(topics):
                if place[k] >= 0:
                    shown[place[k]] += scale * joint[k]
            # to each group of the document
            for entry in range(first_group[d], first_group[d + 1]):
                out[codes[entry], words[cell]] += shown


def count_words(
    shown: ShownModel,
    corpus: Corpus,
    column: Column,
    topics: Sequence[int],
    progress: ProgressLike = None,
) -> WordsByGroup:
    """Stream the corpus once, and count the tokens of words by group and topic.

    A token counts for each topic by p(k|d, w). The sums have one order, whatever the threads.

    Parameters
    ----------
    shown
        The model, its topics as edited, and the threads that may work.
    corpus
        The store that the model was trained on.
    column
        The groups. A document of several, in a column of lists, counts in each.
    topics
        Positions of the shown topics to count.
    progress
        Reports the documents that have been read.

    Returns
    -------
    WordsByGroup
        The sums over all training documents with a known word.
    """
    trained = shown.trained
    groups = len(column.values)
    method = make_block_method(trained)
    joint = _JointRows(shown)
    place = np.full(trained.n_topics, -1, np.int64)
    for position, shown_topic in enumerate(topics):
        place[shown.view.members[shown_topic]] = position
    tokens = np.zeros((groups + 1, trained.n_words, len(topics)))
    documents = np.zeros(groups + 1, np.int64)
    index = match_words(trained.vocabulary, corpus)

    def visit(block: Block) -> tuple[int, Documents, np.ndarray]:
        docs = documents_of_block(block, index)
        return block.first_doc, docs, method.shares(docs)

    table = Metadata(corpus, [column.name])
    tell = listener(progress)
    grid = corpus.grid(block_cells(trained.n_topics), block_docs(trained.n_topics))
    for first, docs, theta in in_order(visit, corpus.blocks(grid=grid), shown.threads):
        values, _ = table.read_rows(first, len(docs))
        of_groups = _code_groups(values[column.name].combine_chunks(), column, docs)
        documents += np.bincount(of_groups[1], minlength=groups + 1)
        cells = (docs.indptr, docs.words, docs.counts)
        add_tokens(cells, joint.gather(docs), joint.prior, theta, place, of_groups, tokens)
        tell.step("words of groups", first + len(docs), corpus.n_docs, "documents")
    return WordsByGroup(tokens, documents)


class _JointRows:
    """The word factor of p(k|d, w), by which the tokens of a cell are shared among topics.

    In a model of clusters a document is in one cluster with all of its tokens. So there p(k|d, w)
    is p(k|d), and the factor is 1 for every word.
    """

    def __init__(self, shown: ShownModel) -> None:
        model = shown.trained
        self._one_cluster = model.cluster_sizes is not None
        self._rows = TopicRows(model)
        norms = (
            np.ones(model.n_topics) if self._one_cluster else np.asarray(model.norms, np.float64)
        )
        self.prior = (0.0 if self._one_cluster else float(model.beta), norms)

    def gather(self, docs: Documents) -> tuple[np.ndarray, np.ndarray]:
        """Return the row of each cell, int64[nnz], and the table of rows, float32[R, K]."""
        if self._one_cluster:
            return np.zeros(len(docs.words), np.int64), np.ones((1, len(self.prior[1])), np.float32)
        return self._rows.gather(docs)


def _code_groups(values: Any, column: Column, docs: Documents) -> tuple[np.ndarray, np.ndarray]:
    """Return indptr and codes of the documents' groups.

    The last code is that of any value. Documents without a known word have none.
    """
    last = len(column.values)

    def code(value: str) -> int:
        number = column.code(value)
        return number if number >= 0 else last

    owners, codes = codes_of(values, code)
    entries = np.concatenate([owners * (last + 1) + codes, np.unique(owners) * (last + 1) + last])
    owners, codes = np.divmod(np.unique(entries), last + 1)
    known = np.diff(docs.indptr)[owners] > 0
    owners = owners[known]
    counts = np.bincount(owners, minlength=len(docs))
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), codes[known].astype(np.int64)


def check_room(
    shown: ShownModel, limit: MemoryLimit, column: Column, topics: Sequence[int]
) -> None:
    """Raise DoesNotFit where the counts would not fit the limit, with the topics that would.

    The threads of scoring, and the model, are there already.
    """
    groups = len(column.values) + 1
    words = shown.trained.n_words
    needed = Array((groups, words, len(topics)), "float64").nbytes
    room = room_beside_scoring(shown.trained, limit, shown.threads)
    if needed <= room.free:
        return
    enough = -(-(limit.bytes + needed - room.free) // (1 << 20))
    few = room.free * len(topics) // needed
    other = f", or name at most {counted(few, 'topic')} with -k" if few else ""
    raise DoesNotFit(
        f"--contrast: counts of {counted(words, 'word')} in {counted(len(topics), 'topic')} and "
        f"{counted(groups - 1, 'group')} take {format_bytes(needed)}, "
        f"{format_bytes(max(room.free, 0))} are left of --mem-limit {limit}; {enough}M would "
        f"do{other}",
        least=enough,
    )


Tokens = tuple[np.ndarray, np.ndarray]
"""Tokens of words, and of all words of the topic, which broadcast."""


def log_odds(tokens: Tokens, of_others: Tokens, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the log-odds of words in a group against the others, and their z-scores.

    With y tokens of a word among n of the group, y' among n' of the others and a prior of a among
    A, d = log((y + a) / (n + A - y - a)) - log((y' + a) / (n' + A - y' - a)), whose variance is
    about 1 / (y + a) + 1 / (y' + a) (Monroe, Colaresi & Quinn 2008).

    Parameters
    ----------
    tokens, of_others
        y and y' beside n and n', each a pair of float64[W, K] and float64[K].
    prior
        a, float64[W, K].
    """
    of_group = _log_odds_with_prior(*tokens, prior)
    others = _log_odds_with_prior(*of_others, prior)
    difference = of_group - others
    variance = 1.0 / (tokens[0] + prior) + 1.0 / (of_others[0] + prior)
    return difference, difference / np.sqrt(variance)


def _log_odds_with_prior(tokens: np.ndarray, total: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Compute the log-odds of words among the tokens of a topic and its prior."""
    with_prior = tokens + prior
    return np.asarray(np.log(with_prior / (total + PRIOR_TOKENS - with_prior)))


def contrast_words(
    shown: ShownModel,
    corpus: Corpus,
    column: Column,
    topics: Sequence[int],
    n: int,
    limit: MemoryLimit,
    min_docs: int = 1,
    progress: ProgressLike = None,
) -> pa.Table:
    """Tabulate the n words that each group uses more than the others, by topic.

    Parameters
    ----------
    shown, corpus, column, topics, progress
        As ``count_words`` has them.
    limit
        The memory limit of the process.
    min_docs
        Leave out groups with fewer documents.

    Raises
    ------
    InputError
        If no group has others to compare it with.
    DoesNotFit
        If the counts do not fit the limit.
    """
    check_room(shown, limit, column, topics)
    words = count_words(shown, corpus, column, topics, progress)
    documents = words.documents
    chosen = [
        group
        for group in range(len(column.values))
        if documents[group] >= min_docs and documents[group] < documents[-1]
    ]
    if not chosen:
        raise InputError(
            f"--contrast: no two groups of {column.name} to compare"
            + (f" with {counted(min_docs, 'document')} each" if min_docs > 1 else "")
            + f" (its values: {', '.join(column.values[:5])})"
        )
    ranked = {group: rank_words(shown, words, topics, group, n) for group in chosen}
    rows: list[dict[str, Any]] = []
    for position, topic in enumerate(topics):
        about = {
            "topic": shown.view.ids[topic],
            "label": shown.plain_names[topic],
            "kind": shown.model.kinds[topic],
        }
        for group in chosen:
            of_group = {"group": column.values[group], "documents": int(documents[group])}
            best = ranked[group]
            first = best.ids[best.scores[:, position] > 0.0, position]
            figures = _make_rows(shown, words, first, position, topic, group)
            rows += [{**about, **of_group, **row} for row in figures]
    return pa.Table.from_pylist(rows, schema=ROWS)


def rank_words(
    shown: ShownModel, words: WordsByGroup, topics: Sequence[int], group: int, n: int
) -> Best:
    """Rank the words of each topic by the z-scores of a group against all other documents.

    The prior has the words of the topic in their proportion and is worth ``PRIOR_TOKENS``.
    """
    tokens = words.tokens[group]
    all_tokens = words.tokens[-1]
    total = tokens.sum(axis=0)
    total_of_others = all_tokens.sum(axis=0) - total
    model = shown.model
    best = Best(min(n, model.n_words), len(topics))
    for first, rows in model.spans():
        some = slice(first, first + len(rows))
        prior = PRIOR_TOKENS * ((rows + model.beta) / model.norms)[:, list(topics)]
        others = all_tokens[some] - tokens[some]
        _, z = log_odds((tokens[some], total), (others, total_of_others), prior)
        best.add(first, np.where(tokens[some] >= LEAST_TOKENS, z, -np.inf))
    return best


def _make_rows(
    shown: ShownModel,
    words: WordsByGroup,
    ids: np.ndarray,
    position: int,
    topic: int,
    group: int,
) -> list[dict[str, Any]]:
    """Make the rows of the table for a topic's first words in a group, best first."""
    tokens = words.tokens[group, :, position]
    others = words.tokens[-1, :, position] - tokens
    p = shown.model.pair_probabilities(ids, np.full(len(ids), topic))
    difference, z = log_odds(
        (tokens[ids], tokens.sum()), (others[ids], others.sum()), PRIOR_TOKENS * p
    )
    columns = zip(
        shown.model.vocabulary.texts(ids),
        tokens[ids].tolist(),
        others[ids].tolist(),
        difference.tolist(),
        z.tolist(),
        strict=True,
    )
    names = ("word", "tokens", "tokens_of_others", "log_odds", "z")
    return [
        {"rank": rank, **dict(zip(names, values, strict=True))}
        for rank, values in enumerate(columns, 1)
    ]


def format_for_print(table: pa.Table) -> pa.Table:
    """Build a row for each topic and group, with its words in one cell."""
    cells: dict[tuple[Any, ...], list[str]] = {}  # Arrow's groups may come in any order
    for row in table.to_pylist():
        key = (row["topic"], row["label"], row["group"], row["documents"])
        cells.setdefault(key, []).append(row["word"])
    rows = [[*key, ", ".join(words)] for key, words in cells.items()]
    names = ("topic", "label", "group", "documents", "words")
    return pa.table({name: [row[column] for row in rows] for column, name in enumerate(names)})


def format_words(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Format a line for each topic, and one for each of its groups."""
    groups: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        groups.setdefault(row["topic"], {}).setdefault(row["group"], []).append(row)
    for topic, of_groups in groups.items():
        first = next(iter(of_groups.values()))[0]
        mark = mark_kind(first["kind"])
        yield f"{topic:>4} " + (f"({mark}) " if mark else "") + escaped(first["label"])
        for group, group_rows in of_groups.items():
            text = ", ".join(f"{escaped(row['word'])} ({row['z']:.1f})" for row in group_rows)
            yield f"     {escaped(shortened(group, 20)):20} {text}"
