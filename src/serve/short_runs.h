/* Which batches of a model are so short that handing them to another thread costs more than they
 * do.
 *
 * Waking a thread for a task, and another one with the answer, costs some 10 microseconds, and more
 * if a processor is busy. The thread that brought the work may run a short task itself; if the task
 * turns out long, that thread's other work waits. So a size of batch (to the next power of two) is
 * trusted only while its last runs, on whatever thread, have been short except for a rare one: a
 * thread that loses its processor during a run takes long, too. Each short run counts one point for
 * the size, each long one twelve against it.
 *
 * How many in succession: runs that cost no more than handing them over may take several times what
 * counts as short; of longer ones one or two, because other threads could do them meanwhile.
 *
 * It counts and compares; it measures nothing and knows no thread. Implemented in short_runs.c. */
#ifndef TT_SERVE_SHORT_RUNS_H
#define TT_SERVE_SHORT_RUNS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TT_SHORT_RUNS_MAX = 32, /* points */
    TT_SHORT_RUNS_TRUSTED = 16,
    TT_SHORT_RUNS_LONG = 12, /* points that a long run costs */
    TT_SHORT_RUNS_HOP_NS = 10000,
    TT_SHORT_RUNS_SIZES = 17, /* up to 65,536 rows */
};

/* All zero at first: nothing is trusted. */
struct tt_short_runs {
    int64_t typical_ns[TT_SHORT_RUNS_SIZES]; /* average of the short ones, of weight 1/8 */
    uint8_t points[TT_SHORT_RUNS_SIZES];
};

/* A run of `rows` rows (>= 1) took `took_ns`; `max_ns` is the longest that counts as short. */
void tt_short_runs_note(struct tt_short_runs *self, int32_t rows, int64_t took_ns, int64_t max_ns);
bool tt_short_runs_expects(const struct tt_short_runs *self, int32_t rows);
/* The time that a thread may spend on such runs before it hands over the next one. */
int64_t tt_short_runs_budget(const struct tt_short_runs *self, int32_t rows, int64_t max_ns);

#endif
