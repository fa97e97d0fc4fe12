/* The cells of a simulated request: those of its model's steps, or a tree.
 *
 * By steps: a static step is a cell; a recurrent block is one cell that is repeated once per
 * element of the input (encoder), or open-ended up to the longest output (decoder). As a tree: step
 * 0 is the leaf cell, step 1 the internal cell, which reads two children; `length` counts the
 * leaves.
 *
 * The same seed gives the same tree. A tree may also be text, as nested parentheses: "(()())" is a
 * node with two leaves, and so is "(a b)". The memory is reused from request to request. */
#ifndef TT_SIM_SIM_CELLS_H
#define TT_SIM_SIM_CELLS_H

#include "core/cell_graph.h"
#include "core/step_model.h"

enum tt_tree {
    TT_TREE_NONE,     /* by steps */
    TT_TREE_BALANCED, /* halved repeatedly; the left half takes the odd leaf */
    TT_TREE_RANDOM,   /* drawn like parse trees */
};

/* After the first cell that runs `step` (-1: never) the request leaves, or continues at step `to`
 * if that is not 0. */
struct tt_sim_exit {
    int32_t step, to;
};

struct tt_sim_cells {
    struct tt_cell_spec *specs;
    int32_t *sources;
    int32_t *stack; /* roots of the subtrees read so far, left to right */
    int64_t spec_capacity, source_capacity, stack_capacity;
};

void tt_sim_cells_fini(struct tt_sim_cells *self);
/* The number of cells of a request of `length`, with outputs at their longest. A graph has at most
 * TT_CELL_GRAPH_MAX_CELLS. */
int64_t tt_sim_cells_count(const struct tt_step_model *model, enum tt_tree shape, int32_t length);
/* Errors: those of tt_cell_graph_new. */
TT_MUST_CHECK enum tt_err
tt_sim_cells_steps(struct tt_sim_cells *self, const struct tt_step_model *model, int32_t length,
                   struct tt_sim_exit exit, struct tt_cell_graph **out_graph, struct tt_error *why);
/* The nodes of a tree, drawn or read from `text`, in self->specs[*out_count], valid until the next
 * request; the last is the root. INVALID: not a tree; the message names the character. */
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
