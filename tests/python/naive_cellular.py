"""C3-C5: cellular batching, written from the paper's algorithm 1 and src/policy/cellular.h in plain Python: no queue by
type, no list per executor; every count is made again over all subgraphs. It shares nothing with the program but the step
times. A schedule that both give is thus no defect of either's bookkeeping.

    tasks = simulate(models, requests, Rules(max_tasks=5), executors=2)

Virtual time in whole nanoseconds. Within an instant: endings in order of executor, arrivals, cancellations, decisions.
"""
import dataclasses

NEVER = 1 << 62


@dataclasses.dataclass
class Rules:
    max_tasks: int = 5
    min_batch: int = 1
    ahead: int = 0
    choose: str = "type"
    depth: int = 5


@dataclasses.dataclass(eq=False)
class Type:
    """A row of steps that runs as one. `times[k][b]`: ns of its k-th step at b rows; [0] is unused."""

    model: "Model"
    first: int
    kind: str
    times: list

    @property
    def largest(self):
        return min(len(row) for row in self.times) - 1

    @property
    def behind(self):
        """How many steps of the model follow."""
        return self.model.steps - self.first - len(self.times)


class Model:
    def __init__(self, name, types, tree=False, longest_output=1):
        """types: [(kind, [times of a step, ..]), ..] in order."""
        self.name, self.tree, self.longest_output, self.types, self.steps = name, tree, longest_output, [], 0
        for kind, times in types:
            self.types.append(Type(self, self.steps, kind, times))
            self.steps += len(times)


@dataclasses.dataclass(eq=False)
class Request:
    number: int
    at: int
    model: Model
    length: int = 1
    output: int = 1
    rows: int = 1
    priority: int = 0
    deadline: int = NEVER
    cancel: int = NEVER
    tree: object = None  # nested pairs, a leaf is None
    left: bool = False
    subgraphs: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class Subgraph:
    """Nodes of one type: {number: numbers of those of this subgraph that it reads}."""

    request: Request
    type: Type
    nodes: dict
    waits: list  # subgraphs that must be over
    ends_with: int = -1  # the node with which its open end is found
    released: int = -1  # place in the order of release
    taken: set = dataclasses.field(default_factory=set)
    submitted: set = dataclasses.field(default_factory=set)
    done: set = dataclasses.field(default_factory=set)
    queue: list = dataclasses.field(default_factory=list)  # ready, in the order in which they became so
    over: bool = False
    pinned: int = -1
    flying: int = 0

    def renew(self):
        for node, reads in self.nodes.items():
            if node not in self.taken and node not in self.queue and all(n in self.submitted for n in reads):
                self.queue.append(node)

    @property
    def ready(self):
        return [] if self.released < 0 or self.over or self.request.left else self.queue

    def key(self):
        return self.request.priority, self.released


@dataclasses.dataclass(eq=False)
class Task:
    type: Type
    items: list  # (subgraph, node)
    started: int = -1

    @property
    def rows(self):
        return sum(subgraph.request.rows for subgraph, _ in self.items)


def unfold_tree(request):
    leaf, inner = request.model.types
    nodes, leaves = {}, []

    def walk(tree):
        if tree is None:
            leaves.append(Subgraph(request, leaf, {0: ()}, []))
            return None
        reads = [walk(child) for child in tree]
        nodes[len(nodes)] = tuple(n for n in reads if n is not None)
        return len(nodes) - 1

    walk(request.tree)
    return leaves + ([Subgraph(request, inner, nodes, leaves)] if nodes else [])


def unfold(request):
    if request.model.tree:
        return unfold_tree(request)
    row = []
    for kind in request.model.types:
        count = {"static": 1, "encoder": max(1, request.length), "decoder": request.model.longest_output}[kind.kind]
        nodes = {i: (i - 1,) if i else () for i in range(count)}
        row.append(Subgraph(request, kind, nodes, row[-1:]))
        if kind.kind == "decoder":
            row[-1].ends_with = max(1, min(request.output, count)) - 1
    return row


