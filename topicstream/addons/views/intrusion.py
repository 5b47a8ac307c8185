"""Sheets to test topics on people: word and topic intrusion (Chang et al. 2009)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError, UsageError
from topicstream.base.files.outputs import check_output, written, written_together
from topicstream.base.options import option
from topicstream.base.progress import listener
from topicstream.base.records import Json
from topicstream.display.html import fill_page
from topicstream.display.passages import beginnings
from topicstream.display.view import ModelView
from topicstream.evaluation.table_file import check_table_file, write_table
from topicstream.evaluation.visiting import infer_shares
from topicstream.model.top import top_words
from topicstream.model.topic_kinds import LIVE

SHOWN = 5
TOPICS = 3
QUESTIONS = 50
PAGES = (".html", ".htm")
HIDDEN = ("topic", "intruder_topic", "intruder", "place")
"""Columns that people must not see."""


def _build_row(
    noun: str, choices: Sequence[str], place: int, topic: Mapping[str, int]
) -> dict[str, Json]:
    """Build a row of a sheet: the choices, the topic, and which choice is the intruder."""
    return {
        **{f"{noun}_{i}": text for i, text in enumerate(choices, 1)},
        **topic,
        "intruder": choices[place],
        "place": place + 1,
    }


QUESTION_TEXTS = {
    "word": "Which word does not belong to the others?",
    "topic": "Which list of words does not belong to the document?",
}


def format_sheet(sheet: pa.Table) -> str:
    """Format a sheet as one HTML file that opens from disk.

    A question is a group of radio buttons. The answers can be saved as a CSV file.
    """
    kind = "word" if "word_1" in sheet.column_names else "topic"
    questions = []
    for row in sheet.to_pylist():
        n = row["question"]
        choices = [row[name] for name in sheet.column_names if name.startswith(f"{kind}_")]
        buttons = "".join(
            f'<label><input type="radio" name="q{n}" value="{i}"> <bdi>{escape(text)}</bdi></label>'
            for i, text in enumerate(choices, 1)
        )
        text = (
            f"<blockquote><bdi>{escape(row['text'])}</bdi></blockquote>" if kind == "topic" else ""
        )
        layout = " class=row" if kind == "word" else ""
        questions.append(
            f'<fieldset data-question="{n}"><legend>{n}</legend>{text}'
            f"<div{layout}>{buttons}</div></fieldset>"
        )
    folder = files("topicstream.addons.views") / "sheet_files"
    return fill_page(
        folder,
        "sheet.html",
        ("sheet.js",),
        TITLE=QUESTION_TEXTS[kind],
        QUESTIONS="\n".join(questions),
    )


def split_key(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Split a table into the sheet for people and the hidden key.

    The sheet has an empty column ``answer``.
    """
    hidden = [name for name in HIDDEN if name in table.column_names]
    sheet = table.drop_columns(hidden)
    return sheet.append_column("answer", pa.nulls(len(table), pa.int32())), table.select(
        ["question", *hidden]
    )


