#include "model/onnx/cut.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Share by which the slowest stage may exceed the optimum if fewer tensors cross then. */
enum { SLACK_PERMILLE = 100 };

bool tt_cut_crosses(const struct tt_onnx_tensor *tensor, int32_t node) {
    return tensor->producer >= 0 && !tensor->from_shapes && tensor->producer <= node &&
           tensor->last_use > node;
}

static bool can_cross(const struct tt_onnx_tensor *tensor, bool batched) {
    return tensor->dense && tensor->dtype != TT_DTYPE_BYTES &&
           (!batched || tensor->rows == TT_ONNX_ROWS_KEPT || tensor->rows == TT_ONNX_ROWS_WITHIN);
}

void tt_cut_explain_blocker(const struct tt_onnx_graph *graph, int32_t index,
                            struct tt_text *out_text) {
    const struct tt_onnx_tensor *tensor = &graph->tensors[index];
    char node[300], shape[200];
    tt_onnx_graph_node_name(graph, tensor->producer, node, sizeof(node));
    tt_text_printf(out_text, "tensor '%s' of %s ", tensor->name, node);
    if (!tensor->dense)
        tt_text_puts(out_text, "is not a dense tensor of a type that can be kept");
    else if (tensor->dtype == TT_DTYPE_BYTES)
        tt_text_puts(out_text, "holds strings, which are not kept between stages");
    else
        tt_text_printf(out_text, "has shape %s, of which no dimension keeps the rows",
                       tt_shape_print(&tensor->shape, shape, sizeof(shape)));
}

char *tt_cut_describe(const struct tt_cut_request *request, char *out, size_t capacity) {
    switch (request->how) {
    case TT_CUT_STAGES: snprintf(out, capacity, "stages %d", request->count); return out;
    case TT_CUT_AUTO: snprintf(out, capacity, "stages auto"); return out;
    case TT_CUT_PER_NODE: snprintf(out, capacity, "per node"); return out;
    case TT_CUT_BY_BATCH: snprintf(out, capacity, "by batch"); return out;
    case TT_CUT_AT: break;
    }
    struct tt_text names;
    tt_text_init(&names);
    for (int32_t i = 0; i < request->name_count; i++)
        tt_text_printf(&names, "%s%s", i ? "," : "", request->names[i]);
    snprintf(out, capacity, "at %s", tt_text_string(&names));
    tt_text_fini(&names);
    return out;
}

/* ---- legal positions ---- */

static void find_positions(const struct tt_onnx_graph *graph, bool batched,
                           struct tt_cut_position *positions) {
    int32_t first = -1, last = -1;
    for (int32_t i = 0; i < graph->node_count; i++)
        if (!graph->nodes[i].from_shapes) {
            first = first < 0 ? i : first;
            last = i;
        }
    for (int32_t i = 0; i < graph->node_count; i++) {
        /* Between two data nodes all positions are equivalent; the first of them stands for all. */
        bool idle = first < 0 || i < first || i >= last || graph->nodes[i].from_shapes;
        positions[i] = (struct tt_cut_position){.legal = !idle, .idle = idle, .blocker = -1};
    }
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        const struct tt_onnx_tensor *tensor = &graph->tensors[t];
        if (tensor->producer < 0 || tensor->from_shapes)
            continue;
        bool fits = can_cross(tensor, batched);
        for (int32_t i = tensor->producer; i < graph->node_count && tt_cut_crosses(tensor, i);
             i++) {
            positions[i].crossing_count++;
            positions[i].crossing_bytes += tensor->row_bytes;
            if (!fits && positions[i].blocker < 0) {
                positions[i].blocker = t;
                positions[i].legal = false;
            }
        }
    }
}

static enum tt_err refuse_position(const struct tt_onnx_graph *graph,
                                   const struct tt_cut_position *position, int32_t node,
                                   struct tt_error *why) {
    char name[300];
    tt_onnx_graph_node_name(graph, node, name, sizeof(name));
    if (position->idle)
        return tt_fail(TT_ERR_INVALID, why,
                       "no cut after %s: one side of it would compute nothing but shapes", name);
    struct tt_text reason;
    tt_text_init(&reason);
    tt_cut_explain_blocker(graph, position->blocker, &reason);
    enum tt_err err =
        tt_fail(TT_ERR_INVALID, why, "no cut after %s: %s", name, tt_text_string(&reason));
    tt_text_fini(&reason);
    return err;
}

