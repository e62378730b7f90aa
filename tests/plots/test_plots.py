"""Contents of the plots: data of lines, labels, legends."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import plots
from survival_objectives._models.fitted import RoundRecord
from survival_objectives.plots._plots import line_style

mpl.use("Agg")
import matplotlib.pyplot as plt

TIMES = np.array([0.0, 1.0, 2.0, 4.0])
CIF = np.array([[1.0, 0.8, 0.5, 0.2], [0.0, 0.1, 0.3, 0.5], [0.0, 0.1, 0.2, 0.3]])


@pytest.fixture(autouse=True)
def close_figures():
    plt.close("all")  # Tests of other modules may have left some.
    yield
    plt.close("all")


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def lines_by_label(ax):
    return {line.get_label(): line for line in ax.get_lines()}


GROUPS = pd.DataFrame(
    {
        "group": ["a", "b", "a", "b"],
        "n_people": 100,
        "n_events": [30, 19, 3, 4],
        "score": "auc",
        "cause": 1,
        "time": [2.0, 2.0, 1.0, 1.0],
        "value": [0.7, 0.6, 0.5, 0.5],
        "lower": [0.6, 0.4, 0.1, 0.1],
        "upper": [0.9, np.nan, 0.8, 0.8],
    }
)
BENEFIT = pd.DataFrame(
    {
        "threshold": [0.1, 0.2, 0.3],
        "net_benefit": [0.2, 0.1, 0.05],
        "lower": [0.1, 0.0, -0.1],
        "upper": [0.3, 0.2, 0.1],
        "all": [0.19, 0.05, -0.9],
    }
)
CALLS = {
    "subgroups": lambda ax=None: plots.plot_subgroups(GROUPS, "auc", ax=ax),
    "net benefit": lambda ax=None: plots.plot_net_benefit(BENEFIT, ax=ax),
    "stacked": lambda ax=None: plots.plot_stacked_incidence(CIF, TIMES, ax=ax),
    "groups": lambda ax=None: plots.plot_group_incidence(
        CIF[1:], CIF[1:], TIMES, group_names=["low", "high"], ax=ax
    ),
    "brier": lambda ax=None: plots.plot_brier({"model": CIF[1]}, TIMES, ax=ax),
    "accuracy": lambda ax=None: plots.plot_accuracy({"model": CIF[0]}, TIMES, ax=ax),
    "bands": lambda ax=None: plots.plot_bands({"low": (CIF[1], CIF[2], CIF[1])}, TIMES, ax=ax),
    "sensitivity": lambda ax=None: plots.plot_sensitivity(
        [0.5, 1, 2], {"one person": [0.1, 0.2, 0.3]}, threshold=0.25, ax=ax
    ),
    "calibration": lambda ax=None: plots.plot_calibration({"model": (CIF[1], CIF[2])}, ax=ax),
    "weights": lambda ax=None: plots.plot_weights([0, 1, 1.5, 4, 4], ax=ax),
    "history": lambda ax=None: plots.plot_history({"training": [3, 2, 1]}, ax=ax),
    "importance": lambda ax=None: plots.plot_importance(
        CIF, TIMES, feature_names=["a", "b", "c"], ax=ax
    ),
    "importance lines": lambda ax=None: plots.plot_importance(
        CIF, TIMES, feature_names=["a", "b", "c"], kind="lines", ax=ax
    ),
}


# -------------------------------------------------------------------------------- for all of them
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_axes_are_taken_and_returned(call):
    _, ax = plt.subplots()
    assert call(ax) is ax
    assert len(plt.get_fignums()) == 1
    new = call()
    assert new is not ax
    assert len(plt.get_fignums()) == 2


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_axes_are_labelled_and_nothing_is_cut_off(call):
    ax = call()
    assert ax.get_xlabel()
    assert ax.get_ylabel() or ax.get_yticklabels()
    figure = ax.figure
    figure.canvas.draw()
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    width, height = figure.get_size_inches()
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01


def test_every_plot_is_tested():
    drawing = [name for name in plots.__all__ if name.startswith("plot_")]
    assert len(drawing) == len(CALLS) - 1  # The importance is drawn in two ways.


# Linear RGB as seen without one kind of cone (Machado, Oliveira and Fernandes, 2009, severity 1).
VISION = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lab(linear_rgb):
    """CIE L*a*b* of linear RGB colours, in which distances are what the eye sees."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.clip(linear_rgb, 0, 1) @ np.transpose(to_xyz) / [0.9505, 1.0, 1.089]
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116).T
    return np.column_stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
