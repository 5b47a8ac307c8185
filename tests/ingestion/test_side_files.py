"""Side files of every format and key, joined out of core; whole groups held out."""

from __future__ import annotations

import csv
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topicstream
from tests import DATA, few_quick
from tests.ingest_tools import write_jsonl
from topicstream.base.errors import InputError
from topicstream.corpus.documents import read_documents
from topicstream.corpus.info import verify
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.store import side_join

OPTIONS = {"min_df": 1, "stopwords": "none", "workers": 1}


def fields(store: Path, *names: str) -> dict[str, tuple[Any, ...]]:
    """id -> the fields asked for."""
    corpus = Corpus.open(store)
    assert list(verify(corpus)) == []
    rows = [r for _, b in read_documents(store, corpus.manifest.docs) for r in b.to_pylist()]
    return {r["id"]: tuple(r.get(n) for n in names) for r in rows}


def texts(tmp_path: Path, n: int, **more: Any) -> Path:
    return write_jsonl(
        tmp_path / "a.jsonl",
        [{"id": f"d{i}", "text": f"word{i % 3} other", **more} for i in range(n)],
    )


WANTED = {
    "d0": (["Ann", "Zoë"], 'First, "quoted"', "1999"),
    "d1": (["李雷"], "Second", None),
    "d3": ([], "Fourth", "2001"),
}


def side_file(tmp_path: Path, form: str) -> Path:
    """The fields of WANTED, and of a document that is not there."""
    rows = [(k, *v) for k, v in WANTED.items()] + [("nobody", ["X"], "T", "1")]
    path = tmp_path / f"side.{form}"
    if form == "jsonl":
        path.write_text(
            "".join(
                json.dumps({"doi": k, "authors": a, "title": t, "date": d, "text": "no"}) + "\n"
                for k, a, t, d in rows
            )
        )
    elif form == "parquet":
        columns = [pa.array(c) for c in zip(*rows)]
        pq.write_table(pa.table(columns, names=["doi", "authors", "title", "date"]), path)
    else:
        with open(path, "w", newline="") as f:
            out = csv.writer(f, delimiter="\t" if form == "tsv" else ",")
            out.writerow(["doi", "authors", "title", "date"])
            out.writerows([k, "; ".join(a), t, d or ""] for k, a, t, d in rows)
    return path


@pytest.mark.quick("doi-tsv", "doi-parquet")
@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet"])
@pytest.mark.parametrize("key", few_quick(["doi", "id"], ["doi"]))
def test_every_format(tmp_path, form, key):
    path = side_file(tmp_path, form)
    spec = str(path) if key == "doi" else f"{path}:id=doi,authors,title,date"
    summary = topicstream.ingest(
        str(texts(tmp_path, 5)), tmp_path / "c.zarr", meta_files=spec, key=key, **OPTIONS
    )
    found = fields(tmp_path / "c.zarr", "authors", "title", "date", "text")
    for k, (authors, title, date) in WANTED.items():
        assert (found[k][0] or [], found[k][1], found[k][2] or None, found[k][3]) == (
            authors,
            title,
            date,
            None,
        )
    assert not any(found["d2"]) and not any(found["d4"])
    assert summary["notes"] == {f"rows of {path.name} about no document": 1}
    assert sorted(Corpus.open(tmp_path / "c.zarr").axes["authors"].names().to_pylist()) == [
        "Ann",
        "Zoë",
        "李雷",
    ]


