"""``topics ingest``: read raw text or counts into a corpus store."""

from __future__ import annotations

import re
import signal
from typing import Any

import click

from topicstream.base.dates import advice
from topicstream.base.options import names_tagged
from topicstream.base.text import counted, render
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.cli.options import config_of, drop_unset, options_of
from topicstream.corpus.format import LINKS
from topicstream.corpus.info import linked_text
from topicstream.ingestion.config import IngestConfig, Stop
from topicstream.ingestion.open.names import input_path
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.store.decide import CALLED_BY_PLACE
from topicstream.ingestion.tokens.stopwords import read_stopwords
from topicstream.ingestion.tokens.word_lists import describe_list, describe_unmatched

AGAIN = "{out}: finished before, from the same input: {documents:document}"
VECTORS = """{out}: {documents:vector} of {vectors} numbers, {documents_heldout:,} of them held \
out ({heldout_asked})
[  {rejected:,} rejected, the first {first_rejected}]
  {bytes:size}; {seconds:.1f} s, peak memory {peak_rss_bytes:size}"""
SUMMARY = """{out}: {documents:document}, {held_out} held out[ ({heldout_rule})]
[  warning: no document has {heldout_missed}]
[  {counted}]
[  first skipped: {place_taken}; {called_by_place}]
[  first rejected: {first_rejected}[ (all: {rejects})]]
  words: {words_before:,} before pruning, {words:,} kept ({rule})[; only {kept_share:.0p} % of \
the tokens are theirs]
[  {vocab_matches}]
[  {drop_words_matches}]
[  {stopwords_matches}]
[  {replace_matches}]
  {cells:value}, {tokens:,.0f} {tokens_noun}, {bytes:size}, {bytes_per_cell:.2f} bytes a value
[  texts: kept in the store, {text_bytes:size} compressed (--keep-text)]
[  {columns}]
[  without a value: {missing} (--na NA,NaN names values that mean none)]
[  left out: {fields_left_out} (--meta NAME,NAME keeps them)]
[  words left out, no speech or prose: {elements} (--tei-elements +{element} counts those of \
{element}, all counts every word)]
[  {axis_sizes}]
[  links: {links}]
[  {joined}]
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


_PLURAL = re.compile(r"^((?:CSV )?file|record|value|document|duplicate|line|row)s")

TITLES = ("Input", "Text", "Vocabulary", "Store", "Advanced")
"""Titles of the sections of --help-all, in order; an option names its section as ``group``."""
SECTIONS = {title: names_tagged(IngestConfig, "group", title) for title in TITLES}


@topics_command(
    "ingest", short_help="Turn raw text or counts of any size into a corpus store.", groups=SECTIONS
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
    options = drop_unset(values)
    chosen = options.pop("stopwords", ())
    stopwords = {}
    if chosen:
        # of "none", no words: not as without the option
        sources, words = read_stopwords(*chosen, encoding=options.get("encoding"))
        stopwords = {"stopwords_from": sources, "stopwords": words}
    stop = Stop()
    before = [(s, signal.signal(s, stop)) for s in (signal.SIGTERM, signal.SIGINT)]
    try:
        with show_progress() as progress:
            config = config_of(
                IngestConfig,
                {"documents": [input_path(p) for p in paths], **options},
                progress=progress,
                stop=stop,
                **stopwords,
            )
            summary = ingest(config)
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)
    return summary, lines(summary, config.append and not config.grow_vocab)


def _singular(match: re.Match[str]) -> str:
    """Return the singular that ``_PLURAL`` matched."""
    return match[1]


def describe_columns(summary: dict[str, Any]) -> str:
    """Describe the metadata columns, their missing values, and the dates that were read."""
    documents = summary["documents_added"]
    empty = f"columns that no {'added ' if documents < summary['documents'] else ''}document has"
    described: dict[str, list[str]] = {"columns": [], empty: []}
    for name, filled in summary.get("columns", {}).items():
        if not filled:
            described[empty].append(name)
        elif name == "date":
            described["columns"].append(f"{name} ({_describe_dates(filled, summary['dates'])})")
        else:
            described["columns"].append(name if filled == documents else f"{name} ({filled:,})")
    return "; ".join(f"{title}: {', '.join(names)}" for title, names in described.items() if names)


def _describe_dates(filled: int, dates: dict[str, Any]) -> str:
    """Describe how many of the ``filled`` dates were read, and how to read the others."""
    text = f"{dates['read']:,} of {filled:,} read"
    if dates["read"]:
        text += f", {' to '.join(dict.fromkeys(dates['ends']))}"
    unread = dates["unread"]
    if unread:
        text += f"; not {unread[:40]!r}: give {advice(unread)}"
    return text


def _describe_joined(joined: int | None) -> str:
    """Describe the words that ``--join-hyphens`` joins."""
    if joined is None:
        return ""
    if not joined:
        return "--join-hyphens found no word that is broken between two lines of a document"
    return f"{counted(joined, 'word')} broken at line ends joined"


def _describe_word_lists(word_lists: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Describe the words that lists of words matched, by the summary's fields."""
    described = {}
    for name, matches in word_lists.items():
        text = (
            describe_unmatched(f"--{name}", matches)
            if name in ("stopwords", "replace")
            else describe_list(f"--{name.replace('_', '-')}", matches)
        )
        described[f"{name}_matches"] = text
    return described


