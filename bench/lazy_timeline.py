#!/usr/bin/env python3
"""Draws LazyBatching at work from a trace of the server (GET /v2/debug/trace) or of `tutti experiment --trace`: a batch
that is preempted, newcomers that catch up with it, and both continuing as one.

    curl -s 'http://127.0.0.1:8000/v2/debug/trace?seconds=5' -o trace.json
    bench/lazy_timeline.py trace.json cnn docs/lazy.svg

Of such stories of the model one with the fewest requests is drawn, whose parts are the longest. Exit code 1: there is none.
"""
import json
import sys

WIDTH, LEFT, RIGHT, ROW, TOP = 860, 110, 20, 26, 50
COLOURS = {"preempted": "#d9822b", "catches up": "#2b7bba", "merged": "#3d9a50", "other": "#b8b8b8"}


def stories(batches):
    for a, b, c in zip(batches, batches[1:], batches[2:]):
        p, q, r = (one["args"] for one in (a, b, c))
        catches_up = q["first_step"] == 0 and q["last_step_done"] == p["last_step_done"]
        if p["outcome"] == "preempted" and q["outcome"] == "done" and catches_up:
            if r["first_step"] == p["last_step_done"] + 1 and r["requests"] == p["requests"] + q["requests"]:
                yield a, b, c


def end(event):
    return event["ts"] + event["dur"]


def picture(story, requests, model):
    a, _, c = story
    margin = (end(c) - a["ts"]) * 0.06
    start, stop = min([a["ts"]] + [one["ts"] for one in requests]) - margin, max(end(one) for one in requests) + margin
    height = TOP + ROW * (len(requests) + 2) + 46

    def x(at):
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - start) / (stop - start)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="10" y="20" font-size="14">{model}: preempted, caught up with, merged (us)</text>',
           f'<text x="10" y="{TOP + 17}">executor</text>']
    for event, role in zip(story, COLOURS):
        args = event["args"]
        wide = max(x(end(event)) - x(event["ts"]), 1)
        steps = f"{args['first_step']}-{args['last_step_done']}"
        out += [f'<rect x="{x(event["ts"]):.1f}" y="{TOP}" width="{wide:.1f}" height="{ROW - 4}" fill="{COLOURS[role]}"/>',
                f'<text x="{x(event["ts"]) + 3:.1f}" y="{TOP + 15}" fill="white">{steps} x{args["rows"]}</text>',
                f'<text x="{x(event["ts"]) + 3:.1f}" y="{TOP - 6}" fill="{COLOURS[role]}">{role}</text>']
    for row, request in enumerate(requests, start=1):
        y = TOP + ROW * row + 8
        out += [f'<text x="10" y="{y + 13}">{request["name"]}</text>',
                f'<line x1="{x(request["ts"]):.1f}" y1="{TOP}" x2="{x(request["ts"]):.1f}" y2="{y}" stroke="#999" stroke-dasharray="3 3"/>',
                f'<rect x="{x(request["ts"]):.1f}" y="{y}" width="{x(end(request)) - x(request["ts"]):.1f}" height="{ROW - 8}" fill="#e4e4e4" stroke="#999"/>']
        for event, role in zip(story, COLOURS):
            if event["ts"] >= request["ts"] - 1 and end(event) <= end(request) + 1e3 and takes_part(request, story, event):
                out.append(f'<rect x="{x(event["ts"]):.1f}" y="{y + 3}" width="{x(end(event)) - x(event["ts"]):.1f}" height="{ROW - 14}" fill="{COLOURS[role]}"/>')
    y = height - 22
    out.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="black"/>')
    for i in range(6):
        at = start + margin + (stop - start - 2 * margin) * i / 5
        out.append(f'<text x="{x(at):.1f}" y="{y + 15}" text-anchor="middle">{abs(at - start - margin):.0f}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def takes_part(request, story, event):
    first = request["ts"] <= story[0]["ts"]
    return event is story[2] or (event is story[0] if first else event is story[1])


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        events = [one for one in json.load(file)["traceEvents"] if one["ph"] == "X"]
    tracks = {}
    for one in sorted(events, key=lambda one: one["ts"]):
        if one["cat"] == "batch":
            tracks.setdefault((one["pid"], one["tid"]), []).append(one)
    found = []
    for track in tracks.values():
        for story in stories([one for one in track if one["name"] == sys.argv[2]]):
            present = [one for one in events if one["cat"] == "request" and one["args"]["model"] == sys.argv[2]
                       and one["ts"] < end(story[0]) and end(one) >= end(story[2]) - 1]
            if len(present) == story[2]["args"]["requests"]:
                found.append((len(present), -min(one["dur"] for one in story), story, sorted(present, key=lambda one: one["ts"])))
    if not found:
        print(f"lazy_timeline: no batch of {sys.argv[2]} was preempted, caught up with and merged", file=sys.stderr)
        return 1
    _, _, story, present = min(found, key=lambda one: one[:2])
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        file.write(picture(story, present, sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
