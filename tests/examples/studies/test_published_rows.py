"""Rows of single splits that the gallery publishes: every interval of its tables follows from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

pytest.importorskip("torch")
pytest.importorskip("pyarrow")

import bias_and_variance
import bounds
import ca_fed
import coverage_gs
import e3cs
import e3cs_regret
import exact_vs_heuristic
import fedau
import fedgs
import fedss
import frontier
import graph_worth
import objective_on_the_graph
import objectives_and_distances
import optimisers_curse
import price_of_myopia

GALLERY = Path(__file__).parents[3] / "docs" / "gallery"

#: Published tables have five digits.
DIGITS = 1e-4


def read(name):
    """Read the rows and nothing else."""
    return pd.read_parquet(GALLERY / f"{name}.parquet")


def read_table(name):
    """Read a table of the gallery."""
    return pd.read_csv(GALLERY / f"{name}.csv")


def interval(values):
    """Compute Student's t by hand: mean, and half the 95 % interval."""
    values = np.asarray(values, dtype=float)
    return values.mean(), stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))


def same(table, file, **empty):
    """Assert that a study's own function gives the published table; ``empty`` is what stands in empty cells."""
    published = pd.read_csv(GALLERY / file).fillna(empty)
    pd.testing.assert_frame_equal(table, published, check_dtype=False, rtol=DIGITS, atol=1e-12)


def test_fedss():
    """Shares of Lemma 1's bias and speed-ups beside the paper's, claims by paired seeds, means over seeds."""
    rows, task, plan = read("fedss_results"), fedss.TASKS["digits"], fedss.PAPER
    bias, raw = (rows[rows["part"] == part].dropna(axis=1, how="all") for part in ("bias", "training"))
    raw = raw.assign(per_group=raw["per_group"].astype(int))
    trained = fedss.restricted(raw, task.rounds)
    same(fedss.claims(trained, task, plan).astype({"step": float}), "fedss_claims.csv")
    means = fedss.averages(raw, task.rounds).astype({"step": float, "size": int})
    same(means.rename_axis(columns=None), "fedss_means.csv")
    rounds = trained[trained["measure"] == "rounds to loss 0.5"].set_index([*fedss.KEYS, "seed"])["value"].sort_index()
    both, seen = read_table("fedss_beside_paper"), 0
    for row in both.to_dict("records"):
        if isinstance(row["draw"], str):
            own = bias[(bias["draw"] == row["draw"]) & bias["measure"].str.startswith("share")]["value"]
            assert len(own) == row["seeds"] == plan.traces
        else:
            ratio = "95 %" if isinstance(row["ratio"], float) else row["ratio"]
            size = "10" if np.isnan(row["size"]) else str(int(row["size"]))
            of_cell = rounds.loc[str(row["step"]), ratio, size, 1]
            own = of_cell.loc["FedAvg"] / of_cell.loc[row["algorithm"]]
            assert len(own) == row["seeds"] == plan.seeds
        assert (own.mean(), own.std()) == pytest.approx((row["ours"], row["deviation"]), rel=DIGITS, abs=1e-9)
        seen += 1
    assert seen == len(fedss.DRAWS) + 3 * 3 * 6 + 2 * 3 * 5
    gains = {"80 %": 0.10, "90 %": 0.13, "95 %": 0.14}  # at the step 0.05, as the page has them
    for ratio, told in gains.items():
        of_cell = rounds.loc["0.05", ratio, "10", 1]
        assert (of_cell.loc["FedAvg"] / of_cell.loc["FedSS-P"]).mean() - 1 == pytest.approx(told, abs=5e-3)


def test_frontier():
    rows, table = read("frontier_splits"), read_table("frontier_rules").set_index("rule")
    same(frontier.rules_table(rows), "frontier_rules.csv")
    for column in ("loss", "worst tenth"):
        values = rows.pivot(index="split", columns="rule", values=column)
        assert values.shape == (20, len(table))
        for rule, row in table.iterrows():
            apart = interval(values[rule] - values["uniform"])
            told = (row[f"{column}, to uniform's"], row[f"± {column}, to uniform's"])
            assert apart == pytest.approx(told, rel=DIGITS, abs=1e-9)


