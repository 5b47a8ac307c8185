"""Somebody's files and folders in the way of every command: nothing of theirs is lost.

    python scripts/campaigns/foreign_campaign.py [--only WORD ...] [--list]

Each case makes a place (an input, a store, a model, a retrain folder as needed), puts somebody's things into the way of a
command, runs it, and compares every foreign byte with what was there.  A case passes when all of it is unchanged and the
command either did its work (exit 0) or refused in one line with exit 2, 3 or 1; where the thing is in the way of the
output, only a refusal will do.  Prints a table; exit 1 when anything was lost, or an exit code or a message was wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from fault_cases import Ended, command, text

Make = Callable[[], None]
TRAIN = ("train", "--corpus", "s.zarr", "--algo", "bp", "-K", "3", "--passes", "1", "--tol", "0", "--model")
UPDATE = ("update", "--corpus", "s.zarr", "--passes", "1", "--model", "m")
REFUSED, DONE, EITHER = (2, 3), (0,), (0, 1, 2, 3)

RETRAIN = """
[ingest]
stopwords = "none"
[train]
algo = "bp"
topics = 3
passes = 1
update_passes = 1
tol = 0.0
[gate]
tolerance = 9.0
topics = false
[publish]
keep = 2
"""


@dataclass
class Case:
    """What lies in the way, how it gets there, the command, and the exit codes that are right."""

    name: str
    make: Make
    line: tuple[str, ...]
    codes: tuple[int, ...] = REFUSED


def thing(*names: str) -> Make:
    """Somebody's folders, each with files and a folder within."""

    def make() -> None:
        for name in names:
            (Path(name) / "thesis").mkdir(parents=True)
            (Path(name) / "thesis" / "chapter.tex").write_text("years of work")
            (Path(name) / "notes.txt").write_text(f"mine: {name}")

    return make


def file(name: str, content: str = "mine") -> Make:
    """Somebody's file."""

    def make() -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content)

    return make


def link(name: str, to: str) -> Make:
    """Somebody's link."""
    return lambda: os.symlink(to, name)


def both(*makes: Make) -> Make:
    def make() -> None:
        for one in makes:
            one()

    return make


def copy(source: str, target: str) -> Make:
    return lambda: (shutil.copytree if Path(source).is_dir() else shutil.copy)(source, target) and None  # type: ignore[operator]


def edited(path: str, change: Callable[[str], str]) -> Make:
    return lambda: Path(path).write_text(change(Path(path).read_text())) and None


def grown() -> None:
    """The corpus has been appended to: an update has work to do."""
    text(Path("more.jsonl"), 30, 900, 5)
    assert command("ingest", "more.jsonl", "--out", "s.zarr", "--append", "--grow-vocab").code == 0


def newer(manifest: str) -> str:
    value = json.loads(manifest)
    value.pop("checksum", None)
    return json.dumps({**value, "schema": 2})


