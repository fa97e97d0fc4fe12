/* The trees that requests of an experiment carry in real time: those of the simulator, request for
 * request (sim/sim_cells.h).
 *
 * Life: _draw makes the nodes of one request, so that its inputs can be sized; _fill writes into
 * them whose children they are, a node per cell, numbered as the cells are. One of these serves all
 * requests of a run, one after the other: it keeps its memory. */
#ifndef TT_LAB_RUN_LIVE_TREE_H
#define TT_LAB_RUN_LIVE_TREE_H

#include "lab/scenario/scenario.h"
#include "model/cells/cells.h"

struct tt_inference;

struct tt_live_tree {
    struct tt_sim_cells drawn; /* the nodes are its specs */
    int32_t nodes;
};

/* The tree of the arrival with the number: as it is written, else as the model's are. Errors:
 * NO_MEMORY, INVALID (too large). */
TT_MUST_CHECK enum tt_err tt_live_tree_draw(struct tt_live_tree *self,
                                            const struct tt_scenario *scenario,
                                            const struct tt_sim_arrival *arrival, int64_t number,
                                            struct tt_error *why);
/* Into the request, which was begun with so many elements; `cells`: its model's. */
void tt_live_tree_fill(const struct tt_live_tree *self, const struct tt_cells *cells,
                       struct tt_inference *infer);
void tt_live_tree_fini(struct tt_live_tree *self);

#endif
