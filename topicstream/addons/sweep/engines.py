"""One engine for all trainings of a sweep by ``--algo auto``.

What ``auto`` takes depends on the number of topics where documents are few and long, and on whether
there are covariates where documents are short, too. Two engines differ by more than two numbers of
topics do (docs/internals/decisions/sweep.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from topicstream.addons.sweep.config import SweepConfig
from topicstream.addons.sweep.judging import COVARIATES, Run
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import select_sample
from topicstream.training.auto import SAMPLER, Choice, choose
from topicstream.training.setup import shape_of

AUTO = "auto"


@dataclass(frozen=True)
class EngineChooser:
    """The choices of ``auto`` for trainings of a sweep.

    Attributes
    ----------
    corpus
        What every training learns from.
    config
        The settings of the sweep.
    """

    corpus: Corpus
    config: SweepConfig

    @classmethod
    def for_sample(cls, store: Corpus, sample: float | None, config: SweepConfig) -> EngineChooser:
        """Make one for trainings on a share of a store."""
        return cls(store if sample is None else select_sample(store, sample), config)

    def choose(self, run: Run, engine: str | None = None) -> Choice:
        """Choose as ``auto`` does for a training, or as it would where it takes ``engine``."""
        return choose(
            shape_of(self.corpus, run.topics),
            {name: value for name, value in run.options if name != COVARIATES},
            covariates=run.formula is not None,
            seeded=self.config.seed_words is not None,
            passes=self.config.passes,
            sampled=None if engine is None else engine == SAMPLER,
        )

    def keywords(self, run: Run) -> dict[str, Any]:
        """Return the keywords of ``train`` for a training by an engine that is not its own."""
        choice = self.choose(run, run.engine)
        passes = self.config.passes if choice.passes is None else choice.passes
        return {
            "algo": choice.algo,
            "options": dict(choice.options),
            "start": choice.start,
            "passes": passes,
        }


def settle_engine(
    runs: Sequence[Run], store: Corpus, sample: float | None, config: SweepConfig
) -> tuple[list[Run], str]:
    """Give all trainings by ``auto`` one engine.

    It is that of the middle number of topics or, where that has trainings by two, the one that
    takes covariates.

    Returns
    -------
    tuple
        The trainings, those with another engine than ``auto`` takes for them alone marked by it,
        and the reason in words, empty where there is none.
    """
    free = [run for run in runs if run.algo == AUTO]
    if len({(run.topics, run.options) for run in free}) < 2:
        return list(runs), ""
    chooser = EngineChooser.for_sample(store, sample, config)
    own = {run: chooser.choose(run).algo for run in free}
    if len(set(own.values())) < 2:
        return list(runs), ""
    numbers = sorted({run.topics for run in own})
    middle = numbers[len(numbers) // 2]
    of_middle = {algo for run, algo in own.items() if run.topics == middle}
    engine = min(of_middle, key=lambda algo: algo == SAMPLER)
    settled = [
        replace(run, engine=engine) if own.get(run, engine) != engine else run for run in runs
    ]
    return settled, _describe_engine(engine, middle, own)


def _describe_engine(engine: str, middle: int, own: Mapping[Run, str]) -> str:
    """Describe which trainings have another engine than ``auto`` takes for them alone."""
    others = [run for run, algo in own.items() if algo != engine]
    other = own[others[0]]
    if any(run.formula is not None for run in own):
        return (
            f"{engine} trained all, for it takes covariates; without them, auto alone takes {other}"
        )
    numbers = ", ".join(map(str, sorted({run.topics for run in others})))
    return (
        f"{engine} trained all, as auto takes it for {middle} topics, so that the figures compare; "
        f"`topics train` takes {other} for {numbers}"
    )
