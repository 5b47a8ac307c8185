"""The errors that topicstream raises, each with its exit code."""

from topicstream.base.errors import (
    Busy,
    DiskTooSmall,
    DoesNotFit,
    FilesFailed,
    GateRefused,
    InputError,
    Interrupted,
    NothingKept,
    NotOurs,
    Stopped,
    StoreError,
    TopicsError,
    UsageError,
    WorkersLost,
)

__all__ = [
    "Busy",
    "DiskTooSmall",
    "DoesNotFit",
    "FilesFailed",
    "GateRefused",
    "InputError",
    "Interrupted",
    "NotOurs",
    "NothingKept",
    "Stopped",
    "StoreError",
    "TopicsError",
    "UsageError",
    "WorkersLost",
]
