#include "model/onnx/cut_report.h"

#include <stdio.h>
#include <string.h>

/* Blocked places with the same reason are listed as one run; runs beyond this number are only
 * counted. */
enum { MAX_REASONS = 12 };

static void print_time(struct tt_text *to, int64_t ns) {
    tt_text_printf(to, "%lld.%03lld ms", (long long)(ns / 1000000), (long long)(ns / 1000 % 1000));
}

static void print_bytes(struct tt_text *to, int64_t bytes) {
    if (bytes < 10240)
        tt_text_printf(to, "%lld B", (long long)bytes);
    else
        tt_text_printf(to, "%lld KiB", (long long)((bytes + 512) / 1024));
}

static void print_cut(const struct tt_onnx_graph *graph, const struct tt_cut_plan *plan,
                      int32_t node, struct tt_text *to) {
    const struct tt_cut_position *position = &plan->positions[node];
    char name[300], shape[200];
    tt_text_printf(to, "  cut after %s: %d tensor%s, ",
                   tt_onnx_graph_node_name(graph, node, name, sizeof(name)),
                   position->crossing_count, position->crossing_count == 1 ? "" : "s");
    print_bytes(to, position->crossing_bytes);
    tt_text_puts(to, " per row\n");
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        const struct tt_onnx_tensor *tensor = &graph->tensors[t];
        if (!tt_cut_crosses(tensor, node))
            continue;
        tt_text_printf(to, "      %s %s %s, ", tensor->name, tt_dtype_name(tensor->dtype),
                       tt_shape_print(&tensor->shape, shape, sizeof(shape)));
        print_bytes(to, tensor->row_bytes);
        tt_text_puts(to, tensor->is_output ? ", an output of the model\n" : "\n");
    }
}

static void print_stage(const struct tt_onnx_graph *graph, const struct tt_cut_plan *plan,
                        const int32_t *preferred, int32_t stage, int64_t total_ns,
                        struct tt_text *to) {
    int32_t first = plan->first_nodes[stage], end = plan->first_nodes[stage + 1];
    int32_t slowest = first;
    for (int32_t i = first; i < end; i++)
        if (graph->nodes[i].time_ns > graph->nodes[slowest].time_ns)
            slowest = i;
    int64_t permille = total_ns ? plan->times_ns[stage] * 1000 / total_ns : 0;
    char name[300];
    tt_text_printf(to, "stage %d: nodes %d to %d, ", stage, first, end - 1);
    print_time(to, plan->times_ns[stage]);
    tt_text_printf(to, ", %lld.%lld %%; slowest: %s ", (long long)(permille / 10),
                   (long long)(permille % 10),
                   tt_onnx_graph_node_name(graph, slowest, name, sizeof(name)));
    print_time(to, graph->nodes[slowest].time_ns);
    if (preferred)
        tt_text_printf(to, ", best at batch %d", preferred[slowest]);
    tt_text_puts(to, "\n");
}

/* Prints where no cut is legal, and why. */
static void print_blocked(const struct tt_onnx_graph *graph, const struct tt_cut_plan *plan,
                          struct tt_text *to) {
    int32_t legal = 0, blocked = 0, runs = 0, last_blocker = -1;
    for (int32_t i = 0; i < plan->node_count; i++) {
        const struct tt_cut_position *position = &plan->positions[i];
        legal += position->legal;
        if (position->legal || position->idle) {
            last_blocker = position->legal ? -1 : last_blocker;
            continue;
        }
        blocked++;
        if (position->blocker == last_blocker)
            continue;
        last_blocker = position->blocker;
        if (++runs > MAX_REASONS)
            continue;
        char name[300];
        tt_text_printf(to,
                       "no cut after %s: ", tt_onnx_graph_node_name(graph, i, name, sizeof(name)));
        tt_cut_explain_blocker(graph, position->blocker, to);
        tt_text_puts(to, "\n");
    }
    if (runs > MAX_REASONS)
        tt_text_printf(to, "... and %d more such places\n", runs - MAX_REASONS);
    tt_text_printf(to, "%d nodes; it can be cut after %d of them, %d are blocked\n",
                   plan->node_count, legal, blocked);
}

void tt_cut_report(const struct tt_onnx_graph *graph, const struct tt_cut_plan *plan,
                   const int32_t *preferred, struct tt_text *out_text) {
    int64_t total_ns = 0;
    for (int32_t s = 0; s < plan->stage_count; s++)
        total_ns += plan->times_ns[s];
    for (int32_t s = 0; s < plan->stage_count; s++) {
        print_stage(graph, plan, preferred, s, total_ns, out_text);
        if (s + 1 < plan->stage_count)
            print_cut(graph, plan, plan->first_nodes[s + 1] - 1, out_text);
    }
    print_blocked(graph, plan, out_text);
}
