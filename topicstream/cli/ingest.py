"""``topics ingest``: options -> ``topicstream.ingest`` -> the summary."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import click

from topicstream.cli.options import as_json, given, options_of
from topicstream.cli.verbosity import showing
from topicstream.errors import json_line
from topicstream.ingestion.config import IngestConfig


@click.command(name="ingest", short_help="Turn raw text or counts of any size into a corpus store.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@options_of(IngestConfig, "ingest")
@as_json("The summary as JSON.")
def command(paths: tuple[str, ...], as_json: bool, **values: Any) -> None:
    """Read raw text or counts of any size into a corpus store.

    PATH is a file, a folder (read whole), or - for standard input; gz, bz2, xz and zst are unpacked.  Formats: text,
    JSON lines, CSV, Parquet, PubMed XML, UCI docword, LDA-C, Matrix Market, svmlight, MALLET.

    Text files in a folder are a document each.  A text file given by itself holds a document per line, unless --split
    cuts it; --format files or --format lines says otherwise.

    A killed ingest carries on when the same command is given again, and a finished one says that it is finished.
    """
    from topicstream.ingestion.pipeline import ingest
    from topicstream.ingestion.spooling.reading import Stop
    from topicstream.tokens.stopwords import read_stopwords

    options = given(values)
    if stopwords := options.pop("stopwords", ()):
        options["stopwords_from"], options["stopwords"] = read_stopwords(*stopwords)
    stop = Stop()
    before = [(s, signal.signal(s, stop)) for s in (signal.SIGTERM, signal.SIGINT)]
    try:
        with showing() as progress:
            summary = ingest(IngestConfig([Path(p) for p in paths], progress=progress, stop=stop, **options))
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)
    if as_json:
        click.echo(json_line(summary, 1))
    elif summary.get("finished_before"):
        click.echo(f"{summary['out']}: finished before, from the same input: {summary['documents']:,} documents")
    else:
        sys.stdout.write(summary_text(summary))


def language_text(found: dict[str, Any], stopwords: str) -> str:
    """What is said of a corpus in a language whose stop words are all there."""
    more = "" if stopwords == "english" else " ".join(f"--stopwords {s}" for s in stopwords.split("+") if s != "file")
    return (
        f"warning: {100 * found['share']:.0f} % of the words are stop words of {found['language']}, and left out were those of"
        f" {stopwords}; {more + ' ' if more else ''}--stopwords {found['language']} leaves them out"
    )


def summary_text(s: dict[str, Any]) -> str:
    """The summary for people."""
    from topicstream.machine import format_bytes

    if s.get("vectors"):
        left_out = f"  {s['rejected']:,} rejected (rejects.jsonl)\n" if s["rejected"] else ""
        return (
            f"{s['out']}: {s['documents']:,} vectors of {s['vectors']} numbers, {s['documents_heldout']:,} of them held out"
            f" ({s['heldout_asked']})\n{left_out}  {format_bytes(s['bytes'])}; {s['seconds']:.1f} s,"
            f" peak memory {format_bytes(s['peak_rss_bytes'])}\n"
        )
    lines = [
        f"{s['out']}: {s['documents']:,} documents, {s['documents_heldout']:,} of them held out ({s['heldout_asked']})"
    ]
    notes = [
        (s["documents_added"], "added", s["documents_added"] != s["documents"]),
        (s["documents_empty"], "without a word of the vocabulary", True),
        (s["dropped_duplicates"], "duplicates skipped", True),
        (s["dropped_replaced"], "replaced by later ones", True),
        (s["dropped_deleted"], "withdrawn", True),
        (s["documents_removed"], "removed from earlier blocks", True),
        (s["rejected"], "records rejected (rejects.jsonl)", True),
        *((n, what, True) for what, n in s["notes"].items()),
    ]
    if told := [f"{n:,} {what}" for n, what, tell in notes if tell and n]:
        lines.append("  " + ", ".join(told))
    p = s["pruning"]
    most = "off" if p["max_df"] is None else f"{p['max_df']:,}"
    lines.append(
        f"  words: {s['words_before']:,} before pruning, {s['words']:,} kept (min-df {p['min_df']}, max-df {most})"
    )
    lines.append(
        f"  {s['cells']:,} cells, {s['tokens']:,} tokens, {format_bytes(s['bytes'])}, {s['bytes_per_cell']:.2f} bytes a cell"
    )
    if s.get("axes"):
        lines.append("  " + ", ".join(f"{size:,} {name}" for name, size in s["axes"].items()))
    if s.get("links"):
        from topicstream.cli.info import links_text

        lines.append("  links: " + links_text(s["links"]))
    if s["tokenizer"] is not None:
        t = s["tokenizer"]
        lines.append(
            f"  tokenizer: stop words {t['stopwords']}, min length {t['min_length']}, numbers {'on' if t['numbers'] else 'off'};"
            f" discarded {100 * (s['discarded_share'] or 0):.1f} % of the characters"
        )
        if language := s.get("language"):
            lines.append("  " + language_text(language, t["stopwords"]))
        if (s["unspaced_share"] or 0) > 0.01:
            lines.append(
                f"  {100 * s['unspaced_share']:.1f} % of the characters are of scripts without spaces, counted in pairs;"
                " --tokenized takes text that is parted into words"
            )
    lines.append(
        f"  {s['seconds']:.1f} s, {s['megabytes_per_second']:.1f} MB/s, peak memory {format_bytes(s['peak_rss_bytes'])}"
    )
    return "\n".join(lines) + "\n"
