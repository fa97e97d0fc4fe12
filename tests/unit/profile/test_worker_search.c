/* threaded */
/* E5: every choice of workers is tried once, kept, and found again; the best one is returned. */
#include "base/instant.h"
#include "engine/emulated/emulated.h"
#include "profile/worker_search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { EXECUTORS = 8, MAX_KEPT = 64 };

static struct tt_engine *engine;

static void nobody(void *context, struct tt_device_task *task) {
    (void)context;
    (void)task;
    fail_msg("a task came to the engine's own `done`");
}

/* Batches of four take 1 ms, all others 25. */
static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    (void)context;
    (void)length;
    (void)first_step;
    (void)last_step;
    return (rows == 4 ? 1 : 25) * TT_MS;
}

static const struct tt_signature signature = {
    .batched = true,
    .max_batch = 8,
    .input_count = 1,
    .output_count = 1,
    .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, 4}}}},
    .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, 4}}}},
};

struct kept {
    struct tt_worker_mix mixes[MAX_KEPT];
    int32_t count, recalled, stop_at; /* stop_at: progress says no there */
};

static bool progress(void *context, int32_t done, int32_t total,
                     const int32_t counts[TT_WORKER_SIZES]) {
    const struct kept *kept = context;
    assert_int_equal(total, 14);
    int32_t rows = 0;
    for (int32_t k = 0; k < TT_WORKER_SIZES; k++)
        rows += counts[k] << k;
    assert_true(rows == 4 || rows == 8);
    return done != kept->stop_at;
}

static bool recall(void *context, struct tt_worker_mix *mix) {
    struct kept *kept = context;
    for (int32_t i = 0; i < kept->count; i++)
        if (memcmp(kept->mixes[i].counts, mix->counts, sizeof(mix->counts)) == 0) {
            kept->recalled++;
            return true;
        }
    return false;
}

static void keep(void *context, const struct tt_worker_mix *mix) {
    struct kept *kept = context;
    assert_true(kept->count < MAX_KEPT);
    assert_true(mix->runs >= 1);
    assert_true(mix->low_ns <= mix->mean_ns && mix->mean_ns <= mix->high_ns);
    kept->mixes[kept->count++] = *mix;
}

/* The measured times of a loaded machine prove nothing. What the best is chosen from is the mean
 * time over the workers by the latencies above. */
static void put_expected_times(struct kept *kept) {
    for (int32_t i = 0; i < kept->count; i++) {
        int64_t sum = 0;
        int32_t workers = 0;
        for (int32_t k = 0; k < TT_WORKER_SIZES; k++) {
            sum += kept->mixes[i].counts[k] * latency(NULL, 1 << k, 0, 0, 0);
            workers += kept->mixes[i].counts[k];
        }
        kept->mixes[i].mean_ns = sum / workers;
    }
}

static void tries_every_choice_and_goes_on_where_it_was(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_engine_options options = {EXECUTORS, 1, nobody, NULL};
    assert_int_equal(tt_emulated_engine_open(&options, &engine, &why), TT_OK);
    struct tt_engine_emulation load = {&signature, 1, latency, NULL};
    struct tt_engine_model *model;
    assert_int_equal(tt_emulated_engine_load(engine, &load, &model, &why), TT_OK);
    static const int32_t totals[] = {4, 8};
    assert_int_equal(tt_worker_search_executors(totals, 2), 8);
    struct kept kept = {.stop_at = 5};
    struct tt_worker_search_options how = {.totals = totals,
                                           .total_count = 2,
                                           .largest = 64,
                                           .runs = 1,
                                           .progress = progress,
                                           .recall = recall,
                                           .keep = keep,
                                           .context = &kept};
    assert_int_equal(tt_worker_search(model, &how, &why), TT_ERR_CANCELLED);
    assert_int_equal(kept.count, 5);
    kept.stop_at = -1;
    assert_int_equal(tt_worker_search(model, &how, &why), TT_OK);
    assert_int_equal(kept.count, 4 + 10);
    assert_int_equal(kept.recalled, 5);
    put_expected_times(&kept);
    char text[64];
    const struct tt_worker_mix *best = tt_worker_search_best(kept.mixes, kept.count, 4, NULL);
    assert_string_equal(tt_worker_mix_print(best->counts, text, sizeof(text)), "4");
    best = tt_worker_search_best(kept.mixes, kept.count, 8, NULL);
    assert_string_equal(tt_worker_mix_print(best->counts, text, sizeof(text)), "4,4");
    static const int32_t one_of_each[TT_WORKER_SIZES] = {2, 1, 1, 1};
    best = tt_worker_search_best(kept.mixes, kept.count, 8, one_of_each);
    assert_string_equal(tt_worker_mix_print(best->counts, text, sizeof(text)), "4,2,1,1");
    assert_null(tt_worker_search_best(kept.mixes, kept.count, 16, NULL));
    engine->ops->unload(model);
    engine->ops->close(engine);
}

/* ---- the options that the policy gets ---- */

static const struct tt_worker_mix measured[] = {
    {.counts = {4}, .runs = 3, .mean_ns = 700, .low_ns = 600, .high_ns = 800, .last_ns = 900},
    {.counts = {0, 0, 1}, .runs = 3, .mean_ns = 400, .low_ns = 400, .high_ns = 500, .last_ns = 400},
    {.counts = {0, 0, 2}, .runs = 3, .mean_ns = 900, .low_ns = 800, .high_ns = 950, .last_ns = 950},
    {.counts = {0, 0, 0, 1}, .runs = 3, .mean_ns = 900, .low_ns = 800, .high_ns = 950},
    {.counts = {0, 0, 0, 2, 1}, .runs = 3, .mean_ns = 1, .low_ns = 1, .high_ns = 1, .last_ns = 1},
};

