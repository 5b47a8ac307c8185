"""Does ``topics sweep`` recommend the number of topics that was planted, within a tenth of it?

    nice -n 19 python scripts/campaigns/planted_sweep.py                 ten corpora, some minutes
    nice -n 19 python scripts/campaigns/planted_sweep.py --draw 1        ten others

Documents are drawn from LDA with 8 to 60 topics: short and long documents, topics of equal and of
unequal sizes, in half of the corpora one that has a fifth of every document. The numbers tried
hold one that lies within a tenth of the truth, from 10 topics up never the truth itself. A row has
what each measure marks and what is taken.

--kinds fresh   corpora of other kinds and sizes, to judge a rule by that the first were used for
--kinds alike   seven whose topics share most of their first words, and a third of every document
--kinds few     four of 60 to 100 long documents of rare words, between what auto samples and not
--work          keep corpora and trainings there; the same command goes on with what is missing
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import topicstream

WORDS = 1_200
ALPHA = 2.0
"""Sum of the Dirichlet parameters of a document."""
NEAR = 0.1
FACTORS = (0.5, 0.7, 0.95, 1.3, 1.7)
"""The numbers tried, as multiples of the true one."""


class Kind(NamedTuple):
    """A planted corpus: sizes of topics fall as 1 / rank ** slope.

    ``common`` is the share of every document that comes from the last topic. 0: it is like others.
    ``alike`` is how many words the topics have seen of one Zipf law, around which they are drawn:
    the more, the more alike are their first words. 0: topics of few words each. ``words`` is the
    size of the vocabulary.
    """

    topics: int
    documents: int
    length: int
    slope: float
    common: float
    alike: float = 0.0
    words: int = WORDS

    def figures(self) -> tuple[float, ...]:
        """Return the fields that name and seed a corpus: ``alike`` where it is not 0, no words."""
        return tuple(self)[:6] if self.alike else tuple(self)[:5]


FIRST = (
    Kind(8, 400, 100, 0.0, 0.0),
    Kind(10, 1_000, 15, 0.5, 0.2),
    Kind(12, 600, 60, 0.7, 0.0),
    Kind(15, 500, 150, 0.5, 0.2),
    Kind(20, 1_500, 20, 0.0, 0.0),
    Kind(25, 1_000, 100, 0.7, 0.2),
    Kind(30, 2_000, 30, 0.5, 0.0),
    Kind(40, 1_200, 150, 0.0, 0.2),
    Kind(50, 2_000, 80, 0.5, 0.0),
    Kind(60, 2_000, 120, 0.3, 0.2),
)
FRESH = (
    Kind(9, 700, 40, 0.5, 0.0),
    Kind(11, 300, 200, 0.0, 0.2),
    Kind(14, 1_200, 20, 0.0, 0.0),
    Kind(18, 800, 80, 0.7, 0.2),
    Kind(22, 600, 150, 0.3, 0.0),
    Kind(28, 1_800, 40, 0.0, 0.2),
    Kind(35, 1_000, 120, 0.5, 0.0),
    Kind(45, 2_000, 60, 0.0, 0.2),
    Kind(55, 1_500, 150, 0.5, 0.0),
    Kind(60, 2_000, 60, 0.3, 0.2),
)
ALIKE = (
    Kind(8, 400, 100, 0.0, 0.33, 300.0),
    Kind(10, 1_000, 30, 0.0, 0.33, 300.0),
    Kind(15, 600, 100, 0.5, 0.33, 300.0),
    Kind(20, 1_500, 60, 0.0, 0.33, 300.0),
    Kind(25, 1_000, 100, 0.5, 0.33, 300.0),
    Kind(30, 2_000, 60, 0.0, 0.33, 300.0),
    Kind(40, 1_200, 150, 0.0, 0.33, 300.0),
)
FEW = (
    Kind(20, 80, 1_000, 0.3, 0.0, words=20_000),
    Kind(15, 60, 1_000, 0.3, 0.2, 100.0, words=20_000),
    Kind(25, 100, 900, 0.3, 0.0, 200.0, words=20_000),
    Kind(18, 70, 1_000, 0.5, 0.2, words=20_000),
)
KINDS = {"first": FIRST, "fresh": FRESH, "alike": ALIKE, "few": FEW}


def draw_documents(kind: Kind, seed: int) -> list[dict[str, Any]]:
    """Draw documents from planted topics."""
    rng = np.random.default_rng([seed, *(int(10 * value) for value in kind.figures())])
    slope = -1.0 if kind.alike else -0.5
    base = rng.permutation(np.arange(3, kind.words + 3) ** slope)
    base /= base.sum()
    often = base**2 / (base**2).sum()
    mixed = kind.topics - (kind.common > 0)
    phi = np.array(
        [rng.dirichlet(np.maximum((kind.alike or 60.0) * base, 0.01)) for _ in range(mixed)]
    )
    sizes = 1.0 / np.arange(1, mixed + 1) ** kind.slope
    alpha = ALPHA * sizes / sizes.sum()
    names = np.array([f"word{w:04}" for w in range(kind.words)])
    documents = []
    for d in range(kind.documents):
        theta = rng.dirichlet(alpha)
        length = max(3, int(rng.lognormal(np.log(kind.length), 0.5)))
        chances = kind.common * often + (1 - kind.common) * theta @ phi
        words = rng.choice(kind.words, length, p=chances / chances.sum())
        documents.append({"id": f"d{d}", "text": " ".join(names[words])})
    return documents


def numbers_near(topics: int) -> list[int]:
    """List the numbers of topics to try: none is the truth, one lies within a tenth of it."""
    near = topics - max(1, round((1 - FACTORS[2]) * topics))
    others = [round(factor * topics) for factor in FACTORS]
    return sorted({*others[:2], near if near >= 0.9 * topics else topics, *others[3:]})


def sweep_planted(kind: Kind, draw: int, work: Path) -> dict[str, Any]:
    """Sweep a planted corpus, unless its result is there already."""
    name = "-".join(f"{value:g}" for value in kind.figures())
    record = work / f"{name}-{draw}.json"
    if record.exists():
        return json.loads(record.read_text())
    store = work / f"{name}-{draw}.zarr"
    topicstream.ingest(
        draw_documents(kind, draw),
        store,
        stopwords=None,
        max_df=1.0,
        min_df=1,
        heldout="10%",
        force=True,
    )
    before = resource.getrusage(resource.RUSAGE_SELF)
    result = topicstream.sweep(
        store,
        work / f"{name}-{draw}.sweep",
        topics=numbers_near(kind.topics),
        seeds=3,
        progress=False,
    )
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    out = {
        "kind": list(kind),
        "draw": draw,
        "taken": result["chosen"]["topics"],
        "marks": result["chosen"]["marks"],
        "why": result["why"],
        "seconds": seconds,
        "settings": [
            {name: value for name, value in setting.items() if name != "by_topic"}
            for setting in result["settings"]
        ],
    }
    record.write_text(json.dumps(out))
    return out


def main() -> None:
    """Print a row for every corpus, and how many are within a tenth."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--kinds", choices=list(KINDS), default="first")
    parser.add_argument("--work", type=Path)
    args = parser.parse_args()
    work = args.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    near = 0
    kinds = KINDS[args.kinds]
    for kind in kinds:
        row = sweep_planted(kind, args.draw, work)
        near += abs(row["taken"] / kind.topics - 1) <= NEAR
        tried = ",".join(str(s["topics"]) for s in row["settings"])
        marks = " ".join(f"{name} {topics}" for name, topics in row["marks"].items())
        print(
            f"{kind}: of {tried} took {row['taken']} ({marks}); {row['seconds']:.0f} s", flush=True
        )
    print(f"{near} of {len(kinds)} within {NEAR:.0%}")


if __name__ == "__main__":
    main()