def test_frontiers_steps():
    rows = read("frontier_splits")
    same(frontier.steps_table(rows), "frontier_steps.csv")
    table = pd.read_csv(GALLERY / "frontier_steps.csv").set_index(["rule", "to"])
    assert len(table) == 3
    for (tight, loose), row in table.iterrows():
        for column in ("variance", "distance", "loss", "worst tenth"):
            values = rows.pivot(index="split", columns="rule", values=column)
            assert interval(values[tight] - values[loose]) == pytest.approx(
                (row[column], row[f"± {column}"]), rel=DIGITS
            )


#: Rows, the table made of them, what names a row of it, and columns whose mean and interval stand there.
LEVELS = {
    "frontier": ("frontier_splits", "frontier_rules", "rule", frontier.MEASURES),
    "CA-Fed's bounds": ("bounds_weights", "bounds_weights", "method", ("error",)),
    "FedSS's bounds": ("bounds_allocations", "bounds_allocations", "method", ("error", "bound")),
    "FedAU's bounds": ("bounds_cutoffs", "bounds_cutoffs", "method", ("error", "bound")),
}


@pytest.mark.parametrize("name", LEVELS)
def test_levels(name):
    """Means over splits as they are, with their intervals."""
    file, other, key, columns = LEVELS[name]
    rows, table = read(file), read_table(other).set_index(key)
    assert set(rows[key]) == set(table.index)
    for label, part in rows.groupby(key):
        assert len(part) == 20
        for column in columns:
            told = (table.loc[label, column], table.loc[label, f"± {column}"])
            assert interval(part[column]) == pytest.approx(told, rel=DIGITS)


def test_bounds():
    """Rank correlations of bound and error, the error of what each bound would choose, ratios to Unbiased's error."""
    weights, allocations, cutoffs = (read(f"bounds_{name}") for name in ("weights", "allocations", "cutoffs"))
    same(bounds.beside_unbiased(weights), "bounds_weights.csv")
    family = weights[weights["method"].str.startswith("power") | (weights["method"] == bounds.UNBIASED)]
    by_theorem = {"CA-Fed, 100 rounds": family, "FedSS": allocations, "FedAU": cutoffs}
    ranks = read_table("bounds_ranks")
    assert len(ranks) == 4 + 1 + 1
    for row in ranks.to_dict("records"):
        parts = [part for _, part in by_theorem[row["theorem"]].groupby("split")]
        assert len(parts) == row["splits"] == 20
        found = [stats.spearmanr(part[row["bound"]], part["error"])[0] for part in parts]
        assert interval(found) == pytest.approx((row["rank correlation"], row["±"]), rel=DIGITS)
        chosen = [part.loc[part[row["bound"]].idxmin(), "error"] / part["error"].min() for part in parts]
        assert interval(chosen) == pytest.approx((row["chosen / best error"], row["± chosen"]), rel=DIGITS)
    errors = weights.pivot(index="split", columns="method", values="error")
    for row in read_table("bounds_weights").to_dict("records"):
        ratio = interval(errors[row["method"]] / errors[bounds.UNBIASED])
        assert ratio == pytest.approx((row["of Unbiased's"], row["±"]), rel=DIGITS, abs=1e-9)


#: Runs with an exact method: label, what the comparisons per outcome are, splits.
EXACT = [
    ("exact_vs_heuristic_exclusions", 2 * 3, 20),
    ("exact_vs_heuristic_fedgs", 7 * 3, 20),
    ("exact_selectors", 2 + 2 + 3, 20),
]


@pytest.mark.parametrize(("label", "comparisons", "splits"), EXACT)
def test_beside_exact_runs(label, comparisons, splits):
    """Every outcome of a rule less that of the exact runs, paired over splits."""
    rows, table = read(f"{label}_runs"), read_table(f"{label}_results")
    same(exact_vs_heuristic.compare(rows), f"{label}_results.csv")
    assert len(table) == comparisons * len(exact_vs_heuristic.OUTCOMES)
    for line in table.to_dict("records"):
        part = rows[(rows["paper"] == line["paper"]) & (rows["regime"] == line["regime"])]
        values = part.pivot(index="split", columns="method", values=line["outcome"])
        assert not values.isna().any(axis=None)
        apart = values[line["method"]] - values["exact"]
        assert len(apart) == line["splits"] == splits
        assert interval(apart) == pytest.approx((line["difference"], line["half"]), rel=DIGITS)
        if apart.std() > 0:
            assert stats.ttest_1samp(apart, 0).pvalue == pytest.approx(line["p"], rel=DIGITS)


