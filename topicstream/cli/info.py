"""``topics info``: what stands at a path, a corpus store or a model, decided by its manifest."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import click

from topicstream.cli.options import as_json, given, options_of
from topicstream.cli.verbosity import showing
from topicstream.errors import StoreError, json_line
from topicstream.files.durable import read_json
from topicstream.reporting.config import DriftConfig


@click.command(name="info", short_help="Say what a corpus store or a model holds; check its files.")
@click.argument("path", default="corpus.zarr", envvar="TOPICS_CORPUS")
@click.option("--verify", is_flag=True, help="Check every checksum and name what is damaged (exit 3).")
@click.option(
    "--top", type=click.IntRange(1), default=20, show_default=True, help="So many of the most frequent words."
)
@options_of(DriftConfig)
@as_json("As JSON.")
def command(path: str, verify: bool, top: int, as_json: bool, **options: Any) -> None:
    """Say what the corpus store or the model at PATH (default: corpus.zarr) holds.

    With --drift or --by, of a model: how well it still fits documents, period by period: the share of distinct words that
    training has seen, cosine and F1 of the fast method against the reference, held-out perplexity; and where the 70 % rule
    would train anew ([drift] seen_words in the config of `topics retrain`).
    """
    kind = _kind(Path(path))
    if options["documents"] is not None or options["by"] is not None:
        if kind != "model":
            raise click.UsageError(f"{path} is a corpus store; --drift and --by are of a model")
        from topicstream.reporting.drift import drift

        with showing() as told:
            found = drift(model=path, progress=told, **given(options))
        click.echo(json_line(found, 1) if as_json else "\n".join(drift_lines(found)))
        return
    if wrong := sorted(given(options)):
        raise click.UsageError(f"--{wrong[0].replace('_', '-')} goes with --drift or --by")
    if kind == "model":
        _model(path, verify, top, as_json)
    else:
        _corpus(path, verify, top, as_json)


def drift_lines(found: dict[str, Any]) -> list[str]:
    """``drift`` for people."""
    out = [
        f"{found['model']}: {found['method']} against {found['reference']}",
        f"{'period':12} {'documents':>9} {'words seen':>10} {'tokens unknown':>14} {'cosine':>7} {'F1 0.8':>7} {'perplexity':>11}",
    ]
    for r in found["periods"]:
        shares = " ".join(
            f"{100 * r[k]:{n}.1f} %" if r[k] is not None else f"{'-':>{n + 2}}"
            for k, n in (("seen", 8), ("unknown_tokens", 12))
        )
        figures = " ".join(
            f"{r[k]:{n}.{d}f}" if r.get(k) is not None else f"{'-':>{n}}"
            for k, n, d in (("cosine", 7, 3), ("f1", 7, 3), ("perplexity", 11, 1))
        )
        out.append(f"{r['period']:12} {r['documents']:9,} {shares} {figures}")
    rule = f"{100 * found['threshold']:g} % of distinct words seen"
    if found["retrain"] is not None:
        out.append(f"below {rule} first in {found['retrain']}: train anew from there on")
    else:
        out.append(f"no period lies below {rule}")
    if found["note"]:
        out.append(f"  {found['note']}")
    return out


def _kind(path: Path) -> str:
    manifest = path / "manifest.json"
    if not manifest.exists():
        raise StoreError(
            f"{path}: neither a corpus store nor a model (no manifest.json); `topics ingest` makes a store"
        )
    found = read_json(manifest)
    kind = found.get("kind") if isinstance(found, dict) else None
    if kind not in ("corpus", "model"):
        raise StoreError(f"{manifest}: says neither corpus nor model")
    return str(kind)


def _model(path: str, verify: bool, top: int, as_json: bool) -> None:
    if importlib.util.find_spec("topicstream.cli.model_info") is None:
        raise StoreError(f"{path}: is a model; `topics show` prints its topics")
    importlib.import_module("topicstream.cli.model_info").show(path, verify=verify, top=top, as_json=as_json)


def _corpus(path: str, verify: bool, top: int, as_json: bool) -> None:
    from topicstream.corpus.figures import figures
    from topicstream.corpus.reader import Corpus
    from topicstream.corpus.verify import verify as check

    corpus = Corpus.open(path, vectors=True)
    problems = list(check(corpus)) if verify else []
    if problems:
        if as_json:
            click.echo(json.dumps({"path": path, "kind": "corpus", "problems": problems}, indent=1))
        for problem in problems[1:]:
            click.echo(f"topics: {problem}", err=True)
        raise StoreError(problems[0])
    found = figures(corpus, top)
    if as_json:
        click.echo(json_line(found | ({"problems": []} if verify else {}), 1))
    else:
        click.echo(_text(found, verify))


def _axis_line(a: dict[str, Any]) -> str:
    if a["name"] != "links":
        return (
            f"  {a['name']:<9} {a['size']:,}, {a['entries']:,} in training documents, {a['longest']:,} at most in one"
        )
    return f"  links     {links_text(a)}; {a['longest']:,} at most of one document"


def links_text(a: dict[str, Any]) -> str:
    """What became of the links, in words."""
    left_out = {"dangling": "to no document", "self": "to the document itself", "repeats": "repeated"}
    left_out["between_heldout"] = "between held-out documents"
    out = [f"{a[k]:,} {what}" for k, what in left_out.items() if a[k]]
    return (
        f"{a['given']:,} given: {a['training']:,} pairs of training documents, {a['heldout']:,} with held-out ones"
        + (f"; left out {', '.join(out)}" if out else "")
    )


def _text(f: dict[str, Any], verified: bool) -> str:
    from topicstream.corpus.figures import histogram_line
    from topicstream.machine import format_bytes

    train, heldout, s = f["parts"]["train"], f["parts"]["heldout"], f["summary"]
    cells = train["cells"] + heldout["cells"]
    size = train["bytes"] + heldout["bytes"]
    lines = [
        f"{f['path']}: corpus, generation {f['generation']}, fingerprint {f['fingerprint'][:16]}",
        f"  documents {train['docs']:,} training + {heldout['docs']:,} held out ({(f['heldout'] or {}).get('asked', '?')})",
    ]
    if s.get("documents_empty") or s.get("documents_removed"):
        lines.append(f"  {s.get('documents_empty', 0):,} without a word, {s.get('documents_removed', 0):,} removed")
    lines += [
        f"  words     {f['words']:,}" + (f" of {s['words_before']:,} before pruning" if "words_before" in s else ""),
        f"  cells     {cells:,} in {train['blocks']} + {heldout['blocks']} blocks, {format_bytes(size)}, "
        f"{size / max(cells, 1):.2f} bytes a cell" + (", weighted" if f["weighted"] else ""),
        f"  tokens    {train['tokens'] + heldout['tokens']:,}",
        *(_axis_line(a) for a in f["axes"] if a["name"] != "words"),
        "  words most frequent (count, documents):",
        *(f"    {w['word']}  {w['count']:,}  {w['df']:,}" for w in f["top_words"]),
    ]
    h = f["lengths"]
    lines.append(f"  distinct words a document, 1 to {h['longest']:,} by powers of two: |{histogram_line(h['documents'])}|")
    curve = ", ".join(f"{c['words']:,}: {100 * c['share']:.1f} %" for c in f["vocabulary_curve"])
    lines.append(f"  tokens in the most frequent words: {curve}")
    if verified:
        lines.append("  every block and file matches its checksum")
    return "\n".join(lines)
