"""A chart of lines over two logarithmic axes, as SVG: enough for the benchmarks' scaling plots."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 80, 190, 50, 60
COLOURS = ["#1b6ca8", "#c8553d", "#4f772d", "#7b4fa3", "#b8860b", "#444444"]


def decades(low, high):
    """The powers of ten that enclose low .. high."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10**e for e in range(first, max(last, first + 1) + 1)]


def lines(path, title, x_title, y_title, series):
    """Writes `path`. series: {name: [(x, y), ...]}, all > 0."""
    points = [p for line in series.values() for p in line]
    xs, ys = decades(*extent(p[0] for p in points)), decades(*extent(p[1] for p in points))

    def x_of(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * share(value, xs)

    def y_of(value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share(value, ys)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>',
    ]
    for value in xs:
        out.append(f'<path d="M{x_of(value):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{x_of(value):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:,}</text>')
    for value in ys:
        out.append(f'<path d="M{LEFT} {y_of(value):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y_of(value) + 4:.1f}" text-anchor="end">{value:,}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle}" y="{HEIGHT - 16}" text-anchor="middle">{escape(x_title)}</text>')
    out.append(
        f'<text transform="translate(20 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_title)}</text>"
    )
    for i, (name, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        points_text = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line)
        out.append(f'<polyline points="{points_text}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.extend(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}"/>' for x, y in line)
        y = TOP + 16 + 20 * i
        out.append(f'<text x="{WIDTH - RIGHT + 12}" y="{y}" fill="{colour}">{escape(name)}</text>')
    out.append("</svg>\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out))


def extent(values):
    values = list(values)
    return min(values), max(values)


def share(value, ticks):
    low, high = math.log10(ticks[0]), math.log10(ticks[-1])
    return (math.log10(value) - low) / (high - low)
