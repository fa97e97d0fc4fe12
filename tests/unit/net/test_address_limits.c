/* threaded */
/* Limits per address: against a plain model, from several threads, and what the check sees. */
#include "net/access/address_limits.h"

#include "base/prng.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct tt_peer_address v4(int last) {
    struct tt_peer_address peer = {.is_known = true};
    peer.bytes[10] = peer.bytes[11] = 0xff;
    peer.bytes[12] = 10;
    peer.bytes[15] = (uint8_t)last;
    return peer;
}

static struct tt_peer_address v6(int network, int host) {
    struct tt_peer_address peer = {.is_known = true, .bytes = {0x20, 0x01}};
    peer.bytes[7] = (uint8_t)network;
    peer.bytes[15] = (uint8_t)host;
    return peer;
}

static void test_addresses(void **state) {
    (void)state;
    struct tt_address_limits *limits = tt_address_limits_new(2, 0);
    struct tt_address_place *first, *second, *third, *none;
    struct tt_error why = {{0}};
    const struct tt_peer_address one = v4(1), other = v4(2), unknown = {.is_known = false};
    assert_true(tt_address_limits_enter(limits, &one, &first, &why));
    assert_true(tt_address_limits_enter(limits, &one, &second, &why));
    assert_ptr_equal(first, second);
    assert_false(tt_address_limits_enter(limits, &one, &none, &why));
    assert_string_equal(why.text, "the client's address has 2 connections, the limit of each "
                                  "address (--limit-per-address); try again later");
    assert_true(tt_address_limits_enter(limits, &other, &third, &why));
    assert_int_equal(tt_address_limits_count(limits), 2);
    /* Requests of both connections of an address count together. */
    assert_true(tt_address_limits_begin(limits, first, &why));
    assert_true(tt_address_limits_begin(limits, second, &why));
    assert_false(tt_address_limits_begin(limits, first, &why));
    assert_non_null(strstr(why.text, "2 requests in flight"));
    assert_true(tt_address_limits_begin(limits, third, &why));
    tt_address_limits_end(third);
    tt_address_limits_end(first);
    assert_true(tt_address_limits_begin(limits, second, &why));
    tt_address_limits_end(first);
    tt_address_limits_end(first);
    tt_address_limits_check(limits);
    /* A client without an address has no limit. */
    for (int i = 0; i < 5; i++) {
        assert_true(tt_address_limits_enter(limits, &unknown, &none, &why));
        assert_null(none);
        assert_true(tt_address_limits_begin(limits, none, &why));
        tt_address_limits_end(none);
        tt_address_limits_leave(limits, none);
    }
    tt_address_limits_leave(limits, first);
    tt_address_limits_leave(limits, second);
    tt_address_limits_leave(limits, third);
    assert_int_equal(tt_address_limits_count(limits), 0);
    tt_address_limits_free(limits);
}

/* All connections of an address share what holds its bytes, and what still has a reference keeps
 * it. Connections and requests have no limit then. */
static void test_bytes(void **state) {
    (void)state;
    struct tt_address_limits *limits = tt_address_limits_new(0, 1000), *none;
    struct tt_address_place *first, *second, *third;
    struct tt_error why = {{0}};
    const struct tt_peer_address one = v4(1), other = v4(2);
    assert_true(tt_address_limits_enter(limits, &one, &first, &why));
    assert_true(tt_address_limits_enter(limits, &one, &second, &why));
    assert_true(tt_address_limits_enter(limits, &other, &third, &why));
    assert_true(tt_address_limits_begin(limits, first, &why));
    tt_address_limits_end(first);
    struct tt_byte_holder *holder = tt_byte_holder_ref(tt_address_place_holder(first));
    assert_ptr_equal(tt_address_place_holder(second), holder);
    assert_ptr_not_equal(tt_address_place_holder(third), holder);
    assert_true(tt_byte_holder_take(holder, 700));
    assert_false(tt_byte_holder_take(holder, 301));
    assert_true(tt_byte_holder_take(tt_address_place_holder(third), 301));
    tt_byte_holder_give(tt_address_place_holder(third), 301);
    assert_int_equal(tt_byte_holder_refuse_body(holder, &why), TT_ERR_BUSY);
    assert_string_equal(why.text, "the client's address has reached its limit of 1000 bytes of "
                                  "bodies in receipt at a time (--limit-bytes-per-address); send "
                                  "fewer at a time");
    tt_address_limits_check(limits);
    tt_address_limits_leave(limits, first);
    tt_address_limits_leave(limits, second);
    tt_address_limits_leave(limits, third);
    assert_int_equal(tt_address_limits_count(limits), 0);
    tt_byte_holder_give(holder, 700);
    tt_byte_holder_unref(holder);
    tt_address_limits_free(limits);
    assert_null(tt_address_place_holder(NULL));
    none = tt_address_limits_new(1, 0);
    assert_true(tt_address_limits_enter(none, &one, &first, &why));
    assert_null(tt_address_place_holder(first));
    tt_address_limits_leave(none, first);
    tt_address_limits_free(none);
}

