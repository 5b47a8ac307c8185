"""Errors of the query engine: memory, disk and the rest are told apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from topicstream.base.errors import DiskTooSmall, DoesNotFit, TopicsError
from topicstream.base.relations import OVERFLOW, Relations

LARGE = "select md5(range::varchar) as b from range(1000000) order by b"


def insert(relations: Relations, sql: str) -> None:
    relations.execute(f"create table t as {sql}")


def stream(relations: Relations, sql: str) -> None:
    for _ in relations.stream(sql):
        pass


@pytest.mark.parametrize("run", [insert, stream])
def test_a_full_disk_is_no_lack_of_memory(
    tmp_path: Path, run: Callable[[Relations, str], None]
) -> None:
    with Relations(tmp_path, 1) as relations:
        relations.execute("set memory_limit = '16MB'")
        relations.execute("set max_temp_directory_size = '1MB'")
        with pytest.raises(DiskTooSmall, match="the disk is full; make room") as refused:
            run(relations, LARGE)
    assert "--mem-limit" not in str(refused.value) and refused.value.exit_code == 5


@pytest.mark.parametrize("run", [insert, stream])
def test_a_lack_of_memory_advises_a_larger_limit(
    tmp_path: Path, run: Callable[[Relations, str], None]
) -> None:
    with Relations(tmp_path, 1) as relations:
        relations.execute("set memory_limit = '1MB'")
        with pytest.raises(DoesNotFit, match=r"Out of Memory Error.*; raise --mem-limit"):
            run(relations, "select list(md5(range::varchar)) from range(100000)")


def test_other_errors_of_files_say_what_they_are(tmp_path: Path) -> None:
    (tmp_path / OVERFLOW).write_text("")
    with Relations(tmp_path, 1) as relations:
        relations.execute("set memory_limit = '16MB'")
        with pytest.raises(TopicsError, match="check the folder and its disk") as refused:
            insert(relations, LARGE)
    assert not isinstance(refused.value, DoesNotFit) and refused.value.exit_code == 1


def test_a_fault_of_the_program_is_none_of_the_users(tmp_path: Path) -> None:
    import duckdb

    with Relations(tmp_path, 1) as relations:
        with pytest.raises(duckdb.ParserException):
            relations.execute("nonsense")
        with pytest.raises(duckdb.ConversionException):
            stream(relations, "select cast('x' || range as int) from range(10)")
