#!/usr/bin/env python3
"""Change arithmetic one place at a time, and see whether the tests notice.

usage: mutate.py [--files NAME ... | --siblings] [--each N | --total N] [--seed N] [--jobs N]
                 [--seconds N] [--again FILE] [--list]

Each mutant is one change in one file of TARGETS or SIBLINGS, made in a scratch copy of the
checkout. The tests of that file run against it. A mutant that they pass survives: a test is
missing, or the change makes no difference. Survivors and the score are printed
(docs/internals/mutation.md). NUMBA_CACHE_DIR, if set, saves the compiling of the first run.
--again tries only those that lived in an earlier run, whose output is in a file.

The standard library alone does this, because the copies need the layout and the kernel cache of
this project.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SERVER = Path(__file__).with_name("mutate_server.py")
MOST = 1500
"""Mutants at most of one run."""
COPIED = ("topicstream", "tests", "scripts", "pyproject.toml", "README.md")
PACKAGE = "topicstream/"

TARGETS = {
    "training/stopping.py": ["tests/training/test_stopping.py"],
    "training/plan.py": ["tests/training/test_plan_bytes.py", "tests/training/test_plan.py"],
    "training/table_bytes.py": ["tests/training/test_plan_bytes.py", "tests/training/test_plan.py"],
    "evaluation/completion.py": ["tests/evaluation/test_evaluation_completion.py"],
    "evaluation/coherence.py": ["tests/evaluation/test_evaluation_topics.py"],
    "evaluation/matching.py": [
        "tests/evaluation/test_evaluation_topics.py",
        "tests/evaluation/test_matching.py",
    ],
    "display/periods.py": ["tests/display/test_periods.py"],
    "display/groups.py": ["tests/display/test_groups.py", "tests/display/test_over_time.py"],
    "addons/covariates/influence.py": ["tests/addons/covariates"],
    "addons/covariates/regression.py": ["tests/addons/covariates"],
    "retraining/gate.py": ["tests/retraining/test_gate.py"],
    "retraining/drift.py": ["tests/retraining/test_drift_verdict.py"],
    "corpus/sample.py": ["tests/corpus/test_sample.py"],
    "numeric/tables/dense.py": [
        "tests/numeric/test_spec.py",
        "tests/numeric/test_tables.py",
        "tests/numeric/test_blend.py",
        "tests/numeric/test_owners.py",
        "tests/numeric/test_round_sums.py",
    ],
    "numeric/tables/rounds.py": [
        "tests/numeric/test_tables.py",
        "tests/numeric/test_blend.py",
        "tests/numeric/test_owners.py",
        "tests/numeric/test_round_sums.py",
    ],
    "numeric/tables/packed.py": [
        "tests/engines/test_gibbs_packed.py",
        "tests/numeric/test_packed_table.py",
    ],
    "numeric/tables/slots.py": [
        "tests/engines/test_gibbs_packed.py",
        "tests/numeric/test_packed_table.py",
    ],
}
"""A file whose arithmetic decides numbers -> the tests that cover it."""

SIBLINGS = {
    "addons/labels/prediction.py": ["tests/addons/labels/test_scorer.py"],
    "addons/labels/scorer.py": ["tests/addons/labels/test_scorer.py"],
    "addons/labels/agreement.py": ["tests/addons/labels/test_scorer.py"],
    "addons/labels/engine.py": ["tests/addons/labels/test_engine.py"],
    "addons/links/scorer.py": ["tests/addons/links/test_scorer.py"],
    "addons/authors/scorer.py": ["tests/addons/authors/test_scorer.py"],
    "addons/authors/views.py": ["tests/addons/authors/test_scorer.py"],
    "addons/classifier/training.py": ["tests/addons/classifier"],
    "addons/classifier/model.py": ["tests/addons/classifier"],
    "addons/classifier/naive_bayes.py": ["tests/addons/classifier"],
    "addons/classifier/hybrid.py": ["tests/addons/classifier"],
    "addons/clusters/gaussian_density.py": ["tests/addons/clusters/test_gmm.py"],
    "addons/clusters/split_merge.py": ["tests/addons/clusters/test_gmm.py"],
    "addons/clusters/clusters.py": ["tests/addons/clusters"],
    "addons/clusters/mixture.py": ["tests/addons/clusters/test_mixture.py"],
    "addons/covariates/covariates.py": ["tests/addons/covariates"],
    "addons/covariates/effects.py": ["tests/addons/covariates"],
    "addons/covariates/support.py": ["tests/addons/covariates"],
    "addons/covariates/view.py": ["tests/addons/covariates"],
    "addons/moments/geometry.py": ["tests/addons/moments/test_anchors.py"],
    "addons/moments/anchors.py": ["tests/addons/moments/test_anchors.py"],
    "addons/moments/fdm.py": ["tests/addons/moments/test_fdm.py"],
    "addons/moments/scorer.py": ["tests/addons/moments/test_fdm.py"],
    "addons/sweep/choosing.py": ["tests/addons/sweep"],
    "addons/sweep/judging.py": [
        "tests/addons/sweep/test_judging.py",
        "tests/addons/sweep/test_marks.py",
    ],
    "addons/sweep/marks.py": ["tests/addons/sweep"],
    "addons/sweep/stability.py": ["tests/addons/sweep/test_judging.py"],
    "addons/views/drift.py": ["tests/addons/views/test_drift_by_period.py"],
    "addons/views/hierarchy.py": ["tests/addons/views"],
    "addons/views/intrusion.py": ["tests/addons/views"],
    "addons/views/similar.py": ["tests/addons/views"],
    "addons/views/find.py": ["tests/addons/views"],
    "addons/views/word_table.py": ["tests/addons/views"],
    "base/chunks.py": ["tests/base"],
    "base/dates.py": ["tests/display/test_over_time.py", "tests/display/test_periods.py"],
    "base/memory.py": ["tests/base/test_memory_plan.py", "tests/training/test_plan_bytes.py"],
    "corpus/grid.py": ["tests/corpus"],
    "corpus/axes.py": ["tests/corpus/test_axes.py"],
    "display/doc_topics.py": [
        "tests/display/test_passages.py",
        "tests/addons/report/test_report.py",
    ],
    "display/gather.py": [
        "tests/display/test_gather.py",
        "tests/display/test_left_out.py",
        "tests/display/test_over_time.py",
    ],
    "display/geometry.py": ["tests/display/test_geometry.py"],
    "display/over_time.py": ["tests/display/test_groups.py", "tests/display/test_over_time.py"],
    "display/passages.py": ["tests/display/test_passages.py", "tests/display/test_snippets.py"],
    "engines/covariates.py": ["tests/engines/test_covariates.py"],
    "engines/message/atbp.py": ["tests/engines/test_tbp.py"],
    "engines/message/bp.py": ["tests/engines/test_bp.py"],
    "engines/message/priors.py": [
        "tests/engines/test_message_priors.py",
        "tests/engines/test_tbp.py",
    ],
    "engines/message/sparse_bp.py": ["tests/engines/test_sparse_bp.py"],
    "engines/message/sparse_messages.py": ["tests/engines/test_sparse_bp.py"],
    "engines/gibbs/chain.py": [
        "tests/engines/test_gibbs_priors.py",
        "tests/engines/test_gibbs.py",
        "tests/training/test_chain_samples.py",
    ],
    "engines/gibbs/gs.py": ["tests/engines/test_gibbs.py"],
    "engines/gibbs/sparselda.py": ["tests/engines/test_gibbs.py"],
    "engines/variational/bounds.py": ["tests/engines/test_variational_bound.py"],
    "engines/variational/choice.py": ["tests/engines/test_variational.py"],
    "engines/variational/dense.py": ["tests/engines/test_variational.py"],
    "engines/variational/family.py": ["tests/engines/test_variational.py"],
    "engines/variational/mvi.py": ["tests/engines/test_variational.py"],
    "engines/variational/ovb.py": ["tests/engines/test_variational.py"],
    "engines/variational/sparsity.py": ["tests/engines/test_variational.py"],
    "engines/variational/statistics.py": ["tests/engines/test_variational.py"],
    "engines/variational/svi.py": ["tests/engines/test_variational.py"],
    "evaluation/keys.py": ["tests/evaluation"],
    "evaluation/held_out.py": ["tests/evaluation"],
    "evaluation/likelihood.py": ["tests/addons/clusters"],
    "evaluation/topic_number.py": ["tests/evaluation", "tests/addons/sweep"],
    "evaluation/evaluate.py": ["tests/evaluation"],
    "inference/methods/gibbs.py": ["tests/inference"],
    "inference/methods/vb.py": ["tests/inference"],
    "inference/output.py": [
        "tests/inference/test_output_lists.py",
        "tests/inference/test_infer_cli.py",
    ],
    "inference/priors.py": ["tests/inference", "tests/engines/test_covariates.py"],
    "inference/token_topics.py": ["tests/inference"],
    "ingestion/parts/split.py": ["tests/ingestion/test_split.py"],
    "ingestion/store/choose_words.py": ["tests/ingestion/test_vocabulary.py"],
    "ingestion/store/decide.py": ["tests/ingestion/test_ingest.py"],
    "ingestion/tokens/phrases.py": ["tests/ingestion/test_tokens.py"],
    "ingestion/tokens/word_counts.py": ["tests/ingestion/test_vocabulary.py"],
    "model/design.py": ["tests/model/test_design.py"],
    "model/edits.py": ["tests/model/test_edits.py"],
    "model/seeds.py": ["tests/engines/test_seed_words.py", "tests/engines/test_seed_counts.py"],
    "model/top.py": ["tests/model/test_relevance.py", "tests/model/test_model.py"],
    "model/topic_kinds.py": ["tests/model/test_topic_kinds.py"],
    "model/weighting.py": ["tests/engines/test_weighting.py"],
    "retraining/decide.py": ["tests/retraining/test_retrain.py"],
    "retraining/orphan_words.py": ["tests/retraining"],
    "training/auto.py": ["tests/training/test_auto.py", "tests/training/test_aim.py"],
    "training/course.py": [
        "tests/training/test_stopping.py",
        "tests/training/test_mass.py",
        "tests/training/test_judgement.py",
        "tests/training/test_best_pass.py",
    ],
    "training/covariates.py": ["tests/training/test_covariates.py"],
    "training/heldout.py": [
        "tests/training/test_best_pass.py",
        "tests/training/test_covariates.py",
    ],
    "training/rehearsal.py": ["tests/training/test_rehearsal.py"],
    "training/starts/best.py": ["tests/training/test_tries.py", "tests/training/test_starts.py"],
    "training/starts/sample.py": ["tests/training/test_tries.py", "tests/training/test_starts.py"],
    "training/starts/seeded.py": [
        "tests/training/test_starts.py",
        "tests/training/test_seed_rows.py",
    ],
    "training/starts/seeds.py": [
        "tests/training/test_starts.py",
        "tests/training/test_seed_rows.py",
    ],
    "training/starts/warm.py": ["tests/training/test_starts.py"],
    "numeric/tables/merging.py": ["tests/numeric/test_round_sums.py"],
    "numeric/tables/spill.py": ["tests/numeric/test_round_sums.py"],
    "numeric/tables/range_buffer.py": ["tests/numeric/test_round_sums.py"],
    "numeric/tables/spec.py": ["tests/numeric/test_spec.py", "tests/numeric/test_packing.py"],
}
"""Further files that decide numbers, for ``--siblings``."""
TESTS = TARGETS | SIBLINGS

SWAPPED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
FACTORS = (ast.Mult, ast.Div, ast.FloorDiv, ast.MatMult, ast.Mod, ast.Pow)


class Mutant(NamedTuple):
    """One change: bytes ``start`` to ``stop`` of a file become ``new``."""

    file: str
    line: int
    last: int
    kind: str
    start: int
    stop: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}: {self.old}  ->  {self.new}"


def changed_nodes(node: ast.AST) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """Yield the kind, the old and the new expression of each change of one node."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            ops = [*node.ops]
            ops[i] = SWAPPED[type(op)]()
            yield "comparison", node, ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield "and, or", node, ast.BoolOp(SWAPPED[type(node.op)](), node.values)
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        yield "sign", node, ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, FACTORS):
        yield "factor", node, node.left
        if isinstance(node.op, ast.Mult):
            yield "factor", node, node.right
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield "negation", node, node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "constant", node, ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "constant", node, ast.Constant(node.value + 1)
        yield "constant", node, ast.Constant(node.value - 1)
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)) and not isinstance(
        node.test, (ast.Compare, ast.BoolOp, ast.UnaryOp)
    ):
        yield "condition", node.test, ast.UnaryOp(ast.Not(), node.test)


