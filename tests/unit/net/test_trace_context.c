/* W3C trace context: what is a context and what is none, and that what is written is read again. */
#include "net/telemetry/trace_context.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static const struct tt_trace_context *take(struct tt_trace_headers *headers, const char *parent,
                                           const char *trace_state) {
    tt_trace_headers_clear(headers);
    if (parent)
        tt_trace_headers_add_parent(headers, parent, strlen(parent));
    if (trace_state)
        tt_trace_headers_add_state(headers, trace_state, strlen(trace_state));
    return tt_trace_headers_take(headers);
}

static void test_a_valid_parent(void **state) {
    (void)state;
    struct tt_trace_headers headers;
    const struct tt_trace_context *context = take(&headers, PARENT, NULL);
    char again[TT_TRACEPARENT_BYTES];
    assert_non_null(context);
    assert_true(context->is_sampled);
    assert_int_equal(context->trace_id[0], 0x0a);
    assert_int_equal(context->trace_id[15], 0x9c);
    assert_int_equal(context->span_id[7], 0x31);
    assert_int_equal(context->state_bytes, 0);
    tt_traceparent_write(context, again);
    assert_memory_equal(again, PARENT, sizeof(again));
    /* Of the flags only the first bit is known; a later version may have more behind them. */
    context = take(&headers, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe", NULL);
    assert_non_null(context);
    assert_false(context->is_sampled);
    assert_non_null(
        take(&headers, "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", NULL));
    context =
        take(&headers, "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what.comes", NULL);
    assert_non_null(context);
    tt_traceparent_write(context, again);
    assert_memory_equal(again, PARENT, sizeof(again)); /* answered in the version that we know */
}

static void test_malformed_parents(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        PARENT "-",
        PARENT "0",
        (PARENT "-more"), /* version 00 has no more */
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333x-01",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
        (" " PARENT),
    };
    struct tt_trace_headers headers;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (take(&headers, bad[i], "a=1"))
            fail_msg("'%s' is taken", bad[i]);
    assert_null(take(&headers, NULL, "a=1"));
    tt_trace_headers_clear(&headers);
    tt_trace_headers_add_parent(&headers, PARENT, strlen(PARENT));
    tt_trace_headers_add_parent(&headers, PARENT, strlen(PARENT));
    assert_null(tt_trace_headers_take(&headers)); /* two are ambiguous, even if equal */
}

/* The state that is kept, "" if none. */
static const char *kept_state(const char *trace_state) {
    static char text[TT_TRACE_STATE_BYTES + 1];
    struct tt_trace_headers headers;
    const struct tt_trace_context *context = take(&headers, PARENT, trace_state);
    assert_non_null(context);
    memcpy(text, context->state, context->state_bytes);
    text[context->state_bytes] = '\0';
    return text;
}

static void test_states(void **state) {
    (void)state;
    static const char *const good[] = {
        "a=1",    "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "a=1, b=2 ,,\tc= x y",
        "1t@s=v", "fw529a3039@dt=FfAAAAAAAAAAAAAAAAAA",      "a-b_c*d/e=~!",
    };
    static const char *const bad[] = {
        "a",      "=1",         "a=",      "A=1",
        "1a=1",   "a=1,a=2",    "a=b=c",   "a b=1",
        "a=\x7f", "a=\xc3\xa9", "t@=1",    "@s=1",
        "t@1s=1", "a=1,\nb=2",  "t@s@s=1", "t@system-name-too-long=1",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_string_equal(kept_state(good[i]), good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_string_equal(kept_state(bad[i]), "");
}

static void test_the_size_of_states(void **state) {
    (void)state;
    char list[TT_TRACE_STATE_BYTES + 8] = "";
    for (int i = 0; i < TT_TRACE_STATE_MEMBERS; i++)
        sprintf(list + strlen(list), "%sk%d=v", i ? "," : "", i);
    assert_string_equal(kept_state(list), list);
    strcat(list, ",more=v");
    assert_string_equal(kept_state(list), "");
    memset(list, 'v', sizeof(list));
    memcpy(list, "k=", 2);
    list[2 + 256] = '\0';
    assert_string_equal(kept_state(list), list);
    list[2 + 256] = 'v';
    list[2 + 257] = '\0';
    assert_string_equal(kept_state(list), "");
    struct tt_trace_headers headers;
    take(&headers, PARENT, "a=1");
    tt_trace_headers_add_state(&headers, "", 0);
    tt_trace_headers_add_state(&headers, "b=2", 3);
    assert_memory_equal(tt_trace_headers_take(&headers)->state, "a=1,b=2", 7);
    tt_trace_headers_add_state(&headers, list, TT_TRACE_STATE_BYTES - 7); /* with its comma */
    assert_int_equal(tt_trace_headers_take(&headers)->state_bytes, 0);
}

/* Random edits of valid headers: whatever is taken is written and read again as the same. */
static void test_random_edits(void **state) {
    (void)state;
    static const char alphabet[] = "0123456789abcdefABF-=, @\t\x80z";
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(23), 0);
    int taken = 0;
    for (int i = 0; i < 200000; i++) {
        char parent[80] = PARENT, trace_state[40] = "rojo=00f067,t@s=v w,congo=t61", again[64] = "";
        size_t edits = tt_prng_below(&prng, 4);
        for (size_t k = 0; k < edits; k++) {
            parent[tt_prng_below(&prng, 57)] = alphabet[tt_prng_below(&prng, sizeof(alphabet))];
            trace_state[tt_prng_below(&prng, 30)] =
                alphabet[tt_prng_below(&prng, sizeof(alphabet))];
        }
        struct tt_trace_headers headers, second;
        const struct tt_trace_context *context = take(&headers, parent, trace_state);
        if (!context)
            continue;
        taken++;
        tt_traceparent_write(context, again);
        char kept[TT_TRACE_STATE_BYTES + 1] = "";
        memcpy(kept, context->state, context->state_bytes);
        const struct tt_trace_context *same = take(&second, again, kept);
        assert_non_null(same);
        assert_memory_equal(same->trace_id, context->trace_id, TT_TRACE_ID_BYTES);
        assert_memory_equal(same->span_id, context->span_id, TT_SPAN_ID_BYTES);
        assert_int_equal(same->is_sampled, context->is_sampled);
        assert_int_equal(same->state_bytes, context->state_bytes);
    }
    assert_in_range(taken, 50000, 200000); /* a quarter is not edited at all */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_valid_parent), cmocka_unit_test(test_malformed_parents),
        cmocka_unit_test(test_states),         cmocka_unit_test(test_the_size_of_states),
        cmocka_unit_test(test_random_edits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
