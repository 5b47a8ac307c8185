"""Kill -9 at random instants of every command that writes, training with every engine included;
carry on; compare.

    python scripts/campaigns/kill_campaign.py --kills 100 [--only ingest append atbp update retrain
    ...] [--save FILE]

For each subject the undisturbed run is made twice first; then the same command is started again and
again, killed at
random instants until its share of the kills is spent, and left to end.  Every result must be the
same bits: the store's
chunks, tables and fingerprint, or the training state's content hash, or the published model with
its ids.  After every
kill what readers see must be whole: the old store or model, or the new one; of a file that is
named, all or nothing, and
in the end nothing beside it.  Prints a Markdown table (--save: each row as soon as it is there);
                               exit 1 when anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import msgspec
import numpy as np
from checkpoint_bits import content_hash
from measure import heading, table

from topicstream.addons.clusters.model import GaussianModel
from topicstream.corpus.reader import Corpus
from topicstream.engines import engines
from topicstream.model.edits import view_of
from topicstream.model.manifest import read_ids
from topicstream.model.topic_model import TopicModel

TOPICS = [sys.executable, "-m", "topicstream.cli.main"]
TRAIN = ["-K", "20", "--passes", "6", "--tol", "0", "--threads", "2", "--block-cells", "20000"]
CONFIG = """
[ingest]
stopwords = "none"
[train]
algo = "atbp"
topics = 20
passes = 8
update_passes = 6
tol = 0.0
threads = 2
[when]
drift = false
[gate]
tolerance = 0.5
topics = false
"""


def text(path: Path, documents: int = 6000, first: int = 0) -> Path:
    """Documents of made words, JSON lines."""
    rng = random.Random(3)
    words = [
        "".join(rng.choice("aeioubcdfglmnprst") for _ in range(rng.randint(3, 9)))
        for _ in range(4000)
    ]
    weights = [1 / (i + 3) for i in range(len(words))]
    rng.seed(first)
    with open(path, "w") as f:
        for i in range(first, first + documents):
            shift = 37 * (i % 20)
            drawn = rng.choices(range(len(words)), weights, k=rng.randint(20, 120))
            said = " ".join(words[(w * (1 + shift)) % 4000] for w in drawn)
            authors = [f"a{i % 97}", f"a{i % 89}"]
            links = [f"d{i // 2}", f"d{(7 * i) % (i + 1)}"]
            record = {
                "id": f"d{i}",
                "text": said,
                "authors": authors,
                "labels": [f"l{i % 20}"],
                "links": links,
            }
            f.write(json.dumps(record) + "\n")
    return path


def store_hash(path: Path) -> str:
    """sha256 of every chunk and table of a store, and of the manifest without its times."""
    h = hashlib.sha256()
    for file in sorted(
        p for p in path.rglob("*") if p.is_file() and p.name not in (".lock", "manifest.json")
    ):
        h.update(str(file.relative_to(path)).encode() + file.read_bytes())
    manifest = json.loads((path / "manifest.json").read_text())
    h.update(manifest["fingerprint"].encode())
    return h.hexdigest()


def model_hash(path: Path) -> str:
    """What a reader of the model sees."""
    return TopicModel.open(path, memory_limit=0).content_hash()


@dataclass
class Subject:
    """One command and what must come of it.

    prepare  brings the work to the state in which the command starts
    digest   of the finished result
    done     whether the command has nothing left to do
    seen     what a reader sees in between (None: nothing yet); it must be that of the beginning or
             that of the end
    again    only a run that ended by itself is done: the one after a kill may have something to
             sweep
    """

    name: str
    command: list[str]
    prepare: Callable[[], None]
    digest: Callable[[], str]
    done: Callable[[], bool]
    seen: Callable[[], str | None]
    again: bool = False

    def campaign(self, kills: int, rng: random.Random) -> list[object]:
        """Kill it ``kills`` times; a row of the table."""
        ends = set()
        length = 0.0
        for _ in range(2):
            self.prepare()
            start = self.seen()
            began = time.monotonic()
            subprocess.run(self.command, check=True, capture_output=True)
            length = time.monotonic() - began
            ends.add(self.digest())
        allowed = {start, self.seen()}
        self.prepare()
        made = finished = wrong = torn = 0
        while made < kills:
            process = subprocess.Popen(
                self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:
                process.wait(rng.uniform(0.15, 1.0) * length)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                made += 1
                torn += self.seen() not in allowed
            ended = process.returncode == 0 or (
                process.returncode == -signal.SIGKILL and not self.again
            )
            if ended and self.done():  # a kill may come when all is done
                finished += 1
                wrong += self.digest() not in ends
                self.prepare()
            elif process.returncode not in (0, -signal.SIGKILL):
                wrong += 1
        last = subprocess.run(self.command, capture_output=True, text=True, check=False)
        if last.returncode or self.digest() not in ends:
            wrong += 1
            print(f"{self.name}: {last.stderr.strip()[-500:] or 'another result'}", file=sys.stderr)
        row = [
            self.name,
            f"{length:.1f}",
            made,
            finished + 1,
            "yes" if len(ends) == 1 else "NO",
            torn,
            wrong,
        ]
        print(*row, file=sys.stderr, flush=True)
        return row


def subjects(work: Path, only: list[str]) -> list[Subject]:
    """Those asked for, with what they start from."""
    source = text(work / "text.jsonl")
    more = text(work / "more.jsonl", 1500, 6000)
    other = text(work / "other.jsonl", 1500, 3000)
    corpus = work / "corpus.zarr"
    model = work / "model"
    base = work / "base"
    kept_fields = [f"--meta={name}={name}" for name in ("authors", "labels", "links")]
    ingest = [*TOPICS, "ingest", str(source), "--out", str(corpus), *kept_fields]

    def adding(path: Path, *more: str) -> list[str]:
        return [
            *TOPICS,
            "ingest",
            str(path),
            "--out",
            str(corpus),
            "--append",
            "--grow-vocab",
            *more,
            *kept_fields,
        ]

    append = adding(more)
    named = ["--corpus", str(corpus), "--model", str(model)]

    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)

    def clear() -> None:
        for path in (corpus, corpus.with_name("corpus.zarr.wip"), model, work / "model.update"):
            shutil.rmtree(path, ignore_errors=True)

    def store_seen() -> str | None:
        return Corpus.open(corpus).fingerprint if corpus.exists() else None

    def store_done(before: str | None) -> bool:
        return store_seen() != before and not corpus.with_name("corpus.zarr.wip").exists()

    def kept(name: str, make: Callable[[], None]) -> Path:
        """Corpus and model as ``make`` leaves them, in a folder of their own."""
        place = base / name
        if not place.exists():
            clear()
            make()
            place.mkdir(parents=True)
            for path in (corpus, model):
                if path.exists():
                    shutil.copytree(path, place / path.name)
        return place

    def back(place: Path) -> None:
        clear()
        for path in place.iterdir():
            shutil.copytree(path, work / path.name)

    def ingested() -> Path:
        return kept("ingested", lambda: run(*ingest))

    def ingesting() -> Subject:
        return Subject(
            "ingest",
            ingest,
            clear,
            lambda: store_hash(corpus),
            lambda: store_done(None),
            store_seen,
        )

    def appending(name: str, command: list[str]) -> Subject:
        place = ingested()
        before = Corpus.open(place / "corpus.zarr").fingerprint
        done = partial(store_done, before)
        return Subject(
            name, command, lambda: back(place), lambda: store_hash(corpus), done, store_seen
        )

    def training(name: str) -> Subject:
        place = ingested()
        return Subject(
            name,
            [*TOPICS, "train", *named, "--algo", name, *TRAIN, "--checkpoint-minutes", "0.002"],
            lambda: back(place),
            lambda: content_hash(model),
            (model / "finished.json").exists,
            lambda: model_hash(model) if (model / "manifest.json").exists() else None,
        )

    def gaussians() -> Subject:
        def vectors() -> None:
            np.save(
                work / "points.npy",
                np.random.default_rng(1).normal(size=(20_000, 24)).astype(np.float32),
            )
            run(*TOPICS, "ingest", str(work / "points.npy"), "--out", str(corpus))

        place = kept("vectors", vectors)
        return Subject(
            "gmm",
            [*TOPICS, "train", *named, "--algo", "gmm", *TRAIN, "--checkpoint-minutes", "0.002"],
            lambda: back(place),
            lambda: content_hash(model),
            (model / "finished.json").exists,
            lambda: (
                str(GaussianModel(model).sizes.tobytes())
                if (model / "manifest.json").exists()
                else None
            ),
        )

    def updating() -> Subject:
        def appended() -> None:
            for command in (
                ingest,
                [*TOPICS, "train", *named, "--algo", "sparse-bp", *TRAIN],
                append,
            ):
                run(*command)

        place = kept("appended", appended)
        mark = Corpus.open(place / "corpus.zarr").fingerprint

        def done() -> bool:
            of = TopicModel.open(model).manifest.corpus.fingerprint
            return of == mark and not (work / "model.update").exists()

        return Subject(
            "update",
            [*TOPICS, "update", *named, "--passes", "6", "--tol", "0", "--threads", "2"],
            lambda: back(place),
            lambda: content_hash(model),
            done,
            lambda: model_hash(model),
        )

    def rewriting(name: str, *options: str) -> Subject:
        """compact, forget: a store of three ingests, and for forget a model with the state of its
        run.
        """
        pieces = [text(work / f"piece-{i}.jsonl", 300, 9000 + 300 * i) for i in range(2)]

        def grown() -> None:
            for command in (ingest, *map(adding, pieces)):
                run(*command)
            run(*TOPICS, "train", *named, "--algo", "sparse-bp", *TRAIN)

        place = kept("grown", grown)
        before = Corpus.open(place / "corpus.zarr").fingerprint

        def digest() -> str:
            left = sorted(p.name for p in (model, model / "work") if p.exists())
            return hashlib.sha256(
                (store_hash(corpus) + model_hash(model) + str(left)).encode()
            ).hexdigest()

        command = [*TOPICS, name, *options]

        def done():
            return store_seen() != before

        return Subject(name, command, lambda: back(place), digest, done, store_seen, again=True)

    def trained() -> Path:
        return kept(
            "trained",
            lambda: (run(*ingest), run(*TOPICS, "train", *named, "--algo", "sparse-bp", *TRAIN)),
        )

    def naming(name: str, out: str, *line: str) -> Subject:
        """A command that writes what a user names: it alone may lie in its folder in the end."""
        place = trained()
        folder = work / "answers"
        target = folder / out

        def prepare() -> None:
            back(place)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

        def seen() -> str | None:
            if not target.exists() or (target.is_dir() and not list(target.rglob("manifest.json"))):
                return None  # what is begun and not committed is no model yet
            if target.is_dir():
                models = sorted(p.parent for p in target.rglob("manifest.json"))
                return "".join(f"{p.relative_to(target)} {model_hash(p)}" for p in models)
            data = (
                target.read_bytes()
            )  # a page holds the time it was made, compressed, and a figure how long methods took
            return (
                str(data[-8:])
                if out.endswith((".html", ".svg"))
                else hashlib.sha256(data).hexdigest()
            )

        def digest() -> str:
            return f"{sorted(p.name for p in folder.iterdir())} {seen()}"

        return Subject(
            name, [*TOPICS, *line, str(target)], prepare, digest, lambda: seen() is not None, seen
        )

    def rare() -> Path:
        (work / "rare.txt").write_text(
            "\n".join(
                Corpus.open(ingested() / corpus.name).word_table("word")["word"].to_pylist()[-50:]
            )
        )
        return work / "rare.txt"

    def phi() -> Path:
        back(trained())
        run(*TOPICS, "export", *named[2:], "--out", str(work / "phi.parquet"))
        return work / "phi.parquet"

    def changing(name: str, look: Callable[[Path], str], *line: str) -> Subject:
        """A command that changes a model."""
        place = trained()
        before = look(place / model.name)
        digest = partial(look, model)
        return Subject(
            name, [*TOPICS, *line], lambda: back(place), digest, lambda: digest() != before, digest
        )

    def classified(path: Path) -> str:
        file = path / "classifier.json"
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""

    make = {
        "ingest": ingesting,
        "replace": lambda: appending("replace", adding(other, "--on-duplicate", "replace")),
        "infer": lambda: naming(
            "infer", "a.parquet", "infer", str(source), named[2], named[3], "--out"
        ),
        "show": lambda: naming("show", "a.csv", "show", *named, "--theta"),
        "eval": lambda: naming("eval", "a.parquet", "eval", *named, "--heldout", "--per-document"),
        "report": lambda: naming("report", "a.html", "report", str(model), *named[:2], "--out"),
        "export": lambda: naming("export", "a.parquet", "export", named[2], named[3], "--out"),
        "import": lambda: naming("import", "m", "import", str(phi()), "--model"),
        "edit": lambda: changing(
            "edit",
            lambda p: str(view_of(TopicModel.open(p)).labels),
            "edit",
            str(model),
            "--label",
            "0=x",
        ),
        "classifier": lambda: changing("classifier", classified, "classifier", *named),
        "drop-words": lambda: appending(
            "drop-words", [*TOPICS, "edit", str(corpus), "--drop-words", str(rare())]
        ),
        "compact": lambda: rewriting("compact", str(corpus)),
        "forget": lambda: rewriting("forget", "d5", "d6100", "d9007", *named),
        "append": lambda: appending("append", append),
        "update": updating,
        "gmm": gaussians,
        "retrain": lambda: retraining(work, source, more),
    }
    return [make[name]() if name in make else training(name) for name in only]


def retraining(work: Path, source: Path, more: Path) -> Subject:
    """A cycle that takes a new file into a folder with one published version."""
    home = work / "nightly"
    before = work / "base" / "nightly"
    command = [*TOPICS, "retrain", "--config", str(home / "retrain.toml"), "-q"]
    (home / "raw").mkdir(parents=True)
    (home / "retrain.toml").write_text(CONFIG)
    shutil.copy(source, home / "raw" / "first.jsonl")
    subprocess.run(command, check=True, capture_output=True)
    shutil.copy(more, home / "raw" / "second.jsonl")
    shutil.copytree(home, before, symlinks=True)

    def prepare() -> None:
        shutil.rmtree(home)
        shutil.copytree(before, home, symlinks=True)

    def digest() -> str:
        published = home / "current"
        parts = [
            model_hash(published),
            msgspec.to_builtins(read_ids(published, 20)),
            Corpus.open(home / "corpus.zarr").fingerprint,
        ]
        parts.append(json.loads((home / "state.json").read_text())["files"])
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def done() -> bool:
        return (home / "current").resolve().name == "0002" and not (home / "journal.json").exists()

    return Subject("retrain", command, prepare, digest, done, lambda: model_hash(home / "current"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    counting = [n for n, kind in engines().items() if not kind.about.dense]
    writing = [
        "infer",
        "show",
        "compare",
        "eval",
        "report",
        "export",
        "import",
        "edit",
        "classifier",
    ]
    every = [
        "ingest",
        "append",
        "replace",
        "drop-words",
        *counting,
        "gmm",
        "update",
        "retrain",
        "compact",
        "forget",
        *writing,
    ]
    parser.add_argument("--kills", type=int, default=20, help="shared by the subjects, rounded up")
    parser.add_argument("--only", nargs="*", default=every, choices=every)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="a file that each row is added to")
    args = parser.parse_args()
    share = -(-args.kills // len(args.only))
    with tempfile.TemporaryDirectory() as temporary:
        rows = []
        for subject in subjects(Path(temporary), args.only):
            rows.append(subject.campaign(share, random.Random(f"{args.seed}-{subject.name}")))
            if args.save is not None:
                with args.save.open("a") as out:
                    out.write("| " + " | ".join(map(str, rows[-1])) + " |\n")
    heading(
        "Killed and carried on",
        "kill -9 at random instants. torn: kills after which a reader found neither the old "
        "store or model nor the new one; "
        "wrong: results that differ from the undisturbed run's, or runs that could not carry on",
    )
    table(
        [
            "subject",
            "undisturbed s",
            "kills",
            "runs that ended",
            "undisturbed twice the same",
            "torn",
            "wrong",
        ],
        rows,
    )
    return (
        1 if any(row[-1] or row[-2] for row in rows) or any(row[4] != "yes" for row in rows) else 0
    )


if __name__ == "__main__":
    sys.exit(main())
