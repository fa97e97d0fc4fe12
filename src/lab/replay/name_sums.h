/* What was recorded of each model name, over all domains and loads of a recording.
 *
 * A model that is loaded again may come into another domain; _add sums up by name. Life: _add per
 * domain, then _json or _table; _fini. Zero-initialised it is empty. Memory comes from
 * lab/scenario/allocate.h. */
#ifndef TT_LAB_REPLAY_NAME_SUMS_H
#define TT_LAB_REPLAY_NAME_SUMS_H

#include "base/text.h"
#include "lab/replay/replay.h"

#include <jansson.h>

struct tt_name_sum {
    char *name;
    int32_t loads; /* models of this name, in all domains */
    struct tt_measure_model figures;
};

struct tt_name_sums {
    int32_t count, loads;
    int64_t from_at, to_at; /* first to last instant of the domains, on the server's clock */
    struct tt_name_sum *items;
};

void tt_name_sums_add(struct tt_name_sums *self, const struct tt_replay *replay);
void tt_name_sums_fini(struct tt_name_sums *self);
/* An array of figures as in an experiment's report, with `name` and `loads`; a new reference. */
json_t *tt_name_sums_json(const struct tt_name_sums *self);
/* Nothing if no name has several loads. */
void tt_name_sums_table(const struct tt_name_sums *self, struct tt_text *out);

#endif
