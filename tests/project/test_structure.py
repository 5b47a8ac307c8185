"""Rules of the code that import-linter cannot state (its contracts: pyproject.toml)."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests import ROOT

PACKAGE = ROOT / "topicstream"


@functools.cache
def tree(path: Path) -> ast.Module:
    """The syntax of a file, parsed once for all tests of this file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    """They take much memory: they go when these tests are done."""
    yield
    tree.cache_clear()


def test_no_pickle_no_eval():
    suspect = re.compile(r"\b(pickle|marshal|shelve|eval|exec)\b")
    files = [path for path in PACKAGE.rglob("*.py") if suspect.search(path.read_text("utf-8"))]
    assert PACKAGE / "numeric" / "kernels" / "jit.py" in files
    for path in files:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                dangerous = {a.name.split(".")[0] for a in node.names} & {
                    "pickle",
                    "marshal",
                    "shelve",
                }
                assert not dangerous or path == PACKAGE / "numeric" / "kernels" / "jit.py", (
                    path
                )  # numba's own cache files
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), path


def test_no_kernel_leaves_bits_to_the_processor():
    """Why: numeric/kernels/jit.py.

    LLVM may reorder no sum and fuse nothing by itself, and no engine asks a library for a logarithm
    or a sum of products whose last digits depend on the processor.
    """
    rooms = ["numeric", "engines", "training/starts"]
    rooms += ["addons/authors/messages.py", "addons/authors/visit.py"]
    rooms += ["addons/links/engine.py", "addons/labels/engine.py"]
    rooms += [
        "addons/moments/geometry.py",
        "addons/clusters/starts.py",
        "addons/moments/fdm.py",
        "addons/moments/word_pairs.py",
    ]
    libraries = re.compile(
        r"fastmath|fmuladd|\"(contract|reassoc)\"|\bmath\.(exp|log|lgamma|pow)\w*\("
        r"|\bnp\.(exp|log|log1p|expm1|power|einsum|dot|matmul)\(|\bscipy\.special"
    )
    files = [p for room in rooms for p in sorted([*(PACKAGE / room).rglob("*.py"), PACKAGE / room])]
    files = [p for p in files if p.is_file()]
    assert len(files) > 40
    hits = [
        f"{path.relative_to(PACKAGE)}:{i + 1}: {line.strip()}"
        for path in files
        for i, line in enumerate(path.read_text().splitlines())
        if libraries.search(line)
    ]
    # a power of two from a logarithm of a whole bound: exact
    assert [hit for hit in hits if "2.0 ** (math.ceil(math.log2(bound))" not in hit] == []


def test_papers_are_cited_by_author_and_year():
    """No number of a paper that only this project's founders know."""
    numbered = re.compile(r"\bpapers? 00\d\b|\b00\d \([A-Z]")
    assert [str(p) for p in PACKAGE.rglob("*.py") if numbered.search(p.read_text())] == []


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


MODULES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


def imported(node: ast.AST, when_called: bool) -> set[str]:
    """Full names of our modules that a file imports when it is loaded, or also when its functions
    are called.
    """
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # no statement is within
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not when_called:
            continue
        if isinstance(child, ast.ImportFrom) and child.module is not None:
            names = [f"{child.module}.{a.name}" for a in child.names]
            found |= {n if n in MODULES else child.module for n in names} & set(MODULES)
        elif isinstance(child, ast.Import):
            found |= {a.name for a in child.names} & set(MODULES)
        found |= imported(child, when_called)
    return found - {"topicstream"}


@functools.cache
def graph(when_called: bool) -> dict[str, set[str]]:
    return {name: imported(tree(path), when_called) - {name} for name, path in MODULES.items()}


def test_no_module_imports_itself_by_way_of_others():
    order = list(
        TopologicalSorter(graph(when_called=False)).static_order()
    )  # CycleError names the circle
    assert order.index("topicstream.training.plan") < order.index(
        "topicstream.training.loop"
    )  # who is imported comes first
    TopologicalSorter(graph(when_called=True)).prepare()


def public(kind: type[ast.stmt]) -> dict[str, list[str]]:
    """Public top-level names of that kind -> the modules that define them."""
    found: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in tree(path).body:
            if isinstance(node, kind) and not node.name.startswith("_"):  # type: ignore[attr-defined]
                found.setdefault(node.name, []).append(module)  # type: ignore[attr-defined]
    return found


# a model as data, with its verbs for users (verbs.py), and the estimator that stands beside
# scikit-learn's
SAME_CLASS = {"TopicModel"}


def test_no_two_public_classes_share_a_name():
    """Except named tuples, the arguments of one engine's kernels: they stay in their file."""
    modules: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in tree(path).body:
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            if "NamedTuple" not in map(ast.unparse, node.bases):
                modules.setdefault(node.name, []).append(module)
    assert len(modules) > 100
    assert {name for name, owners in modules.items() if len(owners) > 1} == SAME_CLASS


def test_a_function_imported_by_its_name_is_the_only_one_of_it():
    """Whoever reads a call finds one function, wherever it was imported.

    ``lines``: what a view says to people.
    """
    taken: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.asname is None:
                        taken.setdefault(alias.name, set()).add(
                            str(node.module).removeprefix("topicstream.")
                        )
    doubles = {}
    for name, modules in public(ast.FunctionDef).items():
        if (
            len(found := taken.get(name, set()) & {m.removeprefix("topicstream.") for m in modules})
            > 1
        ):
            doubles[name] = found
    assert set(doubles) <= {"lines"}, doubles


def test_parts_of_arrow_are_imported_where_they_are_used():
    """``pa.compute`` is there only once somebody has imported it: in a test's process, not in a
    user's.
    """
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parsed = tree(path)
        imported = {
            alias.name
            for node in ast.walk(parsed)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        for node in ast.walk(parsed):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "pa"
            ):
                name = f"pyarrow.{node.attr}"
                if (
                    node.attr in ("compute", "csv", "parquet", "json", "dataset", "fs")
                    and name not in imported
                ):
                    wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: {name}")
    assert wrong == []


def test_the_headlines_are_one_page_without_a_section_twice():
    lines = (PACKAGE.parent / "scripts" / "BENCHMARKS.md").read_text().splitlines()
    titles = [line for line in lines if line.startswith("#")]
    assert len(lines) <= 200 and len(titles) == len(set(titles))
