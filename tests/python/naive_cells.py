"""C1-C3, C6: requests by cells as src/core/cell_graph.h, src/sim/sim_cells.h and src/sim/cell_cost.h describe them: types of cells,
which models share them, unfolding, subgraphs and their release. For the naive models of `cellular` and `merged`."""
import dataclasses

import naive_world


@dataclasses.dataclass(frozen=True)
class Step:
    """`times[b]`: ns at b rows; [0] is unused."""

    name: str
    kind: str
    times: tuple
    min_batch: int = 0


class Model:
    def __init__(self, name, steps, tree=False, outputs=(1, 1), shared=False, rates=(0, 0), limit=0, percentiles=()):
        """outputs: the length that nine in ten do not exceed, and the longest. percentiles: 0 to 100 of the outputs seen. rates: ns of each task besides its cells, and of each row that is gathered. limit: rows, if not those of the times."""
        if limit:
            steps = [dataclasses.replace(step, times=step.times[: limit + 1]) for step in steps]
        self.name, self.steps, self.tree, self.shared, self.rates, self.limit = name, steps, tree, shared, rates, limit
        self.usual_output, self.longest_output = outputs
        self.percentiles = percentiles if any(step.kind == "decoder" for step in steps) else ()
        self.cells = []  # (first step, its steps): those that run as one
        for number, step in enumerate(steps):
            if number and step.kind != "static" and steps[number - 1].kind == step.kind:
                self.cells[-1][1].append(step)
            else:
                self.cells.append((number, [step]))

    def alone(self, rows, length):
        """How long a request takes alone, as far as its policy can know."""
        if self.tree:  # all cells of a level at once, in a tree as low as it can be
            levels = [1, max(0, length - 1).bit_length()]
            return sum(step.times[rows] * count for step, count in zip(self.steps, levels))
        often = {"static": 1, "encoder": max(1, length), "decoder": self.usual_output}
        return sum(step.times[rows] * often[step.kind] for step in self.steps)


@dataclasses.dataclass(eq=False)
class Type:
    """C1: what may share a batch: cells of one model, or equal ones of several."""

    steps: list
    places: list  # (model, first step)

    @property
    def largest(self):
        return min(len(step.times) for step in self.steps) - 1

    def is_as(self, steps):
        return self.steps == steps

    def follows(self, other, model):
        """It is behind the other one in the model."""
        firsts = dict(self.places)
        return model in firsts and firsts[model] > dict(other.places)[model]


@dataclasses.dataclass(eq=False)
class Subgraph:
    """Nodes of one type: {number: numbers of those of this subgraph that it reads}."""

    request: naive_world.Request
    type: Type
    first: int  # step of its model
    nodes: dict
    waits: list  # subgraphs that must be over
    is_open: bool = False  # only the world knows with which node it ends
    ends_with: int = -1  # the node with which its open end is found
    released: int = -1  # place in the order of release
    taken: set = dataclasses.field(default_factory=set)
    submitted: set = dataclasses.field(default_factory=set)
    done: set = dataclasses.field(default_factory=set)
    queue: list = dataclasses.field(default_factory=list)  # ready, in the order in which they became so
    over: bool = False
    flying: int = 0

    def renew(self):
        for node, reads in self.nodes.items():
            if node not in self.taken and node not in self.queue and all(n in self.submitted for n in reads):
                self.queue.append(node)

    @property
    def ready(self):
        return [] if self.released < 0 or self.over or self.request.left else self.queue

    def goes_before(self):
        return self.request.priority, self.released


class CellTask(naive_world.Task):
    """`items`: (subgraph, node)."""

    def __init__(self, kind, items):
        first = items[0][0]
        rows = sum(subgraph.request.rows for subgraph, _ in items)
        steps = [(first.first + k, step.times[rows]) for k, step in enumerate(kind.steps)]
        super().__init__(first.request.model, [subgraph.request for subgraph, _ in items], steps)
        self.type, self.items = kind, items


