/* What every asynchronous device promises (device/async_device.h), as one suite that each kind
 * runs.
 *
 * A test file defines the hooks below, includes this file, and runs SUITE_TESTS. */
#ifndef TUTTI_TESTS_UNIT_DEVICE_ASYNC_SUITE_H
#define TUTTI_TESTS_UNIT_DEVICE_ASYNC_SUITE_H

#include "base/prng.h"
#include "device/async_device.h"
#include "device/async_order.h"
#include "device/async_pool.h"
#include "unit/device/failing_calloc.h"
#include "unit/seed.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- hooks ---- */

struct suite_options {
    uint64_t memory_bytes;
    int32_t max_streams, queue_depth;
    struct tt_async_order *take_order;
};

/* NULL, and `why`, on failure. */
static struct tt_async_device *suite_open(const struct suite_options *options,
                                          struct tt_error *why);
/* Makes the stream stop at this place until suite_unhang(), if that is possible. Returns when no
 * earlier operation waits in the stream. */
static void suite_hang(struct tt_async_stream *stream);
static void suite_unhang(struct tt_async_stream *stream);
/* Submits an operation that makes the device fail. */
static void suite_break(struct tt_async_device *device, struct tt_async_stream *stream);
/* Forms of the kernel `move` below. */
static enum tt_err suite_enqueue_move(struct tt_async_device *device, void *context,
                                      void *native_stream, struct tt_error *why);
/* True if a hung stream stays so, and only a restart helps. */
static const bool suite_hangs_for_good;
/* True if `queue_depth` limits what waits in a stream. */
static const bool suite_limits_queues;

/* ---- helpers ---- */

enum { BLOCK = 256, CONFLICTS = 64 };

struct suite {
    struct tt_async_device *device;
    int32_t conflict_count;
    char conflict[512]; /* the last one */
};

static void on_conflict(void *context, const char *text) {
    struct suite *self = context;
    self->conflict_count++;
    snprintf(self->conflict, sizeof(self->conflict), "%s", text);
}

static void suite_init(struct suite *self, int32_t max_streams, int32_t queue_depth) {
    memset(self, 0, sizeof(*self));
    const struct tt_async_order_options checks = {
        .max_streams = max_streams, .on_conflict = on_conflict, .context = self};
    struct suite_options options = {
        .memory_bytes = 1 << 20, .max_streams = max_streams, .queue_depth = queue_depth};
    struct tt_error why;
    assert_int_equal(tt_async_order_new(&checks, &options.take_order, &why), TT_OK);
    self->device = suite_open(&options, &why);
    if (!self->device)
        fail_msg("%s", why.text);
}

static void suite_fini(struct suite *self) { tt_async_device_close(self->device); }

static void ok(enum tt_err err, const struct tt_error *why) {
    if (err)
        fail_msg("%s: %s", tt_err_name(err), why->text);
}

static struct tt_async_stream *open_stream(struct suite *self) {
    struct tt_async_stream *stream = NULL;
    struct tt_error why;
    ok(tt_async_stream_open(self->device, &stream, &why), &why);
    return stream;
}

static struct tt_async_event *open_event(struct suite *self) {
    struct tt_async_event *event = NULL;
    struct tt_error why;
    ok(tt_async_event_open(self->device, &event, &why), &why);
    return event;
}

static uint64_t reserve(struct suite *self, size_t bytes) {
    uint64_t address = 0;
    struct tt_error why;
    ok(tt_async_reserve(self->device, bytes, &address, &why), &why);
    return address;
}

static uint8_t *pin(struct suite *self, size_t bytes) {
    void *made = NULL;
    struct tt_error why;
    ok(tt_async_pin(self->device, bytes, &made, &why), &why);
    return made;
}

/* Waits until all of the stream so far has happened. */
static void drain(struct suite *self, struct tt_async_stream *stream) {
    struct tt_async_event *event = open_event(self);
    struct tt_error why;
    ok(tt_async_record(stream, event, &why), &why);
    ok(tt_async_event_wait(event, TT_NEVER, &why), &why);
    assert_int_equal(tt_async_event_query(event, &why), TT_OK);
    tt_async_event_close(event);
}

/* The end of a hang. */
static void unhang(struct suite *self, struct tt_async_stream *stream) {
    suite_unhang(stream);
    if (suite_hangs_for_good)
        tt_async_device_fail(self->device, "a stream hangs");
    else
        drain(self, stream);
}

