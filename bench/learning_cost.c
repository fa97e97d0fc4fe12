/* What online profiles cost per batch: core/belief.h alone, over batches that are as their profile
 * says within some percent. bench/learning_cost.py builds and runs it. */
#include "base/instant.h"
#include "base/prng.h"
#include "core/belief.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MODELS = 8, MAX_BATCH = 64, BATCHES = 100000, ROUNDS = 31 };

struct batch {
    int32_t model, rows;
    int64_t took_ns;
};

static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * TT_S + now.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ns per batch of one pass, with or without learning. */
static double pass(struct tt_belief *const *beliefs, const struct batch *batches, bool learns) {
    struct tt_request request = {.handle.index = 0};
    struct tt_task_item item = {.request = &request};
    int64_t sum = 0, began_at = cpu_ns();
    for (int32_t i = 0; i < BATCHES; i++) {
        struct tt_task task = {.repeat = 1, .count = 1, .items = &item, .outcome = TT_OUTCOME_DONE};
        task.model = batches[i].model;
        task.rows = batches[i].rows;
        task.started_at = i;
        task.ended_at = i + batches[i].took_ns;
        __asm__ volatile("" : : "r"(&task) : "memory"); /* the task is made in both cases */
        if (learns)
            sum += tt_belief_finished(beliefs[task.model], &task);
    }
    int64_t took_ns = cpu_ns() - began_at;
    __asm__ volatile("" : : "r"(sum));
    return (double)took_ns / BATCHES;
}

int main(int argc, char **argv) {
    uint64_t spread = argc > 1 ? strtoull(argv[1], NULL, 10) : 2; /* percent to either side */
    struct tt_profile *profile;
    struct tt_belief *beliefs[MODELS];
    struct batch *batches = calloc(BATCHES, sizeof(*batches));
    if (!batches || tt_profile_new_linear(TT_MS, 5 * TT_MS, MAX_BATCH, &profile, NULL))
        return 1;
    struct tt_step step = {.name = "m", .profile = profile};
    struct tt_step_model prior = {.name = "m",
                                  .step_count = 1,
                                  .steps = &step,
                                  .whole = profile,
                                  .slo_ns = 60 * TT_MS,
                                  .max_batch = MAX_BATCH};
    for (int32_t m = 0; m < MODELS; m++)
        if (tt_belief_new(&prior, TT_BELIEF_PERCENT, &beliefs[m]))
            return 1;
    struct tt_prng prng;
    tt_prng_init(&prng, 1, 0);
    for (int32_t i = 0; i < BATCHES; i++) {
        struct batch *b = &batches[i];
        b->model = (int32_t)tt_prng_below(&prng, MODELS);
        b->rows = 1 + (int32_t)tt_prng_below(&prng, MAX_BATCH);
        int64_t percent = 100 + (int64_t)tt_prng_below(&prng, 2 * spread + 1) - (int64_t)spread;
        b->took_ns = tt_profile_latency(profile, b->rows, 0) * percent / 100;
    }
    double found[ROUNDS];
    for (int32_t r = 0; r < ROUNDS; r++) {
        double without = pass(beliefs, batches, false);
        found[r] = pass(beliefs, batches, true) - without;
    }
    int64_t moves = 0;
    for (int32_t m = 0; m < MODELS; m++)
        moves += beliefs[m]->moves;
    qsort(found, ROUNDS, sizeof(*found), compare);
    printf("%d batches of %d models within %d %%: best %.1f, median %.1f ns per batch; tables "
           "written %.4f times per batch\n",
           BATCHES, MODELS, (int)spread, found[0], found[ROUNDS / 2],
           (double)moves / BATCHES / ROUNDS);
    return 0;
}
