/* What an identity may hold in answers; and that an eviction is counted. */
#include "net/access/answer_budget.h"

#include "net/access/access_control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { KIB = 1024 };

static void test_share(void **state) {
    (void)state;
    static const char text[] =
        "ann infer 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef bytes=1048576\n"
        "bob infer 1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";
    struct tt_token_table *table;
    struct tt_error why;
    struct tt_answer_share large = {0}, second = {0}, small = {0}, none = {0}, unlimited = {0};
    assert_int_equal(tt_token_table_parse("tokens", text, strlen(text), NULL, &table, &why), TT_OK);
    struct tt_identity *ann = table->entries[0].identity, *bob = table->entries[1].identity;
    assert_true(tt_answer_share_take(&none, NULL, 4096 * KIB, &why));
    assert_true(tt_answer_share_take(&unlimited, &bob->holder, 4096 * KIB, &why));
    assert_int_equal(tt_client_limits_bytes(&bob->holder.limits), 0);
    assert_true(tt_answer_share_take(&small, &ann->holder, 64 * KIB, &why));
    assert_int_equal(tt_client_limits_bytes(&ann->holder.limits), 0);
    assert_true(tt_answer_share_take(&large, &ann->holder, 2048 * KIB, &why)); /* alone */
    assert_int_equal(tt_client_limits_bytes(&ann->holder.limits), 2048 * KIB);
    assert_false(tt_answer_share_take(&second, &ann->holder, 65 * KIB, &why));
    assert_non_null(strstr(why.text, "ann has reached its limit of 1048576 bytes"));
    tt_answer_share_give(&second); /* it has nothing */
    tt_answer_share_give(&large);
    tt_answer_share_give(&large);
    assert_true(tt_answer_share_take(&large, &ann->holder, 600 * KIB, &why));
    assert_true(tt_answer_share_take(&second, &ann->holder, 424 * KIB, &why));
    assert_false(tt_answer_share_take(&none, &ann->holder, 100 * KIB, &why));
    tt_answer_share_give(&large);
    tt_answer_share_give(&second);
    assert_int_equal(tt_client_limits_bytes(&ann->holder.limits), 0);
    tt_token_table_unref(table);
}

struct connection {
    struct tt_body_part part; /* the first member */
    struct tt_answer_budget *budget;
};

static void on_evicted(struct tt_body_part *part) {
    struct connection *self = (struct connection *)part;
    const struct tt_peer_address unknown = {.is_known = false};
    tt_answer_budget_evicted(self->budget, &unknown, part->bytes);
    tt_body_part_end(part);
}

static void test_evicted(void **state) {
    (void)state;
    struct tt_quota quota;
    struct tt_answer_budget budget;
    tt_quota_init(&quota, 1000 * KIB);
    tt_answer_budget_init(&budget, &quota, NULL, NULL);
    struct connection first = {{.evict = on_evicted}, &budget}, second = first;
    assert_true(tt_answer_budget_count(NULL, &first.part, 2000 * KIB, 0)); /* no limit */
    assert_true(tt_answer_budget_count(&budget, &first.part, 700 * KIB, 0));
    assert_true(tt_answer_budget_count(&budget, &second.part, 800 * KIB, 5));
    assert_int_equal(tt_counter_get(&budget.evicted), 1);
    assert_int_equal(first.part.bytes, 0);
    assert_false(tt_answer_budget_count(&budget, &second.part, 1100 * KIB, 5));
    assert_int_equal(tt_counter_get(&budget.evicted), 1);
    assert_true(tt_answer_budget_count(&budget, &second.part, 0, 5));
    tt_answer_budget_fini(&budget);
    assert_int_equal(tt_quota_used(&quota), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_evicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
