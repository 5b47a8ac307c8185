"""tomotopy's ``infer`` on exported documents with topics that it trains itself:

    python scripts/benchmarks/peers/infer.py TRAIN NEW OUT -K 100 --alpha 0.1 --beta 0.01 --passes
    100

TRAIN and NEW are folders of export_corpus.py over the same words.  Writes OUT/phi.npy (float32[W,
K], counts without the
prior), OUT/shares.npy (float32[D, K], NaN where a document has no word that the model knows) and
OUT/infer.json with the
seconds of making the documents and of ``infer`` itself.  Runs under the peers' own Python; needs
nothing of topicstream.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from trainers import Data, Setting, tomotopy_model, tomotopy_phi


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("-K", "--topics", type=int, default=100)
    parser.add_argument("--alpha", type=float, default=0.1, help="per topic")
    parser.add_argument("--beta", type=float, default=0.01, help="per word")
    parser.add_argument("--passes", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=100, help="of infer")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    words = json.loads((args.train / "meta.json").read_text())["words"]
    setting = Setting(args.topics, args.alpha, args.beta, args.passes, args.workers, args.seed)
    data = Data.read(args.train, words)
    model, names = tomotopy_model(data, setting)
    model.train(args.passes, workers=args.workers)
    np.save(args.out / "phi.npy", tomotopy_phi(model, data, setting))
    new = Data.read(args.new, words)
    begin = time.perf_counter()
    documents = []
    rows = []
    for d in range(new.n_docs):
        cells = slice(new.indptr[d], new.indptr[d + 1])
        document = model.make_doc(np.repeat(names[new.words[cells]], new.counts[cells]).tolist())
        if len(document.words):
            documents.append(document)
            rows.append(d)
    made = time.perf_counter()
    shares, _ = model.infer(documents, iterations=args.iterations, workers=args.workers)
    done = time.perf_counter()
    out = np.full((new.n_docs, args.topics), np.nan, np.float32)
    out[rows] = shares
    np.save(args.out / "shares.npy", out)
    record = {
        "documents": len(documents),
        "make_seconds": made - begin,
        "infer_seconds": done - made,
        "iterations": args.iterations,
        "alpha": args.alpha,
        "beta": args.beta,
    }
    (args.out / "infer.json").write_text(json.dumps(record) + "\n")
    print(json.dumps(record))


if __name__ == "__main__":
    main()
