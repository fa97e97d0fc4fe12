/* Which body gives way, on which thread; what an identity may hold; and random lives of bodies. */
#include "net/access/body_budget.h"

#include "base/prng.h"
#include "net/access/access_control.h"
#include "net/access/address_limits.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

struct body {
    struct tt_body_part part; /* the first member */
    int evicted;
};

static void on_evicted(struct tt_body_part *part) {
    ((struct body *)part)->evicted++;
    tt_body_part_end(part);
}

/* Two threads, of which `one` is ours. */
static struct tt_quota quota;
static struct tt_largest board;
static struct tt_body_budget one, other;
static int one_woken, other_woken;

static void wake(void *context) { ++*(int *)context; }

static void begin(int64_t limit) {
    tt_quota_init(&quota, limit);
    tt_largest_init(&board);
    tt_body_budget_init(&one, &quota, &board);
    tt_body_budget_init(&other, &quota, &board);
    one_woken = other_woken = 0;
    tt_body_budget_join(&one, wake, &one_woken);
    tt_body_budget_join(&other, wake, &other_woken);
}

static void end(void) {
    tt_body_budget_check(&one);
    tt_body_budget_check(&other);
    tt_body_budget_fini(&one);
    tt_body_budget_fini(&other);
    tt_largest_fini(&board);
    assert_int_equal(tt_quota_used(&quota), 0);
}

static struct body body_of(void) { return (struct body){.part.evict = on_evicted}; }

static enum tt_body_taken take(struct body *body, struct tt_body_budget *budget, size_t bytes) {
    enum tt_body_taken taken = tt_body_part_take(&body->part, budget, bytes);
    tt_body_budget_check(&one);
    tt_body_budget_check(&other);
    return taken;
}

static enum tt_body_taken set(struct body *body, struct tt_body_budget *budget, int64_t bytes) {
    enum tt_body_taken taken = tt_body_part_set(&body->part, budget, bytes);
    tt_body_budget_check(&one);
    tt_body_budget_check(&other);
    return taken;
}

static void test_the_largest_of_the_thread(void **state) {
    (void)state;
    struct body hog = body_of(), older = body_of(), small = body_of(), asking = body_of();
    begin(1000 * KIB);
    assert_int_equal(take(&older, &one, 200 * KIB), TT_BODY_TAKEN);
    assert_int_equal(take(&hog, &one, 500 * KIB), TT_BODY_TAKEN);
    assert_int_equal(take(&small, &one, 60 * KIB), TT_BODY_TAKEN);
    assert_int_equal(take(&asking, &one, 300 * KIB), TT_BODY_TAKEN);
    assert_int_equal(hog.evicted, 1);
    assert_int_equal(older.evicted, 0);
    /* It is the largest itself now. */
    assert_int_equal(take(&asking, &one, 600 * KIB), TT_BODY_NO_ROOM);
    assert_int_equal(asking.part.bytes, 300 * KIB);
    tt_body_part_settle(&asking.part); /* complete: it is not evicted any more */
    assert_int_equal(take(&small, &one, 500 * KIB), TT_BODY_NO_ROOM);
    assert_int_equal(asking.evicted + older.evicted, 0);
    tt_body_part_end(&asking.part);
    tt_body_part_end(&asking.part);
    assert_int_equal(take(&small, &one, 500 * KIB), TT_BODY_TAKEN);
    tt_body_part_end(&small.part);
    tt_body_part_end(&older.part);
    end();
}

static void test_the_largest_of_all_threads(void **state) {
    (void)state;
    struct body hog = body_of(), mine = body_of(), asking = body_of(), late = body_of();
    begin(1000 * KIB);
    assert_int_equal(take(&hog, &other, 600 * KIB), TT_BODY_TAKEN);
    assert_int_equal(take(&mine, &one, 100 * KIB), TT_BODY_TAKEN);
    /* It goes on at once, beyond the limit until the other thread has done its part. */
    assert_int_equal(take(&asking, &one, 400 * KIB), TT_BODY_TAKEN);
    assert_int_equal(other_woken, 1);
    assert_int_equal(one_woken + mine.evicted + hog.evicted, 0);
    assert_true(tt_quota_used(&quota) > quota.limit);
    /* All that the other thread gives is spoken for. */
    assert_int_equal(take(&late, &one, 401 * KIB), TT_BODY_NO_ROOM);
    tt_body_budget_relieve(&one); /* nothing was asked of it */
    assert_int_equal(asking.evicted, 0);
    tt_body_budget_relieve(&other);
    assert_int_equal(hog.evicted, 1);
    assert_true(tt_quota_used(&quota) <= quota.limit);
    tt_body_budget_relieve(&other);
    assert_int_equal(take(&late, &one, 300 * KIB), TT_BODY_TAKEN);
    tt_body_budget_leave(&one);
    assert_int_equal(take(&hog, &other, 300 * KIB), TT_BODY_NO_ROOM); /* it has left */
    tt_body_part_end(&mine.part);
    tt_body_part_end(&asking.part);
    tt_body_part_end(&late.part);
    end();
}

