/* E1: inputs in a ring of slots: none is lost or leaked, whatever comes, goes and waits in whatever
 * order. */
#include "base/prng.h"
#include "engine/engine.h"
#include "serve/inference.h"
#include "serve/inference_state.h"
#include "serve/input_ring.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ROWS = 3, ROW_BYTES = 8 };

static const struct tt_signature signature = {
    .batched = true,
    .max_batch = 4,
    .input_count = 1,
    .inputs = {{"x", TT_DTYPE_INT64, {2, {-1, 1}}}},
};

/* An inference as ports and scheduler know it, and what the test knows of it. */
struct guest {
    struct tt_inference inference;
    struct tt_tensor_view view;
    int64_t own[MAX_ROWS];
    enum { AWAY, BEGUN, SUBMITTED, READY } state;
    int64_t turn; /* of its submission */
};

struct world {
    struct tt_input_ring *ring;
    struct guest *guests;
    int32_t count;
    int64_t turns, last_came;
    int64_t held, came;
};

static void write_rows(struct guest *guest, int64_t word) {
    int64_t *to = (int64_t *)guest->view.bytes;
    for (int32_t i = 0; i < guest->inference.rows; i++)
        to[i] = word + i;
}

static void expect_rows(const struct guest *guest, int64_t word) {
    const int64_t *from = guest->view.bytes;
    for (int32_t i = 0; i < guest->inference.rows; i++)
        if (from[i] != word + i)
            fail_msg("row %d of guest %lld was written over", i, (long long)word);
}

static int64_t word_of(const struct world *self, const struct guest *guest) {
    return 1000 * (guest - self->guests);
}

static void begin(struct world *self, struct guest *guest, int32_t rows) {
    guest->inference.rows = rows;
    guest->inference.inputs = &guest->view;
    tt_input_ring_take(self->ring, &guest->inference);
    guest->view.size_bytes = (size_t)rows * ROW_BYTES;
    guest->view.bytes = guest->inference.slot >= 0
                            ? tt_input_ring_at(self->ring, &guest->inference, 0)
                            : guest->own;
    write_rows(guest, word_of(self, guest));
    guest->state = BEGUN;
}

static void submit(struct world *self, struct guest *guest) {
    guest->turn = ++self->turns;
    guest->state = SUBMITTED;
    if (guest->inference.slot < 0) {
        self->held++;
        tt_input_ring_send(self->ring, &guest->inference);
    } else if (tt_input_ring_arrived(self->ring, &guest->inference)) {
        guest->state = READY;
    } else {
        fail_msg("an input in slots has not arrived");
    }
}

static void leave(struct world *self, struct guest *guest) {
    if (guest->state == READY)
        expect_rows(guest, word_of(self, guest));
    tt_input_ring_forget(self->ring, &guest->inference);
    tt_input_ring_give(self->ring, &guest->inference);
    guest->state = AWAY;
}

/* Those that waited come in the order in which they lined up. */
static void take_in(struct world *self) {
    struct tt_inference *inference;
    while ((inference = tt_input_ring_came(self->ring))) {
        struct guest *guest = TT_CONTAINER_OF(inference, struct guest, inference);
        assert_int_equal(guest->state, SUBMITTED);
        assert_true(inference->slot >= 0);
        assert_ptr_equal(guest->view.bytes, tt_input_ring_at(self->ring, inference, 0));
        assert_true(guest->turn > self->last_came);
        self->last_came = guest->turn;
        guest->state = READY;
        self->came++;
    }
}

static void check(const struct world *self) {
    tt_slot_ring_check(&self->ring->slots);
    for (int32_t i = 0; i < self->count; i++)
        if (self->guests[i].state == READY || self->guests[i].state == BEGUN)
            expect_rows(&self->guests[i], word_of(self, &self->guests[i]));
}

