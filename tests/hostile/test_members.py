"""Members of manifests, states and edits are of the kinds that readers take them for, or refused in
one line.
"""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hostile.resealing import write_sealed
from tests.refusing import refused
from topicstream.base.files.durable import read_json
from topicstream.base.progress import Shown as Progress
from topicstream.cli.main import run
from topicstream.training.loop import train


@pytest.mark.parametrize("more", [-1, 1])
def test_a_store_has_the_words_that_its_manifest_says(store, tmp_path, capsys, more):
    manifest = read_json(store / "manifest.json")
    write_sealed(store / "manifest.json", manifest | {"n_words": manifest["n_words"] + more})
    train = (
        "train",
        "--corpus",
        store,
        "--model",
        tmp_path / "n",
        "--algo",
        "gs",
        "-K",
        "2",
        "--passes",
        "1",
    )
    for line in (("info", store), train):
        assert "words where the manifest says" in refused(*line, capsys=capsys)
    code = run(["info", str(store), "--verify", "-q"])
    assert code == 3 and "words where the manifest says" in capsys.readouterr().err
    assert not (tmp_path / "n" / "manifest.json").exists()


def changed(path, **members):
    """Members of a JSON file exchanged (``...``: left out), sealed again."""
    value = {**read_json(path), **members}
    write_sealed(path, {k: v for k, v in value.items() if v is not ... and k != "checksum"})


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"engine": 5}, "`$.engine`"),
        ({"corpus": {"docs": "5"}}, "corpus"),
    ],
)
def test_a_model_that_an_update_cannot_start_from_is_refused_in_a_line(
    store, made, tmp_path, capsys, members, said
):
    model = tmp_path / "u"
    train(
        store,
        model,
        algo="sparse-bp",
        topics=3,
        passes=1,
        tol=0.0,
        threads=1,
        progress=Progress(-1),
    )
    changed(model / "manifest.json", **members)
    before = sorted(p for p in model.rglob("*"))
    assert said in refused(
        "update", "--corpus", store, "--model", model, "--out", tmp_path / "o", capsys=capsys
    )
    assert sorted(p for p in model.rglob("*")) == before


def test_a_mark_of_another_form_is_none_of_ours(store, capsys):
    (store / ".topicstream").write_text('{"kind": {"a": 1}, "id": "x"}')
    assert run(["compact", str(store), "-q"]) in (0, 3)
    assert "internal" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "value", ["NaN", "1e999", '"\\ud800"', "[" * 400 + "]" * 400, "[" * 100_000], ids=range(5)
)
def test_what_a_table_says_of_its_model_is_plain_or_refused(tmp_path, capsys, value):
    table = pa.table({"word": ["a", "b"], "topic_0": [1.0, 2.0], "topic_1": [3.0, 1.0]})
    for about in (
        '{"alpha":[1,1],"beta":0.1,"engine":%s}',
        '{"alpha":[1,1],"beta":0.1,"labels":{"0":%s}}',
        '{"alpha":[1,%s],"beta":0.1}',
    ):
        pq.write_table(
            table.replace_schema_metadata({"topicstream": about % value}), tmp_path / "t.parquet"
        )
        code = run(
            ["import", str(tmp_path / "t.parquet"), "--model", str(tmp_path / "m"), "--force", "-q"]
        )
        lines = capsys.readouterr().err.splitlines()
        assert code in (0, 3) and len(lines) == 1 and "internal" not in lines[0], lines
        assert (tmp_path / "m" / "manifest.json").exists() == (code == 0)
        if code == 0:
            assert (
                run(["info", str(tmp_path / "m")]) == 0
                and run(["show", "--model", str(tmp_path / "m")]) == 0
            )
            shutil.rmtree(tmp_path / "m")
        capsys.readouterr()
