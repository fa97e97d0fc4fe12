#include "model/onnx/cut_layout.h"

#include "base/array.h"

#include <stdlib.h>

enum { SWEEPS = 10, MAX_POINTS = 100000 };

/* Of each tensor that is drawn. */
struct source {
    int32_t part;   /* that makes it; -1: it is not drawn */
    int32_t points; /* its first point; -1: it passes no layer */
    int32_t deepest;
};

static int32_t add_part(struct tt_cut_layout *self, enum tt_cut_part_kind kind, int32_t index,
                        int32_t layer) {
    if (!TT_ARRAY_RESERVE(self->parts, &self->part_capacity, self->part_count + 1)) {
        self->failed = true;
        return 0;
    }
    self->parts[self->part_count] = (struct tt_cut_part){kind, index, layer, 0};
    return self->part_count++;
}

static void add_edge(struct tt_cut_layout *self, int32_t from, int32_t to) {
    self->failed |= !TT_ARRAY_RESERVE(self->edges, &self->edge_capacity, self->edge_count + 1);
    if (!self->failed)
        self->edges[self->edge_count++] = (struct tt_cut_edge){from, to};
}

/* ---- layers ---- */

static void place_nodes(struct tt_cut_layout *self, struct source *sources) {
    const struct tt_onnx_graph *graph = self->graph;
    for (int32_t i = 0; i < graph->input_count; i++)
        sources[graph->inputs[i]].part = add_part(self, TT_CUT_INPUT, graph->inputs[i], 0);
    int32_t base = 1;
    for (int32_t s = 0; s < self->plan->stage_count; s++) {
        int32_t end = base;
        for (int32_t i = self->plan->first_nodes[s]; i < self->plan->first_nodes[s + 1]; i++) {
            const struct tt_onnx_node *node = &graph->nodes[i];
            if (node->from_shapes)
                continue;
            int32_t layer = base;
            for (int32_t k = 0; k < node->input_count; k++) {
                int32_t part = sources[node->inputs[k]].part;
                if (part >= 0 && self->parts[part].layer >= layer)
                    layer = self->parts[part].layer + 1;
            }
            int32_t part = add_part(self, TT_CUT_NODE, i, layer);
            for (int32_t k = 0; k < node->output_count; k++)
                sources[node->outputs[k]].part = part;
            end = layer + 1 > end ? layer + 1 : end;
        }
        self->stage_ends[s] = base = end;
    }
    for (int32_t i = 0; i < graph->output_count; i++)
        (void)add_part(self, TT_CUT_OUTPUT, graph->outputs[i], base);
    self->layer_count = base + 1;
}

/* ---- edges ---- */

/* Calls `visit` for each tensor that a drawn part reads. */
static void for_each_use(struct tt_cut_layout *self, int32_t part_count, struct source *sources,
                         void (*visit)(struct tt_cut_layout *, struct source *, int32_t part)) {
    for (int32_t p = 0; !self->failed && p < part_count; p++) {
        const struct tt_cut_part part = self->parts[p];
        if (part.kind == TT_CUT_OUTPUT && sources[part.index].part >= 0)
            visit(self, &sources[part.index], p);
        if (part.kind != TT_CUT_NODE)
            continue;
        const struct tt_onnx_node *node = &self->graph->nodes[part.index];
        for (int32_t k = 0; k < node->input_count; k++)
            if (sources[node->inputs[k]].part >= 0)
                visit(self, &sources[node->inputs[k]], p);
    }
}

static void note_deepest(struct tt_cut_layout *self, struct source *source, int32_t part) {
    int32_t layer = self->parts[part].layer;
    source->deepest = layer > source->deepest ? layer : source->deepest;
}

static void connect(struct tt_cut_layout *self, struct source *source, int32_t part) {
    int32_t passed = self->parts[part].layer - self->parts[source->part].layer - 1;
    bool has_points = passed > 0 && source->points >= 0;
    add_edge(self, has_points ? source->points + passed - 1 : source->part, part);
}