/* Random events: every waiting request gets its turn in the end, and no slot is lost. */
static void storm(int32_t slots, int32_t count, int64_t events, uint64_t seed) {
    struct tt_error why;
    struct world world = {.count = count, .guests = calloc((size_t)count, sizeof(struct guest))};
    assert_non_null(world.guests);
    assert_int_equal(tt_input_ring_new(&signature, slots, &world.ring, &why), TT_OK);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    int32_t most = slots < MAX_ROWS ? slots : MAX_ROWS;
    for (int64_t i = 0; i < events; i++) {
        struct guest *guest = &world.guests[tt_prng_below(&prng, (uint64_t)count)];
        bool gives_up = tt_prng_below(&prng, 16) == 0;
        if (guest->state == AWAY)
            begin(&world, guest, 1 + (int32_t)tt_prng_below(&prng, (uint64_t)most));
        else if (guest->state == BEGUN && !gives_up)
            submit(&world, guest);
        else if (guest->state != SUBMITTED || gives_up)
            leave(&world, guest);
        if (tt_prng_below(&prng, 4) == 0)
            take_in(&world);
        if (i % 1024 == 0)
            check(&world);
    }
    take_in(&world);
    for (int32_t i = 0; i < count; i++)
        if (world.guests[i].state == BEGUN || world.guests[i].state == READY)
            leave(&world, &world.guests[i]);
    for (bool any = true; any;) {
        take_in(&world);
        any = false;
        for (int32_t i = 0; i < count; i++) {
            if (world.guests[i].state != READY)
                continue;
            leave(&world, &world.guests[i]);
            any = true;
        }
    }
    for (int32_t i = 0; i < count; i++)
        if (world.guests[i].state != AWAY)
            fail_msg("seed %llu, %d slots: guest %d waits for ever", (unsigned long long)seed,
                     slots, i);
    assert_int_equal(world.ring->slots.used, 0);
    assert_true(world.held > 0);
    assert_true(world.came > 0);
    tt_input_ring_free(world.ring);
    free(world.guests);
}

static void ten_million_events_leak_no_slot(void **state) {
    (void)state;
    static const int32_t slots[] = {1, 2, 3, 7, 64};
    for (size_t i = 0; i < TT_COUNT(slots); i++)
        for (uint64_t seed = test_seed(1), end = seed + 4; seed < end; seed++) {
            print_message("%d slots, seed %llu\n", slots[i], (unsigned long long)seed);
            storm(slots[i], slots[i] + 8, 510000, seed);
        }
}

static void says_what_fits(void **state) {
    (void)state;
    struct tt_signature other = signature;
    assert_true(tt_input_ring_fits(&other));
    other.inputs[0].shape.dims[1] = -1;
    assert_false(tt_input_ring_fits(&other));
    other = signature;
    other.batched = false;
    assert_false(tt_input_ring_fits(&other));
    other = signature;
    other.inputs[0].dtype = TT_DTYPE_BYTES;
    assert_false(tt_input_ring_fits(&other));
}

static void sizes_follow_the_model(void **state) {
    (void)state;
    struct tt_error why = {{0}};
    struct tt_input_ring *ring;
    struct tt_signature large = signature;
    assert_int_equal(tt_input_ring_new(&large, 0, &ring, &why), TT_OK);
    assert_int_equal(ring->slots.capacity, 64);
    tt_input_ring_free(ring);
    large.max_batch = 100;
    assert_int_equal(tt_input_ring_new(&large, 0, &ring, &why), TT_OK);
    assert_int_equal(ring->slots.capacity, 400);
    tt_input_ring_free(ring);
    large.max_batch = 4;
    large.inputs[0].shape.dims[1] = 1 << 23; /* 64 MiB a row: 16 of them are a GiB */
    assert_int_equal(tt_input_ring_new(&large, 0, &ring, &why), TT_OK);
    assert_int_equal(ring->slots.capacity, 16);
    tt_input_ring_free(ring);
    assert_int_equal(tt_input_ring_new(&large, 129, &ring, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "input_slots: 129 slots of 67108864 bytes are more than 8 GiB; "
                                  "at most 128");
}

/* While a model is loaded anew its old ring and its new one are counted together. */
static void rings_of_a_model_are_counted_together(void **state) {
    (void)state;
    struct tt_counter slots = {0}, in_use = {0};
    struct tt_input_ring *rings[2];
    struct guest guests[2] = {0};
    for (int32_t i = 0; i < 2; i++) {
        struct tt_error why;
        assert_int_equal(tt_input_ring_new(&signature, 5 + i, &rings[i], &why), TT_OK);
        tt_input_ring_show(rings[i], &slots, &in_use);
        guests[i].inference.rows = 2 + i;
        guests[i].inference.inputs = &guests[i].view;
        tt_input_ring_take(rings[i], &guests[i].inference);
    }
    assert_int_equal(tt_counter_get(&slots), 11);
    assert_int_equal(tt_counter_get(&in_use), 5);
    tt_input_ring_give(rings[0], &guests[0].inference);
    assert_int_equal(tt_counter_get(&in_use), 3);
    tt_input_ring_free(rings[0]);
    assert_int_equal(tt_counter_get(&slots), 6);
    assert_int_equal(tt_counter_get(&in_use), 3);
    tt_input_ring_give(rings[1], &guests[1].inference);
    tt_input_ring_free(rings[1]);
    assert_int_equal(tt_counter_get(&slots), 0);
    assert_int_equal(tt_counter_get(&in_use), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_million_events_leak_no_slot),
        cmocka_unit_test(says_what_fits),
        cmocka_unit_test(sizes_follow_the_model),
        cmocka_unit_test(rings_of_a_model_are_counted_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