def cases() -> list[Case]:
    """A hundred and fifty, and more."""
    app = '{"name": "an app", "manifest_version": 3}'
    ingest = ("ingest", "in.jsonl", "--out")
    found = []
    for force in ((), ("--force",)):
        f = " --force" if force else ""
        found += [
            Case(f"ingest{f}: a folder d.wip", thing("d.wip"), (*ingest, "d", *force)),
            Case(f"ingest{f}: a file d.wip", file("d.wip"), (*ingest, "d", *force)),
            Case(f"ingest{f}: a link d.wip to a folder", both(thing("home"), link("d.wip", "home")), (*ingest, "d", *force)),
            Case(f"ingest{f}: a folder of others", thing("proj"), (*ingest, "proj", *force)),
            Case(f"ingest{f}: a folder with an app's manifest.json", both(thing("proj"), file("proj/manifest.json", app)), (*ingest, "proj", *force)),
            Case(f"ingest{f}: a link to a store", link("link", "s.zarr"), (*ingest, "link", *force)),
            Case(f"ingest{f}: a model", thing(), (*ingest, "m", *force)),
            Case(f"ingest{f}: a store of a newer schema", edited("s.zarr/manifest.json", newer), (*ingest, "s.zarr", *force)),
            Case(f"ingest{f}: a store whose manifest is torn", edited("s.zarr/manifest.json", lambda t: t[:99]), (*ingest, "s.zarr", *force)),
            Case(f"ingest{f}: the input's folder", both(thing("raw"), copy("in.jsonl", "raw/in.jsonl")), ("ingest", "raw", "--out", "raw", *force)),
            Case(f"ingest{f}: in the input's folder", both(thing("raw"), copy("in.jsonl", "raw/in.jsonl")), ("ingest", "raw", "--out", "raw/c.zarr", *force)),
            Case(f"train{f}: a folder of others", thing("proj"), (*TRAIN, "proj", *force)),
            Case(f"train{f}: an app's manifest.json and vocab.parquet", both(file("proj/manifest.json", app), file("proj/vocab.parquet")), (*TRAIN, "proj", *force)),
            Case(f"train{f}: the corpus", thing(), (*TRAIN, "s.zarr", *force)),
            Case(f"train{f}: a folder in the corpus", thing(), (*TRAIN, "s.zarr/m", *force)),
            Case(f"train{f}: a model of a newer schema", edited("m/manifest.json", newer), (*TRAIN, "m", *force)),
            Case(f"train{f}: a torn manifest", edited("m/manifest.json", lambda t: t[:99]), (*TRAIN, "m", *force)),
            Case(f"train{f}: the working folder", thing("proj"), (*TRAIN, ".", *force)),
            Case(f"update --out{f}: a folder of others", both(grown, thing("home")), (*UPDATE, "--out", "home", *force)),
            Case(f"update --out{f}: the corpus", grown, (*UPDATE, "--out", "s.zarr", *force)),
            Case(f"update{f}: a folder m.update", both(grown, thing("m.update")), (*UPDATE, *force)),
            Case(f"update{f}: another model called m.update", both(grown, copy("m", "m.update")), (*UPDATE, *force)),
        ]  # fmt: skip
    found += [
        Case("ingest --append: a folder of theirs in the store", thing("s.zarr/mine", "s.zarr/docs/mine"), ("ingest", "other.jsonl", "--out", "s.zarr", "--append"), DONE),
        Case("ingest --append: names like ours in the store", both(file("s.zarr/vocab-mine.parquet"), thing("s.zarr/train/words/c/99")), ("ingest", "other.jsonl", "--out", "s.zarr", "--append"), DONE),
        Case("ingest --force: a folder of theirs in the store", thing("s.zarr/mine"), ("ingest", "other.jsonl", "--out", "s.zarr", "--force")),
        Case("ingest --force: a file of theirs in the store", file("s.zarr/README"), ("ingest", "other.jsonl", "--out", "s.zarr", "--force")),
        Case("train: folders of theirs in the model", thing("m/mine", "m/work/mine", "m/checkpoints/mine"), ("train", "--corpus", "s.zarr", "--algo", "bp", "-K", "3", "--passes", "3", "--tol", "0", "--model", "m"), DONE),
        Case("train --force: a folder of theirs in work", thing("m/work/mine"), (*TRAIN, "m", "--force")),
        Case("train: a folder called topics-2 in the model", both(thing("m/topics-2")), ("train", "--corpus", "s.zarr", "--algo", "bp", "-K", "3", "--passes", "3", "--tol", "0", "--model", "m"), EITHER),
        Case("update: a folder of theirs in the model", both(grown, thing("m/mine"), file("m/README")), UPDATE, DONE),
        Case("update: a folder of theirs in the checkpoints", both(grown, thing("m/checkpoints/mine")), UPDATE),
        Case("infer --force: the input", thing(), ("infer", "in.jsonl", "--model", "m", "-o", "in.jsonl", "--force")),
        Case("infer --force: a hard link to the input", lambda: os.link("in.jsonl", "same.jsonl"), ("infer", "in.jsonl", "--model", "m", "-o", "same.jsonl", "--force")),
        Case("infer --force: somebody's JSON lines", file("a.jsonl", '{"id": 1}\n'), ("infer", "in.jsonl", "--model", "m", "-o", "a.jsonl", "--force")),
        Case("infer --force: somebody's CSV", file("a.csv", "id,x\n1,2\n"), ("infer", "in.jsonl", "--model", "m", "-o", "a.csv", "--force")),
        Case("infer --force: somebody's Parquet", copy("s.zarr/vocab.parquet", "a.parquet"), ("infer", "in.jsonl", "--model", "m", "-o", "a.parquet", "--force")),
        Case("infer --force: a link", both(file("notes.txt"), link("a.csv", "notes.txt")), ("infer", "in.jsonl", "--model", "m", "-o", "a.csv", "--force")),
        Case("infer: a file in the store", thing(), ("infer", "in.jsonl", "--model", "m", "-o", "s.zarr/a.csv")),
        Case("infer: in the input's folder", both(thing("raw"), copy("in.jsonl", "raw/in.jsonl")), ("infer", "raw", "--model", "m", "-o", "raw/a.csv")),
        Case("infer: temporary names of others", both(file(".a.csv.tmp"), file(".a.csv.99.tmp"), file(".a.csv.mine.tmp")), ("infer", "in.jsonl", "--model", "m", "-o", "a.csv"), DONE),
        Case("show --theta --force: somebody's CSV", file("a.csv", "id,x\n1,2\n"), ("show", "--model", "m", "--corpus", "s.zarr", "--theta", "a.csv", "--force")),
        Case("show --theta --force: the vocabulary of the store", thing(), ("show", "--model", "m", "--corpus", "s.zarr", "--theta", "s.zarr/vocab.parquet", "--force")),
    ]  # fmt: skip
    found += outputs()
    config = both(file("home/retrain.toml", RETRAIN), lambda: text(Path("home/raw/a.jsonl"), 150, 0, 3) and None)
    retrain = ("retrain", "--config", "home/retrain.toml")
    for name in ("incoming", "runs", "versions", "corpus.zarr", "corpus.zarr.wip"):
        found.append(Case(f"retrain: a folder {name}", both(config, thing(f"home/{name}")), retrain))
    found += [
        Case("retrain: an app's state.json", both(config, file("home/state.json", app)), retrain),
        Case("retrain: an app's journal.json", both(config, file("home/journal.json", app)), retrain),
        Case("retrain: a folder current", both(config, thing("home/current")), retrain, (1, 2, 3)),
        Case("retrain: somebody's link current", both(config, thing("home/releases/0001"), link("home/current", "releases/0001")), retrain, (1, 2, 3)),
        Case("retrain: a temporary file of others", both(config, file("home/.notes.7.tmp"), thing("home/.x.tmp.d")), retrain, DONE),
        Case("rollback: a folder versions of others", thing("home/versions/0001", "home/versions/0002"), ("rollback", "home"), (1, 2, 3)),
    ]  # fmt: skip
    return found


