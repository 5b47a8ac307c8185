"""Pages of pyLDAvis: whole ones in any encoding, damaged ones in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import topicstream
from topicstream.base.errors import InputError
from topicstream.model.topic_model import TopicModel

PAGE = {
    "mdsDat": {
        "x": [0, 1, 2],
        "y": [0, 0, 0],
        "topics": [1, 2, 3],
        "cluster": [1, 1, 1],
        "Freq": [50, 30, 20],
    },
    "tinfo": {
        "Term": ["a", "a", "b", "c", 'q"\\,]'],
        "Freq": [5.0, 5.0, 3.0, 2.0, 1],
        "Total": [5.0, 5.0, 3.0, 2.0, 1],
        "Category": ["Default", "Topic1", "Topic2", "Topic3", "Topic1"],
        "logprob": [30, 0.0, 0.0, 0.0, 0.0],
        "loglift": [30, 0.1, 0.1, 0.1, 0.1],
    },
    "token.table": {"Topic": [1], "Freq": [1.0], "Term": ["a"]},
    "R": 1,
    "lambda.step": 0.01,
    "plot.opts": {"xlab": "PC1", "ylab": [{"axis": [2, ["]"]]}, {}]},
    "topic.order": [3, 1, 2],
}


def changed(*at, to):
    """PAGE as text, with another value at a place; None: without it."""
    page = json.loads(json.dumps(PAGE))
    inner = page
    for name in at[:-1]:
        inner = inner[name]
    inner[at[-1]] = to
    return (
        json.dumps(page)
        if to is not None
        else json.dumps({k: v for k, v in page.items() if k != at[-1]})
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_topics_of_pyldavis_keep_their_numbers(tmp_path, encoding):
    """A page that pyLDAvis has sorted: its topic 1 was the model's third."""
    for indent in (None, 2):
        (tmp_path / "p.json").write_text(json.dumps(PAGE, indent=indent), encoding=encoding)
        topicstream.import_model(tmp_path / "p.json", tmp_path / "m", force=True)
        model = TopicModel.open(tmp_path / "m")
        assert model.words == ["a", "b", "c", 'q"\\,]']
        assert model.phi.T.tolist() == [[0, 3, 0, 0], [0, 0, 2, 0], [5, 0, 0, 1]]


@pytest.mark.parametrize(
    ("page", "match"),
    [
        *[(json.dumps(PAGE)[:cut], "not the JSON of pyLDAvis") for cut in (0, 1, 9, 200, 400, -1)],
        (json.dumps(PAGE) + "]", "Extra data"),
        (changed("tinfo", "Term", to=["a", "a", "b", "c"]), "words are damaged"),
        (changed("tinfo", "Freq", to=[5.0]), "words are damaged"),
        (changed("tinfo", "Category", to=[]), "words are damaged"),
        (changed("mdsDat", "Freq", to=[50]), "not numbered one by one"),
        (changed("topic.order", to=[3, 1, 1]), "not numbered one by one"),
        (changed("topic.order", to=[1 << 70, 1, 2]), "not numbered one by one"),
        (changed("topic.order", to=None), "topic.order"),
        (
            changed("tinfo", "Term", to=["a", "a", "b", ["c"], "d"]),
            "not the JSON of pyLDAvis .Arrow",
        ),
        (changed("tinfo", "Term", to=["a", "a", "b", None, "d"]), "a word is missing"),
        (
            changed("tinfo", "Term", to=["a", "a", "b", "\ud800", "d"]),
            "not the JSON of pyLDAvis .Unicode",
        ),
        (changed("tinfo", "Freq", to=[5, 5, 3, "two", 1]), "not the JSON of pyLDAvis .ValueError"),
        (
            changed("tinfo", "Freq", to=[5, 5, 3, 10**400, 1]),
            "not the JSON of pyLDAvis .OverflowError",
        ),
        (changed("tinfo", "Freq", to=[5, 5, 3, float("nan"), 1]), "frequency of 'c' is nan"),
        (changed("tinfo", "Freq", to=[5, 5, 3, -1, 1]), "frequency of 'c' is -1"),
        (changed("tinfo", "Freq", to=[5, 0, 0, 0, 0]), "every count is zero"),
        (
            changed("tinfo", "Category", to=["Default", *["Topic4"] * 4]),
            "'Topic4' or 'a' is not listed",
        ),
        (
            changed("R", to=0).replace('"R": 0', '"R": ' + "7" * 5000),
            "not the JSON of pyLDAvis .ValueError",
        ),
        (
            changed("R", to=0).replace('"R": 0', '"R": ' + "[" * 50_000),
            "not the JSON of pyLDAvis .(RecursionError|JSONDecodeError)",
        ),
        (
            changed("R", to=0).replace('"R": 0', '"R": ' + '{"a":' * 50_000),
            "not the JSON of pyLDAvis .(RecursionError|JSONDecodeError)",
        ),
        *[
            (
                changed("R", to=0).replace('"R": 0', f'"R": {bad}'),
                "not the JSON of pyLDAvis .(JSONDecode|Value)Error",
            )
            for bad in (
                "",
                "[1,]",
                "[1 2]",
                "[,1]",
                "{1: 2}",
                '{"a" 1}',
                '{"a": 1,}',
                "[1}",
                "nul",
                '"\\x"',
                '"\n"',
            )
        ],
    ],
)
def test_damaged_pages_of_pyldavis_are_one_clear_line(tmp_path, page, match):
    (tmp_path / "p.json").write_text(page)
    with pytest.raises(InputError, match=match) as told:
        topicstream.import_model(tmp_path / "p.json", tmp_path / "m")
    assert "\n" not in str(told.value) and len(str(told.value)) < 500
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]