class World(naive_world.World):
    def __init__(self, models, requests, **world):
        super().__init__(requests, **world)
        self.types, self.type_at = [], {}
        for model in models:
            for first, steps in model.cells:
                self.type_at[model, first] = self.type_of(model, first, steps)
        self.subgraphs, self.of, self.order = [], {}, 0

    def type_of(self, model, first, steps):
        for known in self.types:
            if model.shared and known.places[0][0].shared and known.is_as(steps):
                known.places.append((model, first))
                return known
        self.types.append(Type(steps, [(model, first)]))
        return self.types[-1]

    # C2: unfolding.
    def part(self, request, first, nodes, waits):
        return Subgraph(request, self.type_at[request.model, first], first, nodes, waits)

    def unfold_tree(self, request):
        nodes, leaves = {}, []

        def walk(tree):
            if tree is None:
                leaves.append(self.part(request, 0, {0: ()}, []))
                return None
            reads = [walk(child) for child in tree]
            nodes[len(nodes)] = tuple(n for n in reads if n is not None)
            return len(nodes) - 1

        walk(request.tree)
        return leaves + ([self.part(request, 1, nodes, leaves)] if nodes else [])

    def unfold(self, request):
        if request.model.tree:
            return self.unfold_tree(request)
        row, at = [], 0
        for first, steps in request.model.cells:
            if first < at:
                continue
            kind = steps[0].kind
            count = {"static": 1, "encoder": max(1, request.length), "decoder": request.model.longest_output}[kind]
            row.append(self.part(request, first, {i: (i - 1,) if i else () for i in range(count)}, row[-1:]))
            if kind == "decoder":
                row[-1].is_open = True
                row[-1].ends_with = max(1, min(request.output, count)) - 1
            if first <= request.exit_step < first + len(steps):
                if not request.exit_to:  # it ends with the first cell that runs the step
                    row[-1].nodes = {0: ()}
                    row[-1].ends_with, row[-1].is_open = -1, False
                    break
                at = request.exit_to
        return row

    # What happens.
    def release(self, request):
        for subgraph in self.of[request]:
            if subgraph.released < 0 and all(s.over for s in subgraph.waits):
                subgraph.released, self.order = self.order, self.order + 1

    def arrived(self, request):
        self.of[request] = self.unfold(request)
        for subgraph in self.of[request]:
            subgraph.renew()
        self.subgraphs += self.of[request]
        self.release(request)

    def withdrawn(self, request):
        self.leave(request, "cancelled")

    def leave(self, request, outcome=None):
        super().leave(request, outcome)
        self.subgraphs = [s for s in self.subgraphs if s.request is not request]

    def take(self, worker, task, not_before=0):
        """Submits a task of cells. Within a subgraph a cell is ready when those that it reads are submitted."""
        for subgraph, node in task.items:
            subgraph.queue.remove(node)
            subgraph.taken.add(node)
            subgraph.flying += 1
        for subgraph, node in task.items:  # in batch order; each node's readers by number
            subgraph.submitted.add(node)
            subgraph.renew()
        self.submit(worker, task, not_before)

    def finished(self, worker, task):
        for subgraph, node in task.items:
            subgraph.flying -= 1
            subgraph.done.add(node)
            if subgraph.request.left:
                continue
            if node == subgraph.ends_with or len(subgraph.done) == len(subgraph.nodes):
                subgraph.over = True
            self.release(subgraph.request)
            if all(s.over for s in self.of[subgraph.request]):
                self.leave(subgraph.request)

    def extra(self, executor, task):
        """C6: states are read in place where the same chains continue in the same order, else each row is gathered."""
        each, gather = task.model.rates
        last = [] if executor.last is None else [(subgraph, node + 1) for subgraph, node in executor.last.items]
        return each + (0 if not task.model.tree and last == task.items else gather * task.rows)


def filled(kind, subgraphs):
    """The batch of the type's cells from the first on: it ends before the first that does not fit."""
    batch, rows = [], 0
    for subgraph in subgraphs:
        for node in subgraph.ready:
            if rows + subgraph.request.rows > kind.largest:
                return batch
            batch.append((subgraph, node))
            rows += subgraph.request.rows
    return batch