def outputs() -> list[Case]:
    """What a user names, of every command that writes a file, a folder of files or a sweep."""
    over = ("show", "--model", "m", "--corpus", "s.zarr", "--by", "source")
    written = {
        "show --out": ("a.csv", (*over, "--out")),
        "show --plot": ("a.svg", (*over, "--plot")),
        "show --intrusion": ("a.csv", ("show", "--model", "m", "--intrusion", "words", "--out")),
        "eval --per-document": ("a.parquet", ("eval", "--model", "m", "--corpus", "h.zarr", "--heldout", "--per-document")),
        "report": ("a.html", ("report", "m", "--no-corpus", "--out")),
        "export parquet": ("a.parquet", ("export", "--model", "m", "--out")),
        "export mallet-state": ("a.gz", ("export", "--model", "m", "--corpus", "s.zarr", "--out")),
        "compare --svg": ("a.svg", ("compare", "m", "--corpus", "s.zarr", "--on", "h.zarr", "--methods", "bp,vb", "--reference", "bp", "--svg")),
        "train --metrics": ("a.prom", (*TRAIN, "m2", "--metrics")),
        "update --metrics": ("a.prom", (*UPDATE, "--metrics")),
        "classifier": ("", ("classifier", "--corpus", "s.zarr", "--passes", "1", "--model")),
        "import": ("", ("import", "phi.parquet", "--model")),
        "sweep": ("", ("sweep", "--corpus", "h.zarr", "-K", "2", "--seeds", "1", "--algo", "bp", "--passes", "1", "--out")),
        "compact": ("", ("compact",)),
        "export mallet": ("", ("export", "--model", "m", "--format", "mallet", "--out")),
        "export uci": ("", ("export", "--model", "m", "--corpus", "s.zarr", "--format", "uci", "--out")),
    }  # fmt: skip
    more = both(held_out, exported)
    found = []
    for name, (out, line) in written.items():
        force = ("--force",) if "--metrics" not in name and name not in ("classifier", "sweep", "compact") else ()
        if out:
            found += [
                Case(f"{name}: somebody's file", both(more, file(out)), (*line, out, *force)),
                Case(f"{name}: a link", both(more, file("notes.txt"), link(out, "notes.txt")), (*line, out, *force)),
                Case(f"{name}: a folder of that name", both(more, thing(out)), (*line, out, *force), (1, 2, 3)),
                Case(f"{name}: a fifo", both(more, lambda o=out: os.mkfifo(o)), (*line, out, *force), (1, 2, 3)),
                Case(f"{name}: in the store", more, (*line, f"s.zarr/{out}", *force)),
                Case(f"{name}: in the model", more, (*line, f"m/{out}", *force)),
            ]
        elif "export" not in name:
            found += [
                Case(f"{name}: a folder of others", both(more, thing("proj")), (*line, "proj", *force)),
                Case(f"{name}: a file", both(more, file("proj")), (*line, "proj", *force)),
                Case(f"{name}: a link", both(more, thing("proj"), link("a", "proj")), (*line, "a", *force)),
            ]
        else:
            foreign = "topic-keys.txt" if "mallet" in name else "vocab.txt"
            found += [
                Case(
                    f"{name}: a file of theirs in the folder",
                    both(more, file(f"proj/{foreign}")),
                    (*line, "proj", *force),
                ),
                Case(f"{name}: a folder in the store", more, (*line, "s.zarr/a", *force)),
            ]
    found += [
        Case("compact: folders of theirs in the store", both(more, grown, thing("s.zarr/mine", "s.zarr/train-9")), ("compact", "s.zarr"), DONE),
        Case("forget: folders of theirs in store and model", both(more, thing("s.zarr/mine", "m/mine")), ("forget", "d3", "--corpus", "s.zarr", "--model", "m"), DONE),
        Case("forget: a folder of theirs in the work", both(more, thing("m/work/mine")), ("forget", "d3", "--corpus", "s.zarr", "--model", "m"), (1, 2, 3)),
        Case("edit: a link edits.jsonl", both(more, file("notes.txt"), link("m/edits.jsonl", "../notes.txt")), ("edit", "m", "--label", "0=x"), (1, 2, 3)),
        Case("edit: somebody's edits.jsonl", both(more, thing("m/edits.jsonl")), ("edit", "m", "--label", "0=x"), (1, 2, 3)),
        Case("classifier: a folder of theirs in its place", both(more, thing("m/classifier")), ("classifier", "--model", "m", "--corpus", "s.zarr", "--passes", "1"), (1, 2, 3)),
        Case("import --force: a folder of theirs in the model", both(more, thing("m/mine"), file("m/topics/mine")), ("import", "phi.parquet", "--model", "m", "--force"), EITHER),
        Case("sweep: a folder of theirs at a run's name", both(more, swept, thing("w/runs/bp-k3-s0")), ("sweep", "--corpus", "h.zarr", "-K", "3", "--seeds", "1", "--algo", "bp", "--passes", "1", "--out", "w")),
        Case("sweep: somebody's sweep.parquet", both(more, thing("w"), file("w/sweep.parquet")), ("sweep", "--corpus", "h.zarr", "-K", "3", "--seeds", "1", "--algo", "bp", "--passes", "1", "--out", "w")),
    ]  # fmt: skip
    return found