static void tells_the_union_or_what_can_be_made(void **state) {
    (void)state;
    struct tt_worker_options told;
    int32_t count = (int32_t)TT_COUNT(measured);
    assert_true(tt_worker_search_options_of(measured, count, NULL, &told));
    assert_string_equal(told.workers, "16,8,8,4,2,1");
    assert_string_equal(told.configurations, "4;8;16,8,8"); /* equal means: the fewer workers */
    assert_true(tt_worker_search_options_of(measured, count, "1,1,1,1,4,4", &told));
    assert_string_equal(told.workers, "1,1,1,1,4,4");
    assert_string_equal(told.configurations, "4;4,4");
    assert_false(tt_worker_search_options_of(measured, count, "1,2", &told));
    assert_false(tt_worker_search_options_of(NULL, 0, NULL, &told));
}

/* Of 4 rows one choice ends in time, of 8 none: then all of them stay. */
static void a_promise_removes_what_ends_too_late(void **state) {
    (void)state;
    struct tt_worker_mix mixes[] = {
        {.counts = {4}, .mean_ns = 300, .last_ns = 900},
        {.counts = {0, 0, 1}, .mean_ns = 400, .last_ns = 400},
        {.counts = {0, 0, 2}, .mean_ns = 900, .last_ns = 950},
        {.counts = {0, 0, 0, 1}, .mean_ns = 800, .last_ns = 800},
    };
    struct tt_worker_options told;
    int32_t count = (int32_t)TT_COUNT(mixes);
    assert_int_equal(tt_worker_search_within(mixes, count, TT_NEVER), count);
    assert_int_equal(tt_worker_search_within(mixes, count, 950), count);
    assert_true(tt_worker_search_options_of(mixes, count, NULL, &told));
    assert_string_equal(told.configurations, "1,1,1,1;8");
    assert_true(tt_worker_mix_keeps(&mixes[0], 900));
    assert_false(tt_worker_mix_keeps(&mixes[0], 899));
    assert_int_equal(tt_worker_search_within(mixes, count, 799), 3);
    assert_int_equal(mixes[0].counts[2], 1);
    assert_int_equal(mixes[1].counts[2], 2);
    assert_int_equal(mixes[2].counts[3], 1);
    assert_true(tt_worker_search_options_of(mixes, 3, NULL, &told));
    assert_string_equal(told.configurations, "4;8");
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void the_file_says_what_it_was_measured_of(void **state) {
    (void)state;
    char path[] = "/tmp/tutti-workers-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    struct tt_worker_file_origin origin = {"a \"test\"", "a machine", "2026-01-31", "abc", 16};
    struct tt_text text;
    tt_text_init(&text);
    tt_worker_file_print(&origin, measured, (int32_t)TT_COUNT(measured), &text);
    write_text(path, tt_text_string(&text));
    tt_text_fini(&text);
    struct tt_worker_mix *mixes;
    int32_t count;
    struct tt_error why = {{0}};
    assert_int_equal(tt_worker_file_read(path, &origin, &mixes, &count, &why), TT_OK);
    assert_int_equal(count, TT_COUNT(measured));
    assert_memory_equal(mixes, measured, sizeof(measured));
    free(mixes);
    struct tt_worker_file_origin other = origin;
    other.model_sha256 = "def";
    assert_int_equal(tt_worker_file_read(path, &other, &mixes, &count, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "another model file"));
    other = origin;
    other.device = "a slower machine";
    assert_int_equal(tt_worker_file_read(path, &other, &mixes, &count, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "measured on 'a machine', and this is 'a slower machine'"));
    other = origin;
    other.length = 8;
    assert_int_equal(tt_worker_file_read(path, &other, &mixes, &count, &why), TT_ERR_INVALID);
    other.length = -1;
    assert_int_equal(tt_worker_file_read(path, &other, &mixes, &count, &why), TT_OK);
    free(mixes);
    static const struct {
        const char *text, *part;
    } bad[] = {{"mix { worker: [3] mean_ns: 1 }", "size 3; it must be a power of two up to 128"},
               {"mix { worker: [256] mean_ns: 1 }", "size 256"},
               {"mix { worker: [1] }", "take 0 ns"},
               {"mix { mean_ns: 5 }", "0 workers"},
               {"mix { worker: 1", ""}};
    for (size_t i = 0; i < TT_COUNT(bad); i++) {
        write_text(path, bad[i].text);
        assert_int_equal(tt_worker_file_read(path, NULL, &mixes, &count, &why), TT_ERR_INVALID);
        if (!strstr(why.text, bad[i].part) || !strstr(why.text, path))
            fail_msg("'%s' does not say '%s'", why.text, bad[i].part);
    }
    unlink(path);
    assert_int_equal(tt_worker_file_read(path, NULL, &mixes, &count, &why), TT_ERR_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tries_every_choice_and_goes_on_where_it_was),
        cmocka_unit_test(tells_the_union_or_what_can_be_made),
        cmocka_unit_test(a_promise_removes_what_ends_too_late),
        cmocka_unit_test(the_file_says_what_it_was_measured_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
