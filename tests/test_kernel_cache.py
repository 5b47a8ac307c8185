"""The kernel cache: what is damaged is dropped and compiled again, what others could have written is not run, and what
cannot be kept is told once."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from topicstream.errors import Stopped
from topicstream.kernels import cache_folder, jit
from topicstream.kernels.cache_folder import HEAD, KernelFolder, distrust

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
sys.path.insert(0, {there!r})
from topicstream.kernels.jit import compiled_here, kernel, kept
{callee}
@kernel
def double(x):
    return helper(x) * 2
print(double(20.0), int(not compiled_here()), kept())
"""
HELPER = """
from topicstream.kernels.jit import kernel
STEP = {step}
@kernel
def helper(x):
    return x + STEP
"""


def run(folder: Path, cache: Path, *, step: int = 1, before=None) -> tuple[list[str], str]:
    """What a process that runs one kernel prints (result, whether it came from the cache, whether it is kept), and its stderr."""
    folder.mkdir(exist_ok=True)
    (folder / "helper.py").write_text(HELPER.format(step=step))
    (folder / "script.py").write_text(SCRIPT.format(there=str(folder), callee="from helper import helper"))
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, str(folder / "script.py")], env=env, capture_output=True, text=True, preexec_fn=before
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


def files(cache: Path) -> list[Path]:
    return sorted((cache / "topicstream" / "kernels").glob("*.nbc"))


def test_a_cache_serves_other_places_and_may_be_moved(tmp_path):
    assert run(tmp_path / "a", tmp_path / "cache") == (["42.0", "0", "True"], "")
    names = [p.name.partition("-")[0] for p in files(tmp_path / "cache")]
    assert names == ["__main__.double", "__main__.double.code", "helper.helper"]  # what is only called has no code of its own
    assert run(tmp_path / "b", tmp_path / "cache") == (["42.0", "1", "True"], "")
    shutil.move(tmp_path / "cache", tmp_path / "moved")
    assert run(tmp_path / "b", tmp_path / "moved") == (["42.0", "1", "True"], "")