def held_out() -> None:
    assert command("ingest", "in.jsonl", "--out", "h.zarr", "--heldout", "20%").code == 0


def exported() -> None:
    assert command("export", "--model", "m", "--out", "phi.parquet").code == 0


def swept() -> None:
    line = ("sweep", "--corpus", "h.zarr", "-K", "2", "--seeds", "1", "--algo", "bp", "--passes", "1", "--out", "w")
    assert command(*line).code == 0


def contents(folder: Path) -> dict[str, str]:
    """Path -> what is there, by content; locks, marks and caches left out."""
    found: dict[str, str] = {}
    for at, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(at) / name
            below = path.relative_to(folder).as_posix()
            if path.is_symlink():
                found[below] = f"-> {os.readlink(path)}"
            elif path.is_dir():
                found[below] = "folder"
            elif not path.is_file():
                found[below] = "special"
            elif name not in (".lock", ".topicstream"):
                found[below] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def run(case: Case, place: Path) -> str:
    """What went wrong, or nothing."""
    os.chdir(place)
    text(Path("in.jsonl"), 150, 0, 1)
    text(Path("other.jsonl"), 20, 500, 2)
    for line in (("ingest", "in.jsonl", "--out", "s.zarr", "--heldout", "0"), (*TRAIN, "m")):
        made = command(*line)
        assert made.code == 0, made.err
    untouched = contents(place)
    case.make()
    before = contents(place)
    theirs = {k: v for k, v in before.items() if k not in untouched or case.codes == REFUSED}
    ours = ("m.update", "s.zarr", "m") if case.codes != REFUSED else ()
    ended: Ended = command(*case.line)
    now = contents(place)
    lost = [k for k, v in theirs.items() if now.get(k) != v and not (k in ours or _made_by_us(k, case))]
    problems = [f"lost {k}" for k in lost]
    if ended.code not in case.codes:
        problems.append(f"exit {ended.code}, not {' or '.join(map(str, case.codes))}")
    lines = ended.err.strip().splitlines()
    if lines[:1] and lines[0].startswith("Usage:"):  # an option that the command line itself refuses
        lines = lines[-1:]
    if ended.code and (len(lines) != 1 or "Traceback" in ended.err or "internal" in ended.err):
        problems.append(f"said {ended.err.strip()[:200]!r}")
    return "; ".join(problems)


