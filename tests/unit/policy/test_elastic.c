/* E1, E2, E4, E5: which worker takes which range, and when. */
#include "base/instant.h"
#include "base/prng.h"
#include "core/slot_ring.h"
#include "policy/elastic/elastic_plan.h"
#include "policy/policy.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EXECUTORS = 6, MAX_TASKS = 4096, SLOTS = 64 };

/* A carrier that the test controls: inputs arrive and tasks end when the test says so. */
struct world {
    struct tt_mechanism mechanism;
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model model;
    int64_t now;
    int32_t task_count, ended[4];
    struct {
        int32_t executor, rows, first_slot;
        int64_t first_number;
    } tasks[MAX_TASKS];
    void (*left)(void *context, const struct tt_request *request);
    void *context;
};

static void on_start(void *context, int64_t now, struct tt_task *task) {
    (void)now;
    struct world *self = context;
    assert_true(self->task_count < MAX_TASKS);
    const struct tt_request *first = task->items[0].request;
    self->tasks[self->task_count].executor = task->executor;
    self->tasks[self->task_count].rows = task->rows;
    self->tasks[self->task_count].first_slot = first->slot;
    self->tasks[self->task_count++].first_number = first->number;
    for (int32_t i = 1; i < task->count; i++) { /* a batch is a range */
        const struct tt_request *before = task->items[i - 1].request;
        assert_int_equal(task->items[i].request->slot,
                         before->slot < 0 ? -1 : before->slot + before->rows);
    }
}

static void on_stop(void *context, int64_t now, int32_t executor) {
    (void)context;
    (void)now;
    fail_msg("elastic stopped executor %d", executor);
}

static void on_ended(void *context, int64_t now, struct tt_request *request, enum tt_ending ending,
                     enum tt_drop_reason reason) {
    (void)now;
    (void)reason;
    struct world *self = context;
    self->ended[ending]++;
    if (self->left)
        self->left(self->context, request);
}

static enum tt_err open_world(struct world *self, const struct tt_option *options, int32_t count,
                              struct tt_error *why) {
    *self = (struct world){0};
    assert_int_equal(tt_profile_new_linear(2750000, 6300000, 128, &self->profile, why), TT_OK);
    self->step = (struct tt_step){.name = "all", .profile = self->profile};
    self->model = (struct tt_step_model){.name = "m",
                                         .step_count = 1,
                                         .steps = &self->step,
                                         .whole = self->profile,
                                         .slo_ns = TT_NEVER,
                                         .max_batch = 128};
    struct tt_mechanism_options mechanism = {.model_capacity = 1,
                                             .executor_capacity = EXECUTORS,
                                             .max_batch = 128,
                                             .depth = 1,
                                             .request_limit = 100000};
    struct tt_carrier carrier = {
        .context = self, .start = on_start, .yield = on_stop, .abort = on_stop, .ended = on_ended};
    assert_int_equal(tt_mechanism_init(&self->mechanism, &mechanism, &carrier, why), TT_OK);
    struct tt_policy_setup setup = {
        .domain = &self->mechanism, .options = options, .option_count = count};
    enum tt_err err = tt_policy_create(&self->mechanism, "elastic", &setup, why);
    if (err)
        return err;
    tt_mechanism_add_model(&self->mechanism, 0, 0, &self->model);
    for (int32_t e = 0; e < EXECUTORS; e++)
        tt_mechanism_add_executor(&self->mechanism, 0, e, 0);
    return TT_OK;
}

static void close_world(struct world *self) {
    tt_policy_destroy(&self->mechanism);
    tt_mechanism_fini(&self->mechanism);
    tt_profile_free(self->profile);
}

static struct tt_request *arrive(struct world *self, int32_t rows) {
    struct tt_arrival arrival = {.rows = rows, .deadline_at = TT_NEVER};
    struct tt_request *request;
    assert_int_equal(tt_mechanism_arrived(&self->mechanism, self->now, &arrival, &request), TT_OK);
    return request;
}

static void ready(struct world *self, int32_t count, int32_t first_slot) {
    for (int32_t i = 0; i < count; i++) {
        struct tt_request *request = arrive(self, 1);
        request->slot = first_slot < 0 ? -1 : first_slot + i;
        tt_mechanism_ready(&self->mechanism, self->now, request);
    }
}

static void decide(struct world *self) {
    tt_mechanism_decide(&self->mechanism, self->now++);
    tt_mechanism_check(&self->mechanism);
}

