"""The command line as users see it: every command, its options with defaults and choices, and the exit codes.

python scripts/tools/surface.py > now.json              this checkout
python scripts/tools/surface.py --since then.json       what differs from an earlier dump, a line each
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import click

from topicstream import errors
from topicstream.cli.main import topics


def parameter(param: click.Parameter) -> dict[str, Any]:
    """What a user can know of an option without its help."""
    about: dict[str, Any] = {"default": str(param.default), "required": param.required, "multiple": param.multiple}
    if isinstance(param.type, click.Choice):
        about["choices"] = list(param.type.choices)
    return about


def surface() -> dict[str, Any]:
    """command -> option -> what it takes; and the exit codes of errors by name."""
    context = click.Context(topics)
    commands: dict[str, Any] = {}
    for name in topics.list_commands(context):
        command = topics.get_command(context, name)
        commands[name] = {"/".join(sorted([*p.opts, *p.secondary_opts])): parameter(p) for p in command.get_params(click.Context(command)) if p.name != "help"}
    codes = {n: c.exit_code for n, c in vars(errors).items() if isinstance(c, type) and hasattr(c, "exit_code")}
    return {"commands": commands, "exit codes": codes}


def differences(then: Any, now: Any, path: str = "") -> list[str]:
    """Where two dumps differ, a line each."""
    if isinstance(then, dict) and isinstance(now, dict):
        lines = [f"- {path}{name}" for name in then if name not in now]
        lines += [f"+ {path}{name}" for name in now if name not in then]
        return lines + [x for name in then if name in now for x in differences(then[name], now[name], f"{path}{name} ")]
    return [] if then == now else [f"~ {path}: {then} -> {now}"]


def main() -> None:
    """Print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", type=Path)
    arguments = parser.parse_args()
    now = json.loads(json.dumps(surface()))
    if arguments.since is None:
        print(json.dumps(now, indent=1, sort_keys=True))
    else:
        print("\n".join(differences(json.loads(arguments.since.read_text()), now)))


if __name__ == "__main__":
    main()
