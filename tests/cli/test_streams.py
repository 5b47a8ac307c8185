"""Standard streams that are closed or full: one line that says which, and an exit code that is not
0.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import topicstream
from tests import few_quick
from topicstream.base.errors import json_line

TOPICS = f"{sys.executable} -m topicstream.cli.main"


def run(line):
    return subprocess.run(["sh", "-c", f"{TOPICS} {line}"], capture_output=True, text=True)


@pytest.mark.slow
def test_names_that_are_not_utf8_and_files_that_may_not_grow_are_one_line(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id": "a", "text": "some words"}\n' * 3)
    ingest = [sys.executable, "-m", "topicstream", "ingest", "in.jsonl", "--min-df", "1", "--out"]

    def said(out, **more):
        done = subprocess.run(
            [*ingest, out], cwd=tmp_path, capture_output=True, text=True, check=False, **more
        )
        return done.returncode, ["", *done.stderr.strip().splitlines()][-1]

    code, line = said(b"\xff.zarr")
    assert code == 2 and "a name that is not UTF-8" in line and line.isascii()
    assert said("warm.zarr")[0] == 0  # its kernels are compiled
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1024, 1024))
    code, line = said("c.zarr", preexec_fn=limit)
    assert code == 5 and "ulimit -f" in line


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_output_to_a_full_device_is_named():
    done = run("engines > /dev/full")
    assert done.returncode == 5
    assert (
        done.stderr
        == "topics: standard output: No space left on device; make room and run the same "
        "command again\n"
    )


@pytest.mark.parametrize(
    "line",
    few_quick(
        ["engines >&-", "ingest - -q --out {}/c.zarr <&-", "infer - -q --model {}/m <&- >&-"],
        ["engines >&-"],
    ),
)
def test_a_closed_stream_is_one_line(line, tmp_path):
    done = run(line.format(tmp_path))
    assert done.returncode == 1 or "no model" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and "internal" not in done.stderr
    assert not (tmp_path / "c.zarr").exists()


@pytest.mark.product
def test_all_closed_and_no_file_takes_their_numbers(tmp_path):
    (tmp_path / "a.txt").write_text("one two three\n" * 5)
    done = run(
        f"ingest {tmp_path}/a.txt --format lines --min-df 1 --out {tmp_path}/c.zarr -q <&- >&- 2>&-"
    )
    assert done.returncode in (0, 1)
    assert (tmp_path / "c.zarr" / "manifest.json").exists()
    assert (tmp_path / "a.txt").read_text() == "one two three\n" * 5


def test_what_controls_a_terminal_is_escaped_in_json():
    printed = json_line({"word": "a\x9b31m\u202eb\x1b\u00e9"})
    assert json.loads(printed) == {"word": "a\x9b31m\u202eb\x1b\u00e9"}
    assert printed == '{"word": "a\\u009b31m\\u202eb\\u001b\u00e9"}'
    commands = Path(topicstream.__file__).parent / "cli"
    assert [p.name for p in commands.glob("*.py") if "ensure_ascii=False" in p.read_text()] == []