static void finish(struct world *self, int32_t executor) {
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, executor);
    assert_non_null(task);
    task->last_step_done = 0;
    tt_mechanism_finished(&self->mechanism, self->now, task);
}

static void demand_task(const struct world *self, int32_t index, int32_t executor, int32_t rows,
                        int64_t first_number) {
    assert_true(index < self->task_count);
    assert_int_equal(self->tasks[index].executor, executor);
    assert_int_equal(self->tasks[index].rows, rows);
    assert_int_equal(self->tasks[index].first_number, first_number);
}

/* E4, the paper's figure 10: twelve inputs are ready; the worker of 8 takes the first eight, the
 * worker of 4 the other four. */
static void figure_10(void **state) {
    (void)state;
    struct world world;
    struct tt_error why;
    assert_int_equal(open_world(&world, NULL, 0, &why), TT_OK); /* 1, 1, 2, 4, 8, 16 */
    ready(&world, 12, 0);
    decide(&world);
    assert_int_equal(world.task_count, 2);
    demand_task(&world, 0, 4, 8, 0);
    demand_task(&world, 1, 3, 4, 8);
    ready(&world, 3, 12); /* 4 and 8 are busy, 16 is too large: the 2, then a 1 */
    decide(&world);
    demand_task(&world, 2, 2, 2, 12);
    demand_task(&world, 3, 0, 1, 14);
    finish(&world, 4); /* the worker of 8 is idle again */
    ready(&world, 9, 15);
    decide(&world);
    demand_task(&world, 4, 4, 8, 15);
    demand_task(&world, 5, 1, 1, 23);
    assert_int_equal(world.task_count, 6);
    close_world(&world);
}

static void what_is_not_there_is_not_counted(void **state) {
    (void)state;
    struct world world;
    struct tt_error why;
    assert_int_equal(open_world(&world, NULL, 0, &why), TT_OK);
    struct tt_request *first = arrive(&world, 1), *second = arrive(&world, 1);
    decide(&world);
    assert_int_equal(world.task_count, 0); /* their inputs are in transfer */
    tt_mechanism_cancelled(&world.mechanism, world.now, first);
    tt_mechanism_ready(&world.mechanism, world.now, second);
    decide(&world);
    demand_task(&world, 0, 0, 1, 1);
    assert_int_equal(world.task_count, 1);
    close_world(&world);
}

static void max_inf_bounds_what_runs(void **state) {
    (void)state;
    struct tt_option options[] = {{"max_inf", "16"}};
    struct world world;
    struct tt_error why;
    assert_int_equal(open_world(&world, options, 1, &why), TT_OK);
    ready(&world, 40, -1);
    decide(&world);
    assert_int_equal(world.task_count, 1);
    demand_task(&world, 0, 5, 16, 0);
    finish(&world, 5);
    decide(&world);
    demand_task(&world, 1, 5, 16, 16);
    finish(&world, 5);
    decide(&world);
    demand_task(&world, 2, 4, 8, 32);
    assert_int_equal(world.task_count, 3);
    close_world(&world);
}

/* The ring's end and a hole cut a range; only the rows before the cut count. */
static void a_cut_range_counts_alone(void **state) {
    (void)state;
    struct world world;
    struct tt_error why;
    assert_int_equal(open_world(&world, NULL, 0, &why), TT_OK);
    ready(&world, 3, SLOTS - 3);
    ready(&world, 5, 0);
    decide(&world);
    demand_task(&world, 0, 2, 2, 0); /* three before the end: 2 and 1 */
    demand_task(&world, 1, 0, 1, 2);
    demand_task(&world, 2, 3, 4, 3); /* then five: 4 and 1 */
    demand_task(&world, 3, 1, 1, 7);
    close_world(&world);
}

static void rows_are_not_divided(void **state) {
    (void)state;
    struct world world;
    struct tt_error why;
    assert_int_equal(open_world(&world, NULL, 0, &why), TT_OK);
    int32_t slot = 0;
    const int32_t rows[] = {3, 3, 20, 1};
    for (int i = 0; i < 4; i++) {
        struct tt_request *request = arrive(&world, rows[i]);
        request->slot = slot;
        slot += rows[i];
        tt_mechanism_ready(&world.mechanism, world.now, request);
    }
    decide(&world);
    demand_task(&world, 0, 5, 6, 0); /* 27 rows wait: the 16 takes what fits, 3 + 3 */
    assert_int_equal(world.task_count, 1);
    finish(&world, 5);
    decide(&world);
    demand_task(&world, 1, 5, 20, 2); /* larger than any worker: alone on the largest */
    demand_task(&world, 2, 0, 1, 3);
    assert_int_equal(world.task_count, 3);
    close_world(&world);
}

