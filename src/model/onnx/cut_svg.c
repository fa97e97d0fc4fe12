/* The picture of a cut graph: a band of its own colour for each stage, its time beside it. */
#include "model/onnx/cut_layout.h"
#include "model/onnx/cut_report.h"

#include <string.h>

enum {
    BOX_HEIGHT = 24,
    GAP_Y = 22,
    MARGIN = 20,
    LABEL = 120,
    TOP = 44,
    OP_BYTES = 14,
    NAME_BYTES = 21
};

static double x_of(const struct tt_cut_part *part) { return MARGIN + LABEL + part->x; }

static int32_t y_of(int32_t layer) { return TOP + layer * (BOX_HEIGHT + GAP_Y); }

static void put_time(struct tt_text *to, int64_t ns) {
    if (ns >= 10000000)
        tt_text_printf(to, "%.1f ms", (double)ns / 1e6);
    else if (ns >= 1000000)
        tt_text_printf(to, "%.2f ms", (double)ns / 1e6);
    else
        tt_text_printf(to, "%.*f us", ns >= 10000 ? 0 : 1, (double)ns / 1e3);
}

/* Turns of the golden angle: hues never repeat. */
static void put_hue(struct tt_text *to, int32_t stage, const char *light) {
    double turns = 0.58 + stage * 0.6180339887;
    tt_text_printf(to, "hsl(%.1f,60%%,%s)", 360 * (turns - (double)(int32_t)turns), light);
}

static void draw_bands(const struct tt_cut_layout *layout, int32_t width, struct tt_text *to) {
    const struct tt_cut_plan *plan = layout->plan;
    int64_t total_ns = 0;
    for (int32_t s = 0; s < plan->stage_count; s++)
        total_ns += plan->times_ns[s];
    for (int32_t s = 0; s < plan->stage_count; s++) {
        int32_t top = y_of(s ? layout->stage_ends[s - 1] : 1) - GAP_Y / 2;
        int32_t bottom = y_of(layout->stage_ends[s]) - GAP_Y / 2;
        tt_text_printf(to, "<g><rect y=\"%d\" width=\"%d\" height=\"%d\" fill=\"", top, width,
                       bottom - top);
        put_hue(to, s, "93%");
        tt_text_printf(to, "\"/><rect y=\"%d\" width=\"5\" height=\"%d\" fill=\"", top,
                       bottom - top);
        put_hue(to, s, "45%");
        tt_text_printf(to,
                       "\"/><text x=\"%d\" y=\"%d\" font-weight=\"bold\">stage %d</text>"
                       "<text x=\"%d\" y=\"%d\">",
                       MARGIN, top + 18, s, MARGIN, top + 34);
        put_time(to, plan->times_ns[s]);
        if (total_ns > 0)
            tt_text_printf(to, ", %.0f %%", 100.0 * (double)plan->times_ns[s] / (double)total_ns);
        tt_text_puts(to, "</text></g>\n");
    }
}

/* Straight through a layer where a point lies, bent between two layers. */
static void draw_edges(const struct tt_cut_layout *layout, struct tt_text *to) {
    for (int32_t e = 0; e < layout->edge_count; e++) {
        const struct tt_cut_part *from = &layout->parts[layout->edges[e].from];
        const struct tt_cut_part *part = &layout->parts[layout->edges[e].to];
        bool ends = part->kind != TT_CUT_POINT;
        int32_t y1 = y_of(from->layer) + BOX_HEIGHT, y2 = y_of(part->layer) - (ends ? 3 : 0);
        double x1 = x_of(from), x2 = x_of(part);
        tt_text_printf(to, "<path d=\"M%.1f %dC%.1f %d %.1f %d %.1f %d", x1, y1, x1, y1 + GAP_Y / 2,
                       x2, y2 - GAP_Y / 2, x2, y2);
        if (!ends)
            tt_text_printf(to, "V%d", y2 + BOX_HEIGHT);
        tt_text_printf(to, "\"%s/>\n", ends ? " marker-end=\"url(#arrow)\"" : "");
    }
}

/* At most so many bytes of a name, cut between characters. */
static void put_short(struct tt_text *to, const char *text, size_t bytes) {
    char some[64];
    size_t length = strlen(text), kept = length;
    if (length > bytes)
        for (kept = bytes - 1; kept > 0 && ((unsigned char)text[kept] & 0xC0) == 0x80;)
            kept--;
    tt_assert(bytes < sizeof(some));
    memcpy(some, text, kept);
    some[kept] = '\0';
    tt_text_put_xml(to, some);
    if (kept < length)
        tt_text_puts(to, "\xE2\x80\xA6"); /* an ellipsis */
}

