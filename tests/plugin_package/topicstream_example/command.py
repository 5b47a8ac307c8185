"""A command of another package: `topics sizes` prints the share of each topic."""

from __future__ import annotations

from typing import Any

import click

import topicstream
from topicstream.cli.command import topics_command


@topics_command("sizes", help="Print the share of each topic.")
@click.option("--model", default="model", help="Folder of the model.")
def command(model: str) -> Any:
    """Return the shares of a model's topics, and a line for each."""
    shares = [float(share) for share in topicstream.TopicModel.open(model).shares]
    return {"shares": shares}, [f"{share:.2%}" for share in shares]