def test_colours_differ_for_every_vision(vision):
    rgb = np.array([mpl.colors.to_rgb(color) for color in plots.PALETTE])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = lab(linear @ np.transpose(VISION[vision]))
    distance = np.linalg.norm(seen[:, None] - seen, axis=2)
    # A difference of 2 is just noticeable.
    assert distance[np.triu_indices(len(rgb), 1)].min() > 10


def test_many_lines_all_look_different():
    styles = [tuple(line_style(position).values()) for position in range(20)]
    assert len(set(styles)) == 20


def test_matplotlib_is_needed_only_to_draw():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from survival_objectives import plots\n"
        "try: plots.plot_history({'training': [1.0]})\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install matplotlib" in run.stdout


# --------------------------------------------------------------------------------------- one by one
def test_stacked_areas_add_up():
    ax = plots.plot_stacked_incidence(
        CIF, TIMES, state_names=["alive", "A", "B"], time_label="Days"
    )
    assert legend_texts(ax) == ["alive", "B", "A"]  # As stacked, from the top.
    tops = [area.get_paths()[0].get_extents().y1 for area in ax.collections]
    assert_allclose(tops, [CIF[1].max(), CIF[1:].sum(axis=0).max(), 1.0])
    colors = [to_hex(area.get_facecolor()[0]).upper() for area in ax.collections]
    assert colors[:2] == list(plots.PALETTE[:2])
    assert ax.get_xlabel() == "Days"
    assert ax.get_ylim() == (0, 1)


def test_group_curves_are_the_data():
    predicted, observed = CIF[1:], CIF[1:] + 0.01
    ax = plots.plot_group_incidence(predicted, observed, TIMES, group_names=["low", "high"])
    assert legend_texts(ax) == ["low", "high", "predicted", "Aalen-Johansen"]
    low, low_observed, high, high_observed, *_ = ax.get_lines()
    assert_array_equal(low.get_ydata(), predicted[0])
    assert_array_equal(high_observed.get_ydata(), observed[1])
    assert low.get_color() == low_observed.get_color() != high.get_color()
    assert high_observed.get_drawstyle() == "steps-post"


@pytest.mark.parametrize("plot", [plots.plot_brier, plots.plot_accuracy])
def test_scores_over_time_are_the_data(plot):
    ax = plot({"mine": CIF[1], "other": CIF[2]}, TIMES, baselines={"marginal": CIF[0]})
    assert legend_texts(ax) == ["marginal", "mine", "other"]
    lines = lines_by_label(ax)
    assert_array_equal(lines["mine"].get_xdata(), TIMES)
    assert_array_equal(lines["other"].get_ydata(), CIF[2])
    assert lines["mine"].get_color() == plots.PALETTE[0]
    assert lines["mine"].get_linestyle() == "-"
    assert lines["marginal"].get_color() not in plots.PALETTE
    assert lines["marginal"].get_linestyle() != "-"


def test_bands_are_filled_between_their_limits():
    ax = plots.plot_bands({"a": (CIF[1], CIF[1] / 2, CIF[1] * 1.5), "b": (CIF[2],) * 3}, TIMES)
    assert legend_texts(ax) == ["a", "b"]
    (corners,) = (path.vertices for path in ax.collections[0].get_paths())
    assert_array_equal([corners[:, 1].min(), corners[:, 1].max()], [0, 0.75])
    assert_array_equal(lines_by_label(ax)["b"].get_ydata(), CIF[2])


def test_subgroups_have_limits_and_small_ones_are_hollow():
    ax = plots.plot_subgroups(GROUPS, "auc")
    assert [text.get_text().split("\n")[0] for text in ax.get_yticklabels()] == ["a", "b"]
    large, small, reference = ax.get_lines()
    assert (large.get_xdata().tolist(), small.get_xdata().tolist()) == ([0.7], [0.6])
    assert small.get_markerfacecolor() == "white"
    assert_array_equal(reference.get_xdata(), [0.5, 0.5])
    (limits,) = ax.collections[0].get_segments()
    assert_allclose(limits[:, 0], [0.6, 0.9])
    early = plots.plot_subgroups(GROUPS, "auc", time=1.0)
    assert early.get_lines()[1].get_xdata().tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="no 'brier' of cause 1 at 2"):
        plots.plot_subgroups(GROUPS, "brier")