#: Plans with regimes of the whole study, and how many comparisons an outcome has that are in its table, too.
AGAIN = [("exclusions", 2 * 2), ("rest", 4 * 2 + 2 * 3 + 2 * 2)]


@pytest.mark.parametrize(("plan", "comparisons"), AGAIN)
def test_exact_vs_heuristic_again(plan, comparisons):
    """The rows of a plan give what the whole study published, in all outcomes."""
    rows, table = read(f"exact_vs_heuristic_{plan}_runs"), read_table("exact_vs_heuristic_results")
    table = table[table["regime"].isin(rows["regime"])]
    assert len(table) == comparisons * len(exact_vs_heuristic.OUTCOMES)
    for line in table.to_dict("records"):
        part = rows[rows["regime"] == line["regime"]]
        values = part.pivot(index="split", columns="method", values=line["outcome"])
        assert values["exact"].mean() == pytest.approx(line["exact"], rel=DIGITS)
        apart = values[line["method"]] - values["exact"]
        assert len(apart) == line["splits"] == 20
        assert interval(apart) == pytest.approx((line["difference"], line["half"]), rel=DIGITS, abs=1e-9)


@pytest.mark.parametrize(("label", "readings"), [("", 4), ("_0_2", 4)])
def test_ca_fed(label, readings):
    """Table I beside ours, levels and distances to Unbiased, paired by seed."""
    rows = read_table(f"ca_fed{label}_results")
    table = ca_fed.table_one(rows, "clustered", {}).drop(columns="why")  # the reasons look at runs
    published = read_table(f"ca_fed{label}_table1").drop(columns="why").fillna({"verdict": ""})
    pd.testing.assert_frame_equal(table.reset_index(drop=True), published, check_dtype=False, rtol=DIGITS)
    cells = published.set_index(["measure", "reading", "method"])
    assert rows["reading"].nunique() == readings
    for reading, part in rows.groupby("reading"):
        average = part.pivot(index="seed", columns="method", values="time average, logged rounds")
        assert len(average) == 9
        apart = average["CA-Fed"] - average["Unbiased"]
        found = cells.loc[("time average, logged rounds - Unbiased's", reading, "CA-Fed")]
        assert (apart.mean(), apart.std()) == pytest.approx((found["ours"], found["deviation"]), rel=DIGITS)


def test_ca_fed_exclusions():
    """Shares of the rounds in which a client is available and left out, over all runs of a reading."""
    rows = read("ca_fed_exclusions")
    same(ca_fed.exclusions(rows), "ca_fed_exclusions.csv")
    table = read_table("ca_fed_exclusions").set_index(["reading", "method"])
    assert rows.groupby(["reading", "method"])["seed"].nunique().eq(9).all()
    for (reading, method, name), part in rows.groupby(["reading", "method", "class"]):
        if part["active"].sum() > 0:
            share = 100 * part["excluded"].sum() / part["active"].sum()
            assert share == pytest.approx(table.loc[(reading, method), name], rel=DIGITS)


#: Tables of FedGS: rows, what names a cell, the value, and how many runs the paper's number is a mean of.
FEDGS = {
    "Table 2": ("fedgs_runs", ["mode", "method"], "best_loss", 3),
    "Table 3": ("fedgs_edges", ["split", "rate", "method", "score"], "value", 1),
}


@pytest.mark.parametrize("title", FEDGS)
def test_fedgs(title):
    """Mean and deviation over seeds, and how probable such a distance from the paper's number is."""
    file, cell, value, runs = FEDGS[title]
    rows, table = read(file), read_table("fedgs_results").query("table == @title").astype({"rate": str})
    values = rows[rows["m"] == 6] if title == "Table 2" else rows
    values = values.groupby(cell)[value]
    assert len(values) == len(table)
    for row in table.to_dict("records"):
        of_seeds = values.get_group(tuple(row[name] for name in cell))
        assert len(of_seeds) == row["seeds"] == 3
        assert (of_seeds.mean(), of_seeds.std()) == pytest.approx((row["ours"], row["deviation"]), rel=DIGITS)
        if row["paper"] > 0 and of_seeds.std() > 0:
            apart = abs(of_seeds.mean() - row["paper"]) / (of_seeds.std() * np.sqrt(1 / 3 + 1 / runs))
            assert 2 * stats.t.sf(apart, 2) == pytest.approx(row["p"], rel=DIGITS)


