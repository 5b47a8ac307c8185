"""Put files of others in the way of every command, and check that each byte of them survives.

    python scripts/campaigns/foreign_files.py [--sample N] [--seed S] [--only TEXT]

Each case copies a place with an input, two stores, a model, a sweep and the folder of a retrain,
puts something of others into it, runs a command and compares all files that are not ours before and
after: paths, contents, targets of links.  A case names the outputs that the command may replace
(``--force``).  Backups by hard links (``cp -al``) of our folders count as files of others, markers
included.  Prints the losses and a count; exit 1 when anything was lost, or a command ended with an
internal error.

``tests/base/test_foreign_campaign.py`` runs a selection.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from topicstream.cli.main import run

INGEST = "ingest other.jsonl --min-df 1 --heldout 0 --out"
TRAIN = "train --corpus s.zarr --algo bp -K 3 --tol 0 --threads 1 --model m --passes"
UPDATE = "update --corpus s.zarr --passes 1 --model m"
SWEEP = "sweep --corpus h.zarr --seeds 1 --algo bp --passes 1 --out w -K"
RETRAIN = "retrain --config home/retrain.toml"
GIBBS = "train --corpus h.zarr --algo gs -K 3 --tol 0 --threads 1 --model g --passes"
CONFIG = """
raw = "raw"
[ingest]
stopwords = "none"
min_df = 1
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
THEMES = (
    "cat kitten purr whisker claw fur paw tail",
    "ship harbour sail anchor captain deck ocean crew",
    "star galaxy telescope orbit comet planet nebula moon",
)


@dataclass(frozen=True)
class Case:
    """Things of others, the command that meets them, and what it may replace.

    Attributes
    ----------
    things
        Steps of ``put``.
    command
        A command line without ``topics``.
    replaced
        Outputs that the command names and may replace.
    """

    things: tuple[str, ...]
    command: str
    replaced: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{'; '.join(self.things)} | {self.command}"


# -- the place
# --------------------------------------------------------------------------------------------------
def write_documents(path: Path, count: int, seed: int, prefix: str) -> None:
    """Write so many documents of three themes as JSON lines."""
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            words = rng.choice(THEMES).split()
            text = " ".join(rng.choices(words, k=12))
            line = {"id": f"{prefix}{number}", "text": text, "party": rng.choice("ab")}
            file.write(json.dumps(line) + "\n")


def make_template(folder: Path) -> None:
    """Make the place that each case gets a copy of."""
    with contextlib.chdir(folder):
        write_documents(Path("in.jsonl"), 80, 1, "d")
        write_documents(Path("other.jsonl"), 20, 2, "e")
        Path("home/raw").mkdir(parents=True)
        write_documents(Path("home/raw/a.jsonl"), 60, 3, "r")
        Path("home/retrain.toml").write_text(CONFIG)
        ingest = "ingest in.jsonl --min-df 1 --meta party"
        for line in (
            f"{ingest} --heldout 0 --out s.zarr",
            f"{ingest} --heldout 20% --out h.zarr",
            f"{TRAIN} 2",
            f"{GIBBS} 2",
            f"{SWEEP} 2",
            RETRAIN,
            "export --model m --out phi.parquet",
            "export --model m --format mallet --out exported",
        ):
            _succeed(line)
        write_documents(Path("home/raw/b.jsonl"), 20, 4, "t")
        _succeed("ingest other.jsonl --out s.zarr --append --grow-vocab --meta party")


def _succeed(line: str) -> None:
    if run([*line.split(), "-q"]) != 0:
        raise SystemExit(f"topics {line}: failed")


