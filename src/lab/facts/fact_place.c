#include "lab/facts/fact_place.h"

#include "base/prng.h"
#include "base/text.h"
#include "lab/scenario/allocate.h"
#include "place/place_file.h"
#include "place/place_search.h"
#include "profile/profile_file.h"

#include <stdlib.h>

/* Some seconds, more than the search has. */
enum { DRAWS = 1000000 };

static bool goes_on(void *context, double share) {
    (void)share;
    const volatile sig_atomic_t *stop = context;
    return !stop || !*stop;
}

/* The best of the draws into *out_best; `out_held`: how many held the limits. `at`: scratch. */
static enum tt_err draw(const struct tt_place_problem *problem, const volatile sig_atomic_t *stop,
                        int32_t *at, struct tt_place_value *out_best, int64_t *out_held) {
    struct tt_prng random;
    tt_prng_init(&random, problem->seed, 1);
    enum tt_err err = TT_OK;
    struct tt_error ignored;
    *out_held = 0;
    for (int32_t i = 0; !err && i < DRAWS && !(stop && *stop); i++) {
        for (int32_t m = 0; m < problem->model_count; m++)
            at[m] = (int32_t)tt_prng_below(&random, (uint64_t)problem->cluster_count);
        struct tt_place_value value;
        err = tt_place_evaluate(problem, at, &value);
        if (err || (*out_held > 0 && value.objective >= out_best->objective))
            continue;
        err = tt_place_check(problem, at, &ignored);
        if (!err) {
            *out_best = value;
            ++*out_held;
        } else if (err == TT_ERR_INVALID) {
            err = TT_OK;
        }
    }
    return err;
}

static enum tt_err compare(const struct tt_place_problem *problem,
                           const volatile sig_atomic_t *stop, json_t **out_json,
                           struct tt_error *why) {
    int32_t *at = tt_allocate((size_t)problem->model_count, sizeof(*at));
    struct tt_place_effort effort = {
        .moves = TT_PLACE_MOVES_PER_SECOND, .goes_on = goes_on, .context = (void *)stop};
    struct tt_place_value ours, random = {.objective = 0};
    int64_t held = 0;
    enum tt_err err = tt_place_search(problem, &effort, at, why);
    if (!err && (tt_place_evaluate(problem, at, &ours) || draw(problem, stop, at, &random, &held)))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    free(at);
    if (err)
        return err;
    struct tt_text note;
    tt_text_init(&note);
    tt_text_printf(&note, "objective %.3g; %d random partitions: %.3g", ours.objective, DRAWS,
                   random.objective);
    *out_json =
        json_pack("{s:f,s:f,s:o,s:o,s:b,s:s}", "imbalance_rate", ours.imbalance_rate,
                  "imbalance_memory", ours.imbalance_memory, "random_rate",
                  held > 0 ? json_real(random.imbalance_rate) : json_null(), "random_memory",
                  held > 0 ? json_real(random.imbalance_memory) : json_null(), "interrupted",
                  stop && *stop, "note", tt_text_string(&note));
    tt_text_fini(&note);
    return TT_OK;
}

enum tt_err tt_fact_place(const char *path, const volatile sig_atomic_t *stop, json_t **out_json,
                          struct tt_error *why) {
    struct tt_place_file *file;
    enum tt_err err = tt_place_file_open(path, tt_profile_file_memory, &file, why);
    if (err)
        return err;
    err = compare(&file->problem, stop, out_json, why);
    tt_place_file_close(file);
    return err;
}