def test_a_change_in_another_file_compiles_what_calls_it(tmp_path):
    run(tmp_path / "a", tmp_path / "cache")
    assert run(tmp_path / "a", tmp_path / "cache", step=5)[0] == ["50.0", "0", "True"]
    assert run(tmp_path / "a", tmp_path / "cache")[0] == ["42.0", "1", "True"]  # both are kept


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[: len(b) // 2], lambda b: bytes(len(b))])
def test_a_command_goes_on_with_a_damaged_cache(tmp_path, damage):
    run(tmp_path / "a", tmp_path / "cache")
    for path in files(tmp_path / "cache"):
        path.write_bytes(damage(path.read_bytes()))
    said, noted = run(tmp_path / "a", tmp_path / "cache")
    assert said == ["42.0", "0", "True"] and noted.count("\n") == 1 and "topics: note: kernel cache" in noted
    assert run(tmp_path / "a", tmp_path / "cache") == (["42.0", "1", "True"], "")


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.parametrize("how", ["full", "no folder"])
def test_a_cache_that_cannot_be_written_is_told_once(tmp_path, how):
    cache = tmp_path / "cache"
    if how == "no folder":
        cache.write_text("a file")
    else:
        (cache / "topicstream" / "kernels").mkdir(parents=True)
    said, warned = run(tmp_path / "a", cache, before=_limit if how == "full" else None)
    assert said == ["42.0", "0", "False"]
    assert warned.count("\n") == 1 and f"topics: warning: compiled kernels cannot be kept in {cache}" in warned


@pytest.fixture
def folder(tmp_path, capsys):
    cache_folder._told.clear()
    made = KernelFolder(tmp_path / "kernels")
    made.write(NAME, BODY)
    assert made.read(NAME) == BODY and made.writable() and capsys.readouterr().err == ""
    yield made
    cache_folder._told.clear()


NAME, BODY = f"f-{'0' * 32}.nbc", b"code" * 100
KINDS = {
    "empty": lambda p: p.write_bytes(b""),
    "one byte": lambda p: p.write_bytes(b"T"),
    "cut": lambda p: p.write_bytes(p.read_bytes()[:-1]),
    "longer": lambda p: p.write_bytes(p.read_bytes() + b"\0"),
    "zeros": lambda p: p.write_bytes(bytes(p.stat().st_size)),
    "a folder": lambda p: (p.unlink(), p.mkdir()),
    "a fifo": lambda p: (p.unlink(), os.mkfifo(p)),
    "a link": lambda p: (p.rename(p.with_name("other")), p.symlink_to("other")),
    "written by others": lambda p: p.chmod(0o666),
    "another's name": lambda p: p.write_bytes(_other(p)),
}


def _other(path: Path) -> bytes:
    made = KernelFolder(path.parent)
    made.write(f"g-{'0' * 32}.nbc", BODY)
    return path.with_name(f"g-{'0' * 32}.nbc").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_each_damage_is_found_dropped_and_noted_once(folder, kind, capsys):
    path = folder.path / NAME
    KINDS[kind](path)
    assert folder.read(NAME) is None and folder.read(NAME) is None
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and NAME in said
    assert not os.path.lexists(path)
    folder.write(NAME, BODY)
    assert folder.read(NAME) == BODY


def test_a_folder_of_others_in_the_place_of_a_file_stays(folder, capsys):
    path = folder.path / NAME
    path.unlink()
    path.mkdir()
    (path / "mine").write_text("precious")
    assert folder.read(NAME) is None
    folder.write(NAME, BODY)
    assert folder.read(NAME) is None and folder.writable() and (path / "mine").exists()
    assert capsys.readouterr().err.count("\n") == 1 and not list(folder.path.glob(".*.tmp"))


def test_every_flipped_bit_is_found(folder):
    path = folder.path / NAME
    data = path.read_bytes()
    for at in range(HEAD + 40):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        assert folder.read(NAME) is None
    path.write_bytes(data)
    assert folder.read(NAME) == BODY


def test_a_folder_that_others_may_write_is_not_used(tmp_path, capsys):
    cache_folder._told.clear()
    made = KernelFolder(tmp_path / "a" / "kernels")
    made.write(NAME, BODY)
    assert distrust(made.path) is None
    for place, mode in ((made.path, 0o777), (made.path, 0o1777), (tmp_path / "a", 0o757)):
        place.chmod(mode)
        assert str(place) in distrust(made.path)
        again = KernelFolder(made.path)
        assert again.read(NAME) is None and not again.writable()
        again.write(NAME, b"")
        place.chmod(0o755)
    (tmp_path / "a").chmod(0o1777)  # as /tmp: nobody else can exchange what is in it
    assert KernelFolder(made.path).read(NAME) == BODY
    if os.geteuid() == 0:
        os.chown(made.path, 12345, -1)
        assert "belongs to user 12345" in distrust(made.path)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "is not used" in said
    cache_folder._told.clear()


def test_what_kills_left_is_swept_and_old_versions_go(tmp_path):
    made = KernelFolder(tmp_path / "kernels")
    made.write(NAME, BODY)
    old, new, foreign = (made.path / n for n in (f".{'a' * 16}.tmp", f".{'b' * 16}.tmp", ".mine.tmp"))
    for path in (old, new, foreign):
        path.write_bytes(b"")
    for path in (old, foreign):
        os.utime(path, (0, 0))
    KernelFolder(made.path).write(f"f-{1:032x}.nbc", BODY)
    assert not old.exists() and new.exists() and foreign.exists()
    for i in range(2, 100):
        made.write(f"f-{i:032x}.nbc", BODY)
    made.write(f"f.g-{'0' * 32}.nbc", BODY)
    kept = {p.name for p in made.path.glob("*.nbc")}
    assert len(kept) == cache_folder.KEEP + 1 and f"f-{99:032x}.nbc" in kept


def test_a_shared_cache_is_read_and_never_written(tmp_path, capsys):
    cache_folder._told.clear()
    KernelFolder(tmp_path / "kernels").write(NAME, BODY)
    shared = KernelFolder(tmp_path / "kernels", read_only=True)
    assert shared.read(NAME) == BODY and not shared.writable()
    shared.write(f"g-{'0' * 32}.nbc", BODY)
    (shared.path / NAME).write_bytes(b"")
    assert shared.read(NAME) is None and (shared.path / NAME).exists()
    assert len(list(shared.path.glob("*.nbc"))) == 1
    cache_folder._told.clear()


VALUES = [
    *(np.zeros(3, t) for t in (np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.float32, np.float64)),
    np.zeros((2, 3), np.float32),
    np.zeros((2, 3), np.float32, order="F"),
    np.zeros((4, 6))[::2, ::3],
    np.zeros(8)[::2],
    np.zeros((0, 4), np.int64),
    np.frombuffer(b"abc", np.uint8),
    np.zeros(9, np.uint8)[1:].view(np.int64),  # not aligned
    *(
        3,
        -1,
        1 << 31,
        (1 << 63) - 1,
        -(1 << 63),
        2.5,
        True,
        None,
        np.int32(3),
        np.uint8(200),
        np.float32(1),
        np.bool_(True),
    ),
]


def test_a_call_is_named_as_numba_names_it():
    from numba import typeof

    for value in VALUES:
        assert f"({jit._type(jit._kind(value))},)" == str((typeof(value),)), value
    for value in (1 << 63, (1, 2), "word", [1], np.zeros(2, "S3"), np.zeros(2, ">i4"), np.zeros(2, "M8[s]"), max):
        kind = jit._kind(value)
        assert kind is None or jit._type(kind) is None, value


def test_the_processor_is_named_as_numba_names_it():
    code = """
import numba
from numba.core.registry import cpu_target
from topicstream.kernels import direct
assert direct.processor() == cpu_target.target_context.codegen().magic_tuple()
assert direct.numba_version() == numba.__version__
"""
    least = {"NUMBA_CPU_NAME": "generic"}
    for more in ({}, least, {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "+avx2,+fma"}):
        subprocess.run([sys.executable, "-c", code], env={**os.environ, **more}, check=True)


DIRECT = """
import sys
import numpy as np
from topicstream.kernels.jit import compiled_here, compiling_seconds, kernel, say_before_compiling
said = []
say_before_compiling(said.append)
@kernel
def inner(a):
    return a.sum()
@kernel
def several(n, bad, x):
    if bad:
        raise ValueError("no such thing")
    made = np.arange(n) * x
    return made, np.zeros((n, 2), np.uint8), inner(made), None, bad
for _ in range(2):
    a, b, c, d, e = several(4, False, 0.5)
    assert a.tolist() == [0, 0.5, 1, 1.5] and b.shape == (4, 2) and b.dtype == np.uint8 and (c, d, e) == (3.0, None, False)
assert sys.getrefcount(a) == 2 and sys.getrefcount(None) > 100
print(compiled_here() > 0, "numba" in sys.modules)
assert said == (["compiling for this machine, once (up to half a minute; `topics warm` does it ahead)"] if compiled_here() else [])
assert (compiling_seconds() > 0) == (compiled_here() > 0)
try:
    several(4, True, 0.5)
except ValueError as e:
    print(e)
print(several(2, False, 2)[0].tolist(), "numba" in sys.modules)
"""


def test_what_was_compiled_runs_without_numba(tmp_path):
    """Arrays, tuples and errors out of object code; a type that is new goes through numba in the same process."""
    (tmp_path / "script.py").write_text(DIRECT)
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def out():
        return subprocess.run([sys.executable, tmp_path / "script.py"], env=env, capture_output=True, text=True)

    first, second = out(), out()
    assert first.stdout.split("\n")[:3] == ["True True", "no such thing", "[0, 2] True"], first.stderr
    assert second.stdout.split("\n")[:2] == ["False False", "no such thing"], second.stderr
    for path in files(tmp_path / "cache"):  # its object code is gone: numba takes it up, and it is made again
        if ".code-" in path.name:
            path.unlink()
    third, fourth = out(), out()
    for path in files(tmp_path / "cache"):  # it is cut, and its checksum fits
        if ".code-" in path.name:
            KernelFolder(path.parent).write(path.name, path.read_bytes()[HEAD:-700])
    fifth = out()
    assert fifth.stdout.split("\n")[:2] == ["True True", "no such thing"] and "cannot be used (ValueError)" in fifth.stderr
    assert third.stdout.split("\n")[:2] == ["True True", "no such thing"], third.stderr
    assert fourth.stdout.split("\n")[:2] == ["False False", "no such thing"], fourth.stderr


@pytest.mark.parametrize("half", ["code", "pickle"])
def test_a_signal_while_a_kernel_is_loaded_ends_the_command(half, monkeypatch, tmp_path):
    """It is not taken for damage: the signal counts, and the file stays."""
    from topicstream.kernels import cache, compiler

    def stop(*_: object) -> None:
        raise Stopped("stopped", 15)

    folder = KernelFolder(tmp_path / "kernels")
    monkeypatch.setattr(cache, "folders", lambda: (folder,))
    monkeypatch.setattr(cache, "file_name", lambda *_: NAME)
    for name in (NAME, cache.code_name(NAME)):
        folder.write(name, BODY)
    monkeypatch.setattr(*((cache.direct, "load") if half == "code" else (compiler.pickle, "loads")), stop)
    with pytest.raises(Stopped):
        cache.code(None, "") if half == "code" else compiler.KernelCache(None).load_overload("", Mock())
    assert folder.has(NAME) and folder.has(cache.code_name(NAME))