/* The kernel `move`: copies a block; work of the caller's, to the device. */
struct move {
    uint64_t to, from;
    struct tt_async_range ranges[2];
};

static enum tt_err run_move(struct tt_async_device *device, void *context) {
    const struct move *self = context;
    memcpy(tt_async_pointer(device, self->to), tt_async_pointer(device, self->from), BLOCK);
    return TT_OK;
}

static struct tt_async_kernel move_kernel(struct move *self, uint64_t to, uint64_t from) {
    self->to = to;
    self->from = from;
    self->ranges[0] = (struct tt_async_range){to, BLOCK, true};
    self->ranges[1] = (struct tt_async_range){from, BLOCK, false};
    return (struct tt_async_kernel){.name = "move",
                                    .run = run_move,
                                    .enqueue = suite_enqueue_move,
                                    .context = self,
                                    .ranges = self->ranges,
                                    .range_count = 2,
                                    .work_ns = 1000,
                                    .demand_ppm = 500000};
}

/* ---- one stream ---- */

static void test_a_stream_keeps_its_order(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    struct tt_async_stream *stream = open_stream(&self);
    uint64_t a = reserve(&self, BLOCK), b = reserve(&self, BLOCK), c = reserve(&self, BLOCK);
    uint8_t *in = pin(&self, BLOCK), *out = pin(&self, BLOCK);
    for (int32_t i = 0; i < BLOCK; i++)
        in[i] = (uint8_t)(i * 7);
    struct move move;
    const struct tt_async_kernel kernel = move_kernel(&move, b, a);
    ok(tt_async_fill(stream, c, 9, BLOCK, &why), &why);
    ok(tt_async_copy_in(stream, a, in, BLOCK, &why), &why);
    ok(tt_async_launch(stream, &kernel, &why), &why);
    ok(tt_async_fill(stream, a, 1, BLOCK, &why), &why);
    ok(tt_async_copy_within(stream, c, b, BLOCK / 2, &why), &why);
    ok(tt_async_copy_out(stream, out, c, BLOCK, &why), &why);
    drain(&self, stream);
    tt_async_host_access(self.device, out, BLOCK, false);
    for (int32_t i = 0; i < BLOCK; i++)
        assert_int_equal(out[i], i < BLOCK / 2 ? in[i] : 9);
    assert_int_equal(self.conflict_count, 0);
    tt_async_stream_close(stream);
    tt_async_release(self.device, a, BLOCK);
    tt_async_release(self.device, b, BLOCK);
    tt_async_release(self.device, c, BLOCK);
    tt_async_unpin(self.device, in);
    tt_async_unpin(self.device, out);
    suite_fini(&self);
}

struct calls {
    int32_t count;
    int32_t seen[8];
};

struct one_call {
    struct calls *calls;
    int32_t number;
};

static void note_call(void *context) {
    const struct one_call *self = context;
    self->calls->seen[self->calls->count++] = self->number;
}

static void test_calls_come_in_order(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    struct tt_async_stream *first = open_stream(&self), *second = open_stream(&self);
    struct tt_async_event *event = open_event(&self);
    struct calls calls = {0};
    struct one_call each[6];
    for (int32_t i = 0; i < 6; i++)
        each[i] = (struct one_call){&calls, i};
    for (int32_t i = 0; i < 3; i++)
        ok(tt_async_call(first, note_call, &each[i], &why), &why);
    ok(tt_async_record(first, event, &why), &why);
    ok(tt_async_wait(second, event, &why), &why);
    for (int32_t i = 3; i < 6; i++)
        ok(tt_async_call(second, note_call, &each[i], &why), &why);
    drain(&self, second);
    assert_int_equal(calls.count, 6);
    for (int32_t i = 0; i < 6; i++)
        assert_int_equal(calls.seen[i], i);
    tt_async_stream_close(first);
    tt_async_stream_close(second);
    tt_async_event_close(event);
    suite_fini(&self);
}

/* ---- several streams ---- */

enum { STREAMS = 4, BUFFERS = 6, STEPS = 200 };

/* A random program over some buffers, on the device and on a model that runs it in order. Each
 * buffer has an event, recorded behind its last use; the stream that uses it next waits for it. */
