/* The deferred family on the published worked example, and its rules one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "policy/deferred/deferred_model.h"
#include "policy/deferred/deferred_rank.h"
#include "unit/policy/drive.h"
#include "unit/seed.h"

/* ---- S: the example of section 3.3: 3 devices, l(b) = b + 5, SLO 12, R_i at 0.75 (i - 1); 1 unit
 * = 1 ms ---- */

static const struct drive_model example = {1 * TT_MS, 5 * TT_MS, 12 * TT_MS, 64, 1};
enum { STEP_NS = 750000 };

/* R_i of the example, i from 1; `label` maps arrivals to i. */
static void example_arrivals(struct drive *drive, int32_t from, int32_t to, bool gap,
                             int32_t *label) {
    for (int32_t i = from; i <= to; i++) {
        if (gap && i >= 13 && i <= 15)
            continue;
        label[drive->arrival_count] = i;
        drive_arrival(drive, (int64_t)STEP_NS * (i - 1), 0);
    }
}

/* The batches that ran, as "start:R4-R8 " in order of dispatch; starts in units of 0.01 ms. */
static void batches(const struct drive *drive, int32_t skip, int32_t count, const int32_t *label,
                    char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (int32_t i = skip; i < skip + count; i++) {
        const struct drive_task *task = &drive->tasks[i];
        const int32_t *member = &drive->members[task->first];
        used += (size_t)snprintf(out + used, size - used, "%s%lld:R%d-%d", i > skip ? " " : "",
                                 (long long)(task->start_at / 10000), label[member[0]],
                                 label[member[task->count - 1]]);
    }
}