def test_a_file_without_a_header_by_row(tmp_path):
    path = tmp_path / "authors.tsv"
    path.write_text("1\tAnn\tZoë; Bob\n3\n2\tCyd\n\n9\tNobody\n".replace("\n\n", "\n"))
    titles = tmp_path / "titles.txt"
    titles.write_text('One "quote\n\nThree\r\n')
    options = {"meta_files": [f"{path}:row,authors", f"{titles}:title"], "key": "row", **OPTIONS}
    topicstream.ingest(
        str(texts(tmp_path, 4, title="old")),
        tmp_path / "c.zarr",
        meta={"title": "title"},
        **options,
    )
    assert fields(tmp_path / "c.zarr", "authors", "title") == {
        "d0": (["Ann", "Zoë", "Bob"], 'One "quote'),
        "d1": (["Cyd"], ""),
        "d2": ([], "Three"),
        "d3": ([], "old"),
    }


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet"])
def test_a_field_called_text(tmp_path, form):
    path = tmp_path / f"side.{form}"
    rows = [("d0", "A", "x"), ("d1", "B", "y")]
    if form == "parquet":
        columns = dict(
            zip(("id", "text", "party"), map(list, zip(*rows, strict=True)), strict=True)
        )
        pq.write_table(pa.table(columns), path)
    else:
        mark = "," if form == "csv" else "\t"
        path.write_text("".join(mark.join(row) + "\n" for row in [("id", "text", "party"), *rows]))
    ingest = topicstream.ingest
    ingest(texts(tmp_path, 3), out=tmp_path / "s", meta_files=path, heldout=0, **OPTIONS)
    assert fields(tmp_path / "s", "text", "party") == {
        "d0": ("A", "x"),
        "d1": ("B", "y"),
        "d2": (None, None),
    }


def test_lines_that_end_with_carriage_returns_alone(tmp_path):
    docs = tmp_path / "a.jsonl"
    docs.write_bytes(b'{"id":"d0","text":"word"}\r{"id":"d1","text":"other"}\r')
    (tmp_path / "m.csv").write_bytes(b"id,party\rd0,A\rd1,B\r")
    (tmp_path / "bare.tsv").write_bytes(b"d0\tAnn\rd1\tBo\tCy\r")
    (tmp_path / "links.csv").write_bytes(b"citing,cited\rd0,d1\r")
    topicstream.ingest(
        docs,
        out=tmp_path / "s",
        meta_files=[tmp_path / "m.csv", f"{tmp_path / 'bare.tsv'}:id,authors"],
        links=tmp_path / "links.csv",
        heldout=0,
        **OPTIONS,
    )
    assert fields(tmp_path / "s", "party", "authors", "links") == {
        "d0": ("A", ["Ann"], ["d1"]),
        "d1": ("B", ["Bo", "Cy"], []),
    }


@pytest.mark.parametrize(
    ("na", "wanted", "missing"), [((), "NA", {}), ("NA,NaN", None, {"country": 1, "party": 1})]
)
def test_values_that_say_that_there_is_none(tmp_path, na, wanted, missing):
    rows = [
        {"id": "d0", "text": "word", "country": "NA"},
        {"id": "d1", "text": "a", "country": "DE"},
    ]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    (tmp_path / "m.csv").write_text("id,party\nd0,NA\nd1,X\n")
    given = {"meta": "country", "meta_files": tmp_path / "m.csv", "na": na}
    summary = topicstream.ingest(path, out=tmp_path / "s", heldout=0, **given, **OPTIONS)
    assert fields(tmp_path / "s", "country", "party") == {"d0": (wanted, wanted), "d1": ("DE", "X")}
    assert summary["missing_values"] == missing


@pytest.mark.parametrize("form", ["arrow", "parquet", "memory"])
def test_a_float_that_is_no_number_is_missing(tmp_path, form):
    rows = [
        {"id": "d0", "text": "word word", "score": float("nan")},
        {"id": "d1", "text": "a word", "score": 2.5},
    ]
    table = pa.Table.from_pylist(rows)
    source = tmp_path / "a.parquet"
    if form == "parquet":
        pq.write_table(table, source)
    documents = {"arrow": table, "parquet": source, "memory": rows}[form]
    topicstream.ingest(documents, out=tmp_path / "s", meta="score", heldout=0, **OPTIONS)
    assert fields(tmp_path / "s", "score") == {"d0": (None,), "d1": ("2.5",)}


