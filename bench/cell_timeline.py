#!/usr/bin/env python3
"""A picture of a running batch of cells, with requests that join and leave, drawn from a server's own trace.

    bench/cell_timeline.py docs/cells.svg              a chain of LSTM cells, h = 256, on one executor
    bench/cell_timeline.py --trace t.json docs/cells.svg   from what GET /v2/debug/trace has given

On top each batch of cells, as wide as it ran and as high as it had rows; below a lane per request: thin while it
waits, thick from the first batch that it joined to the last. Needs a Python with numpy and onnx, but with --trace.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cells  # noqa: E402
import own_server  # noqa: E402

WIDTH, LEFT, RIGHT, TOP, ROWS_HEIGHT, LANE = 1000, 70, 30, 50, 110, 11
COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("svg")
    parser.add_argument("--trace", help="a file; none: run a server and load it")
    parser.add_argument("--tutti", default=str(own_server.ROOT / "build" / "tutti"))
    parser.add_argument("--rate", type=float, default=900)
    parser.add_argument("--requests", type=int, default=36, help="shown")
    return parser.parse_args()


def run_server(arguments):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lengths = folder / "lengths"
        cells.write_lengths(lengths)
        own_server.make_model("chain256", folder / "models")
        server = own_server.Server(arguments.tutti, folder / "models")
        try:
            load = [arguments.tutti, "load", server.address, "--model", "chain256", "--length", "@%s" % lengths]
            load += ["--rate", str(arguments.rate), "--duration", "1", "--json"]
            subprocess.run(load, check=True, capture_output=True)
            with urllib.request.urlopen(server.address + "/v2/debug/trace") as answer:
                return json.load(answer)
        finally:
            server.stop()


def choose(trace, count):
    """Successive requests from the middle, and the batches that ran meanwhile."""
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    batches = {e["args"]["run"]: e for e in events if e["cat"] == "batch"}
    requests = [e for e in events if e["cat"] == "request" and e["args"].get("run") in batches]
    for request in requests:
        request["joined"] = batches.get(request["args"].get("joined_run", request["args"]["run"]))
        request["left"] = batches[request["args"]["run"]]
    requests = sorted((r for r in requests if r["joined"]), key=lambda r: r["joined"]["ts"])
    first = max(0, len(requests) // 2 - count // 2)
    requests = requests[first : first + count]
    if not requests:
        sys.exit("cell_timeline: the trace has no request by cells")
    begin = min(r["joined"]["ts"] for r in requests)
    end = sorted(r["left"]["ts"] + r["left"]["dur"] for r in requests)[int(0.9 * len(requests))]
    shown = [b for b in batches.values() if b["ts"] < end and b["ts"] + b["dur"] > begin]
    return requests, sorted(shown, key=lambda b: b["ts"]), begin, end


def lanes_of(requests):
    """Each in the first lane that is free when it arrives."""
    ends, lanes = [], []
    for request in requests:
        at = next((i for i, end in enumerate(ends) if end <= request["ts"]), len(ends))
        if at == len(ends):
            ends.append(0)
        ends[at] = request["left"]["ts"] + request["left"]["dur"]
        lanes.append(at)
    return lanes, len(ends)


def draw(requests, batches, begin, end):
    lanes, count = lanes_of(requests)
    height = TOP + ROWS_HEIGHT + 30 + count * LANE + 40
    most = max(b["args"]["rows"] for b in batches)

    def x(ts):
        return LEFT + (min(max(ts, begin), end) - begin) / (end - begin) * (WIDTH - LEFT - RIGHT)

    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">'
        % (WIDTH, height),
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="%d" y="18" font-size="14">Requests join and leave a running batch at every cell</text>' % LEFT,
        '<text x="%d" y="36" fill="#555">LSTM, h = 256, one executor, policy cellular; above: cells per batch; '
        "below: a bar per request, from the first batch that it joined to its last</text>" % LEFT,
    ]
    base = TOP + ROWS_HEIGHT
    for batch in batches:
        left, right = x(batch["ts"]), x(batch["ts"] + batch["dur"])
        rows = batch["args"]["rows"]
        high = rows / most * (ROWS_HEIGHT - 12)
        out.append(
            '<rect x="%.1f" y="%.1f" width="%.2f" height="%.1f" fill="#bbccee" stroke="#4477aa" stroke-width="0.4">'
            "<title>batch %d: %d cells, %.0f us</title></rect>"
            % (left, base - high, max(right - left, 0.5), high, batch["args"]["run"], rows, batch["dur"])
        )
        out.append(
            '<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd" stroke-width="0.4"/>'
            % (left, left, base, base + 30 + count * LANE)
        )
    for i, (request, lane) in enumerate(zip(requests, lanes)):
        y = base + 25 + lane * LANE
        joined, left = x(request["joined"]["ts"]), x(request["left"]["ts"] + request["left"]["dur"])
        colour = COLOURS[i % len(COLOURS)]
        out.append(
            '<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="1"/>'
            % (x(request["ts"]), joined, y, y, colour)
        )
        out.append(
            '<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="2" fill="%s"><title>%s</title></rect>'
            % (joined, y - 4, max(left - joined, 1), 8, colour, request["name"])
        )
    out.append('<text x="8" y="%d">cells</text><text x="8" y="%d">0 .. %d</text>' % (base - 40, base - 26, most))
    out.append('<text x="8" y="%d">requests</text>' % (base + 40))
    axis = base + 30 + count * LANE + 8
    for k in range(6):
        ts = begin + (end - begin) * k / 5
        out.append(
            '<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%.1f ms</text>'
            % (x(ts), axis + 12, (ts - begin) / 1000)
        )
    return "\n".join(out + ["</svg>", ""])


def main():
    arguments = parse_arguments()
    trace = json.loads(pathlib.Path(arguments.trace).read_text()) if arguments.trace else run_server(arguments)
    pathlib.Path(arguments.svg).write_text(draw(*choose(trace, arguments.requests)))


if __name__ == "__main__":
    main()
