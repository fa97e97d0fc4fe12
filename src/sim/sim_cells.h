/* Which cells a simulated request takes: the steps of its model, or a tree of drawn shape.
 *
 * By steps: a static step is a cell, a recurrent block is one cell that is repeated once per
 * element of the input (encoder), or open-ended up to the longest output there is (decoder). As a
 * tree: step 0 is the leaf cell, step 1 the internal one, which reads two; `length` counts the
 * leaves. The same seed gives the same tree; a tree may also be written down, as nested
 * parentheses: "(()())" is a node of two leaves, and so is "(a b)". The memory is kept from request
 * to request. */
#ifndef TT_SIM_SIM_CELLS_H
#define TT_SIM_SIM_CELLS_H

#include "core/cell_graph.h"
#include "core/step_model.h"

enum tt_tree {
    TT_TREE_NONE,     /* by steps */
    TT_TREE_BALANCED, /* halves of halves; the left one takes the odd leaf */
    TT_TREE_RANDOM,   /* drawn like parse trees */
};

/* Behind the first cell that runs `step` (-1: none does) the request leaves, or goes on at `to`
 * where that is not 0. */
struct tt_sim_exit {
    int32_t step, to;
};

struct tt_sim_cells {
    struct tt_cell_spec *specs;
    int32_t *sources;
    int32_t *stack; /* roots of the trees so far, left to right */
    int32_t capacity;
};

void tt_sim_cells_fini(struct tt_sim_cells *self);
/* How many cells a request of the length takes, open ends at their longest; more than
 * TT_CELL_GRAPH_MAX_CELLS make no graph. */
int64_t tt_sim_cells_count(const struct tt_step_model *model, enum tt_tree shape, int32_t length);
/* Errors: those of tt_cell_graph_new. */
TT_MUST_CHECK enum tt_err
tt_sim_cells_steps(struct tt_sim_cells *self, const struct tt_step_model *model, int32_t length,
                   struct tt_sim_exit exit, struct tt_cell_graph **out_graph, struct tt_error *why);
/* The nodes of a tree, drawn or read from `text`: in self->specs, [*out_count], until the next
 * request; the last is the root. INVALID: there is no such tree; the message says where. */
TT_MUST_CHECK enum tt_err tt_sim_cells_draw_tree(struct tt_sim_cells *self, enum tt_tree shape,
                                                 int32_t leaves, uint64_t seed, int32_t *out_count,
                                                 struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_sim_cells_read_tree(struct tt_sim_cells *self, const char *text,
                                                 int32_t *out_count, struct tt_error *why);
/* The same as a graph. Errors: also those of tt_cell_graph_new. */
TT_MUST_CHECK enum tt_err tt_sim_cells_tree(struct tt_sim_cells *self,
                                            const struct tt_step_model *model, enum tt_tree shape,
                                            int32_t leaves, uint64_t seed,
                                            struct tt_cell_graph **out_graph, struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_sim_cells_text(struct tt_sim_cells *self,
                                            const struct tt_step_model *model, const char *text,
                                            struct tt_cell_graph **out_graph, struct tt_error *why);

#endif
