"""Options as users write them: units, impossible values (exit 2), what is told once and before it
is too late.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ingest_tools import documents, write_jsonl
from topicstream.base.errors import UsageError
from topicstream.base.options import seconds, share, share_or_number
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.settings import Heldout, make_options, word_limits


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    write_jsonl(folder / "a.jsonl", documents(150))
    assert (
        run(
            [
                "ingest",
                str(folder / "a.jsonl"),
                "--out",
                str(folder / "corpus.zarr"),
                "--min-df",
                "1",
                "-q",
            ]
        )
        == 0
    )
    return folder


def test_times_shares_and_numbers():
    for text, value in (
        ("90", 90),
        ("90s", 90),
        ("5min", 300),
        ("2h", 7200),
        ("1 day", 86400),
        ("1.5 hours", 5400),
    ):
        assert seconds(text) == value
    for text, value in (("0.5", 0.5), ("50%", 0.5), ("5 %", 0.05), ("0", 0.0), ("1", 1.0)):
        assert share(text) == value
    for text, value in (("0.5", 0.5), ("50%", 0.5), ("500", 500), ("1", 1)):
        assert share_or_number(text) == value and type(share_or_number(text)) is type(value)
    for wrong, read in (
        ("5 fortnights", seconds),
        ("-1s", seconds),
        ("150%", share),
        ("nan", share),
        ("2.5", share_or_number),
    ):
        with pytest.raises(UsageError):
            read(wrong)
    assert (
        Heldout.parse("0.1").share == Heldout.parse(0.1).share == Heldout.parse("10%").share == 0.1
    )
    assert word_limits(make_options(min_df="2%"), 1000, True).min_df == 20
    assert word_limits(make_options(min_df=0.02, max_df="0.5"), 1000, True).max_df == 500


IMPOSSIBLE = [
    "train --mem-limit two",
    "train --algo lda",
    "train --alpha -1",
    "train --beta 0",
    "train --start nowhere",
    "train --start warm",
    "train --max-time soon",
    "train -K 0",
    "train -k 5",
    "eval --split 3",
    "eval --mem-limit two",
    "show -k 99",
    "show --relevance 7",
    "show --reduce-to 99",
    "edit --drop 77",
    "infer x --min-prob 2",
    "infer x --min-prob half",
    "ingest RAW --heldout 1.5",
    "ingest RAW --min-df 2.5",
    "ingest RAW --max-df 200%",
    "ingest RAW --min-length 0",
    "ingest RAW --token-pattern (",
    "ingest RAW --keep smileys",
    "ingest RAW --encoding klingon",
    "ingest RAW --format klingon",
    "ingest RAW --stopwords klingon",
    "ingest RAW --stem klingon",
    "ingest RAW --workers 0",
    "ingest RAW --max-vocab 0",
    "ingest RAW --grow-vocab",
    "export --format klingon --out x",
    "report --out page.txt",
    "retrain --max-time soon",
]


@pytest.mark.parametrize("line", IMPOSSIBLE)
def test_an_impossible_value_is_a_usage_error(store, line, monkeypatch, capsys):
    monkeypatch.chdir(store)
    if not (store / "model").exists():
        assert run(["train", "-K", "3", "--passes", "2", "--algo", "atbp", "-q"]) == 0
    capsys.readouterr()
    before = sorted(p.name for p in store.iterdir())
    args = [str(store / "a.jsonl") if a == "RAW" else a for a in line.split()]
    if args[0] == "ingest":
        args += ["--out", "other.zarr"]
    assert run(args) == 2, line
    said = capsys.readouterr()
    assert said.out == "" and "Traceback" not in said.err
    assert [n for n in sorted(p.name for p in store.iterdir()) if n not in before] in (
        [],
        ["other.zarr.wip"],
    )


def test_a_model_that_is_no_option_is_told_of_as_the_argument(capsys):
    for command, place in (("compare", "A"), ("info", "PATH")):
        assert run([command, "--model", "m"]) == 2
        assert f"it is {place}, without a name, here" in capsys.readouterr().err


def test_a_store_and_a_model_may_be_given_by_path_or_by_option(store, monkeypatch, capsys):
    monkeypatch.chdir(store)
    assert (
        run(
            [
                "train",
                "corpus.zarr",
                "-K",
                "3",
                "--passes",
                "1",
                "--algo",
                "atbp",
                "--model",
                "by-path",
                "-q",
            ]
        )
        == 0
    )
    (store / "current").symlink_to("by-path")
    assert (
        run(["show", "current", "--words", "2"]) == 0
        and run(["report", "--model", "by-path", "--force", "-q"]) == 0
    )
    assert (
        run(["eval", "by-path", "corpus.zarr", "--heldout", "-q"]) == 0
        and run(["compact", "--corpus=corpus.zarr", "-q"]) == 0
    )
    capsys.readouterr()
    assert run(["show", "nothing-there"]) == 2
    assert "(nothing-there); here --model and --corpus say where it is" in capsys.readouterr().err


def test_names_of_other_programs_are_known(capsys):
    for command, ours in (
        ("train", "it is --model here"),
        ("import", "it is --model here"),
        ("eval", "it is > FILE (results go to standard output) here"),
    ):
        assert run([command, "--out", "x"]) == 2
        assert ours in capsys.readouterr().err
    for given, ours in (
        ("-k", "-K"),
        ("--iterations", "--passes"),
        ("--num-topics", "-K"),
        ("--epochs", "--passes"),
    ):
        assert run(["train", given, "5"]) == 2
        assert f"No such option: {given}; it is {ours} here" in capsys.readouterr().err


def test_far_more_topics_than_documents_is_told_before_training(store, monkeypatch, capsys):
    monkeypatch.chdir(store)
    assert run(["train", "-K", "400", "--passes", "1", "--algo", "atbp", "--model", "many"]) == 0
    said = capsys.readouterr().err
    assert said.index("warning: 400 topics for 135 training documents") < said.index("memory plan")


def test_verbose_lines_have_the_time(store, monkeypatch, capsys):
    monkeypatch.chdir(store)
    assert (
        run(
            [
                "train",
                "-K",
                "3",
                "--passes",
                "1",
                "--algo",
                "atbp",
                "--force",
                "--model",
                "timed",
                "-v",
            ]
        )
        == 0
    )
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(
        line[:4].isdigit() and line[10] == "T" for line in lines if "topics," not in line
    )


def test_a_failed_night_prints_its_line_too(tmp_path, capsys):
    config = tmp_path / "retrain.toml"
    assert run(["retrain", "--config", str(config)]) == 2
    assert "not found" in json.loads(capsys.readouterr().out)["failed"]
    assert run(["retrain", "--config", str(config), "--init"]) == 0
    (tmp_path / "raw" / "bad.jsonl").write_text("{not json\n")
    capsys.readouterr()
    code = run(["retrain", "--config", str(config)])
    line = json.loads(capsys.readouterr().out)
    assert code == line["exit_code"] == 3 and "bad.jsonl" in line["failed"]


def test_python_dash_m_and_an_old_python(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "topicstream", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.startswith("topics, version")
    # before anything else is imported
    errors = "import topicstream; print(topicstream.errors.InputError.__name__)"
    assert (
        subprocess.run([sys.executable, "-c", errors], capture_output=True, text=True).stdout
        == "InputError\n"
    )
    old = "import sys; sys.version_info = (3, 10, 1); import topicstream"
    done = subprocess.run([sys.executable, "-c", old], capture_output=True, text=True)
    assert (
        done.returncode != 0 and done.stderr.count("\n") == 1 and "needs Python 3.11" in done.stderr
    )


def test_heldout_as_a_share(store, tmp_path):
    for asked in ("0.2", "20%"):
        assert (
            run(
                [
                    "ingest",
                    str(store / "a.jsonl"),
                    "--out",
                    str(tmp_path / asked),
                    "--heldout",
                    asked,
                    "-q",
                ]
            )
            == 0
        )
    shares = [Corpus.open(tmp_path / a).part(True).docs for a in ("0.2", "20%")]
    assert shares[0] == shares[1] > 5


def test_a_dry_run_says_memory_disk_and_time_and_changes_nothing(store, monkeypatch, capsys):
    monkeypatch.chdir(store)
    before = sorted(p.name for p in store.rglob("*"))
    assert run(["train", "-K", "4", "--passes", "30", "--dry-run", "--model", "later"]) == 0
    said = capsys.readouterr()
    assert "memory plan" in said.err and "pass 1/" not in said.err
    assert (
        said.out.startswith("dry run: ")
        and "of disk" in said.out
        and "at most 30 passes" in said.out
    )
    assert (
        run(
            [
                "train",
                "-K",
                "4",
                "--algo",
                "atbp",
                "--passes",
                "30",
                "--dry-run",
                "--model",
                "later",
                "--json",
                "-q",
            ]
        )
        == 0
    )
    last = json.loads(capsys.readouterr().out)["last"]
    assert (
        last["expected_seconds"] >= 30 * last["pass_seconds"] > 0 and last["memory_bytes"] > 1 << 20
    )
    assert sorted(p.name for p in store.rglob("*")) == before
    assert run(["train", "--dry-run", "--mem-limit", "20M", "--model", "later"]) == 5


def values(path: Path) -> dict[str, float]:
    return {
        line.split("{")[0]: float(line.rsplit(" ", 1)[1])
        for line in path.read_text().splitlines()
        if line[0] != "#"
    }


def test_metrics_of_a_run_that_went_well_and_of_one_that_did_not(
    store, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(store)
    file = tmp_path / "topics.prom"
    args = [
        "train",
        "-K",
        "3",
        "--passes",
        "2",
        "--algo",
        "atbp",
        "--model",
        "metered",
        "-q",
        "--metrics",
        str(file),
    ]
    assert run(args) == 0
    found = values(file)
    assert found["topicstream_success"] == 1 and found["topicstream_passes"] == 2
    assert found["topicstream_running_perplexity"] > 1 and found["topicstream_duration_seconds"] > 0
    assert (
        file.stat().st_mode & 0o777 == 0o644
        and '{command="train",model="metered"}' in file.read_text()
    )
    for line in file.read_text().splitlines()[1:]:
        assert line.startswith(("# HELP topicstream_", "# TYPE topicstream_", "topicstream_"))
    assert run(["update", "--model", "metered", "--metrics", str(file), "-q"]) == 0
    assert values(file)["topicstream_success"] == 1
    assert run(["train", "--model", "metered", "--corpus", "nowhere", "--metrics", str(file)]) == 3
    assert values(file)["topicstream_success"] == 0 and values(file)["topicstream_exit_code"] == 3
    assert run(["retrain", "--config", "nowhere.toml", "--metrics", str(file)]) == 2
    assert values(file)["topicstream_exit_code"] == 2 and 'command="retrain"' in file.read_text()
    other = tmp_path / "notes.txt"
    other.write_text("mine\n")
    assert (
        run(["train", "--metrics", str(other), "--model", "x"]) == 3
        and other.read_text() == "mine\n"
    )
    assert run(["train", "--metrics", str(tmp_path / "no" / "f"), "--model", "x"]) == 2
    assert list(tmp_path.iterdir()) == [file, other] or sorted(tmp_path.iterdir()) == sorted(
        [file, other]
    )
