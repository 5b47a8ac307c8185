"""What a run leaves in a model folder beside the model."""

from __future__ import annotations

import shutil
from pathlib import Path

from topicstream.files import owned
from topicstream.files.ownership import refuse_strangers
from topicstream.training.state import outcome, record

RUN_FILES, RUN_FOLDERS = (record.NAME, "history.jsonl", outcome.NAME, "carried.json"), ("checkpoints", "work")


def free_disk(folder: Path, force: bool) -> int:
    """Bytes that are free where the folder lies, and with ``force`` those that ``forget_runs`` will set free."""
    free = shutil.disk_usage(next(p for p in (folder, *folder.absolute().parents) if p.exists())).free
    if force:
        free += sum(512 * p.stat().st_blocks for name in RUN_FOLDERS for p in (folder / name).rglob("*") if p.is_file())
    return free


def forget_runs(folder: Path) -> None:
    """Remove what a run left in a model folder, but not the model itself (the new one replaces it when it is done)."""
    refuse_strangers(folder)
    for name in RUN_FOLDERS:
        owned.remove_within(folder / name)
    for name in RUN_FILES:
        owned.remove_file(folder / name, missing_ok=True)