static struct tt_request *ready_rows(struct world *self, int32_t rows) {
    struct tt_request *request = arrive(self, rows);
    tt_mechanism_ready(&self->mechanism, self->now, request);
    return request;
}

/* A worker must hold a request; the smallest that does takes it even if it is not full then. */
static void requests_of_several_rows_find_a_worker(void **state) {
    (void)state;
    struct tt_option options[] = {{"workers", "8,8,16,16,32,32"}};
    struct world world;
    struct tt_error why;
    assert_int_equal(open_world(&world, options, 1, &why), TT_OK);
    ready_rows(&world, 1);
    decide(&world);
    demand_task(&world, 0, 0, 1, 0); /* there is no worker of 1: the smallest */
    ready_rows(&world, 9);
    decide(&world);
    demand_task(&world, 1, 2, 9, 1); /* 8 does not hold it */
    ready_rows(&world, 40);
    decide(&world);
    demand_task(&world, 2, 4, 40, 2); /* no worker does: the largest */
    ready_rows(&world, 6);
    ready_rows(&world, 6);
    ready_rows(&world, 6);
    decide(&world);
    demand_task(&world, 3, 3, 12, 3); /* 18 rows: two fit into 16, the third runs alone */
    demand_task(&world, 4, 1, 6, 5);
    assert_int_equal(world.task_count, 5);
    ready_rows(&world, 17);
    ready_rows(&world, 48); /* at most 112 rows may run, and 85 do: no room for it */
    decide(&world);
    demand_task(&world, 5, 5, 17, 6);
    assert_int_equal(world.task_count, 6);
    for (int32_t e = 0; e < EXECUTORS; e++)
        if (e != 4 && tt_mechanism_oldest(&world.mechanism, e))
            finish(&world, e);
    decide(&world);
    demand_task(&world, 6, 5, 48, 7);
    close_world(&world);
}

/* The configuration for a load may have no worker that holds the oldest request. */
static void configurations_make_way_for_large_requests(void **state) {
    (void)state;
    struct tt_option options[] = {
        {"workers", "1,1,2,8,8,16"}, {"variant", "enhanced"}, {"configurations", "2,1,1;8"}};
    struct world world;
    struct tt_error why;
    assert_int_equal(open_world(&world, options, 3, &why), TT_OK);
    ready_rows(&world, 5);
    decide(&world);
    demand_task(&world, 0, 3, 5, 0); /* load 5: 2, 1 and 1 count, and none holds it */
    ready_rows(&world, 2);
    decide(&world); /* load 7: the worker of 2 does */
    demand_task(&world, 1, 2, 2, 1);
    ready_rows(&world, 12); /* load 19: the one of 8 */
    decide(&world);
    demand_task(&world, 2, 5, 12, 2);
    assert_int_equal(world.task_count, 3);
    close_world(&world);
}

/* E5: only the configuration's workers take part, and the load selects the configuration. */
static void the_configuration_follows_the_load(void **state) {
    (void)state;
    struct tt_option options[] = {{"workers", "1,2,4,8,8,16"}, {"variant", "enhanced"}};
    struct world world;
    struct tt_error why;
    assert_int_equal(open_world(&world, options, 2, &why), TT_OK);
    ready(&world, 9, -1);
    decide(&world);
    assert_int_equal(world.task_count, 1); /* load 9: the configuration for 8, one worker of 8 */
    demand_task(&world, 0, 3, 8, 0);
    finish(&world, 3);
    decide(&world);
    demand_task(&world, 1, 0, 1, 8); /* load 1: the small ones */
    finish(&world, 0);
    ready(&world, 35, -1);
    decide(&world); /* load 35: the configuration for 32 is 16 + 8 + 8, because there is no worker
                       of 32 */
    demand_task(&world, 2, 5, 16, 9);
    demand_task(&world, 3, 3, 8, 25);
    demand_task(&world, 4, 4, 8, 33);
    assert_int_equal(world.task_count, 5);
    close_world(&world);
}

/* E5: the number of choices of workers of size 1, 2, 4 .. 32 for a total, and their durations
 * together on a full device, which gives each an equal share. */
