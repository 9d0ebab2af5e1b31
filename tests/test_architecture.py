"""What holds of the repository as a whole: who may import whom, and what docs/architecture.md says of it."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.testing.way_through import GOALS, PAGE, WAYS, hops, trace_way

ROOT = Path(__file__).parents[1]
FOLDERS = ("broker", "client", "controller", "protocol", "zk_schema")
RULES = ("broker/log", "broker/replication", "broker/groups", "broker/transactions", "broker/purgatory", "controller")
LINES_MAX = 400


def modules() -> dict[str, Path]:
    """All modules by name, those of the folders at the top and those of odradek/ itself."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = {".".join(("odradek", *path.relative_to(ROOT).with_suffix("").parts)): path for path in paths}
    for path in (ROOT / "odradek").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if len(parts) == 2 or parts[1] not in FOLDERS:
            found[".".join(parts)] = path
    return {name.removesuffix(".__init__"): path for name, path in found.items()}


def imports_of(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules that one imports when it is loaded, or for its types alone; not what a function imports."""
    todo: list[ast.stmt] = list(ast.parse(path.read_text()).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.If | ast.Try):
            todo += [*node.body, *node.orelse]


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import one another: Tarjan's strongly connected components of more than one."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], index[other])
        if lowest[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_modules_import_one_another_in_no_circle() -> None:
    known = modules()
    graph = {name: {other for other in imports_of(path, known) if other in known} for name, path in known.items()}
    assert not [circle for circle in circles(graph) if not circle[0].startswith("odradek.testing.")]


def test_no_two_modules_of_a_broker_have_one_name() -> None:
    names = [path.stem for folder in ("broker", "controller") for path in (ROOT / folder).rglob("*.py")]
    assert not [name for name in sorted(set(names)) if names.count(name) > 1 and not name.startswith("__")]


def test_a_package_says_which_files_it_has() -> None:
    """Where there is a file for each API, those need not be named."""
    packages = [package for folder in FOLDERS for package in (ROOT / folder).rglob("__init__.py")]
    for name in ("diagnosis", "journal", "local", "testing", "testing/simulation", "world"):
        packages.append(ROOT / "odradek" / name / "__init__.py")
    untold = []
    for package in packages:
        told = set(re.findall(r"\w+", ast.get_docstring(ast.parse(package.read_text())) or ""))
        files = {path.stem for path in package.parent.glob("[!_]*.py")}
        if package.parent == ROOT / "broker" / "requests":
            files -= {path.stem for path in (ROOT / "protocol" / "messages").glob("*.py")}
        if package.parent != ROOT / "protocol" / "messages":
            folders = {path.parent.name for path in package.parent.glob("*/__init__.py")}
            untold += [f"{package.parent}: {name}" for name in sorted((files | folders) - told)]
    assert not untold


def test_every_package_stands_in_a_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    named = {name for layer in layers for name in re.findall(r"[\w.]+", layer)}
    packages = {".".join(name.split(".")[:2]) for name in modules()} - {"odradek", "odradek.broker"}
    inside = {".".join(name.split(".")[:3]) for name in modules() if name.startswith("odradek.broker.")}
    assert packages | inside == named


@pytest.mark.parametrize("folder", RULES)
def test_rules_draw_from_the_generator_that_they_are_given(folder: str) -> None:
    """`random` is imported for the name of that generator's class alone."""
    used = {
        f"{path.relative_to(ROOT)}: random.{node.attr}"
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random"
        if node.attr != "Random"
    }
    assert not used


@pytest.mark.parametrize("name", WAYS)
def test_the_page_shows_the_hops_of_each_way_in_their_order(name: str) -> None:
    _, _, rest = Path(PAGE).read_text().partition(f"<!-- {name}: begin -->")
    shown = re.findall(r"^\| \d+ \| \[(.*?)\]", rest.partition("<!--")[0], re.MULTILINE)
    found = [stop.file for stop in hops(trace_way(name))]
    assert shown == found, "python -m odradek.testing.way_through --write brings the page up to date"


@pytest.mark.parametrize("name", WAYS)
def test_each_way_is_short(name: str) -> None:
    found = hops(trace_way(name))
    assert len(found) <= GOALS[name], [stop.file for stop in found]
    too_long = {stop.file for stop in found if len((ROOT / stop.file).read_text().splitlines()) > LINES_MAX}
    assert not too_long


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md"])
def test_a_page_names_only_what_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    named = set(re.findall(r"`((?:broker|controller|protocol|zk_schema|client|odradek|tests|docs)/[\w/.]*)`", text))
    assert named and not {name for name in named if not (ROOT / name).exists()}


def links_of(page: Path) -> set[Path]:
    """Return what a page links to in the repository: files, and headings as `file#anchor`."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    links = [link.partition("#") for link in re.findall(r"\]\((?!https?:)([^)]+)\)", prose)]
    return {Path(f"{(page.parent / file).resolve() if file else page}{mark}{anchor}") for file, mark, anchor in links}


def pages_of_the_repository() -> set[Path]:
    return {ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").glob("*.md")}


@pytest.mark.parametrize("page", sorted(pages_of_the_repository()), ids=lambda page: page.name)
def test_a_page_ends_each_block_of_code_before_the_next(page: Path) -> None:
    """A block was without its first line: all that followed on the page was shown as code, and the code as prose."""
    fences = re.findall(r"^ *```(.*)", page.read_text(), re.MULTILINE)
    assert len(fences) % 2 == 0 and not any(fences[1::2])


def test_links_lead_somewhere_and_to_every_page() -> None:
    pages = pages_of_the_repository()
    there = {Path(f"{page}#{re.sub(r'[^a-z0-9_ -]', '', title.lower()).replace(' ', '-')}")
        for page in pages for title in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)}  # fmt: skip
    assert not {(page, link) for page in pages for link in links_of(page) if link not in there and not link.exists()}
    assert pages <= links_of(ROOT / "README.md") | links_of(ROOT / "docs/README.md")
