"""The house: which room may import which, read from the code's own imports; and that nothing dangerous is imported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "topicstream"
GROUND = {"errors", "durable", "machine", "topicstream"}
# room -> rooms it may import (beside itself and the ground)
ALLOWED = {
    "kernels": set(),
    "parallel": set(),
    "corpus": {"kernels"},
    "model": {"kernels"},
    "tokens": {"kernels"},
    "ingest": {"tokens", "corpus", "kernels"},
    "engines": {"kernels", "corpus.block"},
    "evaluation": {"model", "corpus", "tokens", "ingest", "kernels", "parallel"},
    "inference": {"model", "corpus", "tokens", "ingest", "kernels", "parallel"},
    "report": {"model", "corpus", "evaluation", "inference", "kernels", "parallel"},
    "training": {"engines", "corpus", "model", "evaluation", "parallel", "kernels"},
    "retrain": {
        "training",
        "engines",
        "ingest",
        "tokens",
        "corpus",
        "model",
        "evaluation",
        "inference",
        "report",
        "parallel",
    },
}


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, without the leading ``topicstream.``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "topicstream":
            rest = node.module.split(".")[1:]
            found |= {".".join(rest)} if rest else {a.name for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("topicstream.") for a in node.names if a.name.split(".")[0] == "topicstream"}
    return found


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_imports_follow_the_arrows(room):
    wrong = []
    for path in (PACKAGE / room).rglob("*.py"):
        for module in imports(path):
            top = module.split(".")[0]
            if top in GROUND or top == room or module == "__version__":
                continue
            if not any(module == a or module.startswith(a + ".") for a in ALLOWED[room]):
                wrong.append(f"{path.relative_to(PACKAGE)} imports {module}")
    assert not wrong


def test_every_room_is_in_the_table():
    rooms = {p.name for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert rooms - {"cli"} == set(ALLOWED)


def test_nothing_imports_the_command_line():
    for path in PACKAGE.rglob("*.py"):
        if "cli" not in path.relative_to(PACKAGE).parts:
            assert not {m for m in imports(path) if m.split(".")[0] == "cli"}, path


def test_only_kernels_jit_touches_numba():
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] in ("kernels",):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                assert {a.name for a in node.names} <= {"literal_unroll"}, path


def test_no_pickle_no_eval():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not {a.name.split(".")[0] for a in node.names} & {"pickle", "marshal", "shelve"}, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), path


# sums of counts: whole numbers, the same in any order
COUNTING = {("completion.py", "complete"), ("fold_in.py", "fold_in_block")}


def test_no_fast_loop_sums_and_stores():
    """Why: kernels/jit.py, fast_kernel.  Innermost loops of fast kernels that store into an array and add to a scalar."""
    found, seen = set(), 0
    for path in PACKAGE.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            if not any("fast_kernel" in ast.unparse(d) for d in function.decorator_list):
                continue
            seen += 1
            for loop in ast.walk(function):
                if not isinstance(loop, ast.For | ast.While):
                    continue
                inside = [node for statement in loop.body for node in ast.walk(statement)]
                if any(isinstance(node, ast.For | ast.While) for node in inside):
                    continue
                targets = [t for node in inside if isinstance(node, ast.Assign) for t in node.targets]
                added = [node for node in inside if isinstance(node, ast.AugAssign)]
                stores = any(isinstance(t, ast.Subscript) for t in [*targets, *(node.target for node in added)])
                sums = any(isinstance(n.target, ast.Name) and not isinstance(n.value, ast.Constant) for n in added)
                if stores and sums:
                    found.add((path.name, function.name))
    assert seen > 10
    assert found == COUNTING