struct program {
    struct suite suite;
    struct tt_prng prng;
    struct tt_async_stream *streams[STREAMS];
    uint64_t buffers[BUFFERS];
    struct tt_async_event *used[BUFFERS];
    uint8_t model[BUFFERS][BLOCK];
    uint8_t *host; /* pinned: [STEPS][BLOCK] */
    uint8_t expected[STEPS][BLOCK];
    bool is_out[STEPS];
    struct move moves[STEPS];
};

static void program_init(struct program *self, uint64_t seed) {
    memset(self, 0, sizeof(*self));
    suite_init(&self->suite, STREAMS, 1024);
    tt_prng_init(&self->prng, seed, 0);
    struct tt_error why;
    for (int32_t s = 0; s < STREAMS; s++)
        self->streams[s] = open_stream(&self->suite);
    for (int32_t b = 0; b < BUFFERS; b++) {
        self->buffers[b] = reserve(&self->suite, BLOCK);
        self->used[b] = open_event(&self->suite);
        ok(tt_async_fill(self->streams[0], self->buffers[b], 0, BLOCK, &why), &why);
        ok(tt_async_record(self->streams[0], self->used[b], &why), &why);
    }
    self->host = pin(&self->suite, (size_t)STEPS * BLOCK);
}

static void program_fini(struct program *self) {
    for (int32_t b = 0; b < BUFFERS; b++) {
        tt_async_event_close(self->used[b]);
        tt_async_release(self->suite.device, self->buffers[b], BLOCK);
    }
    for (int32_t s = 0; s < STREAMS; s++)
        tt_async_stream_close(self->streams[s]);
    tt_async_unpin(self->suite.device, self->host);
    suite_fini(&self->suite);
}

static void program_submit(struct program *self, int32_t step, struct tt_async_stream *stream,
                           int32_t to, int32_t from) {
    struct tt_error why;
    uint8_t *host = self->host + (size_t)step * BLOCK;
    const uint8_t value = (uint8_t)tt_prng_below(&self->prng, 256);
    struct tt_async_kernel kernel;
    switch (tt_prng_below(&self->prng, 5)) {
    case 0:
        ok(tt_async_fill(stream, self->buffers[to], value, BLOCK, &why), &why);
        memset(self->model[to], value, BLOCK);
        break;
    case 1:
        memset(host, value ^ 0x55, BLOCK);
        ok(tt_async_copy_in(stream, self->buffers[to], host, BLOCK, &why), &why);
        memcpy(self->model[to], host, BLOCK);
        break;
    case 2:
        ok(tt_async_copy_out(stream, host, self->buffers[from], BLOCK, &why), &why);
        memcpy(self->expected[step], self->model[from], BLOCK);
        self->is_out[step] = true;
        break;
    case 3:
        ok(tt_async_copy_within(stream, self->buffers[to], self->buffers[from], BLOCK, &why), &why);
        memcpy(self->model[to], self->model[from], BLOCK);
        break;
    default:
        kernel = move_kernel(&self->moves[step], self->buffers[to], self->buffers[from]);
        ok(tt_async_launch(stream, &kernel, &why), &why);
        memcpy(self->model[to], self->model[from], BLOCK);
    }
}

static void program_step(struct program *self, int32_t step) {
    struct tt_error why;
    struct tt_async_stream *stream = self->streams[tt_prng_below(&self->prng, STREAMS)];
    int32_t to = (int32_t)tt_prng_below(&self->prng, BUFFERS);
    int32_t from = (to + 1 + (int32_t)tt_prng_below(&self->prng, BUFFERS - 1)) % BUFFERS;
    ok(tt_async_wait(stream, self->used[to], &why), &why);
    ok(tt_async_wait(stream, self->used[from], &why), &why);
    program_submit(self, step, stream, to, from);
    ok(tt_async_record(stream, self->used[to], &why), &why);
    ok(tt_async_record(stream, self->used[from], &why), &why);
}

static void program_check(struct program *self) {
    for (int32_t s = 0; s < STREAMS; s++)
        drain(&self->suite, self->streams[s]);
    tt_async_host_access(self->suite.device, self->host, (size_t)STEPS * BLOCK, false);
    for (int32_t i = 0; i < STEPS; i++)
        if (self->is_out[i])
            assert_memory_equal(self->host + (size_t)i * BLOCK, self->expected[i], BLOCK);
}

static void test_events_order_streams(void **state) {
    (void)state;
    uint64_t seed = test_seed(30);
    for (uint64_t run = 0; run < 8; run++) {
        struct program *self = malloc(sizeof(*self));
        assert_non_null(self);
        program_init(self, seed + run);
        for (int32_t i = 0; i < STEPS; i++)
            program_step(self, i);
        program_check(self);
        assert_int_equal(self->suite.conflict_count, 0);
        program_fini(self);
        free(self);
    }
}

