"""``topics retrain``: one cycle under the folder's lock, with what the command or the caller says in the config's place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from topicstream import machine
from topicstream.errors import TopicsError
from topicstream.files.durable import lock
from topicstream.metrics import recorded
from topicstream.options import configured, seconds
from topicstream.retraining.config import Config, When, load_config, write_template
from topicstream.retraining.cycle import Cycle
from topicstream.retraining.log import Log
from topicstream.retraining.run_config import RetrainConfig


@configured(RetrainConfig)
def retrain(config: RetrainConfig) -> dict[str, Any]:
    """One cycle; the summary as plain values.

    The conditions (``if_new_docs``, ``if_drift``, ``at_least_every``) stand in the place of the config's [when].

    The summary's ``refused`` lists why the gate refused the new model (the command exits 6 then); empty otherwise.
    Raises InputError (a raw file that cannot be read), Busy, DoesNotFit, Interrupted, TopicsError.
    """
    if config.init:
        return write_template(Path(str(config.config)))
    if config.metrics is not None:
        name = config.config.folder if isinstance(config.config, Config) else config.config
        with recorded(config.metrics, "retrain", config=name) as tell:
            summary = retrain(replace(config, metrics=None))
            tell({**summary, "refused": float(bool(summary["refused"]))})
        return summary
    settings = config.config if isinstance(config.config, Config) else load_config(config.config)
    if config.if_new_docs or config.if_drift or config.at_least_every is not None:
        when = When(config.if_new_docs, config.if_drift, seconds(config.at_least_every))
        settings = replace(settings, when=when)
    changes: dict[str, Any] = {} if config.max_time is None else {"max_time": seconds(config.max_time)}
    if config.mem_limit is not None:
        changes["mem_limit"] = machine.parse_bytes(config.mem_limit)
    settings = replace(settings, train=replace(settings.train, **changes))
    cycle = Cycle(settings, Log(config.stream, config.quiet))
    try:
        settings.folder.mkdir(parents=True, exist_ok=True)
        with lock(settings.folder, "retraining", kind="retrain", wait=config.wait):
            return cycle.run(config.full, config.dry_run)
    except PermissionError as e:
        raise TopicsError(f"{e.filename or settings.folder}: {e.strerror}; retrain writes to {settings.folder}") from e
    except OSError as e:
        if e.errno == 30:
            raise TopicsError(f"{settings.folder}: is read-only; retrain writes there, name another folder") from e
        raise
