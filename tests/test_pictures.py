# SPDX-License-Identifier: Apache-2.0
"""Pictures of the documentation stand alone, and are read by day, by night and by a screen reader."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PICTURES = sorted((ROOT / "docs/images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
MOST_BYTES = 10_000
COLOURS = re.compile(r"\.(\w+) \{")
"""Classes that a style gives something."""


@pytest.fixture(params=PICTURES, ids=lambda path: path.stem)
def picture(request: pytest.FixtureRequest) -> ET.Element:
    """Its root."""
    return ET.fromstring(request.param.read_text())


def test_it_says_in_words_what_it_shows(picture: ET.Element) -> None:
    assert picture.get("role") == "img"
    assert picture.findtext(f"{SVG}title")
    assert len(picture.findtext(f"{SVG}desc") or "") > 20


def test_its_background_and_text_are_light_by_day_and_dark_by_night(picture: ET.Element) -> None:
    day, _, night = (picture.findtext(f"{SVG}style") or "").partition("@media (prefers-color-scheme: dark)")
    paper = picture.find(f"{SVG}rect[@class='paper']")

    assert [".paper { fill: #ffffff }" in day, ".paper { fill: #0d1117 }" in night, "text {" in night] == [True] * 3
    assert paper is not None
    assert (paper.get("width"), paper.get("height")) == (picture.get("width"), picture.get("height"))


def test_everything_in_it_has_a_style_of_its_own(picture: ET.Element) -> None:
    styled = set(COLOURS.findall(picture.findtext(f"{SVG}style") or ""))
    used = {name for element in picture.iter() for name in (element.get("class") or "").split()}

    assert used <= styled
    assert not {element.tag for element in picture.iter()} & {f"{SVG}script", f"{SVG}image", f"{SVG}foreignObject"}


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_it_is_small_and_some_page_shows_it_with_a_text_in_its_place(path: Path) -> None:
    shown = re.compile(rf"!\[[^\]]{{10,}}\]\([\w/.]*images/{path.name}\)")

    assert path.stat().st_size < MOST_BYTES
    assert any(shown.search(page.read_text()) for page in (ROOT / "docs").rglob("*.md"))