@dataclass(frozen=True)
class IntrusionView(ModelView, heeds=()):
    """A sheet to test topics on people."""

    title: ClassVar[str] = "Intrusion tests for human raters (--intrusion)"
    intrusion: str | None = option(
        None,
        "Write a word or topic intrusion test to --out, and its answers to FILE.key.csv.",
        choices=("words", "topics"),
    )
    out: str | None = option(
        None, "File for the sheet: .html, .csv, .parquet or .jsonl.", path="file", metavar="FILE"
    )
    seed: int = option(0, "Random seed.", min=0, show=True)
    force: bool = option(False, "Replace existing output files.")

    def result(self) -> None:
        if self.out is None:
            raise UsageError("--intrusion requires --out FILE.html or FILE.csv")
        out = Path(self.out)
        key = out.with_suffix(".key.csv")
        if out.suffix in PAGES:
            check_output(out, "--out", force=self.force)
        else:
            check_table_file(out, "--out", force=self.force)
        check_table_file(key, "--out", force=self.force)
        sheet, answers = split_key(self.table)
        with written_together():
            if out.suffix in PAGES:
                with written(out, force=self.force) as file:
                    file.write(format_sheet(sheet).encode())
            else:
                write_table(sheet, out, force=self.force)
            write_table(answers, key, force=self.force)
        listener(self.progress).say(f"{out}: {len(sheet)} questions; the answers are in {key}")

    @cached_property
    def table(self) -> pa.Table:
        """Make the questions with their answers, the same for the same seed."""
        rows = self._about_words() if self.intrusion == "words" else self._about_documents()
        if not rows:
            raise InputError(
                "--intrusion words: every topic has the first words of the others; train on "
                "more documents, or fewer topics"
            )
        return pa.Table.from_pylist(
            [{"question": number, **row} for number, row in enumerate(rows, 1)]
        )

    @cached_property
    def _live_topics(self) -> list[int]:
        """List the positions of the live topics, about which questions are asked."""
        kinds = self.shown.model.kinds
        return [k for k, kind in enumerate(kinds) if kind == LIVE]

    def _about_words(self) -> list[dict[str, Any]]:
        """Ask for each topic which of its first words is an intruder.

        The intruder is probable in another topic and improbable in this one. Columns: question,
        word_1 ... string, topic, intruder string, place (1-based). Dead topics and the background
        are left out.
        """
        view = self.shown.view
        model = self.shown.model
        live = self._live_topics
        if len(live) < 2:
            raise InputError("--intrusion words: needs at least two topics that are not dead")
        ids, _ = top_words(model, max(2 * SHOWN, 10))
        unique = np.unique(ids)
        p = model.probabilities(unique)
        rng = np.random.default_rng(self.seed)
        rows = []
        for k in live:
            others = np.setdiff1d(np.unique(ids[:SHOWN, [j for j in live if j != k]]), ids[:, k])
            if not len(others):
                continue
            # the half of the other topics' first words that this topic has least of
            value = p[np.searchsorted(unique, others), k]
            intruder = rng.choice(
                others[np.argsort(value, kind="stable")[: max(1, len(others) // 2)]]
            )
            mixed = rng.permutation(np.append(ids[:SHOWN, k], intruder))
            texts = model.vocabulary.texts(mixed)
            rows.append(
                _build_row(
                    "word", texts, int(np.flatnonzero(mixed == intruder)[0]), {"topic": view.ids[k]}
                )
            )
        return [rows[i] for i in rng.permutation(len(rows))]

    def _about_documents(self) -> list[dict[str, Any]]:
        """Ask for each document which of its largest topics is an intruder.

        It shows title and beginning of the document, and the intruder is a topic that it has nearly
        none of. Columns: question, document string, text string, topic_1 ... string (their first
        words), intruder, place. The documents are drawn from all training documents by the seed.
        The corpus is streamed once.
        """
        shown = self.shown
        view = self.shown.view
        store = self.store
        live = np.array(self._live_topics, np.int64)
        if len(live) < TOPICS + 2:
            raise InputError(
                f"--intrusion topics: needs {TOPICS + 2} topics that are neither dead nor the "
                f"background"
            )
        rng = np.random.default_rng(self.seed)
        spare = min(4 * QUESTIONS, store.n_docs)  # for documents without a known word
        order = rng.choice(store.n_docs, spare, replace=False)
        numbers = np.sort(order)
        shares_of_candidates = infer_shares(
            shown.trained, store, numbers, view=view, threads=shown.threads
        )
        usable = np.isin(order, numbers[shares_of_candidates.counted])
        drawn = np.sort(order[usable][:QUESTIONS])
        if not len(drawn):
            raise InputError(f"--intrusion topics: {store.path}: no document has a known word")
        theta = shares_of_candidates.shares[np.searchsorted(numbers, drawn)]
        about = beginnings(store, drawn, characters=600)
        words = [" ".join(texts) for texts in shown.first_words(8)]
        rows = []
        for d, shares in zip(drawn.tolist(), theta, strict=True):
            order = live[np.argsort(-shares[live], kind="stable")]
            intruder = int(rng.choice(order[len(order) // 2 :]))
            mixed = rng.permutation(np.append(order[:TOPICS], intruder))
            place = int(np.flatnonzero(mixed == intruder)[0])
            rows.append(
                {
                    **dict(zip(("document", "text"), about[d], strict=True)),
                    **_build_row(
                        "topic",
                        [words[k] for k in mixed],
                        place,
                        {"intruder_topic": view.ids[intruder]},
                    ),
                }
            )
        return rows