static void plans(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_linear(1000, 1000, 64, &profile, &why), TT_OK);
    int32_t available[TT_ELASTIC_SIZES] = {64, 64, 64, 64, 64, 64, 0, 0};
    const int32_t totals[] = {1, 2, 4, 8, 16, 32}, ways[] = {1, 2, 4, 10, 36, 202};
    for (int i = 0; i < 6; i++) {
        struct tt_elastic_choice best = tt_elastic_plan(profile, available, totals[i]);
        assert_int_equal(best.total, totals[i]);
        assert_int_equal(best.tried, ways[i]);
        assert_int_equal(best.latency_sum, tt_elastic_corun(profile, best.counts));
        assert_true(best.latency_sum <= best.worker_count * (totals[i] + 1) * INT64_C(1000));
    }
    /* 4 and 2 and 2 on a full device: 5, 3, 3 us alone; the small ones end at 9, the other at 11.
     */
    int32_t counts[TT_ELASTIC_SIZES] = {0, 2, 1};
    assert_int_equal(tt_elastic_corun(profile, counts), 9000 + 9000 + 11000);
    /* Each batch fills half the device: two run undisturbed, four take twice as long. */
    for (int32_t b = 0; b <= 64; b++)
        profile->demand_ppm[b] = TT_DEMAND_WHOLE / 2;
    int32_t two[TT_ELASTIC_SIZES] = {0, 0, 2}, four[TT_ELASTIC_SIZES] = {0, 0, 4};
    assert_int_equal(tt_elastic_corun(profile, two), 2 * 5000);
    assert_int_equal(tt_elastic_corun(profile, four), 4 * 10000);
    struct tt_elastic_choice best = tt_elastic_plan(profile, available, 8);
    assert_int_equal(best.counts[2], 2); /* 2 x 4 in 5 us beats 8 in 9 us */
    available[2] = 1;
    best = tt_elastic_plan(profile, available, 8);
    assert_int_equal(best.counts[2], 1); /* 4 + 2 + 1 + 1 end at 7, 5, 4, 4; 4 + 2 + 2 at 6.5, */
    assert_int_equal(best.counts[1], 1); /* 4.5, 4.5, which is more on average */
    assert_int_equal(best.latency_sum, 20000);
    memset(available, 0, sizeof(available));
    assert_int_equal(tt_elastic_plan(profile, available, 8).total, 0);
    tt_profile_free(profile);
}

static void what_cannot_work_is_refused(void **state) {
    (void)state;
    static const struct {
        struct tt_option option;
        const char *part;
    } bad[] = {
        {{"workers", "1,2,3,4,8,16"}, "3 is not a power of two"},
        {{"workers", "1,2,4"}, "3 sizes for 6 executors"},
        {{"workers", "1,,4"}, "whole numbers"},
        {{"workers", ""}, "whole numbers"},
        {{"max_inf", "8"}, "a worker takes 16"},
    };
    for (size_t i = 0; i < TT_COUNT(bad); i++) {
        struct world world;
        struct tt_error why = {0};
        assert_int_equal(open_world(&world, &bad[i].option, 1, &why), TT_ERR_INVALID);
        if (!strstr(why.text, bad[i].part))
            fail_msg("'%s' does not say '%s'", why.text, bad[i].part);
        close_world(&world);
    }
    /* With workers 1, 1, 2, 4, 8, 16. */
    static const struct {
        const char *configurations, *part;
    } sums[] = {
        {"8;2,2", "sums to 4 has 2 workers of size 2, option workers has 1"},
        {"4,8", "sums to 12; it must be 4, 8, 16, 32"},
        {"4;2,1,1", "two groups sum to 4"},
        {"3,1", "3 is not a power of two"},
        {"2", "sums to 2"},
        {"4;", "groups of whole numbers"},
        {";4", "groups of whole numbers"},
        {"4;;8", "groups of whole numbers"},
        {"64,64", "sums to 128"},
    };
    for (size_t i = 0; i < TT_COUNT(sums); i++) {
        struct tt_option options[] = {{"variant", "enhanced"},
                                      {"configurations", sums[i].configurations}};
        struct world world;
        struct tt_error why = {0};
        assert_int_equal(open_world(&world, options, 2, &why), TT_ERR_INVALID);
        if (!strstr(why.text, sums[i].part))
            fail_msg("'%s' does not say '%s'", why.text, sums[i].part);
        close_world(&world);
    }
    struct tt_option alone = {"configurations", "4"};
    struct world world;
    struct tt_error why = {0};
    assert_int_equal(open_world(&world, &alone, 1, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "only variant enhanced"));
    close_world(&world);
}