/* ---- stages of equal time ---- */

struct search {
    int32_t count;            /* number of places; the last is the end of the graph */
    int32_t *nodes;           /* [count] the node before each place */
    int64_t *until_ns;        /* [count] time of all nodes up to each place */
    int64_t *tensors, *bytes; /* [count] cost of a cut at each place */
};

static void search_fini(struct search *self) {
    free(self->nodes);
    free(self->until_ns);
    free(self->tensors);
    free(self->bytes);
}

static bool search_init(struct search *self, const struct tt_onnx_graph *graph,
                        const struct tt_cut_position *positions) {
    size_t most = (size_t)graph->node_count + 1;
    *self = (struct search){.nodes = calloc(most, sizeof(*self->nodes)),
                            .until_ns = calloc(most, sizeof(*self->until_ns)),
                            .tensors = calloc(most, sizeof(*self->tensors)),
                            .bytes = calloc(most, sizeof(*self->bytes))};
    if (!self->nodes || !self->until_ns || !self->tensors || !self->bytes)
        return false;
    int64_t total_ns = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        total_ns += graph->nodes[i].time_ns;
        bool last = i == graph->node_count - 1;
        if (!positions[i].legal && !last)
            continue;
        self->nodes[self->count] = i;
        self->until_ns[self->count] = total_ns;
        self->tensors[self->count] = last ? 0 : positions[i].crossing_count;
        self->bytes[self->count] = last ? 0 : positions[i].crossing_bytes;
        self->count++;
    }
    return true;
}

/* True if the places can be split into `stages` of at most `limit_ns` each. Greedy: each stage is
 * as long as possible. */
static bool fits(const struct search *self, int32_t stages, int64_t limit_ns) {
    int64_t start_ns = 0;
    int32_t used = 1;
    for (int32_t i = 0; i < self->count; i++) {
        if (self->until_ns[i] - start_ns <= limit_ns)
            continue;
        if (i == 0 || ++used > stages)
            return false;
        start_ns = self->until_ns[i - 1];
        if (self->until_ns[i] - start_ns > limit_ns)
            return false;
    }
    return true;
}

