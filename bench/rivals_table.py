"""The arithmetic of bench/rivals.py: the search for the goodput, and the tables. No server, no clock.

The goodput of a server is the largest rate at which at most 1 % of the requests are bad: late, refused or failed. The
search halves the rate until one holds, or doubles it until one fails, then halves the interval, geometrically, to the precision.
"""
import math
import statistics

BAD = 0.01


class Search:
    """Asks for one rate after the other. next() is None when the goodput is known: best."""

    def __init__(self, start, lowest, precision=0.05):
        assert start > 0 and lowest > 0 and precision > 0
        self.rate, self.lowest, self.precision = start, lowest, precision
        self.holds, self.fails = 0.0, math.inf

    def next(self):
        if self.holds == 0 and self.fails <= self.lowest:
            return None  # not even the lowest rate holds
        if self.fails == math.inf:
            return self.rate if self.holds == 0 else self.holds * 2
        if self.holds == 0:
            return max(self.lowest, self.fails / 2)
        return None if self.fails / self.holds <= 1 + self.precision else math.sqrt(self.holds * self.fails)

    def note(self, rate, bad_rate):
        if bad_rate <= BAD:
            self.holds = max(self.holds, rate)
        else:
            self.fails = min(self.fails, rate)
            if self.holds >= self.fails:  # it held at a rate before, and now fails below: search again
                self.holds = 0.0

    @property
    def best(self):
        return self.holds


def bad_rate(total):
    """Of a report of tutti load: what was not answered in time, of all that were due."""
    if total["arrived"] == 0:
        raise ValueError("no request was due: the run is too short for its rate")
    return 1 - total["ok"] / total["arrived"]


def geometric_mean(values):
    values = list(values)
    if not values:
        raise ValueError("the mean of nothing")
    if min(values) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, values)) / len(values))


def medians(rows):
    """{(cell, contender): median goodput over the rounds}; rows as written by bench/rivals.py."""
    rounds = {}
    for row in rows:
        rounds.setdefault((row["cell"], row["contender"]), []).append(row["goodput_per_s"])
    return {key: statistics.median(values) for key, values in rounds.items()}


def ratio(ours, best):
    """Ours over the best rival's; None: no rival was measured. A rival that serves nothing in time loses by any factor."""
    if best is None:
        return None
    return ours / best if best > 0 else (math.inf if ours > 0 else 1.0)


def compare(rows):
    """Per cell, in order of appearance: (cell, {contender: goodput}, the best rival or None, ratio or None). Triton's ways count
    as one rival: its best counts."""
    found = medians(rows)
    result = []
    for cell in dict.fromkeys(row["cell"] for row in rows):
        goodput = {who: value for (where, who), value in found.items() if where == cell}
        rivals = {who: value for who, value in goodput.items() if who != "tutti"}
        best = max(rivals, key=rivals.get) if rivals else None
        ours = goodput.get("tutti")
        result.append((cell, goodput, best, ratio(ours, rivals.get(best)) if ours is not None and rivals else None))
    return result


def number(value):
    return "-" if value is None else "%.0f" % value if value >= 100 else "%.1f" % value


def markdown(rows, head):
    """The document: `head` is its first lines."""
    compared = compare(rows)
    contenders = list(dict.fromkeys(row["contender"] for row in rows))
    lines = [head.rstrip(), ""]
    lines.append("| model | arrivals | executors | SLO / l(1) | SLO ms | %s | ours over the best |" % " | ".join(contenders))
    lines.append("|" + "---|" * (6 + len(contenders)))
    slo = {row["cell"]: row["slo_ms"] for row in rows}
    for cell, goodput, best, over in compared:
        model, arrivals, executors, factor = cell.split("/")
        shown = [("**%s**" if who == best else "%s") % number(goodput.get(who)) for who in contenders]
        shown_ratio = "-" if over is None else "no rival served" if over == math.inf else "%.2f" % over
        lines.append(
            "| %s | %s | %s | %s | %.3g | %s | %s |"
            % (model, arrivals, executors, factor, slo[cell], " | ".join(shown), shown_ratio)
        )
    ratios = [over for *_, over in compared if over is not None and over != math.inf]
    if ratios:
        lines += [
            "",
            "Geometric mean over %d cells: **%.2f**; lowest %.2f, highest %.2f."
            % (len(ratios), geometric_mean(ratios), min(ratios), max(ratios)),
        ]
    return "\n".join(lines) + "\n"