/* S1, S3: batches are the longest prefix; the smallest free device takes them. */
static void test_example_staggers(void **state) {
    (void)state;
    int32_t label[200];
    struct drive_setup setup = {
        .models = &example, .model_count = 1, .executors = 3, .policy = "symphony", .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    example_arrivals(&drive, 1, 120, false, label);
    drive_run(&drive, TT_S);
    assert_int_equal(drive.task_count, 30);
    for (int32_t i = 0; i < drive.task_count;
         i++) { /* S2: R1-R4 at 2.25, then four every 3 units */
        const struct drive_task *task = &drive.tasks[i];
        assert_int_equal(task->start_at, 2250000 + (int64_t)i * 3000000);
        assert_int_equal(task->count, 4);
        assert_int_equal(label[drive.members[task->first]], 4 * i + 1);
        assert_int_equal(task->executor, i % 3);
    }
    assert_int_equal(drive_bad(&drive), 0);
    drive_close(&drive);
}

static void test_example_regains_its_stagger(void **state) {
    (void)state;
    int32_t label[200];
    char text[512];
    struct drive_setup setup = {
        .models = &example, .model_count = 1, .executors = 3, .policy = "symphony", .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    example_arrivals(&drive, 1, 120, true, label);
    drive_run(&drive, TT_S);
    assert_int_equal(drive_bad(&drive), 0); /* "regains the staggered execution pattern" */
    batches(&drive, 0, 7, label, text, sizeof(text));
    assert_string_equal(text, "225:R1-4 525:R5-8 825:R9-12 1350:R16-19 1650:R20-23 1950:R24-27 "
                              "2250:R28-31");
    for (int32_t i = 3; i < drive.task_count - 1; i++) {
        assert_int_equal(drive.tasks[i].count, 4);
        assert_int_equal(drive.tasks[i].start_at - drive.tasks[3].start_at,
                         (int64_t)(i - 3) * 3000000);
    }
    drive_close(&drive);
}

/* Eager from R16 on. The devices are busy until 11.25, 14.25 and 17.25, as after the deferred
 * start: three more models have requests that take exactly that long. */
static void test_example_eager_deteriorates(void **state) {
    (void)state;
    int32_t label[200];
    char text[512];
    struct drive_model models[4] = {example};
    for (int32_t i = 0; i < 3; i++) {
        int64_t busy = 11250000 + i * (int64_t)3000000;
        models[i + 1] = (struct drive_model){busy, 0, busy + 1, 1, 1};
    }
    struct drive_setup setup = {
        .models = models, .model_count = 4, .executors = 3, .policy = "eager", .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    for (int32_t i = 1; i <= 3; i++)
        drive_arrival(&drive, 0, i);
    example_arrivals(&drive, 16, 60, false, label);
    drive_run(&drive, TT_S);
    batches(&drive, 3, 5, label, text, sizeof(text));
    assert_string_equal(text, "1125:R16-16 1425:R17-20 1725:R21-24 1800:R25-25 2325:R26-27");
    int32_t dropped[3], count = 0;
    for (int32_t i = 0; i < drive.arrival_count && count < 3; i++)
        if (drive.outcomes[i].ending == TT_ENDING_DROPPED)
            dropped[count++] = label[i];
    assert_int_equal(count, 3);
    assert_int_equal(dropped[0], 35);
    assert_int_equal(dropped[1], 37);
    assert_int_equal(dropped[2], 38);
    drive_close(&drive);
}

/* ---- S5: timeout, and a batch that cannot grow ---- */

static void test_timeout_waits_for_its_delay(void **state) {
    (void)state;
    struct tt_option option = {"delay", "3ms"};
    struct drive_setup setup = {.models = &example,
                                .model_count = 1,
                                .executors = 1,
                                .policy = "timeout",
                                .options = &option,
                                .option_count = 1,
                                .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    drive_arrival(&drive, 1 * TT_MS, 0);
    drive_arrival(&drive, 2 * TT_MS, 0);
    drive_run(&drive, TT_S);
    assert_int_equal(drive.task_count, 1);
    assert_int_equal(drive.tasks[0].start_at, 4 * TT_MS);
    assert_int_equal(drive.tasks[0].count, 2);
    drive_close(&drive);
}

/* S5: a quarter of each model's own SLO of 12 and 40 ms. */
static void test_timeout_as_a_share_of_the_slo(void **state) {
    (void)state;
    struct tt_option option = {"share", "25%"};
    struct drive_model models[2] = {example, example};
    models[1].slo_ns = 40 * TT_MS;
    struct drive_setup setup = {.models = models,
                                .model_count = 2,
                                .executors = 2,
                                .policy = "timeout",
                                .options = &option,
                                .option_count = 1,
                                .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    drive_arrival(&drive, 1 * TT_MS, 0);
    drive_arrival(&drive, 1 * TT_MS, 1);
    drive_run(&drive, TT_S);
    assert_int_equal(drive.task_count, 2);
    assert_int_equal(drive.tasks[0].start_at, 4 * TT_MS);
    assert_int_equal(drive.tasks[1].start_at, 11 * TT_MS);
    drive_close(&drive);
}

static void test_full_batch_does_not_wait(void **state) {
    (void)state;
    struct drive_model small = example;
    small.max_batch = 2;
    struct drive_setup setup = {
        .models = &small, .model_count = 1, .executors = 1, .policy = "symphony", .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    drive_arrival(&drive, 0, 0);
    drive_arrival(&drive, 100, 0);
    drive_run(&drive, TT_S);
    assert_int_equal(drive.tasks[0].start_at, 100);
    drive_close(&drive);
}

/* ---- S4: network delays; the batch starts at the instant at which the device becomes free ---- */

static void test_message_is_sent_ahead(void **state) {
    (void)state;
    struct drive_setup setup = {.models = &example,
                                .model_count = 1,
                                .executors = 1,
                                .policy = "eager",
                                .d_ctrl_ns = 200 * TT_US,
                                .d_data_ns = 50 * TT_US,
                                .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    drive_arrival(&drive, 0, 0);
    drive_arrival(&drive, 1 * TT_MS, 0);
    drive_run(&drive, TT_S);
    assert_int_equal(drive.tasks[0].start_at, 250 * TT_US);
    assert_int_equal(drive.tasks[1].start_at, drive.tasks[0].end_at); /* no hole between them */
    assert_int_equal(drive.tasks[1].dispatched_at, drive.tasks[0].end_at - 250 * TT_US);
    assert_int_equal(drive_bad(&drive), 0);
    drive_close(&drive);
}

/* ---- if decisions may be late, a waiting batch starts before the last instant ---- */

static void test_room_is_left_for_late_decisions(void **state) {
    (void)state;
    struct drive_setup setup = {
        .models = &example, .model_count = 1, .executors = 1, .policy = "symphony", .check = true};
    int64_t started_at[2];
    for (int32_t late = 0; late < 2; late++) {
        setup.lateness_ns = late * 700 * TT_US;
        struct drive drive;
        drive_open(&drive, &setup);
        drive_arrival(&drive, 0, 0);
        drive_run(&drive, TT_S);
        started_at[late] = drive.tasks[0].start_at;
        assert_int_equal(drive_bad(&drive), 0);
        drive_close(&drive);
    }
    assert_int_equal(started_at[0] - started_at[1], 700 * TT_US);
}

/* ---- executors and models are removed and added ---- */

static void test_draining_executor_gets_nothing(void **state) {
    (void)state;
    struct drive_setup setup = {
        .models = &example, .model_count = 1, .executors = 2, .policy = "deferred", .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    tt_mechanism_drain_executor(&drive.mechanism, 0, 0);
    for (int32_t i = 0; i < 40; i++)
        drive_arrival(&drive, i * TT_MS, 0);
    drive_run(&drive, 20 * TT_MS);
    assert_true(drive.task_count > 0);
    for (int32_t i = 0; i < drive.task_count; i++)
        assert_int_equal(drive.tasks[i].executor, 1);
    tt_mechanism_remove_executor(&drive.mechanism, drive.now, 0);
    tt_mechanism_add_executor(&drive.mechanism, drive.now, 0, 0);
    int32_t before = drive.task_count;
    drive_run(&drive, TT_S);
    bool used = false;
    for (int32_t i = before; i < drive.task_count; i++)
        used |= drive.tasks[i].executor == 0;
    assert_true(used);
    tt_mechanism_drain_model(&drive.mechanism, drive.now, 0);
    tt_mechanism_remove_model(&drive.mechanism, drive.now, 0);
    tt_mechanism_add_model(&drive.mechanism, drive.now, 0, &drive.models[0]);
    drive_arrival(&drive, 2 * TT_S, 0);
    drive_run(&drive, 3 * TT_S);
    assert_int_equal(drive.outcomes[40].ending, TT_ENDING_DONE);
    assert_int_equal(drive.outcomes[40].ended_at != TT_NEVER, true);
    drive_close(&drive);
}

/* Devices that take longer than planned are given no more than they can hold, and all requests
 * still leave. */
static int64_t jittery(void *context, const struct tt_task *task, int64_t planned_ns) {
    (void)task;
    return planned_ns / 2 + (int64_t)tt_prng_below(context, (uint64_t)planned_ns);
}

static void test_inexact_devices(void **state) {
    (void)state;
    static const char *const policies[] = {"adaptive", "deferred", "symphony", "eager", "timeout"};
    for (int32_t i = 0; i < 10; i++) {
        struct tt_prng prng;
        tt_prng_init(&prng, 7, (uint64_t)i);
        struct drive_model models[3] = {example, example, example};
        struct drive_setup setup = {.models = models,
                                    .model_count = 3,
                                    .executors = 2,
                                    .policy = policies[i % 5],
                                    .d_ctrl_ns = i < 5 ? 0 : 100 * TT_US,
                                    .check = true,
                                    .duration = jittery,
                                    .context = &prng};
        struct drive drive;
        drive_open(&drive, &setup);
        int64_t at = 0;
        for (int32_t r = 0; r < 1500; r++) {
            at += (int64_t)tt_prng_below(&prng, 1500000);
            drive_arrival(&drive, at, (int32_t)tt_prng_below(&prng, 3));
        }
        drive_run(&drive, TT_NEVER - 1);
        assert_int_equal(drive.mechanism.requests.in_use, 0);
        assert_true(drive_bad(&drive) < drive.arrival_count);
        drive_close(&drive);
    }
}

/* ---- rates, psi and minimum sizes ---- */

/* The queue of the model after 3 s of arrivals at this rate. Its lists and pointers are gone. */
static void steady_queue_of(const struct drive_model *model, int32_t executors, int32_t rate,
                            struct tt_deferred_options options, struct tt_deferred_queue *out) {
    struct drive_setup setup = {
        .models = model, .model_count = 1, .executors = executors, .policy = "deferred"};
    struct drive drive;
    drive_open(&drive, &setup);
    options.floor = TT_FLOOR_SUSTAINABLE;
    options.psi_cap_ppm = 800000;
    struct tt_deferred_model half;
    struct tt_deferred_rank rank;
    assert_int_equal(tt_deferred_model_init(&half, 1, &options), TT_OK);
    assert_int_equal(tt_deferred_rank_init(&rank, 1, executors, false), TT_OK);
    tt_deferred_model_add(&half, 0, &drive.models[0]);
    for (int32_t e = 0; e < executors; e++)
        tt_deferred_rank_add(&rank, 0, e, 1);
    for (int32_t tick = 0; tick < 30; tick++) {
        struct tt_deferred_load load;
        struct tt_deferred_fleet fleet;
        half.queues[0].arrived_rows += rate / 10;
        tt_deferred_model_measure(&half, 0, 100 * TT_MS, &load);
        tt_deferred_rank_load(&rank, &load);
        tt_deferred_rank_fleet(&rank, &fleet);
        tt_deferred_model_fleet(&half, &fleet);
    }
    *out = half.queues[0];
    tt_deferred_model_fini(&half);
    tt_deferred_rank_fini(&rank);
    drive_close(&drive);
}
static int32_t steady_floor(const struct drive_model *model, int32_t executors, int32_t rate,
                            bool overload) {
    struct tt_deferred_queue queue;
    struct tt_deferred_options options = {.overload = overload};
    steady_queue_of(model, executors, rate, options, &queue);
    return queue.min_size;
}
static void steady_queue(const struct drive_model *model, int32_t executors, int32_t rate,
                         bool by_load, struct tt_deferred_queue *out) {
    steady_queue_of(model, executors, rate, (struct tt_deferred_options){.by_load = by_load}, out);
}

/* For one model the smallest sustainable batch is about beta rate / (G - alpha rate). */
static void test_sustainable_floor(void **state) {
    (void)state;
    struct drive_model resnet = {1053000, 5072000, 25 * TT_MS, 512, 1};
    struct drive_model inception = {5090000, 18368000, 70 * TT_MS, 512, 1};
    assert_int_equal(steady_floor(&resnet, 8, 5500, true), 13);
    assert_int_equal(steady_floor(&inception, 8, 970, true), 6);
    assert_int_equal(steady_floor(&resnet, 8, 500, true), 1);
    /* Far above the capacity of 8 devices: 0.8 gather, or the staggered batch, (1 + 1/8) l(16) <=
     * 25 ms. */
    assert_int_equal(steady_floor(&resnet, 8, 7500, false), 13);
    assert_int_equal(steady_floor(&resnet, 8, 7500, true), 16);
    assert_int_equal(steady_floor(&resnet, 8, 15000, true), 16);
}

/* A look at the time before an overload would compare its rate with rows of before. */
static void test_quiet_before_a_burst_is_no_lull(void **state) {
    (void)state;
    struct drive_model resnet = {1053000, 5072000, 25 * TT_MS, 512, 1};
    struct drive_setup setup = {
        .models = &resnet, .model_count = 1, .executors = 8, .policy = "deferred"};
    struct drive drive;
    drive_open(&drive, &setup);
    struct tt_deferred_options options = {.floor = TT_FLOOR_SUSTAINABLE, .overload = true};
    struct tt_deferred_fleet overload = {
        .executors = 8, .psi_ppm = 1000000, .need_ppm = 1500000, .gap_ns = TT_MS};
    struct tt_deferred_fleet quiet = {.executors = 8, .gap_ns = TT_MS};
    struct tt_deferred_model half;
    struct tt_deferred_load load;
    struct tt_deferred_candidate candidate;
    assert_int_equal(tt_deferred_model_init(&half, 1, &options), TT_OK);
    tt_deferred_model_add(&half, 0, &drive.models[0]);
    int64_t now = 0;
    for (int32_t burst = 0; burst < 2; burst++) {
        now += TT_S;
        half.queues[0].arrived_rows += 1500;
        tt_deferred_model_measure(&half, 0, 100 * TT_MS, &load);
        tt_deferred_model_fleet(&half, &overload);
        struct tt_ticket ticket = {.rows = 1, .arrived_at = now, .deadline_at = now + 25 * TT_MS};
        tt_deferred_model_arrived(&half, &ticket);
        tt_deferred_model_form(&half, 0, now, &candidate);
        assert_false(half.queues[0].lull);
        now += 25 * TT_MS / 4; /* in which 93 rows should arrive, and one does */
        tt_deferred_model_form(&half, 0, now, &candidate);
        assert_true(half.queues[0].lull);
        tt_deferred_model_cancelled(&half, &ticket);
        tt_deferred_model_fleet(&half, &quiet);
    }
    tt_deferred_model_fini(&half);
    drive_close(&drive);
}

static void test_psi_is_the_smallest_that_fits(void **state) {
    (void)state;
    uint64_t seed = test_seed(99);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    for (int32_t round = 0; round < 300; round++) {
        enum { MODELS = 5 };
        struct tt_deferred_rank rank;
        assert_int_equal(tt_deferred_rank_init(&rank, MODELS, 4, false), TT_OK);
        for (int32_t e = 0; e < 4; e++)
            tt_deferred_rank_add(&rank, 0, e, 1);
        for (int32_t m = 0; m < MODELS; m++) {
            struct tt_deferred_load load = {.model = m,
                                            .alpha_share = (int64_t)tt_prng_below(&prng, 600000000),
                                            .beta_share = (int64_t)tt_prng_below(&prng, 6000000000),
                                            .gather_milli =
                                                1000 + (int64_t)tt_prng_below(&prng, 20000)};
            tt_deferred_rank_load(&rank, &load);
        }
        struct tt_deferred_fleet fleet;
        tt_deferred_rank_fleet(&rank, &fleet);
        double use[2] = {0, 0}; /* at psi, and a little below */
        for (int32_t m = 0; m < MODELS; m++) {
            for (int32_t k = 0; k < 2; k++) {
                double psi = ((double)fleet.psi_ppm - k * 3) / 1e6;
                double batch = psi * (double)rank.loads[m].gather_milli / 1000;
                use[k] += ((double)rank.loads[m].alpha_share +
                           (double)rank.loads[m].beta_share / (batch > 1 ? batch : 1)) /
                          1e9;
            }
        }
        if (fleet.psi_ppm < 1000000)
            assert_true(use[0] <= 4.001);
        if (fleet.psi_ppm > 0)
            assert_true(use[1] >= 3.99);
        tt_deferred_rank_fini(&rank);
    }
}

/* ---- adaptive ---- */

/* The start of the batch of a single request at 0, on one executor. */
static int64_t starts_at(const char *policy, int64_t slo_ns) {
    struct drive_model model = example;
    struct drive drive;
    struct drive_setup setup = {
        .models = &model, .model_count = 1, .executors = 1, .policy = policy, .check = true};
    model.slo_ns = slo_ns;
    drive_open(&drive, &setup);
    drive_arrival(&drive, 0, 0);
    drive_run(&drive, TT_S);
    assert_int_equal(drive.task_count, 1);
    int64_t at = drive.tasks[0].start_at;
    drive_close(&drive);
    return at;
}

/* l(1) = 6 ms, l(2) = 7 ms. Without a load nothing waits if two runs of one row fit the SLO. */
static void test_adaptive_starts_at_once(void **state) {
    (void)state;
    assert_int_equal(starts_at("deferred", 12 * TT_MS), 5 * TT_MS);
    assert_int_equal(starts_at("adaptive", 12 * TT_MS), 0);
    assert_int_equal(starts_at("deferred", 12 * TT_MS - 2), 5 * TT_MS - 2);
    assert_int_equal(starts_at("adaptive", 12 * TT_MS - 2), 5 * TT_MS - 2);
}

/* ResNet50 on 8 devices, SLO 25 ms: at 3000/s batches of b = 5.072 * 3 / (8 - 1.053 * 3) = 3.146
 * rows keep up, and gather = 19.928 / (1.053 + 1 / 3) = 14.374. The share is (b - 1) / (gather - 1)
 * / 0.8 = 0.2006. At 5000/s b = 9.276, gather = 15.904 and the share 0.6941. */
static void test_adaptive_waits_by_load(void **state) {
    (void)state;
    struct drive_model resnet = {1053000, 5072000, 25 * TT_MS, 512, 1};
    struct tt_deferred_queue q;
    steady_queue(&resnet, 8, 1000, true, &q);
    assert_int_equal(q.wait_ppm, 0);
    assert_true(q.is_light);
    assert_int_equal(q.few_rows, 97); /* 20 * 5.072 / 1.053 = 96.3 */
    steady_queue(&resnet, 8, 3000, true, &q);
    assert_in_range(q.wait_ppm, 200000, 201200);
    assert_false(q.is_light);
    steady_queue(&resnet, 8, 5000, true, &q);
    assert_in_range(q.wait_ppm, 693600, 694600);
    steady_queue(&resnet, 8, 7500, true, &q);
    assert_int_equal(q.wait_ppm, 1000000);
    steady_queue(&resnet, 8, 5000, false, &q);
    assert_int_equal(q.wait_ppm, 1000000);
}

/* A batch gains next to nothing: 1 ms per row and 0.05 ms per batch, three requests every 6 ms. As
 * soon as the rate is known they run one by one. Requests of two rows are not cut. */
static void test_adaptive_runs_small_batches(void **state) {
    (void)state;
    static const struct drive_model model = {TT_MS, 50 * TT_US, 50 * TT_MS, 64, 1};
    for (int32_t rows = 1; rows <= 2; rows++) {
        struct drive_setup setup = {.models = &model,
                                    .model_count = 1,
                                    .executors = 1,
                                    .policy = "adaptive",
                                    .check = true};
        struct drive drive;
        drive_open(&drive, &setup);
        for (int32_t i = 0; i < 300; i++)
            drive_arrival(&drive, i / 3 * (int64_t)(7 * TT_MS), 0)->rows = rows;
        drive_run(&drive, TT_NEVER);
        assert_int_equal(drive_bad(&drive), 0);
        for (int32_t i = 0; i < drive.task_count; i++)
            assert_int_equal(drive.tasks[i].count, drive.tasks[i].start_at < 105 * TT_MS ? 3 : 1);
        drive_close(&drive);
    }
}

/* l(b) = 5 ms + 1 ms per row, the tail is twice as much, and the SLO of 8 ms lies between
 * those of one row. */
static const struct drive_model uneven = {
    .alpha_ns = TT_MS, .beta_ns = 5 * TT_MS, .slo_ns = 8 * TT_MS, .tail_percent = 200};

static void open_uneven(struct drive *drive, const char *policy) {
    struct drive_setup setup = {
        .models = &uneven, .model_count = 1, .executors = 1, .policy = policy, .check = true};
    drive_open(drive, &setup);
}

/* The centre decides which requests are hopeless. By the tail all would be, on an idle executor. */
static void test_alone_by_the_centre(void **state) {
    (void)state;
    struct drive drive;
    open_uneven(&drive, "adaptive");
    drive_arrival(&drive, 0, 0);
    for (int32_t i = 0; i < 4; i++) /* l(3) = 8 ms */
        drive_arrival(&drive, 20 * TT_MS, 0);
    drive_arrival(&drive, 40 * TT_MS, 0); /* the next one would gain nothing by its end */
    drive_arrival(&drive, 40 * TT_MS, 0)->deadline_at = 80 * TT_MS;
    drive_arrival(&drive, 60 * TT_MS, 0)->deadline_at = 66 * TT_MS - 1;
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.task_count, 3);
    static const int32_t counts[] = {1, 3, 2};
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(drive.tasks[i].start_at, i * 20 * TT_MS);
        assert_int_equal(drive.tasks[i].count, counts[i]);
    }
    assert_int_equal(drive.outcomes[4].ending, TT_ENDING_DROPPED); /* 2 ms too late after them */
    assert_int_equal(drive.outcomes[7].ended_at, 60 * TT_MS);
    assert_int_equal(drive.outcomes[7].reason, TT_DROP_DEADLINE);
    assert_int_equal(drive_bad(&drive), 2);
    drive_close(&drive);
}

/* Policies without minimum sizes that follow from the load decide by the tail where others wait. */
static void test_alone_by_the_tail(void **state) {
    (void)state;
    struct drive drive;
    open_uneven(&drive, "eager");
    drive_arrival(&drive, 0, 0); /* no request gains by its drop */
    drive_arrival(&drive, 20 * TT_MS, 0);
    drive_arrival(&drive, 20 * TT_MS, 0)->deadline_at = 29 * TT_MS;
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.task_count, 2);
    assert_int_equal(drive.outcomes[0].ended_at, 6 * TT_MS);
    assert_int_equal(drive.outcomes[1].ended_at, 20 * TT_MS);
    assert_int_equal(drive.outcomes[1].reason, TT_DROP_DEADLINE);
    assert_int_equal(drive.outcomes[2].ended_at, 26 * TT_MS);
    drive_close(&drive);
}

/* Beyond capacity the minimum size decides on requests that are in time by the centre only: where
 * fresh ones wait they are dropped. So batches stay large, but for what the tail takes. */
static void test_minimum_sizes_by_the_tail(void **state) {
    (void)state;
    int32_t done[2] = {0};
    for (int32_t i = 0; i < 2; i++) {
        struct drive_model model = uneven;
        model.slo_ns = 30 * TT_MS;
        model.tail_percent = i == 0 ? 100 : 110;
        struct drive_setup setup = {.models = &model,
                                    .model_count = 1,
                                    .executors = 1,
                                    .policy = "deferred",
                                    .check = true};
        struct drive drive;
        drive_open(&drive, &setup);
        for (int32_t k = 0; k < 6000; k++) /* 2000/s, of which less than 800 can be served */
            drive_arrival(&drive, k * TT_MS / 2, 0);
        drive_run(&drive, TT_NEVER);
        for (int32_t k = 2000; k < 6000; k++) {
            bool is_done = drive.outcomes[k].ending == TT_ENDING_DONE;
            assert_true(!is_done || drive.outcomes[k].ended_at <= drive.arrivals[k].deadline_at);
            done[i] += is_done;
        }
        drive_close(&drive);
    }
    assert_true(10 * done[1] >= 9 * done[0]);
}

/* A batch counts with the middle between centre and tail, here 1.25 l(b): four rows in 12 ms. */
static void test_between_centre_and_tail(void **state) {
    (void)state;
    struct drive drive;
    struct drive_model model = uneven;
    model.tail_percent = 150;
    model.slo_ns = 12 * TT_MS;
    struct drive_setup setup = {
        .models = &model, .model_count = 1, .executors = 1, .policy = "adaptive", .check = true};
    drive_open(&drive, &setup);
    for (int32_t i = 0; i < 6; i++)
        drive_arrival(&drive, 0, 0);
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.tasks[0].start_at, 0);
    assert_int_equal(drive.tasks[0].count, 4);
    drive_close(&drive);
}

/* Executors 0 and 1 share a device, 2 has one of its own. */
static const int32_t two_devices[] = {0, 0, 1};

static void open_sharing(struct drive *drive, const struct drive_model *model,
                         const struct tt_option *option, int32_t executors) {
    struct drive_setup setup = {.models = model,
                                .model_count = 1,
                                .executors = executors,
                                .devices = two_devices,
                                .policy = "adaptive",
                                .options = option,
                                .option_count = option != NULL,
                                .check = true};
    drive_open(drive, &setup);
}

/* l(b) = 5 ms + 1 ms per row. With demands of 0.8 a second batch waits for the end of the first, or
 * takes the other device; with 0.5, or if it always may, it begins beside it. */
static void test_a_batch_beside_another(void **state) {
    (void)state;
    static const struct tt_option always = {"beside", "always"};
    static const struct {
        int32_t demand_percent, executors;
        const struct tt_option *option;
        int32_t executor;
        int64_t start_at;
    } cases[] = {
        {80, 2, NULL, 0, 6 * TT_MS}, {50, 2, NULL, 1, TT_MS}, {80, 3, NULL, 2, TT_MS},
        {80, 2, &always, 1, TT_MS},  {0, 2, NULL, 1, TT_MS},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct drive drive;
        struct drive_model model = {.alpha_ns = TT_MS,
                                    .beta_ns = 5 * TT_MS,
                                    .slo_ns = 50 * TT_MS,
                                    .demand_percent = cases[i].demand_percent};
        open_sharing(&drive, &model, cases[i].option, cases[i].executors);
        drive_arrival(&drive, 0, 0);
        drive_arrival(&drive, TT_MS, 0);
        drive_run(&drive, TT_NEVER);
        assert_int_equal(drive.task_count, 2);
        assert_int_equal(drive.tasks[0].executor, 0);
        assert_int_equal(drive.tasks[1].executor, cases[i].executor);
        assert_int_equal(drive.tasks[1].start_at, cases[i].start_at);
        drive_close(&drive);
    }
}

/* Waiting rows are divided only among executors that do not slow each other down. */
static void test_rows_on_a_shared_device(void **state) {
    (void)state;
    static const struct { int32_t demand_percent, tasks; } cases[] = {{80, 1}, {50, 2}};
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct drive drive;
        struct drive_model model = {.alpha_ns = TT_MS,
                                    .beta_ns = TT_US,
                                    .slo_ns = 50 * TT_MS,
                                    .demand_percent = cases[i].demand_percent};
        open_sharing(&drive, &model, NULL, 2);
        for (int32_t k = 0; k < 8; k++)
            drive_arrival(&drive, 0, 0);
        drive_run(&drive, TT_NEVER);
        assert_int_equal(drive.task_count, cases[i].tasks);
        assert_int_equal(drive.tasks[0].rows, 8 / cases[i].tasks);
        drive_close(&drive);
    }
}

/* A burst, silence, and a single request long after: no timer runs in between, no request is
 * forgotten. */
static void test_idle_asks_for_no_timer(void **state) {
    (void)state;
    struct drive_setup setup = {
        .models = &example, .model_count = 1, .executors = 1, .policy = "deferred", .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    for (int32_t i = 0; i < 100; i++)
        drive_arrival(&drive, i * 100 * TT_US, 0);
    drive_run(&drive, TT_S);
    assert_int_equal(drive.mechanism.requests.in_use, 0);
    assert_true(tt_mechanism_next_at(&drive.mechanism) == TT_NEVER);
    drive_arrival(&drive, 3600 * TT_S, 0)->deadline_at = TT_NEVER; /* no deadline: starts at once */
    drive_run(&drive, 3601 * TT_S);
    assert_int_equal(drive.tasks[drive.task_count - 1].start_at, 3600 * TT_S);
    assert_int_equal(drive.mechanism.requests.in_use, 0);
    drive_close(&drive);
}

static void test_bad_options_are_named(void **state) {
    (void)state;
    struct tt_mechanism mechanism;
    struct tt_mechanism_options options = {.model_capacity = 1,
                                           .executor_capacity = 1,
                                           .max_batch = 4,
                                           .depth = 1,
                                           .request_limit = 8,
                                           .request_reserve = 8};
    struct tt_carrier carrier = {0};
    struct tt_error why = {""};
    assert_int_equal(tt_mechanism_init(&mechanism, &options, &carrier, &why), TT_OK);
    struct tt_option option = {"floor", "high"};
    struct tt_policy_setup setup = {.domain = &mechanism, .options = &option, .option_count = 1};
    assert_int_equal(tt_policy_create(&mechanism, "deferred", &setup, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "floor"));
    assert_non_null(strstr(why.text, "sustainable"));
    option = (struct tt_option){"delay", "5ms"};
    assert_int_equal(tt_policy_create(&mechanism, "eager", &setup, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "delay"));
    tt_mechanism_fini(&mechanism);
}

/* ---- clients that wait for their answers ---- */

enum { THINKS_NS = 20000 };

struct crowd {
    struct drive *drive;
    int64_t joins_at; /* the instant at which one more client starts; TT_NEVER: none */
    bool joined;
};

/* The clients of a batch send their next requests one after the other when it ends. */
static int64_t ask_again(void *context, const struct tt_task *task, int64_t planned_ns) {
    struct crowd *self = context;
    int64_t at = task->start_at + planned_ns;
    int32_t count = at < TT_S ? task->count : 0; /* for one second */
    if (!self->joined && at >= self->joins_at) {
        self->joined = true;
        count++;
    }
    for (int32_t i = 0; i < count; i++)
        drive_arrival(self->drive, at += THINKS_NS, 0);
    return planned_ns;
}

/* Sixteen clients of a model that takes 1 ms at every batch size, SLO 5 ms. Returns the last
 * batch's size. */
static int32_t crowd_runs(const char *policy, const char *closed_loop, int64_t joins_at,
                          int32_t *out_tasks) {
    static const struct drive_model model = {0, TT_MS, 5 * TT_MS, 64, 1};
    struct tt_option option = {"closed_loop", closed_loop};
    struct drive drive;
    struct crowd crowd = {.drive = &drive, .joins_at = joins_at};
    struct drive_setup setup = {.models = &model,
                                .model_count = 1,
                                .executors = 1,
                                .policy = policy,
                                .options = &option,
                                .option_count = 1,
                                .check = true,
                                .duration = ask_again,
                                .context = &crowd};
    drive_open(&drive, &setup);
    for (int32_t i = 0; i < 16; i++)
        drive_arrival(&drive, i * (int64_t)THINKS_NS, 0);
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive_bad(&drive), 0);
    *out_tasks = drive.task_count;
    int32_t last = drive.tasks[drive.task_count - 1].count;
    drive_close(&drive);
    return last;
}

/* When all clients wait, the batch starts: a round takes 1.32 ms, without a wait for one more
 * client. A client that starts later is soon waited for, too. */
static void test_closed_loop(void **state) {
    (void)state;
    int32_t tasks;
    assert_int_equal(crowd_runs("deferred", "off", TT_NEVER, &tasks), 16);
    assert_in_range(tasks, 300, 450);
    assert_int_equal(crowd_runs("deferred", "on", TT_NEVER, &tasks), 16);
    assert_in_range(tasks, 740, 758);
    assert_int_equal(crowd_runs("deferred", "on", TT_S / 2, &tasks), 17);
    assert_in_range(tasks, 725, 758);
}

/* The first client's batch does not wait, so the others wait for its end: they would take turns for
 * ever, with half the answers. After a few turns all share a batch. */
static void test_adaptive_merges_clients(void **state) {
    (void)state;
    int32_t tasks;
    int32_t last = crowd_runs("adaptive", "off", TT_NEVER, &tasks);
    assert_true(last == 1 || last == 15);
    assert_in_range(tasks, 995, 1005);
    assert_int_equal(crowd_runs("adaptive", "on", TT_NEVER, &tasks), 16);
    assert_in_range(tasks, 740, 765);
    assert_int_equal(crowd_runs("adaptive", "on", TT_S / 2, &tasks), 17);
    assert_in_range(tasks, 725, 765);
}

/* Independent arrivals are batched as without the option, but for a few. */
static void test_closed_loop_leaves_others_alone(void **state) {
    (void)state;
    static const struct drive_model model = {TT_MS, 5 * TT_MS, 25 * TT_MS, 64, 1};
    int32_t tasks[2], bad[2];
    for (int32_t on = 0; on < 2; on++) {
        struct tt_option option = {"closed_loop", on ? "on" : "off"};
        struct drive_setup setup = {.models = &model,
                                    .model_count = 1,
                                    .executors = 1,
                                    .policy = "deferred",
                                    .options = &option,
                                    .option_count = 1,
                                    .check = true};
        struct drive drive;
        struct tt_prng prng;
        drive_open(&drive, &setup);
        tt_prng_init(&prng, test_seed(5), 0);
        int64_t at = 0;
        for (int32_t i = 0; i < 10000; i++) /* 400 r/s of the 570 or so that can be served */
            drive_arrival(&drive, at += (int64_t)tt_prng_below(&prng, 5 * TT_MS), 0);
        drive_run(&drive, TT_NEVER);
        tasks[on] = drive.task_count;
        bad[on] = drive_bad(&drive);
        drive_close(&drive);
    }
    assert_in_range(tasks[1], tasks[0] * 99 / 100, tasks[0] * 102 / 100);
    assert_in_range(bad[1], 0, bad[0] + 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example_staggers),
        cmocka_unit_test(test_example_regains_its_stagger),
        cmocka_unit_test(test_example_eager_deteriorates),
        cmocka_unit_test(test_timeout_waits_for_its_delay),
        cmocka_unit_test(test_timeout_as_a_share_of_the_slo),
        cmocka_unit_test(test_full_batch_does_not_wait),
        cmocka_unit_test(test_message_is_sent_ahead),
        cmocka_unit_test(test_room_is_left_for_late_decisions),
        cmocka_unit_test(test_draining_executor_gets_nothing),
        cmocka_unit_test(test_inexact_devices),
        cmocka_unit_test(test_sustainable_floor),
        cmocka_unit_test(test_quiet_before_a_burst_is_no_lull),
        cmocka_unit_test(test_psi_is_the_smallest_that_fits),
        cmocka_unit_test(test_adaptive_starts_at_once),
        cmocka_unit_test(test_adaptive_waits_by_load),
        cmocka_unit_test(test_adaptive_runs_small_batches),
        cmocka_unit_test(test_alone_by_the_centre),
        cmocka_unit_test(test_alone_by_the_tail),
        cmocka_unit_test(test_minimum_sizes_by_the_tail),
        cmocka_unit_test(test_adaptive_merges_clients),
        cmocka_unit_test(test_between_centre_and_tail),
        cmocka_unit_test(test_a_batch_beside_another),
        cmocka_unit_test(test_rows_on_a_shared_device),
        cmocka_unit_test(test_idle_asks_for_no_timer),
        cmocka_unit_test(test_bad_options_are_named),
        cmocka_unit_test(test_closed_loop),
        cmocka_unit_test(test_closed_loop_leaves_others_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
