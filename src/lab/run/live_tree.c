#include "lab/run/live_tree.h"

#include "serve/inference.h"

enum tt_err tt_live_tree_draw(struct tt_live_tree *self, const struct tt_scenario *scenario,
                              const struct tt_sim_arrival *arrival, int64_t number,
                              struct tt_error *why) {
    if (arrival->tree)
        return tt_sim_cells_read_tree(&self->drawn, arrival->tree, &self->nodes, why);
    return tt_sim_cells_draw_tree(&self->drawn, scenario->models[arrival->model].tree,
                                  arrival->length, scenario->seed + (uint64_t)number, &self->nodes,
                                  why);
}

void tt_live_tree_fill(const struct tt_live_tree *self, const struct tt_cells *cells,
                       struct tt_inference *inference) {
    for (int32_t k = 0; k < cells->child_count; k++) {
        size_t size_bytes;
        int64_t *children = tt_inference_input(inference, cells->children[k], &size_bytes);
        tt_assert(size_bytes == (size_t)self->nodes * sizeof(*children));
        for (int32_t node = 0; node < self->nodes; node++) {
            const struct tt_cell_spec *spec = &self->drawn.specs[node];
            children[node] = spec->source_count > 0 ? spec->sources[k] : -1;
        }
    }
}

void tt_live_tree_fini(struct tt_live_tree *self) {
    tt_sim_cells_fini(&self->drawn);
    *self = (struct tt_live_tree){0};
}
