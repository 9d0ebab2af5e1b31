"""The guide for those who run a cluster has a place for each alert and each finding, and names only what there is."""

import re
from pathlib import Path

import yaml

from odradek.cli.main import COMMANDS
from odradek.diagnosis.examination import TABLES
from odradek.diagnosis.situation import Weight

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "operations.md").read_text()
(GROUP,) = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]


def anchors(text: str) -> set[str]:
    """Return what a page's headings can be reached by."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(heading: str) -> str:
    """Return what stands below a heading, up to the next one of its level or a higher one."""
    (level, text) = re.findall(rf"^(#+) {heading}\n(.*?)(?=^#|\Z)", GUIDE, re.MULTILINE | re.DOTALL)[0]
    assert level
    return str(text)


def test_each_alert_leads_to_its_place() -> None:
    for rule in GROUP["rules"]:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert anchor == rule["alert"].lower() and anchor in anchors((ROOT / page).read_text())
        said = {"page": "Page.", "warning": "Warning."}[rule["labels"]["severity"]]
        assert section(rule["alert"]).strip().startswith(said)


def test_each_place_of_an_alert_is_that_of_one() -> None:
    part = GUIDE.partition("## When an alert fires")[2].partition("\n## ")[0]
    assert re.findall(r"^### (.+)$", part, re.MULTILINE) == [rule["alert"] for rule in GROUP["rules"]]


def test_each_finding_that_somebody_must_act_on_has_a_place() -> None:
    findings = {row.name for table in TABLES for row in table.rows}
    grave = {row.name for table in TABLES for row in table.rows if row.weight >= Weight.DEGRADED}
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)+|died)`", GUIDE)) & findings
    assert grave - named == set()
    told = {
        name for line in re.findall(r"^The doctor: (.+)$", GUIDE, re.MULTILINE) for name in re.findall(r"`(.+?)`", line)
    }
    assert told - findings == set() and told


def test_links_lead_somewhere() -> None:
    for page in ("docs/operations.md", "deploy/README.md"):
        text = (ROOT / page).read_text()
        for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
            file, _, anchor = link.partition("#")
            target = (ROOT / page).parent / file if file else ROOT / page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target.read_text()), link


def test_commands_are_there() -> None:
    texts = [GUIDE, *(rule["annotations"]["runbook"] for rule in GROUP["rules"])]
    used = {name for text in texts for name in re.findall(r"(?<![\w/])odradek ([a-z][a-z-]+)", text)}
    assert used and used <= COMMANDS.keys()
