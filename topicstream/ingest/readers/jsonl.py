"""JSON lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from topicstream.ingest.columns import LISTS, WrongField, as_id, as_list, as_scalar, as_text, column, text_of
from topicstream.ingest.cut import as_array, cut, last_line_break, lines_of
from topicstream.ingest.documents import Provenance, TextRun
from topicstream.ingest.reader import Piece, ReadOptions
from topicstream.ingest.rejects import Rejects
from topicstream.ingest.source import Source


class JsonLines:
    name = "jsonl"
    kind = "text"
    about = "JSON lines, one object a line"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        return cut(source, options, last_line_break)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
        return parse_by_line(piece, options)


def record_of(line: bytes) -> dict[str, Any]:
    """The object of one line.  Raises WrongField with the reason."""
    try:
        value = json.loads(line)
    except RecursionError:
        raise WrongField("JSON nested too deeply") from None
    except UnicodeDecodeError as e:
        raise WrongField(
            f"not valid UTF-8 (byte 0x{e.object[e.start]:02x}); give --encoding, latin-1 perhaps"
        ) from None
    except ValueError as e:
        raise WrongField(f"not JSON ({e})") from None
    if not isinstance(value, dict):
        raise WrongField("not a JSON object; a line must be one {…}")
    return value


def parse_by_line(piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
    """The exact path: Python's own JSON, line by line."""
    rejects = Rejects(options.stop)
    starts, ends = lines_of(as_array(piece.data))
    fields = options.text_fields
    ids, places, texts = [], [], []
    meta: dict[str, list[Any]] = {name: [] for name in options.meta}
    for i in range(len(starts)):
        line = piece.data[starts[i] : ends[i]]
        if not line.strip():
            continue
        try:
            record = record_of(line)
            for name in fields:
                if name not in record:
                    raise WrongField(
                        f"no field '{name}'; choose one of {', '.join(sorted(record))[:200]} (--text-field)"
                    )
            text = "\n".join(as_text(record[name], name) for name in fields)
            place = f"{piece.line + i}"
            identity = f"{piece.key}:{place}"
            if options.id_field is not None or "id" in record:
                name = options.id_field or "id"
                if name not in record:
                    raise WrongField(f"no field '{name}' (--id-field)")
                identity = as_id(record[name], name)
            values = {}
            for col, name in options.meta.items():
                raw = record.get(name)
                values[col] = as_list(raw, name, options.list_separator) if col in LISTS else as_scalar(raw, name)
        except WrongField as e:
            rejects.add(piece.name, piece.line + i, str(e), line)
            continue
        ids.append(identity)
        places.append(f"{piece.name}:{place}")
        texts.append(text)
        for col, found in values.items():
            meta[col].append(found)
    about = Provenance(
        ids=pa.array(ids, pa.large_string()),
        source=pa.array(places, pa.large_string()),
        meta={name: column(name, found) for name, found in meta.items()},
    )
    text_bytes, offsets = text_of(texts)
    return TextRun(about, text_bytes, offsets), rejects


READER = JsonLines()
