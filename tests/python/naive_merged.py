"""C7: merging of whole graphs (DyNet, Fold), written from src/policy/merged.h in plain Python: ready cells are looked up again for
every task.

    tasks, outcomes = simulate(models, requests, Rules(max_requests=64), executors=1)
"""
import dataclasses

import naive_cells


@dataclasses.dataclass
class Rules:
    max_requests: int = 64
    merge_cell: int = 0  # ns
    order: str = "step"


class World(naive_cells.World):
    def __init__(self, models, requests, rules, **world):
        super().__init__(models, requests, **world)
        self.rules, self.waiting = rules, []
        self.merged = [[] for _ in self.executors]  # the requests of each executor's graph
        self.merged_at = [0] * len(self.executors)
        self.level = [[] for _ in self.executors]  # (subgraph, node) that are left of its level
        self.later = [[] for _ in self.executors]  # subgraphs, as they got cells of the next one

    def arrived(self, request):
        super().arrived(request)
        self.waiting.append(request)

    def merge(self, worker):
        """Merges the next requests, if there are any."""
        waiting = sorted((r for r in self.waiting if not r.left), key=lambda r: r.goes_before())
        if not waiting:
            return
        oldest = {model: next(r for r in waiting if r.model is model) for model in {r.model: None for r in waiting}}
        model = min(oldest, key=lambda model: oldest[model].number)
        self.merged[worker] = [r for r in waiting if r.model is model][: self.rules.max_requests]
        self.waiting = [r for r in self.waiting if r not in self.merged[worker]]
        cells = sum(len(subgraph.nodes) for r in self.merged[worker] for subgraph in self.of[r])
        self.merged_at[worker] = self.now + cells * self.rules.merge_cell

    def batch(self, worker):
        """The next task: cells of the first step that has ready ones, in the order of their release."""
        ready = sorted((s for r in self.merged[worker] for s in self.of[r] if s.ready), key=lambda s: (s.first, *s.goes_before()))
        first = [s for s in ready if s.first == ready[0].first]
        return naive_cells.CellTask(first[0].type, naive_cells.filled(first[0].type, first))

    def note(self, worker):
        """Subgraphs that have ready cells now, none of them of this level: the released ones, then those of the last task."""
        task = self.executors[worker].last
        lately = [s for s, _ in task.items] if task else []
        members = [s for r in self.merged[worker] for s in self.of[r]]
        here = [s for s, _ in self.level[worker]]
        for subgraph in sorted((s for s in members if s not in lately), key=lambda s: s.released) + lately:
            if subgraph in members and subgraph.ready and subgraph not in here and subgraph not in self.later[worker]:
                self.later[worker].append(subgraph)

    def batch_of_level(self, worker):
        self.level[worker] = [(s, node) for s, node in self.level[worker] if s.ready]
        self.note(worker)
        if not self.level[worker]:
            ready = sorted((s for s in self.later[worker] if s.ready), key=lambda s: s.request.priority)
            self.level[worker], self.later[worker] = [(s, node) for s in ready for node in s.ready], []
        first = min(s.first for s, _ in self.level[worker])
        items, rows = [], 0
        for subgraph, node in self.level[worker]:
            if subgraph.first == first:
                rows += subgraph.request.rows
                if rows > subgraph.type.largest:
                    break
                items.append((subgraph, node))
        self.level[worker] = [item for item in self.level[worker] if item not in items]
        return naive_cells.CellTask(items[0][0].type, items)

    def decide(self):
        form = self.batch_of_level if self.rules.order == "level" else self.batch
        for worker in self.up():
            if self.executors[worker].tasks:
                continue
            self.merged[worker] = [r for r in self.merged[worker] if not r.left]
            if not self.merged[worker]:
                self.merge(worker)
            if self.merged[worker]:
                self.take(worker, form(worker), self.merged_at[worker])


def simulate(models, requests, rules, **world):
    """([(start, end, executor, model's name, step, request numbers)] by start and executor, [(ended or None, outcome)])."""
    return World(models, requests, rules, **world).run()
