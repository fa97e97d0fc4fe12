/* E5: finds the best workers for each load by trying them on the device (E2bird's offline phase).
 *
 * For each total of rows (4, 8, 16, 32) it tries every choice of workers whose sizes are powers of
 * two and add up to the total. All start with a full batch at one instant, each on an executor of
 * its own. The figure of a choice is the mean, over its workers, of the time until each has ended.
 * The lowest is the best; ties: fewer workers first, then the larger ones.
 * policy/elastic/elastic_plan.h makes the same search with a profile instead of a device.
 *
 * `recall` is called before a choice is measured and `keep` after it, so that an interrupted search
 * can continue. Inputs are zeros (profile/calibrate.h). Nothing else may use the engine meanwhile.
 */
#ifndef TT_PROFILE_WORKER_SEARCH_H
#define TT_PROFILE_WORKER_SEARCH_H

#include "engine/engine.h"
#include "profile/worker_file.h"

enum { TT_WORKER_SEARCH_MAX_TOTALS = 7 };

struct tt_worker_search_options {
    const int32_t *totals; /* each 1 .. 64 */
    int32_t total_count;
    int32_t largest;  /* maximum worker size, rounded down to a power of two */
    int32_t length;   /* for variable dimensions */
    int32_t runs;     /* minimum per choice, after one warm-up run */
    int64_t least_ns; /* minimum total time per choice */
    int64_t max_ns;   /* no further run once a choice took so long */
    /* Called before each choice, for a progress bar; false stops: CANCELLED. */
    bool (*progress)(void *context, int32_t done, int32_t total,
                     const int32_t counts[TT_WORKER_SIZES]);
    bool (*recall)(
        void *context,
        struct tt_worker_mix *mix); /* fills in a mix whose counts are set; false: not known */
    void (*keep)(void *context, const struct tt_worker_mix *mix);
    void *context;
};

/* The number of executors that these totals need. */
int32_t tt_worker_search_executors(const int32_t *totals, int32_t total_count);
/* Errors: CANCELLED, NO_MEMORY, and those of a run. */
TT_MUST_CHECK enum tt_err tt_worker_search(struct tt_engine_model *model,
                                           const struct tt_worker_search_options *options,
                                           struct tt_error *why);

/* E6: the QoS condition for two workers (policy/elastic/elastic_qos.h), of measured times. The
 * device is never idle, so the worker that ends last ends when all work is done, whatever shares
 * they have; if all begin at once, that is at `last_ns`. A later begin leaves more time. */
static inline bool tt_worker_mix_keeps(const struct tt_worker_mix *self, int64_t promise_ns) {
    return self->last_ns <= promise_ns;
}
/* Removes choices that do not keep the promise, in ns (TT_NEVER: none), of each total of which some
 * choice does. Returns the number left; their order stays. */
int32_t tt_worker_search_within(struct tt_worker_mix *mixes, int32_t count, int64_t promise_ns);

/* The best measured choice of `total` rows that needs at most available[k] workers of size 2^k
 * (NULL: any number). Returns NULL if there is none. */
const struct tt_worker_mix *tt_worker_search_best(const struct tt_worker_mix *mixes, int32_t count,
                                                  int32_t total,
                                                  const int32_t available[TT_WORKER_SIZES]);

/* The options `workers` and `configurations` of policy elastic. */
struct tt_worker_options {
    char workers[512], configurations[512];
};
/* `workers`: the union of the best choices of all measured totals, and one worker each of size 1
 * and 2 for smaller loads. With `given` (the option's valid value, or NULL) they are those, and the
 * configurations are the best that they can form. False: no total of 4 rows or more has a choice.
 */
bool tt_worker_search_options_of(const struct tt_worker_mix *mixes, int32_t count,
                                 const char *given, struct tt_worker_options *out_options);

#endif
