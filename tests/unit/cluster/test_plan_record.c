/* The record of a plan: of two writers the one of the higher epoch stands, and what is not answered
 * is tried again. */
#include "base/instant.h"
#include "cluster/plan_record.h"
#include "unit/breach.h"

struct desk {
    struct tt_plan_record record;
    struct tt_coordination_request sent;
    int32_t sends, ends;
    bool is_recorded;
};

static void on_send(void *context, const struct tt_coordination_request *request) {
    struct desk *self = context;
    self->sent = *request;
    self->sends++;
}

static void on_end(void *context, int64_t now, bool is_recorded) {
    (void)now;
    struct desk *self = context;
    self->ends++;
    self->is_recorded = is_recorded;
}

static void desk_init(struct desk *self) {
    *self = (struct desk){0};
    tt_plan_record_init(&self->record, TT_S);
    self->record.context = self;
    self->record.send = on_send;
    self->record.ended = on_end;
    tt_plan_record_check(&self->record);
}

static void answer(struct desk *self, bool is_done, uint64_t epoch, int64_t revision) {
    tt_plan_record_answered(
        &self->record, 10,
        &(struct tt_coordination_answer){
            .number = self->sent.number, .is_done = is_done, .epoch = epoch, .revision = revision});
    tt_plan_record_check(&self->record);
}

static void a_plan_is_recorded(void **state) {
    (void)state;
    struct desk desk;
    desk_init(&desk);
    assert_int_equal(tt_plan_record_next_at(&desk.record), TT_NEVER);
    tt_plan_record_write(&desk.record, 0, 5, "5\nplan");
    assert_int_equal(desk.sent.verb, TT_COORDINATION_SWAP);
    assert_int_equal(desk.sent.key, TT_COORDINATION_PLACEMENT);
    assert_true(desk.sent.number > TT_PLAN_RECORD_NUMBERS);
    assert_int_equal(desk.sent.revision, 0);
    assert_string_equal(desk.sent.value, "5\nplan");
    answer(&desk, false, 4, 70); /* of an earlier primary: it is replaced */
    assert_int_equal(desk.sends, 2);
    assert_int_equal(desk.sent.revision, 70);
    assert_int_equal(desk.ends, 0);
    answer(&desk, true, 5, 71);
    assert_int_equal(desk.ends, 1);
    assert_true(desk.is_recorded);
    tt_plan_record_fini(&desk.record);
}

static void a_later_primary_stands(void **state) {
    (void)state;
    struct desk desk;
    desk_init(&desk);
    tt_plan_record_write(&desk.record, 0, 5, "5\nplan");
    answer(&desk, false, 6, 70);
    assert_int_equal(desk.ends, 1);
    assert_false(desk.is_recorded);
    assert_int_equal(desk.sends, 1);
    tt_plan_record_fini(&desk.record);
}

static void silence_and_errors_are_tried_again(void **state) {
    (void)state;
    struct desk desk;
    desk_init(&desk);
    tt_plan_record_write(&desk.record, 0, 5, "5\nplan");
    uint64_t first = desk.sent.number;
    tt_plan_record_tick(&desk.record, TT_S - 1);
    assert_int_equal(desk.record.failures, 0);
    tt_plan_record_tick(&desk.record, TT_S);
    assert_int_equal(desk.record.failures, 1);
    tt_plan_record_check(&desk.record);
    int64_t retry_at = tt_plan_record_next_at(&desk.record);
    assert_true(retry_at > TT_S && retry_at != TT_NEVER);
    tt_plan_record_tick(&desk.record, retry_at);
    assert_int_equal(desk.sends, 2);
    desk.sent.number = first; /* the answer to the first comes now: too late */
    answer(&desk, true, 5, 9);
    assert_int_equal(desk.ends, 0);
    tt_plan_record_fini(&desk.record);
}

/* The text changes while the former one is under way: that is not the end. */
static void a_text_that_is_replaced_is_written(void **state) {
    (void)state;
    struct desk desk;
    desk_init(&desk);
    tt_plan_record_write(&desk.record, 0, 5, "5\nbegun");
    tt_plan_record_write(&desk.record, 1, 5, "5\ndone");
    assert_int_equal(desk.sends, 1);
    answer(&desk, true, 5, 9);
    assert_int_equal(desk.ends, 0);
    assert_int_equal(desk.sends, 2);
    assert_string_equal(desk.sent.value, "5\ndone");
    assert_int_equal(desk.sent.revision, 9);
    answer(&desk, true, 5, 10);
    assert_int_equal(desk.ends, 1);
    tt_plan_record_fini(&desk.record);
}

static void want_without_a_call(void) {
    struct desk desk;
    desk_init(&desk);
    desk.record.is_wanted = true;
    tt_plan_record_check(&desk.record);
}

static void broken_records_are_found(void **state) {
    (void)state;
    static const struct breach breaches[] = {BREACH(want_without_a_call, "is_pursued")};
    assert_all_break(breaches, sizeof(breaches) / sizeof(*breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_recorded),
        cmocka_unit_test(a_later_primary_stands),
        cmocka_unit_test(silence_and_errors_are_tried_again),
        cmocka_unit_test(a_text_that_is_replaced_is_written),
        cmocka_unit_test(broken_records_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