def _made_by_us(path: str, case: Case) -> bool:
    """What the preparation of an update or of a compaction makes of our own store."""
    if case.line[0] == "compact" and path.startswith(("s.zarr/train/", "s.zarr/docs/")):
        return True
    return case.make is grown or (case.line[0] == "update" and path.startswith("s.zarr") and case.codes != REFUSED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="cases with one of these words in their name")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    given = parser.parse_args()
    wanted = [c for c in cases() if not given.only or any(w in c.name for w in given.only)]
    if given.list:
        print("\n".join(c.name for c in wanted))
        return 0
    import topicstream.cli.infer  # what the forks need, once
    import topicstream.cli.ingest
    import topicstream.cli.retrain
    import topicstream.cli.show
    import topicstream.cli.train
    import topicstream.cli.update
    import topicstream.inference.infer
    import topicstream.retraining.retrain  # noqa: F401

    failed = 0
    home = Path.cwd()
    print("| case | outcome |\n|---|---|")
    for case in wanted:
        with tempfile.TemporaryDirectory(prefix="foreign-") as place:
            wrong = run(case, Path(place).resolve())
            os.chdir(home)
        failed += bool(wrong)
        print(f"| {case.name} | {wrong or 'nothing lost'} |", flush=True)
    print(f"{len(wanted)} cases, {failed} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
