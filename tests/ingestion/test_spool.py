"""Spools of an ingest: frames as they were appended, also after a run that was killed."""

from __future__ import annotations

import numpy as np

from topicstream.base.files.ownership import claim
from topicstream.ingestion.parts.journal import Spool, encode_frame


def test_a_frame_that_comes_again_is_not_written_again(tmp_path):
    frames = [
        encode_frame({"types": np.array(words)})
        for words in (["a", "b"], ["a", "b"], ["c"], ["c"], ["a", "b"])
    ]
    claim(tmp_path, "ingest")
    spool = Spool(tmp_path / "types.spool")
    for frame in frames[:4]:
        spool.append(frame)
    count = len(spool)
    size = spool.size
    spool.append(frames[4])
    assert (
        spool.entries[0]
        == spool.entries[1]
        != spool.entries[2]
        == spool.entries[3]
        != spool.entries[4]
    )
    spool.close()
    again = Spool(tmp_path / "types.spool")
    again.truncate(count, size)  # as a run that was killed carries on
    again.append(frames[3])
    assert [again.arrays(i)["types"].to_pylist() for i in range(len(again))] == [
        ["a", "b"],
        ["a", "b"],
        ["c"],
        ["c"],
        ["c"],
    ]
    again.close()
