"""Which published versions stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from topicstream.retraining import publish


@pytest.mark.parametrize(
    ("present", "now", "keep", "stay"),
    [
        ([1, 2, 3, 4, 5], 5, 3, [3, 4, 5]),
        ([1, 2, 3, 4, 5], 5, 1, [4, 5]),  # the current one and the one before it
        ([1, 2, 3, 4, 5, 6], 3, 2, [2, 3, 5, 6]),  # after a rollback
        ([1, 2, 3, 4, 5, 6], 1, 2, [1, 5, 6]),
        ([2, 5, 9], 9, 2, [5, 9]),
        ([1, 2, 3], None, 2, [2, 3]),
        ([1, 2], 2, 5, [1, 2]),
    ],
)
def test_the_newest_the_current_and_the_one_before_stay(present, now, keep, stay, monkeypatch):
    gone = []
    monkeypatch.setattr(publish, "published_versions", lambda folder: present)
    monkeypatch.setattr(publish, "current_version", lambda folder: now)
    monkeypatch.setattr(publish.owned, "remove", lambda path, kind: gone.append(int(path.name)))
    publish.prune(Path("f"), keep)
    assert sorted(set(present) - set(gone)) == stay