/* E5: the configuration given for the load, or that of the next smaller load. */
static void told_configurations_are_followed(void **state) {
    (void)state;
    struct tt_option options[] = {{"variant", "enhanced"}, {"configurations", "2,1,1;8,4,2,1,1"}};
    struct world world;
    struct tt_error why = {0};
    assert_int_equal(open_world(&world, options, 2, &why), TT_OK);
    ready(&world, 8, -1);
    decide(&world); /* a load of 8 has none, so that of 4 applies: 2, 1, 1 */
    assert_int_equal(world.task_count, 3);
    demand_task(&world, 0, 2, 2, 0);
    demand_task(&world, 1, 0, 1, 2);
    demand_task(&world, 2, 1, 1, 3);
    close_world(&world);
}

/* ---- random worlds against the algorithms as written ---- */

struct random_world {
    struct world world;
    struct tt_prng prng;
    struct tt_slot_ring ring;
    uint64_t seed;
    int32_t sizes[EXECUTORS], max_inf;
    bool enhanced, waiting_only;
    struct tt_request *waiting[SLOTS]; /* input arrived, in order */
    int32_t waiting_count;
    struct tt_request *coming[SLOTS]; /* with a slot, input in transfer, in order */
    int32_t coming_count;
};

static void give_back(void *context, const struct tt_request *request) {
    struct random_world *self = context;
    if (request->slot >= 0)
        tt_slot_ring_release(&self->ring, request->slot, request->rows);
}

static bool in_configuration(const struct random_world *self, int32_t worker, int64_t load) {
    if (!self->enhanced)
        return true;
    int32_t available[TT_ELASTIC_SIZES] = {0}, rank = 0, k = 0;
    for (int32_t w = 0; w < EXECUTORS; w++) {
        available[__builtin_ctz((unsigned)self->sizes[w])]++;
        rank += w < worker && self->sizes[w] == self->sizes[worker];
    }
    while ((2 << k) <= load && (2 << k) <= TT_ELASTIC_MAX_TOTAL)
        k++;
    for (; k >= 2; k--) {
        struct tt_elastic_choice plan = tt_elastic_plan(self->world.profile, available, 1 << k);
        if (plan.total > 0)
            return rank < plan.counts[__builtin_ctz((unsigned)self->sizes[worker])];
    }
    return self->sizes[worker] <= 2 && rank == 0;
}

/* The next start by algorithm 1 (2), of one row each. Returns the worker; -1: none. */
static int32_t naive_next(const struct random_world *self, int32_t smaller_than, const bool *busy,
                          int32_t range, int32_t running, int64_t load) {
    int32_t best = -1;
    int32_t room = self->max_inf - running, r = range < room ? range : room;
    for (int32_t w = 0; w < EXECUTORS; w++) {
        int32_t size = self->sizes[w];
        int32_t order = size * EXECUTORS + (EXECUTORS - 1 - w);
        if (busy[w] || size > r || order >= smaller_than || !in_configuration(self, w, load))
            continue;
        if (best < 0 || size > self->sizes[best])
            best = w;
    }
    return best;
}

static int32_t range_of(const struct random_world *self, int32_t from, bool *cut) {
    int32_t rows = 1;
    *cut = false;
    while (from + rows < self->waiting_count) {
        if (self->waiting[from + rows]->slot != self->waiting[from + rows - 1]->slot + 1) {
            *cut = true;
            break;
        }
        rows++;
    }
    return rows;
}

