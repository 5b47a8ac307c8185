"""Write the docstrings of Python's standard library as JSON lines: real English, on every machine.

python examples/docstrings.py demo/docstrings.jsonl
"""

from __future__ import annotations

import ast
import json
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

LEAST = 80  # characters: shorter ones say too little to have topics


def docstrings(library: Path) -> Iterator[tuple[str, str, str]]:
    """(id, top-level module, docstring) of every module, class and function below ``library``, in
    path order.
    """
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        if {"site-packages", "test", "tests", "idle_test", "lib2to3"} & set(parts):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            continue
        module = ".".join(parts)
        nodes: list[tuple[str, ast.AST]] = [(module, tree)]
        while nodes:
            name, node = nodes.pop()
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(node)
                if text and len(text) >= LEAST:
                    yield f"{name}:{getattr(node, 'lineno', 0)}", parts[0], text
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    nodes.append((f"{name}.{child.name}", child))


def main(target: Path) -> None:
    """Write the file and say how many documents it has."""
    target.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with open(target, "w", encoding="utf-8") as out:
        for name, top, text in docstrings(Path(sysconfig.get_paths()["stdlib"])):
            out.write(json.dumps({"id": name, "text": text, "module": top}) + "\n")
            count += 1
    print(f"{target}: {count} docstrings")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docstrings.jsonl"))