def test_the_tables_of_a_page_are_those_of_its_formulas(tmp_path):
    """Frequencies, saliency, lift and shares of Sievert & Shirley (2014), dense."""
    rng = np.random.default_rng(2)
    phi = rng.gamma(0.3, size=(12, 3)) * np.array([200.0, 90.0, 30.0])
    names = [f"w{i:02}" for i in range(12)]
    TopicModel.from_arrays(phi, names, 0.1, 0.5).save(tmp_path / "m")
    topicstream.export_model(tmp_path / "m", tmp_path / "p.json", format="pyldavis", words=4)
    page = json.loads((tmp_path / "p.json").read_text())
    phi = np.asarray(TopicModel.open(tmp_path / "m").rows(np.arange(12)), float)[:, :3]
    sizes = phi.sum(axis=0)
    p = (phi + 0.5) / (sizes + 6.0)
    expected = p * sizes
    marginal = expected.sum(axis=1)
    given = expected / marginal[:, None]
    saliency = marginal * (given * np.log(given / (sizes / sizes.sum()))).sum(axis=1)
    assert page["R"] == 4 and page["mdsDat"]["topics"] == page["topic.order"] == [1, 2, 3]
    assert page["mdsDat"]["Freq"] == pytest.approx(100 * sizes / sizes.sum())
    place = np.array([page["mdsDat"]["x"], page["mdsDat"]["y"]]).T
    squares = ((place[:, None] - place[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squares, 1 - np.sqrt(p).T @ np.sqrt(p), atol=1e-6)
    terms = page["tinfo"]
    first = np.argsort(-saliency)[:4]
    assert terms["Term"][:4] == [names[i] for i in first]
    assert terms["Category"][:4] == ["Default"] * 4
    assert terms["Freq"][:4] == terms["Total"][:4] == np.floor(marginal[first]).tolist()
    assert terms["logprob"][:4] == terms["loglift"][:4] == [4, 3, 2, 1]
    listed = set()
    columns = ("Term", "Category", "Freq", "Total", "logprob", "loglift")
    for row in list(zip(*(terms[name] for name in columns), strict=True))[4:]:
        word = names.index(row[0])
        topic = int(row[1].removeprefix("Topic")) - 1
        listed.add((word, topic))
        lift = np.log(p[word, topic]) - np.log(marginal[word] / marginal.sum())
        assert row[2:4] == pytest.approx((expected[word, topic], marginal[word]), rel=1e-6)
        assert row[4:] == pytest.approx((np.log(p[word, topic]), lift), abs=6e-5)
    best = {(int(w), k) for k in range(3) for w in np.argsort(-p[:, k])[:4]}
    assert best <= listed
    tokens = page["token.table"]
    shown = sorted({word for word, _ in listed} | set(first.tolist()))
    wanted = [(w, k) for w in shown for k in range(3) if expected[w, k] >= 0.5]
    assert [(names.index(t), k - 1) for t, k in zip(tokens["Term"], tokens["Topic"])] == wanted
    shares = [np.round(expected[w, k]) / marginal[w] for w, k in wanted]
    assert tokens["Freq"] == pytest.approx(shares, rel=1e-6)
