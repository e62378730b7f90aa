"""The formulas that the docstrings print, one loop a sum sign, numbered as there."""

from __future__ import annotations

import itertools
import math

import numpy as np


def kaplan_meier_censoring(y, s=None):
    """G(t) and G(t-) of equation (8), by the definition; `s` are sample weights."""
    event, duration = (np.asarray(part) for part in y)
    s = np.ones(len(event)) if s is None else s

    def survival(t, left):
        product = 1.0
        for u in np.unique(duration):
            if u < t or (u == t and not left):
                at_risk = sum(s[duration >= u]) - sum(s[(duration == u) & (event != 0)])
                censored = sum(s[(duration == u) & (event == 0)])
                product *= 1 - censored / at_risk if censored else 1.0
        return product

    return survival


def weight(G, t, d, z):
    """w_i(z) of (20), with G(t, left)."""
    if t > z:
        return 1 / G(z, False)
    if d != 0:
        return 1 / G(t, True)
    return 0.0


def outcome(t, d, z, k):
    return t > z if k == 0 else (t <= z and d == k)


def weighted_score(score, G_of_person, y, curve, z, k, s):
    """(21) for one time; `curve` is F_k(z|x_i), `G_of_person[i]` is G(., left)."""
    total = 0.0
    for i, (d, t) in enumerate(zip(*y, strict=True)):
        w = weight(G_of_person[i], t, d, z)
        if w:
            total += s[i] * w * score(curve[i], outcome(t, d, z, k))
    return total / sum(s)


def brier(p, happened):
    return (p - happened) ** 2


def binary_log_loss(p, happened):
    return -math.log(p) if happened else -math.log(1 - p)


def vector_log_loss(G_of_person, y, states, z, s):
    """(23); `states[i][k]` is F_k(z|x_i)."""
    total = 0.0
    for i, (d, t) in enumerate(zip(*y, strict=True)):
        w = weight(G_of_person[i], t, d, z)
        for k in range(len(states[i])):
            if w and outcome(t, d, z, k):
                total -= s[i] * w * math.log(states[i][k])
    return total / sum(s)


def integral(scores, times):
    """(25)."""
    pairs = sorted(zip(times, scores, strict=True))
    area = 0.0
    for (left, first), (right, second) in itertools.pairwise(pairs):
        area += (right - left) * (first + second) / 2
    return area / (pairs[-1][0] - pairs[0][0])


def concordance(G_of_person, y, risk, z, k, s):
    """(26) and (27); k = 0 is any event."""
    event, duration = y
    if k == 0:
        event, k = [int(d != 0) for d in event], 1
    numerator = denominator = 0.0
    for i, (d_i, t_i) in enumerate(zip(event, duration, strict=True)):
        if not (t_i <= z and d_i == k):
            continue
        for j, (d_j, t_j) in enumerate(zip(event, duration, strict=True)):
            if j == i:
                continue
            pair = 0.0
            if t_j > t_i or (t_j == t_i and d_j == 0):
                pair += 1 / (G_of_person[i](t_i, True) * G_of_person[j](t_i, True))
            if t_j <= t_i and d_j not in (0, k):
                pair += 1 / (G_of_person[i](t_i, True) * G_of_person[j](t_j, True))
            pair *= s[i] * s[j]
            numerator += pair * ((risk[i] > risk[j]) + (risk[i] == risk[j]) / 2)
            denominator += pair
    return numerator / denominator if denominator else math.nan


def auc(G_of_person, y, risk, z, k, s, controls):
    """(28) and (29)."""
    event, duration = y
    a, b = [], []
    for i, (d, t) in enumerate(zip(event, duration, strict=True)):
        w = s[i] * weight(G_of_person[i], t, d, z)
        case = t <= z and (d != 0 if k == 0 else d == k)
        a.append(w * case)
        b.append(w * ((not case) if controls == "all" else t > z))
    total = 0.0
    for i, a_i in enumerate(a):
        for j, b_j in enumerate(b):
            total += a_i * b_j * ((risk[i] > risk[j]) + (risk[i] == risk[j]) / 2)
    return total / (sum(a) * sum(b)) if sum(a) * sum(b) else math.nan


