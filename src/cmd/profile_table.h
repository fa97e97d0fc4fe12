/* What `tutti profile` prints of its measurements: a table for people, the same as JSON.
 *
 * A group is what is measured along batch sizes: the whole model at one input length; of a model of
 * cells one cell type. The best batch of a group has the most rows per second. */
#ifndef TT_CMD_PROFILE_TABLE_H
#define TT_CMD_PROFILE_TABLE_H

#include "base/text.h"
#include "profile/profile_builder.h"

#include <jansson.h>

struct tt_profile_table {
    const char *model, *device;
    const struct tt_calibration_point *points; /* in any order; of stages only the whole is shown */
    int32_t count;
    const char *const *step_names; /* by step; of cells only */
    bool by_step;                  /* a model of cells: there is no whole */
    int64_t slo_ns;                /* 0: none */
};

void tt_profile_table_write(const struct tt_profile_table *self, struct tt_text *out);
/* docs/FORMATS.md has the keys. NULL: out of memory. */
json_t *tt_profile_table_json(const struct tt_profile_table *self);

#endif
