/* The picture of a cut graph: nodes in layers, a band of colour per stage. */
#include "model/onnx/cut_report.h"

#include <stdlib.h>
#include <string.h>

enum { BOX_WIDTH = 150, BOX_HEIGHT = 26, GAP_X = 16, GAP_Y = 22, MARGIN = 24, LABEL = 150 };

struct layout {
    const struct tt_onnx_graph *graph;
    const struct tt_cut_plan *plan;
    int32_t *layer;  /* per node; -1: not drawn (follows from shapes) */
    int32_t *column; /* per node */
    int32_t *width;  /* per layer: nodes in it */
    int32_t layer_count, widest;
};

static const char *const colours[] = {"#dbeafe", "#dcfce7", "#fef3c7", "#fce7f3",
                                      "#ede9fe", "#cffafe", "#ffedd5", "#e5e7eb"};

static void put_escaped(struct tt_text *to, const char *text) {
    for (const char *c = text; *c; c++)
        switch (*c) {
        case '<': tt_text_puts(to, "&lt;"); break;
        case '>': tt_text_puts(to, "&gt;"); break;
        case '&': tt_text_puts(to, "&amp;"); break;
        case '"': tt_text_puts(to, "&quot;"); break;
        default:
            if ((unsigned char)*c >= ' ')
                tt_text_append(to, c, 1);
        }
}

/* A node stands below all that it reads, and below every node of the stages before: so stages are
 * bands, one below the other. */
static void place_nodes(struct layout *l) {
    int32_t base = 0;
    for (int32_t s = 0; s < l->plan->stage_count; s++) {
        int32_t deepest = base - 1;
        for (int32_t i = l->plan->first_nodes[s]; i < l->plan->first_nodes[s + 1]; i++) {
            const struct tt_onnx_node *node = &l->graph->nodes[i];
            l->layer[i] = -1;
            if (node->from_shapes)
                continue;
            int32_t layer = base;
            for (int32_t k = 0; k < node->input_count; k++) {
                int32_t producer = l->graph->tensors[node->inputs[k]].producer;
                if (producer >= 0 && l->layer[producer] >= layer)
                    layer = l->layer[producer] + 1;
            }
            l->layer[i] = layer;
            l->column[i] = l->width[layer]++;
            l->widest = l->width[layer] > l->widest ? l->width[layer] : l->widest;
            deepest = layer > deepest ? layer : deepest;
        }
        base = deepest + 1;
    }
    l->layer_count = base;
}

static int32_t x_of(const struct layout *l, int32_t node) {
    int32_t row = l->width[l->layer[node]] * (BOX_WIDTH + GAP_X) - GAP_X;
    int32_t all = l->widest * (BOX_WIDTH + GAP_X) - GAP_X;
    return MARGIN + LABEL + (all - row) / 2 + l->column[node] * (BOX_WIDTH + GAP_X);
}

static int32_t y_of(const struct layout *l, int32_t layer) {
    (void)l;
    return 2 * MARGIN + layer * (BOX_HEIGHT + GAP_Y);
}

static void draw_bands(const struct layout *l, int32_t picture_width, struct tt_text *to) {
    int32_t from = 0;
    for (int32_t s = 0; s < l->plan->stage_count; s++) {
        int32_t end = from;
        for (int32_t i = l->plan->first_nodes[s]; i < l->plan->first_nodes[s + 1]; i++)
            end = l->layer[i] >= end ? l->layer[i] + 1 : end;
        int32_t top = y_of(l, from) - GAP_Y / 2, bottom = y_of(l, end) - GAP_Y / 2;
        tt_text_printf(to,
                       "<rect x=\"0\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>"
                       "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">stage %d</text>"
                       "<text x=\"%d\" y=\"%d\">%lld us</text>\n",
                       top, picture_width, bottom - top, colours[(size_t)s % TT_COUNT(colours)],
                       MARGIN, top + 20, s, MARGIN, top + 36,
                       (long long)(l->plan->times_ns[s] / 1000));
        from = end;
    }
}

static void draw_edges(const struct layout *l, struct tt_text *to) {
    for (int32_t i = 0; i < l->graph->node_count; i++) {
        const struct tt_onnx_node *node = &l->graph->nodes[i];
        for (int32_t k = 0; l->layer[i] >= 0 && k < node->input_count; k++) {
            int32_t from = l->graph->tensors[node->inputs[k]].producer;
            if (from < 0 || l->layer[from] < 0)
                continue;
            int32_t x1 = x_of(l, from) + BOX_WIDTH / 2, y1 = y_of(l, l->layer[from]) + BOX_HEIGHT;
            int32_t x2 = x_of(l, i) + BOX_WIDTH / 2, y2 = y_of(l, l->layer[i]);
            tt_text_printf(to, "<path d=\"M%d %d C%d %d %d %d %d %d\"/>\n", x1, y1, x1, y1 + GAP_Y,
                           x2, y2 - GAP_Y, x2, y2);
        }
    }
}

static void draw_nodes(const struct layout *l, struct tt_text *to) {
    for (int32_t i = 0; i < l->graph->node_count; i++) {
        if (l->layer[i] < 0)
            continue;
        const struct tt_onnx_node *node = &l->graph->nodes[i];
        char name[300];
        int32_t x = x_of(l, i), y = y_of(l, l->layer[i]);
        tt_text_printf(to, "<g><title>");
        put_escaped(to, tt_onnx_graph_node_name(l->graph, i, name, sizeof(name)));
        tt_text_printf(to,
                       ", %lld us</title><rect class=\"n\" x=\"%d\" y=\"%d\" width=\"%d\" "
                       "height=\"%d\" rx=\"4\"/><text x=\"%d\" y=\"%d\">",
                       (long long)(node->time_ns / 1000), x, y, BOX_WIDTH, BOX_HEIGHT, x + 8,
                       y + 17);
        put_escaped(to, node->message->op_type ? node->message->op_type : "");
        tt_text_puts(to, "</text></g>\n");
    }
}

enum tt_err tt_cut_svg(const struct tt_onnx_graph *graph, const struct tt_cut_plan *plan,
                       const char *title, struct tt_text *out_svg) {
    size_t nodes = (size_t)graph->node_count + 1;
    struct layout l = {.graph = graph,
                       .plan = plan,
                       .layer = calloc(nodes, sizeof(*l.layer)),
                       .column = calloc(nodes, sizeof(*l.column)),
                       .width = calloc(nodes, sizeof(*l.width)),
                       .widest = 1};
    if (l.layer && l.column && l.width) {
        place_nodes(&l);
        int32_t width = 2 * MARGIN + LABEL + l.widest * (BOX_WIDTH + GAP_X) - GAP_X;
        int32_t height = y_of(&l, l.layer_count) + MARGIN;
        tt_text_printf(out_svg,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                       "font-family=\"sans-serif\" font-size=\"12\">\n<style>.n{fill:#fff;"
                       "stroke:#334155}path{fill:none;stroke:#64748b}</style>\n"
                       "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/><text x=\"%d\" y=\"%d\" "
                       "font-size=\"15\">",
                       width, height, width, height, MARGIN, MARGIN);
        put_escaped(out_svg, title);
        tt_text_puts(out_svg, "</text>\n");
        draw_bands(&l, width, out_svg);
        draw_edges(&l, out_svg);
        draw_nodes(&l, out_svg);
        tt_text_puts(out_svg, "</svg>\n");
    } else {
        out_svg->failed = true;
    }
    free(l.layer);
    free(l.column);
    free(l.width);
    return out_svg->failed ? TT_ERR_NO_MEMORY : TT_OK;
}