def deciding_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk over what decides numbers: neither messages nor annotations nor decorators."""
    skipped = {"annotation", "returns", "decorator_list"}
    if isinstance(node, (ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr)):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from deciding_nodes(child)


def mutants_of(file: str) -> list[Mutant]:
    """List every mutant of a file of the package, in the order of its lines."""
    source = (ROOT / PACKAGE / file).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    mutants = []
    for node in deciding_nodes(ast.parse(source)):
        for kind, old, new in changed_nodes(node):
            start = starts[old.lineno - 1] + old.col_offset
            stop = starts[old.end_lineno - 1] + old.end_col_offset
            before = " ".join(source[start:stop].decode().split())
            after = f"({ast.unparse(ast.fix_missing_locations(new))})"
            mutants.append(
                Mutant(file, old.lineno, old.end_lineno, kind, start, stop, before, after)
            )
    return sorted(set(mutants), key=lambda m: (m.start, m.stop, m.new))


def drawn(mutants: list[Mutant], most: int, seed: int) -> list[Mutant]:
    """Draw ``most`` of the mutants of a file; the seed and the file's name decide which."""
    if len(mutants) <= most:
        return mutants
    return sorted(random.Random(f"{seed} {mutants[0].file}").sample(mutants, most))


def draw_over_files(
    of_file: dict[str, list[Mutant]], total: int, seed: int
) -> dict[str, list[Mutant]]:
    """Draw ``total`` mutants of all files together: each mutant has the same chance."""
    every = [mutant for mutants in of_file.values() for mutant in mutants]
    chosen = set(random.Random(seed).sample(every, min(total, len(every))))
    return {file: [m for m in mutants if m in chosen] for file, mutants in of_file.items()}


