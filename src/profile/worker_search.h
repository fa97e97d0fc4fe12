/* E5: which workers are best at which load, by trying them on the device itself (E2bird's offline
 * phase).
 *
 * For each total of rows (4, 8, 16, 32) every choice of workers whose sizes are powers of two and
 * add up to it is run: all start with a full batch at the same instant, each on an executor of its
 * own, and what counts is the mean, over the workers, of the time until each has ended. The choice
 * with the lowest is the best; equal ones: the fewer workers, then the larger ones.
 * policy/elastic/elastic_plan.h makes the same search with a profile instead of a device.
 *
 * Every choice is told to `keep` when it was measured, and asked of `recall` before, so that who is
 * interrupted goes on where he was. Inputs are zeros (profile/calibrate.h). Nothing else may use
 * the engine meanwhile. */
#ifndef TT_PROFILE_WORKER_SEARCH_H
#define TT_PROFILE_WORKER_SEARCH_H

#include "engine/engine.h"
#include "profile/worker_file.h"

enum { TT_WORKER_SEARCH_MAX_TOTALS = 7 };

struct tt_worker_search_options {
    const int32_t *totals; /* each 1 .. 64 */
    int32_t total_count;
    int32_t largest;  /* no larger workers than that (rounded down to a power of two) */
    int32_t length;   /* what variable dimensions become */
    int32_t runs;     /* at least so many per choice, after one to warm up */
    int64_t least_ns; /* and at least so long */
    int64_t max_ns;   /* but no further run once a choice took so long */
    /* Before each choice, for a progress bar; false stops: CANCELLED. */
    bool (*progress)(void *context, int32_t done, int32_t total,
                     const int32_t counts[TT_WORKER_SIZES]);
    bool (*recall)(void *context, struct tt_worker_mix *mix); /* its counts stand there */
    void (*keep)(void *context, const struct tt_worker_mix *mix);
    void *context;
};

/* How many executors the engine must have for these totals. */
int32_t tt_worker_search_executors(const int32_t *totals, int32_t total_count);
/* Errors: CANCELLED, NO_MEMORY, and what a run fails with. */
TT_MUST_CHECK enum tt_err tt_worker_search(struct tt_engine_model *model,
                                           const struct tt_worker_search_options *options,
                                           struct tt_error *why);

/* The best of the measured choices of that total that can be made of available[k] workers of size
 * 2^k (NULL: of any); NULL: there is none. */
const struct tt_worker_mix *tt_worker_search_best(const struct tt_worker_mix *mixes, int32_t count,
                                                  int32_t total,
                                                  const int32_t available[TT_WORKER_SIZES]);

/* What policy elastic is told: its options `workers` and `configurations`. */
struct tt_worker_options {
    char workers[512], configurations[512];
};
/* `workers` are those of the best choice of every total that was measured, and one of size 1 and 2
 * for what is less (E2bird: the engine holds the union); with `given` (the option's value, valid;
 * else NULL) they are those, and the configurations the best that can be made of them. False: no
 * total of 4 rows or more has a choice. */
bool tt_worker_search_options_of(const struct tt_worker_mix *mixes, int32_t count,
                                 const char *given, struct tt_worker_options *out_options);

#endif