static void add_edges(struct tt_cut_layout *self, struct source *sources) {
    int32_t part_count = self->part_count;
    for_each_use(self, part_count, sources, note_deepest);
    for (int32_t t = 0; !self->failed && t < self->graph->tensor_count; t++) {
        struct source *source = &sources[t];
        source->points = -1;
        if (source->part < 0)
            continue;
        int32_t layer = self->parts[source->part].layer + 1;
        if (layer >= source->deepest || self->part_count > MAX_POINTS)
            continue;
        source->points = self->part_count;
        for (int32_t above = source->part; layer < source->deepest; layer++) {
            int32_t point = add_part(self, TT_CUT_POINT, -1, layer);
            add_edge(self, above, point);
            above = point;
        }
    }
    for_each_use(self, part_count, sources, connect);
}

/* ---- places ---- */

struct place {
    double x;
    int32_t part;
};

static int by_x(const void *a, const void *b) {
    const struct place *p = a, *q = b;
    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    return (p->part > q->part) - (p->part < q->part);
}

static double half_width(const struct tt_cut_layout *self, int32_t part) {
    return (self->parts[part].kind == TT_CUT_POINT ? TT_CUT_POINT_WIDTH : TT_CUT_BOX_WIDTH) / 2.0;
}

/* Parts of one layer (`places`, with the x that each wants) side by side, as near as can be. */
static void set_apart(struct tt_cut_layout *self, struct place *places, int32_t count) {
    qsort(places, (size_t)count, sizeof(*places), by_x);
    double wanted = 0, got = 0, x = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t part = places[i].part;
        double least =
            i ? x + half_width(self, places[i - 1].part) + TT_CUT_GAP + half_width(self, part)
              : places[i].x;
        x = places[i].x > least ? places[i].x : least;
        wanted += places[i].x;
        got += x;
        self->parts[part].x = x;
    }
    for (int32_t i = 0; i < count; i++)
        self->parts[places[i].part].x -= (got - wanted) / count;
}

/* Parts and edges by layer, and what a sweep adds up. */
struct sweeper {
    int32_t *order, *firsts; /* parts; [layer_count + 1] */
    int32_t *edge_firsts;    /* [layer_count + 1] */
    struct place *places;    /* of one layer */
    double *sums;            /* [part_count]: x of what a part is connected with */
    int32_t *counts;
};

static void sweeper_fini(struct sweeper *self) {
    free(self->order);
    free(self->firsts);
    free(self->edge_firsts);
    free(self->places);
    free(self->sums);
    free(self->counts);
}

static bool sweeper_init(struct sweeper *self, struct tt_cut_layout *layout) {
    size_t parts = (size_t)layout->part_count + 1, layers = (size_t)layout->layer_count + 2;
    *self = (struct sweeper){.order = calloc(parts, sizeof(*self->order)),
                             .firsts = calloc(layers, sizeof(*self->firsts)),
                             .edge_firsts = calloc(layers, sizeof(*self->edge_firsts)),
                             .places = calloc(parts, sizeof(*self->places)),
                             .sums = calloc(parts, sizeof(*self->sums)),
                             .counts = calloc(parts, sizeof(*self->counts))};
    if (!self->order || !self->firsts || !self->edge_firsts || !self->places || !self->sums ||
        !self->counts)
        return false;
    for (int32_t p = 0; p < layout->part_count; p++)
        self->firsts[layout->parts[p].layer + 1]++;
    for (int32_t e = 0; e < layout->edge_count; e++)
        self->edge_firsts[layout->parts[layout->edges[e].from].layer + 1]++;
    for (int32_t l = 0; l < layout->layer_count; l++) {
        self->firsts[l + 1] += self->firsts[l];
        self->edge_firsts[l + 1] += self->edge_firsts[l];
    }
    for (int32_t p = 0; p < layout->part_count; p++) {
        int32_t layer = layout->parts[p].layer;
        self->order[self->firsts[layer] + self->counts[layer]++] = p;
    }
    for (int32_t p = 0; p < layout->part_count; p++)
        self->counts[p] = 0;
    return true;
}