def test_fedgs_text():
    """What is said of Table 2 follows from the rows."""
    runs, paper = read("fedgs_runs"), fedgs.published("synthetic")
    modes, tables, fits = ("IDL", "LN", "SLN", "LDF", "MDF"), fedgs.variants(runs, paper), fedgs.readings(runs, paper)
    same(fedgs.claims(tables, modes), "fedgs_claims.csv")
    same(fedgs.ratios(tables, modes), "fedgs_ratios.csv")
    same(fits, "fedgs_readings.csv")
    same(fedgs.held_out(fits), "fedgs_held_out.csv")
    main = runs[runs["m"] == 6]
    same(fedgs.leads(main), "fedgs_leads.csv")
    losses = main.pivot(index=["mode", "seed"], columns="method", values="best_loss")
    leads = read_table("fedgs_leads")
    assert len(leads) == 5 * 4
    for row in leads.to_dict("records"):
        apart = losses["FedGS α=1"].loc[row["mode"]] - losses[row["method"]].loc[row["mode"]]
        assert len(apart) == row["seeds"] == 3
        assert interval(apart) == pytest.approx((row["difference"], row["+-"]), rel=DIGITS)


def test_e3cs():
    """E3CS beside its paper: means and deviations over seeds, orders, and what an exact draw changes by seed."""
    rows = read("e3cs_results")
    chosen, trained = (rows[rows["part"] == part] for part in ("selection", "training"))
    same(e3cs.count_table(chosen), "e3cs_counts.csv", draw="")
    same(e3cs.fairness(chosen), "e3cs_fairness.csv", why="")
    same(e3cs.orders(trained, "digits", e3cs.TASKS["digits"].rounds), "e3cs_orders.csv")
    both, seen = read_table("e3cs_beside_paper"), 0
    both["draw"] = both["draw"].fillna("")
    of_title = {"Fig. 4": "success ratio", "Success ratio minus": "success beyond the promised"}
    for start, measure in of_title.items():
        for row in both[both["table"].str.startswith(start)].to_dict("records"):
            part = chosen[(chosen["scheme"] == row["scheme"]) & (chosen["draw"] == row["draw"])]
            values = part[part["measure"] == measure]["value"]
            assert len(values) == row["seeds"]
            assert (values.mean(), values.std()) == pytest.approx((row["ours"], row["deviation"]), rel=DIGITS, abs=1e-9)
            seen += 1
    assert seen == 17 + 12  # schemes and draws; those of E3CS alone promise a ratio
    again = e3cs.beside(trained, "digits", True, e3cs.TASKS["digits"].rounds).reset_index(drop=True)
    told = both[both["table"].str.startswith("Training")][again.columns].reset_index(drop=True)
    told = told.fillna({"verdict": "", "why": ""})
    pd.testing.assert_frame_equal(again, told, check_dtype=False, rtol=DIGITS, atol=1e-9)
    same(e3cs.wide(again).rename_axis(columns=None), "e3cs_training.csv", draw="")
    accuracy = trained[trained["measure"] == "final accuracy"]
    key = ["update", "partition", "scheme", "draw"]
    random = accuracy[accuracy["scheme"] == "Random"].set_index(["update", "partition", "seed"])["value"]
    of_cell = dict(list(accuracy.groupby(key)))
    lines = both[both["measure"] == "accuracy above Random's"].to_dict("records")
    for row in lines:
        own = of_cell[tuple(row[name] for name in key)].set_index("seed")["value"]
        above = own - random.loc[row["update"], row["partition"]]
        assert len(above) == row["seeds"] == 3
        assert above.mean() == pytest.approx(row["ours"], rel=DIGITS, abs=1e-9)
    assert len(lines) == 32
    for row in read_table("e3cs_exact_draws").to_dict("records"):
        cell = trained[(trained["partition"] == row["partition"]) & (trained["scheme"] == row["scheme"])]
        cell = cell[cell["update"] == "A"]
        for measure in ("final accuracy", "success ratio", "rounds to 65 %", "rounds to 75 %", "rounds to 85 %"):
            values = cell[cell["measure"] == measure].pivot(index="seed", columns="draw", values="value")
            found = interval(values["madow"] - values["successive"])
            assert tuple(map(float, row[measure].split(" ± "))) == pytest.approx(found, abs=6e-4)


