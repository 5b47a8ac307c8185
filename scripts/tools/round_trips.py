"""Perplexity of documents set aside before a model goes out and after it has come back, for each format.

    python scripts/tools/round_trips.py --corpus corpus.zarr --model model [--state MODEL]

--state: a model of gs or sparselda, for MALLET's state.  Programs that are not installed are left out, and named.  pyLDAvis
holds the first words of each topic only: it is asked for all, of a model whose prior it cannot hold (alpha is said again).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import topicstream
from topicstream import Corpus, TopicModel

FILES = {
    "parquet": "x.parquet",
    "parquet-long": "x.parquet",
    "safetensors": "x",
    "mallet": "x",
    "ldac-beta": "x",
    "pyldavis": "x.json",
}
UNSAID = ("ldac-beta", "pyldavis")  # their alpha is one number, or none


def perplexity(model: Any, corpus: Corpus) -> float:
    return float(topicstream.evaluate(model, corpus, heldout=True)["heldout"]["perplexity"])


def through_file(model: TopicModel, corpus: Corpus, format: str, place: Path, name: str) -> TopicModel:
    words = {"words": model.n_words} if format == "pyldavis" else {}
    topicstream.export_model(model, place / name, format=format, corpus=corpus, **words)
    alpha = {"alpha": model.alpha} if format in UNSAID else {}
    topicstream.import_model(place / name, place / "model", format=format, **alpha)
    return TopicModel.open(place / "model")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--corpus", "--model", "--state"):
        parser.add_argument(name, required=name != "--state")
    args = parser.parse_args()
    corpus, model = Corpus.open(args.corpus), TopicModel.open(args.model)
    ways: dict[str, tuple[TopicModel, Callable[[TopicModel, Path], TopicModel]]] = {
        format: (model, lambda m, place, format=format: through_file(m, corpus, format, place, FILES[format]))
        for format in FILES
    }
    if args.state:
        ways["mallet-state"] = (
            TopicModel.open(args.state),
            lambda m, place: through_file(m, corpus, "mallet-state", place, "x.gz"),
        )
    ways["to_gensim, from_gensim"] = model, lambda m, _: TopicModel.from_gensim(m.to_gensim())
    ways["to_sklearn, from_sklearn"] = model, lambda m, _: TopicModel.from_sklearn(m.to_sklearn(), m.words)
    print(
        f"{corpus!r}\n{model!r}\n\n| format | perplexity before | after | relative difference | seconds |\n|---|---|---|---|---|"
    )
    for name, (whose, way) in ways.items():
        with tempfile.TemporaryDirectory() as place:
            try:
                began = time.perf_counter()
                back = way(whose, Path(place))
                seconds = time.perf_counter() - began
            except ImportError as e:
                print(f"| {name} | left out: {e} |")
                continue
            before, after = perplexity(whose, corpus), perplexity(back, corpus)
            print(
                f"| {name} | {before:.6f} | {after:.6f} | {abs(after / before - 1):.1e} | {seconds:.1f} |", flush=True
            )


if __name__ == "__main__":
    main()
