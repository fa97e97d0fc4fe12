"""Pictures for the documents, drawn by the rules of the report pages (src/lab/report/page): colours and dashes never
repeat in a picture, names stand beside the ends of their lines, axes have units and round ticks, no series is red."""
import math
import pathlib
from xml.sax.saxutils import escape

COLOURS = ["#1f6fd0", "#d97706", "#15803d", "#8b3fd1", "#0e8f9c", "#7c4a1e", "#c2349b", "#7a8200", "#28357f", "#b8930a",
           "#66707e", "#3fa535"]  # fmt: skip
DASHES = ["", "7 3", "2 3", "9 3 2 3", "5 2 1 2", "12 4"]
INK, SOFT, LINE, LATE = "#16202c", "#56616f", "#d9dee5", "#d92d20"
CHARACTER = 6.4  # width at size 12, about


def colour(i):
    """The ones after the twelfth vary the twelve in lightness."""
    base, turn = COLOURS[i % len(COLOURS)], i // len(COLOURS)
    if not turn:
        return base
    towards, share = 255 * (turn % 2), min(0.62, 0.14 + 0.12 * turn)
    parts = [int(base[k : k + 2], 16) for k in (1, 3, 5)]
    return "#" + "".join("%02x" % round(part + (towards - part) * share) for part in parts)


class Picture:
    """An SVG that grows by appending; `width` and `height` are its view box."""

    def __init__(self, title, width, height):
        self.width, self.height = width, height
        self.out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'style="max-width:100%;height:auto" role="img" font-family="sans-serif" font-size="12">',
            f"<title>{escape(title)}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
        ]
        self.text(10, 22, title, size=15)

    def text(self, x, y, text, fill=INK, anchor="start", size=12):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}" font-size="{size}">{escape(str(text))}</text>')

    def line(self, x1, y1, x2, y2, stroke=LINE, width=1.0, dashes=""):
        dashes = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.out.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{stroke}" stroke-width="{width}"{dashes}/>')

    def box(self, x, y, width, height, fill, about="", stroke="none"):
        about = f"<title>{escape(about)}</title>" if about else ""
        self.out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.6):.1f}" height="{height:.1f}" fill="{fill}" stroke="{stroke}">{about}</rect>')

    def time_axis(self, y, left, right, span, unit):
        """Round instants from 0 to `span` under the picture."""
        for tick in round_ticks(0, span, 8):
            x = left + (right - left) * tick / span
            self.line(x, y, x, y + 4, SOFT)
            self.text(min(x, right), y + 17, f"{tick:g}", SOFT, "middle")
        self.line(left, y, right, y, SOFT)
        self.text((left + right) / 2, y + 33, "time, " + unit, SOFT, "middle")

    def write(self, path):
        pathlib.Path(path).write_text("\n".join(self.out + ["</svg>", ""]), encoding="utf-8")


def round_ticks(low, high, most):
    raw = (high - low) / most
    power = 10 ** math.floor(math.log10(raw))
    step = next(k * power for k in (1, 2, 2.5, 5, 10) if k * power >= raw * 0.999)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def round_log_ticks(low, high):
    for parts in ((1, 2, 5), (1,)):
        ticks = [k * 10**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for k in parts]
        ticks = [t for t in ticks if low * 0.999 <= t <= high * 1.001]
        if len(ticks) <= 9:
            break
    return ticks


def spread(places, gap, low, high):
    """Moves places (ascending) apart, within low .. high."""
    for i in range(len(places)):
        places[i] = max(places[i], places[i - 1] + gap if i else low)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], places[i + 1] - gap if i + 1 < len(places) else high)
    return places


def scale(low, high, start, end):
    return lambda value: start + (end - start) * (math.log(value) - math.log(low)) / (math.log(high) - math.log(low) or 1)


def lines(path, title, x_title, y_title, series, limit=None):
    """Writes `path`: lines over two logarithmic axes. series: {name: [(x, y), ...]}, all > 0; limit: (y, its name)."""
    points = [p for line in series.values() for p in line]
    xs, ys = sorted({p[0] for p in points}), [p[1] for p in points] + ([limit[0]] if limit else [])
    low, high = min(ys) / 1.1, max(ys) * 1.1
    labels = max(len(name) for name in series) * CHARACTER
    left, right, top, bottom = 70, 560, 62, 62 + max(300, 15 * len(series))
    picture = Picture(title, int(right + 50 + labels), bottom + 50)
    x_of, y_of = scale(xs[0], xs[-1], left + 8, right - 8), scale(low, high, bottom, top)
    for tick in round_log_ticks(low, high):
        picture.line(left, y_of(tick), right, y_of(tick))
        picture.text(left - 8, y_of(tick) + 4, f"{tick:,g}", SOFT, "end")
    free = 0
    for x in xs:
        picture.line(x_of(x), bottom, x_of(x), bottom + 4, SOFT)
        half = len(f"{x:,g}") * CHARACTER / 2
        if x_of(x) - half >= free:
            picture.text(x_of(x), bottom + 18, f"{x:,g}", SOFT, "middle")
            free = x_of(x) + half + 6
    picture.line(left, bottom, right, bottom, SOFT)
    picture.text(10, top - 14, y_title + " (log)", SOFT)
    picture.text((left + right) / 2, bottom + 38, x_title + " (log)", SOFT, "middle")
    if limit:
        picture.line(left, y_of(limit[0]), right, y_of(limit[0]), LATE, 1.5, "7 4")
        picture.text(left + 4, y_of(limit[0]) - 5, limit[1], LATE)
    ends = sorted(series, key=lambda name: -series[name][-1][1])
    places = spread([y_of(series[name][-1][1]) for name in ends], 14.5, top, bottom)
    for i, (name, line) in enumerate(series.items()):
        ink, dashes = colour(i), DASHES[i // len(COLOURS) % len(DASHES)]
        for (x1, y1), (x2, y2) in zip(line, line[1:]):
            picture.line(x_of(x1), y_of(y1), x_of(x2), y_of(y2), ink, 2, dashes)
        for x, y in line:
            picture.box(x_of(x) - 3, y_of(y) - 3, 6, 6, ink, f"{name}: {y:g} at {x:g}")
        x, y = x_of(line[-1][0]), y_of(line[-1][1])
        picture.line(x + 5, y, right + 24, places[ends.index(name)])
        picture.text(right + 28, places[ends.index(name)] + 4, name, ink)
    picture.write(path)
