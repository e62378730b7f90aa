"""Writes the table of the README from the benchmark results: ``python docs/readme_table.py``.

Run it after ``python -m benchmarks report``. One number per thing: the error on simulated truths as
a multiple of HazardBoost's, the integrated Brier score on two public data sets, and CPU seconds to
fit the simulated base case.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- table: docs/readme_table.py -->\n", "<!-- end of table -->"
# Name in the results, name in the README, competing risks, native training call.
ROWS = (
    ("**HazardBoost, XGBoost**", "**HazardBoost**", "yes", "no"),
    ("**HazardObjective, XGBoost**", "**HazardObjective**", "yes", "yes"),
    ("**SurvivalBoost, XGBoost**", "**SurvivalBoost**", "yes", "no"),
    ("**IPCWObjective, XGBoost**", "**IPCWObjective**", "yes", "yes"),
    ("hazardous", "hazardous", "yes", "no"),
    ("survival forest, scikit-survival", "scikit-survival, random forest", "no", "no"),
    ("Cox, cause-specific", "lifelines, Cox", "by cause", "no"),
    ("discrete-time hazards, LightGBM", "discrete time by hand, LightGBM", "by hand", "yes"),
)
AGAINST_OURS = "All contenders against HazardBoost on XGBoost"
FEWEST_FAMILIES = 8
# The default forest needs too much memory on the truths; this one replaces it there.
ON_TRUTHS = {"survival forest, scikit-survival": "survival forest, 15 people a leaf"}


def cell(page: str, section: str, row: str, column: str) -> str:
    """A number of the first table of a section that has the column, without spread and marks."""
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8").split(f"## {section}\n")[1]
    text = re.split(r"^##", text, flags=re.MULTILINE)[0]
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        head, _, *lines = [
            [value.strip() for value in line.strip("|\n").split("|")] for line in table.splitlines()
        ]
        for line in lines:
            if column in head and line[0] == row:
                return line[head.index(column)].split("±")[0].strip("≈* ")
    return "–"


def times_ours(row: str) -> str:
    """Error on the truths over ours, where a contender ran on enough families to tell."""
    families = cell("truths", AGAINST_OURS, row, "families where it is nearer to the truth")
    if families == "–" or int(families.split(" of ")[1]) < FEWEST_FAMILIES:
        return "–"
    return cell("truths", AGAINST_OURS, row, "error, times ours")


def table() -> str:
    """The table as Markdown."""
    lines = [
        "| | METABRIC, Brier | SUPPORT, Brier | error on known truths, times HazardBoost's "
        "| fit 20 000 people, 3 causes, CPU s | competing risks | your booster's own call |",
        "|---|---|---|---|---|---|---|",
    ]
    for row, name, competing, native in ROWS:
        truths = times_ours(ON_TRUTHS.get(row, row))
        numbers = (
            cell("survival", "METABRIC, defaults", row, "integrated Brier"),
            cell("survival", "SUPPORT, defaults", row, "integrated Brier"),
            "1" if row == ROWS[0][0] else truths,
            cell("competing", "Base case", row, "fit, CPU s"),
        )
        lines.append(f"| {' | '.join([name, *numbers, competing, native])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Replace the table of the README."""
    before, rest = README.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    README.write_text(f"{before}{BEGIN}{table()}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