/* The same programs, with a last step that waits for nothing: in most of them it conflicts. Its
 * stream hangs meanwhile, so that nothing is really touched at the same time. */
static void test_a_missing_wait_is_found(void **state) {
    (void)state;
    enum { RUNS = 64, LAST = 20 };
    uint64_t seed = test_seed(31);
    int32_t found = 0;
    for (uint64_t run = 0; run < RUNS; run++) {
        struct program *self = malloc(sizeof(*self));
        assert_non_null(self);
        program_init(self, seed + run);
        for (int32_t i = 0; i < LAST; i++)
            program_step(self, i);
        assert_int_equal(self->suite.conflict_count, 0);
        struct tt_async_stream *last = self->streams[run % STREAMS];
        suite_hang(last);
        program_submit(self, LAST, last, 0, 1);
        found += self->suite.conflict_count > 0;
        for (int32_t s = 0; s < STREAMS; s++)
            if (self->streams[s] != last)
                drain(&self->suite, self->streams[s]);
        unhang(&self->suite, last);
        program_fini(self);
        free(self);
    }
    assert_true(found >= RUNS / 6);
}

/* Both operations are named, and what they do. */
static void test_a_conflict_names_both(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    struct tt_async_stream *first = open_stream(&self), *second = open_stream(&self);
    uint64_t a = reserve(&self, BLOCK), b = reserve(&self, BLOCK);
    uint8_t *out = pin(&self, BLOCK);
    ok(tt_async_fill(first, a, 1, BLOCK, &why), &why);
    drain(&self, first);
    /* The host reads what a copy still writes. */
    ok(tt_async_copy_out(second, out, a, BLOCK, &why), &why);
    tt_async_host_access(self.device, out, BLOCK, false);
    assert_int_equal(self.conflict_count, 1);
    assert_non_null(strstr(self.conflict, "host reads 256 bytes"));
    drain(&self, second);
    tt_async_host_access(self.device, out, BLOCK, false);
    assert_int_equal(self.conflict_count, 1);
    /* A kernel reads what a fill of another stream writes. */
    struct move move;
    const struct tt_async_kernel kernel = move_kernel(&move, b, a);
    suite_hang(first);
    suite_hang(second);
    ok(tt_async_fill(first, a, 1, BLOCK, &why), &why);
    ok(tt_async_launch(second, &kernel, &why), &why);
    assert_int_equal(self.conflict_count, 2);
    assert_non_null(strstr(self.conflict, "move (operation 3 of stream 1) reads 256 bytes"));
    assert_non_null(strstr(self.conflict, "fill (operation 3 of stream 0) writes: no event"));
    /* Two reads do not conflict. */
    ok(tt_async_copy_within(second, b, a + BLOCK / 2, 1, &why), &why);
    assert_int_equal(self.conflict_count, 3); /* with the fill, again, and with nothing else */
    unhang(&self, first);
    if (suite_hangs_for_good)
        suite_unhang(second);
    else
        unhang(&self, second);
    tt_async_stream_close(first);
    tt_async_stream_close(second);
    tt_async_release(self.device, a, BLOCK);
    tt_async_release(self.device, b, BLOCK);
    tt_async_unpin(self.device, out);
    suite_fini(&self);
}

/* An event that was never recorded holds nothing up; one recorded again means the later place. */
static void test_events_again(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    struct tt_async_stream *first = open_stream(&self), *second = open_stream(&self);
    struct tt_async_event *event = open_event(&self);
    ok(tt_async_event_query(event, &why), &why);
    ok(tt_async_event_wait(event, 0, &why), &why);
    ok(tt_async_wait(first, event, &why), &why);
    for (int32_t i = 0; i < 50; i++) {
        ok(tt_async_record(first, event, &why), &why);
        ok(tt_async_wait(second, event, &why), &why);
        ok(tt_async_record(second, event, &why), &why);
        ok(tt_async_wait(first, event, &why), &why);
        if (i % 8 == 0)
            ok(tt_async_event_wait(event, TT_NEVER, &why), &why);
    }
    drain(&self, first);
    assert_int_equal(self.conflict_count, 0);
    tt_async_stream_close(first);
    tt_async_stream_close(second);
    tt_async_event_close(event);
    suite_fini(&self);
}

