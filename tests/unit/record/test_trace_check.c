/* A trace whose tables disagree, or whose rings are used by two domains, is caught. */
#include "record/trace_internal.h"

#include "unit/breach.h"

static struct tt_mechanism mechanisms[2] = {{.model_capacity = 2}, {.model_capacity = 3}};

static struct tt_trace *trace_of(struct tt_trace_tap *taps[2]) {
    struct tt_trace *trace;
    struct tt_error why;
    if (tt_trace_new(16, &trace, &why))
        _exit(3);
    for (int i = 0; i < 2; i++) {
        mechanisms[i].observers = NULL;
        if (tt_trace_add(trace, &mechanisms[i], i ? "serial" : "window", &taps[i], &why))
            _exit(3);
    }
    return trace;
}

static void rings_are_used_again(void **state) {
    (void)state;
    struct tt_trace_tap *taps[2], *again;
    struct tt_error why;
    struct tt_trace *trace = trace_of(taps);
    tt_trace_check(trace);
    assert_int_equal(tt_trace_tap_domain(taps[1]), 1);
    tt_trace_leave(taps[0]);
    assert_int_equal(tt_trace_add(trace, &mechanisms[1], "window", &again, &why), TT_OK);
    assert_ptr_equal(again, taps[0]);
    assert_int_equal(tt_trace_tap_domain(again), 2);
    tt_trace_check(trace);
    tt_trace_leave(again);
    tt_trace_leave(taps[1]);
    tt_trace_free(trace);
}

static void left_twice(void) {
    struct tt_trace_tap *taps[2];
    trace_of(taps);
    tt_trace_leave(taps[0]);
    tt_trace_leave(taps[0]);
}
static void freed_while_it_is_used(void) {
    struct tt_trace_tap *taps[2];
    tt_trace_free(trace_of(taps));
}
static void one_domain_in_two_rings(void) {
    struct tt_trace_tap *taps[2];
    struct tt_trace *trace = trace_of(taps);
    taps[1]->domain = taps[0]->domain;
    tt_trace_check(trace);
}
static void a_policy_without_a_name(void) {
    struct tt_trace_tap *taps[2];
    struct tt_trace *trace = trace_of(taps);
    trace->policies[1] = trace->name_count;
    tt_trace_check(trace);
}
static void a_name_kept_twice(void) {
    struct tt_trace_tap *taps[2];
    struct tt_trace *trace = trace_of(taps);
    trace->names[1] = trace->names[0];
    tt_trace_check(trace);
}

static void broken_traces_are_caught(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(left_twice, "tap->in_use"),
        BREACH(freed_while_it_is_used, "!tap->in_use"),
        BREACH(one_domain_in_two_rings, "tap->domain != other->domain"),
        BREACH(a_policy_without_a_name, "self->policies[d] < self->name_count"),
        BREACH(a_name_kept_twice, "strcmp(self->names[i], self->names[k]) != 0"),
    };
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_are_used_again),
        cmocka_unit_test(broken_traces_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
