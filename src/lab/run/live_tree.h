/* The trees that an experiment's requests carry in real time: those of the simulator, request for
 * request (sim/sim_cells.h).
 *
 * Life: _draw makes the nodes of one request, which gives the size of its inputs; _fill writes the
 * children of each node into them, a node per cell, in the numbering of the cells. One object
 * serves all requests of a run in turn and reuses its memory. */
#ifndef TT_LAB_RUN_LIVE_TREE_H
#define TT_LAB_RUN_LIVE_TREE_H

#include "lab/scenario/scenario.h"
#include "model/cells/cells.h"

struct tt_inference;

struct tt_live_tree {
    struct tt_sim_cells drawn; /* its specs are the nodes */
    int32_t nodes;
};

/* The tree of arrival `number`: its own text, else a tree of the model's shape. Errors: NO_MEMORY,
 * INVALID (too large). */
TT_MUST_CHECK enum tt_err tt_live_tree_draw(struct tt_live_tree *self,
                                            const struct tt_scenario *scenario,
                                            const struct tt_sim_arrival *arrival, int64_t number,
                                            struct tt_error *why);
/* Fills the request, which was begun with that many elements; `cells`: of its model. */
void tt_live_tree_fill(const struct tt_live_tree *self, const struct tt_cells *cells,
                       struct tt_inference *inference);
void tt_live_tree_fini(struct tt_live_tree *self);

#endif
