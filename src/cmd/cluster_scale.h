/* tutti cluster scale: asks the schedulers about scaling, and shows the answer. Implemented in
 * cluster_scale.c. */
#ifndef TT_CMD_CLUSTER_SCALE_H
#define TT_CMD_CLUSTER_SCALE_H

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_cluster_scale_flags {
    const char *pool, *node;
    int32_t devices; /* 0: not given */
};

/* "show", "stop", "resume", "pin", "preempt" (NULL: show) and the flags become the line for
 * schedulers; *out_to_all: for spares too. Returns NULL, or why they do not go together. */
const char *tt_cluster_scale_line(const char *action, const struct tt_cluster_scale_flags *flags,
                                  struct tt_text *out_line, bool *out_to_all);
/* The answer for people. */
void tt_cluster_scale_print(const json_t *scaling);
/* The pools, as the answer and the status have them. */
void tt_cluster_scale_print_pools(const json_t *pools);

#endif