def lines(summary: dict[str, Any], closed: bool) -> list[str]:
    """Format the summary of an ingest as lines.

    Parameters
    ----------
    summary
        The result of ``ingest``.
    closed
        The store was appended to, and its vocabulary did not grow.
    """
    if summary.get("finished_before"):
        return render(AGAIN, summary)
    if summary.get("vectors"):
        return render(VECTORS, summary)
    appended = summary["documents_added"] < summary["documents"]
    counts = {
        noun: summary[name]
        for name, noun in COUNTED.items()
        if name != "documents_added" or summary[name] != summary["documents"]
    } | summary["notes"]
    tokenizer = summary["tokenizer"] or {}
    unspaced = summary["unspaced_share"] or 0
    pruning = summary["pruning"]
    most = "off" if pruning["max_df"] is None else f"{pruning['max_df']:,}"
    share = summary["tokens"] / max(1, summary["tokens"] + summary["tokens_pruned"])
    rule = pruning["fixed"] or f"min-df {pruning['min_df']}, max-df {most}"
    chosen = tokenizer.get("stopwords", "english")
    missing = summary.get("missing_values") or {}
    heldout = summary["heldout_asked"]
    n_held_out = summary["documents_heldout"]
    elements = summary.get("elements_left_out", {})
    about = {
        **summary,
        "text_bytes": summary.get("text_bytes") or None,
        "columns": describe_columns(summary),
        "held_out": f"{n_held_out:,} of them" if n_held_out else "none of them",
        "heldout_rule": heldout if n_held_out or not heldout.startswith("0") else None,
        "tokens_noun": "token" if summary["tokens"] == 1 else "tokens",
        "elements": ", ".join(f"{n:,} of {name}" for name, n in elements.items()),
        "element": next(
            (name for name in ("stage", "speaker", *elements) if name in elements), None
        ),
        "joined": _describe_joined(summary.get("joined_words")),
        "missing": ", ".join(
            f"{n:,} of {name}" for name, n in missing.items() if n < summary["documents"]
        ),
        "called_by_place": CALLED_BY_PLACE,
        "heldout_missed": heldout if "=" in heldout and not summary["documents_heldout"] else "",
        "counted": [
            f"{n:,} {noun if n > 1 else _PLURAL.sub(_singular, noun)}"
            for noun, n in counts.items()
            if n
        ],
        "rule": "the store's; --grow-vocab adds new ones" if closed and appended else rule,
        "kept_share": share if share < 0.5 else None,
        "axis_sizes": [f"{size:,} {name}" for name, size in (summary.get("axes") or {}).items()],
        "links": linked_text(summary[LINKS]) if summary.get(LINKS) else "",
        "tokenizer_length": str(tokenizer.get("min_length")),
        "numbers": "on" if tokenizer.get("numbers") else "off",
        "discarded": f"{100 * (summary['discarded_share'] or 0):.1f}",
        "stopword_options": "".join(
            f" --stopwords {name}"
            for name in chosen.split("+")
            if chosen != "english" and name != "file"
        ),
        **_describe_word_lists(summary.get("word_lists") or {}),
        "unspaced": 100 * unspaced if unspaced > 0.01 else None,
    }
    return render(SUMMARY, about)
