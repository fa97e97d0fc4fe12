/* D4: the order checker by itself: vector clocks, what is kept, what is forgotten. */
#include "device/async_order.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct checked {
    struct tt_async_order *order;
    char text[512];
};

static void on_conflict(void *context, const char *text) {
    struct checked *self = context;
    snprintf(self->text, sizeof(self->text), "%s", text);
}

static void checked_init(struct checked *self, int32_t streams, int32_t accesses) {
    const struct tt_async_order_options options = {.max_streams = streams,
                                                   .max_accesses = accesses,
                                                   .on_conflict = on_conflict,
                                                   .context = self};
    struct tt_error why;
    memset(self, 0, sizeof(*self));
    assert_int_equal(tt_async_order_new(&options, &self->order, &why), TT_OK);
}

static void touch(struct checked *self, int32_t stream, uint64_t address, size_t bytes,
                  bool writes) {
    const struct tt_async_range range = {address, bytes, writes};
    tt_async_order_operation(self->order, stream, writes ? "write" : "read", &range, 1);
}

static void assert_conflicts(struct checked *self, int64_t count) {
    assert_int_equal(tt_async_order_conflicts(self->order), count);
}

static void test_what_conflicts(void **state) {
    (void)state;
    struct checked self;
    checked_init(&self, 4, 0);
    touch(&self, 0, 100, 10, true);
    touch(&self, 0, 100, 10, false); /* the stream's own order */
    touch(&self, 1, 110, 10, true);  /* the next byte */
    touch(&self, 1, 90, 10, true);   /* the byte before */
    assert_conflicts(&self, 0);
    touch(&self, 1, 109, 1, false); /* reads what stream 0 writes */
    assert_conflicts(&self, 1);
    touch(&self, 2, 200, 8, false);
    touch(&self, 3, 200, 8, false); /* two reads */
    assert_conflicts(&self, 1);
    touch(&self, 1, 204, 1, true); /* a write against both reads */
    assert_conflicts(&self, 3);
    assert_string_equal(self.text, "write (operation 4 of stream 1) writes 1 bytes at 0xcc that "
                                   "read (operation 1 of stream 3) reads: no event orders the two");
    touch(&self, 0, 204, 0, true); /* no byte */
    assert_conflicts(&self, 3);
    tt_async_order_free(self.order);
}

/* Order passes on from stream to stream, and through the host. */
static void test_order_is_transitive(void **state) {
    (void)state;
    struct checked self;
    checked_init(&self, 4, 0);
    uint64_t *first = tt_async_order_clock_new(self.order);
    uint64_t *second = tt_async_order_clock_new(self.order);
    assert_non_null(first);
    assert_non_null(second);
    touch(&self, 0, 0, 64, true);
    tt_async_order_record(self.order, 0, first);
    touch(&self, 0, 64, 64, true); /* behind the event */
    tt_async_order_wait(self.order, 1, first);
    tt_async_order_record(self.order, 1, second);
    tt_async_order_wait(self.order, 2, second);
    touch(&self, 2, 0, 64, true);
    assert_conflicts(&self, 0);
    touch(&self, 2, 64, 64, false);
    assert_conflicts(&self, 1);
    /* The host waits for an event of stream 2; what is submitted later comes after it. */
    tt_async_order_record(self.order, 2, second);
    tt_async_order_host_waited(self.order, second);
    touch(&self, 3, 0, 64, true);
    assert_conflicts(&self, 1);
    touch(&self, 3, 64, 64, true); /* the write of stream 0 is still not ordered */
    assert_conflicts(&self, 2);
    free(first);
    free(second);
    tt_async_order_free(self.order);
}

static void test_an_event_recorded_out_of_order(void **state) {
    (void)state;
    struct checked self;
    checked_init(&self, 2, 0);
    uint64_t *clock = tt_async_order_clock_new(self.order);
    assert_non_null(clock);
    touch(&self, 0, 0, 1, true);
    tt_async_order_record(self.order, 0, clock);
    tt_async_order_record(self.order, 1, clock);
    assert_conflicts(&self, 1);
    assert_non_null(strstr(self.text, "recorded again on stream 1"));
    tt_async_order_record(self.order, 1, clock);
    assert_conflicts(&self, 1);
    free(clock);
    tt_async_order_free(self.order);
}

static void test_the_host_takes_part(void **state) {
    (void)state;
    struct checked self;
    checked_init(&self, 2, 0);
    uint64_t *clock = tt_async_order_clock_new(self.order);
    assert_non_null(clock);
    const struct tt_async_range range = {0, 8, true};
    touch(&self, 0, 0, 8, true);
    tt_async_order_host_access(self.order, "release", &range);
    assert_conflicts(&self, 1);
    assert_non_null(strstr(self.text, "release writes 8 bytes at 0x0 that write (operation 1"));
    tt_async_order_record(self.order, 0, clock);
    tt_async_order_host_waited(self.order, clock);
    tt_async_order_host_access(self.order, "release", &range);
    assert_conflicts(&self, 1);
    touch(&self, 0, 0, 8, true);
    tt_async_order_clear(self.order); /* the device has restarted */
    touch(&self, 1, 0, 8, true);
    assert_conflicts(&self, 1);
    free(clock);
    tt_async_order_free(self.order);
}

