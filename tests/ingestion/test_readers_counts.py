"""Bag-of-words formats: UCI docword, LDA-C, Matrix Market, svmlight."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reading import DATA, Read, needs_data, write
from topicstream import Corpus, ingest
from topicstream.base.errors import InputError, UsageError
from topicstream.ingestion.parse.counts import order_cells

few = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
W = 9
bag = st.dictionaries(st.integers(0, W - 1), st.integers(1, 100_000), max_size=W)
bags_of = st.lists(bag, max_size=12)
size_of = st.integers(1, 120)


def docword(bags: list[dict[int, int]], tail: str = "\n") -> str:
    lines = [f"{d + 1} {w + 1} {n}" for d, b in enumerate(bags) for w, n in b.items()]
    return "\n".join([str(len(bags)), str(W), str(len(lines)), *lines]) + tail


@few
@given(bags=bags_of, size=size_of, tail=st.sampled_from(["\n", "", "\n\n", " \r\n"]))
def test_docword_round_trip(
    tmp_path: Path, bags: list[dict[int, int]], size: int, tail: str
) -> None:
    got = Read(
        write(tmp_path / "docword.x.txt", docword(bags, tail)), piece_bytes=size, format="docword"
    )
    assert got.bags == bags
    assert got.ids == [f"docword.x.txt:{d + 1}" for d in range(len(bags))]
    assert not bags or got.words == [str(w + 1) for w in range(W)]


def test_docword_with_its_words_and_oddities(tmp_path: Path) -> None:
    write(tmp_path / "vocab.k.txt", "a\nb\nc\n")
    text = "4\n3\n6\n  1\t3  2\n1 1 1\r\n1 3 5\n\n3 2 0\n3 1 70000\n3 3 1\n"
    got = Read(write(tmp_path / "docword.k.txt", text))
    assert got.words == ["a", "b", "c"]
    assert got.bags == [{0: 1, 2: 7}, {}, {0: 70000, 2: 1}, {}]
    assert got.notes == {"values of zero left out": 1}
    assert got.dtypes == {"int64"}


def test_docword_folder_takes_the_vocabulary_for_what_it_is(tmp_path: Path) -> None:
    write(tmp_path / "docword.txt.gz", gzip.compress(b"1\n2\n1\n1 2 3\n"))
    write(tmp_path / "vocab.txt", "a\nb\n")
    got = Read(tmp_path)
    assert got.bags == [{1: 3}] and got.words == ["a", "b"] and got.ids == ["docword.txt.gz:1"]


BAD_LINES = {
    "2 9 1": "word number 9 is out of range",
    "2 0 1": "word number 0 is out of range",
    "9 1 1": "document number 9 is out of range",
    "0 1 1": "document number 0 is out of range",
    "2 1 -4": "a count that is negative",
    "2 1": "not the numbers",
    "2 1 1 1": "not the numbers",
    "2 1 x": "not the numbers",
    "1 2 1": "a document out of order",
    "2 1 99999999999999999999": "not the numbers",
    "\x00": "not the numbers",
}


@pytest.mark.quick("2 1", "9 1 1", "2 1 x")
@pytest.mark.parametrize("line", BAD_LINES)
def test_docword_bad_line(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "docword.txt", f"3\n2\n4\n1 1 1\n2 1 1\n{line}\n3 2 1\n")
    with pytest.raises(InputError, match=rf"docword\.txt:6: {BAD_LINES[line]}"):
        Read(path, format="docword")
    got = Read(path, on_error="skip", format="docword")
    assert got.bags == [{0: 1}, {0: 1}, {1: 1}]
    assert [(r.line, r.start) for r in got.rejects] == [(6, line.encode())]
    for size in range(1, 40):
        assert Read(path, on_error="skip", piece_bytes=size, format="docword").bags == got.bags


@pytest.mark.parametrize("name", ["docword.txt", "m.mtx"])
def test_triples_that_count_from_0(tmp_path: Path, name: str) -> None:
    """Document 0 has word 0 twice and word 2 once, document 1 word 1."""
    head = "2\n3\n3\n" if name == "docword.txt" else f"{MTX}2 3 3\n"
    path = write(tmp_path / name, head + "0 0 2\n0 2 1\n1 1 4\n")
    with pytest.raises(InputError) as caught:
        Read(path)
    assert "document number 0 is out of range (1 to 2); give --first-id 0" in str(caught.value)
    got = Read(path, first_id=0)
    assert got.bags == [{0: 2, 2: 1}, {1: 4}]
    assert got.ids == [f"{name}:0", f"{name}:1"] and got.words == ["0", "1", "2"]
    path.write_text(head + "0 0 2\n0 3 1\n1 1 4\n")
    with pytest.raises(InputError, match=r"word number 3 is out of range \(0 to 2") as caught:
        Read(path, first_id=0)
    assert "first-id" not in str(caught.value)


MTX = "%%MatrixMarket matrix coordinate integer general\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("3\n2\n9\n1 1 1\n", "9 cells do not fit 3 x 2"),
        ("3\n2\n4\n1 1 1\n", "1 cells where the header says 4"),
        ("3\n2\n1\n1 1 1\n2 1 1\n", "2 cells where the header says 1"),
        (
            "4294967296\n2\n4294967296\n1 1 1\n",
            "1 cells where the header says 4294967296",
        ),  # not as many documents
        ("99999999999\n2\n1\n1 1 1\n", "is the header right"),
        ("1\n99999999999\n1\n1 1 1\n", "words; at most"),
        ("a\nb\n", "does not begin with three lines"),
        ("", "does not begin with three lines"),
    ],
)
def test_docword_bad_file(tmp_path: Path, text: str, why: str) -> None:
    path = write(tmp_path / "docword.txt", text)
    with pytest.raises(InputError, match=why):
        Read(path, format="docword")
    assert [r for r in Read(path, format="docword", on_error="skip").rejects if why in r.reason]


def test_a_file_of_counts_without_a_header_is_left_out_beside_a_good_one(tmp_path: Path) -> None:
    good = write(tmp_path / "docword.txt", "3\n2\n3\n1 1 1\n2 1 1\n3 2 1\n")
    bad = write(tmp_path / "zero.txt", "a\nb\n")
    summary = ingest(
        [good, bad],
        tmp_path / "store",
        format="docword",
        on_error="skip",
        heldout=0,
        progress=False,
    )
    assert summary["documents"] == 3 and summary["rejected"] == 1


def test_vocabulary_of_another_length(tmp_path: Path) -> None:
    path = write(tmp_path / "docword.txt", "1\n2\n1\n1 2 3\n")
    write(tmp_path / "vocab.txt", "a\n")
    with pytest.raises(InputError, match=r"vocab\.txt: 1 words, but .* states 2"):
        Read(path)
    other = write(tmp_path / "other.words", "x\ny\n")
    assert Read(path, words=other).words == ["x", "y"]
    with pytest.raises(InputError, match="no such file"):
        Read(path, words=tmp_path / "missing")


@pytest.mark.quick("svmlight")
@few
@given(
    data=st.binary(max_size=80) | st.text("0123456789 \n-:.#e", max_size=80).map(str.encode),
    size=size_of,
)
@pytest.mark.parametrize("name", ["docword", "ldac", "svmlight", "mtx"])
def test_any_bytes_end_in_documents_or_one_clear_error(
    tmp_path: Path, data: bytes, size: int, name: str
) -> None:
    start = {
        "docword": b"5\n5\n5\n",
        "mtx": b"%%MatrixMarket matrix coordinate real general\n5 5 5\n",
    }.get(name, b"")
    path = write(tmp_path / "any.txt", start + data)
    for on_error in ("fail", "skip"):
        try:
            got = Read(path, format=name, on_error=on_error, piece_bytes=size)
            assert got.bags or got.rejects or name in ("ldac", "svmlight")
        except InputError as e:
            assert "\n" not in str(e) and "any.txt" in str(e)


@few
@given(bags=bags_of, size=size_of)
def test_ldac_round_trip(tmp_path: Path, bags: list[dict[int, int]], size: int) -> None:
    text = "".join(
        " ".join([str(len(b)), *(f"{w}:{n}" for w, n in b.items())]) + "\n" for b in bags
    )
    path = write(tmp_path / "a.ldac", text)
    write(tmp_path / "vocab.txt", "".join(f"w{w}\n" for w in range(W)))
    got = Read(path, piece_bytes=size)
    assert got.bags == bags
    assert got.ids == [f"a.ldac:{d + 1}" for d in range(len(bags))]


def test_ldac_bad_lines_and_numbered_words(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ldac", "2 0:1 3:2\n3 0:1\n1 0:-1\n1 0:x\n0\n1 2:1.5\n2 1:1 1:4\n")
    with pytest.raises(InputError, match=r"a\.ldac:2: not 'number:count' pairs, or not as many"):
        Read(path)
    got = Read(path, on_error="skip")
    assert got.bags == [{0: 1, 3: 2}, {}, {1: 5}]
    assert got.words == ["0", "1", "2", "3"]
    assert [r.line for r in got.rejects] == [2, 3, 4, 6]


@few
@given(bags=bags_of, size=size_of)
def test_svmlight_round_trip(tmp_path: Path, bags: list[dict[int, int]], size: int) -> None:
    lines = [
        f"l{d % 3},x {' '.join(f'{w + 1}:{n}' for w, n in b.items())} # c {d}:7\n"
        for d, b in enumerate(bags)
    ]
    write(tmp_path / "a.vocab", "".join(f"w{w}\n" for w in range(W)))
    got = Read(write(tmp_path / "a.svm", "".join(lines)), piece_bytes=size)
    assert got.bags == bags
    assert got.meta.get("labels", []) == [[f"l{d % 3}", "x"] for d in range(len(bags))]


def test_svmlight_weights_and_ids_from_zero(tmp_path: Path) -> None:
    path = write(tmp_path / "a.svm", "# made by hand\n-1 qid:3 1:0.5 4:2.5e-1\n+1 2:3.0\n1\n")
    with pytest.raises(InputError, match=r"a\.svm:2: a weight that is no count; --weighted"):
        Read(path)
    got = Read(path, weighted=True)
    assert got.bags == [{0: 0.5, 3: 0.25}, {1: 3.0}, {}] and got.dtypes == {"float32"}
    zero = write(tmp_path / "b.svm", "1 0:2 1:1\n")
    with pytest.raises(InputError, match=r"b\.svm:1: word number 0 .*give --first-id 0"):
        Read(zero)
    assert Read(zero, first_id=0).bags == [{0: 2, 1: 1}]


def test_ldac_from_one(tmp_path: Path) -> None:
    write(tmp_path / "words.txt", "a\nb\nc\n")
    path = write(tmp_path / "a.ldac", "1 1:4\n2 1:2 3:1\n")
    with pytest.raises(InputError, match=r"a\.ldac:2: word number 3 .*give --first-id 1 where"):
        Read(path)
    assert Read(path, first_id=1).bags == [{0: 4}, {0: 2, 2: 1}]
    far = write(tmp_path / "b.ldac", "1 9:4\n")
    with pytest.raises(
        InputError, match=r"word number 9 .* 3 words, counted from 0; name the right"
    ):
        Read(far)


@pytest.mark.parametrize("field", ["integer", "real", "pattern"])
def test_matrix_market_as_scipy_writes_it(tmp_path: Path, field: str) -> None:
    rng = np.random.default_rng(3)
    dense = rng.poisson(0.3, (40, 17)) * (rng.random((40, 17)) if field == "real" else 1)
    dense = (dense > 0).astype(int) if field == "pattern" else dense
    sink = io.BytesIO()
    scipy.io.mmwrite(sink, scipy.sparse.csr_matrix(dense), comment="made by scipy", field=field)
    path = write(tmp_path / "a.mtx", sink.getvalue())
    got = Read(path, piece_bytes=50, weighted=field == "real")
    assert got.ids[-1] == "a.mtx:40"
    back = np.zeros((40, 17))
    for d, b in enumerate(got.bags):
        for w, n in b.items():
            back[d, w] = n
    np.testing.assert_allclose(back, dense, rtol=1e-6)
    assert got.dtypes == ({"float32"} if field == "real" else {"int64"})


def test_matrix_market_refusals(tmp_path: Path) -> None:
    banner = "%%MatrixMarket matrix coordinate integer"
    path = write(tmp_path / "a.mtx", f"{banner} symmetric\n1 1 1\n1 1 1\n")
    with pytest.raises(InputError, match="integer symmetric; coordinate"):
        Read(path)
    by_column = write(tmp_path / "b.mtx", f"{banner} general\n2 2 3\n1 1 1\n2 1 1\n1 2 1\n")
    with pytest.raises(InputError, match=r"b\.mtx:5: a document out of order; sort"):
        Read(by_column)


def by_hand(path: Path) -> tuple[int, int, list[Counter[int]]]:
    with gzip.open(path, "rt") as f:
        n_docs, n_words, _ = (int(f.readline()) for _ in range(3))
        bags: list[Counter[int]] = [Counter() for _ in range(n_docs)]
        for line in f:
            d, w, n = map(int, line.split())
            bags[d - 1][w - 1] += n
    return n_docs, n_words, bags


@needs_data
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("kos", (3430, 6906, 353_160, 467_714)),
        ("nips12", (1740, 13_649, 933_295, 2_301_375)),
        ("cora", (2410, 2961, 103_699, 136_394)),
        ("ap", (2246, 10_473, 302_031, 435_838)),
        ("poliblog", (773, 1290, 70_024, 105_225)),
    ],
)
@pytest.mark.slow
def test_real_bags_against_a_few_lines(name: str, sizes: tuple[int, int, int, int]) -> None:
    path = DATA / name / "docword.txt.gz"
    got = Read(path, piece_bytes=1 << 20)
    assert (len(got.ids), len(got.words or []), got.cells, got.tokens) == sizes
    n_docs, n_words, bags = by_hand(path)
    assert (n_docs, n_words) == sizes[:2] and got.bags == bags
    assert got.words == (DATA / name / "vocab.txt").read_text().split("\n")[:n_words]


@needs_data
def test_real_ldac_is_the_same_as_its_docword(tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(DATA / "ap" / "ap.tgz") as archive:
        for member in ("ap/ap.dat", "ap/vocab.txt"):
            content = archive.extractfile(member)
            assert content is not None
            write(tmp_path / member, content.read())
    got = Read(tmp_path / "ap" / "ap.dat")
    assert got.bags == Read(DATA / "ap" / "docword.txt.gz").bags
    assert len(got.words or []) == 10_473


@pytest.mark.parametrize("most", [3, 50, 2**31 - 1])
def test_cells_are_put_in_order_as_by_lexsort(most):
    """Repeated words are summed in the order in which they stand; the largest ids do not
    overflow.
    """
    rng = np.random.default_rng(most % 7)
    docs = np.sort(rng.integers(0, 2**31 - 1, 20)).repeat(10)
    words = rng.integers(0, most, 200)
    counts = rng.random(200).astype(np.float32)
    order = np.lexsort((words, docs))
    starts = np.flatnonzero(np.diff(docs[order], prepend=-1) | np.diff(words[order], prepend=-1))
    got = order_cells(docs, words, counts)
    np.testing.assert_array_equal(got[0], docs[order][starts])
    np.testing.assert_array_equal(got[1], words[order][starts])
    np.testing.assert_array_equal(got[2], np.add.reduceat(counts[order], starts))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("third", "weighted"), [("3.0", False), ("3e0", False), ("3.5", True)])
def test_whole_numbers_of_a_real_matrix_are_counts(
    tmp_path: Path, third: str, weighted: bool, turned: bool
) -> None:
    sizes, places = ("3 2 3", ("1 1", "2 2", "3 2")) if turned else ("2 3 3", ("1 1", "2 2", "2 3"))
    lines = "\n".join(
        f"{place} {value}" for place, value in zip(places, ("2", "1.0", third), strict=True)
    )
    path = write(
        tmp_path / "a.mtx", f"%%MatrixMarket matrix coordinate real general\n{sizes}\n{lines}\n"
    )
    if weighted:
        with pytest.raises(
            InputError, match=r"a\.mtx:5: a weight that is no count; --weighted accepts it"
        ):
            ingest(path, tmp_path / "c.zarr", transpose=turned)
    ingest(
        path,
        tmp_path / "c.zarr",
        transpose=turned,
        weighted=weighted,
        min_df=1,
        max_df=1.0,
        heldout=0,
    )
    store = Corpus.open(tmp_path / "c.zarr")
    assert store.weighted is weighted and store.to_scipy().sum() == 3 + float(third)


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        (
            "a.jsonl",
            '{"text": "a b"}\n',
            {"first_id": 0},
            "--first-id 0: .* as jsonl, which leaves no choice of the first number; leave it out",
        ),
        ("a.csv", "text\na b\n", {"first_id": 1}, "--first-id 1: .* as csv"),
        ("a.jsonl", '{"text": "a b"}\n', {"transpose": True}, "--transpose: .*no matrix"),
        ("a.csv", "text\na b\n", {"stride": 8}, "--stride 8: .* as csv, which has no pixels"),
    ],
)
def test_an_option_that_a_format_has_no_use_for_is_refused(
    tmp_path: Path, name: str, text: str, options: dict[str, object], said: str
) -> None:
    write(tmp_path / "vocab.txt", "a\nb\n")
    path = write(tmp_path / name, text)
    with pytest.raises(UsageError, match=said):
        ingest(path, tmp_path / "c.zarr", min_df=1, **options)
    assert not (tmp_path / "c.zarr").exists()