/* Predicts every start of this instant, then lets the policy decide. */
static void decide_and_compare(struct random_world *self) {
    struct world *world = &self->world;
    bool busy[EXECUTORS];
    int32_t running = 0, first = world->task_count, expected = first, from = 0;
    for (int32_t e = 0; e < EXECUTORS; e++) {
        const struct tt_task *task = tt_mechanism_oldest(&world->mechanism, e);
        busy[e] = task != NULL;
        running += task ? task->rows : 0;
    }
    struct {
        int32_t worker;
        int64_t number;
    } starts[EXECUTORS];
    for (int32_t before = -1; before != from && from < self->waiting_count;) { /* rounds */
        bool cut;
        int32_t range = range_of(self, from, &cut);
        int64_t load =
            cut ? range : self->waiting_count - from + (self->waiting_only ? 0 : running);
        int32_t smaller_than = INT32_MAX, worker, left = range;
        before = from;
        while (left > 0 &&
               (worker = naive_next(self, smaller_than, busy, left, running, load)) >= 0) {
            starts[expected - first].worker = worker;
            starts[expected - first].number = self->waiting[from]->number;
            expected++;
            busy[worker] = true;
            smaller_than = self->sizes[worker] * EXECUTORS + (EXECUTORS - 1 - worker);
            running += self->sizes[worker];
            from += self->sizes[worker];
            left -= self->sizes[worker];
        }
    }
    decide(world);
    if (world->task_count != expected)
        fail_msg("seed %d, at %d: %d starts, %d expected", (int)self->seed, (int)world->now,
                 world->task_count - first, expected - first);
    for (int32_t t = first; t < expected; t++)
        if (world->tasks[t].executor != starts[t - first].worker ||
            world->tasks[t].first_number != starts[t - first].number ||
            world->tasks[t].rows != self->sizes[starts[t - first].worker])
            fail_msg("seed %d, at %d: worker %d takes %d rows from %d, expected worker %d from %d",
                     (int)self->seed, (int)world->now, world->tasks[t].executor,
                     world->tasks[t].rows, (int)world->tasks[t].first_number,
                     starts[t - first].worker, (int)starts[t - first].number);
    self->waiting_count -= from;
    memmove(self->waiting, self->waiting + from,
            (size_t)self->waiting_count * sizeof(self->waiting[0]));
    world->task_count = 0;
}

static void take_out(struct tt_request **list, int32_t *count, int32_t index) {
    memmove(list + index, list + index + 1, (size_t)(*count - index - 1) * sizeof(*list));
    (*count)--;
}

static int32_t step(struct random_world *self) {
    struct world *world = &self->world;
    struct tt_prng *prng = &self->prng;
    int32_t events = 0;
    for (int32_t e = 0; e < EXECUTORS; e++)
        if (tt_mechanism_oldest(&world->mechanism, e) && tt_prng_below(prng, 4) == 0) {
            finish(world, e);
            events++;
        }
    for (uint64_t n = tt_prng_below(prng, 6); n > 0; n--) {
        int32_t slot = tt_slot_ring_take(&self->ring, 1);
        if (slot < 0)
            break; /* the pool is full: back-pressure */
        struct tt_request *request = arrive(world, 1);
        request->slot = slot;
        self->coming[self->coming_count++] = request;
        events++;
    }
    if (tt_prng_below(prng, 8) == 0 && self->waiting_count > 0) {
        int32_t which = (int32_t)tt_prng_below(prng, (uint64_t)self->waiting_count);
        tt_mechanism_cancelled(&world->mechanism, world->now, self->waiting[which]);
        take_out(self->waiting, &self->waiting_count, which);
        events++;
    }
    if (tt_prng_below(prng, 16) == 0 && self->coming_count > 0) { /* its input is in transfer */
        int32_t which = (int32_t)tt_prng_below(prng, (uint64_t)self->coming_count);
        tt_mechanism_cancelled(&world->mechanism, world->now, self->coming[which]);
        take_out(self->coming, &self->coming_count, which);
        events++;
    }
    for (uint64_t n = tt_prng_below(prng, 6); n > 0 && self->coming_count > 0; n--) {
        self->waiting[self->waiting_count++] = self->coming[0];
        tt_mechanism_ready(&world->mechanism, world->now, self->coming[0]);
        take_out(self->coming, &self->coming_count, 0);
        events++;
    }
    decide_and_compare(self);
    return events;
}

