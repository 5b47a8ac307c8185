"""What a new user's own folders and files look like, and what ingest makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topicstream
from tests.listening import Listening
from tests.reading import Read, write
from topicstream.base.errors import InputError
from topicstream.cli.main import run
from topicstream.ingestion.open.names import is_about, is_mark, partitions


def spark_folder(root: Path) -> Path:
    """What ``df.write.partitionBy("date", "lang")`` leaves."""
    for n, part in enumerate(
        ("date=2020-01/lang=en", "date=2020-02/lang=__HIVE_DEFAULT_PARTITION__")
    ):
        (root / part).mkdir(parents=True)
        table = pa.table({"id": [f"{n}a", f"{n}b"], "text": ["alpha beta", "gamma"]})
        pq.write_table(table, root / part / "part-00000-c000.snappy.parquet")
        write(root / part / ".part-00000-c000.snappy.parquet.crc", b"crc\0\0\0")
        write(root / part / "part-00001.crc", b"crc\0\0\0")
    write(root / "_SUCCESS", "")
    write(root / "._SUCCESS.crc", b"crc\0")
    write(root / "_metadata", b"PAR1 cut short")
    write(root / "_temporary" / "0" / "part-1.parquet", b"PAR1 half a file")
    return root


def test_a_spark_folder_is_read_and_its_partitions_are_fields(tmp_path: Path) -> None:
    root = spark_folder(tmp_path / "out")
    got = Read(root, meta={"date": "date", "labels": "lang"})
    assert got.ids == ["0a", "0b", "1a", "1b"]
    assert got.meta["date"] == ["2020-01"] * 2 + ["2020-02"] * 2
    assert got.meta["labels"] == [["en"], ["en"], [], []]
    told = " ".join(Read(root).notes)
    assert "--meta date keeps it" in told and "--meta lang keeps it" in told
    with pytest.raises(InputError, match="no column 'country'"):
        Read(root, meta={"country": "country"})


def test_partitions_of_text_files_and_of_one_file(tmp_path: Path) -> None:
    write(tmp_path / "t" / "year=1999" / "a.txt", "alpha")
    write(tmp_path / "t" / "year=a%20b" / "b.txt", "beta")
    assert Read(tmp_path / "t", meta={"year": "year"}).meta["year"] == ["1999", "a b"]
    one = write(tmp_path / "year=2001" / "c.jsonl", '{"text": "gamma", "by": "me"}\n')
    assert Read(one, meta={"by": "by", "year": "year"}).meta == {"by": ["me"], "year": ["2001"]}
    assert partitions("a=1/b=2/c=3.txt") == {"a": "1", "b": "2"} and partitions("=1/1=2/x") == {}


def test_files_about_a_folder_are_left_out_and_told(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "sub/README.md"):
        write(tmp_path / name, "some words")
    write(tmp_path / "README.md", "about this corpus")
    write(tmp_path / "LICENSE", "do what you like")
    got = Read(tmp_path)
    assert got.ids == ["a.txt", "b.txt", "sub/README.md"]
    assert got.notes == {
        "files about the folder left out (LICENSE and 1 more; --format files takes them in)": 2
    }
    assert len(Read(tmp_path, format="files").ids) == 5
    alone = write(tmp_path / "alone" / "README.md", "the only one")
    assert Read(alone.parent).ids == ["README.md"]
    assert all(
        map(
            is_about,
            ["README", "readme.txt", "LICENSE-MIT", "COPYING", "CITATION.cff", "ReadMe.de.md"],
        )
    )
    assert not any(map(is_about, ["readmes.txt", "authors.tsv", "license.csv", "my-readme.txt"]))
    assert is_mark("_SUCCESS") and is_mark("x.crc") and not is_mark("_my_notes.txt")


def test_a_dataset_of_hugging_face_is_its_tables(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b"], "text": ["alpha beta", "gamma"]})
    for split in ("train", "test"):
        (tmp_path / "d" / split).mkdir(parents=True)
        pq.write_table(
            table.slice(split == "test", 1),
            tmp_path / "d" / split / f"{split}-00000-of-00001.parquet",
        )
        write(tmp_path / "d" / split / "dataset_info.json", '{\n  "features": {}\n}')
    for name in ("dataset_dict.json", "dataset_infos.json"):
        write(tmp_path / "d" / name, '{"splits": ["train"]}')
    write(tmp_path / "d" / "README.md", "---\nlicense: mit\n---\n")
    assert sorted(Read(tmp_path / "d").texts) == ["alpha beta", "gamma"]
    assert not is_mark("dataset.json") and not is_mark("my_dataset_info.json")


def test_a_pattern_in_quotes_is_what_it_matches(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "c.csv"):
        write(tmp_path / name, '{"text": "x"}\n' if name.endswith("l") else "text\nx\n")
    from topicstream.ingestion.open.memory import as_inputs

    assert as_inputs([tmp_path / "*.jsonl"], path=True) == [
        str(tmp_path / n) for n in ("a.jsonl", "b.jsonl")
    ]
    assert as_inputs(str(tmp_path / "**/*.csv"), path=True) == [str(tmp_path / "c.csv")]
    odd = write(tmp_path / "[1].jsonl", '{"text": "x"}\n')
    assert as_inputs(odd, path=True) == [str(odd)]  # a file of that very name
    with pytest.raises(InputError, match="no file matches this pattern"):
        as_inputs(tmp_path / "*.xml", path=True)


@pytest.mark.parametrize("address", ["ftp://host/key.parquet", "hdfs://b/c"])
def test_an_address_on_the_net_says_what_to_do(address: str) -> None:
    from topicstream.ingestion.open.memory import as_inputs

    with pytest.raises(
        InputError,
        match=rf"{address}: only files and s3, gs, az and https are read; fetch it first",
    ):
        as_inputs([Path(address)], path=True)


OFFICE = [
    ("a.xlsx", b"PK\x03\x04\x14\0", "save the sheet as CSV"),
    ("a.docx", b"PK\x03\x04\x14\0", "pandoc"),
    ("a.pdf", b"%PDF-1.7\n1 0 obj", "pdftotext"),
    ("scan", b"%PDF-1.7\n1 0 obj", "pdftotext"),
    ("a.rtf", b"{\\rtf1\\ansi", "plain text"),
    ("a.zip", b"PK\x03\x04", "unpack it"),
    ("a.pkl", b"\x80\x04\x95\0", "Parquet or JSON lines"),
    ("a.rds", b"X\0\0", "of R"),
]


@pytest.mark.parametrize(("name", "head", "said"), OFFICE)
def test_documents_of_office_programs_say_what_to_do(
    tmp_path: Path, name: str, head: bytes, said: str
) -> None:
    path = write(tmp_path / "d" / name, head)
    with pytest.raises(InputError, match=said):
        Read(path)
    write(tmp_path / "d" / "b.txt", "words")
    with pytest.raises(InputError, match=rf"{name}.*{said}.*or move it out of the folder"):
        Read(path.parent)
    assert Read(write(tmp_path / "plain.db.txt", "words")).texts == ["words"]


def test_a_folder_with_a_stray_binary_names_options_that_leave_it_out(tmp_path: Path) -> None:
    write(tmp_path / "d" / "a.txt", "words")
    write(tmp_path / "d" / "scan.pdf", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n\x81")
    with pytest.raises(InputError, match="leave such files out by --format=files --on-error=skip"):
        Read(tmp_path / "d")
    assert Read(tmp_path / "d", format="files", on_error="skip").texts == ["words"]
    (tmp_path / "d" / "a.txt").rename(tmp_path / "d" / "a.jsonl")
    write(tmp_path / "d" / "a.jsonl", '{"text": "words"}\n')
    with pytest.raises(InputError, match="leave such files out by --format=jsonl"):
        Read(tmp_path / "d")
    assert Read(tmp_path / "d", format="jsonl").texts == ["words"]


def test_a_store_given_for_raw_input_and_raw_input_for_a_store(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.txt", "sea ship\nwind storm\n" * 10)
    write(tmp_path / "raw" / "b.txt", "sea ship")
    assert (
        run(["ingest", "a.txt", "-q"]) == 0
        and run(["train", "-K", "2", "--passes", "2", "-q"]) == 0
    )
    for name in ("corpus.zarr", "model"):
        assert run(["ingest", name, "--out", "again"]) == 3
        said = (
            f"{name}: a corpus store or a model, not raw input; other commands take it "
            f"(--corpus, --model)"
        )
        assert said in capsys.readouterr().err
    for name, advice in (("a.txt", "a.txt"), ("raw", "raw"), ("none", "PATH --out none")):
        assert run(["train", "-K", "2", "--corpus", name, "--model", "m"]) == 3
        assert f"create one with `topics ingest {advice}`" in capsys.readouterr().err
    write(tmp_path / "raw" / "manifest.json", "{}")  # anybody's
    assert run(["ingest", "raw", "--format", "files", "--out", "of-raw", "-q"]) == 0


LONG = "a longer text with a comma, a quote and some more words"


def test_csv_without_a_header(tmp_path: Path) -> None:
    rows = "".join(f'id{i},{"sport" if i % 2 else "money"},"{LONG} {i}"\n' for i in range(30))
    path = write(tmp_path / "a.csv", rows)
    got = Read(path)  # guessed: the labels of the first line come again
    assert len(got.ids) == 30 and got.texts[0] == f"{LONG} 0" and got.ids[0] == "a.csv:1"
    assert (
        next(iter(got.notes))
        == "CSV files without a header, column 3 taken for the text (--text-field, --header)"
    )
    got = Read(path, id_field="1", meta={"labels": "2"})
    assert got.ids[:2] == ["id0", "id1"] and got.meta["labels"][:2] == [["money"], ["sport"]]
    got = Read(path, text_field="2", header=False)
    assert got.texts[:2] == ["money", "sport"] and "header" not in str(got.notes)
    with pytest.raises(InputError, match=r"a\.csv:1: no column 'body'; choose one of 1, 2, 3"):
        Read(path, text_field="body", header=False)
    with pytest.raises(InputError, match="no column 'text'"):
        Read(path, header=True)
    one = write(tmp_path / "b.csv", "id;body\n1;some words\n2;more words\n")
    with pytest.raises(
        InputError,
        match=r"no column 'text'; choose one of id, body.*--no-header where the first line",
    ):
        Read(one)
    assert Read(one, text_field="2", id_field="1").texts == ["body", "some words", "more words"]
    assert Read(write(tmp_path / "c.csv", "1,2\nx,y\n"), text_field="2").texts == [
        "y"
    ]  # these are its names
    assert Read(write(tmp_path / "d.csv", "17,the only document there is\n")).texts == [
        "the only document there is"
    ]


GERMAN = "Über große Dinge, die im Café gesagt wurden"


@pytest.mark.parametrize("name", ["d/a.txt", "a.txt", "a.csv", "a.tar"])
def test_one_text_that_is_not_utf8(tmp_path: Path, name: str) -> None:
    def file(text: bytes) -> Path:
        if name == "a.tar":
            import io
            import tarfile

            with tarfile.open(tmp_path / name, "w") as tar:
                for n, data in (("a", text), ("b", "schöne Worte".encode())):
                    info = tarfile.TarInfo(n)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
            return tmp_path / name
        if name == "d/a.txt":
            write(tmp_path / "d" / "b.txt", "schöne Worte")
            return write(tmp_path / name, text).parent
        quoted = (
            b'id,text\n1,"%s"\n2,sch\xc3\xb6ne Worte\n' % text
            if name == "a.csv"
            else b"%s\nsch\xc3\xb6ne Worte\n" % text
        )
        return write(tmp_path / name, quoted)

    got = Read(file(GERMAN.encode("cp1252")))
    assert got.texts == [GERMAN, "schöne Worte"]
    assert (
        got.notes.pop("documents not UTF-8, read as windows-1252 (--encoding says otherwise)") == 1
    )
    assert set(got.notes) <= {"lines, each a document (--format files makes each file one)"}
    with pytest.raises(InputError, match="not valid UTF-8"):
        Read(file(GERMAN.encode("cp1252")), encoding="utf-8")
    for other in (
        "Важные вещи".encode("cp1251"),
        GERMAN.encode()[:-1] + b"\xc3 f\xc3\xbcr",
        "重要的事情".encode("gbk"),
    ):
        with pytest.raises(InputError, match="not valid UTF-8"):
            Read(file(other))


def test_a_header_that_is_not_utf8(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "Überschrift;text\nGröße;schöne Worte\n".encode("cp1252"))
    got = Read(path, meta={"title": "Überschrift"})
    assert got.texts == ["schöne Worte"] and got.meta["title"] == ["Größe"]


def test_every_word_list_we_write_is_read_back(tmp_path: Path) -> None:
    from topicstream.ingestion.parse.counts import read_vocabulary_file
    from topicstream.ingestion.tokens.vocabulary import TokenVocabulary
    from topicstream.model.exchange import write_word_list

    words = ["plain", "\u00a0", "new\u00a0york", "a\u2028b", "c\x85d", "e\x1cf", "\u3000", "über"]
    write_word_list(tmp_path / "vocab.txt", pa.array(words, pa.large_string()), force=False)
    assert TokenVocabulary.from_file(tmp_path / "vocab.txt").words.to_pylist() == words
    assert read_vocabulary_file(tmp_path / "vocab.txt").to_pylist() == words
    assert TokenVocabulary.from_file(
        write(tmp_path / "w.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")
    ).words.to_pylist() == ["one", "two"]
    TokenVocabulary.from_words(words).save(tmp_path / "vocab.parquet")
    assert TokenVocabulary.from_file(tmp_path / "vocab.parquet").words.to_pylist() == words


def test_fields_between_commas_and_an_append_that_comes_without_them(tmp_path):
    for name, first in (("a", 0), ("b", 40)):
        lines = [
            json.dumps(
                {
                    "id": f"d{i}",
                    "text": f"alpha beta w{i % 5}",
                    **({"authors": [f"A{i % 6}"], "labels": ["x"]} if name == "a" else {}),
                }
            )
            for i in range(first, first + 40)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    out = tmp_path / "c.zarr"
    done = topicstream.ingest(tmp_path / "a.jsonl", out, meta=("authors,labels",), min_df=1)
    assert done["axes"] == {"authors": 6, "labels": 1}
    told = Listening()
    topicstream.ingest(tmp_path / "b.jsonl", out, append=True, progress=told)
    assert any(
        "the store has authors, labels of its documents, but these came without" in line
        for line in told.said
    )
