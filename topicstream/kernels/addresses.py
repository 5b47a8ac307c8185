"""Entries of arrays that a kernel knows by their addresses: as many arrays as a round has blocks."""

from __future__ import annotations

from typing import Any

from topicstream.kernels import intrinsics as llvm
from topicstream.kernels.intrinsics import Builder, Value, emit


def _entry(b: Any, address: Any, i: Any, kind: Any) -> Any:
    return b.load(b.gep(b.inttoptr(address, kind.as_pointer()), [i]))


@emit("int64", "int64", "int64")
def int64_at(b: Builder, address: Value, i: Value) -> Value:
    """Entry i of an int64 array."""
    return _entry(b, address, i, llvm.I64)


@emit("int64", "int64", "int64")
def int32_at(b: Builder, address: Value, i: Value) -> Value:
    """Entry i of an int32 array."""
    return b.sext(_entry(b, address, i, llvm.I32), llvm.I64)


@emit("int64", "int64", "int64")
def uint16_at(b: Builder, address: Value, i: Value) -> Value:
    """Entry i of a uint16 array."""
    return b.zext(_entry(b, address, i, llvm.I16), llvm.I64)


@emit("float64", "int64", "int64")
def float32_at(b: Builder, address: Value, i: Value) -> Value:
    """Entry i of a float32 array."""
    return b.fpext(_entry(b, address, i, llvm.F32), llvm.F64)
