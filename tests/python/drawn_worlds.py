"""Drawn worlds of the tests that compare the program with an independent model: writes an experiment with its files, runs the
program on it in virtual time, and reads what it did."""
import csv
import os
import pathlib
import subprocess
import tempfile

import naive_world

NEVER = naive_world.NEVER


def step_file(path, steps):
    """`steps`: (kind, {length: [ns by rows, from 1]}) in order. Behind these perhaps a name, if others are to have the same, or the
    millionths of the device by rows: without them tasks of one device do not slow each other down."""
    rows = ["step,kind,length,batch,latency_ns,demand\n"]
    for number, (kind, lengths, *more) in enumerate(steps):
        name = next((word for word in more if isinstance(word, str)), f"s{number}")
        shares = next((word for word in more if not isinstance(word, str)), None)
        for length, times in lengths.items():
            for rows_of, ns in enumerate(times, 1):
                demand = shares[rows_of - 1] / 1e6 if shares else 0.001
                rows.append(f"{name},{kind},{length},{rows_of},{ns},{demand:.6f}\n")
    pathlib.Path(path).write_text("".join(rows))


def arrivals_file(path, arrivals):
    """`arrivals`: dictionaries from column to value, ascending. An instant that never comes is left out."""
    with open(path, "w", encoding="ascii", newline="") as file:
        writer = csv.DictWriter(file, list(arrivals[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: "" if value == NEVER else value for key, value in row.items()} for row in arrivals)


def served(path, *words):
    """Runs an experiment. Returns (tasks, outcomes): (start, end, executor, model, step, requests) by start and executor; (finished
    or None, outcome) by request."""
    with tempfile.TemporaryDirectory() as folder:
        tasks, outcomes = pathlib.Path(folder, "tasks.csv"), pathlib.Path(folder, "outcomes.csv")
        command = [os.environ["TUTTI_PROGRAM"], "experiment", path, "--check", "--tasks", tasks, "--outcomes", outcomes, *words]
        answer = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
        if answer.returncode:
            raise AssertionError(answer.stderr)
        with open(tasks, encoding="ascii", newline="") as file:
            rows = [
                (int(r["start_ns"]), int(r["end_ns"]), int(r["executor"]), r["model"], int(r["step"]), list(map(int, r["requests"].split())))
                for r in csv.DictReader(file)
            ]
        with open(outcomes, encoding="ascii", newline="") as file:
            ends = [(int(r["finished_ns"]) if r["finished_ns"] else None, r["outcome"]) for r in csv.DictReader(file)]
    return sorted(rows, key=lambda row: (row[0], row[2])), ends


def options_of(**values):
    """Options of the policy, as words of the command."""
    return [word for key, value in values.items() for word in ("--set", f"option.{key}={value}")]


def run(experiment, files, arrivals, *words):
    """Serves the text of an experiment, beside `files` from name to steps, or to text."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file, content in files.items():
            if isinstance(content, str):
                (folder / file).write_text(content)
            else:
                step_file(folder / file, content)
        (folder / "e.pbtxt").write_text(experiment)
        arrivals_file(folder / "arrivals.csv", arrivals)
        return served(folder / "e.pbtxt", "--arrivals", folder / "arrivals.csv", *words)


def run_linear(models, asked, policy, options, executors=1, depth=1, network=None):
    """The same for models with a latency of alpha per row and beta per batch, in the world of naive_world.World."""
    text = [f'title: "drawn" load {{ rate: 1 }} policy {{ name: "{policy}" }} depth: {depth}\n']
    text += [f"device {{ busy_until_ms: {at / 1e6:.6f} }}\n" for at in ([0] * executors if isinstance(executors, int) else executors)]
    if network:
        text.append(f"network {{ control_us: {network.control / 1000} data_us_per_row: {network.data / 1000} }}\n")
    for m in models:
        fields = f"max_batch: {m.largest} profile {{ linear {{ alpha_ms: {m.alpha / 1e6} beta_ms: {m.beta / 1e6} }} }}"
        fields += "" if m.slo == NEVER else f" slo_ms: {m.slo / 1e6}"
        fields += (f" delay_ms: {m.delay / 1e6}" if m.delay else "") + (f" target: {m.target}" if m.target else "")
        window, preferred = getattr(m, "window", 0), getattr(m, "preferred", ())
        fields += (f" window_ms: {window / 1e6}" if window else "") + "".join(f" preferred_batch: {rows}" for rows in preferred)
        text.append(f'model {{ name: "{m.name}" {fields} }}\n')
    rows = []
    for r in asked:
        row = {"at_ns": r.at, "model": r.model.name, "input_length": r.length, "rows": r.rows, "priority": r.priority}
        deadline = r.deadline if r.deadline != r.at + r.model.slo else NEVER
        rows.append({**row, "deadline_ns": deadline, "cancel_at_ns": r.cancel})
    return run("".join(text), {}, rows, *options_of(**options))


def drawn_around(prng, control, data, networks=0.5):
    """Executors, one of which may come later, a depth, and in such a share of the worlds a network: up to `control` ns and `data` ns
    a row."""
    executors = [0] * prng.randrange(1, 5)
    if prng.random() < 0.2:
        executors[-1] = prng.randrange(10**9)
    network = naive_world.Network()
    if prng.random() < networks:
        network = naive_world.Network(prng.choice((0, prng.randrange(control))), prng.choice((0, prng.randrange(data))))
    return {"executors": executors, "depth": prng.choice((1, 2, 2, 3)), "network": network}


def vary(prng, asked):
    """Perhaps gives some requests deadlines of their own, and cancels some."""
    if prng.random() < 0.3:
        for request in asked:
            if request.deadline < NEVER and prng.random() < 0.5:
                request.deadline = request.at + int(request.model.slo * prng.uniform(0.1, 2))
    if prng.random() < 0.3:
        for request in asked:
            if prng.random() < 0.1:
                request.cancel = request.at + prng.randrange(100_000_000)


def compare(test, what, ours, theirs):
    """Fails with the first difference between two lists of tasks or of outcomes."""
    for number, pair in enumerate(zip(ours, theirs)):
        test.assertEqual(*pair, f"{what}, row {number} (ours first)")
    test.assertEqual(len(ours), len(theirs), what)
