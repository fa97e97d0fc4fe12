"""Drawn worlds of requests by cells, for the tests that compare `cellular` and `merged` with their independent models: models whose
cells others share, trees, costs of tasks, exits, cancellations, devices that come later, a network. A seed gives one world."""
import dataclasses

import drawn_worlds
import naive_cells
import naive_world

LONGEST_INPUT, USUAL_OUTPUT, LONGEST_OUTPUT = 12, 5, 6
OUTPUTS = [1 + 5 * p // 100 for p in range(101)]
LENGTHS = "percentile,input,output\n" + "".join(f"{p},{1 + 11 * p // 100},{OUTPUTS[p]}\n" for p in range(101))
SHAPES = (
    ("encoder",),
    ("encoder", "decoder"),
    ("static", "static"),
    ("static", "static", "static", "static"),
    ("static", "encoder", "encoder", "static", "decoder", "decoder"),
    ("encoder", "decoder", "static"),
    ("static", "encoder", "decoder"),
)


def times(prng, largest):
    """Times of a step at 0 .. largest rows, never less for more."""
    row, beta, alpha = [0], prng.randrange(1, 400), prng.choice((0, prng.randrange(1, 100)))
    for rows in range(1, largest + 1):
        row.append(1000 * (beta + alpha * rows) + prng.choice((0, 0, 1)))
    return tuple(max(row[: i + 1]) for i in range(largest + 1))


def own_steps(prng, kinds):
    """Each row of steps that runs as one has limits of its own."""
    steps = []
    for number, kind in enumerate(kinds):
        if not number or kind == "static" or kinds[number - 1] != kind:
            largest = prng.choice((1, 2, 3, 4, 5, 8))
        steps.append(naive_cells.Step(f"s{number}", kind, times(prng, largest), prng.choice((0, 0, 0, 1, 2, 4))))
    return steps


def tree(prng, leaves):
    if leaves == 1:
        return None
    left = prng.randrange(1, leaves)
    return tree(prng, left), tree(prng, leaves - left)


def balanced(leaves):
    """The left half takes the odd leaf."""
    return None if leaves == 1 else (balanced(leaves - leaves // 2), balanced(leaves // 2))


def written(node):
    return "()" if node is None else f"({written(node[0])}{written(node[1])})"


def uniform(prng, steps):
    """A model states a minimum for all of its steps, or for none."""
    if prng.random() < 0.7:
        return [dataclasses.replace(step, min_batch=0) for step in steps]
    return [dataclasses.replace(step, min_batch=step.min_batch or 1) for step in steps]


def models(prng):
    pool = uniform(prng, own_steps(prng, [prng.choice(("static", "encoder", "decoder")) for _ in range(3)]))
    shares, same_limit, drawn = prng.random() < 0.5, prng.random() < 0.8, []
    for number in range(prng.randrange(2 if shares else 1, 4)):
        rates = prng.choice(((0, 0), (0, 0), (1000 * prng.randrange(90), 1000 * prng.randrange(30))))
        is_tree = prng.random() < (0.1 if shares else 0.3)
        if shares and prng.random() < 0.9:
            steps = prng.sample(pool, 2 if is_tree else prng.randrange(1, 4))
        else:
            steps = uniform(prng, own_steps(prng, prng.choice(SHAPES)))
        if is_tree:
            steps = [dataclasses.replace(step, kind="static") for step in (steps * 2)[:2]]
            steps[1] = dataclasses.replace(steps[1], name=f"{steps[1].name}i") if steps[0].name == steps[1].name else steps[1]
        smallest = min(len(step.times) - 1 for step in steps)
        limit = 0 if shares and same_limit else prng.choice((0, 0, 0, prng.randrange(1, smallest + 1)))
        steps = [dataclasses.replace(step, min_batch=min(step.min_batch, limit or len(step.times) - 1)) for step in steps]
        outputs = USUAL_OUTPUT, LONGEST_OUTPUT
        drawn.append(naive_cells.Model(f"m{number}", steps, is_tree, outputs, shares, rates, limit, OUTPUTS))
    return drawn


def exits(prng, request):
    """After the first cell that runs some step. Requests of static steps may go on behind the next one."""
    steps = request.model.steps
    request.exit_step = prng.randrange(len(steps))
    if all(step.kind == "static" for step in steps):
        request.exit_to = prng.choice([0, *range(request.exit_step + 2, len(steps))])


def requests(prng, drawn):
    asked, at, pace = [], 0, prng.choice((20, 200, 2000))
    for number in range(prng.randrange(1, 50)):
        at += prng.choice((0, prng.randrange(pace) * 1000 + 1))
        model = prng.choice(drawn)
        smallest = min(len(step.times) - 1 for step in model.steps)
        request = naive_world.Request(number, at, model, prng.randrange(1, LONGEST_INPUT + 1), prng.randrange(0, LONGEST_OUTPUT + 2))
        request.rows = prng.choice((1, 1, 1, prng.randrange(1, smallest + 1)))
        request.priority = prng.choice((0, 0, 0, 1, 2))
        request.deadline = prng.choice((drawn_worlds.NEVER, at + prng.randrange(1, 10**7), at + prng.randrange(1, 10**6)))
        if prng.random() < 0.1:
            request.cancel = at + prng.randrange(3 * 10**6)
        if prng.random() < 0.1:  # in time only if it starts at once
            request.deadline = at + model.alone(request.rows, request.length)
        if model.tree:
            request.tree = tree(prng, request.length)
        elif prng.random() < 0.1:
            exits(prng, request)
        asked.append(request)
    return asked


def world(prng):
    """Keyword arguments of naive_world.World."""
    executors = [0] * prng.randrange(1, 4)
    if prng.random() < 0.2:
        executors[prng.randrange(len(executors))] = prng.randrange(1, 4 * 10**6)
    control, data = prng.choice(((0, 0), (0, 0), (1000 * prng.randrange(300), 1000 * prng.randrange(20))))
    return {"executors": executors, "depth": prng.randrange(1, 8), "network": naive_world.Network(control, data)}


def model_text(model, name):
    lengths = ("tree: BALANCED " if model.tree else "") + 'lengths { file: "lengths.csv" input: "input" output: "output" }'
    least = "".join(f" min_batch: {step.min_batch}" for step in model.steps if step.min_batch)
    costs = f"cell_task_us: {model.rates[0] / 1000} cell_gather_us_per_row: {model.rates[1] / 1000}"
    shared = " shared_cells: true" if model.shared else ""
    shared += f" max_batch: {model.limit}" if model.limit else ""
    return f'model {{ name: "{model.name}" step_file: "{name}" {lengths} {costs}{shared}{least} }}\n'


def run(drawn, asked, around, policy, with_trees=True, **options):
    """What the program does: (tasks, outcomes). Without trees it makes balanced ones of their lengths."""
    text = [f'title: "drawn" depth: {around["depth"]}\n', f'policy {{ name: "{policy}" }} load {{ rate: 1 }}\n']
    network = around["network"]
    text.append(f"network {{ control_us: {network.control / 1000} data_us_per_row: {network.data / 1000} }}\n")
    text += [f"device {{ busy_until_ms: {at / 1e6:.6f} }}\n" for at in around["executors"]]
    text += [model_text(model, f"{model.name}.csv") for model in drawn]
    files = {"lengths.csv": LENGTHS} | {f"{m.name}.csv": [(step.kind, {0: step.times[1:]}, step.name) for step in m.steps] for m in drawn}
    arrivals = [
        {
            "at_ns": r.at, "model": r.model.name, "input_length": "" if r.tree and with_trees else r.length, "output_length": r.output, "rows": r.rows,
            "deadline_ns": r.deadline, "priority": r.priority, "cancel_at_ns": r.cancel,
            "exit_step": r.exit_step if r.exit_step >= 0 else "", "exit_to": r.exit_to or "",
            "tree": written(r.tree) if r.model.tree and with_trees else "",
        }
        for r in asked
    ]  # fmt: skip
    return drawn_worlds.run("".join(text), files, arrivals, *drawn_worlds.options_of(**options))
