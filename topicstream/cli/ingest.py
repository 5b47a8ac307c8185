"""``topics ingest``: raw text or counts into a corpus store."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import click

from topicstream.base.dates import advice
from topicstream.base.options import names_tagged
from topicstream.base.text import render
from topicstream.cli.command import Printed, showing, topics_command
from topicstream.cli.options import config_of, options_given, options_of
from topicstream.corpus.format import LINKS
from topicstream.corpus.info import linked_text
from topicstream.ingestion.config import IngestConfig, Stop
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.store.decide import CALLED_BY_PLACE
from topicstream.ingestion.tokens.stopwords import read_stopwords
from topicstream.ingestion.tokens.word_lists import describe_list, describe_stop_list

AGAIN = "{out}: finished before, from the same input: {documents:document}"
VECTORS = """{out}: {documents:vector} of {vectors} numbers, {documents_heldout:,} of them held \
out ({heldout_asked})
[  {rejected:,} rejected, the first {first_rejected}]
  {bytes:size}; {seconds:.1f} s, peak memory {peak_rss_bytes:size}"""
SUMMARY = """{out}: {documents:document}, {documents_heldout:,} of them held out ({heldout_asked})
[  warning: no document has {heldout_missed}]
[  {told}]
[  first skipped: {place_taken}; {called_by_place}]
[  first rejected: {first_rejected}[ (all: {rejects})]]
  words: {words_before:,} before pruning, {words:,} kept ({rule})[; only {kept_share:.0p} % of \
the tokens are theirs]
[  {vocab_told}]
[  {drop_words_told}]
[  {stopwords_told}]
  {cells:,} {cell}s, {tokens:,.0f} tokens, {bytes:size}, {bytes_per_cell:.2f} bytes a {cell}
[  {columns}]
[  without a value: {missing_told} (--na NA,NaN names values that mean none)]
[  left out: {fields_left_out} (--meta NAME,NAME keeps them)]
[  {axis_sizes}]
[  links: {links_told}]
[{tokenizer:?}  tokenizer: stop words {tokenizer.stopwords}, min length {tokenizer_length}, \
numbers {numbers}; discarded {discarded} % of the characters]
[  warning: {language.share:.0p} % of the words are stop words of {language.language}, but those \
of {tokenizer.stopwords} were left out;[{stopword_options}] --stopwords {language.language} \
leaves them out]
[  {unspaced:.1f} % of the characters are of scripts without spaces, counted in pairs; \
--segmenter jieba (sudachi, pythainlp, kiwi) finds words, --tokenized takes text that is split]
  {seconds:.1f} s, {megabytes_per_second:.1f} MB/s, peak memory {peak_rss_bytes:size}"""
COUNTED = {
    "documents_empty": "without a word of the vocabulary",
    "documents_added": "added",
    "dropped_duplicates": "duplicates skipped (--on-duplicate replace takes the last)",
    "dropped_replaced": "replaced by later ones",
    "dropped_deleted": "withdrawn",
    "dropped_forgotten": "left out, forgotten by `topics forget`",
    "documents_removed": "removed from earlier blocks",
    "rejected": "records rejected",
}


_SEVERAL = re.compile(
    r"(?<=^CSV "
    r"file)s|(?<=^file)s|(?<=^record)s|(?<=^value)s|(?<=^document)s|(?<=^duplicate)s|(?<=^line)s|(?<=^row)s"
)

TITLES = ("Input", "Text", "Vocabulary", "Store", "Advanced")
"""Sections of --help-all, in their order; an option names its own as ``group``."""
GROUPS = {title: names_tagged(IngestConfig, "group", title) for title in TITLES}


@topics_command(
    "ingest", short_help="Turn raw text or counts of any size into a corpus store.", groups=GROUPS
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@options_of(IngestConfig, "ingest")
def command(paths: tuple[str, ...], **values: Any) -> Printed:
    """Read raw text or counts of any size into a corpus store.

    PATH is a file, a folder (read recursively), or - for standard input; gz, bz2, xz and zst files
    are decompressed. Formats: text, JSON lines, CSV, Parquet, Arrow, PubMed XML, TEI, HTML, UCI
    docword, LDA-C, Matrix Market, svmlight, MALLET, SciPy .npz, AnnData (.h5ad, Zarr), 10x
    (folder, .h5).

    Each text file in a folder is a document. A text file given by itself holds one document per
    line, unless --split cuts it; --format files and --format lines choose explicitly.

    After an interruption, run the same command again to resume. A finished ingest is not repeated.
    """
    options = options_given(values)
    chosen = options.pop("stopwords", ())
    stops = (
        dict(zip(("stopwords_from", "stopwords"), read_stopwords(*chosen))) if chosen else {}
    )  # of "none" empty, yet given
    stop = Stop()
    before = [(s, signal.signal(s, stop)) for s in (signal.SIGTERM, signal.SIGINT)]
    try:
        with showing() as progress:
            config = config_of(
                IngestConfig,
                {"documents": [Path(p) for p in paths], **options},
                progress=progress,
                stop=stop,
                **stops,
            )
            summary = ingest(config)
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)
    return summary, lines(summary, config.append and not config.grow_vocab)


def columns_told(s: dict[str, Any]) -> str:
    """The columns of metadata, how far they are filled, and how many dates were read."""
    every = s["documents_added"]
    empty = f"columns that no {'added ' if every < s['documents'] else ''}document has"
    told: dict[str, list[str]] = {"columns": [], empty: []}
    for name, filled in s.get("columns", {}).items():
        share = "" if filled == every else f" ({filled:,})"
        if name == "date" and filled:
            read = s["dates"]["read"]
            unread = s["dates"]["unread"]
            share = (
                f" ({read:,} of {filled:,} read"
                + f", {' to '.join(dict.fromkeys(s['dates']['ends']))}" * bool(read)
            )
            share += f"; not {unread[:40]!r}: give {advice(unread)})" if unread else ")"
        told["columns" if filled else empty].append(name + share * bool(filled))
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in told.items() if names)


def _lists_told(word_lists: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What lists of words matched, for the summary."""
    told = {
        f"{name}_told": describe_list(f"--{name.replace('_', '-')}", of_list)
        for name, of_list in word_lists.items()
        if name != "stopwords"
    }
    if (stop := word_lists.get("stopwords")) is not None:
        told["stopwords_told"] = describe_stop_list(stop)
    return told


