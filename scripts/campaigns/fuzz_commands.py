"""Targets of scripts/campaigns/fuzz_campaign.py that run whole commands on crafted stores and models, checksums fitting.

Models of every kind (authors, labels, links, clusters, Gaussians, seed words, a classifier, edits) and a store of vectors:
values of their JSON files and numbers of their arrays are exchanged for odd ones, everything above is sealed again, and a
command opens what came of it.  It must end with a code of its own and at most one line on stderr.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_inputs import Target
from fuzz_values import REAL, WHOLE, chunks_of, odd, reseal_block, write_sealed

from topicstream.exchange.formats import FORMATS
from topicstream.files.durable import read_json, sealed_line

MODELS: dict[str, dict[str, Any]] = {
    "atm": {"algo": "atm", "topics": 3},
    "llda": {"algo": "llda"},
    "rtm": {"algo": "rtm", "topics": 3},
    "mixture": {"algo": "mixture", "topics": 3},
    "seeds": {
        "algo": "sparse-bp",
        "topics": 3,
        "seed_words": {"first": ["wa", "wb"], "second": {"words": ["wc"], "strength": 5}},
    },
    "gmm": {"algo": "gmm", "topics": 3},
}
"""What each model is trained with."""


def commands(folder: Path, name: str) -> list[list[str]]:
    """What opens a model."""
    model, store, few = str(folder / f"spoilt-{name}"), str(folder / "axes.zarr"), str(folder / "few.jsonl")
    if name == "gmm":
        return [["info", model], ["show", "--model", model], ["infer", str(folder / "x.npy"), "--model", model]]
    return [
        ["info", model],
        ["show", "--model", model],
        ["show", "--model", model, "--corpus", store, "--docs", "1"],
        ["infer", few, "--model", model],
        ["infer", few, "--model", model, "--method", "classifier"],
        ["edit", model, "--label", "0=x"],
        ["eval", "--model", model, "--corpus", store, "--training", "--coherence", "--threads", "1"],
        ["report", model, "--corpus", store, "--out", str(folder / "page.html"), "--force", "--threads", "1"],
        ["compare", model, str(folder / name)],
        ["compare", str(folder / name), model],
        ["update", "--model", model, "--corpus", store, "--out", str(folder / "made"), "--passes", "1", "--threads", "1"],
        *(["export", "--model", model, "--corpus", store, "--format", form, "--out", str(folder / "made")]
          for form in FORMATS),
    ]  # fmt: skip


def of_vectors(folder: Path, store: Path) -> list[list[str]]:
    """What opens a store of vectors."""
    train = ["train", "--corpus", str(store), "--algo", "gmm", "-K", "2", "--passes", "1", "--threads", "1", "--model"]
    infer = ["infer", str(store), "--model", str(folder / "gmm")]
    return [["info", str(store), "--verify"], infer, [*train, str(folder / "of-points")]]


def of_documents(folder: Path, store: Path) -> list[list[str]]:
    """What opens a store of documents, to read and to change it."""
    corpus, few = ["--corpus", str(store)], str(folder / "few.jsonl")
    train = ["train", *corpus, "--passes", "1", "--threads", "1", "--model", str(folder / "of-texts"), "-K", "2"]
    return [
        ["info", str(store)],
        ["info", str(store), "--verify"],
        ["info", str(store), "--json"],
        [*train, "--algo", "sparse-bp"],
        [*train, "--algo", "atm"],
        ["infer", str(store), "--model", str(folder / "rtm")],
        ["eval", *corpus, "--model", str(folder / "rtm")],
        ["show", *corpus, "--model", str(folder / "rtm"), "--docs", "1"],
        ["ingest", few, "--out", str(store), "--append"],
        ["compact", str(store)],
        ["forget", "d3", *corpus],
    ]


RUNS: dict[str, dict[str, Any]] = {"gs": {"algo": "gs"}, "sparse-bp": {"algo": "sparse-bp"}, "atm": {"algo": "atm"}}
"""Runs that are gone on with."""


def of_run(folder: Path, name: str) -> list[list[str]]:
    """What goes on with a run, or takes new documents into its model."""
    run, store = str(folder / f"spoilt-run-{name}"), str(folder / "axes.zarr")
    more = ["--threads", "1", "--tol", "0", "--passes", "3"]
    return [
        ["train", "--corpus", store, "--model", run, "--algo", RUNS[name]["algo"], "-K", "3", *more],
        ["update", "--corpus", store, "--model", run, *more],
        ["update", "--corpus", store, "--model", run, "--out", str(folder / "made"), *more],
    ]


RETRAIN = """
[ingest]
stopwords = "none"
min_df = 1
max_df = 1.0
[train]
topics = 3
passes = 2
update_passes = 1
threads = 1
[when]
new_docs = true
[gate]
tolerance = 9.0
topics = false
"""


def of_sweep(folder: Path, out: Path) -> list[str]:
    """What goes on with a sweep."""
    told = ["--passes", "1", "--seeds", "1", "--threads", "1", "--algo", "sparse-bp"]
    return ["sweep", "--corpus", str(folder / "heldout.zarr"), "-K", "2,3", *told, "--out", str(out)]


def of_home(folder: Path) -> list[list[str]]:
    """What is done in a folder of `topics retrain`."""
    home = folder / "spoilt-home"
    cycle = ["retrain", "--config", str(home / "retrain.toml")]
    return [[*cycle, "--dry-run"], cycle, [*cycle, "--full"], ["rollback", str(home)], ["info", str(home / "current")]]


def clear(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)


def ended(line: list[str]) -> None:
    """Run a command; what it says and its exit code are those of a command that knew what it met."""
    from topicstream.cli.main import run

    if "--out" in line and line[line.index("--out") + 1].endswith("/made"):
        clear(Path(line[line.index("--out") + 1]))

    out, err = io.StringIO(), io.StringIO()
    out.buffer = io.BytesIO()  # type: ignore[attr-defined]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*line, "-q"])
    said = err.getvalue().strip().splitlines()
    assert code in (0, 1, 2, 3, 5) and "internal error" not in err.getvalue(), f"{line[0]}: {code}: {said[-1:]} {line}"
    if "--verify" in line:  # a line for each thing that is damaged
        said = [] if all(s.startswith("topics: ") for s in said) else said
    assert code == 0 or len(said) <= 1 or said[0].startswith("Usage:"), f"{line[0]}: {said}"


def prepared(folder: Path) -> None:
    """A corpus with authors, labels and links, one of vectors, and the models."""
    import topicstream
    from topicstream.progress import Shown as Progress

    rng = random.Random(8)
    with open(folder / "axes.jsonl", "w") as f, open(folder / "few.jsonl", "w") as few:
        for i in range(90):
            text = " ".join(f"w{'abcdefgh'[rng.randrange(8)]}" for _ in range(20))
            about = {"authors": [f"a{i % 5}"], "labels": [f"l{i % 3}"], "links": [f"d{i // 2}"]}
            f.write(json.dumps({"id": f"d{i}", "text": text} | about) + "\n")
            if i < 5:
                few.write(json.dumps({"id": f"n{i}", "text": text}) + "\n")
    meta = {k: k for k in ("authors", "labels", "links")}
    given = {"min_df": 1, "max_df": 1.0, "stopwords": "none", "heldout": "0", "progress": False}
    topicstream.ingest(folder / "axes.jsonl", folder / "axes.zarr", meta=meta, **given)
    np.save(folder / "x.npy", np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32))
    topicstream.ingest(folder / "x.npy", folder / "points.zarr", heldout="0", progress=False)
    common = {"passes": 1, "tol": 0.0, "threads": 1, "progress": Progress(-1)}
    for name, options in MODELS.items():
        corpus = folder / ("points.zarr" if name == "gmm" else "axes.zarr")
        topicstream.train(corpus, folder / name, **common, **options)
        for path in ("work", "checkpoints"):
            shutil.rmtree(folder / name / path, ignore_errors=True)
    topicstream.train_classifier(folder / "mixture", folder / "axes.zarr", passes=1, progress=False)
    for line in (["edit", str(folder / "rtm"), "--label", "0=first"], ["edit", str(folder / "rtm"), "--merge", "1,2"]):
        ended(line)
    for name in MODELS:  # whatever is to be compiled is compiled here
        shutil.copytree(folder / name, folder / f"spoilt-{name}")
        for line in commands(folder, name):
            ended(line)
    for line in of_vectors(folder, folder / "points.zarr"):
        ended(line)
    for name, options in RUNS.items():
        topicstream.train(folder / "axes.zarr", folder / f"run-{name}", topics=3, **common | options | {"passes": 2})
        for line in of_run(folder, name):
            restored(folder / f"run-{name}", folder / f"spoilt-run-{name}")
            ended(line)
    ended(["ingest", str(folder / "axes.jsonl"), "--out", str(folder / "heldout.zarr"), "--min-df", "1", "--heldout", "20%"])
    ended(of_sweep(folder, folder / "sweep"))
    (folder / "home" / "raw").mkdir(parents=True)
    (folder / "home" / "retrain.toml").write_text(RETRAIN)
    lines = (folder / "axes.jsonl").read_text().splitlines(keepends=True)
    cycle = ["retrain", "--config", str(folder / "home" / "retrain.toml")]
    for number, part in enumerate((lines[:40], lines[40:70], lines[70:])):
        (folder / "home" / "raw" / f"{number}.jsonl").write_text("".join(part))
        if number < 2:  # the last ones wait
            ended(cycle)
    for line in of_home(folder):
        restored(folder / "home", folder / "spoilt-home")
        ended(line)
    shutil.copytree(folder / "axes.zarr", folder / "spoilt-axes.zarr")
    for line in of_documents(folder, folder / "spoilt-axes.zarr"):
        shutil.rmtree(folder / "of-texts", ignore_errors=True)
        ended(line)


def restored(original: Path, spoilt: Path) -> None:
    """A copy as it was, with its marks (and nothing that a command has put beside it)."""
    for suffix in ("", ".wip", ".update"):
        shutil.rmtree(spoilt.with_name(spoilt.name + suffix), ignore_errors=True)
    shutil.copytree(original, spoilt, symlinks=True)


def command_targets(folder: Path, resealed: Callable[[random.Random, str], bytes]) -> list[Target]:
    """A target for each kind of model, and one for a store of vectors; all ``prepared``."""

    def model(name: str) -> Target:
        spoilt = folder / f"spoilt-{name}"

        def run(data: bytes, _: random.Random) -> None:
            rng = random.Random(data)
            restored(folder / name, spoilt)
            files = sorted(
                p for p in spoilt.rglob("*") if p.suffix in (".json", ".jsonl") and p.name != "history.jsonl"
            )
            path = rng.choice(files)
            if path.suffix == ".jsonl":
                lines = [json.loads(line) for line in path.read_text().splitlines()]
                for entry in lines:
                    del entry["crc32c"]
                text = resealed(rng, json.dumps({"lines": lines}))
                changed = json.loads(text).get("lines") if b"lines" in text else None
                entries = [e for e in changed if isinstance(e, dict)] if isinstance(changed, list) else []
                path.write_text("".join(map(sealed_line, entries)))
            else:
                path.write_bytes(resealed(rng, json.dumps(_parsed(path))))
                _seal_above(spoilt, path)
            ended(rng.choice(commands(folder, name)))

        return Target(f"values: commands on a model of {name}", [b"\0"], [], run, lambda rng: rng.randbytes(8))

    def spoil(rng: random.Random, spoilt: Path, files: list[Path]) -> None:
        """Values of one of the JSON files, sealed again where they were sealed."""
        path = rng.choice(files)
        data = path.read_bytes()
        with contextlib.suppress(ValueError):  # no JSON, or lines of it
            found = json.loads(data)
            sealed = isinstance(found, dict) and "checksum" in found
            text = resealed(rng, json.dumps(read_json(path) if sealed else found))
            path.write_bytes(text if sealed else json.dumps(_without(json.loads(text))).encode())

    def gone_on(name: str) -> Target:
        spoilt = folder / f"spoilt-run-{name}"

        def run(data: bytes, _: random.Random) -> None:
            rng = random.Random(data)
            restored(folder / f"run-{name}", spoilt)
            spoil(rng, spoilt, described(spoilt))
            ended(rng.choice(of_run(folder, name)))

        return Target(f"values: commands on a run of {name}", [b"\0"], [], run, lambda rng: rng.randbytes(8))

    def home(data: bytes, _: random.Random) -> None:
        rng, spoilt = random.Random(data), folder / "spoilt-home"
        restored(folder / "home", spoilt)
        spoil(rng, spoilt, described(spoilt))
        ended(rng.choice(of_home(folder)))

    def sweep(data: bytes, _: random.Random) -> None:
        rng, spoilt = random.Random(data), folder / "spoilt-sweep"
        restored(folder / "sweep", spoilt)
        spoil(rng, spoilt, described(spoilt))
        ended(of_sweep(folder, spoilt))

    def vectors(data: bytes, _: random.Random) -> None:
        rng, spoilt = random.Random(data), folder / "spoilt-points.zarr"
        restored(folder / "points.zarr", spoilt)
        if rng.random() < 0.5:
            arrays = chunks_of(spoilt, "train", 0)
            kind = rng.choice(list(arrays))
            values = arrays[kind].view(np.float32) if kind == "counts" else arrays[kind]
            odd(rng, values, REAL if kind == "counts" else WHOLE)
            reseal_block(spoilt, "train", 0, arrays, totals=rng.random() < 0.8)
        else:
            (spoilt / "manifest.json").write_bytes(resealed(rng, json.dumps(read_json(spoilt / "manifest.json"))))
        shutil.rmtree(folder / "of-points", ignore_errors=True)
        ended(rng.choice(of_vectors(folder, spoilt)))

    def texts(data: bytes, _: random.Random) -> None:
        rng, spoilt = random.Random(data), folder / "spoilt-axes.zarr"
        restored(folder / "axes.zarr", spoilt)
        if rng.random() < 0.2:
            arrays = chunks_of(spoilt, "train", 0)
            odd(rng, arrays[rng.choice(list(arrays))], WHOLE)
            reseal_block(spoilt, "train", 0, arrays, totals=rng.random() < 0.8)
        elif rng.random() < 0.2:
            spoil(rng, spoilt, described(spoilt))
        else:
            (spoilt / "manifest.json").write_bytes(resealed(rng, json.dumps(read_json(spoilt / "manifest.json"))))
        shutil.rmtree(folder / "of-texts", ignore_errors=True)
        ended(rng.choice(of_documents(folder, spoilt)))

    others = (("store of vectors", vectors), ("store of documents", texts), ("folder of retrain", home),
              ("sweep", sweep))
    rest = [Target(f"values: commands on a {what}", [b"\0"], [], run, lambda rng: rng.randbytes(8)) for what, run in others]
    return [*map(model, MODELS), *rest, *map(gone_on, RUNS)]


def described(folder: Path) -> list[Path]:
    """The JSON files and the marks in a folder of ours."""
    own = (".topicstream", ".inputs.json")
    return sorted(p for p in folder.rglob("*") if p.is_file() and (p.suffix == ".json" or p.name in own) and p.name != "zarr.json")


def _without(value: Any) -> Any:
    return {k: v for k, v in value.items() if k != "checksum"} if isinstance(value, dict) else value


def _parsed(path: Path) -> Any:
    return json.loads(path.read_text()) if path.name == "zarr.json" else read_json(path)


def _seal_above(model: Path, path: Path) -> None:
    """The checksums of a changed array's description, in the files that hold them."""
    import google_crc32c

    if path.name != "zarr.json":
        return
    crc = int(google_crc32c.value(path.read_bytes()))
    for record in (model / "manifest.json", model / "classifier.json"):
        if not record.exists():
            continue
        value = read_json(record)
        entries = [*value.get("files", {}).values(), *(value.get("tables") or {}).values(), value.get("array") or {}]
        for entry in entries:
            if isinstance(entry, dict) and entry.get("name") == path.parent.name:
                entry["crc32c"] = crc
        write_sealed(record, value)