def lived(mutants: list[Mutant], output: str) -> list[Mutant]:
    """Choose the mutants that an earlier run of the same files printed as living."""
    lines = [line.strip() for line in output.splitlines()]
    printed = {line.removeprefix("lives").strip() for line in lines if line.startswith("lives ")}
    return [mutant for mutant in mutants if str(mutant) in printed]


def copy_checkout(folder: Path) -> Path:
    """Copy what the tests need into a new folder."""
    place = Path(tempfile.mkdtemp(prefix="mutant-", dir=folder))
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place / name)
    return place


class Worker:
    """A process with the libraries loaded, which runs tests in forks of itself.

    Loading them would take longer than most of the tests.
    """

    def __init__(self, folder: Path) -> None:
        self.place = copy_checkout(folder)
        env = os.environ | {
            "PYTHONPATH": "",
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", str(folder / "kernels")),
            "OPENBLAS_NUM_THREADS": "1",
            "TMPDIR": str(self.place),
        }
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER), str(self.place)],
            cwd=self.place,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, tests: list[str], seconds: int, traced: str = "") -> tuple[str, float]:
        """Run tests; write lines.json for a traced file.

        Returns
        -------
        end
            ``passed``, ``failed`` or ``time``.
        seconds
            Processor time that it took.
        """
        request = {"tests": tests, "seconds": seconds, "traced": traced}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        end, took = self._process.stdout.readline().split()
        return end, float(took)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def choose_tests(mutant: Mutant, lines: dict[str, list[str]], every: list[str]) -> list[str]:
    """Choose the tests that came past the lines of a mutant, or all where that is not known."""
    chosen: dict[str, None] = {}
    for line in range(mutant.line, mutant.last + 1):
        chosen |= dict.fromkeys(lines.get(str(line), []))
    return every if not chosen or "" in chosen else list(chosen)


