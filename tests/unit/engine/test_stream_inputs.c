/* threaded */
/* E1: inputs that are copied to a device when they arrive: where kernels find them, what falls back
 * to the copy with the batch, and what that gains. */
#include "unit/engine/stream_ring_bench.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <sched.h>

/* ---- where inputs are found ---- */

static void adjacent_inputs_are_read_in_place(void **state) {
    (void)state;
    static struct ringed self;
    self = (struct ringed){.bench.step_ns = 1, .beta_ns = TT_MS};
    ringed_open_emulated(&self, TT_STREAM_EACH, COPY);
    tt_async_emulated_advance(self.bench.device, TT_S);
    ringed_begin(&self, 0);
    for (int32_t i = 0, slot = 5; i < 3; slot += 1 + i++) {
        ringed_send(&self, i, 1 + i, slot);
        stream_batch_add(&self.batches[0], &self.requests[i]);
    }
    tt_engine_submit(self.bench.engine, &self.batches[0].task);
    tt_async_emulated_advance(self.bench.device, 2 * TT_S);
    assert_ptr_equal(ringed_take(&self), &self.batches[0]);
    ringed_check(&self, &self.batches[0]);
    const struct tt_engine_task *task = &self.batches[0].task;
    assert_int_equal(task->gathered_bytes, 0);
    assert_int_equal(task->copies_in.begin_at, 0);
    assert_int_equal(task->input_ns, 3 * COPY); /* it waits for the last one */
    assert_int_equal(task->infer_ns, TT_MS);
    for (int32_t i = 0, slot = 5; i < 3; slot += 1 + i++) {
        struct tt_engine_copies copies = self.bench.engine->ops->inputs->copies(self.model, slot);
        assert_int_equal(copies.begin_at, TT_S + i * COPY);
        assert_int_equal(copies.end_at, TT_S + (i + 1) * COPY);
    }
    ringed_close(&self);
}

/* Some are apart in the ring, one is elsewhere: gathered on the device, and copied with the batch.
 */
static void other_inputs_are_gathered(void **state) {
    (void)state;
    static struct ringed self;
    static const int32_t slots[] = {9, -1, 3, 4};
    self = (struct ringed){.bench.step_ns = 1, .beta_ns = TT_MS};
    ringed_open_emulated(&self, TT_STREAM_EACH, COPY);
    tt_async_emulated_advance(self.bench.device, TT_S);
    ringed_begin(&self, 0);
    for (int32_t i = 0; i < 4; i++) {
        ringed_send(&self, i, 1, slots[i]);
        stream_batch_add(&self.batches[0], &self.requests[i]);
    }
    tt_engine_submit(self.bench.engine, &self.batches[0].task);
    tt_async_emulated_advance(self.bench.device, 2 * TT_S);
    assert_ptr_equal(ringed_take(&self), &self.batches[0]);
    ringed_check(&self, &self.batches[0]);
    const struct tt_engine_task *task = &self.batches[0].task;
    assert_int_equal(task->gathered_bytes, 4 * 4);
    assert_int_equal(task->head.ended_at, TT_S + 4 * COPY + TT_MS); /* one copy each */
    ringed_close(&self);
}

