/* Why nodes cannot load models: what their frames SERVED say, kept for the wish or the plan that is
 * carried out, and logged if there is none.
 *
 * Life: _init; _note for each frame SERVED that the primary gets; _of_wish when a wish has ended;
 * _fini. One thread, that of the scheduler's node. Implemented in load_reasons.c. */
#ifndef TT_FLEET_LOAD_REASONS_H
#define TT_FLEET_LOAD_REASONS_H

#include "cluster/model_set.h"
#include "fleet/fleet_node.h"

enum { TT_LOAD_REASON_BYTES = 300 }; /* of one node */

struct tt_load_reasons {
    struct tt_fleet_node *node;  /* borrowed */
    struct tt_text wish, plan;   /* node by node; of a plan, the first node */
    struct tt_model_wish number; /* that `wish` is about */
};

void tt_load_reasons_init(struct tt_load_reasons *self, struct tt_fleet_node *node);
void tt_load_reasons_fini(struct tt_load_reasons *self);
/* Before the set gets the frame. */
void tt_load_reasons_note(struct tt_load_reasons *self, const struct tt_model_set *set,
                          uint16_t from, const struct tt_received *received);
/* "" if no node gave one. Borrowed until the next call. */
const char *tt_load_reasons_of_wish(struct tt_load_reasons *self, const struct tt_model_wish *wish);

#endif
