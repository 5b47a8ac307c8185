"""Compiled kernels on disk: found again, compiled again after any change, and never in the way of a
command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import few_quick

PROGRAM = """
import json, sys
from topicstream.numeric.kernels import jit
from kernels_of_a_test.outer import outer
print(json.dumps([outer(3.0), jit.compiled_kernels]))
"""
INNER = (
    "from topicstream.numeric.kernels.jit import kernel\n\n\n@kernel\ndef inner(x):\n    return "
    "x * "
    "{factor}\n"
)
OUTER = (
    "from kernels_of_a_test.inner import inner\nfrom topicstream.numeric.kernels.jit import "
    "kernel\n\n\n@kernel\ndef outer(x):\n    return inner(x) + 1.0\n"
)


def package(folder: Path, factor: float = 2.0) -> Path:
    """Two kernels in two files, one of which calls the other."""
    home = folder / "kernels_of_a_test"
    home.mkdir(parents=True, exist_ok=True)
    (home / "__init__.py").write_text("")
    (home / "inner.py").write_text(INNER.format(factor=factor))
    (home / "outer.py").write_text(OUTER)
    return folder


def run(folder: Path, cache: Path) -> tuple[list[float], str]:
    """Result and number of kernels compiled, and what was said on stderr."""
    path = os.pathsep.join([str(folder), *sys.path])
    env = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
    )
    return [float(x) for x in done.stdout.strip("[]\n").split(",")], done.stderr


def kernel_files(cache: Path) -> list[Path]:
    return sorted((cache / "topicstream" / "kernels").glob("*.nbc"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Path:
    """A cache with the kernels of ``package``, to copy."""
    folder = tmp_path_factory.mktemp("compiled")
    assert run(package(folder / "one"), folder / "cache") == ([7.0, 2.0], "")
    return folder / "cache"


@pytest.mark.product
def test_a_second_process_compiles_nothing_and_another_checkout_shares_the_cache(
    compiled, tmp_path
):
    shutil.copytree(compiled, tmp_path / "moved")
    assert run(package(tmp_path / "two"), tmp_path / "moved") == ([7.0, 0.0], "")


@pytest.mark.slow
def test_a_change_in_another_file_compiles_the_kernels_that_call_it(tmp_path):
    cache = tmp_path / "cache"
    run(package(tmp_path / "one"), cache)
    assert run(package(tmp_path / "one", factor=5.0), cache) == ([16.0, 2.0], "")


@pytest.mark.slow
def test_an_edit_elsewhere_compiles_nothing_and_one_of_a_constant_does(tmp_path):
    cache = tmp_path / "cache"
    folder = package(tmp_path / "one")
    home = folder / "kernels_of_a_test"
    (home / "inner.py").write_text(
        INNER.format(factor="numbers.FACTOR").replace(
            "import kernel", "import kernel\nfrom kernels_of_a_test import numbers"
        )
    )
    (home / "numbers.py").write_text("FACTOR = 2.0\n")
    assert run(folder, cache) == ([7.0, 2.0], "")
    (home / "numbers.py").write_text("FACTOR = 2.0\nUNUSED = 5\n")
    assert run(folder, cache) == ([7.0, 0.0], "")
    (home / "numbers.py").write_text("FACTOR = 3.0\n")
    assert run(folder, cache) == ([10.0, 2.0], "")


@pytest.mark.parametrize("damage", few_quick(["cut", "empty", "flipped", "other"], []))
def test_a_damaged_file_is_dropped_with_one_note(compiled, tmp_path, damage):
    cache = shutil.copytree(compiled, tmp_path / "cache")
    package(tmp_path / "one")
    for path in kernel_files(cache):
        data = path.read_bytes()
        flipped = data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]
        path.write_bytes(
            {"cut": data[: len(data) // 2], "empty": b"", "flipped": flipped, "other": b"x" * 100}[
                damage
            ]
        )
    result, said = run(tmp_path / "one", cache)
    assert result == [7.0, 2.0]
    assert said.count("topics: note:") == 1 and "is damaged" in said and said.count("\n") == 1
    assert run(tmp_path / "one", cache) == ([7.0, 0.0], "")


@pytest.mark.product
def test_a_cache_that_cannot_be_written_is_noted_once(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    result, said = run(package(tmp_path / "one"), tmp_path / "cache")
    assert result == [7.0, 2.0]
    assert said.count("\n") == 1 and "set NUMBA_CACHE_DIR" in said


@pytest.mark.slow
def test_old_versions_of_a_kernel_go(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    run(package(tmp_path / "one"), cache)
    [inner] = [p for p in kernel_files(cache) if ".inner-" in p.name]
    for i in range(80):
        old = shutil.copy(inner, inner.with_name(f"{inner.name.rpartition('-')[0]}-{i:032x}.nbc"))
        os.utime(old, (i, i))
    run(package(tmp_path / "one", factor=9.0), cache)
    assert run(tmp_path / "one", cache)[0] == [28.0, 0.0]
    left = [p for p in kernel_files(cache) if ".inner-" in p.name]
    assert len(left) == 64 and inner in left


HELP = """
import sys
from topicstream.cli.main import run
assert run(["--help"]) == 0
print([name for name in ("numpy", "numba", "pyarrow", "zarr", "scipy") if name in sys.modules], \
file=sys.stderr)
"""


def test_help_loads_no_library():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True)
    assert done.stderr.strip() == "[]" and "retrain" in done.stdout


@pytest.mark.slow
def test_warm_leaves_nothing_to_compile(tmp_path):
    """The usual commands, from an empty cache: `warm` compiles, they do not."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    texts = [" ".join(f"word{(3 * i + j * j) % 50}" for j in range(40)) for i in range(300)]
    lines = [f'{{"id": "{i}", "text": "{text}"}}\n' for i, text in enumerate(texts)]
    (tmp_path / "docs.jsonl").write_text("".join(lines))

    def topics(*args: str) -> str:
        given = [sys.executable, "-m", "topicstream", *args]
        done = subprocess.run(given, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert "ready in" in topics("warm")
    kernels = len(kernel_files(tmp_path / "cache"))
    assert "compiling" not in topics("ingest", "docs.jsonl", "--min-df", "1")
    topics("train", "-K", "10")  # whose start depends on the corpus
    assert len(kernel_files(tmp_path / "cache")) <= kernels + 3
    assert "compiling" not in topics("infer", "docs.jsonl") + topics("eval", "--heldout")