class World:
    def __init__(self, models, requests, rules, executors):
        self.types = [kind for model in models for kind in model.types]
        self.requests, self.rules, self.queues = requests, rules, [[] for _ in range(executors)]
        self.subgraphs, self.order, self.log = [], 0, []

    # Algorithm 1.
    def available(self, kind, worker):
        """Subgraphs whose ready nodes the worker may run, in order."""
        return sorted((s for s in self.subgraphs if s.type is kind and s.ready and s.pinned in (-1, worker)), key=Subgraph.key)

    def ready_rows(self, kind, worker):
        return sum(len(s.ready) * s.request.rows for s in self.available(kind, worker))

    def running(self, kind):
        return sum(task.type is kind for queue in self.queues for task in queue)

    def first(self, kind, worker):
        return self.available(kind, worker)[0]

    def urgency(self, kind, worker):
        return self.first(kind, worker).request.deadline if self.rules.choose == "slack" else 0

    def schedule(self, worker):
        kinds = [kind for kind in self.types if self.ready_rows(kind, worker) > 0]
        chosen = [kind for kind in kinds if self.ready_rows(kind, worker) >= kind.largest]
        chosen = chosen or [kind for kind in kinds if self.running(kind) == 0]
        chosen = chosen or kinds
        if not chosen:
            return None
        # Within a model the later type; then, between models, the one that has waited longer.
        best = [min((kind for kind in chosen if kind.model is model), key=lambda kind: (self.urgency(kind, worker), kind.behind))
                for model in {kind.model: None for kind in chosen}]
        return min(best, key=lambda kind: (self.urgency(kind, worker), self.first(kind, worker).released))

    def form(self, kind, worker):
        batch, rows = [], 0
        for subgraph in self.available(kind, worker):
            for node in subgraph.ready:
                if rows + subgraph.request.rows > kind.largest:
                    return batch
                batch.append((subgraph, node))
                rows += subgraph.request.rows
        return batch

    def visit(self, now, worker, kind):
        for count in range(self.rules.max_tasks):
            ready = self.ready_rows(kind, worker)
            if len(self.queues[worker]) == self.rules.depth or ready == 0:
                break
            if count > 0 and ready < min(self.rules.min_batch, kind.largest):
                break
            task = Task(kind, self.form(kind, worker))
            for subgraph, node in task.items:
                subgraph.queue.remove(node)
                subgraph.taken.add(node)
                subgraph.pinned = worker
                subgraph.flying += 1
            for subgraph, node in task.items:  # in batch order; each node's readers by number
                subgraph.submitted.add(node)
                subgraph.renew()
            self.queues[worker].append(task)
            if len(self.queues[worker]) == 1:
                task.started = now

    def decide(self, now):
        for worker, queue in enumerate(self.queues):
            while len(queue) <= self.rules.ahead:
                kind = self.schedule(worker)
                if kind is None:
                    break
                self.visit(now, worker, kind)

    # What happens.
    def release(self, request):
        for subgraph in request.subgraphs:
            if subgraph.released < 0 and all(s.over for s in subgraph.waits):
                subgraph.released, self.order = self.order, self.order + 1

    def arrive(self, request):
        request.subgraphs = unfold(request)
        for subgraph in request.subgraphs:
            subgraph.renew()
        self.subgraphs += request.subgraphs
        self.release(request)

    def finish(self, now, worker):
        task = self.queues[worker].pop(0)
        at = task.started
        for k, times in enumerate(task.type.times):
            numbers = [subgraph.request.number for subgraph, _ in task.items]
            self.log.append((at, at + times[task.rows], worker, task.type.model.name, task.type.first + k, numbers))
            at += times[task.rows]
        for subgraph, node in task.items:
            subgraph.flying -= 1
            if subgraph.flying == 0:
                subgraph.pinned = -1
            subgraph.done.add(node)
            if subgraph.request.left:
                continue
            if node == subgraph.ends_with or len(subgraph.done) == len(subgraph.nodes):
                subgraph.over = True
            self.release(subgraph.request)
            if all(s.over for s in subgraph.request.subgraphs):
                self.leave(subgraph.request)
        if self.queues[worker]:
            self.queues[worker][0].started = now

    def leave(self, request):
        request.left = True
        self.subgraphs = [s for s in self.subgraphs if s.request is not request]

    def ends(self):
        for worker, queue in enumerate(self.queues):
            if queue:
                yield queue[0].started + sum(times[queue[0].rows] for times in queue[0].type.times), worker

    def run(self):
        coming = list(self.requests)
        cancels = sorted(((r.cancel, r.number, r) for r in self.requests if r.cancel < NEVER), key=lambda c: c[:2])
        while coming or any(self.queues):
            # A cancellation of a request that has left has no effect.
            now = min([at for at, _ in self.ends()] + [r.at for r in coming[:1]] + [c[0] for c in cancels[:1]])
            for at, worker in sorted(self.ends(), key=lambda end: end[1]):
                if at == now:
                    self.finish(now, worker)
            while coming and coming[0].at == now:
                self.arrive(coming.pop(0))
            while cancels and cancels[0][0] == now:
                self.leave(cancels.pop(0)[2])
            self.decide(now)
        return sorted(self.log, key=lambda row: (row[0], row[2]))


def simulate(models, requests, rules, executors):
    """[(start, end, executor, model's name, step, request numbers)], by start and executor."""
    return World(models, requests, rules, executors).run()