def test_e3cs_regret():
    """Regret beside its bound, means over seeds; then Fig. 7's accuracies, and the leads over Random by seed."""
    played, trained = read("e3cs_regret_played"), read("e3cs_regret_runs").fillna({"draw": ""})
    plan = e3cs_regret.PAPER
    table = read_table("e3cs_regret_regret")
    assert len(table) == 3 * len(e3cs.QUOTAS) * 2 * len(plan.draws)
    assert (played.groupby(["k", "scheme", "η", "draw"]).size() == plan.seeds).all()
    same(e3cs_regret.regrets(played, plan), "e3cs_regret_regret.csv")
    regret = played.groupby(["k", "scheme", "η", "draw"])["regret"]
    for row in table.to_dict("records"):
        values = regret.get_group((row["k"], row["scheme"], row["η"].split()[0], row["draw"]))
        assert (values.mean(), values.max()) == pytest.approx((row["regret"], row["largest"]), rel=DIGITS)
    sizes = read_table("e3cs_regret_sizes").fillna({"draw": ""})
    accuracy = trained.set_index(["partition", "k", "scheme", "draw", "seed"])["mean accuracy"]
    for row in sizes.to_dict("records"):
        own = accuracy.loc[row["partition"], row["k"], row["scheme"], row["draw"]]
        assert len(own) == row["seeds"] == plan.training_seeds
        assert interval(own) == pytest.approx((row["mean accuracy"], row["± mean accuracy"]), rel=DIGITS)
        if row["scheme"] != "Random":
            lead = own - accuracy.loc[row["partition"], row["k"], "Random", ""]
            assert interval(lead) == pytest.approx((row["lead over Random"], row["± lead over Random"]), rel=DIGITS)
    assert len(sizes) == 66


def test_fedau():
    """FedAU's leads at tuned and at equal rates, paired by seed."""
    rows, table = read_table("fedau_results"), read_table("fedau_leads").set_index(["pattern", "method"])
    same(fedau.leads(rows), "fedau_leads.csv")
    assert len(table) == 18
    for (pattern, method), row in table.iterrows():
        accuracy = rows[rows["pattern"] == pattern].pivot(index="seed", columns="method", values="accuracy")
        lead = accuracy["FedAU, K = 50"] - accuracy[method]
        assert interval(lead) == pytest.approx((row["lead"], row["+-"]), rel=DIGITS)
    equal = read_table("fedau_results_equal_rates")
    for row in read_table("fedau_leads_equal_rates").to_dict("records"):
        at = equal[(equal["pattern"] == row["pattern"]) & np.isclose(equal["server rate"], row["server rate"])]
        accuracy = at.pivot(index="seed", columns="method", values="accuracy")
        lead = accuracy["FedAU, K = 50"] - accuracy[row["method"]]
        assert interval(lead) == pytest.approx((row["lead"], row["+-"]), rel=DIGITS)


def test_fedau_weights():
    """Weight errors, means over seeds."""
    rows, table = read("fedau_weights_rows"), read_table("fedau_weights")
    assert sorted(rows["seed"].unique()) == [1, 2, 3, 4, 5]
    error = rows.set_index(["T", "K", "pattern", "seed"])["error"]
    for row in table.to_dict("records"):
        for pattern in fedau.PATTERNS:
            own = error.loc[row["T"], row["K"], pattern]
            assert len(own) == 5
            assert own.mean() == pytest.approx(row[pattern], rel=DIGITS)


#: Plans of the rest of the objective study's table: with errors, by their number of cells; with runs, by theirs.
OF_ERRORS = {"errors": 36, "labels": 36, "synthetic": 6, "many": 8}
OF_RUNS = {"runs": 64, "synthetic": 8, "distances": 96, "many": 16}


