"""Score topics of another program by our evaluator: python scripts/benchmarks/score_phi.py RUN CORPUS [--model OUT]

RUN is what scripts/benchmarks/peers/run.py wrote; a line of JSON for each phi-PASS.npy.  ``--model OUT`` keeps the last as a model
folder that every ``topics`` command reads.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import score_model
from topicstream.evaluation.keys import corpus_vocabulary
from topicstream.model.topic_model import TopicModel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--model", type=Path, help="write the last topics as a model folder")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    corpus = Corpus.open(args.corpus)
    run = json.loads((args.run / "run.json").read_text())
    words = corpus_vocabulary(corpus)
    model = None
    for file in sorted(args.run.glob("phi-*.npy"), key=lambda f: int(f.stem[4:])):
        passes = int(file.stem[4:])
        model = TopicModel.from_arrays(
            np.load(file),
            words,
            run["alpha"],
            run["beta"],
            engine=run["trainer"],
            passes=passes,
            corpus=corpus.fingerprint,
        )
        score = score_model(model, corpus, threads=args.threads)
        seconds = round(sum(run["seconds"][:passes]), 3)
        print(json.dumps({"trainer": run["trainer"], "passes": passes, "seconds": seconds, **score.as_dict()}))
    if args.model and model is not None:
        model.save(args.model)


if __name__ == "__main__":
    main()