static void draw_node(const struct tt_cut_layout *layout, const struct tt_cut_part *part,
                      struct tt_text *to) {
    const struct tt_onnx_node *node = &layout->graph->nodes[part->index];
    char name[300];
    double x = x_of(part) - TT_CUT_BOX_WIDTH / 2.0;
    int32_t y = y_of(part->layer);
    tt_text_puts(to, "<g><title>");
    tt_text_put_xml(to, tt_onnx_graph_node_name(layout->graph, part->index, name, sizeof(name)));
    tt_text_puts(to, ", ");
    put_time(to, node->time_ns);
    tt_text_printf(to,
                   "</title><rect class=\"n\" x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\" "
                   "rx=\"4\"/><text x=\"%.1f\" y=\"%d\">",
                   x, y, TT_CUT_BOX_WIDTH, BOX_HEIGHT, x + 7, y + 16);
    put_short(to, node->message->op_type ? node->message->op_type : "", OP_BYTES);
    tt_text_printf(to, "</text><text class=\"t\" x=\"%.1f\" y=\"%d\">", x + TT_CUT_BOX_WIDTH - 6,
                   y + 16);
    put_time(to, node->time_ns);
    tt_text_puts(to, "</text></g>\n");
}

/* An input or an output, with its type and shape. */
static void draw_tensor(const struct tt_cut_layout *layout, const struct tt_cut_part *part,
                        struct tt_text *to) {
    const struct tt_onnx_tensor *tensor = &layout->graph->tensors[part->index];
    char shape[200];
    double x = x_of(part) - TT_CUT_BOX_WIDTH / 2.0;
    int32_t y = y_of(part->layer);
    tt_text_printf(to, "<g><title>%s ", part->kind == TT_CUT_INPUT ? "input" : "output");
    tt_text_put_xml(to, tensor->name);
    tt_text_printf(to, " %s ", tt_dtype_name(tensor->dtype));
    tt_text_put_xml(to, tt_shape_print(&tensor->shape, shape, sizeof(shape)));
    tt_text_printf(to,
                   "</title><rect class=\"io\" x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\" "
                   "rx=\"12\"/><text class=\"m\" x=\"%.1f\" y=\"%d\">",
                   x, y, TT_CUT_BOX_WIDTH, BOX_HEIGHT, x_of(part), y + 16);
    put_short(to, tensor->name, NAME_BYTES);
    tt_text_puts(to, "</text></g>\n");
}

enum tt_err tt_cut_svg(const struct tt_onnx_graph *graph, const struct tt_cut_plan *plan,
                       const char *title, struct tt_text *out_svg) {
    struct tt_cut_layout layout;
    enum tt_err err = tt_cut_layout_init(&layout, graph, plan);
    if (err)
        return err;
    int32_t width = 2 * MARGIN + LABEL + (int32_t)layout.width + 1;
    int32_t height = y_of(layout.layer_count) - GAP_Y + MARGIN;
    tt_text_printf(out_svg,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                   "height=\"%d\" style=\"max-width:100%%;height:auto\" role=\"img\" "
                   "font-family=\"sans-serif\" font-size=\"12\">\n<title>",
                   width, height, width, height);
    tt_text_put_xml(out_svg, title);
    tt_text_printf(out_svg,
                   "</title><defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"6\" refY=\"4\" "
                   "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8Z\" "
                   "style=\"fill:#64748b;stroke:none\"/></marker></defs>\n"
                   "<style>text{fill:#16202c}.n{fill:#fff;stroke:#334155}.io{fill:#16202c;"
                   "stroke:none}.m{fill:#fff;text-anchor:middle}.t{fill:#56616f;font-size:10px;"
                   "text-anchor:end}path{fill:none;stroke:#64748b}</style>\n"
                   "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/><text x=\"%d\" y=\"%d\" "
                   "font-size=\"15\">",
                   width, height, MARGIN, MARGIN + 6);
    tt_text_put_xml(out_svg, title);
    tt_text_puts(out_svg, "</text>\n");
    draw_bands(&layout, width, out_svg);
    draw_edges(&layout, out_svg);
    for (int32_t p = 0; p < layout.part_count; p++)
        if (layout.parts[p].kind == TT_CUT_NODE)
            draw_node(&layout, &layout.parts[p], out_svg);
        else if (layout.parts[p].kind != TT_CUT_POINT)
            draw_tensor(&layout, &layout.parts[p], out_svg);
    tt_text_puts(out_svg, "</svg>\n");
    tt_cut_layout_fini(&layout);
    return out_svg->failed ? TT_ERR_NO_MEMORY : TT_OK;
}
