"""Topics that go together in documents: the pair matrix of a full dependence mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.base.errors import InputError
from topicstream.base.options import option
from topicstream.base.records import Json
from topicstream.base.text import render, render_each
from topicstream.display.view import ModelView, add_mark, largest


@dataclass(frozen=True)
class PairsView(ModelView, heeds=("words",)):
    """The pairs of topics that go together."""

    title: ClassVar[str] = "Pairs of topics that co-occur (--pairs)"
    pairs: bool = option(
        False, "For an fdm model: the pairs of topics that co-occur most; -n sets how many."
    )

    def result(self) -> dict[str, Json]:
        """List the pairs of different topics that go together most beyond chance.

        By the matrix a that the engine ``fdm`` learned: a_kj is the probability that the first of
        two tokens of a document is of topic k and the second of topic j. Edits are honoured.

        Returns
        -------
        dict
            ``apart``: the share of pairs of tokens that are of different topics. For each pair:
            topics, share (of pairs of tokens, both orders), words (the first words of both) and,
            among pairs of different topics alone (nearly every topic goes best with itself), lift
            q_kj / e_kj, e_kj ~ r_k r_j with r the sums of q, and its part of the mutual information
            in nats, by which pairs are ordered.

        Raises
        ------
        InputError
            For a model of another engine.
        """
        trained = self.shown.trained
        view = self.shown.view
        if "pairs" not in trained.manifest.tables:
            raise InputError(
                f"{trained.path}: has no matrix of topic pairs; --pairs requires a model of "
                f"--algo fdm"
            )
        a = view.columns(
            trained.table("pairs").gather(np.arange(trained.n_topics)).astype(np.float64)
        )
        a = view.columns(np.ascontiguousarray(a.T))
        a /= max(float(a.sum()), 1e-300)
        q = a - np.diag(np.diag(a))
        q /= max(float(q.sum()), 1e-300)
        chance = np.outer(q.sum(0), q.sum(0))
        np.fill_diagonal(chance, 0.0)
        chance /= max(float(chance.sum()), 1e-300)
        lift = np.divide(q, chance, out=np.zeros_like(q), where=chance > 0)
        gain = 2 * q * np.log(np.where(lift > 0, lift, 1.0))
        first, second = np.triu_indices(len(a), 1)
        first_words = self.shown.first_words(4)
        return {
            "model": trained.name,
            "apart": float(1.0 - np.trace(a)),
            "pairs": [
                {
                    "topics": [
                        {**self.shown.entry(k), "words": first_words[k]}
                        for k in (int(first[i]), int(second[i]))
                    ],
                    "share": float(2 * a[first[i], second[i]]),
                    "lift": float(lift[first[i], second[i]]),
                    "nats": float(gain[first[i], second[i]]),
                }
                for i in largest(gain[first, second], self.words)
            ],
        }

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        head = render(
            "{apart:.1p} % of the pairs of a document's words are of two different topics", result
        )
        names = [[name_topic(t) for t in pair["topics"]] for pair in result["pairs"]]
        rows = [
            {
                **pair,
                "percent": f"{100 * pair['share']:6.2g}",
                "one": pair["topics"][0],
                "two": pair["topics"][1],
                "a": a,
                "b": b,
            }
            for pair, (a, b) in zip(result["pairs"], names, strict=True)
        ]
        return head + render_each(
            "{percent} %  {lift:6.2f} x chance  {one.topic} ({a}) + {two.topic} ({b})", rows
        )


def name_topic(topic: Mapping[str, Any]) -> str:
    """Name a topic by its label or words, with a mark if it is unusual."""
    name = topic.get("label") or " ".join(topic["words"])
    mark = add_mark(topic)["mark"]
    return f"({mark}) {name}" if mark else name
