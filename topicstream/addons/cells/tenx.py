"""Single cells: files as 10x Genomics writes them.

They are ``matrix.mtx``, ``barcodes.tsv`` and ``features.tsv`` (or ``genes.tsv``, ``peaks.bed``),
each perhaps gzipped and, as GEO has them, with a prefix. The matrix has a row a feature. Documents
are its columns, the cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from topicstream.addons.cells.h5ad import note_kinds
from topicstream.ingestion.open.names import CELLS, FEATURES, MATRIX, matrix_file
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import unique_names
from topicstream.ingestion.parse.documents import TEXT, lines_of
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.parse.sparse import Matrix, MatrixReader, Side
from topicstream.ingestion.parse.triples import Triples
from topicstream.ingestion.readers.mtx import MatrixMarket


class TenX(MatrixReader):
    """Reader of the matrix that 10x writes, with barcodes and features beside it."""

    name = "tenx"
    about = (
        "10x folder, or matrix.mtx with barcodes.tsv and features.tsv beside it; documents are "
        "the cells"
    )
    side_names = ("cells", "features")
    shown = "{:,} cells x {:,} features"

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        options = replace(options, transpose=options.transpose_requested)
        cells = pa.array(
            [fields[0] for fields in _read_table(_find_part(source, CELLS), options)], TEXT
        )
        features = feature_names(source, options)
        path = _find_part(source, MATRIX)
        with Source(str(path), path, key=source.key, strict=source.strict) as file:
            header = MatrixMarket().header(file)
            if (header.documents, header.words) != (len(features), len(cells)):
                sizes = (
                    f"{header.documents:,} x {header.words:,} in {path.name}, {len(features):,} "
                    f"features and {len(cells):,} barcodes"
                )
                raise BadFile(source.name, 0, f"the files do not fit one another: {sizes}")
            triples = Triples(file, header, ascending=False)
            matrix = Matrix(triples, False, Side(len(cells), cells), Side(len(features), features))
            yield from self.documents(source, options, matrix)
            source.rejects.records += file.rejects.records
            source.damage = file.damage


def _find_part(source: Source, names: tuple[str, ...]) -> Path:
    """Find the file of one kind, or raise BadFile."""
    path = None if source.path is None else matrix_file(source.path, names)
    if path is None:
        kinds = ", ".join(kind[0] for kind in (MATRIX, CELLS, FEATURES))
        raise BadFile(
            source.name,
            0,
            f"10x matrix without {names[0]}; it has {kinds} (--format mtx reads rows as documents)",
        )
    return path


def _read_table(path: Path, options: ReadOptions) -> list[list[str]]:
    """Split each line of a table without a header into its fields."""
    with Source(str(path), path) as source:
        lines: list[bytes] = []
        for _, part in lines_of(source, options):
            lines += part
    return [line.decode("utf-8", "replace").rstrip("\r").split("\t") for line in lines]


def feature_names(source: Source, options: ReadOptions) -> pa.Array:
    """Read the names of genes, made unique, or of regions as chr:start-end.

    A gene that occurs again gets -1, -2, ... as in AnnData.
    """
    path = _find_part(source, FEATURES)
    rows = _read_table(path, options)
    if path.name.endswith(("peaks.bed", "peaks.bed.gz")):  # perhaps behind GEO's prefix
        return pa.array([f"{row[0]}:{row[1]}-{row[2]}" for row in rows if len(row) > 2], TEXT)
    note_kinds(source, [row[2] for row in rows if len(row) > 2])
    return unique_names(pa.array([row[1] if len(row) > 1 else row[0] for row in rows], TEXT))


READER = TenX()
