"""CSV, TSV and Parquet of text and of vectors, mutated: they are read, or refused in one line."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hostile.mutations import TEXTS, check_mutations


def separated(delimiter: str) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["id", "text", "labels"])
    writer.writerows([f"d{i}", text, "a;b"] for i, text in enumerate(TEXTS))
    return out.getvalue().encode()


def parquet(**options: Any) -> bytes:
    out = io.BytesIO()
    ids = [f"d{i}" for i in range(len(TEXTS))]
    pq.write_table(
        pa.table({"id": ids, "text": TEXTS, "labels": [["a", "b"]] * len(TEXTS)}), out, **options
    )
    return out.getvalue()


def arrow(compression: str | None) -> bytes:
    out = io.BytesIO()
    table = pa.table(
        {
            "id": [f"d{i}" for i in range(len(TEXTS))],
            "text": TEXTS,
            "labels": [["a", "b"]] * len(TEXTS),
        }
    )
    with pa.ipc.new_file(
        out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as file:
        file.write_table(table, 2)
    return out.getvalue()


def vectors() -> bytes:
    out = io.BytesIO()
    values = np.random.default_rng(1).normal(size=(7, 4)).tolist()
    pq.write_table(
        pa.table(
            {"v": pa.array(values, pa.list_(pa.float32())), "id": [f"d{i}" for i in range(7)]}
        ),
        out,
    )
    return out.getvalue()


META = {"meta": {"labels": "labels"}}
DELTAS = {
    "id": "DELTA_BYTE_ARRAY",
    "text": "DELTA_BYTE_ARRAY",
    "labels.list.element": "DELTA_LENGTH_BYTE_ARRAY",
}
KINDS = {  # file, seeds, words of the format, options
    "csv": ("f.csv", [separated(",")], [b'""', b'"\n"', b"id,text"], {"format": "csv", **META}),
    "tsv": ("f.tsv", [separated("\t")], [b'""', b"\t\t"], {"format": "csv"}),
    "parquet": (
        "f.parquet",
        [parquet(compression=c) for c in ("snappy", "none", "zstd")],
        [b"PAR1"],
        {"format": "parquet", **META},
    ),
    "other pages": (
        "f.parquet",
        [
            parquet(compression=c, data_page_version=v)
            for c in ("gzip", "lz4")
            for v in ("1.0", "2.0")
        ]
        + [parquet(use_dictionary=False, column_encoding=DELTAS, row_group_size=2)],
        [b"PAR1"],
        {"format": "parquet", **META},
    ),
    "arrow": (
        "f.arrow",
        [arrow(c) for c in (None, "lz4", "zstd")],
        [b"ARROW1", bytes(8)],
        {"format": "arrow", **META},
    ),
    "vectors": ("v.parquet", [vectors()], [b"PAR1"], {"format": "vectors", "vector_field": "v"}),
}


@pytest.mark.quick("csv", "parquet")
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_tables(tmp_path, kind):
    file, seeds, words, options = KINDS[kind]
    check_mutations(tmp_path / file, seeds, words, options)
