/* Which batch ran on which executor and when: the beginning of a run, or a part of it, as data for
 * a page and as a picture.
 *
 * A timeline observes a run and keeps the first few thousand executions from `from_at` to
 * `until_at`. Where models have several steps, a lane is a stair: a later step stands higher, so
 * that a batch climbs. A batch that newcomers preempt waits on its stair (dashed), and they climb
 * to it from the bottom. timeline_svg.c implements _write, timeline.c the rest. */
#ifndef TT_LAB_REPORT_TIMELINE_H
#define TT_LAB_REPORT_TIMELINE_H

#include "base/text.h"
#include "lab/scenario/scenario.h"

#include <jansson.h>

enum { TT_TIMELINE_MAX_BARS = 8000, TT_TIMELINE_MEMBERS = 16 };

struct tt_timeline_bar {
    int64_t start_at, end_at; /* end_at -1: still running */
    int64_t slack_ns;         /* earliest deadline in the batch - end; TT_NEVER: none has one */
    int64_t deadline_at;
    int64_t members[TT_TIMELINE_MEMBERS];              /* the first of its requests */
    int32_t executor, model, rows, step, member_count; /* step -1: aborted */
};

struct tt_timeline {
    const struct tt_scenario *scenario; /* borrowed */
    struct tt_timeline_bar *bars;
    int32_t count;
    int64_t seen;              /* executions in that time, also those beyond MAX_BARS */
    int64_t from_at, until_at; /* the caller's, before the run; until TT_NEVER: as much as fits */
};

void tt_timeline_init(struct tt_timeline *self, const struct tt_scenario *scenario);
void tt_timeline_fini(struct tt_timeline *self);
struct tt_sim_observer tt_timeline_observer(struct tt_timeline *self);

/* After the run. Moves all instants, so that they count from what was `origin_at`. */
void tt_timeline_since(struct tt_timeline *self, int64_t origin_at);
/* After the run. Sorts the bars by start; a run in real time reports them by end. */
void tt_timeline_sort(struct tt_timeline *self);
/* The bar (index) that resumes what bar `i` began, where another batch ran between the two; -1:
 * none up to `until_at`. The bars are sorted. */
int32_t tt_timeline_resumed_by(const struct tt_timeline *self, int32_t i, int64_t until_at);
/* {"bars": [[executor, model, step, rows, start ms, end ms, slack ms or null, [requests]]...],
 *  "waits": [[executor, step, from ms, to ms]...], "seen"}. A new reference; NULL: no memory. */
json_t *tt_timeline_json(struct tt_timeline *self);
/* One <svg>, of as many bars as are legible. Errors: NOT_FOUND (nothing ran), IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_timeline_write(struct tt_timeline *self, const char *path,
                                            struct tt_error *why);

#endif