/* ---- pools ---- */

static void test_a_pool_reuses_after_events(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    struct tt_async_stream *first = open_stream(&self), *second = open_stream(&self);
    struct tt_async_pool *pool = NULL;
    ok(tt_async_pool_open(self.device, 2 * BLOCK, 4, &pool, &why), &why);
    uint64_t a = 0, b = 0, c = 0;
    ok(tt_async_pool_take(pool, first, BLOCK, &a, &why), &why);
    ok(tt_async_pool_take(pool, first, 100, &b, &why), &why);
    assert_int_equal(tt_async_pool_used(pool), 2 * BLOCK);
    assert_int_equal(tt_async_pool_take(pool, second, 1, &c, &why), TT_ERR_NO_MEMORY);
    assert_int_equal(tt_async_pool_take(pool, second, 3 * BLOCK, &c, &why), TT_ERR_NO_MEMORY);
    assert_non_null(strstr(why.text, "no block of 768 bytes in a pool of 512"));
    suite_hang(first);
    ok(tt_async_fill(first, a, 1, BLOCK, &why), &why);
    ok(tt_async_pool_give(pool, first, a, &why), &why);
    /* The fill has not run. The same stream may have the block at once; so may another, which waits
     * for the event on the device. */
    ok(tt_async_pool_take(pool, first, BLOCK, &c, &why), &why);
    assert_int_equal(c, a);
    ok(tt_async_fill(first, c, 2, BLOCK, &why), &why);
    ok(tt_async_pool_give(pool, first, c, &why), &why);
    ok(tt_async_pool_take(pool, second, BLOCK, &c, &why), &why);
    assert_int_equal(c, a);
    ok(tt_async_fill(second, c, 3, BLOCK, &why), &why);
    struct tt_async_event *filled = open_event(&self);
    ok(tt_async_record(second, filled, &why), &why);
    assert_int_equal(tt_async_event_query(filled, &why), TT_ERR_BUSY);
    ok(tt_async_pool_give(pool, first, b, &why), &why);
    ok(tt_async_pool_give(pool, second, c, &why), &why);
    /* Both are on their way back: together they would do. */
    assert_int_equal(tt_async_pool_take(pool, second, 2 * BLOCK, &b, &why), TT_ERR_BUSY);
    tt_async_pool_check(pool);
    unhang(&self, first);
    if (!suite_hangs_for_good) {
        drain(&self, second);
        ok(tt_async_pool_take(pool, second, 2 * BLOCK, &b, &why), &why);
        ok(tt_async_pool_give(pool, second, b, &why), &why);
        tt_async_pool_check(pool);
        drain(&self, second);
    }
    assert_int_equal(self.conflict_count, 0);
    tt_async_stream_close(first);
    tt_async_stream_close(second);
    tt_async_event_close(filled);
    tt_async_pool_close(pool);
    suite_fini(&self);
}

enum { POOL_BLOCKS = 24, PLACES = 14 };

/* A place takes, uses and gives blocks of any size on its stream; so the streams hand blocks to
 * each other. What a place wrote into its last block is what it read, and no access conflicts. */
struct place {
    uint64_t address; /* 0: it has none */
    size_t bytes, read_bytes;
    uint8_t value, read_value;
    uint8_t *out; /* [4 * BLOCK], pinned */
};

static bool place_take(struct place *self, struct tt_async_pool *pool,
                       struct tt_async_stream *stream, struct tt_prng *prng, uint8_t value) {
    struct tt_error why;
    self->bytes = 1 + tt_prng_below(prng, 4 * BLOCK);
    self->value = value;
    enum tt_err err = tt_async_pool_take(pool, stream, self->bytes, &self->address, &why);
    if (err) {
        assert_true(err == TT_ERR_BUSY || err == TT_ERR_NO_MEMORY);
        return false;
    }
    ok(tt_async_fill(stream, self->address, value, self->bytes, &why), &why);
    return true;
}

static void place_give(struct place *self, struct tt_async_pool *pool,
                       struct tt_async_stream *stream) {
    struct tt_error why;
    ok(tt_async_copy_out(stream, self->out, self->address, self->bytes, &why), &why);
    ok(tt_async_pool_give(pool, stream, self->address, &why), &why);
    self->address = 0;
    self->read_bytes = self->bytes;
    self->read_value = self->value;
}

