/* threaded
 * What a load and a run add to the process's memory. */
#include "profile/memory_probe.h"

#include "base/instant.h"
#include "engine/emulated/emulated.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { MIB = 1 << 20, PER_ROW = 16 * MIB, LOADED = 24 * MIB, PAGE = 4096, MOST_TIMES = 8 };

/* Resident memory of so many bytes. Sanitizers add up to some times as much. */
static char *take(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (size_t i = 0; i < bytes; i += PAGE)
        ((volatile char *)memory)[i] = 1;
    return memory;
}

struct run_memory {
    bool keeps; /* what a run took stays for the next one */
    char *kept;
    size_t kept_bytes;
};

static void drop(struct run_memory *self) {
    if (self->kept)
        munmap(self->kept, self->kept_bytes);
    self->kept = NULL;
    self->kept_bytes = 0;
}

/* On the executor's thread, while a task runs. */
static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    struct run_memory *self = context;
    (void)length;
    (void)first_step;
    (void)last_step;
    size_t bytes = (size_t)rows * PER_ROW;
    if (self->kept_bytes < bytes) {
        drop(self);
        self->kept = take(bytes);
        self->kept_bytes = bytes;
    }
    if (!self->keeps)
        drop(self);
    return TT_US;
}

static void done(void *context, struct tt_device_task *task) {
    (void)context;
    (void)task;
}

static void check_runs(bool keeps) {
    struct tt_engine_options options = {.executor_count = 1, .queue_depth = 1, .done = done};
    struct tt_signature signature = {.batched = true,
                                     .max_batch = 4,
                                     .input_count = 1,
                                     .output_count = 1,
                                     .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, 3}}}},
                                     .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, 3}}}}};
    struct run_memory memory = {.keeps = keeps};
    struct tt_engine_emulation emulation = {&signature, 1, latency, &memory};
    struct tt_engine *engine;
    struct tt_engine_model *model;
    struct tt_error why;
    int64_t bytes = 0;
    assert_int_equal(tt_emulated_engine_open(&options, &engine, &why), TT_OK);
    assert_int_equal(tt_emulated_engine_load(engine, &emulation, &model, &why), TT_OK);
    enum tt_err err = tt_memory_probe_run(model, 4, 0, &bytes, &why);
    if (err == TT_ERR_UNSUPPORTED) {
        engine->ops->unload(model);
        engine->ops->close(engine);
        print_message("%s\n", why.text);
        skip();
    }
    assert_int_equal(err, TT_OK);
    print_message("a run of 4 rows: %lld KiB\n", (long long)bytes / 1024);
    assert_true(bytes >= (int64_t)4 * PER_ROW - MIB); /* the kernel counts pages in batches */
    assert_true(bytes < (int64_t)MOST_TIMES * 4 * PER_ROW);
    drop(&memory);
    engine->ops->unload(model);
    engine->ops->close(engine);
}

static void a_peak_is_seen(void **state) {
    (void)state;
    check_runs(false);
}

/* A runtime's arena holds what the first row took: it counts, too. */
static void what_runs_keep_counts(void **state) {
    (void)state;
    check_runs(true);
}

static void loading_is_measured(void **state) {
    (void)state;
    struct tt_memory_probe probe;
    tt_memory_probe_begin(&probe);
    char *weights = take(LOADED);
    tt_memory_probe_loaded(&probe, 0);
    assert_true(probe.static_bytes >= LOADED - MIB);
    assert_true(probe.static_bytes < (int64_t)MOST_TIMES * LOADED);
    munmap(weights, LOADED);
    tt_memory_probe_loaded(&probe, (int64_t)LOADED * 100);
    assert_int_equal(probe.static_bytes, (int64_t)LOADED * 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peak_is_seen),
        cmocka_unit_test(what_runs_keep_counts),
        cmocka_unit_test(loading_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
