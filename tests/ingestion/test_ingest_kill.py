"""kill -9 at random instants (of what is done to the disk), then the same command again: the same
bytes as an undisturbed run.
"""

from __future__ import annotations

import json
import random
import shutil

import pytest

import topicstream
from tests.ingest_tools import cells_by_id, digest, documents, write_jsonl
from tests.killing import Killable
from topicstream.base.errors import InputError

pytestmark = pytest.mark.slow

WORK = """
from pathlib import Path
from topicstream.ingestion.pipeline import ingest
def work(paths, out, **options):
    ingest([Path(p) for p in paths], out, **options)
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warm")
    source = write_jsonl(folder / "a.jsonl", documents(50))
    with Killable(WORK, {"paths": [str(source)], "out": str(folder / "c.zarr")}) as killable:

        def run(paths, out, kill_at=0, **options):
            """(killed, count of disk operations)."""
            return killable(kill_at, paths=paths, out=str(out), **options)[:2]

        yield run


OPTIONS = {
    "workers": 2,
    "min_df": 2,
    "piece_bytes": 1 << 15,
    "checkpoint_bytes": 1 << 17,
    "stopwords": "none",
    "keep_text": True,
}


def test_killed_at_random_instants_then_resumed(tmp_path, driver):
    docs = documents(1500, seed=7)
    docs += [{**d, "text": "changed " + d["text"]} for d in docs[50:90]]
    source = [str(write_jsonl(tmp_path / "a.jsonl", docs))]
    _, count = driver(source, tmp_path / "whole.zarr", **OPTIONS)
    expected = digest(tmp_path / "whole.zarr")
    rng = random.Random(11)
    kills = stores = resumed = 0
    while kills < 20:
        out = tmp_path / f"{stores}.zarr"
        wip = tmp_path / f"{stores}.zarr.wip"
        stores += 1
        for _ in range(3):
            killed, _ = driver(source, out, kill_at=rng.randint(1, count), **OPTIONS)
            if not killed:
                break
            kills += 1
            assert out.exists() == (out / "manifest.json").exists()  # never half a store
            if (wip / "state.json").exists():
                resumed += json.loads((wip / "state.json").read_text())["pieces"] > 0
            elif out.exists():
                break
        if (wip / "state.json").exists() or not out.exists():
            assert driver(source, out, **OPTIONS)[0] is False
        assert digest(out) == expected
    assert resumed >= 3


def test_an_append_killed_leaves_the_old_store(tmp_path, driver):
    one = documents(300, seed=1)
    two = documents(600, seed=2, prefix="e")
    a, b = (str(write_jsonl(tmp_path / f"{n}.jsonl", d)) for n, d in (("a", one), ("b", two)))
    more = {"append": True, "grow_vocab": True, **OPTIONS}
    del more["stopwords"]
    for name in ("whole", "killed"):
        driver([a], tmp_path / f"{name}.zarr", **OPTIONS)
    before = cells_by_id(tmp_path / "killed.zarr")
    _, count = driver([b], tmp_path / "whole.zarr", **more)
    after = cells_by_id(tmp_path / "whole.zarr")
    rng = random.Random(3)
    for k in range(6):
        killed, _ = driver(
            [b], tmp_path / "killed.zarr", kill_at=rng.randint(k * count // 8, count), **more
        )
        if not killed:
            break
        assert cells_by_id(tmp_path / "killed.zarr") in (before, after)
    else:
        assert driver([b], tmp_path / "killed.zarr", **more)[0] is False
    assert digest(tmp_path / "killed.zarr") == digest(tmp_path / "whole.zarr")


def test_a_changed_input_or_other_options_are_refused(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", documents(600, seed=7))
    good = source.read_text()
    source.write_text(good + "{broken\n")
    out = tmp_path / "c.zarr"
    options = {**OPTIONS, "checkpoint_bytes": 1 << 15}
    with pytest.raises(InputError, match=r"a\.jsonl:601"):
        topicstream.ingest(source, out, **options)
    state = json.loads((tmp_path / "c.zarr.wip" / "state.json").read_text())
    assert state["pieces"] > 2 and not state["done"]
    with pytest.raises(InputError, match="other options"):
        topicstream.ingest(source, out, **{**options, "stopwords": "english"})
    source.write_text(good.replace('"d1"', '"dd"', 1))
    with pytest.raises(InputError, match="the input has changed"):
        topicstream.ingest(source, out, **options)
    source.write_text(good)
    assert topicstream.ingest(source, out, **options)["documents"] == 600
    assert topicstream.ingest(source, tmp_path / "d.zarr", **options)["documents"] == 600
    assert digest(out) == digest(tmp_path / "d.zarr")


def test_another_ingest_after_one_that_was_killed_behind_its_commit(tmp_path, driver):
    """What is left of the first, which had committed, must not pass for the second."""
    first, second = (
        str(write_jsonl(tmp_path / f"{n}.jsonl", documents(300, seed=s, prefix=n)))
        for n, s in (("a", 1), ("b", 2))
    )
    out = tmp_path / "c.zarr"
    wip = tmp_path / "c.zarr.wip"
    whole = tmp_path / "whole.zarr"
    _, count = driver([first], whole, **OPTIONS)
    for kill_at in range(count, 0, -1):
        shutil.rmtree(out, ignore_errors=True)
        killed, _ = driver([first], out, kill_at=kill_at, **OPTIONS)
        if killed and (out / "manifest.json").exists() and (wip / "state.json").exists():
            break
    shutil.copytree(wip, tmp_path / "kept")
    before = len(cells_by_id(out))
    more = {"append": True, **OPTIONS}
    del more["stopwords"]
    driver([second], out, **more)
    assert not wip.exists() and len(cells_by_id(out)) > before
    # the same command with another content is another ingest, too
    shutil.rmtree(out)
    shutil.copytree(whole, out)
    shutil.copytree(tmp_path / "kept", wip)
    write_jsonl(tmp_path / "a.jsonl", documents(400, seed=5, prefix="other"))
    driver([first], out, **more)
    assert len(cells_by_id(out)) > before