/* A stream with room for one copy: the others come with their batch. */
static void copies_without_room_come_with_the_batch(void **state) {
    (void)state;
    static struct ringed self;
    self = (struct ringed){.bench.step_ns = 1, .beta_ns = TT_MS};
    const struct tt_async_emulated_options device = {.max_streams = 16,
                                                     .queue_depth = 1024,
                                                     .in = {.fixed_ns = COPY},
                                                     .take_order = stream_order(&self.bench)};
    struct tt_stream_engine_options options = {.engine = {.executor_count = 1,
                                                          .queue_depth = 2,
                                                          .done = stream_done,
                                                          .done_context = &self.bench},
                                               .max_rows = STREAM_BATCH};
    assert_int_equal(tt_async_emulated_open(&device, &self.bench.device, NULL), TT_OK);
    options.device = self.bench.device;
    options.queue_depth = (int32_t)tt_stream_engine_operations(&stream_signature, 2);
    assert_int_equal(options.queue_depth, 40); /* ten copies of four operations */
    assert_int_equal(tt_ring_init(&self.bench.returned[0], 64), TT_OK);
    assert_int_equal(tt_stream_engine_open(&options, &self.bench.engine, NULL), TT_OK);
    ringed_load(&self);
    tt_async_emulated_advance(self.bench.device, TT_S);
    for (int32_t i = 0; i < 12; i++)
        ringed_send(&self, i, 1, i);
    ringed_begin(&self, 0);
    for (int32_t i = 6; i < 12; i++)
        stream_batch_add(&self.batches[0], &self.requests[i]);
    tt_engine_submit(self.bench.engine, &self.batches[0].task);
    tt_async_emulated_advance(self.bench.device, 2 * TT_S);
    assert_ptr_equal(ringed_take(&self), &self.batches[0]);
    ringed_check(&self, &self.batches[0]);
    /* The two streams take turns. */
    assert_int_equal(self.bench.engine->ops->inputs->copies(self.model, 9).end_at,
                     TT_S + 12 * COPY);
    assert_int_equal(self.bench.engine->ops->inputs->copies(self.model, 10).end_at, 0);
    assert_int_equal(self.batches[0].task.head.ended_at, TT_S + 12 * COPY + TT_MS);
    self.bench.engine->ops->unload(self.model);
    self.bench.engine->ops->close(self.bench.engine);
    tt_ring_fini(&self.bench.returned[0]);
    assert_string_equal(self.bench.conflict, "");
    tt_async_device_close(self.bench.device);
}

/* Random batches of random slots on threads, with slots that are written again as soon as their
 * request has left; the order checker looks. */
static void random_slots_on_threads(void **state) {
    (void)state;
    static struct ringed self;
    self = (struct ringed){.bench.step_ns = 1};
    uint64_t seed = test_seed(23);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    const struct tt_async_host_options device = {
        .max_streams = 16, .queue_depth = 1024, .take_order = stream_order(&self.bench)};
    assert_int_equal(tt_async_host_open(&device, &self.bench.device, NULL), TT_OK);
    stream_bench_open(&self.bench, TT_STREAM_EACH);
    ringed_load(&self);
    for (int32_t round = 0; round < 200; round++) {
        bool used[SLOTS] = {false};
        ringed_begin(&self, 0);
        int32_t count = 1 + (int32_t)tt_prng_below(&prng, STREAM_BATCH);
        int32_t next = (int32_t)tt_prng_below(&prng, SLOTS - STREAM_BATCH);
        bool apart = tt_prng_below(&prng, 2) == 0;
        for (int32_t i = 0; i < count; i++) {
            int32_t slot = next + i;
            while (apart && used[slot])
                slot = (int32_t)tt_prng_below(&prng, SLOTS);
            if (apart && tt_prng_below(&prng, 4) == 0)
                slot = -1;
            else
                used[slot] = true;
            ringed_send(&self, i, 1, slot);
            stream_batch_add(&self.batches[0], &self.requests[i]);
        }
        /* One that leaves before it runs: its slots are written again at once. */
        for (int32_t slot = 0; slot < SLOTS; slot += 7)
            if (!used[slot])
                ringed_send(&self, SLOTS - 1, 1, slot);
        tt_engine_submit(self.bench.engine, &self.batches[0].task);
        struct stream_batch *batch;
        while (!(batch = ringed_take(&self)))
            sched_yield();
        ringed_check(&self, batch);
        if (!apart)
            assert_int_equal(batch->task.gathered_bytes, 0);
    }
    ringed_close(&self);
}

/* The device fails while copies are under way: the model goes without them. */
static void copies_end_with_the_device(void **state) {
    (void)state;
    for (int32_t round = 0; round < 20; round++) {
        static struct ringed self;
        self = (struct ringed){.bench.step_ns = 1};
        const struct tt_async_host_options device = {.max_streams = 16, .queue_depth = 1024};
        assert_int_equal(tt_async_host_open(&device, &self.bench.device, NULL), TT_OK);
        stream_bench_open(&self.bench, TT_STREAM_EACH);
        ringed_load(&self);
        for (int32_t i = 0; i < SLOTS; i++) {
            ringed_send(&self, i, 1, i);
            if (i == SLOTS / 2)
                tt_async_device_fail(self.bench.device, "the bus was lost");
        }
        assert_true(self.bench.engine->ops->return_failed(self.bench.engine));
        ringed_close(&self);
    }
}