@pytest.mark.parametrize("plan", OF_ERRORS)
def test_errors_of_one_round(plan):
    """Coverage beside dispersion on the 3DG, in per cent of a random selection's error, in every cell."""
    name = f"objectives_and_distances_{plan}_errors"
    rows, table = read(name), read_table(name)
    table["concentration"] = table["concentration"].astype(str)
    columns = ["data", "concentration", "available", "selected"]
    pd.testing.assert_frame_equal(objectives_and_distances.of_errors(rows), table, check_dtype=False, rtol=DIGITS)
    assert set(rows["split"]) == set(objectives_and_distances.PLANS[plan].errors.splits)
    assert len(table) == OF_ERRORS[plan]
    rows = rows[rows["distances"].isin(["", "3DG"])]
    error = rows.groupby([*columns, "split", "objective"])["error"].mean().unstack()
    apart = 100 * (error["coverage"] - error["dispersion"]) / error["random"]
    for row in table.to_dict("records"):
        values = apart.loc[tuple(row[name] for name in columns)]
        assert len(values) == row["splits"] == len(objectives_and_distances.PLANS[plan].errors.splits)
        assert interval(values) == pytest.approx((row["difference %"], row["+-"]), rel=DIGITS)


@pytest.mark.parametrize("plan", OF_RUNS)
def test_losses_of_runs(plan):
    """Differences of the loss, each split's in per cent of uniform selection's there, adjusted together."""
    name = f"objectives_and_distances_{plan}_runs"
    rows, table = read(name), read_table(name)
    columns = ["data", "concentration", "available", "selected"]
    table["concentration"] = table["concentration"].astype(str)
    pairs = tuple(dict.fromkeys(zip(table["rule"], table["to"], strict=True)))
    again = objectives_and_distances.of_runs(rows, pairs)
    pd.testing.assert_frame_equal(again, table, check_dtype=False, rtol=DIGITS)
    assert set(rows["split"]) == set(objectives_and_distances.PLANS[plan].runs.scale.splits)
    assert len(table) == OF_RUNS[plan]
    of_cell = dict(list(rows.groupby(columns)))
    for row in table.to_dict("records"):
        loss = of_cell[tuple(row[name] for name in columns)].pivot(index="split", columns="rule", values="loss")
        values = 100 * (loss[row["rule"]] - loss[row["to"]]) / loss["uniform"]
        assert len(values) == row["splits"] == len(objectives_and_distances.PLANS[plan].runs.scale.splits)
        assert interval(values) == pytest.approx((row["difference %"], row["+-"]), rel=DIGITS)


def test_what_predicts_a_loss():
    """Functions fitted on the first half of the splits and tested on the other, with every rule and without one."""
    rows = read("objectives_and_distances_distances_runs")
    again = objectives_and_distances.what_predicts(rows, 165)
    same(again, "objectives_and_distances_distances_predictions.csv")
    assert rows["rule"].nunique() == 15


@pytest.mark.parametrize(
    ("plan", "selected"), [(plan, m) for plan in OF_ERRORS for m in objectives_and_distances.PLANS[plan].errors.sizes]
)
def test_errors_by_objective(plan, selected):
    """Errors of one update by objective and distances, in per cent of a random selection's."""
    name = f"objectives_and_distances_{plan}_errors"
    rows, table = read(name), read_table(f"{name}_objectives_{selected}")
    rows = rows[rows["selected"] == selected]
    cell = ["data", "concentration", "available"]
    error = rows.groupby([*cell, "objective", "distances", "split"])["error"].mean()
    random = error.xs("random", level="objective").droplevel("distances")
    cells = objectives_and_distances.PLANS[plan].errors
    assert len(table) == OF_ERRORS[plan] // len(cells.sizes) * 3 * len(cells.distances)
    for row in table.to_dict("records"):
        part = error.loc[tuple(str(row[column]) for column in (*cell, "objective", "distances"))]
        share = 100 * part / random.loc[tuple(str(row[column]) for column in cell)]
        assert len(share) == row["splits"] == len(cells.splits)
        assert interval(share) == pytest.approx((row["error, % of random"], row["+-"]), rel=DIGITS)