def put(thing: str) -> None:
    """Put one thing: ``a/`` a folder with work in it, ``a`` a file, ``a=text``, ``a->b`` a link.

    ``a<-b`` is a copy, ``a<=b`` a copy by hard links.
    """
    if "->" in thing:
        name, target = thing.split("->")
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, name)
    elif "<=" in thing:
        name, source = thing.split("<=")
        shutil.copytree(source, name, copy_function=os.link, symlinks=True)
    elif "<-" in thing:
        name, source = thing.split("<-")
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir="..") as apart:  # the target may lie in the source
            copy = shutil.copytree if Path(source).is_dir() else shutil.copy
            shutil.move(copy(source, f"{apart}/copy"), name)
    elif thing.endswith("/"):
        (Path(thing) / "thesis").mkdir(parents=True)
        (Path(thing) / "thesis" / "chapter.tex").write_text("years of work")
    else:
        name, _, text = thing.partition("=")
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text or "mine")


def files_below(folder: Path) -> dict[str, str]:
    """Return path -> content or target of all files and links below a folder."""
    seen: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            seen[name] = f"link to {os.readlink(path)}"
        elif path.is_file():
            seen[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not path.is_dir():
            seen[name] = "special"
    return seen


# -- the cases
# --------------------------------------------------------------------------------------------------
SCHEMA_1 = '{"schema": 1, "kind": "model"}'
FOREIGN = (
    "notes.txt",
    "mine/",
    "link->/etc/hostname",
    f"manifest-mine.json={SCHEMA_1}",
    ".history.jsonl.tmp",
    ".manifest.json.0123456789abcdef.tmp",
    "zarr.0123456789abcdef0123456789abcdef.partial",
    "state-0002.json",
    "part-00099.parquet",
    "vocab-0009.parquet",
    ".topicstream.0123456789abcdef.tmp=mine, too",
    "model<-m",
)
"""What lies in a folder of ours."""
NAMED_AS_OURS = tuple(
    f"{name}={text}"
    for name, text in (
        ("manifest.json", SCHEMA_1),
        ("training.json", '{"schema": 1}'),
        ("state.json", '{"schema": 1}'),
        ("vocab.parquet", "mine"),
        ("history.jsonl", '{"pass": 1}'),
        (".lock", "mine"),
        (".topicstream", "mine"),
    )
)
"""What lies in a folder of the user's that has a name that we would give."""
PLACES = {
    "s.zarr": ("", "docs/", "train/words/c/", "train/words/c/0/"),
    "m": ("", "work/", "checkpoints/", "topics/c/0/"),
    "g": ("", "work/", "checkpoints/"),
    "w": ("", "runs/", "results/"),
    "home/versions/0001": ("", "topics/"),
    "home/corpus.zarr": ("", "docs/"),
}
COMMANDS = {
    "s.zarr": (
        f"{INGEST} s.zarr --force",
        "ingest other.jsonl --out s.zarr --append --on-duplicate replace",
        "compact s.zarr",
        "forget d3 --corpus s.zarr --model m",
        "ingest in.jsonl --out s.zarr --append",
    ),
    "m": (
        f"{TRAIN} 3",
        f"{TRAIN} 2 --force",
        UPDATE,
        f"{UPDATE} --force",
        "update --corpus s.zarr --passes 1 --model home/current --out m --force",
        "import phi.parquet --model m --force",
        "edit m --label 0=x --merge 1,2",
        "classifier --model m --corpus h.zarr --passes 1",
        "forget d3 --corpus s.zarr --model m",
    ),
    "g": (f"{GIBBS} 3", f"{GIBBS} 2 --force", "forget d3 --corpus h.zarr --model g"),
    "w": (f"{SWEEP} 2", f"{SWEEP} 2,3"),
    "home/versions/0001": (RETRAIN, f"{RETRAIN} --full", "rollback home"),
    "home/corpus.zarr": (RETRAIN, "forget r3 --corpus home/corpus.zarr"),
}
NEW_FOLDERS = (
    (f"{INGEST} d", "d"),
    (f"{INGEST} d", "d.wip"),
    ("train --corpus s.zarr --algo bp -K 3 --passes 1 --model d", "d"),
    (UPDATE, "m.update"),
    (f"{UPDATE} --out d", "d"),
    ("import phi.parquet --model d", "d"),
    ("import phi.parquet --model m", "m.import"),
    ("export --model m --format mallet --out d", "d"),
)
"""Commands without ``--force``, and a folder that they make."""
RETRAINED = ("incoming", "runs", "corpus.zarr.wip", "measured.zarr")
LOOKS = {
    "a.csv": (
        "id,topic,share\nd0,1,0.5\n",
        "period,group,topic\n1999,a,0\n",
        "word,topic_1\ncat,1\n",
        "topic,label,share\n",
        "",
    ),
    "a.jsonl": ('{"id": "d", "topics": [1], "shares": [1.0]}\n',),
    "a.html": ('<html><head><meta name="generator" content="topicstream"></head>',),
    "a.svg": ("<svg><dc:title>topicstream</dc:title></svg>",),
    "a.parquet": ("written by topicstream, which may replace it",),
}
OUTPUTS = {
    "infer in.jsonl --model m --out": ("a.csv", "a.jsonl", "a.parquet"),
    "show --model m --corpus s.zarr --by party --out": ("a.csv", "a.jsonl", "a.parquet"),
    "show --model m --corpus s.zarr --by party --plot": ("a.svg",),
    "show --model m --table": ("a.csv",),
    "show --model m --corpus s.zarr --theta": ("a.csv", "a.parquet"),
    "show --model m --intrusion words --out": ("a.csv",),
    "effects party --model m --corpus s.zarr --out": ("a.csv",),
    "report m --no-corpus --out": ("a.html",),
    "eval --model m --corpus h.zarr --heldout --per-document": ("a.csv", "a.jsonl"),
    "export --model m --format csv --out": ("a.csv",),
    "export --model m --out": ("a.parquet",),
    "compare m home/current --out": ("a.csv",),
}
IN_THE_WAY = ("{}->in.jsonl", "{}->nowhere", "{}/")
"""What no ``--force`` replaces."""


def in_our_folders() -> Iterator[Case]:
    """Files of others in folders of ours."""
    for folder, places in PLACES.items():
        for place in places:
            for foreign in FOREIGN:
                for command in COMMANDS[folder]:
                    yield Case((f"{folder}/{place}{foreign}",), command)


def in_the_place_of_ours() -> Iterator[Case]:
    """Folders and files of others where a command makes its own."""
    for command, folder in NEW_FOLDERS:
        for forced in ("", " --force"):
            if forced and command.startswith("export"):
                continue
            for named in NAMED_AS_OURS:
                yield Case((f"{folder}/{named}",), command + forced)
            yield Case((f"{folder}=mine",), command + forced)
            yield Case(("theirs/", f"{folder}->theirs"), command + forced)
    for name in RETRAINED:
        for named in (*NAMED_AS_OURS, "thesis/"):
            for command in (RETRAIN, f"{RETRAIN} --full"):
                yield Case((f"home/{name}/{named}",), command)


def outputs() -> Iterator[Case]:
    """Files that a command names as its output."""
    for command, names in OUTPUTS.items():
        for name in names:
            for text in LOOKS[name]:
                yield Case((f"{name}={text or ' '}",), f"{command} {name}")
                yield Case((f"{name}={text or ' '}",), f"{command} {name} --force", (name,))
            for way in IN_THE_WAY:
                yield Case((way.format(name),), f"{command} {name} --force")
            for folder in (
                "s.zarr",
                "m",
                "home/versions/0001",
                "home/corpus.zarr",
                "w",
                "exported",
            ):
                yield Case((f"{folder}/{name}",), f"{command} {folder}/{name} --force")
    for text in (
        "mine",
        "# topicstream metrics\nmine 1\n",
        "# topicstream metrics crc32c:00000000\nmine 1\n",
    ):
        for command in (f"{TRAIN} 3", RETRAIN):
            yield Case((f"a.prom={text}",), f"{command} --metrics a.prom")
    for mine in ("topic-keys.txt", "exported/notes.txt", "exported/mine/"):
        yield Case((mine,), "export --model m --format mallet --out exported --force")
    yield Case(("d/topic-keys.txt",), "export --model m --format mallet --out d --force")
    yield Case(("c.toml=mine",), "retrain --init --config c.toml")


def backups() -> Iterator[Case]:
    """Copies by hard links, which no command may change."""
    for folder, commands in COMMANDS.items():
        root = folder.partition("/")[0]
        for command in commands:
            yield Case((f"backup<={root}",), command)


def through_links() -> Iterator[Case]:
    """Paths with ``..`` behind a link: the folder above the link's target is meant."""
    link = ("deep/er/x", "link->deep/er")
    for name in ("d", "m", "s.zarr"):
        for things in ((f"{name}-theirs/",), (f"deep/{name}/manifest.json={SCHEMA_1}",), ()):
            for command in (
                f"{INGEST} link/../{name}",
                f"{INGEST} link/../{name} --force",
                f"train --corpus s.zarr --algo bp -K 3 --passes 1 --model link/../{name}",
                f"train --corpus s.zarr --algo bp -K 3 --passes 1 --model link/../{name} --force",
                f"{UPDATE} --out link/../{name} --force",
                f"import phi.parquet --model link/../{name} --force",
            ):
                yield Case((*link, *things, "kept<=m", "other<=s.zarr"), command)
    for output in ("a.csv", "s.zarr/a.csv", "m/a.csv"):
        for forced in ("", " --force"):
            yield Case((*link, output), f"infer in.jsonl --model m --out link/../{output}{forced}")
    for folder in ("m", "s.zarr"):
        yield Case(
            ("inside/", f"link->{folder}"), "infer in.jsonl --model m --out inside/../link/a.csv"
        )
        yield Case((f"{folder}/mine/",), f"{TRAIN.replace(' m ', ' m/mine/.. ')} 2 --force")


def all_cases() -> list[Case]:
    """Return all cases, each once."""
    groups = (in_our_folders(), in_the_place_of_ours(), outputs(), backups(), through_links())
    return list(dict.fromkeys(case for group in groups for case in group))


def run_case(case: Case, template: Path, work: Path) -> tuple[int, list[str]]:
    """Return the exit code of a case, and what it lost, in sentences."""
    place = work / "place"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(template, place, symlinks=True)
    with contextlib.chdir(place):
        ours = files_below(place)
        for thing in case.things:
            put(thing)
        before = files_below(place)
        theirs = {name for name in before if name not in ours}
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            code = run([*case.command.split(), "-q"])
        after = files_below(place)
    moved = set(after.values())
    lost = [
        name
        for name in sorted(theirs)
        if name not in case.replaced
        and after.get(name) != before[name]
        and not (name not in after and before[name] in moved and "update" in case.command)
    ]
    problems = [f"{case}: lost {name}" for name in lost]
    if "internal error" in errors.getvalue() or code not in range(8):
        problems.append(f"{case}: {errors.getvalue().strip()[-300:]}")
    return code, problems


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, help="so many cases, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="cases that contain this text")
    args = parser.parse_args()
    cases = [case for case in all_cases() if args.only in str(case)]
    if args.sample is not None and args.sample < len(cases):
        cases = random.Random(args.seed).sample(cases, args.sample)
    problems: list[str] = []
    codes: Counter[int] = Counter()
    with tempfile.TemporaryDirectory(prefix="foreign-") as folder:
        template = Path(folder) / "template"
        template.mkdir()
        make_template(template)
        for case in cases:
            code, lost = run_case(case, template, Path(folder))
            codes[code] += 1
            problems += lost
            for problem in lost:
                print(problem, flush=True)
    by_code = ", ".join(f"{count} with code {code}" for code, count in sorted(codes.items()))
    print(f"{len(cases)} cases ({by_code}), {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