def cen_log_simple(y, curves, nodes, s):
    """(30); `curves[i][k](t)` is F_k(t|x_i)."""
    total = 0.0
    for i, (d, t) in enumerate(zip(*y, strict=True)):
        if t > nodes[-1]:
            d, t = 0, nodes[-1]
        for j in range(len(nodes) - 1):
            if nodes[j] < t <= nodes[j + 1] or (j == 0 and t <= nodes[0]):
                if d:
                    p = curves[i][d](nodes[j + 1]) - curves[i][d](nodes[j])
                else:
                    p = curves[i][0](nodes[j + 1])
                total -= s[i] * math.log(p)
    return total / sum(s)


def accuracy(y, states, z, s, v):
    """(31); `states[i][k]` is F_k(z|x_i)."""
    numerator = denominator = 0.0
    for i, (d, t) in enumerate(zip(*y, strict=True)):
        best = max(range(len(states[i])), key=lambda k, i=i: (states[i][k], -k))
        numerator += s[i] * v[i] * (best == d * (t <= z))
        denominator += s[i] * v[i]
    return numerator / denominator


def kaplan_meier(y, s=None):
    """S(t) of equation (6)."""
    event, duration = (np.asarray(part) for part in y)
    s = np.ones(len(event)) if s is None else np.asarray(s)

    def survival(t):
        product = 1.0
        for u in np.unique(duration[duration <= t]):
            gone = s[(duration == u) & (event != 0)].sum()
            product *= 1 - gone / s[duration >= u].sum() if gone else 1.0
        return product

    return survival


def aalen_johansen(y, k, s=None):
    """F_k(t) of equation (7)."""
    event, duration = (np.asarray(part) for part in y)
    s = np.ones(len(event)) if s is None else np.asarray(s)
    survival = kaplan_meier(y, s)

    def incidence(t):
        total, before = 0.0, 1.0
        for u in np.unique(duration[duration <= t]):
            total += before * s[(duration == u) & (event == k)].sum() / s[duration >= u].sum()
            before = survival(u)
        return total

    return incidence


def bin_shares(y, at_exit, n_bins, s):
    """h_b of (38)."""
    shares = np.zeros(n_bins)
    for i, d in enumerate(y[0]):
        u = at_exit[i]
        for b in range(n_bins):
            low, high = b / n_bins, (b + 1) / n_bins
            if d:
                inside = low <= u < high or (b == n_bins - 1 and u == 1)
                shares[b] += s[i] * inside
            else:
                shares[b] += s[i] * max(min(high, u) - low, 0) / u
    return shares / sum(s)


def incidence_variance(y, k, z):
    """v_g of (42); k = 0 is any event."""
    event, duration = (np.asarray(part) for part in y)
    survival = kaplan_meier(y)
    incidence = (lambda t: 1 - survival(t)) if k == 0 else aalen_johansen(y, k)
    total, before = 0.0, 1.0
    for u in np.unique(duration[duration <= z]):
        n = sum(duration >= u)
        h = sum((duration == u) & (event != 0)) / n
        h_k = h if k == 0 else sum((duration == u) & (event == k)) / n
        rest = incidence(z) - incidence(u)
        first = rest**2 * h / (1 - h) if h < 1 else 0.0
        total += (first + before**2 * h_k * (1 - h_k) - 2 * rest * before * h_k) / n
        before = survival(u)
    return total


def pseudo_observation(y, i, k, z):
    """theta_ik of (43), leaving person i out for real."""
    event, duration = (np.asarray(part) for part in y)
    others = (np.delete(event, i), np.delete(duration, i))
    n = len(event)
    if k == 0:
        return n * kaplan_meier(y)(z) - (n - 1) * kaplan_meier(others)(z)
    return n * aalen_johansen(y, k)(z) - (n - 1) * aalen_johansen(others, k)(z)


def expected_time(y_train, c):
    """e_i and S(t_i) of MAE margin, by a fine midpoint sum over the steps and the linear tail."""
    survival = kaplan_meier(y_train)
    last = max(y_train[1])
    end = last / (1 - survival(last))

    def curve(t):
        return survival(t) if t <= last else max(1 - t / end, 0.0)

    cuts = sorted({c, end, last, *[t for t in y_train[1] if t > c]})
    area = 0.0
    for left, right in itertools.pairwise(cuts):
        if left >= c:
            # Constant on steps, linear on the tail: the midpoint is exact for both.
            area += (right - left) * curve((left + right) / 2)
    return (c + area / curve(c) if curve(c) else c), curve(c)
