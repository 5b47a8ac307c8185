"""Models of other programs, mutated: ``topics import`` makes a model of them, or refuses in one
line.
"""

from __future__ import annotations

import gzip
import shutil

import numpy as np
import pytest
from hypothesis import given

import topicstream
from tests.hostile.mutations import BYTES, MANY, answers_or_refuses, mutated
from tests.ingest_tools import documents, write_jsonl
from topicstream.addons.exchange.formats import formats

SUFFIXES = {"mallet-state": ".gz", "pyldavis": ".json", "mallet-doc-topics": ".txt"}
NAMES = [name for name, form in formats().items() if form.read]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imports")
    write_jsonl(folder / "in.jsonl", documents(40))
    topicstream.ingest(folder / "in.jsonl", folder / "c.zarr", min_df=1, heldout=0)
    topicstream.train(
        folder / "c.zarr",
        folder / "m",
        algo="gs",
        topics=3,
        passes=1,
        tol=0.0,
        threads=1,
        progress=False,
    )
    return folder


def write_as_blei_does(model, folder):
    """Write logarithms of p(word | topic), a line a topic, as lda-c does."""
    opened = topicstream.TopicModel.open(model)
    probability = opened.topic_word
    folder.mkdir()
    np.savetxt(folder / "final.beta", np.log(probability), fmt="%.10f")
    (folder / "final.other").write_text(
        f"num_topics {opened.n_topics}\nnum_terms {opened.n_words}\nalpha 0.1\n"
    )
    (folder / "vocab.txt").write_text("\n".join(opened.words) + "\n")


@pytest.mark.quick("pyldavis", "mallet-doc-topics")
@pytest.mark.parametrize("name", NAMES)
def test_mutated_models(place, name):
    source = place / f"export-{name}{SUFFIXES.get(name, '')}"
    if formats()[name].write:
        topicstream.export_model(place / "m", source, corpus=place / "c.zarr", format=name)
    else:
        write_as_blei_does(place / "m", source)
    out = place / "imported"

    def imported() -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.unlink(missing_ok=True) if out.is_file() else None
        target = out if name != "mallet-doc-topics" else place / "answers.parquet"
        topicstream.import_model(source, target, format=name, force=True)
        if name != "mallet-doc-topics":
            assert topicstream.TopicModel.open(out).n_topics >= 1

    for file in [source / part for part in formats()[name].files] or [source]:
        whole = file.read_bytes()
        seeds = [gzip.decompress(whole), whole] if name == "mallet-state" else [whole]

        @MANY
        @given(mutated(seeds, [b"null", b"[]", b"{}", b"-1", b"nan", b"1e309", *BYTES]))
        def check(data: bytes) -> None:
            file.write_bytes(data)  # noqa: B023 - called within the loop
            answers_or_refuses(imported)

        check()
        file.write_bytes(whole)
