"""``topics completion``: a script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from topicstream.cli.command import Printed, topics_command


@topics_command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> Printed:
    """Print a script that completes commands and options of topics in a shell.

    \b
        eval "$(topics completion bash)"                                       # in ~/.bashrc
        eval "$(topics completion zsh)"                                        # in ~/.zshrc
        topics completion fish > ~/.config/fish/completions/topics.fish        # once
    """
    from topicstream.cli.main import topics  # cli.main imports this module by its name

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(topics, {}, "topics", "_TOPICS_COMPLETE").source()
    return {"shell": shell, "script": script}, script.splitlines()