static void test_identity(void **state) {
    (void)state;
    static const char text[] =
        "ann infer 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef "
        "bytes=1048576\n";
    struct tt_token_table *table;
    struct tt_error why;
    struct body first = body_of(), second = body_of(), moved = {.evicted = 0};
    assert_int_equal(tt_token_table_parse("tokens", text, strlen(text), NULL, &table, &why), TT_OK);
    struct tt_identity *ann = table->entries[0].identity;
    begin(4 * MIB);
    first.part.holder = second.part.holder = &ann->holder;
    tt_byte_holder_ref(&ann->holder);
    tt_byte_holder_ref(&ann->holder);
    assert_int_equal(take(&first, &one, 60 * KIB), TT_BODY_TAKEN);
    assert_int_equal(tt_client_limits_bytes(&ann->holder.limits), 0); /* it is small */
    assert_int_equal(take(&first, &one, 540 * KIB), TT_BODY_TAKEN);
    assert_int_equal(tt_client_limits_bytes(&ann->holder.limits), 600 * KIB);
    assert_int_equal(take(&second, &other, 425 * KIB), TT_BODY_OVER_SHARE);
    assert_int_equal(take(&second, &other, 424 * KIB), TT_BODY_TAKEN);
    tt_body_part_move(&first.part, &moved.part);
    assert_int_equal(take(&first, &one, 70 * KIB), TT_BODY_OVER_SHARE);
    tt_body_part_end(&moved.part);
    assert_int_equal(tt_client_limits_bytes(&ann->holder.limits), 424 * KIB);
    assert_int_equal(take(&first, &one, 70 * KIB), TT_BODY_TAKEN);
    tt_body_part_clear(&first.part);
    tt_body_part_end(&first.part);
    tt_body_part_end(&second.part);
    assert_int_equal(tt_client_limits_bytes(&ann->holder.limits), 0);
    tt_token_table_check(table);
    tt_token_table_unref(table);
    end();
}

/* A body that was moved keeps the holder when its address has no connection any more. */
static void test_address(void **state) {
    (void)state;
    struct tt_address_limits *limits = tt_address_limits_new(0, MIB);
    struct tt_address_place *place;
    struct tt_error why;
    struct body first = body_of(), second = body_of(), moved = {.evicted = 0};
    const struct tt_peer_address peer = {.is_known = true, .bytes = {1}};
    assert_true(tt_address_limits_enter(limits, &peer, &place, &why));
    struct tt_byte_holder *address = tt_address_place_holder(place);
    begin(4 * MIB);
    first.part.holder = tt_byte_holder_ref(tt_identity_holder(NULL, address));
    second.part.holder = tt_byte_holder_ref(address);
    assert_int_equal(take(&first, &one, 600 * KIB), TT_BODY_TAKEN);
    assert_int_equal(take(&second, &other, 425 * KIB), TT_BODY_OVER_SHARE);
    tt_body_part_move(&first.part, &moved.part);
    tt_body_part_end(&first.part);
    tt_body_part_end(&second.part);
    tt_address_limits_leave(limits, place);
    assert_int_equal(tt_client_limits_bytes(&moved.part.holder->limits), 600 * KIB);
    tt_body_part_end(&moved.part);
    tt_address_limits_free(limits);
    end();
}