/* Every part of a layer goes where the parts on one side of it that it is connected with are. */
static void sweep(struct tt_cut_layout *layout, struct sweeper *self, bool down) {
    for (int32_t k = 0; k < layout->layer_count; k++) {
        int32_t layer = down ? k : layout->layer_count - 1 - k, count = 0;
        for (int32_t i = self->firsts[layer]; i < self->firsts[layer + 1]; i++) {
            int32_t p = self->order[i];
            double x = self->counts[p] ? self->sums[p] / self->counts[p] : layout->parts[p].x;
            self->places[count++] = (struct place){x, p};
            self->sums[p] = self->counts[p] = 0;
        }
        set_apart(layout, self->places, count);
        int32_t bucket = down ? layer : layer - 1;
        for (int32_t e = bucket < 0 ? 0 : self->edge_firsts[bucket];
             bucket >= 0 && e < self->edge_firsts[bucket + 1]; e++) {
            int32_t from = layout->edges[e].from, to = layout->edges[e].to;
            if (layout->parts[to].layer != bucket + 1)
                continue; /* more points than are drawn */
            int32_t near = down ? from : to, far = down ? to : from;
            self->sums[far] += layout->parts[near].x;
            self->counts[far]++;
        }
    }
}

/* Edges by the layer of `from`: false, no memory. */
static bool sort_edges(struct tt_cut_layout *layout, struct sweeper *self) {
    struct tt_cut_edge *sorted = calloc((size_t)layout->edge_count + 1, sizeof(*sorted));
    int32_t *filled = calloc((size_t)layout->layer_count + 1, sizeof(*filled));
    for (int32_t e = 0; sorted && filled && e < layout->edge_count; e++) {
        int32_t layer = layout->parts[layout->edges[e].from].layer;
        sorted[self->edge_firsts[layer] + filled[layer]++] = layout->edges[e];
    }
    bool good = sorted && filled;
    free(filled);
    if (!good) {
        free(sorted);
        return false;
    }
    free(layout->edges);
    layout->edges = sorted;
    return true;
}

static void place_parts(struct tt_cut_layout *layout) {
    struct sweeper sweeper;
    bool good = sweeper_init(&sweeper, layout) && sort_edges(layout, &sweeper);
    for (int32_t i = 0; good && i < SWEEPS; i++)
        sweep(layout, &sweeper, i % 2 == 0);
    sweeper_fini(&sweeper);
    layout->failed |= !good;
    double least = 0, most = 0;
    for (int32_t p = 0; p < layout->part_count; p++) {
        double left = layout->parts[p].x - half_width(layout, p);
        double right = layout->parts[p].x + half_width(layout, p);
        least = p == 0 || left < least ? left : least;
        most = p == 0 || right > most ? right : most;
    }
    for (int32_t p = 0; p < layout->part_count; p++)
        layout->parts[p].x -= least;
    layout->width = most - least;
}

enum tt_err tt_cut_layout_init(struct tt_cut_layout *self, const struct tt_onnx_graph *graph,
                               const struct tt_cut_plan *plan) {
    *self = (struct tt_cut_layout){.graph = graph, .plan = plan};
    self->stage_ends = calloc((size_t)plan->stage_count + 1, sizeof(*self->stage_ends));
    struct source *sources = calloc((size_t)graph->tensor_count + 1, sizeof(*sources));
    self->failed = !self->stage_ends || !sources;
    for (int32_t t = 0; !self->failed && t < graph->tensor_count; t++)
        sources[t].part = -1;
    if (!self->failed)
        place_nodes(self, sources);
    if (!self->failed)
        add_edges(self, sources);
    if (!self->failed)
        place_parts(self);
    free(sources);
    if (!self->failed)
        return TT_OK;
    tt_cut_layout_fini(self);
    return TT_ERR_NO_MEMORY;
}

void tt_cut_layout_fini(struct tt_cut_layout *self) {
    free(self->parts);
    free(self->edges);
    free(self->stage_ends);
    *self = (struct tt_cut_layout){0};
}
