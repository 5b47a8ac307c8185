"""Break files, folders and disks on purpose: each fault must give the right exit code and one clear line, and lose nothing.

    python scripts/campaigns/fault_campaign.py [--flips 2] [--only flips truncated missing schema read-only full-disk] [--seed 0]

A small corpus, a model, a run that stopped half way and a retrain folder are made; then, on fresh copies, one file at a time
gets a flipped bit, loses its end or vanishes, or says another schema, and every command that may meet it is run:

    info --verify, train (anew, and going on), eval, infer, show, update, retrain, ingest --append

A command must either do exactly what it does on undamaged files (it has no need of the damaged one) or end with code 3 and
one line on stderr, without a traceback, that names the file (or the block); whatever else lay there must be there
afterwards, byte by byte, and with the file restored the command must work again.  ``info --verify`` (of the store, of the
model) and the going on of a run must find every damage of theirs.  Read-only folders: code 1 and one line.  A full disk
(a tmpfs of a few MB; as root only): code 5, one line, the old files as they were, and the same command carries on once
there is room.  Prints a Markdown table, exit 1 when anything was not so.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from fault_cases import TOUCHES, Ended, Job, command, fresh, jobs, prepare, warm
from measure import heading, table

from topicstream.errors import StoreError
from topicstream.files.durable import read_json, write_json

FAULTS = ("flips", "truncated", "missing", "schema", "read-only", "full-disk")
NEVER_READ = {"work/vocab.parquet", ".lock", ".inputs.json"}  # made anew by every run; empty; only compared


def snapshot(folder: Path) -> dict[str, str]:
    """Digest of every file that may not change when a command fails (locks and scratch left out)."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if (
            path.is_file()
            and not path.is_symlink()
            and path.name != ".lock"
            and not name.startswith(("new/", "updated/"))
        ):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def lost(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Files of the stores and models that are gone or altered.  What a command makes anew at its start may differ: the
    working folder's copy of the words, the note that a run had ended, and a history without its damaged line."""
    passing = ("work/vocab.parquet", "finished.json", "history.jsonl", "training.json", "/zarr.json")
    # a retrain takes new files in before it trains: its corpus grows, what is published may not change
    growing = ("chain/corpus.zarr/", "chain/state.json", "chain/journal.json")
    altered = [n for n, digest in before.items() if after.get(n) != digest]
    return [n for n in altered if not n.endswith(passing) and not n.startswith(growing) and ".wip/" not in n]


@dataclass
class Row:
    """Counts of one line of the table."""

    fault: str
    files: set[str] = field(default_factory=set)
    runs: int = 0
    found: int = 0
    unused: int = 0
    bad: list[str] = field(default_factory=list)


def one_line(done: Ended, names: tuple[str, ...]) -> str | None:
    """What is wrong with the message, if anything."""
    lines = done.err.strip().splitlines()
    if "Traceback" in done.err or "internal error" in done.err:
        return f"code {done.code}, {lines[-1][:200] if lines else ''}"
    if len(lines) != 1:
        return f"code {done.code}, {len(lines)} lines: {' / '.join(lines)[:240]}"
    if names and not any(name in lines[0] for name in names):
        return f"does not name {names[0]}: {lines[0][:200]}"
    return None


def names_of(path: Path, file: str, how: str) -> tuple[str, ...]:
    """What a message may call a file: its path, or for what is read through another name, that."""
    names = [file, path.name] if path.name not in ("0",) else [file]
    if how in ("schema", "missing"):
        names.append(f"{Path(file).parent}:")  # the store or the model as a whole
    if "/checkpoints/" in file:
        names.append(str(Path(file).parent.name))
    return tuple(names)


def damage(path: Path, how: str, rng: random.Random) -> None:
    """Break a file."""
    data = bytearray(path.read_bytes())
    if how == "flips":
        at = rng.randrange(len(data))
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    elif how == "truncated":
        path.write_bytes(data[: rng.choice([0, len(data) // 2, max(len(data) - 2, 0)])])
    elif how == "missing":
        path.unlink()
    else:
        value = read_json(path)
        value["schema"] = 99
        write_json(path, value)


def targets(base: Path, folder: str, how: str) -> Iterator[str]:
    """Files to break: every file of the folder (of many alike chunks the first, of each kind)."""
    for path in sorted((base / folder).rglob("*")):
        name = str(path.relative_to(base))
        if not path.is_file() or path.is_symlink() or path.stat().st_size == 0 or "/raw/" in name:
            continue
        if how == "schema":
            if path.suffix == ".json" and path.name != "zarr.json" and "schema" in (read_json(path) or {}):
                yield name
        elif path.name != "retrain.toml":
            yield name


def break_files(base: Path, how: str, times: int, rng: random.Random, only: list[str]) -> list[Row]:
    """Break every file and run what may meet it; a row a folder."""
    rows = []
    at = base.with_name("broken")
    all_jobs = [job for job in jobs() if not only or job.name in only]
    expected: dict[str, str] = {}
    for job in all_jobs:
        fresh(base, at)
        done = command(*job.line(at))
        if done.code:
            raise SystemExit(f"{job.name} fails on undamaged files: {done.err}")
        expected[job.name] = job.result(at, done)
    for folder in ("corpus.zarr", "model", "half", "chain"):
        row = Row(f"{how}: {folder}")
        for name in targets(base, folder, how):
            for _ in range(times):
                state = rng.getstate()
                for job in all_jobs:
                    if folder not in TOUCHES[job.name]:
                        continue
                    rng.setstate(state)
                    fresh(base, at, TOUCHES[job.name])
                    damage(at / name, how, rng)
                    before = snapshot(at)
                    done = command(*job.line(at))
                    row.files.add(name)
                    row.runs += 1
                    problem = judge(job, done, at, base, name, how, folder, before, expected[job.name], row)
                    if problem:
                        row.bad.append(f"{job.name}: {name}: {problem}")
        rows.append(row)
    return rows


def judge(
    job: Job, done: Ended, at: Path, base: Path, name: str, how: str, folder: str, before: dict[str, str], expected: str, row: Row
) -> str | None:  # fmt: skip
    """What was not as it must be, in words; None when all was well."""
    inside = name.split("/", 1)[1]
    if done.code == 0:
        try:
            same = job.result(at, done) == expected
        except StoreError as e:
            return f"ended with 0, but {e}"
        if not same and how == "missing" and job.name == "update" and inside.startswith(("finished.json", "work/")):
            row.unused += 1  # without the run that made it the model is still a start: every block begins from it
            return None
        if not same and how == "missing" and job.name == "info --verify (model)" and inside == "history.jsonl":
            row.unused += 1  # as a model that was saved from Python: nothing is said of its passes
            return None
        if not same:
            return "ended with 0 and another result"
        if done.err.strip() and name not in done.err:
            return f"said: {done.err.strip()[:160]}"
        row.unused += 1
        # a mark says whose a folder is and nothing else: with a damaged one nothing is removed, which is asked of nobody here
        read = inside not in NEVER_READ and Path(inside).name != ".topicstream"
        must = folder in job.finds_all and read and how in ("flips", "truncated")
        if must and not done.err.strip() and not harmless(job, inside, how):
            return "was not found"
        return None
    allowed = (3, 1) if how == "missing" else (3,)
    if done.code not in allowed:
        return f"code {done.code}: {done.err.strip()[-200:]}"
    if (problem := one_line(done, names_of(base / name, name, how))) is not None:
        return problem
    if gone := lost(before, snapshot(at)):
        return f"lost or altered {', '.join(gone[:3])}"
    shutil.copyfile(base / name, at / name)
    again = command(*job.line(at))
    if again.code:
        return f"after restoring: code {again.code}: {again.err.strip()[-200:]}"
    if job.result(at, again) != expected:
        return "after restoring: another result"
    row.found += 1
    return None


def harmless(job: Job, inside: str, how: str) -> bool:
    """Files that a command has no need of, or makes anew: a going on reads neither the stored model nor its words; info
    reads neither checkpoints nor working files."""
    if job.name.startswith("train"):
        return inside.startswith(("topics", "vocab", "manifest.json", "finished.json", "history.jsonl")) or (
            inside.startswith("work/") and how == "flips"
        )
    return inside.startswith(("checkpoints/", "work/", "training.json", "finished.json"))


@contextmanager
def read_only(folder: Path) -> Iterator[bool]:
    """The folder cannot be written to: a read-only mount as root, permissions else."""
    if os.geteuid() == 0:
        bound = (
            subprocess.run(["mount", "--bind", str(folder), str(folder)], capture_output=True, check=False).returncode
            == 0
        )
        done = bound and subprocess.run(
            ["mount", "-o", "remount,ro,bind", str(folder)], capture_output=True, check=False
        )
        try:
            yield bool(done and done.returncode == 0)
        finally:
            if bound:
                subprocess.run(["umount", str(folder)], check=False)
    else:
        modes = {p: p.stat().st_mode for p in [folder, *folder.rglob("*")] if not p.is_symlink()}
        for p, mode in modes.items():
            p.chmod(mode & ~0o222)
        try:
            yield True
        finally:
            for p, mode in modes.items():
                p.chmod(mode)


def read_only_folders(base: Path) -> Row | None:
    """Reading works, writing ends with code 1 and one line."""
    at, row = base.with_name("broken"), Row("read-only folders")
    fresh(base, at)
    elsewhere = base.with_name("elsewhere")
    elsewhere.mkdir(exist_ok=True)
    s, m = str(at / "corpus.zarr"), str(at / "model")
    readers = [
        ["info", s, "--verify"], ["info", m, "--verify"], ["eval", "--corpus", s, "--model", m], ["infer", s, "--model", m],
        ["show", "--corpus", s, "--model", m, "--docs", "1"],
        ["train", "--corpus", s, "--model", str(elsewhere / "m"), "-K", "3", "--passes", "1"],
    ]  # fmt: skip
    writers = [
        ["ingest", str(at / "c.jsonl"), "--out", s, "--append"], ["ingest", str(at / "c.jsonl"), "--out", str(at / "x.zarr")],
        ["train", "--corpus", s, "--model", str(at / "y"), "-K", "3"], ["train", "--corpus", s, "--model", m, "-K", "3", "--force"],
        ["train", "--corpus", s, "--model", str(at / "half"), "-K", "5", "--algo", "bp", "--block-cells", "3000", "--passes", "9"],
        ["infer", s, "--model", m, "-o", str(at / "t.parquet")], ["show", "--corpus", s, "--model", m, "--theta", str(at / "t.csv")],
        ["update", "--corpus", s, "--model", m], ["retrain", "--config", str(at / "chain" / "retrain.toml"), "--full"],
    ]  # fmt: skip
    before = snapshot(at)
    with read_only(at) as possible:
        if not possible:
            return None
        for line in readers:
            done = command(*line)
            row.runs += 1
            row.unused += done.code == 0
            if done.code:
                row.bad.append(
                    f"{line[0]}: reading from a read-only folder: code {done.code}: {done.err.strip()[-200:]}"
                )
        for line in writers:
            done = command(*line)
            row.runs += 1
            problem = one_line(done, (str(at),)) if done.code == 1 else f"code {done.code}: {done.err.strip()[-200:]}"
            if problem:
                row.bad.append(f"{line[0]}: {problem}")
            else:
                row.found += 1
    if gone := lost(before, snapshot(at)):
        row.bad.append(f"altered {', '.join(gone[:3])}")
    return row


def full_disks(base: Path) -> Row | None:
    """Commands on a tmpfs with little room; None where none can be mounted."""
    row, small = Row("full disk"), base.with_name("small")
    small.mkdir(exist_ok=True)
    size = sum(p.stat().st_size for p in base.rglob("*") if p.is_file() and not p.is_symlink())
    if os.geteuid() or subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={3 * size + (24 << 20)}", "tmpfs", str(small)], capture_output=True, check=False
    ).returncode:  # fmt: skip
        return None
    at = small / "at"
    try:
        writers = [job for job in jobs() if job.name.startswith(("train", "update", "ingest", "retrain"))]
        writers.append(
            Job("ingest", lambda at: ["ingest", str(at / "a.jsonl"), "--out", str(at / "x.zarr")],
                lambda at, done: str(read_json(at / "x.zarr" / "manifest.json")["fingerprint"]))
        )  # fmt: skip
        writers.append(
            Job("infer -o", lambda at: ["infer", str(at / "corpus.zarr"), "--model", str(at / "model"), "-o", str(at / "t.jsonl")],
                lambda at, done: (at / "t.jsonl").read_text())
        )  # fmt: skip
        for job in writers:
            fresh(base, at)
            done = command(*job.line(at))
            expected = job.result(at, done)
            for room in (0, 1_000, 12_000, 50_000, 100_000, 200_000, 400_000):
                fresh(base, at)
                before = snapshot(at)
                free = os.statvfs(small)
                (small / "ballast").write_bytes(bytes(max(0, free.f_bavail * free.f_bsize - room)))
                done = command(*job.line(at))
                (small / "ballast").unlink()
                row.runs += 1
                if done.code == 0:
                    if job.result(at, done) != expected:
                        row.bad.append(f"{job.name}, room {room}: another result")
                    row.unused += 1
                    continue
                problem = (
                    one_line(done, (str(at),)) if done.code == 5 else f"code {done.code}: {done.err.strip()[-200:]}"
                )
                if gone := lost(before, snapshot(at)):
                    problem = problem or f"lost or altered {', '.join(gone[:3])}"
                again = command(*job.line(at))
                if again.code:
                    problem = problem or f"with room again: code {again.code}: {again.err.strip()[-160:]}"
                elif job.result(at, again) != expected:
                    problem = problem or "with room again: another result"
                if problem:
                    row.bad.append(f"{job.name}, room {room}: {problem}")
                else:
                    row.found += 1
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=2, help="flipped bits a file (each in a fresh copy)")
    parser.add_argument("--only", nargs="*", choices=FAULTS, default=FAULTS)
    parser.add_argument("--commands", nargs="*", default=[], help="only these commands, as the table names them")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary) / "base"
        base.mkdir()
        prepare(base)
        warm(base)
        for how in ("flips", "truncated", "missing", "schema"):
            if how in args.only:
                rows += break_files(base, how, args.flips if how == "flips" else 1, rng, args.commands)
        for how, faults in (("read-only", read_only_folders), ("full-disk", full_disks)):
            if how in args.only:
                found = faults(base)
                if found is None:
                    print(f"{how}: skipped, it takes a mount that this user may not make here", file=sys.stderr)
                else:
                    rows.append(found)
    heading(
        "Fault campaign",
        "Commands run on broken files and disks.  refused: right exit code, one line that names the file, nothing lost, works "
        "again once restored; not needed: the command did exactly what it does on undamaged files; wrong: anything else.",
    )
    table(
        ["fault", "files", "runs", "refused", "not needed", "wrong"],
        [[r.fault, len(r.files) or "", r.runs, r.found, r.unused, len(r.bad)] for r in rows if r.runs],
    )
    for row in rows:
        for problem in row.bad:
            print(f"- {row.fault}: {problem}")
    return 1 if any(row.bad for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
