"""A picture of what a server's executors did: its trace (GET /v2/debug/trace) as an SVG.

A lane per executor; a box per batch, as wide as it ran and as high as it had rows, in the colour of the stage where it
began. With --load the requests come from `tutti load`, whose flags stand after `--`, and the trace is taken at its end.

    scripts/test_python.sh bench/timeline.py URL --model NAME [--seconds S] [--out FILE.svg] [--load -- FLAGS ...]
"""
import argparse
import html
import json
import pathlib
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLOURS = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#edc948", "#9c755f"]
WIDTH, LEFT, LANE, GAP, TOP = 1000, 90, 84, 14, 46


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the server: http://127.0.0.1:8000")
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=0.4, help="how much is shown (0.4)")
    parser.add_argument("--out", default="timeline.svg")
    parser.add_argument("--title")
    parser.add_argument("--load", action="store_true", help="run tutti load with the flags after --")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:at])
    options.flags = sys.argv[at + 1 :]
    return options


def batches_of(trace, model):
    """[(executor, begin us, end us, first stage, last stage, rows)] by begin."""
    names = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    found = []
    for event in trace["traceEvents"]:
        if event["ph"] != "X" or event["cat"] != "batch" or not event["name"].startswith(model):
            continue
        args = event["args"]
        found.append(
            (
                names[event["pid"], event["tid"]],
                event["ts"],
                event["ts"] + event["dur"],
                args["first_step"],
                args["last_step_done"],
                args["rows"],
            )
        )
    return sorted(found, key=lambda batch: batch[1])


def busiest(batches, span):
    """Where the window of that length begins that holds the most rows times stages."""
    best, at = -1, batches[0][1]
    for start in batches:
        inside = sum(b[5] for b in batches if start[1] <= b[1] and b[2] <= start[1] + span)
        if inside > best:
            best, at = inside, start[1]
    return at


def draw(batches, span, title):
    begin = busiest(batches, span)
    shown = [b for b in batches if b[2] > begin and b[1] < begin + span]
    lanes = sorted({b[0] for b in shown})
    most = max(b[5] for b in shown)
    stages = sorted({b[3] for b in shown})
    height = TOP + len(lanes) * (LANE + GAP) + 30
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
        'font-family="sans-serif" font-size="12">' % (LEFT + WIDTH + 20, height, LEFT + WIDTH + 20, height),
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<text x="10" y="18" font-size="14">%s</text>' % html.escape(title),
    ]
    for i, stage in enumerate(stages):
        x = LEFT + i * 90
        out.append('<rect x="%d" y="26" width="12" height="12" fill="%s"/>' % (x, COLOURS[stage % len(COLOURS)]))
        out.append('<text x="%d" y="36">stage %d</text>' % (x + 16, stage))
    for lane, name in enumerate(lanes):
        base = TOP + lane * (LANE + GAP) + LANE
        out.append('<text x="10" y="%d">%s</text>' % (base - LANE / 2, html.escape(name)))
        out.append('<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#999999"/>' % (LEFT, base, LEFT + WIDTH, base))
        for _, start, end, first, last, rows in (b for b in shown if b[0] == name):
            x0 = LEFT + max(start - begin, 0) * WIDTH / span
            x1 = LEFT + min(end - begin, span) * WIDTH / span
            tall = LANE * rows / most
            about = "stage %d%s, %d rows, %.1f ms" % (
                first,
                "" if last == first else " to %d" % last,
                rows,
                (end - start) / 1000,
            )
            out.append(
                '<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" stroke="#ffffff" '
                'stroke-width="0.5"><title>%s</title></rect>'
                % (x0, base - tall, max(x1 - x0, 0.5), tall, COLOURS[first % len(COLOURS)], about)
            )
            if x1 - x0 > 14:
                out.append(
                    '<text x="%.1f" y="%.1f" text-anchor="middle" font-size="10">%d</text>'
                    % ((x0 + x1) / 2, base - tall - 2, rows)
                )
    for tick in range(5):
        x = LEFT + WIDTH * tick / 4
        out.append('<text x="%d" y="%d" text-anchor="middle">%.0f ms</text>' % (x, height - 8, span * tick / 4000))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    options = arguments()
    if options.load:
        command = [str(ROOT / "build" / "tutti"), "load", options.url, "--model", options.model, *options.flags]
        said = subprocess.run(command, capture_output=True, text=True)
        print(said.stdout, end="")
        if said.returncode:
            sys.exit("tutti load: " + said.stderr)
    with urllib.request.urlopen(options.url + "/v2/debug/trace?seconds=10") as answer:
        trace = json.load(answer)
    batches = batches_of(trace, options.model)
    if not batches:
        sys.exit("timeline: the trace has no batch of %s" % options.model)
    title = options.title or "%s on %s" % (options.model, options.url)
    pathlib.Path(options.out).write_text(draw(batches, options.seconds * 1e6, title))
    print("timeline: %d batches in the trace, %s written" % (len(batches), options.out))


if __name__ == "__main__":
    main()