def try_mutant(mutant: Mutant, worker: Worker, lines: dict[str, list[str]], seconds: int) -> str:
    """Run the tests against a mutant, and take the change back.

    A mutant that the tests of its lines pass has to pass all tests of its file.
    """
    path = worker.place / PACKAGE / mutant.file
    whole = path.read_bytes()
    path.write_bytes(whole[: mutant.start] + mutant.new.encode() + whole[mutant.stop :])
    every = TESTS[mutant.file]
    try:
        chosen = choose_tests(mutant, lines, every)
        end, _ = worker.run(chosen, seconds)
        if end == "passed" and chosen != every:
            end, _ = worker.run(every, seconds)
        return end
    finally:
        path.write_bytes(whole)


def try_file(file: str, mutants: list[Mutant], workers: Queue[Worker], limit: int) -> int:
    """Run all mutants of a file; print survivors and the score; return how many were killed."""
    began = time.monotonic()
    worker = workers.get()
    end, plain = worker.run(TESTS[file], 20 * limit, file)
    if end != "passed":
        print(f"{file}: its tests fail without a mutant; mend them first", flush=True)
        workers.put(worker)
        return 0
    lines = json.loads((worker.place / "lines.json").read_text())
    seconds = max(limit, round(4 * plain))
    workers.put(worker)

    def try_one(mutant: Mutant) -> str:
        free = workers.get()
        try:
            return try_mutant(mutant, free, lines, seconds)
        finally:
            workers.put(free)

    survivors = []
    with ThreadPoolExecutor(workers.qsize()) as pool:
        for mutant, end in zip(mutants, pool.map(try_one, mutants)):
            if end == "passed":
                survivors.append(mutant)
                print(f"  lives  {mutant}", flush=True)
    killed = len(mutants) - len(survivors)
    took = time.monotonic() - began
    print(f"{file}: {killed} of {len(mutants)} killed, {took:.0f} s", flush=True)
    return killed