/* Hosts of one IPv6 network are one client; IPv4 addresses are not. */
static void test_networks(void **state) {
    (void)state;
    struct tt_address_limits *limits = tt_address_limits_new(10, 0);
    struct tt_address_place *places[4];
    struct tt_error why;
    const struct tt_peer_address peers[] = {v6(1, 1), v6(1, 2), v6(2, 1), v4(1)};
    for (int i = 0; i < 4; i++)
        assert_true(tt_address_limits_enter(limits, &peers[i], &places[i], &why));
    assert_ptr_equal(places[0], places[1]);
    assert_ptr_not_equal(places[0], places[2]);
    assert_int_equal(tt_address_limits_count(limits), 3);
    for (int i = 0; i < 4; i++)
        tt_address_limits_leave(limits, places[i]);
    tt_address_limits_free(limits);
}

enum { ADDRESSES = 40, LIMIT = 3, STEPS = 20000 };

/* Random connections and requests against counts in arrays. */
static void test_against_a_plain_model(void **state) {
    (void)state;
    struct tt_prng prng;
    struct tt_address_limits *limits = tt_address_limits_new(LIMIT, 0);
    struct tt_address_place *places[ADDRESSES] = {NULL};
    int connections[ADDRESSES] = {0}, requests[ADDRESSES] = {0}, refused = 0;
    tt_prng_init(&prng, test_seed(6), 0);
    for (int step = 0; step < STEPS; step++) {
        int i = (int)tt_prng_below(&prng, ADDRESSES), others = 0;
        struct tt_peer_address peer = v4(i);
        struct tt_address_place *place;
        struct tt_error why;
        switch (tt_prng_below(&prng, 4)) {
        case 0:
            if (tt_address_limits_enter(limits, &peer, &place, &why)) {
                assert_true(connections[i]++ < LIMIT);
                places[i] = place;
            } else {
                assert_int_equal(connections[i], LIMIT);
                refused++;
            }
            break;
        case 1:
            if (connections[i] > 1 || (connections[i] == 1 && requests[i] == 0)) {
                connections[i]--;
                tt_address_limits_leave(limits, places[i]);
            }
            break;
        case 2:
            if (connections[i] && tt_address_limits_begin(limits, places[i], &why))
                assert_true(requests[i]++ < LIMIT);
            else if (connections[i])
                assert_int_equal(requests[i], LIMIT);
            break;
        default:
            if (requests[i]) {
                requests[i]--;
                tt_address_limits_end(places[i]);
            }
        }
        for (int k = 0; k < ADDRESSES; k++)
            others += connections[k] > 0;
        assert_int_equal(tt_address_limits_count(limits), others);
        if (step % 100 == 0)
            tt_address_limits_check(limits);
    }
    assert_true(refused > 0);
    for (int i = 0; i < ADDRESSES; i++) {
        for (; requests[i]; requests[i]--)
            tt_address_limits_end(places[i]);
        for (; connections[i]; connections[i]--)
            tt_address_limits_leave(limits, places[i]);
    }
    tt_address_limits_free(limits);
}

static struct tt_address_limits *shared;
static atomic_int open_now, most;

static void *client_main(void *context) {
    struct tt_prng prng;
    tt_prng_init(&prng, 9, (uint64_t)(uintptr_t)context);
    for (int i = 0; i < 5000; i++) {
        struct tt_address_place *place;
        struct tt_error why;
        const struct tt_peer_address peer = v4(1);
        if (!tt_address_limits_enter(shared, &peer, &place, &why))
            continue;
        int now = atomic_fetch_add(&open_now, 1) + 1, before = atomic_load(&most);
        while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
            ;
        if (tt_address_limits_begin(shared, place, &why))
            tt_address_limits_end(place);
        atomic_fetch_sub(&open_now, 1);
        tt_address_limits_leave(shared, place);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    shared = tt_address_limits_new(2, 0);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, client_main, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_in_range(atomic_load(&most), 1, 2);
    tt_address_limits_check(shared);
    assert_int_equal(tt_address_limits_count(shared), 0);
    tt_address_limits_free(shared);
}

static void leave_with_a_request(void) {
    struct tt_address_limits *limits = tt_address_limits_new(2, 0);
    struct tt_address_place *place;
    struct tt_error why;
    const struct tt_peer_address peer = v4(1);
    (void)!tt_address_limits_enter(limits, &peer, &place, &why);
    (void)!tt_address_limits_begin(limits, place, &why);
    tt_address_limits_leave(limits, place);
}

static void free_with_a_place(void) {
    struct tt_address_limits *limits = tt_address_limits_new(2, 0);
    struct tt_address_place *place;
    struct tt_error why;
    const struct tt_peer_address peer = v4(1);
    (void)!tt_address_limits_enter(limits, &peer, &place, &why);
    tt_address_limits_free(limits);
}

/* The place lies in the wrong bucket: its first member is its address. */
static void check_a_moved_place(void) {
    struct tt_address_limits *limits = tt_address_limits_new(2, 0);
    struct tt_address_place *place;
    struct tt_error why;
    const struct tt_peer_address peer = v4(1);
    (void)!tt_address_limits_enter(limits, &peer, &place, &why);
    memset((void *)place, 0xa5, 8);
    tt_address_limits_check(limits);
}

static void test_broken_rules(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(leave_with_a_request, "tt_client_limits_in_work(&place->requests) == 0"),
        BREACH(free_with_a_place, "take_self->count == 0"),
        BREACH(check_a_moved_place, "bucket_of(self, place->key)"),
    };
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_broken_rules), /* it forks: before the threads */
        cmocka_unit_test(test_against_a_plain_model),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