def test_decision_curves_have_limits_and_what_else_could_be_done():
    ax = plots.plot_net_benefit(BENEFIT)
    assert legend_texts(ax) == ["by the model", "all", "no one"]
    assert_array_equal(lines_by_label(ax)["by the model"].get_ydata(), BENEFIT["net_benefit"])
    (corners,) = (path.vertices for path in ax.collections[0].get_paths())
    assert_allclose([corners[:, 1].min(), corners[:, 1].max()], [-0.1, 0.3])
    assert ax.get_ylim()[0] > -0.1


def test_sensitivity_marks_no_dependence_and_where_the_answer_tips():
    ax = plots.plot_sensitivity(
        [0.5, 1, 2], {"one": [0.1, 0.2, 0.3]}, threshold=0.25, tipping_factor=1.5
    )
    assert legend_texts(ax) == ["one", "threshold, 0.25", "tips at 1.5"]
    assert_array_equal(lines_by_label(ax)["tips at 1.5"].get_xdata(), [1.5, 1.5])
    assert_array_equal(ax.get_xticks(), [0.5, 1, 2])
    never = plots.plot_sensitivity([0.5, 1, 2], {"one": [0.1, 0.2, 0.3]}, tipping_factor=np.nan)
    assert legend_texts(never) == ["one"]


def test_calibration_is_sorted_and_has_a_diagonal():
    predicted, observed = np.array([0.3, 0.1]), np.array([0.4, 0.05])
    ax = plots.plot_calibration(
        {"mine": (predicted, observed)},
        intervals={"mine": (observed - 0.02, observed + 0.1)},
        horizon=24,
    )
    line, diagonal = ax.get_lines()
    assert_array_equal(line.get_xdata(), [0.1, 0.3])
    assert_array_equal(line.get_ydata(), [0.05, 0.4])
    assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    segments = np.array(ax.collections[0].get_segments())
    assert_allclose(segments[:, :, 1], [[0.03, 0.15], [0.38, 0.5]])
    assert ax.get_xlabel() == "Predicted probability by 24"
    assert ax.get_xlim() == ax.get_ylim() == (0, 0.525)


def test_weights_are_counted_with_their_floor():
    weight = np.array([0.0] * 3 + [1.0] * 5 + [2.0] * 2 + [10.0])
    ax = plots.plot_weights(weight, floor=0.1, n_bins=10)
    assert sum(patch.get_height() for patch in ax.patches) == 8
    assert len(ax.patches) == 10
    effective = 19**2 / (5 + 2 * 4 + 100)
    assert legend_texts(ax) == [
        "1 / floor = 10, reached by 12.5% of rows",
        f"8 rows count like {effective:.0f} equal ones",
        "3 rows of weight 0 not drawn",
    ]
    assert_allclose(ax.get_lines()[0].get_xdata(), 10)


def test_equal_weights_can_be_drawn():
    ax = plots.plot_weights(np.ones(7))
    assert sum(patch.get_height() for patch in ax.patches) == 7


def test_history_marks_refreshes_and_the_best_round():
    ax = plots.plot_history(
        {"training": [3.0, 2.0, 1.0], "validation": [3.0, 2.5, 2.6]}, refreshes=[2, 3], best_round=2
    )
    assert legend_texts(ax) == ["training", "validation", "weights refreshed", "best round, 2"]
    lines = lines_by_label(ax)
    assert_array_equal(lines["validation"].get_xdata(), [1, 2, 3])
    assert_array_equal(lines["validation"].get_ydata(), [3.0, 2.5, 2.6])
    assert_array_equal(lines["weights refreshed"].get_xdata(), [2, 3])
    assert_array_equal(lines["best round, 2"].get_xdata(), [2, 2])


def test_history_of_a_model_is_drawn_at_its_rounds():
    """Hazards evaluate held-out people every ten rounds, and refresh nothing."""
    records = [RoundRecord(0, 3.0), RoundRecord(10, 2.0), RoundRecord(20, 2.5)]
    ax = plots.plot_history({"held-out": records}, refreshes=[], best_round=10)
    assert legend_texts(ax) == ["held-out", "best round, 10"]
    lines = lines_by_label(ax)
    assert_array_equal(lines["held-out"].get_xdata(), [0, 10, 20])
    assert_array_equal(lines["held-out"].get_ydata(), [3.0, 2.0, 2.5])


