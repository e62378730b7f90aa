"""The model card: every item of TRIPOD+AI, what is known filled in, the rest asked."""

import json
import re

import pytest

# Collins et al., BMJ 2024;385:e078378, table 1: items and their parts.
PARTS = {3: "abc", 5: "ab", 6: "abc", 8: "abc", 9: "abc", 12: "abcdefg", 18: "abcdef", 20: "abc",
         23: "ab", 27: "abc"}  # fmt: skip
NUMBERS = [f"{item}{part}" for item in range(1, 28) for part in PARTS.get(item, [""])]


def sections(text):
    """The text of each item by its number."""
    parts = re.split(r"^## (\w+) .*$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture
def new(workplace, people):
    shifted = people.assign(age=people["age"] + 5, site=["a|b", "<i>c"] * 120)
    shifted.to_csv("new.csv", index=False)


def test_all_items_are_there_and_what_only_people_know_is_asked(run, workplace, new):
    done = run("card", "model", "--data", "new.csv", "--times", "4,8", "--by", "site")
    assert done.code == 0, done.err
    text = (workplace / "card.md").read_text(encoding="utf-8")
    found = sections(text)
    assert list(found) == NUMBERS
    asked = {number for number, part in found.items() if "**To answer:**" in part}
    assert set(NUMBERS) - asked == {"12b", "12e", "12g", "13", "20c", "21", "23a", "24"}
    assert f"{len(asked)} of 52 items need an answer" in done.out
    # Nothing is said where nothing is known.
    for number in ("2", "3a", "3b", "3c", "5b", "6a", "17", "18a", "18c", "19", "25", "26"):
        assert found[number].strip().startswith("> **To answer:**")
        assert found[number].count("\n\n") == 2


def test_facts_are_those_of_the_folder_and_of_the_evaluation(run, workplace, new):
    run("card", "model", "--data", "new.csv", "--times", "4,8", "--by", "site", "--title", "<b>*")
    text = (workplace / "card.md").read_text(encoding="utf-8")
    found = sections(text)
    model = json.loads((workplace / "model" / "model.json").read_text())
    schema = json.loads((workplace / "model" / "schema.json").read_text())
    assert model["digest"] in found["22"]
    assert f"{schema['people']['death']} death" in found["20a"]
    assert schema["versions"]["xgboost"] in found["18f"]
    assert "| age | number | median" in found["9b"]
    scores = json.loads(run("evaluate", "model", "new.csv", "--times", "4,8", "--json").out)
    value = next(row["value"] for row in scores["scores"] if row["score"] == "auc")
    assert f"| AUC | {value:.3f} (" in found["23a"]
    assert re.search(r"\| age \| .* \| .* \| 0\.3\d?\\\* \|", found["20c"])
    # Names are no markup, in either file.
    assert "site: a\\|b" in found["23a"]
    assert text.startswith("# &lt;b&gt;\\*\n")
    page = (workplace / "card.html").read_text(encoding="utf-8")
    assert "<i>c" not in page
    assert "<b>" not in page
    assert page.count("To answer:") == text.count("To answer:")


def test_a_card_without_people_to_validate_on(run, workplace):
    assert run("card", "model").code == 0
    found = sections((workplace / "card.md").read_text(encoding="utf-8"))
    assert "people held out" in found["23a"]
    assert "**To answer:**" in found["20c"]
    again = run("card", "model")
    assert again.code == 1
    assert "already" in again.err
    assert run("card", "model", "--force").code == 0
    assert "--by needs the people of --data" in run("card", "model", "--force", "--by", "a").err
    assert "ends in .md" in run("card", "model", "--out", "card.html").err


def test_people_of_training_are_noticed(run, workplace):
    done = run("card", "model", "--data", "people.csv", "--times", "4")
    assert "as those of training" in done.err
    assert "the scores are too good" in (workplace / "card.md").read_text(encoding="utf-8")
