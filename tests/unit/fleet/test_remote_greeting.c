/* Messages about memory that UCX reaches: only whole, signed ones whose sizes make sense are
 * believed. */
#include "base/prng.h"
#include "fleet/input_board.h"
#include "fleet/remote_greeting.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 5000, MOST = 1024 };

static struct tt_error why;
static const uint8_t session[TT_HANDSHAKE_PROOF_BYTES] = {1, 2, 3}, part[100] = {5, 6, 7};

static struct tt_remote_message offer(void) {
    return (struct tt_remote_message){.kind = TT_REMOTE_OFFER,
                                      .serial = 3,
                                      .entries = 4096,
                                      .input_at = 1 << 20,
                                      .input_bytes = 64 << 20,
                                      .result_at = 1 << 30,
                                      .result_bytes = 16 << 20,
                                      .parts = {part, part, part},
                                      .part_bytes = {100, 30, 40}};
}

static size_t write(const struct tt_remote_message *message, uint8_t *bytes) {
    size_t count = tt_remote_message_bytes(message);
    assert_true(count <= MOST);
    tt_remote_message_write(message, session, bytes);
    return count;
}

static enum tt_err read_again(const struct tt_remote_message *message,
                              struct tt_remote_message *out) {
    static uint8_t bytes[MOST];
    return tt_remote_message_read(bytes, write(message, bytes), session, out, &why);
}

static void a_message_arrives_as_it_was(void **state) {
    (void)state;
    const struct tt_remote_message sent = offer();
    struct tt_remote_message got;
    assert_int_equal(read_again(&sent, &got), TT_OK);
    assert_true(got.kind == sent.kind && got.serial == 3 && got.entries == 4096);
    assert_true(got.input_at == sent.input_at && got.input_bytes == sent.input_bytes);
    assert_true(got.result_at == sent.result_at && got.result_bytes == sent.result_bytes);
    for (int32_t i = 0; i < TT_REMOTE_PARTS; i++) {
        assert_int_equal(got.part_bytes[i], sent.part_bytes[i]);
        assert_memory_equal(got.parts[i], part, got.part_bytes[i]);
    }
    for (int32_t kind = TT_REMOTE_HOLD; kind < TT_REMOTE_KINDS; kind++) {
        const struct tt_remote_message bare = {.kind = (enum tt_remote_kind)kind, .serial = 9};
        assert_int_equal(read_again(&bare, &got), TT_OK);
        assert_true((int32_t)got.kind == kind && got.serial == 9);
    }
    const struct tt_remote_message refused = {
        .kind = TT_REMOTE_REFUSED, .parts = {part}, .part_bytes = {100}};
    assert_int_equal(read_again(&refused, &got), TT_OK);
    assert_int_equal(got.part_bytes[0], 100);
}

/* Signed by a peer, and yet not believed. */
static void sizes_without_sense(void **state) {
    (void)state;
    struct tt_remote_message bad[] = {offer(), offer(), offer(), offer(), offer(), offer(), offer(),
                                      offer(), offer(), offer(), offer(), offer(), offer()};
    bad[0].entries = 0;
    bad[1].entries = (1 << 16) + 1;
    bad[2].entries = -1;
    bad[3].input_at = 0;
    bad[4].input_at = UINT64_MAX - 100;
    bad[5].input_bytes = TT_MEMORY_REGION_MAX_BYTES + (uint64_t)1;
    bad[6].input_bytes = tt_input_board_bytes(4096, 0);
    bad[7].result_at = 0;
    bad[8].result_bytes = 64;
    bad[9].part_bytes[0] = 0;
    bad[10].part_bytes[2] = 0;
    bad[11].kind = TT_REMOTE_HOLD; /* which has none of this */
    bad[12].kind = TT_REMOTE_KINDS;
    struct tt_remote_message got;
    for (size_t i = 0; i < TT_COUNT(bad); i++) {
        assert_int_equal(read_again(&bad[i], &got), TT_ERR_INVALID);
        assert_non_null(strstr(why.text, "makes no sense"));
    }
}

static void another_link_or_another_release(void **state) {
    (void)state;
    static const uint8_t other[TT_HANDSHAKE_PROOF_BYTES] = {1, 2, 4};
    const struct tt_remote_message sent = offer();
    struct tt_remote_message got;
    uint8_t bytes[MOST];
    size_t count = write(&sent, bytes);
    assert_int_equal(tt_remote_message_read(bytes, count, other, &got, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "wrong tag"));
    for (size_t length = 0; length < count; length++)
        assert_int_equal(tt_remote_message_read(bytes, length, session, &got, &why),
                         TT_ERR_INVALID);
}

static void no_changed_message_is_believed(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(3), 0);
    const struct tt_remote_message sent = offer();
    struct tt_remote_message got;
    uint8_t bytes[MOST], changed[MOST];
    size_t count = write(&sent, bytes);
    for (int32_t i = 0; i < STEPS; i++) {
        memcpy(changed, bytes, count);
        changed[tt_prng_below(&prng, count)] ^= (uint8_t)(1 + tt_prng_below(&prng, 255));
        assert_int_equal(tt_remote_message_read(changed, count, session, &got, &why),
                         TT_ERR_INVALID);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_arrives_as_it_was),
        cmocka_unit_test(sizes_without_sense),
        cmocka_unit_test(another_link_or_another_release),
        cmocka_unit_test(no_changed_message_is_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
