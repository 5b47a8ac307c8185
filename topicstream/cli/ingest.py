"""``topics ingest``: options -> ``topicstream.ingest`` -> the summary."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import click

from topicstream.cli.verbosity import QUIET, verbosity
from topicstream.errors import InputError


def _meta(pairs: tuple[str, ...]) -> dict[str, str]:
    meta = {}
    for pair in pairs:
        column, _, field = pair.partition("=")
        if not column:
            raise InputError(f"--meta {pair}: write column=field (or just field)")
        meta[column] = field or column
    return meta


@click.command(name="ingest", short_help="Turn raw text or counts of any size into a corpus store.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--out", default="corpus.zarr", show_default=True, envvar="TOPICS_CORPUS", help="The store to make.")
@click.option("--format", "format", help="Format of the input (default: told from name and content).")
@click.option("--text-field", default=None, help="Field(s) with the text, separated by commas (default: text).")
@click.option("--id-field", help="Field with the document's id (default: id where there is one, else file:line).")
@click.option(
    "--meta", multiple=True, metavar="COLUMN=FIELD", help="Keep a field: authors=, labels=, links=, date=, any."
)
@click.option("--encoding", help="Encoding of the text (default: UTF-8, or what the byte order mark says).")
@click.option("--delimiter", help="Delimiter of CSV.")
@click.option("--list-separator", default=None, help="Between the authors, labels or links of one field (default: ;).")
@click.option("--weighted", is_flag=True, default=None, help="Accept weights that are no counts (svmlight).")
@click.option("--first-id", type=int, help="Number of the first word in svmlight and LDA-C files.")
@click.option("--words", type=click.Path(), help="The words of a bag-of-words file, when they do not lie beside it.")
@click.option("--on-error", type=click.Choice(["fail", "skip"]), default=None, help="At a bad record (default: fail).")
@click.option("--lowercase/--no-lowercase", default=None, help="Lower-case words (default: yes).")
@click.option("--min-length", type=int, help="Fewest letters and digits of a word (default: 2).")
@click.option("--numbers/--no-numbers", default=None, help="Keep words without any letter (default: no).")
@click.option("--token-pattern", "pattern", help="A regular expression that finds the words.")
@click.option("--keep", multiple=True, help="emoji: every emoji is a word.")
@click.option("--stopwords", default=None, help="english (the default), none, or a file.")
@click.option("--ngrams", type=click.IntRange(1, 3), help="Also count sequences of up to that many words.")
@click.option(
    "--phrases",
    "phrase_threshold",
    type=click.FloatRange(-1, 1),
    help="Learn pairs of words (20 times or more) of that normalised PMI, like 0.5, and join them: reads the text twice.",
)
@click.option("--stem", help="A language of the snowball stemmers.")
@click.option("--tokenized", is_flag=True, default=None, help="The text is tokenised: words between white space.")
@click.option("--unspaced", type=click.Choice(["bigrams", "runs"]), default=None, help="Scripts without spaces.")
@click.option("--min-df", type=int, help="Fewest documents of a word (default: text 5, at most 1 %; counts 1).")
@click.option("--max-df", help="Most documents of a word: share or number (default: text 50 %; counts all).")
@click.option("--min-count", type=int, help="Fewest occurrences of a word.")
@click.option("--max-vocab", type=int, help="Most words, the most frequent ones.")
@click.option("--vocab", type=click.Path(), help="Fix the vocabulary: a file with a word a line, or vocab.parquet.")
@click.option("--heldout", help="Set aside: 1%, a number of documents, 0 (default: 1 %, at least 50, at most 10 %).")
@click.option("--append", is_flag=True, help="Add to the store that is there.")
@click.option("--grow-vocab", is_flag=True, help="With --append: new words get ids behind the old ones.")
@click.option(
    "--on-duplicate",
    type=click.Choice(["skip", "replace", "fail"]),
    default=None,
    help="An id met again (default: skip; PubMed: replace).",
)
@click.option("--force", is_flag=True, help="Replace a store that is there, forget an unfinished ingest.")
@click.option("--mem-limit", help="Memory of the whole process, like 2G (default: 70 % of what there is).")
@click.option("--workers", type=int, help="Threads (default: the processors).")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
def command(paths: tuple[str, ...], out: str, meta: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Read raw text or counts of any size into a corpus store.

    PATH is a file, a folder (read whole), or - for standard input; gz, bz2, xz and zst are unpacked.  Formats: text
    files, lines, JSON lines, CSV, Parquet, PubMed XML, UCI docword, LDA-C, Matrix Market, svmlight, MALLET.

    A killed ingest carries on when the same command is given again.
    """
    from topicstream.ingest.pipeline import ingest
    from topicstream.ingest.progress import Progress, Shown
    from topicstream.ingest.reading import Stop

    options = {k: v for k, v in given.items() if v is not None and v != ()}
    if meta:
        options["meta"] = _meta(meta)
    stop = Stop()
    before = [(s, signal.signal(s, stop)) for s in (signal.SIGTERM, signal.SIGINT)]
    progress = Shown() if verbosity() > QUIET else Progress()
    try:
        summary = ingest(list(paths), out, progress=progress, stop=stop, **options)
    finally:
        progress.close()
        for signum, handler in before:
            signal.signal(signum, handler)
    if as_json:
        click.echo(json.dumps(summary, indent=1, ensure_ascii=False))
    else:
        sys.stdout.write(summary_text(summary))


def summary_text(s: dict[str, Any]) -> str:
    """The summary for people."""
    from topicstream.machine import format_bytes

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
    if s["tokenizer"] is not None:
        t = s["tokenizer"]
        lines.append(
            f"  tokenizer: stop words {t['stopwords']}, min length {t['min_length']}, numbers {'on' if t['numbers'] else 'off'};"
            f" discarded {100 * (s['discarded_share'] or 0):.1f} % of the characters"
        )
        if (s["unspaced_share"] or 0) > 0.01:
            lines.append(
                f"  {100 * s['unspaced_share']:.1f} % of the characters are of scripts without spaces, counted in pairs;"
                " --tokenized takes text that is parted into words"
            )
    lines.append(
        f"  {s['seconds']:.1f} s, {s['megabytes_per_second']:.1f} MB/s, peak memory {format_bytes(s['peak_rss_bytes'])}"
    )
    return "\n".join(lines) + "\n"