def test_importance_shows_the_most_important_on_top():
    values = np.array([[1.0, 1.0], [5.0, 3.0], [2.0, 9.0]])
    names = ["age", "stage", "dose"]
    ax = plots.plot_importance(values, [1, 2.5], feature_names=names, max_features=2)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["dose", "stage"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2.5"]
    assert_array_equal(ax.images[0].get_array(), [[2, 9], [5, 3]])
    lines = plots.plot_importance(values, [1, 2.5], feature_names=names, kind="lines")
    assert legend_texts(lines) == ["dose", "stage", "age"]
    assert_array_equal(lines_by_label(lines)["age"].get_ydata(), [1, 1])


# ------------------------------------------------------------------------------------ computation
def test_group_incidence_is_mean_and_aalen_johansen():
    event, duration = [1, 2, 0, 2, 1, 1], [1.0, 2.0, 3.0, 1.0, 2.0, 5.0]
    cif = np.random.default_rng(0).dirichlet(np.ones(3), (6, 4)).transpose(0, 2, 1)
    groups = pd.Categorical(["late"] * 3 + ["early"] * 3, categories=["late", "none", "early"])
    result = plots.group_incidence(cif, (event, duration), groups, TIMES, cause=2)
    assert result.names == ("late", "early")
    assert_array_equal(result.sizes, [3, 3])
    assert_allclose(result.predicted, [cif[:3, 2].mean(axis=0), cif[3:, 2].mean(axis=0)])
    # By hand: 2 of 3 remain after t = 1, half of them leave by cause 2 at t = 2; known until 3.
    assert_allclose(result.observed, [[0, 0, 1 / 3, np.nan], [0, 1 / 3, 1 / 3, 1 / 3]])


def test_group_incidence_keeps_labels_of_causes():
    cif = np.full((3, 2, 4), 0.5)
    result = plots.group_incidence(cif, ([0, 7, 0], [9.0, 1.0, 9.0]), [0, 1, 1], TIMES, cause=7)
    assert result.names == ("0", "1")
    assert_allclose(result.observed[:, -1], [0, 0.5])  # No one of group 0 had the event.


# ----------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: plots.plot_stacked_incidence(CIF.T, TIMES), r"`cif` has shape \(4, 3\); expected"),
        (
            lambda: plots.plot_stacked_incidence(CIF, TIMES, state_names=["a"]),
            "`state_names` has 1 names for 3 curves",
        ),
        (
            lambda: plots.plot_brier({"mine": [1, 2]}, TIMES),
            r"'mine' has shape \(2,\); expected one value for each of 4 times",
        ),
        (
            lambda: plots.plot_calibration({"mine": ([1, 2], [1])}),
            r"'mine' is a pair of shapes \(2,\) and \(1,\)",
        ),
        (lambda: plots.plot_weights([1.0, -2.0]), "`weight` is -2.0 at row 1"),
        (lambda: plots.plot_weights([0.0]), "All 1 values of `weight` are 0"),
        (lambda: plots.plot_weights([1.0], floor=0), r"`floor` must be in \(0, 1\]; got 0"),
        (lambda: plots.plot_history({"training": []}), r"`history\['training'\]` has shape"),
        (
            lambda: plots.plot_importance(CIF, TIMES, feature_names="abc", kind="bars"),
            "choose from 'heatmap', 'lines'",
        ),
        (
            lambda: plots.group_incidence(CIF, ([1, 2], [1, 2]), [0, 0], TIMES),
            r"expected \(people, K \+ 1, times\) = \(2, 3, 4\)",
        ),
        (
            lambda: plots.group_incidence(CIF[None, :2], ([3], [1]), [0], TIMES),
            r"`cause` is 1; `y` has the labels \[0, 3\]",
        ),
        (
            lambda: plots.group_incidence(CIF[None, :2], ([1], [1]), [None], TIMES),
            "`groups` has 1 values, 1 of them missing, for 1 people",
        ),
    ],
)
def test_bad_arguments_are_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()
