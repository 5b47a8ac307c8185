"""What an inference is told: the one list that makes ``topicstream.infer``'s keywords and the options of ``topics infer``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from topicstream.inference.methods import foreign, method_names
from topicstream.ingestion.read_options import ReadOptions
from topicstream.model.classifier import FEATURES
from topicstream.options import option, share
from topicstream.progress import Told

if TYPE_CHECKING:
    from topicstream.corpus.reader import Corpus
    from topicstream.model.topic_model import TopicModel

PARTS = ("train", "heldout")
SAMPLED = ("sample", "rest")


def as_names(value: str | Sequence[str]) -> Sequence[str]:
    """``a,b`` -> [a, b]."""
    return [c.strip() for c in value.split(",") if c.strip()] if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """Options of the methods; None: the method's default.  A method takes those that its ``__init__`` names."""

    tol: float | None = option(
        None, "bp, vb: stop when this share of a document's tokens moved (default: 0.001; vb 0.0003).", min=0
    )
    inner: int | None = option(None, "bp, vb: most inner iterations a document (default: 100).", min=1)
    sparse: int | None = option(None, "vb: at most L topics a word of a document.", min=1, metavar="L")
    phi: str | None = option(
        None,
        "vb: topics as Dirichlet posteriors or as point estimates (default: dirichlet).",
        choices=("dirichlet", "point"),
    )
    begin: str | None = option(
        None,
        "vb: with all topics alike, or from the prior, as Yao, Mimno and McCallum 2009 do; worse where alpha was learned "
        "(default: even).",
        choices=("even", "prior"),
    )
    sweeps: int | None = option(None, "gibbs, gibbs1: sweeps that are averaged (default: 50).", min=1)
    burn: int | None = option(None, "gibbs, gibbs1: sweeps before these (default: 30).", min=0)
    seed: int | None = option(None, "gibbs, gibbs1, hybrid: seed (default: 0).", min=0)
    joint: bool | None = option(None, "gibbs: all documents together; they are held in memory.")
    own_counts: bool | None = option(None, "gibbs: the document's own tokens count in the topics meanwhile.")
    log: bool | None = option(None, "naive-bayes: a sum of logarithms instead of probabilities.")
    temperature: float | None = option(
        None,
        "maxent, hybrid: divides the logits (default: the one chosen when the classifier was learned).",
        above=0,
    )
    trained_on: str | Path | None = option(
        None,
        "gibbs1: the corpus that the model was trained on, by gs or sparselda (default: corpus.zarr).",
        path=True,
        metavar="CORPUS",
    )
    resamples: int | None = option(None, "hybrid: how often topics are drawn anew (default: 1).", min=1)


@dataclass(frozen=True)
class InferConfig(MethodOptions, ReadOptions):
    """All settings of an inference."""

    model: str | Path | TopicModel = option(MISSING, "the model, or its folder", cli=False)
    documents: Any = option(
        MISSING,
        "a Corpus or the Path of one; a Path or a list of Paths: raw documents of any format that ingest reads "
        '(Path("-"): standard input); or documents in memory, as ingest takes them. A str is a document, never a path',
        cli=False,
    )
    _: KW_ONLY
    out: str | Path | BinaryIO | None = option(
        None,
        "Write .parquet, .jsonl or .csv [default: JSON lines on stdout].",
        flags=("-o", "--out"),
        metavar="FILE",
        after="",
    )
    method: str = option(
        "bp",
        "bp: deterministic fixed point (of a model of clusters: mixture); vb: variational; gibbs: sampled, each document alone, the topics held still; "
        "gibbs1: sampled with the training documents, whose run should have settled; maxent: the model's classifier (`topics classifier`), the fastest; hybrid: maxent, then sampled; authors: by the document's authors, of an author-topic model; naive-bayes: one "
        "sum, a yardstick; mixture: p(cluster | document) of a model of --algo mixture.",
        choices=method_names(),
        more=foreign,
        show=True,
    )
    top: int | None = option(None, "Only the N largest topics a document [default: all].", min=1, metavar="N")
    min_prob: float | None = option(
        None, "Only topics with at least this share, 0.05 or 5% [default: all].", min=0, max=1, metavar="P", parse=share
    )
    parts: str | Sequence[str] = option(
        "all",
        "Of a corpus store; of a model of `train --sample` also the training documents that it learned from (sample) or the others (rest).",
        choices=("all", *PARTS, *SAMPLED),
        flags=("--part",),
        show=True,
    )
    with_columns: str | Sequence[str] = option(
        (), "Write metadata of the documents too, as date,title.", flags=("--with",), metavar="COLUMN,...", parse=as_names
    )
    follow: bool = option(False, "Standard input: answer each line as soon as it is complete.")
    threads: int | None = option(
        None, "Threads (default: all); the answers do not depend on them.", min=1, after="resamples"
    )
    mem_limit: str | int | None = option(
        None, "Memory of the whole process, as 2G or 512M [default: what there is].", metavar="SIZE"
    )
    force: bool = option(False, "Replace the file of --out.")
    options: Mapping[str, Any] | None = option(None, "the method's own, where they are none of these", cli=False)
    edits: bool = option(
        True, "merged and dropped topics (`topics edit`) are shown so; False: as trained", cli=False
    )
    vocabulary: Any = option(None, "of a matrix: its words, or a dict word -> column", cli=False)
    ids: Any = option(None, "of a matrix: the ids of its documents", cli=False)
    progress: Told = option(None, "what is told while it runs (topicstream/progress.py)", cli=False)

    def of_method(self) -> dict[str, Any]:
        """The options of the method that were given."""
        own = {f.name: v for f in fields(MethodOptions) if (v := getattr(self, f.name)) is not None}
        return own | dict(self.options or {})

    def of_parts(self) -> tuple[str, ...]:
        """The parts of a store."""
        wanted = (self.parts,) if isinstance(self.parts, str) else tuple(self.parts)
        return PARTS if "all" in wanted else wanted


@dataclass(frozen=True)
class ClassifierConfig:
    """All settings of the classifier beside a model."""

    model: str | Path | TopicModel = option("model", "folder of the model ($TOPICS_MODEL)", env="TOPICS_MODEL", show=True)
    corpus: str | Path | Corpus = option("corpus.zarr", "corpus store", env="TOPICS_CORPUS", show=True)
    _: KW_ONLY
    documents: int = option(200_000, "training documents at most, evenly spaced; 0: all", min=0, show=True)
    features: str = option(
        "root",
        "of a document: its counts; frequency, its counts over its length; or root, the square roots of these",
        choices=FEATURES,
        show=True,
    )
    variance: float = option(1.0, "of the weights' prior", above=0, show=True)
    passes: int = option(100, "passes at most", min=1, show=True)
    tol: float = option(1e-3, "stop when a pass lowers the loss by less than this share", min=0, show=True)
    temperature: float | None = option(
        None, "divides the logits [default: chosen on training documents set aside]", above=0
    )
    threads: int | None = option(None, "threads [default: the processors]; never changes the result", min=1)
    mem_limit: str | int | None = option(
        None, "memory of the whole process, as 2G or 512M [default: what there is]", metavar="SIZE"
    )
    progress: Told = option(None, "what is told while it runs (topicstream/progress.py)", cli=False)
