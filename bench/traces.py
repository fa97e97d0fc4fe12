#!/usr/bin/env python3
"""Pictures of a server at work, from its trace (GET /v2/debug/trace?seconds=10) or that of `tutti experiment --trace`.

    bench/traces.py batches TRACE MODEL docs/timeline.svg   a lane per executor, a box per batch, as high as its rows
    bench/traces.py cells TRACE MODEL docs/cells.svg        requests that join and leave a running batch of cells
    bench/traces.py lazy TRACE MODEL docs/lazy.svg          a batch preempted, caught up with, and merged

TRACE is a file, or a running server's address (http://127.0.0.1:8000); load it with `tutti load` before. A recording
(`tutti serve --record`) has all batches of a server: `tutti replay --html` shows them as a page.
"""
import argparse
import json
import pathlib
import sys
import urllib.request

import svg

LEFT, RIGHT, TOP = 90, 970, 50


def end(event):
    return event["ts"] + event["dur"]


def read(trace):
    if trace.startswith("http://"):
        with urllib.request.urlopen(trace + "/v2/debug/trace?seconds=10") as answer:
            return json.load(answer)["traceEvents"]
    return json.loads(pathlib.Path(trace).read_text())["traceEvents"]


def across(begin, stop):
    """From an instant to its place."""
    return lambda at: LEFT + (RIGHT - LEFT) * (min(max(at, begin), stop) - begin) / (stop - begin)


