"""The recipes of packaging/ ask for what pyproject.toml asks for, and every place names one
version.
"""

from __future__ import annotations

import re
import tomllib

import topicstream
from tests import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OF_CONDA = {"duckdb": "python-duckdb"}
"""Packages that conda-forge names otherwise than PyPI."""


def test_one_version_everywhere():
    recipe = (ROOT / "packaging/conda/meta.yaml").read_text()
    assert PROJECT["version"] == topicstream.__version__
    assert f'{{% set version = "{topicstream.__version__}" %}}' in recipe
    assert f"\nversion: {topicstream.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {topicstream.__version__} (" in (ROOT / "CHANGELOG.md").read_text()


def test_the_conda_recipe_asks_for_our_dependencies():
    recipe = (ROOT / "packaging/conda/meta.yaml").read_text()
    least_python = re.search(r'set python_min = "(.*)" %}', recipe)[1]
    recipe = recipe.replace("{{ python_min }}", least_python)
    for section in ("host", "requires"):  # conda-forge builds and tests with the oldest one
        assert f"  {section}:\n    - python {least_python}\n" in recipe
    assert "\n    - __unix" in recipe  # Windows has no fcntl
    asked = set(
        re.findall(
            r"^    - (\S+ >=\S+)$", recipe.partition("  run:")[2].partition("\ntest:")[0], re.M
        )
    )
    wanted = {f"python {PROJECT['requires-python']}"}
    for requirement in PROJECT["dependencies"]:
        name, least = requirement.split(">=", 1)
        wanted.add(f"{OF_CONDA.get(name, name)} >={least}")
    assert asked == wanted
    for name, function in PROJECT["scripts"].items():
        assert f"\n    - {name} = {function}\n" in recipe


def test_the_package_runs_by_either_name():
    assert PROJECT["scripts"]["topics"] == PROJECT["scripts"]["topicstream"]


def test_every_extra_is_in_the_table_of_the_docs():
    table = (ROOT / "docs/install.md").read_text()
    named = set(re.findall(r"^\| `(\w+)` \|", table, re.M))
    assert named == set(PROJECT["optional-dependencies"]) - {"dev", "docs"}
    for name, packages in PROJECT["optional-dependencies"].items():
        for package in packages if name in named else []:
            row = re.search(rf"^\| `{name}` \|.*", table, re.M)[0]
            assert re.split("[<>=]", package)[0].lower() in row.lower()


def test_the_container_installs_extras_that_exist():
    lines = (ROOT / "packaging/Containerfile").read_text()
    extras = re.search(r"/build\[(.*?)\]", lines)[1].split(",")
    assert set(extras) <= set(PROJECT["optional-dependencies"])
    for copied in re.findall(r"^COPY (.+) /build", lines, re.M):
        assert all((ROOT / name).exists() for name in copied.split())
