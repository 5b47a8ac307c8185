"""Sources whose files are unlike have a table [[source]] each."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ingest_tools import cells_by_id
from tests.retrain_tools import cycle, made
from topicstream.base.errors import UsageError
from topicstream.corpus.reader import Corpus
from topicstream.display.gather import describe_documents
from topicstream.display.passages import DocumentTexts

CONFIG = """
[ingest]
min_df = 1
heldout = "10%"
meta = "date=day"
[[source]]
patterns = ["blog/*"]
text_field = "body"
id_field = "nr"
meta = "date=published,author"
date_format = "%d/%m/%Y"
delimiter = ";"
[[source]]
patterns = ["*.note"]
format = "files"
meta = ""
[train]
topics = 3
passes = 3
update_passes = 2
threads = 1
[gate]
topics = false
tolerance = 1e6
"""


def write_night(raw: Path, night: int) -> None:
    """Three sources: JSON lines, CSV with other fields and semicolons, and a file a document."""
    texts = [d["text"] for d in made(90, seed=night)]
    draw = random.Random(night)
    (raw / "blog").mkdir(parents=True, exist_ok=True)
    news = [
        {"id": f"n{night}-{i}", "text": text, "day": f"2024-0{night}-0{draw.randint(1, 9)}"}
        for i, text in enumerate(texts[:40])
    ]
    lines = "".join(json.dumps(one) + "\n" for one in news)
    (raw / f"news{night}.jsonl").write_text(lines)
    with (raw / "blog" / f"{night}.csv").open("w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["nr", "published", "author", "body"])
        for i, text in enumerate(texts[40:80]):
            writer.writerow([f"b{night}-{i}", f"0{draw.randint(1, 9)}/0{night}/2024", "Ann", text])
    (raw / f"{night}.note").write_text(texts[80])


def dates(store: Path) -> dict[str, Any]:
    """id -> date of the documents of a store."""
    found = {}
    for batch in Corpus.open(store).documents(["date", "author"]):
        for row in batch.to_pylist():
            found[row["id"]] = (row.get("date") or "", row.get("author"))
    return found


@pytest.fixture
def home(tmp_path):
    (tmp_path / "retrain.toml").write_text(CONFIG)
    write_night(tmp_path / "raw", 1)
    first = cycle(tmp_path / "retrain.toml")
    assert (first["documents_added"], first["left_out"]) == (81, {})
    return tmp_path


@pytest.mark.product
def test_every_source_is_read_its_own_way_every_night(home):
    write_night(home / "raw", 2)
    second = cycle(home / "retrain.toml")
    assert (second["documents_added"], second["left_out"]) == (81, {})
    assert second["drift"]["documents"] == 81
    assert second["decision"] == "update"
    have = dates(home / "corpus.zarr")
    assert len(have) == 162
    for night in "12":
        assert have[f"n{night}-3"][0].startswith(f"2024-0{night}-")
        assert have[f"n{night}-3"][1] is None
        assert have[f"b{night}-3"][0].startswith(f"2024-0{night}-")
        assert have[f"b{night}-3"][1] == "Ann"
        assert have[f"{night}.note"] == ("", None)


@pytest.mark.product
def test_a_changed_file_of_a_source_replaces_its_documents(home):
    path = home / "raw" / "blog" / "1.csv"
    rows = path.read_text().splitlines()
    first = rows[1].split(";")
    rows[1] = ";".join([*first[:3], "newword newword"])
    path.write_text("\n".join(rows) + "\n")
    cycle(home / "retrain.toml")
    have = cells_by_id(home / "corpus.zarr")
    assert have["b1-0"][1] == {"newword": 2}
    assert len(have) == 81


@pytest.mark.product
def test_a_bad_file_of_a_source_is_named_as_it_is_called_below_raw(home):
    write_night(home / "raw", 2)
    (home / "raw" / "blog" / "bad.csv").write_text("nr;published;author\n1;01/01/2024;Ann\n")
    with pytest.raises(Exception, match=r"raw/blog/bad\.csv") as error:
        cycle(home / "retrain.toml")
    assert "incoming" not in str(error.value)
    assert "b2-1" in dates(home / "corpus.zarr")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[[source]]\ntext_field = 'x'", r"\[\[source\]\] 1: needs patterns"),
        ("[[source]]\npatterns = 3", r"\[\[source\]\] 1: needs patterns"),
        ("[[source]]\npatterns = 'x'\nmin_df = 2", "min_df holds for the whole corpus"),
        ("[[source]]\npatterns = 'x'\nstopwords = 'none'", "stopwords holds for the whole corpus"),
        ("[[source]]\npatterns = 'x'\nappend = true", "append holds for the whole corpus"),
        ("[[source]]\npatterns = 'x'\ntextfield = 'y'", "no option 'textfield'.*text_field"),
        ("[[source]]\npatterns = 'x'\nheader = 'y'", "header must be true or false"),
        ("[source]\npatterns = 'x'", r"write a table \[\[source\]\]"),
    ],
)
def test_a_wrong_source_is_refused_in_one_line(tmp_path, table, message):
    (tmp_path / "raw").mkdir()
    (tmp_path / "retrain.toml").write_text(table)
    with pytest.raises(UsageError, match=message) as error:
        cycle(tmp_path / "retrain.toml")
    assert "\n" not in str(error.value)


@pytest.mark.product
def test_passages_of_every_source_are_read_its_own_way(home):
    """After two nights: each file below raw, as its source or [ingest] says."""
    write_night(home / "raw", 2)
    cycle(home / "retrain.toml")
    corpus = Corpus.open(home / "corpus.zarr")
    texts = DocumentTexts(corpus, np.arange(corpus.n_docs))
    wanted = {}
    for night in (1, 2):
        written = [d["text"] for d in made(90, seed=night)]
        wanted |= {f"n{night}-{i}": text for i, text in enumerate(written[:40])}
        wanted |= {f"b{night}-{i}": text for i, text in enumerate(written[40:80])}
        wanted[f"{night}.note"] = written[80]
    rows = describe_documents(corpus, np.arange(corpus.n_docs), [])
    for number, row in rows.items():
        assert texts.words(number) == set(wanted[row["id"]].split()), row["id"]
