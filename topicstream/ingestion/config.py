"""Options of an ingest, and how a signal ends it.

One list makes the keywords of ``topicstream.ingest`` and the options of ``topics ingest``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from typing import Any

from topicstream.base.errors import Interrupted
from topicstream.base.memory import WorkOptions
from topicstream.base.options import SchedulerOptions, option, share_or_number
from topicstream.base.signals import note_signal
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.tokens.accents import check_language
from topicstream.ingestion.tokens.recipe import Recipe

Place = str | os.PathLike[str]
CARRIES_ON = "stopped; the same command again carries on where this one was"


class Stop:
    """Signal handler that defers the first signal to the next commit.

    A second signal stops at once: committed work is safe, and the rest is done again.

    Attributes
    ----------
    signum
        The signal that came, or 0.
    deferring
        True while work goes on that ends soon with a commit. Otherwise a signal stops at once.
    """

    def __init__(self) -> None:
        self.signum = 0
        self.deferring = False

    def __call__(self, signum: int, frame: object = None) -> None:
        if self.signum or not self.deferring:
            # ``Stopped`` is no Exception, so that the interrupted code does not catch it
            raise note_signal(signum, CARRIES_ON)
        self.signum = signum

    @staticmethod
    def error(signum: int) -> Interrupted:
        """Make the error that is raised after a commit."""
        return Interrupted(CARRIES_ON, signum)


@dataclass(frozen=True)
class IngestConfig(ReadOptions, SchedulerOptions, WorkOptions):
    """Settings of an ingest.

    None means the default, which may depend on the input.
    """

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
        decides="input",
        set_by_retrain=True,
    )
    out: Place = option(
        "corpus.zarr",
        "Corpus store to create.",
        env="TOPICS_CORPUS",
        show=True,
        after="",
        decides="nothing",
        set_by_retrain=True,
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
        decides="side",
        group="Input",
    )
    links: Place | Sequence[Place] = option(
        (),
        "Add links from a TSV or CSV file with two columns, citing and cited.",
        multiple=True,
        metavar="FILE",
        decides="side",
        group="Input",
    )
    key: str = option(
        "id",
        "Match rows of side files to documents by id (the default), row number (from 1), file, "
        "or a column of ids.",
        metavar="id|row|file|COLUMN",
        decides="side",
        group="Input",
    )
    normalize: str | None = option(
        None,
        "Unicode form of the text: nfkc (the default; composed letters, ligatures and full-width "
        "letters as plain ones), nfc (composed letters) or none (as it is written).",
        choices=("none", "nfc", "nfkc"),
        after="on_error",
        decides="tokenizer",
        group="Text",
    )
    lowercase: bool | None = option(
        None,
        "Lower-case words (default: yes).",
        pair=True,
        decides="tokenizer",
        group="Text",
    )
    min_length: int | None = option(
        None,
        "Minimum number of letters and digits in a word (default: 2).",
        min=1,
        decides="tokenizer",
        group="Text",
    )
    numbers: bool | None = option(
        None,
        "Keep words without letters (default: no).",
        pair=True,
        decides="tokenizer",
        group="Text",
    )
    pattern: str | None = option(
        None,
        "Regular expression that matches a word.",
        flags=("--token-pattern",),
        decides="tokenizer",
        group="Text",
    )
    fold_accents: str | None = option(
        None,
        "Count words without their accents, as the language allows: french, spanish (ñ stays), "
        "greek, russian, ..., or all (default: off).",
        metavar="LANGUAGE|all",
        parse=check_language,
        decides="tokenizer",
        group="Text",
    )
    join_hyphens: bool | None = option(
        None,
        "Join words that are broken at line ends, where the corpus has the whole word (reads the "
        "text twice).",
        flags=("--join-hyphens",),
        decides="tokenizer",
        group="Text",
    )
    keep: Sequence[str] | None = option(
        None,
        "emoji: treat every emoji as a word.",
        multiple=True,
        choices=("emoji",),
        decides="tokenizer",
        group="Text",
    )
    stopwords: Place | Sequence[str] | None = option(
        None,
        "english (the default), german, de, ... (34 languages), a file, or none; repeatable.",
        multiple=True,
        metavar="LANGUAGE|FILE|none",
        decides="tokenizer",
    )
    drop_tags: bool = option(
        False,
        "Remove HTML tags, comments and scripts from the text.",
        decides="tokenizer",
        group="Text",
    )
    drop_urls: bool = option(
        False,
        "Remove web addresses from the text.",
        decides="tokenizer",
        group="Text",
    )
    drop_mentions: bool = option(
        False,
        "Remove @names from the text.",
        decides="tokenizer",
        group="Text",
    )
    entities: bool | None = option(
        None,
        "Resolve HTML entities such as &amp;.",
        flags=("--html-entities",),
        decides="tokenizer",
        group="Text",
    )
    segmenter: str | None = option(
        None,
        "Segment words in scripts without spaces: jieba, sudachi, pythainlp or kiwi (installed "
        "separately).",
        metavar="NAME",
        decides="tokenizer",
        group="Text",
    )
    replace: Place | Mapping[str, str] | None = option(
        None,
        "Map spelling variants: a TSV or CSV file with two columns, a word and its replacement.",
        metavar="FILE",
        decides="tokenizer",
        group="Text",
    )
    lemmas: str | None = option(
        None,
        "Count lemmas: simplemma:LANGUAGE or spacy:PIPELINE (installed separately).",
        metavar="TOOL:LANGUAGE",
        decides="tokenizer",
        group="Text",
    )
    ngrams: int | None = option(
        None,
        "Also count sequences of up to this many words.",
        min=1,
        max=3,
        decides="tokenizer",
        group="Text",
    )
    phrase_threshold: float | None = option(
        None,
        "Join pairs of words that occur at least 20 times with a normalised PMI of at least "
        "this, such as "
        "0.5; reads the text twice.",
        flags=("--phrases",),
        min=-1,
        max=1,
        decides="tokenizer",
        group="Text",
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
        decides="tokenizer",
        group="Text",
    )
    tokenized: bool | None = option(
        None,
        "The text is already tokenised: split at white space.",
        decides="tokenizer",
        group="Text",
    )
    unspaced: str | None = option(
        None,
        "Index scripts without spaces as character bigrams (the default) or as whole runs.",
        choices=("bigrams", "runs"),
        decides="tokenizer",
        group="Text",
    )
    min_df: str | float | None = option(
        None,
        "Minimum document frequency of a word, a number or a share (default: text 5, at most 1 "
        "%; counts 1).",
        parse=share_or_number,
        decides="words",
    )
    max_df: str | float | None = option(
        None,
        "Maximum document frequency of a word, a number or a share (default: text 50 %; counts "
        "all).",
        parse=share_or_number,
        decides="words",
    )
    min_count: int = option(
        1,
        "Minimum number of occurrences of a word.",
        min=0,
        decides="words",
        group="Vocabulary",
    )
    max_vocab: int | None = option(
        None,
        "Keep at most this many words, the most frequent.",
        min=1,
        decides="words",
        group="Vocabulary",
    )
    drop_top: int = option(
        0,
        "Leave out the N most frequent words (new stores only).",
        min=0,
        metavar="N",
        decides="words",
        new_store=True,
        group="Vocabulary",
    )
    drop_words: Place | None = option(
        None,
        "Leave out the words in a file with one word per line.",
        path=True,
        metavar="FILE",
        decides="words",
        group="Vocabulary",
    )
    vocab: Place | None = option(
        None,
        "Fixed vocabulary: a file with one word per line, or vocab.parquet.",
        path=True,
        decides="words",
        new_store=True,
        group="Vocabulary",
    )
    heldout: str | float | None = option(
        None,
        "Held-out documents: a share (1% or 0.01), a number, FIELD=VALUE, or 0 (default: 1 %, "
        "at least 50, at "
        "most 10 %).",
        decides="heldout",
        new_store=True,
    )
    heldout_by: str | None = option(
        None,
        "Hold out whole groups: all documents with the same value of this field.",
        metavar="FIELD",
        decides="heldout",
        new_store=True,
        group="Store",
    )
    keep_text: bool | None = option(
        None,
        "Keep the texts in the store, compressed, so that report and show --text quote them "
        "without the raw files (default: no; of documents in memory below 100 MB yes).",
        flags=("--keep-text",),
        pair=True,
        decides="documents",
        new_store=True,
        group="Store",
    )
    append: bool = option(
        False,
        "Append to an existing store.",
        decides="nothing",
        set_by_retrain=True,
        group="Store",
    )
    grow_vocab: bool = option(
        False,
        "With --append: add new words to the vocabulary.",
        decides="words",
        group="Vocabulary",
    )
    on_duplicate: str | None = option(
        None,
        "What to do when an id occurs twice (default: skip; PubMed: replace).",
        choices=("skip", "replace", "fail"),
        decides="documents",
        set_by_retrain=True,
        group="Store",
    )
    force: bool = option(
        False,
        "Replace an existing store or an unfinished ingest; with --append, an unfinished append "
        "alone.",
        decides="nothing",
        set_by_retrain=True,
    )
    workers: int | None = option(
        None,
        "Threads (default: all processors).",
        min=1,
        max=4096,
        decides="nothing",
        set_by_retrain=True,
        machine=True,
        group="Advanced",
    )
    stopwords_from: str | None = option(
        None,
        "what a list of stop words is called",
        cli=False,
        decides="tokenizer",
    )
    phrases: Sequence[str] | None = option(
        None,
        "learned pairs of words, joined",
        cli=False,
        decides="tokenizer",
    )
    checkpoint_bytes: int = option(
        512 << 20,
        "of input between two commits of the work",
        cli=False,
        decides="nothing",
        machine=True,
    )
    checkpoint_seconds: float = option(
        30.0,
        "between two commits of the work",
        cli=False,
        decides="nothing",
        machine=True,
    )
    vocabulary: Sequence[str] | Mapping[str, int] | None = option(
        None,
        "of a matrix: its words, or a dict word -> column",
        cli=False,
        decides="input",
    )
    ids: Sequence[Any] | None = option(
        None,
        "of a matrix: the ids of its documents",
        cli=False,
        decides="input",
    )
    as_store: bool = option(
        True, "an append reads its input as its store was read", cli=False, decides="nothing"
    )
    recipe: Recipe | None = option(
        None,
        "the tokenizer of a store or a model, instead of one of these options",
        cli=False,
        decides="tokenizer",
    )
    stop: Stop | None = option(
        None,
        "a signal handler that ends the ingest after a commit",
        cli=False,
        decides="nothing",
        set_by_retrain=True,
        machine=True,
    )
