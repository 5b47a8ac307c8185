"""Sheets to test topics on people: who does not belong?  (Chang et al. 2009, word and topic intrusion.)"""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError
from topicstream.evaluation.belonging import strangers
from topicstream.evaluation.memory import open_within
from topicstream.evaluation.table_file import check_table_file, write_table
from topicstream.files.outputs import check_output, written
from topicstream.model.edits import seen, view_of
from topicstream.model.top import top_words
from topicstream.model.topic_model import TopicModel
from topicstream.reporting.doc_topics import shares
from topicstream.reporting.gather import describe_documents
from topicstream.reporting.metadata import columns_of
from topicstream.reporting.payload import framed, our_page
from topicstream.reporting.snippets import passage_of, snippets

SHOWN = 5
TOPICS = 3


def word_intrusion(
    model: str | Path | TopicModel, *, seed: int = 0, words: int = SHOWN, mem_limit: str | int | None = None
) -> pa.Table:
    """A question a topic: its first words and one intruder, probable in another topic and improbable in this one, mixed.

    Columns: question int32, word_1 ... string, topic int32, intruder string, place int32 (1-based).  Empty topics are left
    out.  The same seed gives the same sheet.
    """
    opened, _ = open_within(model, mem_limit, 1)
    view = view_of(opened)
    shown = seen(opened, view)
    good = [k for k in range(len(view)) if shown.sizes[k] >= 1.0]
    if len(good) < 2:
        raise InputError("--intrusion words: needs two topics that are not empty")
    ids, _ = top_words(shown, max(2 * words, 10))
    p = shown.probabilities(np.unique(ids))
    unique = np.unique(ids)
    rng = np.random.default_rng(seed)
    rows = []
    for k in good:
        own = ids[:words, k]
        others = np.setdiff1d(np.unique(ids[:words, [j for j in good if j != k]]), ids[:, k])
        if not len(others):
            continue
        # the half of the other topics' first words that this topic has least of
        value = p[np.searchsorted(unique, others), k]
        intruder = rng.choice(others[np.argsort(value, kind="stable")[: max(1, len(others) // 2)]])
        mixed = rng.permutation(np.append(own, intruder))
        rows.append((view.ids[k], shown.vocabulary.texts(mixed), int(np.flatnonzero(mixed == intruder)[0])))
    order = rng.permutation(len(rows))
    return _table([rows[i] for i in order], "word", "topic")


def topic_intrusion(
    model: str | Path | TopicModel,
    corpus: str | Path | Corpus,
    *,
    questions: int = 50,
    seed: int = 0,
    topics: int = TOPICS,
    text_field: str | None = None,
    threads: int | None = None,
    mem_limit: str | int | None = None,
) -> pa.Table:
    """A question a document: its title and beginning, its largest topics and one that it has nearly none of, mixed.

    Columns: question, document string, text string, topic_1 ... string (their first words), intruder, place.  The documents
    are drawn from all training documents by the seed; the corpus is streamed once.
    """
    opened, workers = open_within(model, mem_limit, threads)
    view = view_of(opened)
    shown = seen(opened, view)
    store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    strangers(opened, store)
    if len(view) < topics + 2:
        raise InputError(f"--intrusion topics: needs {topics + 2} topics")
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.choice(store.n_docs, min(questions, store.n_docs), replace=False))
    theta = np.zeros((len(drawn), len(view)))
    for first, block in shares(opened, store, threads=workers):
        mine = np.flatnonzero((drawn >= first) & (drawn < first + len(block)))
        theta[mine] = view.shares(block[drawn[mine] - first])
    columns = [c for c in ("title",) if c in columns_of(store)]
    about = describe_documents(store, drawn, ["source", *columns])
    places = {number: passage_of(store, row) for number, row in about.items()}
    texts, _ = snippets(store, filter(None, places.values()), text_field=text_field, characters=600)
    ids, _ = top_words(shown, 8)
    said = [" ".join(shown.vocabulary.texts(ids[:, k])) for k in range(len(view))]
    rows, extra = [], []
    for d, shares_of in zip(drawn.tolist(), theta, strict=True):
        order = np.argsort(-shares_of, kind="stable")
        intruder = int(rng.choice(order[len(order) // 2 :]))
        mixed = rng.permutation(np.append(order[:topics], intruder))
        rows.append((view.ids[intruder], [said[k] for k in mixed], int(np.flatnonzero(mixed == intruder)[0])))
        row = about[d]
        extra.append((row.get("id", str(d)), texts.get(places[d] or ("", 0), "") or row.get("title") or ""))
    table = _table(rows, "topic", "intruder_topic")
    for i, name in enumerate(("document", "text")):
        table = table.add_column(1 + i, name, pa.array([e[i] for e in extra], pa.string()))
    return table


def _table(rows: list[tuple[int, list[str], int]], what: str, topic: str) -> pa.Table:
    n = len(rows[0][1]) if rows else 0
    columns = {"question": pa.array(range(1, len(rows) + 1), pa.int32())}
    columns |= {f"{what}_{i + 1}": pa.array([r[1][i] for r in rows], pa.string()) for i in range(n)}
    columns |= {
        topic: pa.array([r[0] for r in rows], pa.int32()),
        "intruder": pa.array([r[1][r[2]] for r in rows], pa.string()),
        "place": pa.array([r[2] + 1 for r in rows], pa.int32()),
    }
    return pa.table(columns)


ASKED = {
    "word": "Which word does not belong to the others?",
    "topic": "Which list of words does not belong to the document?",
}


def sheet_page(sheet: pa.Table) -> str:
    """A sheet as one HTML file that opens from disk: a group of radio buttons a question, and the answers as a CSV file."""
    kind = "word" if "word_1" in sheet.column_names else "topic"
    questions = []
    for row in sheet.to_pylist():
        n = row["question"]
        choices = [row[name] for name in sheet.column_names if name.startswith(f"{kind}_")]
        labels = "".join(
            f'<label><input type="radio" name="q{n}" value="{i}"> <bdi>{escape(text)}</bdi></label>'
            for i, text in enumerate(choices, 1)
        )
        said = f"<blockquote><bdi>{escape(row['text'])}</bdi></blockquote>" if kind == "topic" else ""
        questions.append(
            f'<fieldset data-question="{n}"><legend>{n}</legend>{said}<div{" class=row" if kind == "word" else ""}>{labels}</div></fieldset>'
        )
    return framed("sheet.html", ("sheet.js",), TITLE=ASKED[kind], QUESTIONS="\n".join(questions))


def write_sheet(sheet: pa.Table, path: Path, *, force: bool = False) -> None:
    """As HTML by the name, else as a table."""
    if path.suffix not in (".html", ".htm"):
        write_table(sheet, path, force=force)
        return
    with written(path, force=force, reads=our_page) as file:
        file.write(sheet_page(sheet).encode())


def check_sheet(path: Path, *, force: bool = False) -> None:
    """Before any work: InputError, TopicsError where the sheet cannot be written there."""
    if path.suffix in (".html", ".htm"):
        check_output(path, "--out", force=force, reads=our_page)
    else:
        check_table_file(path, "--out", force=force)


def sheet_and_key(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What people are given (with an empty column ``answer``) and what they must not see."""
    hidden = [c for c in ("topic", "intruder_topic", "intruder", "place") if c in table.column_names]
    sheet = table.drop_columns(hidden)
    return sheet.append_column("answer", pa.nulls(len(table), pa.int32())), table.select(["question", *hidden])