@pytest.mark.parametrize(("label", "rules", "splits"), [("", 6, 15), ("_digits_new", 6, 15), ("_letters_208", 3, 10)])
def test_losses_by_rule(label, rules, splits):
    """Each rule's loss beside uniform selection's, paired by split, in per cent."""
    rows, table = read(f"objective_on_the_graph{label}_runs"), read_table(f"objective_on_the_graph{label}_rules")
    assert len(table) == 4 * rules
    for row in table.to_dict("records"):
        cell = rows[(rows["concentration"] == row["concentration"]) & (rows["available"] == row["available"])]
        losses = cell.pivot(index="split", columns="rule", values="loss")
        assert len(losses) == splits
        share = 100 * (losses[row["rule"]] / losses[objective_on_the_graph.UNIFORM] - 1)
        assert interval(share) == pytest.approx((row["loss %"], row["+-"]), rel=DIGITS, abs=1e-9)


def test_e3cs_draws():
    """The exact draw less the paper's, paired by seed."""
    rows, table = read("e3cs_draws_runs"), read_table("e3cs_draws_effects").fillna({"verdict": ""})
    same(e3cs.draw_effects(rows, e3cs.BOTH_DRAWS.margin), "e3cs_draws_effects.csv", verdict="")
    for row in table.to_dict("records"):
        part = rows[rows["partition"] == row["partition"]].pivot(index="seed", columns="draw", values=row["measure"])
        assert len(part) == row["seeds"]
        apart = part["madow"] - part["successive"]
        assert interval(apart) == pytest.approx((row["difference"], row["+-"]), rel=DIGITS)


@pytest.mark.parametrize(
    ("name", "splits"),
    [("coverage_gs", coverage_gs.PAPER.splits), ("coverage_gs_letters_208", coverage_gs.LETTERS["splits"])],
)
def test_coverage_gs(name, splits):
    """Coverage with counts less each other rule, paired by split, in per cent of uniform selection's mean."""
    rows, table = read(f"{name}_runs"), read_table(f"{name}_leads").fillna({"verdict": ""})
    same(coverage_gs.leads(rows), f"{name}_leads.csv", verdict="")
    assert set(rows["split"]) == set(splits)
    checked = 0
    for row in table.to_dict("records"):
        part = rows[(rows["concentration"] == row["concentration"]) & (rows["available"] == row["available"])]
        values = part.pivot(index="split", columns="rule", values=row["outcome"])
        apart = 100 * (values["coverage-gs"] - values[row["less"]]) / values["uniform"].mean()
        assert len(apart) == row["splits"] == len(splits)
        assert interval(apart) == pytest.approx((row["difference %"], row["+-"]), rel=DIGITS)
        checked += 1
    assert checked == 4 * 6 * 4


def test_graph_worth():
    """Losses with each graph less those with the oracle's, paired by split."""
    rows, table = read("graph_worth_runs"), read_table("graph_worth")
    empty = {f"{loss} is": "" for loss in ("smallest loss", "final loss")}
    same(graph_worth.summarised(rows), "graph_worth.csv", **empty)
    assert len(table) == 2 * (len(graph_worth.GRAPHS) + 1)
    for row in table.to_dict("records"):
        part = rows[rows["split"] == row["split"]]
        for loss in ("smallest loss", "final loss"):
            values = part.pivot(index="seed", columns="graph", values=loss)
            apart = interval(values[row["graph"]] - values["oracle"])
            assert len(values) == row["seeds"] == 10
            assert apart == pytest.approx((row[f"{loss} - oracle's"], row[f"± {loss}"]), rel=DIGITS)