/* The minimum time of the slowest of `stages` stages. */
static int64_t least_limit(const struct search *self, int32_t stages) {
    int64_t low = 0, high = self->until_ns[self->count - 1];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (fits(self, stages, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct cost {
    int64_t tensors, bytes;
};

static bool cheaper(struct cost a, struct cost b) {
    return a.tensors != b.tensors ? a.tensors < b.tensors : a.bytes < b.bytes;
}

/* Finds the cheapest split of the places into exactly `stages` stages of `least_ns` to `limit_ns`.
 * best[s][i] is the cheapest way to end stage s (from 0) at place i. Writes the last place of each
 * stage. False: there is no such split, or out of memory. */
static bool cheapest(const struct search *self, int32_t stages, int64_t least_ns, int64_t limit_ns,
                     int32_t *out_places) {
    size_t width = (size_t)self->count;
    struct cost *best = malloc((size_t)stages * width * sizeof(*best));
    int32_t *from = malloc((size_t)stages * width * sizeof(*from));
    const struct cost none = {INT64_MAX, INT64_MAX};
    bool found = best && from;
    for (int32_t s = 0; found && s < stages; s++)
        for (int32_t i = 0; i < self->count; i++) {
            struct cost *here = &best[(size_t)s * width + (size_t)i];
            *here = none;
            from[(size_t)s * width + (size_t)i] = -1;
            if (s == 0) {
                if (self->until_ns[i] >= least_ns && self->until_ns[i] <= limit_ns)
                    *here = (struct cost){self->tensors[i], self->bytes[i]};
                continue;
            }
            for (int32_t k = i - 1; k >= 0 && self->until_ns[i] - self->until_ns[k] <= limit_ns;
                 k--) {
                struct cost before = best[(size_t)(s - 1) * width + (size_t)k];
                if (before.tensors == INT64_MAX || self->until_ns[i] - self->until_ns[k] < least_ns)
                    continue;
                struct cost with = {before.tensors + self->tensors[i],
                                    before.bytes + self->bytes[i]};
                if (cheaper(with, *here)) {
                    *here = with;
                    from[(size_t)s * width + (size_t)i] = k;
                }
            }
        }
    int32_t at = self->count - 1;
    found = found && best[(size_t)(stages - 1) * width + (size_t)at].tensors != INT64_MAX;
    for (int32_t s = stages - 1; found && s >= 0; s--) {
        out_places[s] = at;
        at = from[(size_t)s * width + (size_t)at];
    }
    free(best);
    free(from);
    return found;
}

/* ---- the plan ---- */

static void add_cut(struct tt_cut_plan *plan, int32_t after_node) {
    plan->first_nodes[plan->stage_count] = after_node + 1;
    plan->stage_count++;
}

static enum tt_err too_many(const struct tt_onnx_graph *graph, const struct tt_cut_plan *plan,
                            int32_t asked, int32_t possible, struct tt_error *why) {
    struct tt_text reason;
    tt_text_init(&reason);
    for (int32_t i = 0; i < graph->node_count && reason.length == 0; i++)
        if (plan->positions[i].blocker >= 0 && !plan->positions[i].idle) {
            char node[300];
            tt_text_printf(&reason, "; for example, it cannot be cut after %s: ",
                           tt_onnx_graph_node_name(graph, i, node, sizeof(node)));
            tt_cut_explain_blocker(graph, plan->positions[i].blocker, &reason);
        }
    enum tt_err err =
        tt_fail(TT_ERR_INVALID, why, "%d stages are asked for, but the graph has at most %d%s",
                asked, possible, tt_text_string(&reason));
    tt_text_fini(&reason);
    return err;
}

static enum tt_err cut_evenly(const struct tt_onnx_graph *graph, int32_t stages,
                              struct tt_cut_plan *plan, struct tt_error *why) {
    struct search search;
    enum tt_err err = TT_OK;
    int32_t *places = calloc((size_t)stages, sizeof(*places));
    if (!search_init(&search, graph, plan->positions) || !places)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    else if (search.count < stages)
        err = too_many(graph, plan, stages, search.count, why);
    if (!err) {
        int64_t limit_ns = least_limit(&search, stages);
        limit_ns += limit_ns / 1000 * SLACK_PERMILLE;
        int64_t floor_ns = search.until_ns[search.count - 1] / stages / 4 * 3;
        /* A split into exactly this many stages always exists, since a stage of several places can
         * be split again. The lower limit of three quarters of a share is relaxed until a split is
         * found. */
        while (!cheapest(&search, stages, floor_ns, limit_ns, places) && floor_ns > 0)
            floor_ns -= floor_ns / 8 + 1;
        if (places[stages - 1] != search.count - 1)
            err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    for (int32_t s = 0; !err && s + 1 < stages; s++)
        add_cut(plan, search.nodes[places[s]]);
    search_fini(&search);
    free(places);
    return err;
}

static int compare_nodes(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static enum tt_err cut_at(const struct tt_onnx_graph *graph, const struct tt_cut_request *request,
                          struct tt_cut_plan *plan, struct tt_error *why) {
    int32_t *nodes = calloc((size_t)request->name_count + 1, sizeof(*nodes));
    enum tt_err err = nodes ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; !err && i < request->name_count; i++) {
        nodes[i] = tt_onnx_graph_find(graph, request->names[i]);
        if (nodes[i] < 0)
            err = tt_fail(TT_ERR_INVALID, why,
                          "the optimised graph has no node and no tensor '%s'; --explain lists "
                          "what there is",
                          request->names[i]);
        else if (!plan->positions[nodes[i]].legal)
            err = refuse_position(graph, &plan->positions[nodes[i]], nodes[i], why);
    }
    if (!err)
        qsort(nodes, (size_t)request->name_count, sizeof(*nodes), compare_nodes);
    for (int32_t i = 0; !err && i < request->name_count; i++)
        if (i == 0 || nodes[i] != nodes[i - 1])
            add_cut(plan, nodes[i]);
    free(nodes);
    return err;
}

/* Walks the pieces between legal positions. A piece prefers the batch size of its slowest node. A
 * cut is where the preference changes, unless one side would take less than a twentieth of the
 * total: then the piece joins the stage before it. */
static void cut_by_batch(const struct tt_onnx_graph *graph, const int32_t *preferred,
                         struct tt_cut_plan *plan) {
    int64_t total_ns = 0;
    for (int32_t i = 0; i < graph->node_count; i++)
        total_ns += graph->nodes[i].time_ns;
    int64_t stage_ns = 0, piece_ns = 0, longest_ns = -1, left_ns = total_ns;
    int32_t stage_batch = 0, piece_batch = 1, last_place = -1;
    for (int32_t i = 0; i < graph->node_count; i++) {
        piece_ns += graph->nodes[i].time_ns;
        if (graph->nodes[i].time_ns > longest_ns) {
            longest_ns = graph->nodes[i].time_ns;
            piece_batch = preferred[i];
        }
        if (!plan->positions[i].legal && i < graph->node_count - 1)
            continue;
        bool changes = stage_batch && piece_batch != stage_batch && piece_ns >= total_ns / 20;
        if (changes && stage_ns >= total_ns / 20 && left_ns >= total_ns / 20) {
            add_cut(plan, last_place);
            stage_ns = 0;
        }
        if (stage_batch == 0 || changes)
            stage_batch = piece_batch;
        stage_ns += piece_ns;
        left_ns -= piece_ns;
        last_place = i;
        piece_ns = 0;
        longest_ns = -1;
    }
}

static enum tt_err place_cuts(const struct tt_onnx_graph *graph,
                              const struct tt_cut_request *request, struct tt_cut_plan *plan,
                              struct tt_error *why) {
    switch (request->how) {
    case TT_CUT_AUTO:
    case TT_CUT_STAGES:
        if (request->count < 1 || request->count > TT_CUT_MAX_STAGES)
            return tt_fail(TT_ERR_INVALID, why, "%d stages; 1 to %d are possible", request->count,
                           TT_CUT_MAX_STAGES);
        return cut_evenly(graph, request->count, plan, why);
    case TT_CUT_PER_NODE:
        for (int32_t i = 0; i < graph->node_count; i++)
            if (plan->positions[i].legal)
                add_cut(plan, i);
        return TT_OK;
    case TT_CUT_AT: return cut_at(graph, request, plan, why);
    case TT_CUT_BY_BATCH: cut_by_batch(graph, request->preferred, plan); return TT_OK;
    }
    return TT_OK;
}

enum tt_err tt_cut_choose(const struct tt_onnx_graph *graph, const struct tt_cut_request *request,
                          struct tt_cut_plan **out_plan, struct tt_error *why) {
    if (graph->node_count == 0)
        return tt_fail(TT_ERR_INVALID, why, "the graph has no node");
    struct tt_cut_plan *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    size_t nodes = (size_t)graph->node_count;
    self->node_count = graph->node_count;
    self->positions = calloc(nodes, sizeof(*self->positions));
    self->first_nodes = calloc(nodes + 2, sizeof(*self->first_nodes));
    self->times_ns = calloc(nodes + 1, sizeof(*self->times_ns));
    enum tt_err err = TT_OK;
    if (!self->positions || !self->first_nodes || !self->times_ns) {
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    } else {
        find_positions(graph, request->batched, self->positions);
        self->stage_count = 1; /* the first stage begins at node 0 */
        err = place_cuts(graph, request, self, why);
    }
    if (err) {
        tt_cut_plan_free(self);
        return err;
    }
    self->first_nodes[self->stage_count] = graph->node_count;
    for (int32_t s = 0; s < self->stage_count; s++)
        for (int32_t i = self->first_nodes[s]; i < self->first_nodes[s + 1]; i++)
            self->times_ns[s] += graph->nodes[i].time_ns;
    tt_cut_plan_check(self);
    *out_plan = self;
    return TT_OK;
}

void tt_cut_plan_check(const struct tt_cut_plan *self) {
    tt_assert(self->stage_count >= 1);
    tt_assert(self->first_nodes[0] == 0);
    tt_assert(self->first_nodes[self->stage_count] == self->node_count);
    for (int32_t s = 0; s < self->stage_count; s++) {
        int32_t end = self->first_nodes[s + 1];
        tt_assert(end > self->first_nodes[s]);
        tt_assert(end == self->node_count || self->positions[end - 1].legal);
        tt_assert(self->times_ns[s] >= 0);
    }
}

void tt_cut_plan_free(struct tt_cut_plan *take_plan) {
    if (!take_plan)
        return;
    free(take_plan->positions);
    free(take_plan->first_nodes);
    free(take_plan->times_ns);
    free(take_plan);
}
