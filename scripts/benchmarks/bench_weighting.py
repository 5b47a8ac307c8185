"""Weighted cells: what tf and tf-idf do to topics.

    python scripts/benchmarks/bench_weighting.py --data ../shared/data [--work FOLDER] [--passes 40]

Prints Markdown: held-out perplexity (judged on counts, whatever the topics were learned from), NPMI of the ten most probable
words of the topics as they are learned, and the share of different words among their top 25, for two engines and two
corpora; text without a list of stop words, where weights matter most, and with it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import heading, table

from topicstream import ingest
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.coherence import coherence, diversity
from topicstream.evaluation.completion import score_model
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train

TOPICS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared" / "data")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--passes", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        news = args.data / "20news" / "docs.jsonl.gz"
        inputs = {
            "kos": (args.data / "kos" / "docword.txt.gz", {}),
            "20news": (news, {}),
            "20news, stop words kept": (news, {"stopwords": "none", "max_df": "100%"}),
        }
        heading("Weighted cells", f"K = {TOPICS}, {args.passes} passes, one thread; alpha 0.1, beta 0.01.")
        rows = []
        for corpus, (path, options) in inputs.items():
            store = work / (corpus.replace(", ", "-").replace(" ", "-") + ".zarr")
            if not store.exists():
                ingest(path, out=store, heldout="10%", progress=False, **options)
            for algo in ("sparse-bp", "atbp"):
                for weighting in ("none", "tf", "tfidf"):
                    began, priors = time.process_time(), {"alpha": 0.1, "beta": 0.01, "learn_priors": False}
                    train(
                        store,
                        work / "model",
                        algo=algo,
                        topics=TOPICS,
                        passes=args.passes,
                        tol=0,
                        threads=1,
                        force=True,
                        weighting=weighting,
                        options=priors,
                        progress=False,
                    )
                    seconds, model, opened = (
                        time.process_time() - began,
                        TopicModel.open(work / "model"),
                        Corpus.open(store),
                    )
                    figures = [score_model(model, opened).perplexity, coherence(model, opened).npmi, diversity(model)]
                    shown = [f"{figures[0]:.0f}", f"{figures[1]:.3f}", f"{100 * figures[2]:.0f} %", f"{seconds:.1f}"]
                    rows.append([corpus, algo, weighting, *shown])
                    print("  ".join(rows[-1]), file=sys.stderr, flush=True)
        table(["corpus", "engine", "weighting", "held-out perplexity", "NPMI", "different words", "CPU s"], rows)


if __name__ == "__main__":
    main()
