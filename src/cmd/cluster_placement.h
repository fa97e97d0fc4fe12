/* tutti cluster placement: asks the primary about the placement and its plans, and shows the
 * answer. Implemented in cluster_placement.c. */
#ifndef TT_CMD_CLUSTER_PLACEMENT_H
#define TT_CMD_CLUSTER_PLACEMENT_H

#include "base/text.h"
#include "cmd/flags.h"

#include <jansson.h>

/* "show", "plan", "stop", "undo" (NULL: show) and moves, each "MODEL=POOL", become the line for the
 * primary, and for the spares if `out_to_all`. False: no such action, or moves that do not go with
 * it. */
bool tt_cluster_placement_line(const char *action, const struct tt_flag_list *moves,
                               struct tt_text *out_line, bool *out_to_all);
/* The answer for people. */
void tt_cluster_placement_print(const json_t *placement);

#endif
