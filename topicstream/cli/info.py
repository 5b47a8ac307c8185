"""``topics info``: what stands at a path, a corpus store or a model, decided by its manifest."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import click

from topicstream.durable import read_json
from topicstream.errors import StoreError


@click.command(name="info", short_help="Say what a corpus store or a model holds; check its files.")
@click.argument("path", default="corpus.zarr", envvar="TOPICS_CORPUS")
@click.option("--verify", is_flag=True, help="Check every checksum and name what is damaged (exit 3).")
@click.option(
    "--top", type=click.IntRange(1), default=20, show_default=True, help="So many of the most frequent words."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(path: str, verify: bool, top: int, as_json: bool) -> None:
    """Say what the corpus store or the model at PATH (default: corpus.zarr) holds."""
    kind = _kind(Path(path))
    if kind == "model":
        _model(path, verify, top, as_json)
    else:
        _corpus(path, verify, top, as_json)


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

    corpus = Corpus.open(path)
    problems = list(check(corpus)) if verify else []
    if problems:
        if as_json:
            click.echo(json.dumps({"path": path, "kind": "corpus", "problems": problems}, indent=1))
        for problem in problems[1:]:
            click.echo(f"topics: {problem}", err=True)
        raise StoreError(problems[0])
    found = figures(corpus, top)
    if as_json:
        click.echo(json.dumps(found | ({"problems": []} if verify else {}), indent=1, ensure_ascii=False))
    else:
        click.echo(_text(found, verify))


def _text(f: dict[str, Any], verified: bool) -> str:
    from topicstream.corpus.figures import sparkline
    from topicstream.machine import format_bytes

    train, heldout, s = f["parts"]["train"], f["parts"]["heldout"], f["summary"]
    cells = train["cells"] + heldout["cells"]
    size = train["bytes"] + heldout["bytes"]
    lines = [
        f"{f['path']}: corpus, generation {f['generation']}, fingerprint {f['fingerprint'][:16]}",
        f"  documents {train['docs']:,} training + {heldout['docs']:,} held out ({(f['heldout'] or {}).get('asked', '?')})",
    ]
    if s.get("documents_empty") or s.get("documents_removed"):
        lines.append(f"  {s['documents_empty']:,} without a word, {s['documents_removed']:,} removed")
    lines += [
        f"  words     {f['words']:,}" + (f" of {s['words_before']:,} before pruning" if "words_before" in s else ""),
        f"  cells     {cells:,} in {train['blocks']} + {heldout['blocks']} blocks, {format_bytes(size)}, "
        f"{size / max(cells, 1):.2f} bytes a cell" + (", weighted" if f["weighted"] else ""),
        f"  tokens    {train['tokens'] + heldout['tokens']:,}",
        "  words most frequent (count, documents):",
        *(f"    {w['word']}  {w['count']:,}  {w['df']:,}" for w in f["top_words"]),
    ]
    h = f["lengths"]
    lines.append(f"  distinct words a document, 1 to {h['longest']:,} by powers of two: |{sparkline(h['documents'])}|")
    curve = ", ".join(f"{c['words']:,}: {100 * c['share']:.1f} %" for c in f["vocabulary_curve"])
    lines.append(f"  tokens in the most frequent words: {curve}")
    if verified:
        lines.append("  every block and file matches its checksum")
    return "\n".join(lines)
