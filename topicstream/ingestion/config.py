"""Options of an ingest: the one list that makes ``topicstream.ingest``'s keywords and the options
of ``topics ingest``; and how a signal ends it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from typing import Any

from topicstream.errors import Interrupted
from topicstream.ingestion.read_options import ReadOptions
from topicstream.memory import WorkOptions
from topicstream.options import SchedulerOptions, option, share_or_number
from topicstream.tokens.recipe import Recipe

Place = str | os.PathLike[str]


class Stop:
    """A signal handler: while reading, the first signal is kept until the next commit; any other
    stops at once (what is committed is safe, the rest is done again)."""

    def __init__(self) -> None:
        self.signum = 0
        self.deferring = False

    def __call__(self, signum: int, frame: object = None) -> None:
        if self.signum or not self.deferring:
            raise self.error(signum)
        self.signum = signum

    @staticmethod
    def error(signum: int) -> Interrupted:
        """What is raised."""
        return Interrupted("stopped; the same command again carries on where this one was", signum)


@dataclass(frozen=True)
class IngestConfig(ReadOptions, SchedulerOptions, WorkOptions):
    """All settings of an ingest; None means the default, which may depend on the input."""

    documents: Any = option(
        MISSING,
        "a path (str or Path; -: standard input) or a list of Path: files and folders of any "
        "format; or documents in "
        "memory: an iterable of strings or dicts (a generator is read as it goes, never held), "
        "a pyarrow table, batch or "
        "reader, a pandas or polars frame, a Hugging Face dataset, or a sparse or dense matrix "
        "of counts [D, W]. A str in "
        "a list is a document. Documents without an id get their number",
        cli=False,
    )
    out: Place = option(
        "corpus.zarr", "Corpus store to create.", env="TOPICS_CORPUS", show=True, after=""
    )
    _: KW_ONLY
    meta_files: Place | Sequence[Place] = option(
        (),
        "Add fields from a TSV, CSV, JSON lines or Parquet file. COLUMN: fields to keep "
        "(field=column), or "
        "column names for a file without a header, such as authors.tsv:row,authors.",
        flags=("--meta-file",),
        multiple=True,
        metavar="FILE[:COLUMN,...]",
        after="meta",
    )
    links: Place | Sequence[Place] = option(
        (),
        "Add links from a TSV or CSV file with two columns, citing and cited.",
        multiple=True,
        metavar="FILE",
    )
    key: str = option(
        "id",
        "Match rows of side files to documents by id (the default), row number (from 1), file, "
        "or a column of ids.",
        metavar="id|row|file|COLUMN",
    )
    lowercase: bool | None = option(
        None, "Lower-case words (default: yes).", pair=True, after="on_error"
    )
    min_length: int | None = option(
        None, "Minimum number of letters and digits in a word (default: 2).", min=1
    )
    numbers: bool | None = option(None, "Keep words without letters (default: no).", pair=True)
    pattern: str | None = option(
        None, "Regular expression that matches a word.", flags=("--token-pattern",)
    )
    keep: Sequence[str] | None = option(
        None, "emoji: treat every emoji as a word.", multiple=True, choices=("emoji",)
    )
    stopwords: Place | Sequence[str] | None = option(
        None,
        "english (the default), german, de, ... (33 languages), a file, or none; repeatable.",
        multiple=True,
        metavar="LANGUAGE|FILE|none",
    )
    drop_tags: bool = option(False, "Remove HTML tags, comments and scripts from the text.")
    drop_urls: bool = option(False, "Remove web addresses from the text.")
    drop_mentions: bool = option(False, "Remove @names from the text.")
    entities: bool | None = option(
        None, "Resolve HTML entities such as &amp;.", flags=("--html-entities",)
    )
    segmenter: str | None = option(
        None,
        "Segment words in scripts without spaces: jieba, sudachi, pythainlp or kiwi (installed "
        "separately).",
        metavar="NAME",
    )
    replace: Place | Mapping[str, str] | None = option(
        None,
        "Map spelling variants: a TSV or CSV file with two columns, a word and its replacement.",
        metavar="FILE",
    )
    lemmas: str | None = option(
        None,
        "Count lemmas: simplemma:LANGUAGE or spacy:PIPELINE (installed separately).",
        metavar="TOOL:LANGUAGE",
    )
    ngrams: int | None = option(
        None, "Also count sequences of up to this many words.", min=1, max=3
    )
    phrase_threshold: float | None = option(
        None,
        "Join pairs of words that occur at least 20 times with a normalised PMI of at least "
        "this, such as "
        "0.5; reads the text twice.",
        flags=("--phrases",),
        min=-1,
        max=1,
    )
    stem: str | None = option(
        None,
        "Stem words (extra: stem): arabic, armenian, basque, catalan, czech, danish, dutch, "
        "english, esperanto, estonian,"
        " finnish, french, german, greek, hindi, hungarian, indonesian, irish, italian, "
        "lithuanian, nepali, norwegian,"
        " persian, polish, portuguese, romanian, russian, serbian, sesotho, spanish, swedish, "
        "tamil, turkish, yiddish;"
        " or de, fr, ...",
        metavar="LANGUAGE",
    )
    tokenized: bool | None = option(None, "The text is already tokenised: split at white space.")
    unspaced: str | None = option(
        None,
        "Index scripts without spaces as character bigrams (the default) or as whole runs.",
        choices=("bigrams", "runs"),
    )
    min_df: str | float | None = option(
        None,
        "Minimum document frequency of a word, a number or a share (default: text 5, at most 1 "
        "%; counts 1).",
        parse=share_or_number,
    )
    max_df: str | float | None = option(
        None,
        "Maximum document frequency of a word, a number or a share (default: text 50 %; counts "
        "all).",
        parse=share_or_number,
    )
    min_count: int = option(1, "Minimum number of occurrences of a word.", min=0)
    max_vocab: int | None = option(None, "Keep at most this many words, the most frequent.", min=1)
    drop_top: int = option(
        0, "Leave out the N most frequent words (new stores only).", min=0, metavar="N"
    )
    drop_words: Place | None = option(
        None, "Leave out the words in a file with one word per line.", path=True, metavar="FILE"
    )
    vocab: Place | None = option(
        None, "Fixed vocabulary: a file with one word per line, or vocab.parquet.", path=True
    )
    heldout: str | float | None = option(
        None,
        "Held-out documents: a share (1% or 0.01), a number, FIELD=VALUE, or 0 (default: 1 %, "
        "at least 50, at "
        "most 10 %).",
    )
    heldout_by: str | None = option(
        None,
        "Hold out whole groups: all documents with the same value of this field.",
        metavar="FIELD",
    )
    append: bool = option(False, "Append to an existing store.")
    grow_vocab: bool = option(False, "With --append: add new words to the vocabulary.")
    on_duplicate: str | None = option(
        None,
        "What to do when an id occurs twice (default: skip; PubMed: replace).",
        choices=("skip", "replace", "fail"),
    )
    force: bool = option(False, "Replace an existing store or an unfinished ingest.")
    workers: int | None = option(None, "Threads (default: all processors).", min=1, max=4096)
    stopwords_from: str | None = option(None, "what a list of stop words is called", cli=False)
    phrases: Sequence[str] | None = option(None, "learned pairs of words, joined", cli=False)
    checkpoint_bytes: int = option(512 << 20, "of input between two commits of the work", cli=False)
    checkpoint_seconds: float = option(30.0, "between two commits of the work", cli=False)
    vocabulary: Sequence[str] | Mapping[str, int] | None = option(
        None, "of a matrix: its words, or a dict word -> column", cli=False
    )
    ids: Sequence[Any] | None = option(None, "of a matrix: the ids of its documents", cli=False)
    recipe: Recipe | None = option(
        None, "the tokenizer of a store or a model, instead of one of these options", cli=False
    )
    stop: Stop | None = option(
        None, "a signal handler that ends the ingest after a commit", cli=False
    )
