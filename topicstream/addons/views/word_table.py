"""Tables for papers: words of topics by four measures, and correlations of topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from topicstream.base.files.outputs import written_together
from topicstream.base.options import option
from topicstream.base.records import Json
from topicstream.base.text import counted
from topicstream.display.gather import Survey, correlations, gather_report
from topicstream.display.view import ModelView, ShownModel
from topicstream.evaluation.table_file import TEXT_SUFFIXES, check_table_file, write_table
from topicstream.evaluation.visiting import left_out_text
from topicstream.model.topic_kinds import LIVE
from topicstream.model.topic_model import TopicModel


def word_measures(model: TopicModel) -> dict[str, np.ndarray]:
    """Compute measures of each word in each topic, float[K, W], in memory.

    They are larger for words that say more of the topic. ``probability``: p(w|k). ``frex``:
    harmonic mean of the ranks of p(w|k) and of p(w|k) / sum of p(w|j) (Bischof & Airoldi, ICML
    2012), with equal weights and shares of rare words shrunk, as R's stm does it. ``lift``: p(w|k)
    / p(w) (Taddy 2012). ``score``: p(w|k) (log p(w|k) - mean of log p(w|j)) (as R's lda).
    """
    from scipy.stats import rankdata  # half a second, which other views need not spend

    p = np.maximum(model.topic_word.astype(np.float64), 1e-300)
    logarithm = np.log(p)
    shares = shrink_shares(p / p.sum(axis=0), model.vocabulary.counts)
    exclusivity = rankdata(shares, axis=1) / p.shape[1]
    frequency = rankdata(p, axis=1) / p.shape[1]
    return {
        "probability": p,
        "frex": 2 / (1 / exclusivity + 1 / frequency),
        "lift": p / (model.shares @ p),
        "score": p * (logarithm - logarithm.mean(axis=0)),
    }


def shrink_shares(shares: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Shrink the topics of rare words towards equal shares (James-Stein).

    A word that occurs once is exclusive to its topic whatever that is. The weight of equal shares
    is the variance of the word's shares, were they a sample of so many tokens, over their squared
    distance from equal ones (Hausser & Strimmer, JMLR 2009), as in stm's ``calcfrex``.

    Parameters
    ----------
    shares
        Shares of the topics in each word, float64[K, W], columns sum to one.
    counts
        Tokens of the words, int64[W]. All 0: unknown, and nothing is shrunk.
    """
    if not counts.any():
        return shares
    equal = 1.0 / len(shares)
    variance = (shares * (1.0 - shares)).sum(axis=0) / np.maximum(counts - 1.0, 1e-300)
    distance = ((shares - equal) ** 2).sum(axis=0)
    weight = np.minimum(variance / np.maximum(distance, 1e-300), 1.0)
    weight[counts <= 1] = 1.0
    return np.asarray(weight * equal + (1.0 - weight) * shares)


def word_table(shown: ShownModel, topics: list[int], n: int) -> pa.Table:
    """Tabulate the first n words of topics by each measure.

    Columns: topic, label, kind, share, measure, rank, word, value.
    """
    rows = []
    measures = word_measures(shown.model)
    for k in topics:
        about = {
            "topic": shown.view.ids[k],
            "label": shown.plain_names[k],
            "kind": shown.model.kinds[k],
            "share": float(shown.model.shares[k]),
        }
        for measure, values_by_topic in measures.items():
            values = values_by_topic[k]
            best = np.argsort(-values, kind="stable")[:n]
            words = shown.model.vocabulary.texts(best)
            rows += [
                {**about, "measure": measure, "rank": rank, "word": word, "value": float(value)}
                for rank, (word, value) in enumerate(zip(words, values[best], strict=True), 1)
            ]
    return pa.Table.from_pylist(rows)


def format_for_print(table: pa.Table, labelled: bool) -> pa.Table:
    """Build a row for each topic and measure, with its words in one cell.

    Labels are shown if people gave them, not if they are proposed.
    """
    unusual = any(kind != LIVE for kind in table["kind"].to_pylist())
    keys = ["topic", *(["label"] if labelled else []), *(["kind"] if unusual else [])]
    keys += ["share", "measure"]
    numbered = table.append_column("row", pa.array(range(len(table))))
    groups = numbered.group_by(keys, use_threads=False).aggregate(
        [("word", "list"), ("row", "min")]
    )
    groups = groups.sort_by("row_min")  # groups may come in any order
    words = [", ".join(words_of_row) for words_of_row in groups["word_list"].to_pylist()]
    shares = [f"{100 * share:.1f} %" for share in groups["share"].to_pylist()]
    return pa.table({**{key: groups[key] for key in keys}, "share": shares, "words": words})


@dataclass(frozen=True)
class TableView(ModelView, heeds=("words", "topics")):
    """Tables for papers."""

    title: ClassVar[str] = "Tables for papers (--table, --correlations)"
    table: str | None = option(
        None,
        "Write the first words of each topic by probability, FREX, lift and score, as .csv, "
        ".tex, .md, .parquet or .jsonl.",
        path="file",
        metavar="FILE",
    )
    correlations: str | None = option(
        None,
        "Write the correlations of topic shares in the training documents, in the formats of "
        "--table.",
        path="file",
        metavar="FILE",
    )
    force: bool = option(False, "Replace an existing output file.")

    @written_together()
    def result(self) -> dict[str, Json]:
        """Write the files and return their paths."""
        paths = {"table": self.table, "correlations": self.correlations}
        files = {name: path for name, path in paths.items() if path is not None}
        for name, path in files.items():
            check_table_file(path, f"--{name}", force=self.force, text=True)
        shown = self.shown
        by_size = self.topics is None and not shown.view.ordered
        topics = shown.ranked(shown.model.sizes) if by_size else shown.columns(self.topics)
        left_out = 0
        if self.table is not None:
            words = word_table(shown, topics, self.words)
            if self.table.endswith(TEXT_SUFFIXES):
                words = format_for_print(words, bool(shown.view.labels))
            caption = f"First {self.words} words of the topics"
            write_table(words, self.table, option="--table", force=self.force, caption=caption)
        if self.correlations is not None:
            sums = gather_report(
                shown,
                self.store,
                Survey(None, []),
                docs=0,
                progress=self.progress,
            )
            if by_size:
                topics = sorted(topics)
            matrix = correlations(sums)[np.ix_(topics, topics)]
            ids = [shown.view.ids[k] for k in topics]
            columns = {"topic": pa.array(ids), "label": pa.array([shown.names[k] for k in topics])}
            columns |= {
                str(topic): pa.array(column) for topic, column in zip(ids, matrix.T, strict=True)
            }
            caption = "Correlations of the topics' shares"
            write_table(
                pa.table(columns),
                self.correlations,
                option="--correlations",
                force=self.force,
                caption=caption,
            )
            left_out = sums.left_out
        return {**files, "topics": len(topics), "left_out": left_out}

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        """Format a line for each file, and one about documents that do not count."""
        out = [
            f"{result[name]}: {counted(result['topics'], 'topic')}"
            for name in ("table", "correlations")
            if name in result
        ]
        note = left_out_text(result["left_out"])
        if note:
            out.append(note)
        return out
