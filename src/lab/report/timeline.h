/* Who ran on which executor when, in batches of what size: a picture of the beginning of a run, or
 * of a part of it.
 *
 * It listens to the run and keeps the first few thousand executions from `from_at` to `until_at`;
 * the picture shows as many of them as are legible. Where models have several steps a lane is a
 * stair: a later step stands higher, so that a batch climbs, one that newcomers preempt waits on
 * its stair (dashed), and they climb to it from the bottom. */
#ifndef TT_LAB_REPORT_TIMELINE_H
#define TT_LAB_REPORT_TIMELINE_H

#include "base/text.h"
#include "lab/experiment/scenario.h"

enum { TT_TIMELINE_MAX_BARS = 4000, TT_TIMELINE_MEMBERS = 16 };

struct tt_timeline_bar {
    int64_t start_at, end_at; /* end_at -1: still running */
    int64_t slack_ns;         /* earliest deadline in the batch - end; TT_NEVER: none has one */
    int64_t deadline_at;
    int64_t members[TT_TIMELINE_MEMBERS]; /* the first of its requests */
    int32_t executor, model, rows, step, member_count;
};

struct tt_timeline {
    const struct tt_scenario *scenario; /* borrowed */
    struct tt_timeline_bar *bars;       /* NULL: no memory; there is no picture */
    int32_t count;
    int64_t from_at, until_at; /* the caller's, before the run; until TT_NEVER: as much as fits */
};

void tt_timeline_init(struct tt_timeline *self, const struct tt_scenario *scenario);
void tt_timeline_fini(struct tt_timeline *self);
struct tt_sim_observer tt_timeline_observer(struct tt_timeline *self);
/* After the run. Where the picture ends. */
int64_t tt_timeline_end_at(struct tt_timeline *self);
/* A heading with a sentence, and the picture; nothing where nothing ran. */
void tt_timeline_put(struct tt_timeline *self, struct tt_text *out);
/* The picture alone, as one <svg>; false: nothing ran. */
bool tt_timeline_put_svg(struct tt_timeline *self, struct tt_text *out);
/* Errors: NOT_FOUND (nothing ran), IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_timeline_write(struct tt_timeline *self, const char *path,
                                            struct tt_error *why);

#endif