def test_optimisers_curse():
    """Percentiles and errors over splits, errors beside controls paired by split, percentiles by the gap."""
    rows, by_gap = read("optimisers_curse_splits"), read("optimisers_curse_curve_splits")
    made, beside = optimisers_curse.decisions(rows), optimisers_curse.beside_controls(rows)
    drawn = optimisers_curse.curve(by_gap)
    cell, tables = optimisers_curse.CELL, {"decisions": made, "controls": beside, "curve": drawn}
    for name, table in tables.items():
        for surrogate, part in table.groupby("surrogate", sort=False):
            ending = surrogate.lower().replace(",", "").replace(" ", "_")
            told = part.assign(**{"gap, %": part["gap, %"].astype(str)}) if name == "curve" else part
            empty = {"decisions": {"than random": ""}, "controls": {}, "curve": {}}[name]
            same(told.reset_index(drop=True), f"optimisers_curse_{name}_{ending}.csv", **empty)
    errors = rows.pivot(index=[*cell, "split"], columns="decided by", values="error")
    percentiles = rows.pivot(index=[*cell, "split"], columns="decided by", values="percentile")
    for row in made.to_dict("records"):
        key = tuple(row[name] for name in cell)
        assert row["splits"] == len(errors.loc[key]) == 20
        of_splits = percentiles.loc[key, row["decided by"]]
        assert interval(of_splits) == pytest.approx((row["percentile"], row["+-"]), rel=DIGITS, abs=1e-9)
        of_splits = errors.loc[key, row["decided by"]]
        assert interval(of_splits) == pytest.approx((row["error"], row["error +-"]), rel=DIGITS)
    for row in beside.to_dict("records"):
        of_splits = errors.loc[tuple(row[name] for name in cell)]
        ratio = interval(100 * (of_splits[row["decided by"]] / of_splits[row["control"]] - 1))
        assert ratio == pytest.approx((row["error %"], row["+-"]), rel=DIGITS, abs=1e-9)
    for key, part in by_gap.groupby([*cell, "gap"], observed=True):
        row = drawn[(drawn[[*cell, "gap, %"]] == list(key)).all(axis=1)].iloc[0]
        assert row["splits"] == len(part)
        if len(part) > 1:
            assert interval(part["percentile"]) == pytest.approx((row["percentile"], row["+-"]), rel=DIGITS, abs=1e-9)


def test_bias_and_variance():
    """Parts of the error, and the error beside uniform selection's, paired by split."""
    rows, table = read("bias_and_variance_splits"), read_table("bias_and_variance_table")
    same(bias_and_variance.table_of(rows), "bias_and_variance_table.csv")
    assert len(table) == len(bias_and_variance.CELLS) * len(bias_and_variance.SELECTORS)
    cells = rows.set_index(["availability", "round", "selector", "split"]).sort_index()
    for row in table.to_dict("records"):
        part, uniform = (cells.loc[(row["availability"], row["round"], name)] for name in (row["selector"], "uniform"))
        assert len(part) == row["splits"] == 20
        for column in ("bias", "draw", "rounds", "error", "weight error"):
            assert interval(part[column]) == pytest.approx((row[column], row[f"± {column}"]), rel=DIGITS, abs=1e-9)
        ratio = interval(part["error"] / uniform["error"])
        assert ratio == pytest.approx((row["of uniform's"], row["±"]), rel=DIGITS, abs=1e-9)


def test_price_of_myopia():
    """Variances beside the clairvoyant's, and differences of the losses, paired by draw and split."""
    rows = read("price_of_myopia_draws")
    same(price_of_myopia.prices(rows), "price_of_myopia_prices.csv")
    same(price_of_myopia.losses(rows), "price_of_myopia_losses.csv")
    cells = rows.set_index(["availability", "planner", "draw"]).sort_index()
    for row in read_table("price_of_myopia_prices").to_dict("records"):
        name = row["availability"]
        part, best = (cells.loc[(name, who), "variance"] for who in (row["planner"], price_of_myopia.CLAIRVOYANT))
        assert len(part) == row["draws"] == 20
        assert interval(part) == pytest.approx((row["variance"], row["± variance"]), rel=DIGITS, abs=1e-9)
        if np.isfinite(row["of clairvoyant's"]) and best.min() > 0:
            ratio = (row["of clairvoyant's"], row["±"])
            assert interval(part / best) == pytest.approx(ratio, rel=DIGITS, abs=1e-9)
    for row in read_table("price_of_myopia_losses").to_dict("records"):
        name, outcome = row["availability"], row["outcome"]
        part, best = (cells.loc[(name, who), outcome] for who in (row["planner"], price_of_myopia.CLAIRVOYANT))
        assert len(part) == row["splits"] == 20
        assert interval(part - best) == pytest.approx((row["difference"], row["±"]), rel=DIGITS, abs=1e-9)
