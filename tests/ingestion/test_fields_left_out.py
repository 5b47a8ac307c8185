"""Names of fields that were left out are remembered up to a bound."""

from __future__ import annotations

import json

import topicstream
from topicstream.ingestion.parse.rejects import MORE_LEFT_OUT, MOST_NAMES
from topicstream.ingestion.store.finishing import MOST_FIELDS


def test_records_with_keys_of_their_own(tmp_path):
    lines = [
        json.dumps({"text": f"sea ship {n}", **{f"key{n}-{k:04}": k for k in range(3000)}})
        for n in range(40)
    ]
    (tmp_path / "keys.jsonl").write_text("\n".join(lines))
    options = {"min_df": 1, "heldout": 0, "progress": False}
    summary = topicstream.ingest(tmp_path / "keys.jsonl", tmp_path / "c.zarr", **options)
    assert len(summary["fields_left_out"]) == MOST_FIELDS and summary["documents"] == 40
    assert summary["notes"][MORE_LEFT_OUT] > 0
    noted = topicstream.Corpus.open(tmp_path / "c.zarr").manifest.summary
    assert len(noted["notes"]) == 1


def test_names_are_remembered_up_to_the_bound(tmp_path):
    from collections import Counter

    from topicstream.ingestion.parse.rejects import LEFT_OUT, add_notes

    notes = Counter({"odd": 2})
    add_notes(notes, {f"{LEFT_OUT}{n:05}": 1 for n in range(MOST_NAMES - 1)})
    add_notes(notes, {f"{LEFT_OUT}{n:05}": 1 for n in range(MOST_NAMES + 9)})
    assert notes["odd"] == 2 and notes[f"{LEFT_OUT}00000"] == 2
    assert len(notes) == 1 + MOST_NAMES + 1 and notes[MORE_LEFT_OUT] == 9