/* Models that go while the calls behind their last copies are still to come; others stay. */
static void models_go_right_after_their_copies(void **state) {
    (void)state;
    static struct ringed self, other;
    self = (struct ringed){.bench.step_ns = 1};
    const struct tt_async_host_options device = {
        .max_streams = 16, .queue_depth = 1024, .take_order = stream_order(&self.bench)};
    assert_int_equal(tt_async_host_open(&device, &self.bench.device, NULL), TT_OK);
    stream_bench_open(&self.bench, TT_STREAM_EACH);
    ringed_load(&self);
    for (int32_t round = 0; round < 100; round++) {
        other.bench = self.bench;
        ringed_load(&other);
        ringed_send(&self, round % SLOTS, 1, round % SLOTS);
        for (int32_t i = 0; i < 3; i++)
            ringed_send(&other, i, 1, i);
        self.bench.engine->ops->unload(other.model);
    }
    ringed_close(&self);
}

/* ---- when things happen ---- */

/* Batches of 8, all slots in use; returns when the last one ends, counted from the first copy. */
static int64_t run_batches(enum tt_stream_transfer transfer, int32_t count, int64_t copy_ns) {
    static struct ringed self;
    bool each = transfer == TT_STREAM_EACH;
    int32_t sent = 0;
    self = (struct ringed){.bench.step_ns = 1, .beta_ns = 16 * COPY};
    ringed_open_emulated(&self, transfer, copy_ns);
    int64_t ended_at = 0;
    for (int32_t b = 0, taken = 0; taken < count;) {
        for (; sent < count * STREAM_BATCH && sent < taken * STREAM_BATCH + SLOTS; sent++)
            ringed_send(&self, sent % SLOTS, 1, each ? sent % SLOTS : -1);
        for (; b < count && b < taken + STREAM_DEPTH; b++) {
            ringed_begin(&self, b % SLOTS);
            for (int32_t i = 0; i < STREAM_BATCH; i++)
                stream_batch_add(&self.batches[b % SLOTS],
                                 &self.requests[(b * STREAM_BATCH + i) % SLOTS]);
            tt_engine_submit(self.bench.engine, &self.batches[b % SLOTS].task);
        }
        tt_async_emulated_advance(self.bench.device, tt_async_emulated_next_at(self.bench.device));
        for (struct stream_batch *batch; (batch = ringed_take(&self)); taken++) {
            ringed_check(&self, batch);
            ended_at = batch->task.head.ended_at;
        }
    }
    ringed_close(&self);
    return ended_at;
}

/* E6: 0.1 ms per input, batches of 8 that compute for 1.6 ms: eq. 1 gives 1.5 times the throughput
 * of whole batches. */
static void overlap_gains_what_equation_1_says(void **state) {
    (void)state;
    enum { BATCHES = 40 };
    int64_t copying_ns = STREAM_BATCH * COPY, computing_ns = 16 * COPY;
    int64_t overlapped_ns = run_batches(TT_STREAM_EACH, BATCHES, COPY);
    int64_t serial_ns = run_batches(TT_STREAM_WHOLE, BATCHES, copying_ns);
    assert_int_equal(overlapped_ns, copying_ns + BATCHES * computing_ns);
    assert_int_equal(serial_ns, BATCHES * (copying_ns + computing_ns));
    int64_t gain_permille = serial_ns * 1000 / overlapped_ns;
    int64_t expected_permille = 1000 + 1000 * copying_ns / computing_ns;
    assert_in_range(gain_permille, expected_permille * 95 / 100, expected_permille * 105 / 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adjacent_inputs_are_read_in_place),
        cmocka_unit_test(other_inputs_are_gathered),
        cmocka_unit_test(copies_without_room_come_with_the_batch),
        cmocka_unit_test(random_slots_on_threads),
        cmocka_unit_test(copies_end_with_the_device),
        cmocka_unit_test(models_go_right_after_their_copies),
        cmocka_unit_test(overlap_gains_what_equation_1_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
