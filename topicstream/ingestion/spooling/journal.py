"""The working folder of an ingest (``corpus.zarr.wip``) and its journal: where a killed run carries on.

    state.json     what is committed: pieces, lengths of the spools, the vocabulary builder's checkpoint, totals
    cells.spool    a frame a piece: the cells (see prepare.py)
    types.spool    a frame a text piece: provisional ids of its types; a frame a bag-of-words source: those of its words
    docs.spool     a frame a piece: id hashes and metadata
    rejects.jsonl  a line a record left out
    words/         the vocabulary builder's runs
    store/         the new store, while it is being written

Everything behind the committed lengths is cut off on a resume and read again.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from topicstream.errors import InputError
from topicstream.files import owned
from topicstream.files.durable import read_json, sync_file, sync_folder, write_json
from topicstream.ingestion.parsing.rejects import Rejects
from topicstream.ingestion.spooling.spool import Spool

JOURNAL = 1
SPOOLS = ("cells", "types", "docs")


def fresh_state(key: dict[str, Any]) -> dict[str, Any]:
    """The state of an ingest that has read nothing; ``key`` says what it was asked to read."""
    return {
        "journal": JOURNAL,
        "key": key,
        "pieces": 0,
        "crc": 0,
        "consumed": 0,
        "spools": {name: [0, 0] for name in SPOOLS},
        "rejects_bytes": 0,
        "vocabulary": None,
        "totals": {},
        "notes": {},
        "columns": {},
        "sources": [],
        "source_words": [],
        "weighted": False,
        "text": False,
        "pubmed": False,
        "done": False,
        "seconds": 0.0,
    }


def _changed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return sorted(k for k in {*old, *new} if old.get(k) != new.get(k))


def clear(folder: Path) -> None:
    """Empty a working folder but for lock and mark, the state last: killed on the way, the next run knows that all was
    done."""
    owned.clear(folder, "ingest")


class Journal:
    """State and spools of one ingest; the caller holds the folder's lock."""

    def __init__(self, folder: Path, key: dict[str, Any], *, force: bool) -> None:
        self.folder = folder
        state_path = folder / "state.json"
        left = None if force or not state_path.exists() else read_json(state_path)
        if left is None or (left.get("pieces") == 0 and left.get("key") != key):  # nothing was read that could be lost
            clear(folder)
            self.state = fresh_state(key)
            self.resumed = False
        else:
            self.state = left
            if self.state.get("journal") != JOURNAL:
                raise InputError(f"{folder}: left by another version of this program; --force starts anew")
            if changed := _changed(self.state["key"], key):
                raise InputError(
                    f"{folder}: an unfinished ingest with other options ({', '.join(changed)}) is there; run it again as"
                    " it was to carry on, or use --force to start anew"
                )
            self.resumed = True
        self.durable = self.resumed
        """Whether the state that is on disk is that of this process."""
        self.words = folder / "words"
        self.words.mkdir(exist_ok=True)
        self.cells, self.types, self.docs = (Spool(folder / f"{name}.spool") for name in SPOOLS)
        for name, spool in self._spools():
            spool.truncate(*self.state["spools"][name])
        self._rejects = owned.append(folder / "rejects.jsonl")
        self._rejects.truncate(self.state["rejects_bytes"])
        self._rejects.seek(self.state["rejects_bytes"])
        self.totals: Counter[str] = Counter(self.state["totals"])
        self.notes: Counter[str] = Counter(self.state["notes"])
        if not self.resumed:
            write_json(state_path, self.state)

    def _spools(self) -> list[tuple[str, Spool]]:
        return [("cells", self.cells), ("types", self.types), ("docs", self.docs)]

    def reject(self, rejects: Rejects, name: str, key: str) -> None:
        """Append the records left out of the source ``name``, which is stored as ``key``."""
        for record in rejects.records:
            about = record.as_json()
            if record.file.startswith(name):
                about["file"] = key + record.file[len(name) :]
            line = json.dumps(about, ensure_ascii=False) + "\n"
            self._rejects.write(line.encode("utf-8", "backslashreplace"))
        self.notes.update(rejects.notes)

    def commit(self, vocabulary: Any, *, durable: bool = True, **changes: Any) -> None:
        """Make what was read so far durable: spools first, the state last.  ``durable=False``: remember it in this process
        alone; after a kill it is read again."""
        for name, spool in self._spools():
            if durable:
                spool.sync()
            self.state["spools"][name] = [len(spool), spool.size]
        self._rejects.flush()
        self.state |= {
            "rejects_bytes": self._rejects.tell(),
            "vocabulary": vocabulary,
            "totals": dict(self.totals),
            "notes": dict(self.notes),
            **changes,
        }
        self.durable = durable
        if not durable:
            return
        os.fsync(self._rejects.fileno())
        for path in self.words.iterdir():
            if path.is_file():
                sync_file(path)
        sync_folder(self.words)
        write_json(self.folder / "state.json", self.state)

    def commit_store(self, manifest: dict[str, Any]) -> None:
        """Say that the new store is whole, before it is put in place."""
        committed = {"committed": {name: manifest[name] for name in ("fingerprint", "summary")}}
        about = {name: self.state[name] for name in ("inputs", "record", "places") if name in self.state}
        state = self.state if self.durable else fresh_state(self.state["key"]) | about
        write_json(self.folder / "state.json", state | committed)

    def close(self) -> None:
        """Close the files."""
        for _, spool in self._spools():
            spool.close()
        self._rejects.close()

    def remove(self) -> None:
        """Remove the working folder."""
        self.close()
        owned.remove(self.folder, "ingest")