static void test_a_pool_at_random(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, STREAMS, 1024);
    struct tt_error why;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(32), 0);
    struct tt_async_stream *streams[STREAMS];
    for (int32_t s = 0; s < STREAMS; s++)
        streams[s] = open_stream(&self);
    struct tt_async_pool *pool = NULL;
    ok(tt_async_pool_open(self.device, 16 * BLOCK, POOL_BLOCKS, &pool, &why), &why);
    struct place places[PLACES] = {0};
    for (int32_t p = 0; p < PLACES; p++)
        places[p].out = pin(&self, 4 * BLOCK);
    int32_t taken = 0, refused = 0;
    for (int32_t i = 0; i < 800; i++) {
        int32_t p = (int32_t)tt_prng_below(&prng, PLACES);
        struct tt_async_stream *stream = streams[p % STREAMS];
        if (places[p].address)
            place_give(&places[p], pool, stream);
        else if (place_take(&places[p], pool, stream, &prng, (uint8_t)(i % 255 + 1)))
            taken++;
        else
            refused++;
        tt_async_pool_check(pool);
        if (i % 16 == 15)
            drain(&self, streams[i / 16 % STREAMS]);
    }
    for (int32_t s = 0; s < STREAMS; s++)
        drain(&self, streams[s]);
    for (int32_t p = 0; p < PLACES; p++)
        for (size_t at = 0; at < places[p].read_bytes; at++)
            assert_int_equal(places[p].out[at], places[p].read_value);
    assert_true(taken > 50);
    assert_true(refused > 0);
    assert_int_equal(self.conflict_count, 0);
    for (int32_t s = 0; s < STREAMS; s++)
        tt_async_stream_close(streams[s]);
    for (int32_t p = 0; p < PLACES; p++)
        tt_async_unpin(self.device, places[p].out);
    tt_async_pool_close(pool);
    suite_fini(&self);
}

/* ---- limits ---- */

static void test_out_of_memory(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    uint64_t all = reserve(&self, 1 << 19), more = 7;
    assert_int_equal(tt_async_reserve(self.device, 1 << 20, &more, &why), TT_ERR_NO_MEMORY);
    assert_non_null(strstr(why.text, "1048576 bytes"));
    assert_int_equal(more, 7);
    struct tt_async_pool *pool = NULL;
    assert_int_equal(tt_async_pool_open(self.device, 1 << 20, 4, &pool, &why), TT_ERR_NO_MEMORY);
    /* It is no failure of the device. */
    assert_int_equal(tt_async_device_status(self.device, &why), TT_OK);
    tt_async_release(self.device, all, 1 << 19);
    all = reserve(&self, 1 << 19);
    tt_async_release(self.device, all, 1 << 19);
    suite_fini(&self);
}

/* Instants of events are in the order of their records, also when they are recorded again. */
static void test_events_keep_their_instants(void **state) {
    (void)state;
    struct suite self;
    struct tt_error why;
    suite_init(&self, 4, 16);
    struct tt_async_stream *stream = open_stream(&self);
    struct tt_async_event *events[2];
    uint64_t block = reserve(&self, BLOCK);
    int64_t before = -1, at;
    for (int i = 0; i < 2; i++)
        ok(tt_async_event_open_timed(self.device, &events[i], &why), &why);
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < 2; i++) {
            ok(tt_async_fill(stream, block, 1, BLOCK, &why), &why);
            ok(tt_async_record(stream, events[i], &why), &why);
            drain(&self, stream);
            ok(tt_async_event_instant(events[i], events[i]->turns, &at, &why), &why);
            assert_true(at >= before);
            before = at;
        }
    tt_async_device_fail(self.device, "it was asked to");
    assert_int_equal(tt_async_event_instant(events[0], 1, &at, &why), TT_ERR_UNAVAILABLE);
    for (int i = 0; i < 2; i++)
        tt_async_event_close(events[i]);
    tt_async_release(self.device, block, BLOCK);
    tt_async_stream_close(stream);
    ok(tt_async_device_restart(self.device, &why), &why);
    suite_fini(&self);
}