def lines(s: dict[str, Any], closed: bool) -> list[str]:
    """The summary for people.  closed: a store that is appended to keeps its vocabulary."""
    if s.get("finished_before"):
        return render(AGAIN, s)
    if s.get("vectors"):
        return render(VECTORS, s)
    counts = {
        noun: s[name]
        for name, noun in COUNTED.items()
        if name != "documents_added" or s[name] != s["documents"]
    } | s["notes"]
    tokenizer = s["tokenizer"] or {}
    unspaced = s["unspaced_share"] or 0
    pruning = s["pruning"]
    most = "off" if pruning["max_df"] is None else f"{pruning['max_df']:,}"
    share = s["tokens"] / max(1, s["tokens"] + s["tokens_pruned"])
    rule = pruning["fixed"] or f"min-df {pruning['min_df']}, max-df {most}"
    chosen = tokenizer.get("stopwords", "english")
    missing = s.get("missing_values") or {}
    about = {
        **s,
        "columns": columns_told(s),
        "missing_told": ", ".join(f"{n:,} of {name}" for name, n in missing.items()),
        "called_by_place": CALLED_BY_PLACE,
        "cell": "cell" if tokenizer else "value",  # of a matrix of cells, those are the documents
        "heldout_missed": ""
        if s["documents_heldout"] or "=" not in s["heldout_asked"]
        else s["heldout_asked"],
        "told": [
            f"{n:,} {noun if n > 1 else _SEVERAL.sub('', noun)}" for noun, n in counts.items() if n
        ],
        "rule": "the store's; --grow-vocab adds new ones"
        if closed and s["documents_added"] < s["documents"]
        else rule,
        "kept_share": share if share < 0.5 else None,
        "axis_sizes": [f"{size:,} {name}" for name, size in (s.get("axes") or {}).items()],
        "links_told": linked_text(s[LINKS]) if s.get(LINKS) else "",
        "tokenizer_length": str(tokenizer.get("min_length")),
        "numbers": "on" if tokenizer.get("numbers") else "off",
        "discarded": f"{100 * (s['discarded_share'] or 0):.1f}",
        "stopword_options": "".join(
            f" --stopwords {name}"
            for name in chosen.split("+")
            if chosen != "english" and name != "file"
        ),
        **_lists_told(s.get("word_lists") or {}),
        "unspaced": 100 * unspaced if unspaced > 0.01 else None,
    }
    return render(SUMMARY, about)
