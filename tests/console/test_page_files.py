"""The files that the browser gets: ours, plain, and without a way to make HTML of what a cluster says."""

import re

import pytest

from odradek.console.server import page_files

FILES = {name: body.decode() for name, (body, _) in page_files().items()}
HTML_OF_TEXT = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "new Function",
    "createContextualFragment", "srcdoc", "setAttributeNS", "javascript:", "import(",
)  # fmt: skip


def test_the_page_is_whole() -> None:
    assert {"index.html", "style.css", "main.js", "spool.svg"} <= FILES.keys()
    imported = {name for text in FILES.values() for name in re.findall(r'from "\./([\w.]+)"', text)}
    linked = set(re.findall(r'(?:src|href)="/page/([\w.]+)"', FILES["index.html"]))
    assert imported | linked | {"index.html"} == FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_no_file_names_another_host(name: str) -> None:
    found = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", FILES[name]))
    assert found <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_scripts_make_no_html_of_text(name: str) -> None:
    assert not [word for word in HTML_OF_TEXT if word in FILES[name]]


def test_the_shell_has_no_script_or_style_of_its_own() -> None:
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", FILES["index.html"])


def test_all_of_it_is_small() -> None:
    assert sum(map(len, FILES.values())) < 120_000
