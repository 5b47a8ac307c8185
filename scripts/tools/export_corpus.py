"""Write a part of a corpus store as plain NumPy files, for other programs: python
scripts/tools/export_corpus.py CORPUS OUT

OUT/indptr.npy int64[D+1], words.npy int32[cells] (word ids), counts.npy int32[cells], words.txt
(one a line, in id order)
and meta.json.  Empty documents keep their row.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from topicstream.corpus.reader import Corpus


def export(corpus: Corpus, out: Path, heldout: bool = False) -> None:
    """Write the files of the module's head into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    lengths = [np.zeros(1, np.int64)]
    words = []
    counts = []
    for block in corpus.blocks(heldout=heldout):
        lengths.append(np.diff(block.indptr))
        words.append(block.vocab[block.words])
        counts.append(block.counts)
    np.save(out / "indptr.npy", np.cumsum(np.concatenate(lengths)))
    np.save(out / "words.npy", np.concatenate(words).astype(np.int32))
    np.save(out / "counts.npy", np.concatenate(counts))
    text = corpus.read_vocabulary().words.to_pylist()
    (out / "words.txt").write_text("".join(f"{w}\n" for w in text), encoding="utf-8")
    meta = {
        "words": corpus.n_words,
        "heldout": heldout,
        **{k: getattr(corpus.part(heldout), k) for k in ("docs", "cells", "tokens")},
    }
    (out / "meta.json").write_text(json.dumps(meta) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--heldout",
        action="store_true",
        help="the documents set aside instead of the training part",
    )
    args = parser.parse_args()
    export(Corpus.open(args.corpus), args.out, args.heldout)


if __name__ == "__main__":
    main()