def main() -> None:
    """Read the command line, and try the files that it names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", nargs="*", help="parts of their names; default: all targets")
    parser.add_argument("--siblings", action="store_true", help="all files of SIBLINGS")
    parser.add_argument("--each", type=int, default=100, help="mutants at most of a file")
    parser.add_argument(
        "--total", type=int, help="mutants of all files together, instead of --each"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=20, help="processor time of one mutant")
    parser.add_argument("--again", type=Path, help="output of an earlier run: what lived there")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    args = parser.parse_args()
    chosen = [*(SIBLINGS if args.siblings else TARGETS)]
    if args.files:
        chosen = [file for file in TESTS if any(name in file for name in args.files)]
    if args.total is None:
        drawn_of = {file: drawn(mutants_of(file), args.each, args.seed) for file in chosen}
    else:
        drawn_of = draw_over_files(
            {file: mutants_of(file) for file in chosen}, args.total, args.seed
        )
    if args.again is not None:
        output = args.again.read_text()
        drawn_of = {file: lived(mutants_of(file), output) for file in chosen}
    chosen = [file for file in chosen if drawn_of[file]]
    total = sum(map(len, drawn_of.values()))
    if total > MOST:
        sys.exit(f"{total} mutants are more than {MOST}; lower --each")
    if args.list:
        for file in chosen:
            print(*drawn_of[file], sep="\n")
        print(total, "mutants")
        return
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        workers: Queue[Worker] = Queue()
        started = [Worker(Path(folder)) for _ in range(args.jobs)]
        for worker in started:
            workers.put(worker)
        try:
            killed = sum(try_file(file, drawn_of[file], workers, args.seconds) for file in chosen)
        finally:
            for worker in started:
                worker.close()
    print(f"{killed} of {total} killed")


if __name__ == "__main__":
    main()