/* Each allocation of the host's memory fails once: nothing leaks, and nothing else is wrong. */
static enum tt_err open_all(struct tt_async_device *device, struct tt_error *why) {
    struct tt_async_stream *stream = NULL;
    struct tt_async_event *event = NULL;
    struct tt_async_pool *pool = NULL;
    enum tt_err err = tt_async_stream_open(device, &stream, why);
    if (!err)
        err = tt_async_event_open(device, &event, why);
    if (!err)
        err = tt_async_pool_open(device, BLOCK, 2, &pool, why);
    failing_allocation = 0;
    tt_async_pool_close(pool);
    if (event)
        tt_async_event_close(event);
    if (stream)
        tt_async_stream_close(stream);
    return err;
}

static struct tt_async_device *open_failing(int32_t number, struct tt_error *why) {
    const struct tt_async_order_options checks = {.max_streams = 4};
    struct suite_options options = {.memory_bytes = 1 << 20, .max_streams = 4, .queue_depth = 4};
    assert_int_equal(tt_async_order_new(&checks, &options.take_order, why), TT_OK);
    failing_allocation = number;
    struct tt_async_device *device = suite_open(&options, why);
    failing_allocation = 0;
    return device;
}

static void test_out_of_host_memory(void **state) {
    (void)state;
    struct tt_error why = {0};
    struct tt_async_device *device = NULL;
    int32_t number = 1;
    for (; !device; number++) {
        device = open_failing(number, &why);
        if (!device)
            assert_non_null(strstr(why.text, "out of memory"));
    }
    assert_true(number > 2);
    enum tt_err err = TT_ERR_NO_MEMORY;
    for (number = 1; err; number++) {
        failing_allocation = number;
        err = open_all(device, &why);
        if (err) {
            assert_int_equal(err, TT_ERR_NO_MEMORY);
            assert_non_null(strstr(why.text, "out of memory"));
        }
    }
    assert_true(number > 4);
    tt_async_device_close(device);
    tt_async_device_close(NULL);
}

static void test_limits_of_streams(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 2, 8);
    struct tt_error why;
    assert_int_equal(tt_async_device_info(self.device)->max_streams, 2);
    struct tt_async_stream *first = open_stream(&self), *second = open_stream(&self), *third = NULL;
    assert_int_equal(tt_async_stream_open(self.device, &third, &why), TT_ERR_BUSY);
    assert_non_null(strstr(why.text, "all 2 streams"));
    tt_async_stream_close(second);
    second = open_stream(&self);
    assert_int_equal(second->index, 1);
    if (suite_limits_queues) {
        uint64_t a = reserve(&self, BLOCK);
        suite_hang(first);
        int32_t submitted = 0;
        while (submitted < 100 && !tt_async_fill(first, a, 1, BLOCK, &why))
            submitted++;
        assert_in_range(submitted, 1, 8);
        assert_int_equal(tt_async_fill(first, a, 1, BLOCK, &why), TT_ERR_BUSY);
        assert_non_null(strstr(why.text, "queue of stream 0 is full"));
        suite_unhang(first);
        if (suite_hangs_for_good)
            tt_async_device_fail(self.device, "a stream hangs");
        else
            while (tt_async_fill(first, a, 1, BLOCK, &why) == TT_ERR_BUSY)
                sched_yield();
        tt_async_stream_close(first);
        tt_async_stream_close(second);
        tt_async_release(self.device, a, BLOCK);
    } else {
        tt_async_stream_close(first);
        tt_async_stream_close(second);
    }
    suite_fini(&self);
}

/* ---- failures ---- */

/* Every call says why. */
static void assert_failed(struct suite *self, struct tt_async_stream *stream,
                          struct tt_async_event *event, uint64_t address, uint8_t *host) {
    struct tt_error why;
    struct move move;
    const struct tt_async_kernel kernel = move_kernel(&move, address, address);
    uint64_t other = 0;
    void *pinned = NULL;
    struct tt_async_stream *new_stream = NULL;
    struct tt_async_event *new_event = NULL;
    const enum tt_err results[] = {
        tt_async_device_status(self->device, &why),
        tt_async_reserve(self->device, BLOCK, &other, &why),
        tt_async_pin(self->device, BLOCK, &pinned, &why),
        tt_async_stream_open(self->device, &new_stream, &why),
        tt_async_event_open(self->device, &new_event, &why),
        tt_async_record(stream, event, &why),
        tt_async_wait(stream, event, &why),
        tt_async_copy_in(stream, address, host, BLOCK, &why),
        tt_async_copy_out(stream, host, address, BLOCK, &why),
        tt_async_copy_within(stream, address, address, BLOCK, &why),
        tt_async_fill(stream, address, 1, BLOCK, &why),
        tt_async_launch(stream, &kernel, &why),
        tt_async_call(stream, note_call, NULL, &why),
        tt_async_event_query(event, &why),
        tt_async_event_wait(event, TT_NEVER, &why),
    };
    for (size_t i = 0; i < TT_COUNT(results); i++)
        assert_int_equal(results[i], TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "has failed: "));
}