static void random_world(uint64_t seed, int64_t *events) {
    static const char *const engines[] = {"1,1,2,4,8,16", "1,2,4,4,8,8", "1,1,1,1,1,1",
                                          "16,8,8,4,2,1"};
    struct random_world self = {.seed = seed};
    tt_prng_init(&self.prng, seed, 0);
    const char *engine = engines[tt_prng_below(&self.prng, TT_COUNT(engines))];
    self.enhanced = tt_prng_below(&self.prng, 2) != 0;
    self.waiting_only = tt_prng_below(&self.prng, 2) != 0;
    struct tt_option options[] = {{"workers", engine},
                                  {"variant", self.enhanced ? "enhanced" : "naive"},
                                  {"load", self.waiting_only ? "waiting" : "pending"},
                                  {"max_inf", "20"}};
    bool bounded = tt_prng_below(&self.prng, 2) != 0;
    struct tt_error why;
    assert_int_equal(open_world(&self.world, options, bounded ? 4 : 3, &why), TT_OK);
    int32_t sum = 0, count = tt_options_sizes("workers", options, 1, self.sizes, EXECUTORS);
    assert_int_equal(count, EXECUTORS);
    for (int32_t w = 0; w < EXECUTORS; w++)
        sum += self.sizes[w];
    self.max_inf = bounded ? 20 : sum;
    assert_int_equal(tt_slot_ring_init(&self.ring, SLOTS), TT_OK);
    self.world.left = give_back;
    self.world.context = &self;
    for (int i = 0; i < 1500; i++)
        *events += step(&self);
    while (self.world.mechanism.requests.in_use > 0) { /* everything ends, and no slot leaks */
        for (int32_t e = 0; e < EXECUTORS; e++)
            if (tt_mechanism_oldest(&self.world.mechanism, e))
                finish(&self.world, e);
        for (; self.coming_count > 0; self.coming_count--, self.waiting_count++) {
            self.waiting[self.waiting_count] = self.coming[0];
            tt_mechanism_ready(&self.world.mechanism, self.world.now, self.coming[0]);
            memmove(self.coming, self.coming + 1, sizeof(self.coming) - sizeof(self.coming[0]));
        }
        decide_and_compare(&self);
    }
    assert_int_equal(self.ring.used, 0);
    tt_slot_ring_fini(&self.ring);
    close_world(&self.world);
}

static void random_worlds_agree_with_the_algorithms(void **state) {
    (void)state;
    int64_t events = 0;
    for (uint64_t seed = test_seed(1), end = seed + 60; seed < end; seed++)
        random_world(seed, &events);
    print_message("%lld events\n", (long long)events);
    assert_true(events > 100000);
}

/* ---- requests of several rows ---- */

/* True if the worker may take the front of a range of `rows` rows that begins with a request of
 * `first`. */
static bool may_take(const struct random_world *self, int32_t worker, int32_t rows, int32_t first) {
    int32_t largest = 0, nearest = INT32_MAX, size = self->sizes[worker];
    for (int32_t w = 0; w < EXECUTORS; w++)
        if (self->sizes[w] > largest)
            largest = self->sizes[w];
    for (int32_t w = 0; w < EXECUTORS; w++)
        if (self->sizes[w] >= first && self->sizes[w] < nearest)
            nearest = self->sizes[w];
    if (first > largest)
        return size == largest;
    return size >= first && (size <= rows || size == nearest);
}

/* Naive: no idle worker may take the rest, and no worker has taken more than it may. */
static void decide_and_look(struct random_world *self) {
    struct world *world = &self->world;
    world->task_count = 0;
    decide(world);
    int32_t running = 0, tasks = 0;
    bool larger = false; /* than max_inf, which it may be if it runs alone */
    for (int32_t e = 0; e < EXECUTORS; e++) {
        const struct tt_task *task = tt_mechanism_oldest(&world->mechanism, e);
        if (!task)
            continue;
        assert_true(task->count == 1 || task->rows <= self->sizes[e]);
        running += task->rows;
        larger |= task->rows > self->max_inf;
        tasks++;
    }
    assert_true(running <= self->max_inf || (larger && tasks == 1));
    int32_t waiting = 0;
    for (int32_t i = 0; i < self->waiting_count; i++)
        if (self->waiting[i]->state == TT_REQUEST_QUEUED)
            self->waiting[waiting++] = self->waiting[i];
    self->waiting_count = waiting;
    if (waiting == 0)
        return;
    assert_true(tasks > 0); /* at least one task runs */
    int32_t rows = self->waiting[0]->rows, first = rows;
    for (int32_t i = 1; i < waiting; i++) {
        const struct tt_request *before = self->waiting[i - 1];
        if (self->waiting[i]->slot != before->slot + before->rows)
            break;
        rows += self->waiting[i]->rows;
    }
    if (rows > self->max_inf - running)
        rows = self->max_inf - running;
    for (int32_t e = 0; e < EXECUTORS && rows >= first; e++)
        if (tt_mechanism_has_room(&world->mechanism, e) && may_take(self, e, rows, first))
            fail_msg("seed %d, at %d: worker %d idles before %d rows, %d of them the first's",
                     (int)self->seed, (int)world->now, e, rows, first);
}