def test_an_id_in_two_rows(tmp_path):
    """The last row counts, rows of lists are joined, and the summary counts the row too many."""
    (tmp_path / "m.csv").write_text("id,party,authors\nd0,A,Ann\nd1,B,Bo\nd0,C,Cy\n")
    summary = topicstream.ingest(
        texts(tmp_path, 2),
        out=tmp_path / "s",
        meta_files=tmp_path / "m.csv",
        heldout=0,
        **OPTIONS,
    )
    assert fields(tmp_path / "s", "party", "authors") == {
        "d0": ("C", ["Ann", "Cy"]),
        "d1": ("B", ["Bo"]),
    }
    row = "rows of m.csv about a document that has another row"
    assert summary["notes"] == {f"{row} (the last one counts; lists are joined)": 1}
    (tmp_path / "authors.csv").write_text("id,authors\nd0,Ann\nd0,Cy\n")
    summary = topicstream.ingest(
        texts(tmp_path, 2),
        out=tmp_path / "t",
        meta_files=tmp_path / "authors.csv",
        heldout=0,
        **OPTIONS,
    )
    assert summary["notes"] == {}


def test_by_file(tmp_path):
    (tmp_path / "t" / "x").mkdir(parents=True)
    for name in ("t/a.txt", "t/x/b.txt", "t/x/c.txt"):
        (tmp_path / name).write_text("some words")
    side = tmp_path / "side.csv"
    side.write_text(f"file,date\na.txt,1\n{tmp_path}/t/x/b.txt,2\n,9\n")
    topicstream.ingest(
        str(tmp_path / "t"), tmp_path / "c.zarr", meta_files=str(side), key="file", **OPTIONS
    )
    assert sorted(fields(tmp_path / "c.zarr", "date").items()) == [
        ("a.txt", ("1",)),
        ("x/b.txt", ("2",)),
        ("x/c.txt", (None,)),
    ]


def test_by_file_named_without_its_ending(tmp_path):
    """As the tables of ELTeC name novels, with a dot in one of the names; what is a base name alone
    has no second ending.
    """
    (tmp_path / "t").mkdir()
    for name in ("FRA001_Adam.txt", "a.b.txt", ".hidden.txt", "plain"):
        (tmp_path / "t" / name).write_text("some words")
    side = tmp_path / "side.tsv"
    side.write_text("file\tdate\nFRA001_Adam\t1840\na.b\t1850\nplain\t1860\n\t1870\na\t1880\n")
    side.write_text(side.read_text().replace("file", "novel"))
    options = {
        "meta_files": f"{side}:file=novel",
        "key": "file",
        "format": "files",
        **OPTIONS,
    }  # all other columns are kept
    topicstream.ingest(str(tmp_path / "t"), tmp_path / "c.zarr", **options)
    dates = fields(tmp_path / "c.zarr", "date")
    assert (
        dates["FRA001_Adam.txt"] == ("1840",)
        and dates["a.b.txt"] == ("1850",)
        and dates["plain"] == ("1860",)
    )


def test_by_file_all_documents_of_it(tmp_path):
    side = tmp_path / "side.csv"
    side.write_text("file,labels\na.jsonl,news;old\n")
    topicstream.ingest(
        str(texts(tmp_path, 3)), tmp_path / "c.zarr", meta_files=str(side), key="file", **OPTIONS
    )
    assert set(map(str, fields(tmp_path / "c.zarr", "labels").values())) == {"(['news', 'old'],)"}