/* More accesses than are kept: the oldest are forgotten, and counted. Covered ones need no room. */
static void test_what_is_forgotten(void **state) {
    (void)state;
    struct checked self;
    checked_init(&self, 2, 4);
    for (int32_t i = 0; i < 100; i++)
        touch(&self, 0, 0, 8, true);
    assert_int_equal(tt_async_order_forgotten(self.order), 0);
    for (uint64_t i = 0; i < 6; i++)
        touch(&self, 0, 100 + i, 1, true);
    assert_int_equal(tt_async_order_forgotten(self.order), 3);
    touch(&self, 1, 100, 1, true); /* forgotten, so not found */
    assert_conflicts(&self, 0);
    touch(&self, 1, 105, 1, true);
    assert_conflicts(&self, 1);
    tt_async_order_free(self.order);
}

static void test_too_many_streams(void **state) {
    (void)state;
    const struct tt_async_order_options options = {.max_streams = 4096};
    struct tt_async_order *order = NULL;
    struct tt_error why;
    assert_int_equal(tt_async_order_new(&options, &order, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "the order of 4096 streams cannot be checked; 1 to 256 can");
    tt_async_order_free(NULL);
}

/* ---- against a naive model ---- */

enum { STREAMS = 3, EVENTS = 3, STEPS = 120, BYTES = 4 };

/* Nodes are steps; `before[a][b]`: a comes before b, by the closure of all edges. */
struct naive {
    bool before[STEPS][STEPS];
    int32_t last[STREAMS]; /* the last step of a stream; -1 */
    int32_t event[EVENTS]; /* the step that recorded it; -1 */
    int32_t host;          /* the last step that the host did; -1 */
    int32_t stream[STEPS], address[STEPS];
    bool is_access[STEPS], writes[STEPS];
};

static void add_edge(struct naive *self, int32_t from, int32_t to) {
    if (from < 0)
        return;
    self->before[from][to] = true;
    for (int32_t i = 0; i < to; i++)
        if (self->before[i][from])
            self->before[i][to] = true;
}

static int32_t naive_conflicts(const struct naive *self, int32_t step) {
    int32_t count = 0;
    for (int32_t i = 0; i < step; i++)
        count += self->is_access[i] && self->address[i] == self->address[step] &&
                 (self->writes[i] || self->writes[step]) && !self->before[i][step];
    return count;
}

/* Every step of a stream comes after the one before and after what the host had seen by then. */
static void begin_step(struct naive *self, int32_t step, int32_t stream) {
    add_edge(self, self->last[stream], step);
    add_edge(self, self->host, step);
    self->last[stream] = step;
    self->stream[step] = stream;
}

static void random_step(struct checked *self, struct naive *naive, struct tt_prng *prng,
                        uint64_t *const clocks[EVENTS], int32_t step) {
    int32_t stream = (int32_t)tt_prng_below(prng, STREAMS);
    int32_t event = (int32_t)tt_prng_below(prng, EVENTS);
    uint64_t kind = tt_prng_below(prng, 8);
    if (kind == 0) { /* the host waits: a step of its own */
        add_edge(naive, naive->event[event], step);
        add_edge(naive, naive->host, step);
        naive->host = step;
        tt_async_order_host_waited(self->order, clocks[event]);
        return;
    }
    begin_step(naive, step, stream);
    if (kind == 1) {
        /* Each event belongs to a stream, so that it is never recorded out of order. */
        if (event != stream)
            return;
        naive->event[event] = step;
        tt_async_order_record(self->order, stream, clocks[event]);
    } else if (kind == 2) {
        add_edge(naive, naive->event[event], step);
        tt_async_order_wait(self->order, stream, clocks[event]);
    } else {
        naive->is_access[step] = true;
        naive->writes[step] = tt_prng_below(prng, 2) == 0;
        naive->address[step] = (int32_t)tt_prng_below(prng, BYTES);
        touch(self, stream, (uint64_t)naive->address[step], 1, naive->writes[step]);
    }
}

/* The checker reports a conflict at just the steps at which the model has one. (It may report fewer
 * pairs: what a later write covers is not compared again.) */
static void test_against_a_naive_model(void **state) {
    (void)state;
    uint64_t seed = test_seed(33);
    int32_t with = 0, without = 0;
    for (uint64_t run = 0; run < 60; run++) {
        struct checked self;
        struct tt_prng prng;
        struct naive *naive = calloc(1, sizeof(*naive));
        uint64_t *clocks[EVENTS];
        assert_non_null(naive);
        checked_init(&self, STREAMS, 0);
        tt_prng_init(&prng, seed, run);
        naive->host = -1;
        for (int32_t i = 0; i < EVENTS; i++) {
            clocks[i] = tt_async_order_clock_new(self.order);
            naive->event[i] = naive->last[i] = -1;
        }
        for (int32_t step = 0; step < STEPS; step++) {
            int64_t before = tt_async_order_conflicts(self.order);
            random_step(&self, naive, &prng, clocks, step);
            bool found = tt_async_order_conflicts(self.order) > before;
            bool expected = naive->is_access[step] && naive_conflicts(naive, step) > 0;
            assert_int_equal(found, expected);
            with += expected;
            without += naive->is_access[step] && !expected;
        }
        for (int32_t i = 0; i < EVENTS; i++)
            free(clocks[i]);
        free(naive);
        tt_async_order_free(self.order);
    }
    assert_true(with > 100);
    assert_true(without > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_conflicts),
        cmocka_unit_test(test_order_is_transitive),
        cmocka_unit_test(test_an_event_recorded_out_of_order),
        cmocka_unit_test(test_the_host_takes_part),
        cmocka_unit_test(test_what_is_forgotten),
        cmocka_unit_test(test_too_many_streams),
        cmocka_unit_test(test_against_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