/* An identity with a limit of its own counts, else the address. */
static void test_whose(void **state) {
    (void)state;
    struct tt_identity limited = {.holder = {.bytes_limit = 1}}, unlimited = {.name = "bob"};
    struct tt_byte_holder address = {.bytes_limit = 2};
    assert_ptr_equal(tt_identity_holder(&limited, &address), &limited.holder);
    assert_ptr_equal(tt_identity_holder(&unlimited, &address), &address);
    assert_ptr_equal(tt_identity_holder(NULL, &address), &address);
    assert_null(tt_identity_holder(&unlimited, NULL));
}

static void test_set(void **state) {
    (void)state;
    struct body body = body_of();
    begin(1000 * KIB);
    assert_int_equal(set(&body, &one, 0), TT_BODY_TAKEN);
    assert_int_equal(set(&body, &one, 500 * KIB), TT_BODY_TAKEN);
    assert_int_equal(one.largest_bytes, 500 * KIB);
    assert_int_equal(set(&body, &one, 300 * KIB), TT_BODY_TAKEN);
    assert_int_equal(one.largest_bytes, 300 * KIB);
    assert_int_equal(set(&body, &one, 2000 * KIB), TT_BODY_NO_ROOM);
    assert_int_equal(body.part.bytes, 300 * KIB);
    assert_int_equal(set(&body, &one, KIB), TT_BODY_TAKEN); /* it is small */
    assert_int_equal(one.largest_bytes, 0);
    assert_int_equal(set(&body, &one, 0), TT_BODY_TAKEN);
    tt_body_part_end(&body.part);
    end();
}

/* What has been held for long gives way before what is large. */
static void test_timed(void **state) {
    (void)state;
    struct body slow = body_of(), large = body_of(), elsewhere = body_of(), asking = body_of();
    begin(1000 * KIB);
    one.is_timed = other.is_timed = true;
    assert_int_equal(set(&slow, &one, 200 * KIB), TT_BODY_TAKEN);
    one.now_ms = 1000;
    assert_int_equal(set(&large, &one, 700 * KIB), TT_BODY_TAKEN);
    one.now_ms = 1010;
    assert_int_equal(set(&asking, &one, 250 * KIB), TT_BODY_TAKEN);
    assert_int_equal(slow.evicted, 1);
    assert_int_equal(large.evicted, 0);
    /* It is the largest, and goes all the same before what has waited. */
    assert_int_equal(set(&asking, &one, 900 * KIB), TT_BODY_TAKEN);
    assert_int_equal(large.evicted, 1);
    assert_int_equal(set(&asking, &one, 1001 * KIB), TT_BODY_NO_ROOM);
    /* One that has begun asks another thread for the room, whatever that one holds. */
    assert_int_equal(set(&asking, &one, 0), TT_BODY_TAKEN);
    assert_int_equal(set(&elsewhere, &other, 300 * KIB), TT_BODY_TAKEN);
    assert_int_equal(set(&asking, &one, 900 * KIB), TT_BODY_TAKEN);
    assert_int_equal(other_woken, 1);
    tt_body_budget_relieve(&other);
    assert_int_equal(elsewhere.evicted, 1);
    /* The thread whose parts hold more, together, gives way, with as many as it takes. */
    assert_int_equal(set(&asking, &one, 0), TT_BODY_TAKEN);
    assert_int_equal(set(&elsewhere, &other, 300 * KIB), TT_BODY_TAKEN);
    assert_int_equal(set(&slow, &other, 300 * KIB), TT_BODY_TAKEN);
    assert_int_equal(set(&large, &one, 350 * KIB), TT_BODY_TAKEN);
    assert_int_equal(set(&asking, &one, 500 * KIB), TT_BODY_TAKEN);
    assert_int_equal(other_woken, 2);
    tt_body_budget_relieve(&other);
    assert_int_equal(elsewhere.evicted + slow.evicted, 4);
    assert_int_equal(large.evicted, 1);
    tt_body_part_end(&large.part);
    tt_body_part_end(&asking.part);
    end();
}

/* One that is larger than the limit goes alone, and what is asked of another thread is asked once.
 */
