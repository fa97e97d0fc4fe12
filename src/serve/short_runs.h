/* Which batches of a model are over so soon that handing them to another thread costs more than
 * they do.
 *
 * A thread that is woken for a task and wakes another one with the answer costs some 10
 * microseconds, and more where a processor has to be waited for. Whoever brought the news that a
 * task follows from may as well run it, if it is short; and if it is not, whatever else that thread
 * has to do waits. So a size of batch (to the next power of two) is trusted only while its last
 * runs, wherever they were, have been short but for a rare one: a thread that loses its processor
 * in the middle of a run takes long, too. Each short run counts for it, each long one against it as
 * much as a dozen.
 *
 * How many of them in a row: those that cost no more than handing them over may take several times
 * what counts as short; of longer ones one or two, since other threads could do them meanwhile.
 *
 * It counts and compares; it measures nothing and knows no thread. */
#ifndef TT_SERVE_SHORT_RUNS_H
#define TT_SERVE_SHORT_RUNS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TT_SHORT_RUNS_MOST = 32, /* points */
    TT_SHORT_RUNS_TRUSTED = 16,
    TT_SHORT_RUNS_LONG = 12, /* what a long one costs */
    TT_SHORT_RUNS_HOP_NS = 10000,
    TT_SHORT_RUNS_SIZES = 17, /* up to 65,536 rows */
};

/* All zero in the beginning: nothing is trusted. */
struct tt_short_runs {
    int64_t typical_ns[TT_SHORT_RUNS_SIZES]; /* an average of the short ones, of weight 1/8 */
    uint8_t points[TT_SHORT_RUNS_SIZES];
};

/* A run of so many rows (>= 1) took so long; `most_ns` is what counts as short. */
void tt_short_runs_note(struct tt_short_runs *self, int32_t rows, int64_t took_ns, int64_t max_ns);
bool tt_short_runs_expects(const struct tt_short_runs *self, int32_t rows);
/* Once so much was spent on runs, another one of this kind is for somebody else. */
int64_t tt_short_runs_budget(const struct tt_short_runs *self, int32_t rows, int64_t max_ns);

#endif