/* Removes workers, except that of executor 0, and adds them again. */
static void change_workers(struct random_world *self) {
    struct tt_mechanism *mechanism = &self->world.mechanism;
    int32_t e = 1 + (int32_t)tt_prng_below(&self->prng, EXECUTORS - 1);
    switch (mechanism->executors[e].state) {
    case TT_EXECUTOR_UP: tt_mechanism_drain_executor(mechanism, self->world.now, e); break;
    case TT_EXECUTOR_DRAINING:
        if (mechanism->executors[e].queued == 0)
            tt_mechanism_remove_executor(mechanism, self->world.now, e);
        break;
    case TT_EXECUTOR_GONE: tt_mechanism_add_executor(mechanism, self->world.now, e, 0); break;
    }
}

/* The batch of executor e has ended, or failed; all its requests leave. */
static void end_batch(struct random_world *self, int32_t e) {
    struct tt_task *task = tt_mechanism_oldest(&self->world.mechanism, e);
    bool failed = tt_prng_below(&self->prng, 8) == 0;
    task->outcome = failed ? TT_OUTCOME_FAILED : TT_OUTCOME_DONE;
    task->last_step_done = failed ? -1 : 0;
    tt_mechanism_finished(&self->world.mechanism, self->world.now, task);
}

static void random_rows(uint64_t seed) {
    static const char *const engines[] = {"1,1,2,4,8,16", "4,4,8,8,16,16", "8,8,8,8,8,8",
                                          "2,32,1,1,1,1"};
    struct random_world self = {.seed = seed};
    tt_prng_init(&self.prng, seed, 1);
    struct tt_option options[] = {
        {"workers", engines[tt_prng_below(&self.prng, TT_COUNT(engines))]}, {"max_inf", "32"}};
    struct tt_error why;
    assert_int_equal(open_world(&self.world, options, 2, &why), TT_OK);
    assert_int_equal(tt_options_sizes("workers", options, 1, self.sizes, EXECUTORS), EXECUTORS);
    self.max_inf = 32;
    assert_int_equal(tt_slot_ring_init(&self.ring, SLOTS), TT_OK);
    self.world.left = give_back;
    self.world.context = &self;
    int32_t most = tt_prng_below(&self.prng, 2) != 0 ? 40 : 9;
    for (int i = 0; i < 2000 || self.world.mechanism.requests.in_use > 0; i++) {
        for (int32_t e = 0; e < EXECUTORS; e++)
            if (tt_mechanism_oldest(&self.world.mechanism, e) && tt_prng_below(&self.prng, 3) == 0)
                end_batch(&self, e);
        if (tt_prng_below(&self.prng, 20) == 0)
            change_workers(&self);
        if (tt_prng_below(&self.prng, 10) == 0 && self.waiting_count > 0) {
            int32_t which = (int32_t)tt_prng_below(&self.prng, (uint64_t)self.waiting_count);
            tt_mechanism_cancelled(&self.world.mechanism, self.world.now, self.waiting[which]);
            take_out(self.waiting, &self.waiting_count, which);
        }
        int32_t rows = 1 + (int32_t)tt_prng_below(&self.prng, (uint64_t)most), slot;
        if (i < 2000 && (slot = tt_slot_ring_take(&self.ring, rows)) >= 0) {
            struct tt_request *request = arrive(&self.world, rows);
            request->slot = slot;
            self.waiting[self.waiting_count++] = request;
            tt_mechanism_ready(&self.world.mechanism, self.world.now, request);
        }
        decide_and_look(&self);
        assert_true(i < 4000);
    }
    assert_int_equal(self.ring.used, 0);
    tt_slot_ring_fini(&self.ring);
    close_world(&self.world);
}

static void no_worker_idles_that_may_take_rows(void **state) {
    (void)state;
    for (uint64_t seed = test_seed(1), end = seed + 40; seed < end; seed++)
        random_rows(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figure_10),
        cmocka_unit_test(what_is_not_there_is_not_counted),
        cmocka_unit_test(max_inf_bounds_what_runs),
        cmocka_unit_test(a_cut_range_counts_alone),
        cmocka_unit_test(rows_are_not_divided),
        cmocka_unit_test(requests_of_several_rows_find_a_worker),
        cmocka_unit_test(configurations_make_way_for_large_requests),
        cmocka_unit_test(the_configuration_follows_the_load),
        cmocka_unit_test(plans),
        cmocka_unit_test(what_cannot_work_is_refused),
        cmocka_unit_test(told_configurations_are_followed),
        cmocka_unit_test(random_worlds_agree_with_the_algorithms),
        cmocka_unit_test(no_worker_idles_that_may_take_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