static void test_timed_asks_for_no_more(void **state) {
    (void)state;
    enum { PARTS = 9 };
    struct body waiting[PARTS], large = body_of(), first = body_of(), second = body_of();
    int evicted = 0;
    begin(1000 * KIB);
    one.is_timed = other.is_timed = true;
    for (int i = 0; i < PARTS; i++) {
        waiting[i] = body_of();
        assert_int_equal(set(&waiting[i], &other, 100 * KIB), TT_BODY_TAKEN);
    }
    other.now_ms = one.now_ms = 1000;
    assert_int_equal(set(&large, &other, 1001 * KIB), TT_BODY_NO_ROOM);
    assert_int_equal(set(&large, &one, 1001 * KIB), TT_BODY_NO_ROOM);
    assert_int_equal(other_woken, 0);
    assert_int_equal(set(&first, &one, 190 * KIB), TT_BODY_TAKEN);
    assert_int_equal(set(&second, &one, 100 * KIB), TT_BODY_TAKEN);
    assert_int_equal(other_woken, 2);
    tt_body_budget_relieve(&other);
    for (int i = 0; i < PARTS; i++) {
        evicted += waiting[i].evicted;
        tt_body_part_end(&waiting[i].part);
    }
    assert_int_equal(evicted, 2);
    assert_int_equal(large.evicted + first.evicted + second.evicted, 0);
    tt_body_part_end(&first.part);
    tt_body_part_end(&second.part);
    end();
}

/* Whatever bodies do, no part is evicted that is smaller than the one that asked, and sums agree.
 */
static void play(bool is_timed) {
    enum { BODIES = 40, STEPS = 20000 };
    static struct body bodies[BODIES];
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(26), 0);
    begin(20 * MIB);
    one.is_timed = other.is_timed = is_timed;
    for (int i = 0; i < BODIES; i++)
        bodies[i] = body_of();
    for (int step = 0; step < STEPS; step++) {
        int i = (int)(tt_prng_below(&prng, BODIES));
        struct body *body = &bodies[i];
        struct tt_body_budget *budget = i % 2 ? &one : &other;
        switch (tt_prng_below(&prng, 8)) {
        case 0: tt_body_part_end(&body->part); break;
        case 1: tt_body_part_clear(&body->part); break;
        case 2: tt_body_part_settle(&body->part); break;
        case 3: tt_body_budget_relieve(budget); break;
        case 4:
            budget->now_ms += (int64_t)tt_prng_below(&prng, 100);
            (void)set(body, budget, (int64_t)tt_prng_below(&prng, 2 * MIB));
            break;
        default: (void)take(body, budget, (size_t)tt_prng_below(&prng, MIB));
        }
        int64_t sum = 0;
        for (int k = 0; k < BODIES; k++)
            sum += bodies[k].part.bytes;
        assert_int_equal(sum, one.share.used + other.share.used);
    }
    int evicted = 0;
    for (int i = 0; i < BODIES; i++) {
        evicted += bodies[i].evicted;
        tt_body_part_end(&bodies[i].part);
    }
    assert_true(evicted > 100);
    assert_true(one_woken + other_woken > 10);
    end();
}

static void test_random(void **state) {
    (void)state;
    play(false);
    play(true);
}

/* A budget whose state is broken. */
static void break_part(void (*change)(struct body *body)) {
    struct body body = body_of();
    begin(MIB);
    assert_int_equal(take(&body, &one, 100 * KIB), TT_BODY_TAKEN);
    change(&body);
    tt_body_budget_check(&one);
}
static void forget(struct body *body) { one.largest_bytes -= body->part.bytes; }
static void grow(struct body *body) { body->part.bytes *= 2; }
static void stray(struct body *body) { body->part.budget = &other; }
static void complete(struct body *body) { body->part.is_complete = true; }
static void break_largest(void) { break_part(forget); }
static void break_size(void) { break_part(grow); }
static void break_budget(void) { break_part(stray); }
static void break_complete(void) { break_part(complete); }

static void test_check(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(break_largest, "(self->is_timed ? bytes : most) == self->largest_bytes"),
        BREACH(break_size, "part->bytes >> i == 1"),
        BREACH(break_budget, "part->budget == self"),
        BREACH(break_complete, "!part->is_complete"),
    };
    assert_all_break(breaches, sizeof(breaches) / sizeof(breaches[0]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_largest_of_the_thread),
        cmocka_unit_test(test_the_largest_of_all_threads),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_address),
        cmocka_unit_test(test_whose),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_timed),
        cmocka_unit_test(test_timed_asks_for_no_more),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