def draw_batches(events, model, options):
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    found = [e for e in events if e["ph"] == "X" and e["cat"] == "batch" and e["name"].startswith(model)]
    found.sort(key=lambda e: e["ts"])
    if not found:
        sys.exit("traces: the trace has no batch of %s" % model)
    span = options.seconds * 1e6
    begin = max((e["ts"] for e in found), key=lambda at: sum(e["args"]["rows"] for e in found if at <= e["ts"] and end(e) <= at + span))
    shown = [e for e in found if end(e) > begin and e["ts"] < begin + span]
    lanes = sorted({(e["pid"], e["tid"]) for e in shown})
    stages = sorted({e["args"]["first_step"] for e in shown})
    most = max(e["args"]["rows"] for e in shown)
    lane, x, top = 98, across(begin, begin + span), TOP + 16 * ((len(stages) - 1) // 9)
    picture = svg.Picture(options.title or "Batches of " + model, RIGHT + 40, top + 20 + len(lanes) * lane + 44)
    for i, stage in enumerate(stages):
        picture.box(LEFT + 90 * (i % 9), TOP - 14 + 16 * (i // 9), 12, 12, svg.colour(i))
        picture.text(LEFT + 90 * (i % 9) + 16, TOP - 4 + 16 * (i // 9), "stage %d" % stage)
    for e in shown:
        base, args = top + 14 + lane * (lanes.index((e["pid"], e["tid"])) + 1), e["args"]
        high, left, right = (lane - 30) * args["rows"] / most, x(e["ts"]), x(end(e))
        about = "stage %d to %d, %d rows, %.1f ms" % (args["first_step"], args["last_step_done"], args["rows"], e["dur"] / 1000)
        picture.box(left, base - high, right - left, high, svg.colour(stages.index(args["first_step"])), about, "#ffffff")
        if right - left > 14:
            picture.text((left + right) / 2, base - high - 2, args["rows"], svg.SOFT, "middle", 10)
    for i, key in enumerate(lanes):
        picture.text(8, top + lane * (i + 1) - 20, names.get(key, "executor %d" % i))
    picture.time_axis(top + 16 + lane * len(lanes), LEFT, RIGHT, span / 1000, "ms")
    return picture


def draw_cells(events, model, options):
    """Successive requests from the middle, and the batches that ran meanwhile."""
    events = [e for e in events if e["ph"] == "X"]
    batches = {e["args"]["run"]: e for e in events if e["cat"] == "batch" and e["name"].startswith(model)}
    requests = [e for e in events if e["cat"] == "request" and e["args"].get("run") in batches
                and e["args"].get("joined_run", e["args"]["run"]) in batches]  # fmt: skip
    joined = {id(r): batches[r["args"].get("joined_run", r["args"]["run"])] for r in requests}
    left = {id(r): batches[r["args"]["run"]] for r in requests}
    requests.sort(key=lambda r: joined[id(r)]["ts"])
    first = max(0, len(requests) // 2 - options.requests // 2)
    requests = requests[first : first + options.requests]
    if not requests:
        sys.exit("traces: the trace has no request by cells")
    begin = min(joined[id(r)]["ts"] for r in requests)
    stop = sorted(end(left[id(r)]) for r in requests)[int(0.9 * len(requests))]
    shown = [b for b in batches.values() if b["ts"] < stop and end(b) > begin]
    ends, lanes = [], []
    for request in requests:  # each in the first lane that is free when it arrives
        at = next((i for i, until in enumerate(ends) if until <= request["ts"]), len(ends))
        ends[at : at + 1] = [end(left[id(request)])]
        lanes.append(at)
    base, x, most = TOP + 120, across(begin, stop), max(b["args"]["rows"] for b in shown)
    picture = svg.Picture(options.title or "Requests join and leave a running batch at every cell", RIGHT + 40, base + 30 + 11 * len(ends) + 50)
    for b in shown:
        high = 106 * b["args"]["rows"] / most
        about = "batch %d: %d cells, %.0f us" % (b["args"]["run"], b["args"]["rows"], b["dur"])
        picture.box(x(b["ts"]), base - high, x(end(b)) - x(b["ts"]), high, "#c9dcf5", about, svg.COLOURS[0])
    for i, (request, lane) in enumerate(zip(requests, lanes)):
        y, ink = base + 25 + 11 * lane, svg.colour(i)
        at, until = x(joined[id(request)]["ts"]), x(end(left[id(request)]))
        picture.line(x(request["ts"]), y, at, y, ink)
        picture.box(at, y - 4, until - at, 8, ink, request["name"])
    for y, text in ((base - 40, "cells,"), (base - 26, "0 .. %d" % most), (base + 40, "requests")):
        picture.text(8, y, text)
    picture.time_axis(base + 30 + 11 * len(ends), LEFT, RIGHT, (stop - begin) / 1000, "ms")
    return picture


def stories(batches):
    for a, b, c in zip(batches, batches[1:], batches[2:]):
        p, q, r = (one["args"] for one in (a, b, c))
        catches_up = q["first_step"] == 0 and q["last_step_done"] == p["last_step_done"]
        if p["outcome"] == "preempted" and q["outcome"] == "done" and catches_up:
            if r["first_step"] == p["last_step_done"] + 1 and r["requests"] == p["requests"] + q["requests"]:
                yield a, b, c


def draw_lazy(events, model, options):
    """Of such stories one with the fewest requests, whose parts are the longest."""
    events, tracks, found = [e for e in events if e["ph"] == "X"], {}, []
    for e in sorted(events, key=lambda e: e["ts"]):
        if e["cat"] == "batch" and e["name"] == model:
            tracks.setdefault((e["pid"], e["tid"]), []).append(e)
    for story in (story for track in tracks.values() for story in stories(track)):
        present = [e for e in events if e["cat"] == "request" and e["args"]["model"] == model
                   and e["ts"] < end(story[0]) and end(e) >= end(story[2]) - 1]  # fmt: skip
        if len(present) == story[2]["args"]["requests"]:
            found.append((len(present), -min(e["dur"] for e in story), story, sorted(present, key=lambda e: e["ts"])))
    if not found:
        sys.exit("traces: no batch of %s was preempted, caught up with and merged" % model)
    _, _, story, present = min(found, key=lambda one: one[:2])
    begin, stop = min(e["ts"] for e in (story[0], *present)), max(end(e) for e in present)
    row, x, roles = 26, across(begin, stop), dict(zip(("preempted", "catches up", "merged"), svg.COLOURS))
    picture = svg.Picture(options.title or model + ": preempted, caught up with, merged", RIGHT + 40, TOP + row * (len(present) + 2) + 50)
    picture.text(8, TOP + 27, "executor")
    for e, (role, ink) in zip(story, roles.items()):
        picture.box(x(e["ts"]), TOP + 10, x(end(e)) - x(e["ts"]), row - 4, ink)
        picture.text(x(e["ts"]), TOP + 5, "%s, steps %d-%d, %d rows" % (role, e["args"]["first_step"], e["args"]["last_step_done"], e["args"]["rows"]), ink, size=11)
    for i, request in enumerate(present):
        y = TOP + 18 + row * (i + 1)
        picture.text(8, y + 13, request["name"])
        picture.line(x(request["ts"]), TOP + 10, x(request["ts"]), y, svg.SOFT, 1, "3 3")
        picture.box(x(request["ts"]), y, x(end(request)) - x(request["ts"]), row - 8, "#eceff3", stroke=svg.SOFT)
        was_first = request["ts"] <= story[0]["ts"]
        for e, ink, takes_part in zip(story, roles.values(), (was_first, not was_first, True)):
            if takes_part:
                picture.box(x(e["ts"]), y + 3, x(end(e)) - x(e["ts"]), row - 14, ink)
    picture.time_axis(TOP + 28 + row * (len(present) + 1), LEFT, RIGHT, stop - begin, "us")
    return picture


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    draws = {"batches": draw_batches, "cells": draw_cells, "lazy": draw_lazy}
    parser.add_argument("what", choices=draws)
    parser.add_argument("trace")
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=0.4, help="batches: how much is shown (0.4)")
    parser.add_argument("--requests", type=int, default=36, help="cells: how many are shown (36)")
    parser.add_argument("--title")
    options = parser.parse_args()
    draws[options.what](read(options.trace), options.model, options).write(options.out)


if __name__ == "__main__":
    main()