static void test_a_failure_is_sticky(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    for (int32_t again = 0; again < 3; again++) {
        struct tt_async_stream *stream = open_stream(&self), *other = open_stream(&self);
        struct tt_async_event *event = open_event(&self), *happened = open_event(&self);
        uint64_t address = reserve(&self, BLOCK);
        uint8_t *host = pin(&self, BLOCK);
        ok(tt_async_fill(stream, address, 5, BLOCK, &why), &why);
        ok(tt_async_copy_out(stream, host, address, BLOCK, &why), &why);
        ok(tt_async_record(stream, happened, &why), &why);
        ok(tt_async_event_wait(happened, TT_NEVER, &why), &why);
        assert_int_equal(host[BLOCK - 1], 5);
        suite_break(self.device, stream);
        enum tt_err err = tt_async_record(stream, event, &why);
        if (!err) /* the failure comes while the host waits, if not before */
            err = tt_async_event_wait(event, TT_NEVER, &why);
        assert_int_equal(err, TT_ERR_UNAVAILABLE);
        assert_failed(&self, stream, event, address, host);
        assert_failed(&self, other, happened, address, host);
        tt_async_stream_close(stream);
        tt_async_stream_close(other);
        tt_async_event_close(event);
        tt_async_event_close(happened);
        tt_async_release(self.device, address, BLOCK);
        tt_async_unpin(self.device, host);
        ok(tt_async_device_restart(self.device, &why), &why);
        ok(tt_async_device_status(self.device, &why), &why);
    }
    assert_int_equal(self.conflict_count, 0);
    suite_fini(&self);
}

static void test_a_hung_stream_is_found(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    struct tt_async_stream *hung = open_stream(&self), *healthy = open_stream(&self);
    struct tt_async_event *event = open_event(&self), *other = open_event(&self);
    suite_hang(hung);
    ok(tt_async_record(hung, event, &why), &why);
    assert_int_equal(tt_async_event_query(event, &why), TT_ERR_BUSY);
    int64_t until_at = tt_async_device_now(self.device) + 5 * TT_MS;
    assert_int_equal(tt_async_event_wait(event, until_at, &why), TT_ERR_TIMEOUT);
    assert_true(tt_async_device_now(self.device) >= until_at);
    /* Other streams go on. */
    ok(tt_async_record(healthy, other, &why), &why);
    ok(tt_async_event_wait(other, TT_NEVER, &why), &why);
    if (suite_hangs_for_good) { /* a watchdog gives the device up */
        tt_async_device_fail(self.device, "stream 0 hangs");
        assert_int_equal(tt_async_event_wait(event, TT_NEVER, &why), TT_ERR_UNAVAILABLE);
        assert_non_null(strstr(why.text, "stream 0 hangs"));
    } else {
        suite_unhang(hung);
        ok(tt_async_event_wait(event, TT_NEVER, &why), &why);
    }
    tt_async_stream_close(hung);
    tt_async_stream_close(healthy);
    tt_async_event_close(event);
    tt_async_event_close(other);
    if (suite_hangs_for_good)
        ok(tt_async_device_restart(self.device, &why), &why);
    suite_fini(&self);
}

#define SUITE_TESTS                                                                                \
    cmocka_unit_test(test_a_stream_keeps_its_order), cmocka_unit_test(test_calls_come_in_order),   \
        cmocka_unit_test(test_events_order_streams),                                               \
        cmocka_unit_test(test_a_missing_wait_is_found),                                            \
        cmocka_unit_test(test_a_conflict_names_both), cmocka_unit_test(test_events_again),         \
        cmocka_unit_test(test_a_pool_reuses_after_events),                                         \
        cmocka_unit_test(test_a_pool_at_random), cmocka_unit_test(test_out_of_memory),             \
        cmocka_unit_test(test_events_keep_their_instants),                                         \
        cmocka_unit_test(test_out_of_host_memory), cmocka_unit_test(test_limits_of_streams),       \
        cmocka_unit_test(test_a_failure_is_sticky), cmocka_unit_test(test_a_hung_stream_is_found)

#endif