@pytest.mark.product
@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 16), st.sampled_from(["id", "row"]))
def test_joined_in_parts_as_in_one(tmp_path_factory, seed, n, key):
    """Many rows a document, in any order, some of no document; against a plain dictionary."""
    rng = random.Random(seed)
    tmp = tmp_path_factory.mktemp("side")
    authors = defaultdict(list)
    dates = {}
    links = defaultdict(list)
    rows = []
    pairs = []
    for _ in range(3 * n):
        d = rng.randrange(n + 3)
        name = rng.choice(["", "Ann", "Zoë", f"n{rng.randrange(9)}"])
        date = str(rng.randrange(5))
        rows.append((d + 1 if key == "row" else f"d{d}", name, date))
        if d < n:
            authors[d] += [name] if name else []
            dates[d] = date
        a = rng.randrange(n + 2)
        b = rng.randrange(n + 2)
        pairs.append((a + 1, b + 1) if key == "row" else (f"d{a}", f"d{b}"))
        if a < n and (b < n or key == "id"):
            links[a].append(f"d{b}")
    side = tmp / "side.tsv"
    cited = tmp / "links.tsv"
    side.write_text(
        f"{key}\tauthors\tdate\n" + "".join("\t".join(map(str, r)) + "\n" for r in rows)
    )
    cited.write_text("".join("\t".join(map(str, p)) + "\n" for p in pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_join, "JOINED_AT_ONCE", 3)
        patch.setattr(side_join, "LEAST_SORTED", 3)
        patch.setattr(side_join, "BYTES_OF_VALUE", 1 << 40)
        patch.setattr("topicstream.ingestion.store.side_files.PIECE_BYTES", 100)
        patch.setattr("topicstream.base.relations.ROWS", 5)
        topicstream.ingest(
            str(texts(tmp, n)),
            tmp / "c.zarr",
            meta_files=str(side),
            links=str(cited),
            key=key,
            piece_bytes=64,
            **OPTIONS,
        )
    for name, (who, when, what) in fields(tmp / "c.zarr", "authors", "date", "links").items():
        d = int(name[1:])
        assert (who or [], when) == (authors[d], dates.get(d))
        assert sorted(what or []) == sorted(links[d])
    assert not list(tmp.glob("*.wip"))


@pytest.mark.parametrize(
    ("name", "content", "spec", "key", "told"),
    [
        ("a.tsv", b"x\ty\n", "", "id", "no column 'id'"),
        ("a.tsv", b"id\tb\n", ":id,c", "id", "no column 'c'"),
        ("a.tsv", b"1\ta\tb\n", ":row,date", "row", "3 fields for 2 columns"),
        ("a.tsv", b"one\ta\n", ":row,authors", "row", "a.tsv:1: 'one' is not a document number"),
        ("a.tsv", b"1\ta\n2\t\xff\n", ":row,authors", "row", "a.tsv:2:"),
        ("a.csv", b"id,date\nd0,1,2\n", "", "id", "a.csv:2:"),
        ("b.jsonl", b'{"id": "d0", "date": "1"}\n{"date": 2}\n', "", "id", "b.jsonl:2:"),
        ("b.jsonl", b"nothing", "", "id", "expected JSON lines"),
        ("b.jsonl", b"[" * 100_000 + b"\n", "", "id", "expected JSON lines"),
        ("a.parquet", b"nothing", "", "id", "not a whole Parquet"),
        ("a.xml", b"nothing", "", "id", "a side file is named"),
        ("a.tsv", b"id\trow\n", "", "id", "is reserved for the store"),
        ("a.tsv", b"id\ta\ta\n", ":id,a", "id", "several columns"),
        ("a.tsv", b"", "", "id", "is empty"),
        ("a.tsv", b"id\ta\n", ":id,,a", "id", "a column has no name"),
        ("a.csv", b"id,a\nd0,1\rd1,2\n", "", "id", "a.csv:2: a carriage return in a field"),
        ("a.csv", b"id,a\rd0,1\nd1,2\n", "", "id", "a.csv: a carriage return in a field"),
        ("a.csv", b"d0,1\nd1,2\rd2,3\n", ":id,a", "id", "a.csv:2: a carriage return in a field"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(tmp_path, name, content, spec, key, told):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as e:
        topicstream.ingest(
            str(texts(tmp_path, 2)),
            tmp_path / "c.zarr",
            meta_files=f"{path}{spec}",
            key=key,
            **OPTIONS,
        )
    assert told in str(e.value) and "\n" not in str(e.value)
    assert not (tmp_path / "c.zarr").exists()


def test_a_long_field_of_a_file_without_a_header(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(f"d0,{'long' * 50_000}\nd1,short\n")
    out = tmp_path / "c.zarr"
    topicstream.ingest(texts(tmp_path, 2), out=out, meta_files=f"{path}:id,note", **OPTIONS)
    assert fields(out, "note") == {"d0": ("long" * 50_000,), "d1": ("short",)}


def test_no_such_file(tmp_path):
    for options in (
        {"meta_files": "nowhere.tsv"},
        {"links": "nowhere.tsv"},
        {"meta_files": "nowhere.tsv:a,b"},
    ):
        with pytest.raises(InputError, match=r"nowhere\.tsv.*no such file"):
            topicstream.ingest(str(texts(tmp_path, 2)), tmp_path / "c.zarr", **options, **OPTIONS)
    assert not list(tmp_path.glob("*.wip"))


@pytest.mark.parametrize("head", ["", "citing\tcited\n", "Source\tTarget\n"])
def test_links_with_and_without_a_header(tmp_path, head):
    path = tmp_path / "links.tsv"
    path.write_text(head + "d0\td1\nd0\td2\nd2\tgone\n")
    summary = topicstream.ingest(
        str(texts(tmp_path, 3)), tmp_path / "c.zarr", links=path, heldout="0", **OPTIONS
    )
    assert fields(tmp_path / "c.zarr", "links") == {
        "d0": (["d1", "d2"],),
        "d1": ([],),
        "d2": (["gone"],),
    }
    assert (summary["links"]["training"], summary["links"]["dangling"]) == (2, 1)


def test_links_of_one_column_are_refused(tmp_path):
    (tmp_path / "links.tsv").write_text("d0\nd1\n")
    with pytest.raises(InputError, match=r"links\.tsv: expected two columns"):
        topicstream.ingest(
            str(texts(tmp_path, 3)), tmp_path / "c.zarr", links=tmp_path / "links.tsv", **OPTIONS
        )


# -- who is held out
def years(n: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "id": f"d{i}",
            "text": f"word{i % 3} other",
            "year": str(i % 20),
            "labels": ["a", "b"][: i % 3],
        }
        for i in range(first, first + n)
    ]


def held(store: Path, name: str = "year") -> dict[str, set[Any]]:
    found = defaultdict(set)
    for part, value in fields(store, "part", name).values():
        found[part].add(str(value))
    return found


def test_a_field_says_who_is_held_out(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", years(200))
    summary = topicstream.ingest(
        str(source), tmp_path / "c.zarr", heldout="year=7", meta={"year": "year"}, **OPTIONS
    )
    assert (
        held(tmp_path / "c.zarr")["heldout"] == {"7"}
        and "7" not in held(tmp_path / "c.zarr")["train"]
    )
    assert (summary["documents_heldout"], summary["heldout_asked"]) == (10, "year=7")
    more = write_jsonl(tmp_path / "b.jsonl", years(40, 200))
    topicstream.ingest(str(more), tmp_path / "c.zarr", append=True, meta={"year": "year"})
    assert (
        held(tmp_path / "c.zarr")["heldout"] == {"7"}
        and "7" not in held(tmp_path / "c.zarr")["train"]
    )
    assert Corpus.open(tmp_path / "c.zarr").part(heldout=True).docs == 12


def test_a_label_says_who_is_held_out(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", years(60))
    topicstream.ingest(
        str(source), tmp_path / "c.zarr", heldout="labels=b", meta={"labels": "labels"}, **OPTIONS
    )
    assert held(tmp_path / "c.zarr", "labels") == {
        "heldout": {"['a', 'b']"},
        "train": {"[]", "['a']"},
    }


@pytest.mark.parametrize("share", few_quick(["5%", "30%", None, "40"], ["30%", "40"]))
def test_whole_groups_are_held_out_together(tmp_path, share):
    source = write_jsonl(tmp_path / "a.jsonl", years(400))
    summary = topicstream.ingest(
        str(source),
        tmp_path / "c.zarr",
        heldout=share,
        heldout_by="year",
        meta={"year": "year"},
        **OPTIONS,
    )
    groups = held(tmp_path / "c.zarr")
    assert groups["heldout"] and groups["train"] and not groups["heldout"] & groups["train"]
    wanted = {"5%": 20, "30%": 120, None: 40, "40": 40}[share]
    assert wanted <= summary["documents_heldout"] < wanted + 20
    more = write_jsonl(
        tmp_path / "b.jsonl", [*years(100, 400), {"id": "new", "text": "word1 other"}]
    )
    topicstream.ingest(str(more), tmp_path / "c.zarr", append=True, meta={"year": "year"})
    after = held(tmp_path / "c.zarr")
    assert (
        after["heldout"] - {"None"} == groups["heldout"] and not after["heldout"] & after["train"]
    )


def test_the_training_counts_leave_the_held_out_group_out(tmp_path):
    source = write_jsonl(
        tmp_path / "a.jsonl",
        [{"id": str(i), "text": f"own{i} common", "year": str(i % 2)} for i in range(40)],
    )
    topicstream.ingest(
        str(source), tmp_path / "c.zarr", heldout="year=1", meta={"year": "year"}, **OPTIONS
    )
    corpus = Corpus.open(tmp_path / "c.zarr")
    counts = dict(
        zip(corpus.axes["words"].names().to_pylist(), corpus.axes["words"].docs().tolist())
    )
    assert counts["common"] == 20 and "own1" not in counts and counts["own2"] == 1


def test_a_field_of_a_side_file_splits(tmp_path):
    side = tmp_path / "side.tsv"
    side.write_text("1\told\n2\tnew\n3\told\n")
    options = {"meta_files": f"{side}:row,era", "key": "row", "heldout": "era=old", **OPTIONS}
    topicstream.ingest(str(texts(tmp_path, 3)), tmp_path / "c.zarr", **options)
    assert held(tmp_path / "c.zarr", "era") == {"heldout": {"old"}, "train": {"new"}}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"heldout": "year=1"}, "no document has that field"),
        ({"heldout_by": "labels", "meta": {"labels": "labels"}}, "a field of one value"),
        ({"heldout_by": "year", "heldout": "year=1"}, "not FIELD=VALUE"),
        ({"heldout": "=1"}, "write FIELD=VALUE"),
        ({"heldout": "some"}, "FIELD=VALUE"),
    ],
)
def test_wrong_splits_are_told(tmp_path, options, told):
    source = write_jsonl(tmp_path / "a.jsonl", years(20))
    with pytest.raises(InputError, match=told):
        topicstream.ingest(str(source), tmp_path / "c.zarr", **options, **OPTIONS)


# -- the corpora of ../shared/data
@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "nips12").exists(), reason="needs ../shared/data")
def test_nips12(tmp_path):
    nips = DATA / "nips12"
    meta = [f"{nips}/authors.tsv:row,authors", f"{nips}/docs.jsonl.gz:title,labels"]
    topicstream.ingest(
        str(nips / "docword.txt.gz"),
        tmp_path / "c.zarr",
        meta_files=meta,
        links=nips / "links.tsv",
        key="row",
        heldout="0",
    )
    corpus = Corpus.open(tmp_path / "c.zarr")
    assert corpus.axes["authors"].size == 2037
    names = corpus.axes["authors"].names().to_pylist()
    block = next(corpus.blocks(axes=["authors", "links"]))
    rows = block.rows("authors")
    for line in (nips / "authors.tsv").read_text().splitlines():
        number, *authors = line.split("\t")
        d = int(number) - 1 - block.first_doc
        if d < block.n_docs:
            own = rows.ids[rows.local[rows.indptr[d] : rows.indptr[d + 1]]]
            assert {names[i] for i in own} == set(authors)
    _same_links(corpus, nips / "links.tsv")


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "cora").exists(), reason="needs ../shared/data")
def test_cora(tmp_path):
    cora = DATA / "cora"
    options = {
        "links": cora / "links.tsv",
        "meta_files": f"{cora}/titles.txt:title",
        "key": "row",
        "heldout": "0",
    }
    topicstream.ingest(str(cora / "docword.txt.gz"), tmp_path / "c.zarr", **options)
    _same_links(Corpus.open(tmp_path / "c.zarr"), cora / "links.tsv")
    titles = (cora / "titles.txt").read_text().split("\n")
    assert [t for (t,) in fields(tmp_path / "c.zarr", "title").values()] == titles[:2410]


def _same_links(corpus: Corpus, path: Path) -> None:
    wanted = defaultdict(set)
    for line in path.read_text().splitlines():
        a, b = (int(v) - 1 for v in line.split("\t"))
        if a != b:
            wanted[a].add(b)
            wanted[b].add(a)
    found = {}
    for block in corpus.blocks(axes=["links"]):
        ids, indptr, local = block.rows("links")
        for d in range(block.n_docs):
            if own := ids[local[indptr[d] : indptr[d + 1]]].tolist():
                found[block.first_doc + d] = set(own)
    assert found == dict(wanted)
