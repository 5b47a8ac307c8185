"""``topics edit --propose-labels``: labels for topics without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from topicstream.base.options import option
from topicstream.cli.extension import CommandOptions


@dataclass(frozen=True)
class EditOptions:
    """Options for ``topics edit``."""

    propose_labels: bool = option(
        False, "Propose labels for unnamed topics from their words and phrases."
    )
    program: str | None = option(
        None,
        "With --propose-labels: a program that reads a prompt (words, documents) and prints a "
        "label.",
        flags=("--command",),
        metavar="CMD",
    )
    docs: int = option(
        3, "With --command: number of typical documents in a prompt.", min=0, show=True
    )


def propose(model: str, corpus: str, options: EditOptions) -> list[dict[str, Any]]:
    """Propose edits that label the topics without a label."""
    from topicstream.addons.views.naming import propose_labels  # most edits propose nothing

    labels = propose_labels(model, corpus, program=options.program, docs=options.docs)
    source = options.program or "words"
    return [
        {"edit": "label", "topic": topic, "label": text, "by": source}
        for topic, text in labels.items()
    ]


EDIT = CommandOptions(
    EditOptions, lambda options: options.propose_labels, propose, "--propose-labels"
)
